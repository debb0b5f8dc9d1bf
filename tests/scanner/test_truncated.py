"""Containers that a cut file ends in, and data that only looks like the beginning of one."""

from __future__ import annotations

import struct
import zlib

import pytest
import zstandard
from tests.builders import archive, elf, fatbin, pe
from tests.laws.rooms import FIXTURES

from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan
from fatpack.scanner.context import SEARCH_SECTIONS, start_scan
from fatpack.scanner.scan_host import scan_limited
from fatpack.scanner.truncated import is_truncated

CUBINS = [fatbin.cubin(sm, code=bytes(400)) for sm in (80, 90, 100)]
FATBIN = fatbin.fatbin(*(fatbin.entry(data, sm=sm) for data, sm in zip(CUBINS, (80, 90, 100), strict=True)))
BUNDLE = (FIXTURES / "clang_bundle" / "llvm-22-hip.bundle").read_bytes()
BINARIES = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()
COMPRESSED = {path.name: path.read_bytes() for path in sorted((FIXTURES / "clang_bundle").glob("*-v[123]-*.bundle"))}
STREAMED = (FIXTURES / "offload_binary" / "fatpack-v3-zstd.bin").read_bytes()


def an_elf(content: bytes, name: str = ".nv_fatbin") -> bytes:
    """Return an object whose section table is after its sections, as usual."""
    made = elf.Elf()
    made.sections += [elf.Section(".text", b"code"), elf.Section(name, content), elf.Section(".data", b"more")]
    return made.build()


def found(data: bytes, *, deep: bool = True) -> tuple[list[tuple[str, list[bytes]]], list[str]]:
    """Return the format and the images of all containers, and the codes of all findings."""
    items = list(scan(BytesSource(data).view(), deep=deep))
    containers = [item for item in items if isinstance(item, FoundContainer)]
    images = [(item.container.format, [one.data.tobytes() for one in item.images]) for item in containers]
    return images, [item.code for item in items if isinstance(item, Finding)]


def changed(data: bytes, at: int, layout: str, value: int) -> bytes:
    field = struct.pack(f"<{layout}", value)
    return data[:at] + field + data[at + len(field) :]


def cut_inside(data: bytes, container: bytes, left: int) -> bytes:
    """Return a file up to ``left`` bytes of its container."""
    return data[: data.index(container) + left]


@pytest.mark.parametrize("whole", [0, 1, 2])
def test_the_images_before_the_cut_are_had(whole: int) -> None:
    left = 16 + sum(64 + len(fatbin.padded(data)) for data in CUBINS[:whole]) + 100
    images, codes = found(cut_inside(an_elf(FATBIN), FATBIN, left))
    assert images == [("cuda-fatbin", CUBINS[:whole])]
    assert codes == ["FP1001", "FP1402", "FP1401"]


def test_without_a_deep_search_the_hint_says_how_to_get_them() -> None:
    data = cut_inside(an_elf(FATBIN), FATBIN, 1000)
    (item,) = scan_limited(start_scan(BytesSource(data).view(), SEARCH_SECTIONS))
    assert isinstance(item, Finding)
    assert item.hint.startswith("the file is cut short, or e_shoff at 0x28 is wrong; deep=True ")
    assert "--deep" not in next(scan(BytesSource(data).view(), deep=True)).hint  # type: ignore[union-attr]


def test_a_cut_device_image_has_nothing_that_is_left() -> None:
    (item,) = scan(BytesSource(CUBINS[0][:-100]).view())
    assert isinstance(item, Finding)
    assert item.hint == "the file is cut short, or e_shoff at 0x28 or e_shnum at 0x3c is wrong"


def test_of_a_file_that_is_nothing_else_the_same_is_found() -> None:
    images, codes = found(b"some data " + FATBIN[:1500])
    assert images == [("cuda-fatbin", CUBINS[:2])]
    assert codes == ["FP1402", "FP1401"]


def test_a_whole_container_in_front_of_the_cut_one_is_as_it_was() -> None:
    images, codes = found(an_elf(FATBIN + FATBIN)[: 64 + len(FATBIN) + 1500])
    assert [len(data) for _, data in images] == [3, 2]
    assert codes == ["FP1001", "FP1402", "FP1401"]


def test_a_bundle_keeps_the_entries_that_are_whole() -> None:
    data = cut_inside(an_elf(BUNDLE, ".hip_fatbin"), BUNDLE, len(BUNDLE) - 20)
    images, codes = found(data)
    assert [(name, len(data)) for name, data in images] == [("clang-offload-bundle", 2)]
    assert codes == ["FP1001", "FP1301"]


@pytest.mark.parametrize("data", [*COMPRESSED.values(), STREAMED], ids=[*COMPRESSED, "offload binary"])
def test_of_what_is_compressed_as_a_whole_nothing_is_read_and_that_is_reported(data: bytes) -> None:
    items = list(scan(BytesSource(cut_inside(an_elf(data), data, len(data) - 9)).view(), deep=True))
    assert not [item for item in items if isinstance(item, FoundContainer)]
    *_, last = items
    assert isinstance(last, Finding)
    assert (last.code, last.hint) == ("FP1001", "the file looks cut short; nothing of it is read")


