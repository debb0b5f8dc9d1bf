"""IDs above the limit: reported in short messages, and the other entries are listed."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from tests.builders import elf as build

from fatpack import limits
from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan

PREFIX = "hip-amdgcn-amd-amdhsa--"
START = "\n// __CLANG_OFFLOAD_BUNDLE____START__ "
END = "\n// __CLANG_OFFLOAD_BUNDLE____END__ "


def binary(*spellings: str) -> bytes:
    at = 32 + sum(24 + len(spelling) for spelling in spellings)
    header = struct.pack("<24sQ", b"__CLANG_OFFLOAD_BUNDLE__", len(spellings))
    for number, spelling in enumerate(spellings):
        header += struct.pack("<QQQ", at + number, 1, len(spelling)) + spelling.encode()
    return header + b"i" * len(spellings)


def text(*spellings: str) -> bytes:
    return "".join(f"{START}{spelling}\ntext{END}{spelling}\n" for spelling in spellings).encode()


def read(data: bytes) -> tuple[list[str], list[Finding]]:
    """Return the IDs of the first container and the findings."""
    items = list(scan(BytesSource(data, "x").view()))
    found = next(item for item in items if isinstance(item, FoundContainer))
    return [image.attrs["id"] for image in found.images], [item for item in items if isinstance(item, Finding)]


@pytest.mark.parametrize("write", [binary, text])
@pytest.mark.parametrize("size", [limits.BUNDLE_ID + 1, 1 << 20])
def test_an_entry_with_a_long_id_is_left_out_alone(write: Callable[..., bytes], size: int) -> None:
    spellings = [f"{PREFIX}gfx906", "x" * size, f"{PREFIX}gfx90a"]
    ids, findings = read(write(*spellings))
    assert ids == [spellings[0], spellings[2]]
    # The table is longer than the part that the HIP runtime reads.
    (found,) = [item for item in findings if item.code != "FP1310"]
    assert found.code == "FP1005"
    assert "(expected at most 4096 bytes); if you trust the file, raise fatpack.limits.BUNDLE_ID" in found.text
    assert len(found.text) < 200


@pytest.mark.parametrize("write", [binary, text])
def test_the_longest_id_is_read(write: Callable[..., bytes]) -> None:
    assert read(write("x" * limits.BUNDLE_ID)) == (["x" * limits.BUNDLE_ID], [])


def test_a_length_that_is_damaged_is_no_long_id() -> None:
    """It points to bytes that are not text, or outside: then the table ends there."""
    data = bytearray(binary(f"{PREFIX}gfx906", f"{PREFIX}gfx90a"))
    for size in (5000, 1 << 40):
        damaged = data[:48] + struct.pack("<Q", size) + data[56:] + bytes(8000)
        assert [item.code for item in read(bytes(damaged))[1]].count("FP1302") == 1


def test_long_names_are_cut_in_messages() -> None:
    elf = build.Elf()
    for _ in range(2):
        elf.add(f"__CLANG_OFFLOAD_BUNDLE__{PREFIX}{'g' * 4000}", b"image", flags=0x80000000)
    ids, (found,) = read(elf.build())
    assert ids == [f"{PREFIX}{'g' * 4000}"] * 2
    assert found.code == "FP1307"
    assert f"hold an image for '{PREFIX}ggg" in found.message
    assert "characters…ggg" in found.message
    assert len(found.message) < 400
