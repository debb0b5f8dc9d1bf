"""Facts of images come back from the cache as they were read, or are read again."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from tests.builders import offered
from tests.laws.rooms import FIXTURES

from fatpack import images, limits
from fatpack.images.build_traces import build_traces
from fatpack.images.cache import CacheInEffect
from fatpack.images.identity import image_digest
from fatpack.io.cache_folder import CacheFolder
from fatpack.io.source import BytesSource, View
from fatpack.limits import Budget
from fatpack.scanner import scan

FILES = sorted((FIXTURES / "cuda_fatbin" / "recorded").glob("*.fatbin")) + sorted(
    (FIXTURES / "clang_bundle").glob("*.bundle")
)


def _views(data: bytes, budget: Budget | None = None) -> Iterator[View]:
    source = BytesSource(data, "file")
    source.budget = budget or Budget()
    for found in scan(source.view()):
        for image in getattr(found, "images", ()):
            yield image.data


def _facts(view: View) -> list[Any]:
    """Return all that is asked of an image."""
    info = images.identify_image(view)
    facts = images.facts(view, info.form)
    codes = images.code_digests(view, info.form, facts.kernels)
    return [
        info,
        images.kernels(view, info.form),
        facts,
        images.code_sizes(view, info.form),
        codes,
        images.function_digests(view, info.form),
        images.content_digest(view),
        image_digest(view, info.form, *codes, "sm_80"),
        build_traces(view, info.form),
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_all_facts_come_back_as_they_were_read(path: Path, tmp_path: Path) -> None:
    data = path.read_bytes()
    right = [_facts(view) for view in _views(data)]
    for _ in range(2):
        with CacheInEffect(str(tmp_path / "kept")):
            assert [_facts(view) for view in _views(data)] == right


def test_the_bytes_that_reading_inflates_are_charged(tmp_path: Path) -> None:
    large = offered.cuda("75 80 90 zstd") + (FIXTURES / "clang_bundle" / "fatpack-v1-zstd.bundle").read_bytes()
    drawn = []
    for kept in (None, tmp_path / "kept", tmp_path / "kept"):
        budget = Budget()
        with nullcontext() if kept is None else CacheInEffect(str(kept)):
            for view in _views(large, budget):
                _facts(view)
        drawn.append(budget.drawn)
    assert drawn == [drawn[0]] * 3


def test_other_limits_have_answers_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = offered.cuda("75 80 zstd")
    with CacheInEffect(str(tmp_path)):
        before = [images.facts(view, "cubin") for view in _views(data)]
        count = sum(path.is_file() for path in tmp_path.rglob("*"))
        monkeypatch.setattr(limits, "IMAGE_SECTIONS", limits.IMAGE_SECTIONS - 1)
        assert [images.facts(view, "cubin") for view in _views(data)] == before
        assert sum(path.is_file() for path in tmp_path.rglob("*")) == 2 * count


#: values that no record has in any place
WRONG = [None, 1.5, "text", True, -1, [], [[]], {}, {"a": []}, [None] * 6, [1] * 3, [3, [None] * 20, []]]


@pytest.mark.parametrize("wrong", [b"", b"no zlib", zlib.compress(b"[1"), zlib.compress(b"[" * 100_000)])
def test_a_record_of_another_form_is_read_again(tmp_path: Path, wrong: bytes) -> None:
    _forge(tmp_path, lambda _: wrong)


@pytest.mark.parametrize("wrong", WRONG, ids=repr)
def test_a_record_with_another_value_is_read_again_or_has_its_type(tmp_path: Path, wrong: Any) -> None:
    _forge(tmp_path, lambda kept: zlib.compress(json.dumps([kept[0], wrong]).encode()))
    _forge(tmp_path, lambda kept: zlib.compress(json.dumps([wrong, kept[1]]).encode()))


@pytest.mark.parametrize("wrong", [None, 1.5, True, {}, [], ["a", 1], "1 x"], ids=repr)
def test_a_record_with_another_value_inside_is_read_again_or_has_its_type(tmp_path: Path, wrong: Any) -> None:
    def forged(kept: list[Any], at: int) -> bytes:
        parts = kept[1]
        if isinstance(parts, list) and len(parts) > at:
            parts[at] = wrong
            if at == 1 and isinstance(parts[at], list):
                parts[at] = [wrong] * 20
        return zlib.compress(json.dumps([kept[0], parts]).encode())

    for at in range(4):
        _forge(tmp_path, lambda kept, at=at: forged(kept, at))


def _forge(tmp_path: Path, change: Any) -> None:
    """Change the body of every record; the facts are of the right types after that, most of them read again."""
    data = offered.cuda("75 zstd")
    (view,) = _views(data)
    right = _facts(view)
    with CacheInEffect(str(tmp_path)):
        (view,) = _views(data)
        assert _facts(view) == right
        folder = CacheFolder(str(tmp_path))
        for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
            key = bytes.fromhex(path.parent.name + path.name)
            for name, body in folder.read(key).items():
                folder.add(key, name, change(json.loads(zlib.decompress(body))))
        (view,) = _views(data)
        again = _facts(view)
    assert list(map(type, again)) == list(map(type, right))
    for path in [path for path in tmp_path.rglob("*") if path.is_file()]:
        path.unlink()