def test_of_several_offload_binaries_the_whole_ones_are_listed() -> None:
    images, codes = found(cut_inside(an_elf(BINARIES, ".llvm.offloading"), BINARIES, len(BINARIES) - 20))
    assert [name for name, _ in images] == ["llvm-offload-binary"] * 3
    assert codes == ["FP1001", "FP1001"]


def test_a_program_with_its_section_table_in_front_is_searched_too() -> None:
    made = pe.build([pe.Section(b".text", b"code"), pe.Section(b".nv_fatb", FATBIN)])
    images, codes = found(cut_inside(made, FATBIN, 1500))
    assert images == [("cuda-fatbin", CUBINS[:2])]
    assert codes[1:] == ["FP1402", "FP1401"]


def test_the_member_that_an_archive_was_cut_in_is_searched() -> None:
    data = b"!<arch>\n" + archive.member(b"a.o/", an_elf(FATBIN)) + archive.member(b"b.o/", an_elf(FATBIN))
    cut = data[: data.rindex(FATBIN) + 1500]
    images, codes = found(cut)
    assert [len(data) for _, data in images] == [3, 2]
    assert codes == ["FP2101", "FP1402", "FP1401"]


def test_in_a_file_that_is_whole_nothing_is_cut() -> None:
    made = elf.Elf()
    made.sections += [elf.Section(".text", b"code"), elf.Section(".rodata", FATBIN[:1500])]
    assert found(made.build()) == ([], [])


def test_in_the_middle_of_a_cut_file_a_container_must_be_whole() -> None:
    damaged = changed(FATBIN, 16 + 8, "Q", 1 << 20)
    assert found(an_elf(damaged + bytes(2000))[:-600]) == ([], ["FP1001"])


def test_a_container_that_a_wrong_size_has_swallowed_is_found() -> None:
    images, codes = found(an_elf(changed(FATBIN, 8, "Q", 1 << 20) + FATBIN)[:-100])
    assert [len(data) for _, data in images] == [3, 3]
    assert codes == ["FP1001", "FP1402", "FP1402"]


CUT = {"cuda-fatbin": FATBIN[:1000], "clang-offload-bundle": BUNDLE[:200], "llvm-offload-binary": BINARIES[:150]}


@pytest.mark.parametrize("name", CUT)
def test_the_beginning_of_each_is_known(name: str) -> None:
    assert is_truncated(name, BytesSource(b"12345678" + CUT[name]).view(), 8)


@pytest.mark.parametrize(
    ("name", "at", "layout", "value"),
    [
        ("cuda-fatbin", 4, "H", 2),  # version
        ("cuda-fatbin", 8, "Q", 1 << 40 | 4),  # entries_size
        ("cuda-fatbin", 8, "Q", 900),  # all of it is there
        ("cuda-fatbin", 16, "H", 3),  # kind
        ("cuda-fatbin", 18, "H", 1),  # version of the entry
        ("cuda-fatbin", 20, "I", 1 << 20),  # header_size
        ("cuda-fatbin", 24, "Q", 1 << 20),  # padded_size: more than all entries
        ("cuda-fatbin", 56, "Q", 0x8011),  # flags: compressed, and the sizes are not
        ("clang-offload-bundle", 24, "Q", 0),  # entry_count
        ("clang-offload-bundle", 24, "Q", 1 << 20),
        ("clang-offload-bundle", 48, "Q", 1 << 20),  # id_size
        ("clang-offload-bundle", 56, "B", 0),  # ID
        ("llvm-offload-binary", 4, "I", 4),  # version
        ("llvm-offload-binary", 8, "Q", 100),  # size: all of it is there
        ("llvm-offload-binary", 16, "Q", 40),  # entry_offset
        ("llvm-offload-binary", 24, "Q", 41),  # entry_size
        ("llvm-offload-binary", 32, "H", 1000),  # image kind
        ("llvm-offload-binary", 40, "Q", 1 << 20),  # string_offset
        ("llvm-offload-binary", 64, "Q", 1 << 20),  # image_size
    ],
)
def test_a_wrong_number_makes_it_none(name: str, at: int, layout: str, value: int) -> None:
    assert not is_truncated(name, BytesSource(changed(CUT[name], at, layout, value)).view(), 0)


@pytest.mark.parametrize("name", CUT)
def test_too_little_of_it_is_none(name: str) -> None:
    for size in (4, 8, 20, 31, 50):
        assert not is_truncated(name, BytesSource(CUT[name][:size]).view(), 0)


@pytest.mark.parametrize(
    ("stream", "method", "expected"),
    [
        (zstandard.compress(bytes(100)), 1, True),
        (zlib.compress(bytes(100)), 0, True),
        (zlib.compress(bytes(100)), 1, False),
        (b"text, not a stream", 0, False),
        (zstandard.compress(bytes(100)), 7, False),
    ],
)
def test_a_compressed_bundle_needs_a_stream(stream: bytes, method: int, expected: bool) -> None:
    header = b"CCOB" + struct.pack("<HHIIQ", 2, method, 1000, 100, 0)
    assert is_truncated("clang-offload-bundle", BytesSource(header + stream).view(), 0) == expected
