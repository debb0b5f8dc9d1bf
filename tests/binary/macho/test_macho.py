"""Mach-O files: sections of device code by name, damage with its position, bounded work."""

from __future__ import annotations

import struct

import pytest
from tests.builders.macho import ARM64, POWERPC, SYMTAB, ZEROFILL, Section, build

from fatpack.binary import CodeSection, divided_sections, macho
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding

FATBIN = b"\x50\xed\x55\xba" + bytes(12)
TEXT = Section(b"__TEXT", b"__text", b"\x90" * 10)
CUDA = Section(b"__NV_CUDA", b"__nv_fatbin", FATBIN)
each_shape = pytest.mark.parametrize(("bits", "order"), [(32, "<"), (64, "<"), (32, ">"), (64, ">")])


def view(data: bytes) -> View:
    return BytesSource(data, "x.o").view()


def sites(data: bytes) -> list[tuple[str | None, int | None, bytes, str]]:
    found = [site for site in macho.locate(view(data)) if isinstance(site, CodeSection)]
    return [(site.section, site.index, site.data.tobytes(), site.content) for site in found]


def findings(data: bytes) -> list[Finding]:
    return [item for item in macho.locate(view(data)) if isinstance(item, Finding)]


def only_finding(data: bytes) -> tuple[str, int, str]:
    (item,) = findings(data)
    return item.code, item.span.start, item.message


def assert_labels_tile(data: bytes) -> None:
    at = 0
    for label in macho.labels(view(data)):
        assert (label.span.start, label.span.end > at) == (at, True)
        at = label.span.end
    assert at == len(data)


@each_shape
@pytest.mark.parametrize("file_type", [1, 2, 6, 8], ids=["object", "executable", "library", "bundle"])
def test_sections_are_found_in_any_shape_and_kind_of_file(bits: int, order: str, file_type: int) -> None:
    hip = Section(b"__HIP", b"__hip_fatbin", b"__CLANG_OFFLOAD_BUNDLE__")
    data = build([TEXT, CUDA, hip], bits=bits, order=order, machine=POWERPC, file_type=file_type)
    assert macho.detect(view(data))
    assert sites(data) == [
        ("__NV_CUDA,__nv_fatbin", 2, FATBIN, "container"),
        ("__HIP,__hip_fatbin", 3, b"__CLANG_OFFLOAD_BUNDLE__", "container"),
    ]
    assert findings(data) == []
    assert_labels_tile(data)


@pytest.mark.parametrize(
    ("segment", "name", "expects"),
    [
        (b"__NV_CUDA", b"__nv_relfatbin", "container"),
        (b"__NV_CUDA", b"__nv_module_id", "table"),
        (b"__RENAMED", b"__nv_fatbin", "container"),
        (b"__LLVM", b"__offload", "container"),
        (b"__LLVM", b".llvm.offloading", "container"),
        (b"0123456789abcdef", b".llvm.offloading", "container"),
        (b"__DATA", b"__offload", None),
        (b"__NV_CUDA", b"__fatbin", None),
        (b"__HIP", b"__fatbin", None),
        (b"__DATA", b"__data", None),
        (b"__DATA", b"__nv_fatbins", None),
    ],
)
def test_what_names_say(segment: bytes, name: bytes, expects: str | None) -> None:
    found = sites(build([Section(segment, name, FATBIN)]))
    expected = (f"{segment.decode()},{name.decode()}", 1, FATBIN, expects)
    assert found == ([] if expects is None else [expected])


def test_sections_of_several_segments_are_counted_through() -> None:
    other = build([TEXT, CUDA])
    segment = other[32 : 32 + 72 + 2 * 80]
    data = build([TEXT], others=[segment])
    offset = struct.unpack_from("<I", data, 32 + 152 + 72 + 80 + 48)[0]
    assert [(name, index) for name, index, *_ in sites(data.ljust(offset + 16))] == [("__NV_CUDA,__nv_fatbin", 3)]


def test_zeros_have_no_bytes_in_the_file_and_neither_has_a_file_of_debug_symbols() -> None:
    zeros = CUDA._replace(flags=ZEROFILL, data=b"", size=1 << 40)
    data = build([TEXT, zeros])
    assert sites(data) == []
    assert only_finding(data)[0] == "FP2503"
    symbols = build([TEXT, CUDA._replace(data=b"", size=16)], file_type=10, segment_file_size=0)
    assert sites(symbols) == []
    assert only_finding(symbols) == (
        "FP2503",
        32 + 72 + 80,
        "section 2 (__NV_CUDA,__nv_fatbin) has a size but no bytes in the file",
    )


def test_an_empty_section_of_device_code_is_nothing_to_tell() -> None:
    assert list(macho.locate(view(build([TEXT, CUDA._replace(data=b"")])))) == []


