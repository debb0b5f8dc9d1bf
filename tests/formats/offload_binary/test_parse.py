"""Facts and refusals of the reader."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, run

import fatpack as library
from fatpack.errors import BadMagic, BadValue, LimitExceeded, Truncated, Unsupported
from fatpack.formats import offload_binary
from fatpack.formats.offload_binary import layouts_for_order
from fatpack.formats.offload_binary.layout import OffloadBinaryEntry, OffloadBinaryHeader
from fatpack.io.source import Span
from fatpack.model import Container, Target
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import join_pieces, make_image, make_view

ONE = (FIXTURES / "offload_binary" / "llvm-22-one.bin").read_bytes()
FOUR = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()
V2 = (FIXTURES / "offload_binary" / "fatpack-v2.bin").read_bytes()


def edited(data: bytes, field: str, value: int, *, record: str = "header", version: int = 1, at: int = 0) -> bytes:
    """Return a valid binary with one named field changed."""
    tables = layouts_for_order()
    layout = {"header": tables.header[version], "entry": tables.entry, "string": tables.strings[version]}[record]
    offset = at + layout.field_offset(field)
    code = next(f.code for f in layout.fields if f.name == field)
    return data[:offset] + struct.pack("<" + code, value) + data[offset + struct.calcsize(code) :]


def test_the_recorded_facts_of_one_image() -> None:
    container = offload_binary.parse(make_view(ONE))
    (only,) = container.images
    assert (container.version, container.span) == (1, Span(0, 152, ("test",)))
    assert only.target == Target("nvptx64-nvidia-cuda", "sm_70", "cuda")
    assert (only.form, only.data.tobytes(), only.span.start, only.size) == ("object", b"hello", 0x90, 5)
    assert isinstance(only.record, OffloadBinaryEntry)
    assert [key for key, _ in only.record.strings] == [b"arch", b"triple"]


def test_four_binaries_follow_each_other() -> None:
    found = [item for item in scan(make_view(FOUR)) if isinstance(item, FoundContainer)]
    targets = [item.container.images[0].target for item in found]
    assert [target.offload for target in targets] == ["cuda", "openmp", "hip", "sycl"]
    assert [target.arch for target in targets] == ["sm_70", "sm_80", "gfx90a:xnack+", ""]
    assert dict(found[2].container.images[0].attrs) == {"note": "a,b"}
    assert [item.container.images[0].form for item in found] == ["object", "cubin", "bitcode", "ptx"]


def test_entry_size_of_version_1_is_not_trusted() -> None:
    for value in (0, 39, 2**63):
        assert offload_binary.parse(make_view(edited(ONE, "entry_size", value))).images[0].data.tobytes() == b"hello"


@pytest.mark.parametrize("version", [0, 4, 0x01000001])
def test_unknown_versions_are_named(version: int) -> None:
    with pytest.raises(Unsupported, match="fatpack reads 1, 2 and 3"):
        offload_binary.parse(make_view(edited(ONE, "version", version)))


def test_another_magic_is_refused_with_what_was_found() -> None:
    with pytest.raises(BadMagic, match=r"expected 10 ff 10 ad, found 7f 45 4c 46"):
        offload_binary.parse(make_view(b"\x7fELF" + bytes(100)))


@pytest.mark.parametrize("size", [0, 3, 4, 7, 8, 31])
def test_a_cut_header_is_truncated_or_no_magic(size: int) -> None:
    with pytest.raises((Truncated, BadMagic)):
        offload_binary.parse(make_view(ONE[:size]))


@pytest.mark.parametrize(
    ("record", "field", "value", "at", "message"),
    [
        ("header", "size", 153, 0, "size: 0x99 is past the end"),
        ("header", "size", 2**64 - 1, 0, "past the end"),
        ("header", "size", 71, 0, "cannot hold header and entry"),
        ("header", "entry_offset", 31, 0, r"entry\[0\] image"),
        ("header", "entry_offset", 2**64 - 8, 0, "entry table"),
        ("entry", "string_offset", 2**63, 0x20, "string entries"),
        ("entry", "string_count", 2**63, 0x20, "string entries"),
        ("entry", "image_offset", 2**64 - 1, 0x20, r"entry\[0\] image"),
        ("entry", "image_size", 2**64 - 1, 0x20, r"entry\[0\] image"),
        ("entry", "image_size", 9, 0x20, r"0x90 \+ 0x9 is past the end"),
        ("string", "key_offset", 152, 0x48, r"entry\[0\] string\[0\]: offset 0x98 is past the end"),
        ("string", "value_offset", 2**64 - 1, 0x48, r"entry\[0\] string\[0\]"),
    ],
)
def test_lying_fields_are_refused_by_name(record: str, field: str, value: int, at: int, message: str) -> None:
    with pytest.raises(BadValue, match=message) as caught:
        offload_binary.parse(make_view(edited(ONE, field, value, record=record, at=at)))
    assert caught.value.format == "llvm-offload-binary"
    assert str(caught.value).startswith("test: llvm-offload-binary at 0x")


def test_a_string_without_end_is_refused() -> None:
    data = ONE[:0x88] + b"x" * (len(ONE) - 0x88)
    with pytest.raises(BadValue, match="no NUL"):
        offload_binary.parse(make_view(data))


@pytest.mark.parametrize("count", [3, 1000, 100_000, 100_001, 2**63])
def test_a_lying_entry_count_is_refused_without_allocating(count: int) -> None:
    with pytest.raises((BadValue, LimitExceeded), match=r"entr(y|ies)"):
        offload_binary.parse(make_view(edited(V2, "entry_count", count, version=2)))


def test_an_empty_image_at_the_end_is_legal() -> None:
    data = join_pieces(
        offload_binary.write(Container("", 1, (make_image(b"", target=Target("t", "a", "cuda")),), Span(0, 0)))
    )
    assert offload_binary.parse(make_view(data)).images[0].size == 0


@pytest.mark.parametrize(
    ("number", "triple", "offload", "has_remark"),
    [
        (3, "amdgcn-amd-amdhsa", "hip", True),
        (4, "amdgcn-amd-amdhsa", "hip", False),
        (4, "spir64-unknown-unknown", "sycl", True),
        (4, "spirv64-amd-amdhsa", "hip", False),
        (8, "spirv64", "sycl", False),
        (16, "t", "kind 16 (unknown)", False),
    ],
)
def test_offload_numbers_of_all_ages_are_understood_and_kept(
    number: int, triple: str, offload: str, has_remark: bool
) -> None:
    model = Container("", 1, (make_image(b"x", target=Target(triple, "", "none")),), Span(0, 0))
    data = edited(join_pieces(offload_binary.write(model)), "offload_kind", number, record="entry", at=0x20)
    container = offload_binary.parse(make_view(data))
    assert container.images[0].target.offload == offload
    assert [finding.code for finding in container.findings] == (["FP1201"] if has_remark else [])
    assert join_pieces(offload_binary.write(container)) == data


def test_unknown_kinds_and_flags_survive_a_rewrite() -> None:
    data = edited(edited(ONE, "image_kind", 77, record="entry", at=0x20), "flags", 0xDEADBEEE, record="entry", at=0x20)
    container = offload_binary.parse(make_view(data))
    assert container.images[0].form == ""
    assert join_pieces(offload_binary.write(container)) == data


def test_duplicate_keys_keep_their_order_and_the_last_counts() -> None:
    first = offload_binary.parse(make_view(ONE)).images[0]
    assert isinstance(first.record, OffloadBinaryEntry)
    strings = ((b"arch", b"sm_60"), (b"zz", b"\xff"), *first.record.strings)
    model = Container("", 1, (first.replace(record=first.record.replace(strings=strings)),), Span(0, 0))
    container = offload_binary.parse(make_view(join_pieces(offload_binary.write(model))))
    assert container.images[0].target.arch == "sm_70"
    assert [finding.code for finding in container.findings] == ["FP1204"]
    assert container.images[0].record.strings == strings  # type: ignore[attr-defined]


def test_a_longer_header_and_a_tail_survive_a_rewrite() -> None:
    model = offload_binary.parse(make_view(V2))
    assert isinstance(model.record, OffloadBinaryHeader)
    longer = model.replace(record=model.record.replace(extension=make_view(b"future!!"), tail=make_view(b"appendix")))
    data = join_pieces(offload_binary.write(longer))
    container = offload_binary.parse(make_view(data))
    assert [finding.code for finding in container.findings] == ["FP1205", "FP1205"]
    assert container.unknown[0].size == 8
    assert b"future!!" in data
    assert join_pieces(offload_binary.write(container)) == data


def test_overlapping_parts_are_reported() -> None:
    data = edited(V2, "image_offset", 0x104, record="entry", at=0x48, version=2)
    codes = [finding.code for finding in offload_binary.parse(make_view(data)).findings]
    assert "FP1203" in codes


def test_shared_string_entries_cannot_multiply_work() -> None:
    """A thousand entries that all point at the same thousand string entries would be a million strings."""
    tables = layouts_for_order()
    count = 1000
    strings_at = 0x20 + count * 40
    table_at = strings_at + count * 24
    entry = tables.entry.pack(0, 0, 0, strings_at, count, table_at, 0)
    strings = b"".join(tables.strings[2].pack(table_at, table_at, 0) for _ in range(count))
    size = table_at + 8
    data = tables.header[2].pack(b"\x10\xff\x10\xad", 2, size, 0x20, count) + entry * count + strings + bytes(8)
    with pytest.raises(LimitExceeded, match="share more string entries than can fit"):
        offload_binary.parse(make_view(data))


def test_overlapping_strings_cannot_multiply_memory() -> None:
    """Each of ten thousand keys starts one byte later in one long string."""
    tables = layouts_for_order()
    count, length = 10_000, 1_000_000
    strings_at, table_at = 0x48, 0x48 + count * 24
    entry = tables.entry.pack(0, 0, 0, strings_at, count, table_at, 0)
    strings = b"".join(tables.strings[2].pack(table_at + n, table_at, 0) for n in range(count))
    size = table_at + length + 8
    header = tables.header[2].pack(b"\x10\xff\x10\xad", 2, size, 0x20, 1)
    with pytest.raises(LimitExceeded, match="many times the size"):
        offload_binary.parse(make_view(header + entry + strings + b"k" * length + bytes(8)))


def test_big_endian_binaries_are_read_and_rewritten() -> None:
    model = Container("", 2, (make_image(b"abc", target=Target("t", "a", "cuda")), make_image(b"d")), Span(0, 0))
    little = offload_binary.parse(make_view(join_pieces(offload_binary.write(model))))
    assert isinstance(little.record, OffloadBinaryHeader)
    data = join_pieces(offload_binary.write(little.replace(record=little.record.replace(order="big"))))
    assert data[4:8] == b"\0\0\0\2"
    container = offload_binary.parse(make_view(data))
    assert [finding.code for finding in container.findings] == ["FP1206"]
    assert [item.data.tobytes() for item in container.images] == [b"abc", b"d"]
    assert join_pieces(offload_binary.write(container)) == data


@pytest.mark.parametrize("how", ["zlib", "zstd"])
def test_compressed_binaries_are_inflated(how: str) -> None:
    data = (FIXTURES / "offload_binary" / f"fatpack-v3-{how}.bin").read_bytes()
    container = offload_binary.parse(make_view(data))
    assert [item.data.tobytes() for item in container.images] == [b"hello", b"worldworld"]
    assert {(item.compression, item.stored_size) for item in container.images} == {(how, None)}
    assert container.attrs == {"compression": how}


@pytest.mark.parametrize("claimed", [0x117, 0x119, 39, 2**40, 2**63])
def test_lying_inflated_sizes_are_refused(claimed: int) -> None:
    data = (FIXTURES / "offload_binary" / "fatpack-v3-zlib.bin").read_bytes()
    with pytest.raises((BadValue, LimitExceeded), match="inflate"):
        offload_binary.parse(make_view(edited(data, "inflated_size", claimed, version=3)))


def test_padding_after_the_last_binary_is_a_note_and_rubbish_a_warning() -> None:
    codes = [item.code for item in scan(make_view(ONE + bytes(16))) if not isinstance(item, FoundContainer)]
    assert codes == ["FP1003"]
    codes = [item.code for item in scan(make_view(ONE + b"rubbish!")) if not isinstance(item, FoundContainer)]
    assert codes == ["FP1002"]


def test_nested_binaries_are_found_inside_images() -> None:
    inner = ONE
    for _ in range(3):
        inner = join_pieces(offload_binary.write(Container("", 1, (make_image(inner),), Span(0, 0))))
    (outer,) = list(scan(make_view(inner)))
    depth = 0
    while isinstance(outer, FoundContainer) and outer.images[0].items:
        depth, outer = depth + 1, outer.images[0].items[0]
    assert depth == 3
    assert isinstance(outer, FoundContainer)
    assert outer.container.images[0].data.tobytes() == b"hello"


def test_nesting_stops_at_a_limit() -> None:
    inner = ONE
    for _ in range(12):
        inner = join_pieces(offload_binary.write(Container("", 1, (make_image(inner),), Span(0, 0))))

    def codes(items: object) -> list[str]:
        found: list[str] = []
        for item in items:  # type: ignore[attr-defined]
            if isinstance(item, FoundContainer):
                found += codes(item.images[0].items)
            else:
                found.append(item.code)
        return found

    assert codes(scan(make_view(inner))) == ["FP1004"]


@pytest.mark.parametrize("zeros", [8, 24])
def test_zeros_between_binaries_are_a_warning(zeros: int) -> None:
    items = list(scan(make_view(ONE + bytes(zeros) + ONE)))
    assert sum(isinstance(item, FoundContainer) for item in items) == 2
    (warning,) = [item for item in items if not isinstance(item, FoundContainer)]
    assert (warning.code, warning.severity, warning.span.size) == ("FP1007", "warning", zeros)


@pytest.mark.reference
@pytest.mark.parametrize("version", ["22", "23"])
@pytest.mark.parametrize("zeros", ["before", "between"])
def test_llvm_refuses_a_section_with_zeros_before_or_between_binaries(tmp_path: Path, version: str, zeros: str) -> None:
    host, section = FIXTURES / "elf" / "clang-22-openmp-gfx90a.o", ".llvm.offloading"
    run("llvm-objcopy", f"--dump-section={section}={tmp_path / 'section'}", host, "/dev/null")
    content = (tmp_path / "section").read_bytes()
    (tmp_path / "new").write_bytes(bytes(8) + content if zeros == "before" else content + bytes(8) + content)
    run("llvm-objcopy", f"--update-section={section}={tmp_path / 'new'}", host, tmp_path / "x.o")
    command = [llvm_tool("llvm-objdump", version), "--offloading", tmp_path / "x.o"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Invalid data was encountered" in done.stderr
    with library.open(tmp_path / "x.o") as file:
        assert [item.code for item in file.findings] == ["FP1007"]
