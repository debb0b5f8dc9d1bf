"""The hash and the order of LLVM's map; the order is compared with the tool in test_reference.py."""

from __future__ import annotations

import hashlib

import pytest

from fatpack.codecs.hashes import xxh3
from fatpack.formats.clang_bundle.text_reader import llvm_order, positions_in_llvm_order


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x2D06800538D394C2),
        (b"a", 0xE6C632B61E964E1F),
        (b"hip", 0x2C8D7F13640BAD33),
        (b"host", 0x967FEB04C03E27B2),
        (b"12345678", 0x62E29B4CAD9E2EF6),
        (b"123456789", 0x72DCB18B67A17DFF),
        (b"0123456789abcdef", 0x64439946D8FA212D),
        (b"host-x86_64-unknown-linux-gnu-", 0x9545CB069EC060AC),
        (b"hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", 0x9886D7393C4E4A4E),
        (b"x" * 129, 0xE4F9742108FE27DC),
        (b"y" * 240, 0x5E839BA32D77D222),
        (b"z" * 241, 0xC9B6E99DE4449036),
        (b"w" * 1025, 0x9AB3811B25E43ECD),
    ],
)
def test_hashes_equal_those_recorded_from_xxhash(data: bytes, expected: int) -> None:
    assert xxh3(data) == expected


def test_hashes_of_every_length_equal_those_of_xxhash() -> None:
    """The digest is that of the hashes of the ``xxhash`` package 4.1 for all lengths up to 2100: every branch of
    XXH3."""
    data = bytes(number * number % 251 for number in range(2100))
    digest = hashlib.sha256()
    for size in range(len(data) + 1):
        digest.update(xxh3(data[:size]).to_bytes(8, "little"))
    assert digest.hexdigest() == "a48fef5a06d6be0e05220dad061b05aebf45951d6b11bcaf3834d34ba7a2d410"


def test_duplicates_are_listed_once_where_the_last_one_is() -> None:
    assert sorted(positions_in_llvm_order([b"a", b"b", b"a"])) == [1, 2]


def test_the_map_grows_and_keeps_every_key() -> None:
    keys = [b"key%d" % number for number in range(1000)]
    order = llvm_order(keys)
    assert sorted(order) == sorted(keys)
    assert order != keys
    assert llvm_order([]) == []
