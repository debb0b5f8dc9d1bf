"""The hashes by which LLVM orders its maps: recorded from LLVM and from the ``xxhash`` package."""

from __future__ import annotations

import hashlib

import pytest

from fatpack.codecs.hashes import hash_key, xxh3


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


@pytest.mark.parametrize(
    ("size", "expected"), [(9000, 0x973D3D33B0F47132), (20001, 0x46903B9E96AEF1C8), (70000, 0x2DED18F75DA297CD)]
)
def test_hashes_of_many_blocks_equal_those_of_xxhash(size: int, expected: int) -> None:
    """Recorded from the ``xxhash`` package 4.1."""
    assert xxh3(bytes(number * number % 251 for number in range(size))) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"", 0xC2C5CC82),
        (b"arch", 0xF386C709),
        (b"triple", 0x0819B0D8),
        (b"compile-opts", 0x30E66573),
        (b"x" * 17, 0xEC57EDD5),
        (b"y" * 40, 0x845740EF),
        (b"z" * 64, 0xF4A9A1B7),
    ],
)
def test_key_hashes_equal_those_recorded_from_llvm_22(key: bytes, expected: int) -> None:
    assert hash_key(key) == expected


def test_key_hashes_of_every_length_equal_those_of_llvm_22() -> None:
    """The digest is that of ``hash_combine_range`` (Hashing.h of LLVM 22.1.8) for all lengths up to 2100."""
    data = bytes(number * number % 251 for number in range(2100))
    digest = hashlib.sha256()
    for size in range(len(data) + 1):
        digest.update(hash_key(data[:size]).to_bytes(4, "little"))
    assert digest.hexdigest() == "27e5bbb4962526a4708eea059be025b831cb07129ecc2c41270e146775d6141c"
