"""Finding device code in bitcode: at every bit, in every packing, and in damaged files."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from tests.builders.bitcode import (
    ARRAY,
    BLOB,
    CONSTANTS,
    CSTRING,
    DATA,
    FIXED,
    FUNCTION,
    INTEGER,
    MODULE,
    NULL,
    STRING,
    VBR,
    Global,
    Stream,
    module,
)

from fatpack.binary import CodeSection, bitcode
from fatpack.errors import BadValue, HostError
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding

CONTAINER = b"\x10\xff\x10\xad" + bytes(range(256))


def view(data: bytes) -> View:
    return BytesSource(data, "x.bc").view()


def sites(data: bytes) -> list[tuple[str | None, int | None, bytes]]:
    return [
        (site.section, site.index, site.data.tobytes())
        for site in bitcode.locate(view(data))
        if isinstance(site, CodeSection)
    ]


def codes(data: bytes) -> list[str]:
    return [item.code for item in bitcode.locate(view(data)) if isinstance(item, Finding)]


def assert_labels_tile(data: bytes) -> None:
    at = 0
    for label in bitcode.labels(view(data)):
        assert label.span.start == at
        assert label.span.end > at
        at = label.span.end
    assert at == len(data)


def wrapped(data: bytes, padding: bytes = b"") -> bytes:
    return struct.pack("<IIIII", 0x0B17C0DE, 0, 20, len(data), 7) + data + padding


ONE = module([Global(1, 0)], [(STRING, CONTAINER)]).bytes()


def test_device_code_is_found_in_raw_and_wrapped_bitcode() -> None:
    for data in (ONE, wrapped(ONE), wrapped(ONE, bytes(12))):
        assert bitcode.detect(view(data))
        assert sites(data) == [(".llvm.offloading", 0, CONTAINER)]
        assert codes(data) == []
        assert_labels_tile(data)


@pytest.mark.parametrize("shift", range(8))
def test_the_bytes_may_start_at_any_bit(shift: int) -> None:
    data = module([Global(1, 0)], [(STRING, CONTAINER)], shift=shift).bytes()
    assert sites(data) == [(".llvm.offloading", 0, CONTAINER)]


def test_the_chain_says_where_the_bytes_start() -> None:
    starts = set()
    for shift in range(8):
        (site,) = bitcode.locate(view(module([Global(1, 0)], [(STRING, CONTAINER)], shift=shift).bytes()))
        assert isinstance(site, CodeSection)
        name = site.data.chain[-1]
        starts.add(name.split(" (")[1][:10] if "(" in name else "whole byte")
        assert site.data.source.is_file is False
    # Records of 22 bits between constants: every even bit of a byte.
    assert len(starts) == 4


def test_bytes_that_start_at_a_byte_are_a_view_of_the_file() -> None:
    for shift in range(8):
        data = module([Global(1, 0)], [(STRING, CONTAINER)], shift=shift).bytes()
        (site,) = bitcode.locate(view(data))
        assert isinstance(site, CodeSection)
        if "(" not in site.data.chain[-1]:
            assert data[site.data.start : site.data.end] == CONTAINER
            return
    pytest.fail("no shift gave whole bytes")


def test_parts_of_the_bytes_can_be_read_and_searched() -> None:
    (site,) = bitcode.locate(view(ONE))
    assert isinstance(site, CodeSection)
    assert site.data.read(5, 7) == CONTAINER[5:12]
    assert site.data.find(b"\x80\x81") == CONTAINER.index(b"\x80\x81")
    assert b"".join(map(bytes, site.data.slice(3, 100).pieces())) == CONTAINER[3:103]


def test_more_than_a_piece_of_bytes() -> None:
    large = CONTAINER * 9000
    (site,) = bitcode.locate(view(module([Global(1, 0)], [(STRING, large)], shift=1).bytes()))
    assert isinstance(site, CodeSection)
    assert site.data.tobytes() == large
    assert b"".join(map(bytes, site.data.pieces())) == large


@pytest.mark.parametrize("text", [b"plain", b"with blanks!", b"\xff\xfe"], ids=["char6", "7-bit", "8-bit"])
def test_strings_that_end_with_a_nul_are_packed_and_unpacked(text: bytes) -> None:
    abbreviate = max(text) < 128
    data = module([Global(1, 0)], [(CSTRING, text)], abbreviate=abbreviate).bytes()
    assert sites(data) == [(".llvm.offloading", 0, text + b"\0")]


def test_unabbreviated_bytes() -> None:
    data = module([Global(1, 1)], [(DATA, b"\xff" * 500), (STRING, CONTAINER)], abbreviate=False).bytes()
    assert sites(data) == [(".llvm.offloading", 0, CONTAINER)]


@pytest.mark.parametrize(
    "name",
    [
        b".llvm.offloading",
        b".llvm.offloading.relocatable",
        b".hip_fatbin",
        b".nv_fatbin",
        b"__nv_relfatbin",
        b"__HIP,__hip_fatbin",
        b"__NV_CUDA,__nv_fatbin",
    ],
)
def test_sections_of_device_code(name: bytes) -> None:
    data = module([Global(2, 0)], [(STRING, CONTAINER)], sections=[b".text", name]).bytes()
    assert sites(data) == [(name.decode(), 0, CONTAINER)]


@pytest.mark.parametrize("section", [0, 1, 3, 99])
def test_globals_elsewhere_are_passed_over_even_with_a_magic(section: int) -> None:
    sections = [b".rodata", b".llvm.offloading", b".nvFatBinSegment"]
    assert sites(module([Global(section, 0)], [(STRING, CONTAINER)], sections=sections).bytes()) == []


def test_values_are_counted_as_llvm_does() -> None:
    constants = [(NULL, b""), (INTEGER, b"\x05"), (STRING, CONTAINER), (STRING, b"other")]
    for others in (0, 1, 5):
        data = module([Global(0, 1), Global(1, 2), Global(0, 3)], constants, others=others).bytes()
        assert sites(data) == [(".llvm.offloading", 1, CONTAINER)]


def test_old_modules_have_no_names_in_their_records() -> None:
    data = module([Global(1, 0)], [(STRING, CONTAINER)], version=1).bytes()
    assert sites(data) == [(".llvm.offloading", 0, CONTAINER)]


def test_several_globals_are_listed_in_their_order() -> None:
    constants = [(STRING, b"first"), (STRING, b"second")]
    data = module([Global(1, 1), Global(1, 0)], constants).bytes()
    assert sites(data) == [(".llvm.offloading", 0, b"second"), (".llvm.offloading", 1, b"first")]


def test_globals_with_equal_contents_share_a_constant_and_are_each_listed() -> None:
    data = module([Global(1, 0), Global(1, 0)], [(STRING, CONTAINER)]).bytes()
    assert sites(data) == [(".llvm.offloading", 0, CONTAINER), (".llvm.offloading", 1, CONTAINER)]


def test_sharing_is_limited() -> None:
    data = module([Global(1, 0)] * 2000, [(STRING, CONTAINER * 100)]).bytes()
    assert sum(len(content) for *_, content in sites(data)) <= 16 * len(data)
    assert "FP1005" in codes(data)


def test_all_modules_of_a_stream_are_read() -> None:
    stream = module([Global(1, 0)], [(STRING, b"first")])
    data = module([Global(1, 0)], [(STRING, b"second")], stream=stream).bytes()
    assert [content for *_, content in sites(data)] == [b"first", b"second"]


def test_a_declaration_has_no_device_code() -> None:
    assert list(bitcode.locate(view(module([Global(1, None)], []).bytes()))) == []


@pytest.mark.parametrize("constant", [(NULL, b""), (INTEGER, b"\x05"), (DATA, b"\1\2\3")])
def test_a_global_without_bytes_is_a_finding(constant: tuple[int, bytes]) -> None:
    data = module([Global(1, 0), Global(1, 1)], [constant, (STRING, CONTAINER)]).bytes()
    assert codes(data) == ["FP2402"]
    assert [content for *_, content in sites(data)] == [CONTAINER]


def test_an_initialiser_that_no_constant_has_is_a_finding() -> None:
    assert codes(module([Global(1, 77)], [(STRING, CONTAINER)]).bytes()) == ["FP2402"]


def test_blocks_in_between_are_skipped_by_their_length() -> None:
    out = Stream()
    out.enter(13, 5)
    out.define(1, (ARRAY, 0), (FIXED, 8))
    out.array(4, list(b"LLVM"), 8)
    out.leave()
    data = module([Global(1, 0)], [(STRING, CONTAINER)], stream=out)
    data.enter(23, 3)
    data.define(1, (BLOB, 0))
    data.leave()
    assert sites(data.bytes()) == [(".llvm.offloading", 0, CONTAINER)]


def test_abbreviations_of_the_module_itself_and_nested_blocks_in_constants() -> None:
    out = Stream()
    out.enter(MODULE, 4)
    out.record(1, [2])
    out.define(5, (ARRAY, 0), (FIXED, 7))
    # name's place and size, type, flags, initialiser, linkage, alignment, section, a value that takes no bits
    widths = [(VBR, 6), (VBR, 6), (FIXED, 3), (VBR, 2), (VBR, 6), (FIXED, 4), (VBR, 3), (FIXED, 2), (FIXED, 0)]
    out.define(7, *widths)
    out.array(4, list(b".hip_fatbin"), 7)
    out.fixed(5, 4)
    for value, (encoding, width) in zip([0, 1, 0, 3, 2, 9, 4, 1], widths, strict=False):
        (out.vbr if encoding == VBR else out.fixed)(value, width)
    out.enter(CONSTANTS, 5)
    out.enter(FUNCTION, 3)
    out.leave()
    out.define(8, (ARRAY, 0), (FIXED, 8))
    out.array(4, list(CONTAINER), 8)
    out.leave()
    out.leave()
    assert sites(out.bytes()) == [(".hip_fatbin", 0, CONTAINER)]
    assert codes(out.bytes()) == []


def test_numbers_of_many_groups_are_skipped_in_bulk() -> None:
    constants = [(INTEGER, b"\xff" * 100_000), (STRING, CONTAINER)]
    assert sites(module([Global(1, 1)], constants).bytes()) == [(".llvm.offloading", 0, CONTAINER)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"BC\xc0",
        b"BC\xc0\xdf1234",
        b"\x0b\x17\xc0\xde" + bytes(16),
    ],
)
def test_other_files_are_not_taken_for_bitcode(data: bytes) -> None:
    assert not bitcode.detect(view(data))


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<IIIII", 0x0B17C0DE, 0, 20, 5000, 7) + ONE,
        struct.pack("<IIIII", 0x0B17C0DE, 0, 24, len(ONE) - 4, 7) + ONE,
        b"\xde\xc0\x17\x0b1234",
        struct.pack("<IIIII", 0x0B17C0DE, 0, 24, 0, 7) + ONE,
        ONE[:-100],
        ONE[:4] + b"\xff" * 100,
    ],
)
def test_damage_is_a_finding(data: bytes) -> None:
    assert codes(data) == ["FP2401"]
    assert_labels_tile(data)


def test_padding_after_the_stream_is_fine() -> None:
    assert codes(ONE + bytes(4096)) == []


def test_a_damaged_module_does_not_hide_the_next() -> None:
    out = Stream()
    out.enter(MODULE, 3)
    out.fixed(7, 3)  # an undefined abbreviation
    out.align()
    out.leave()
    data = module([Global(1, 0)], [(STRING, CONTAINER)], stream=out).bytes()
    assert codes(data) == ["FP2401"]
    assert [content for *_, content in sites(data)] == [CONTAINER]


def test_device_code_before_the_damage_is_listed() -> None:
    out = Stream()
    out.enter(MODULE, 3)
    out.record(1, [2])
    out.record(5, list(b".llvm.offloading"))
    out.record(7, [0, 0, 0, 3, 3, 9, 4, 1])
    out.record(7, [0, 0, 0, 3, 4, 9, 4, 1])
    out.enter(CONSTANTS, 4)
    out.record(STRING, list(CONTAINER))
    out.fixed(9, 4)  # an undefined abbreviation
    out.align()
    out.leave()
    out.leave()
    assert [content for *_, content in sites(out.bytes())] == [CONTAINER]
    assert codes(out.bytes()) == ["FP2402", "FP2401"]


def _definition(*operands: int | tuple[int, int]) -> Callable[[Stream], None]:
    return lambda out: out.define(*operands)


@pytest.mark.parametrize(
    "write",
    [
        _definition(1, (ARRAY, 0), (BLOB, 0)),
        _definition((ARRAY, 0), (FIXED, 8)),
        _definition((BLOB, 0)),
        _definition(1, (ARRAY, 0), (FIXED, 0)),
        _definition(1, (ARRAY, 0), (FIXED, 8), (FIXED, 8)),
        _definition(1, (VBR, 1)),
        _definition(1, (FIXED, 65)),
        _definition(1, (6, 0)),
        _definition(),
        _definition(*range(300)),
        lambda out: out.record(1, [1 << 70]),
        lambda out: [out.fixed(3, 3), out.vbr(1, 6), out.vbr(1 << 60, 6)],
        lambda out: [out.fixed(1, 3), out.vbr(11, 8), out.vbr(0, 4), out.align(), out.fixed(0, 32)],
        lambda out: [out.fixed(1, 3), out.vbr(11, 8), out.vbr(4, 4), out.align(), out.fixed(99, 32)],
    ],
)
def test_bitstreams_in_forms_that_are_none(write: Callable[[Stream], object]) -> None:
    out = Stream()
    out.enter(MODULE, 3)
    write(out)
    out.align()
    for _ in range(40):
        out.fixed(0, 32)
    out.leave()
    assert codes(out.bytes()) == ["FP2401"]


def test_a_string_of_numbers_that_are_no_bytes_fails_when_it_is_read() -> None:
    out = Stream()
    out.enter(MODULE, 3)
    out.record(1, [2])
    out.record(5, list(b".llvm.offloading"))
    out.record(7, [0, 0, 0, 3, 2, 9, 4, 1])
    out.enter(CONSTANTS, 4)
    out.record(STRING, [1, 2, 300])
    out.leave()
    out.leave()
    (site,) = bitcode.locate(view(out.bytes()))
    assert isinstance(site, CodeSection)
    with pytest.raises(BadValue, match="no byte"):
        site.data.tobytes()


EDITS: list[Callable[[View], object]] = [
    lambda host: bitcode.embed(host, [b"code"]),
    lambda host: bitcode.replace(host, 1, [b"code"]),
    lambda host: bitcode.remove(host, [1]),
]


@pytest.mark.parametrize("edit", EDITS, ids=["embed", "replace", "remove"])
def test_editing_is_refused_with_what_would_work(edit: Callable[[View], object]) -> None:
    with pytest.raises(HostError, match="fembed-offload-object"):
        edit(view(ONE))


SMALL = wrapped(
    module([Global(1, 0), Global(1, 1)], [(STRING, b"\x10\xff\x10\xad1234"), (CSTRING, b"text")], others=1).bytes()
)


def examine(data: bytes) -> None:
    if not bitcode.detect(view(data)):
        return
    for item in bitcode.locate(view(data)):
        if isinstance(item, CodeSection):
            try:
                assert len(item.data.tobytes()) == len(item.data)
            except BadValue:
                continue
    assert_labels_tile(data)


def test_every_cut_gives_device_code_or_findings() -> None:
    for size in range(len(SMALL)):
        examine(SMALL[:size])


def test_every_flipped_bit_gives_device_code_or_findings() -> None:
    for at in range(len(SMALL)):
        for bit in range(8):
            examine(SMALL[:at] + bytes([SMALL[at] ^ 1 << bit]) + SMALL[at + 1 :])