def test_a_section_outside_the_file_is_a_finding_and_the_others_are_listed() -> None:
    hip = Section(b"__HIP", b"__hip_fatbin", b"bundle", offset=0xFFFFFFF0)
    data = build([CUDA, hip])
    assert [name for name, *_ in sites(data)] == ["__NV_CUDA,__nv_fatbin"]
    code, start, message = only_finding(data)
    assert (code, start) == ("FP2501", len(data))
    assert message == f"section 2 (__HIP,__hip_fatbin) ends at 0xfffffff6, the file at {len(data):#x}"
    assert_labels_tile(data)


def test_sections_over_the_same_bytes_are_read_once() -> None:
    first = build([CUDA, CUDA])
    at = struct.unpack_from("<I", first, 32 + 72 + 48)[0]
    data = build([CUDA, CUDA._replace(offset=at)])
    assert len(sites(data)) == 1
    assert only_finding(data)[0] == "FP1203"
    assert_labels_tile(data)


@each_shape
def test_more_sections_than_the_command_has_room_for(bits: int, order: str) -> None:
    data = build([TEXT, CUDA], bits=bits, order=order, nsects=0xFFFFFFFF)
    assert [index for _, index, *_ in sites(data)] == [2]
    at = (32 + 64) if bits == 64 else (28 + 48)
    problem = "load command 0: nsects: more sections than the load command has room for"
    facts = "(expected at most 2, found 4294967295)"
    assert only_finding(data) == ("FP2502", at, f"{problem} {facts}")
    assert_labels_tile(data)


@pytest.mark.parametrize("size", [0, 7, 1 << 31])
def test_a_load_command_of_a_wrong_size_ends_their_chain(size: int) -> None:
    data = build([CUDA], command_size=size)
    assert sites(data) == []
    code, start, message = only_finding(data)
    assert (code, start) == ("FP2502", 32 + 4)
    assert message.startswith("load command 0: cmdsize: the load command does not fit in the others (expected 8 to 152")
    assert_labels_tile(data)


def test_a_segment_that_is_too_short_for_its_fields() -> None:
    data = build([CUDA], command_size=64)
    codes = [(item.code, item.field) for item in findings(data)]
    assert codes[0] == ("FP2502", "load command 0: cmdsize")
    assert_labels_tile(data)


def test_more_load_commands_than_there_are_bytes_for() -> None:
    data = build([CUDA], ncmds=0xFFFFFFFF)
    assert len(sites(data)) == 1
    expected = "ncmds: more load commands than there are bytes for (expected 1 in 152 bytes, found 4294967295)"
    assert only_finding(data) == ("FP2502", 16, expected)


@pytest.mark.parametrize("size", [0, 3, 27, 31, 33, 100, 183])
def test_a_cut_file_says_where_and_every_byte_has_a_label(size: int) -> None:
    data = build([CUDA])[:size]
    assert macho.detect(view(data)) == (size >= 4)
    assert sites(data) == []
    if size >= 4:
        code, start, message = only_finding(data)
        assert (code, start <= size) == ("FP2502", True)
        assert "needs" in message
    assert_labels_tile(data)


def test_load_commands_beyond_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.binary.macho.reader._COMMANDS", 100)
    assert only_finding(build([CUDA]))[0] == "FP1005"


def test_what_usual_names_hold_is_not_searched_and_the_rest_is() -> None:
    mine = Section(b"__MINE", b"__whatever", b"1234")
    names = (b"__bss", b"__objc_classlist", b"__debug_info", b"__eh_frame", b"__fatbin")
    data = build([TEXT, *(Section(b"__DATA", name, b"12345678") for name in names), mine], tail=b"appended")
    division = divided_sections("macho", view(data))
    assert division.skipped == {"__TEXT,__text": (1, 10)}
    assert [data[start:end] for start, end in division.searched] == [b"1234", b"appended"]


def test_symbols_and_names_are_no_appended_data() -> None:
    plain = build([TEXT], others=[bytes(24)])
    at = len(plain)
    table = struct.pack("<6I", SYMTAB, 24, at, 1, at + 16, 8)
    data = build([TEXT], others=[table], tail=bytes(16) + b"\0_name\0\0")
    assert divided_sections("macho", view(data)).searched == []
    names = {label.name: label.span.size for label in macho.labels(view(data)) if label.kind == "data"}
    assert (names["symbols"], names["strings"]) == (16, 8)


def test_the_processor_is_named_as_lipo_does() -> None:
    from fatpack.binary.macho.universal import architecture_name

    assert architecture_name(ARM64, 0x80000002) == "arm64e"
    assert architecture_name(0x01000007, 8) == "x86_64h"
    assert architecture_name(12, 11) == "armv7s"
    assert architecture_name(0x63, 0x01000001) == "cpu_0x63_0x1"
