"""``check_codes``, which ``doctor`` asks, raises what ``code_digests`` raises, of damaged cubins too."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from tests.effort import some
from tests.laws.rooms import FIXTURES

from fatpack import images
from fatpack.errors import FormatError
from fatpack.io.source import BytesSource

CUBINS = sorted((FIXTURES / "kernels").glob("*.cubin")) + sorted((FIXTURES / "cuda" / "cubin").glob("*.cubin"))

#: numbers that a damaged field may have
VALUES = (0, 1, 3, 0x7F, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF)


def outcome(data: bytes, *, digests: bool) -> str:
    """Return the error about a cubin's kernels or code, "" if there is none."""
    view = BytesSource(data, "x.cubin").view()
    try:
        kernels = images.facts(view, "cubin").kernels
        if digests:
            images.code_digests(view, "cubin", kernels)
        else:
            images.check_codes(view, "cubin")
    except FormatError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def damaged(data: bytes, chance: random.Random) -> bytes:
    """Return a cubin with another number in a row of the section table, or another byte in a table."""
    start, rows = struct.unpack_from("<Q", data, 0x28)[0], struct.unpack_from("<H", data, 0x3C)[0]
    made = bytearray(data)
    row = start + 64 * chance.randrange(rows)
    if chance.random() < 0.5:
        struct.pack_into("<I", made, row + 4 * chance.randrange(16), chance.choice(VALUES))
        return bytes(made)
    offset, size = struct.unpack_from("<QQ", data, row + 24)
    if size and offset + size <= len(data):
        made[offset + chance.randrange(size)] = chance.randrange(256)
    return bytes(made)


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_a_check_raises_what_digests_raise(path: Path) -> None:
    data, chance = path.read_bytes(), random.Random(path.name)
    assert not outcome(data, digests=True) and not outcome(data, digests=False)
    found = set()
    for _ in some(range(400)):
        bad = damaged(data, chance)
        told = outcome(bad, digests=True)
        assert outcome(bad, digests=False) == told
        found.add(told)
    assert len(found) > 2
