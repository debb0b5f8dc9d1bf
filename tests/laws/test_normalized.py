"""Normalizing a file keeps its device code and changes free fields alone, for every fixture; twice is once."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.laws.test_explain_and_slim import FILES

import fatpack
from fatpack.errors import FatpackError

#: what is refused: packages, and files of which not all can be read
REFUSED = ("without all of it nothing is proved", "this is a package")

#: objects of nvcc with names of temporary files in them
WITH_FREE_FIELDS = ("k1.rdc.o", "main.rdc.o")


def check(path: Path) -> str:
    """Normalize a file twice, with its proof; return the verdict, or why it was refused."""
    data, once, twice = path.read_bytes(), io.BytesIO(), io.BytesIO()
    try:
        result = fatpack.normalize(data, once)
    except FatpackError as error:
        words = str(error)
        assert any(part in words for part in REFUSED), (path, words)
        return "refused"
    made = once.getvalue()
    assert len(made) == len(data)
    changed = {at for field in result.fields for at in range(field.offset, field.offset + len(field.after))}
    assert all(one == other or at in changed for at, (one, other) in enumerate(zip(data, made, strict=True)))
    again = fatpack.normalize(made, twice)
    assert (again.fields, twice.getvalue()) == ((), made)
    assert again.digest == result.digest
    return result.verdict


def test_small_fixtures_keep_their_device_code() -> None:
    small = sorted((path for path in FILES if path.stat().st_size < 6000), key=str)[::3]
    verdicts = [check(path) for path in (*small, *(path for path in FILES if path.name in WITH_FREE_FIELDS))]
    assert verdicts.count("refused") < len(small) / 4, verdicts
    assert verdicts.count("normalized") >= len(WITH_FREE_FIELDS), verdicts


@pytest.mark.slow
def test_every_fixture_keeps_its_device_code() -> None:
    verdicts = [check(path) for path in FILES if path.suffix not in (".py", ".sh")]
    assert {"normalized", "unchanged"} <= set(verdicts)
