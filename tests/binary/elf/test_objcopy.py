"""Sections added to and removed from ELF files like with llvm-objcopy: changes and refusals.

``test_objcopy_reference`` compares every byte with the tool; these tests do without it.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders import elf as build
from tests.builders.bulk import Untouchable, edited_sparse
from tests.objcopy import BUNDLES, PREFIX

from fatpack import binary
from fatpack.binary.elf.file import ElfFile, ElfSection
from fatpack.binary.elf.objcopy import add_sections, relocations, remove_sections
from fatpack.binary.elf.objcopy.sections import ElfModel
from fatpack.binary.elf.objcopy.writer import Layer, flatten
from fatpack.binary.elf.objcopy.writer import write_model as written
from fatpack.errors import BadValue, FormatError, HostError, LimitExceeded, UsageError
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource

each_kind = pytest.mark.parametrize(
    ("bits", "order"), [(32, "little"), (32, "big"), (64, "little"), (64, "big")], ids=["32", "32be", "64", "64be"]
)


def added(data: bytes, *additions: tuple[str, bytes]) -> bytes:
    return build.as_bytes(add_sections(build.as_view(data), [(name, [content]) for name, content in additions]))


def removed(data: bytes, prefix: str = PREFIX) -> bytes:
    return build.as_bytes(remove_sections(build.as_view(data), prefix))


def sections(data: bytes) -> dict[str, ElfSection]:
    elf = ElfFile(build.as_view(data))
    return {elf.name(section): section for section in elf.sections()}


def content(data: bytes, name: str) -> bytes:
    elf = ElfFile(build.as_view(data))
    return elf.contents(sections(data)[name]).tobytes()


def grouped(bits: int = 64, order: str = "little") -> build.Elf:
    """Return an object with a group between other sections: .text, .group, .text.f, its relocations, .data."""
    file = build.Elf(bits=bits, order=order, machine=build.AARCH64)
    file.add(".text", b"\x90" * 8, flags=build.ALLOC | 4, align=4)
    group = file.add(".group", file.pack("3I", 1, 3, 4), type=build.GROUP, align=4, link=-1, info=1, entsize=4)
    body = file.add(".text.f", b"\xc3" * 8, flags=build.ALLOC | 4 | build.GROUPED, align=4)
    signature = file.symbol("signature", 0, info=0x10)
    inner = file.symbol("inner", body, info=0x12)
    file.relocations(body, (0, inner, 1, 2))
    file.sections[-1].flags |= build.GROUPED
    data = file.add(".data", bytes(range(16)), flags=build.ALLOC | build.WRITE, align=8)
    file.symbol("value", data, info=0x11)
    assert (group, signature) == (2, 1)
    return file


def test_the_rooms_offer_both_functions() -> None:
    data = build.device_object().build()
    pieces = binary.get_objcopy("elf").add_sections(build.as_view(data), [("x", [b"1"])])
    assert build.as_bytes(pieces) == added(data, ("x", b"1"))


@each_kind
def test_added_sections_come_last_and_linkers_drop_them(bits: int, order: str) -> None:
    data = build.device_object(bits=bits, order=order).build()
    fat = added(data, *BUNDLES)
    assert list(sections(fat)) == [*sections(data), *(name for name, _ in BUNDLES)]
    for name, stored in BUNDLES:
        section = sections(fat)[name]
        assert content(fat, name) == stored
        assert (section.type, section.flags, section.align) == (build.PROGBITS, build.EXCLUDE, 1)
    for name in (".text", ".data", ".rela.data", ".llvm.offloading"):
        assert content(fat, name) == content(data, name)


@each_kind
def test_taking_them_out_again_gives_what_adding_nothing_gives(bits: int, order: str) -> None:
    data = grouped(bits, order).build()
    assert removed(added(data, *BUNDLES)) == added(data) == removed(data)
    assert added(added(data)) == added(data)


@each_kind
def test_numbers_of_sections_and_symbols_follow(bits: int, order: str) -> None:
    file = build.Elf(bits=bits, order=order)
    gone = file.add(f"{PREFIX}x", b"image")
    text = file.add(".text", b"\x90" * 16, flags=build.ALLOC | 4)
    file.symbol("", gone, info=build.SECTION_SYMBOL)
    mark = file.symbol("", text, info=build.SECTION_SYMBOL)
    file.symbol("function", text, info=0x12)
    file.relocations(text, (8, mark, 1, 3))
    slim = removed(file.build())
    assert list(sections(slim)) == ["", ".text", ".rela.text", ".symtab", ".strtab", ".shstrtab"]
    relocations, symbols = sections(slim)[".rela.text"], sections(slim)[".symtab"]
    assert (relocations.link, relocations.info, symbols.link, symbols.info) == (3, 1, 4, 2)
    info = struct.unpack_from(file.mark + ("Q" if bits == 64 else "I"), content(slim, ".rela.text"), bits // 8)[0]
    assert info >> (32 if bits == 64 else 8) == mark - 1
    assert symbols.size == 3 * symbols.entry_size


def test_groups_lose_members_and_go_when_nothing_is_left() -> None:
    data = grouped().build()
    without_relocations = removed(data, ".rela.text.f")
    assert content(without_relocations, ".group") == struct.pack("<2I", 1, 3)
    # Relocations go with their section, and do not count as a reason for the group to stay.
    emptied = removed(data, ".text.f")
    assert content(emptied, ".group") == struct.pack("<I", 1)
    assert list(sections(removed(emptied, "nothing"))) == ["", ".text", ".data", ".symtab", ".strtab", ".shstrtab"]
    # Without the group, its members are like other sections.
    assert not sections(removed(data, ".group"))[".text.f"].flags & build.GROUPED


def test_locals_come_before_globals_and_relocations_follow() -> None:
    file = build.Elf()
    text = file.add(".text", b"\x90" * 16)
    file.symbol("global", text, info=0x12)
    local = file.symbol("local", text)
    file.relocations(text, (0, local, 1, 0), (4, 1, 1, 0), (8, 0, 1, 0))
    after = added(file.build())
    symbols = [row[1] >> 32 for row in struct.iter_unpack("<QQq", content(after, ".rela.text"))]
    assert symbols == [1, 2, 0]
    assert sections(after)[".symtab"].info == 2


@pytest.mark.parametrize(
    ("prefix", "problem"),
    [
        (".data", "section '.data' cannot be removed: \\(.text\\+0x4\\) has relocation against symbol 'value'"),
        (".symtab", "symbol table '.symtab' cannot be removed because it is referenced by the relocation section"),
        (".strtab", "string table '.strtab' cannot be removed because it is referenced by the symbol table '.symtab'"),
        (".shstrtab", "cannot write section header table because section header string table was removed"),
        (".order", None),
        (".text", "section '.text' cannot be removed because it is referenced by the section '.order'"),
    ],
)
def test_what_others_need_stays(prefix: str, problem: str | None) -> None:
    file = build.Elf()
    text = file.add(".text", b"\x90" * 16, flags=build.ALLOC | 4)
    values = file.add(".data", bytes(8), flags=build.ALLOC)
    file.add(".order", b"x", flags=build.ALLOC | 0x80, link=text)
    value = file.symbol("value", values, info=0x11)
    file.relocations(text, (4, value, 1, 0))
    data = file.build()
    if problem is None:
        removed(data, prefix)
        return
    with pytest.raises(HostError, match=problem) as caught:
        removed(data, prefix)
    assert caught.value.hint
    assert caught.value.chain == ("test.o",)


def test_a_group_that_would_be_named_by_nothing_is_refused() -> None:
    file = build.Elf()
    named = file.add("gone", b"x", flags=build.GROUPED)
    kept = file.add("kept", b"y", flags=build.GROUPED)
    file.symbol("signature", named, info=0x11)
    file.add(".group", file.pack("3I", 1, named, kept), type=build.GROUP, align=4, link=-1, info=1, entsize=4)
    data = file.build()
    with pytest.raises(HostError, match="named by a symbol in a section that would be removed"):
        removed(data, "gone")
    assert list(sections(removed(data, "kept"))) == ["", "gone", ".group", ".symtab", ".strtab", ".shstrtab"]


def test_relocations_without_addends_in_crel_encoding_are_refused() -> None:
    file = build.Elf()
    text = file.add(".text", b"\x90" * 16)
    file.symbol("s", text)
    file.add(".crel.text", b"\x08\x03\x01\x01", type=build.CREL, link=-1, info=text)
    with pytest.raises(HostError, match="CREL"):
        added(file.build())


NUMBERS = st.integers(0, (1 << 64) - 1)
ENTRIES = st.lists(st.tuples(NUMBERS, st.integers(0, (1 << 32) - 1), st.integers(0, (1 << 32) - 1), NUMBERS))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)  # a busy machine generates examples slowly
@given(ENTRIES)
def test_crel_is_read_as_it_is_written(entries: list[relocations.CrelEntry]) -> None:
    assert relocations.decode_crel(relocations.encode_crel(entries, 64), 64) == entries


@given(st.lists(st.tuples(*[st.integers(0, (1 << size) - 1) for size in (32, 24, 8, 32)])), st.binary(max_size=9))
def test_crel_of_32_bits_and_damaged_crel(entries: list[relocations.CrelEntry], rubbish: bytes) -> None:
    assert relocations.decode_crel(relocations.encode_crel(entries, 32), 32) == entries
    try:
        relocations.decode_crel(rubbish, 32)
    except ValueError as error:
        assert str(error)


@given(st.lists(st.tuples(st.integers(0, 50), st.binary(max_size=30)), max_size=8))
def test_later_layers_cover_earlier_ones(layers: list[tuple[int, bytes]]) -> None:
    expected = bytearray(100)
    for at, painted in layers:
        expected[at : at + len(painted)] = painted
    made = [Layer(at, len(painted), painted if at % 2 else BytesSource(painted).view()) for at, painted in layers]
    assert build.as_bytes(flatten(made, 100)) == bytes(expected)


def test_a_segment_keeps_its_bytes_and_what_was_in_a_removed_section_becomes_zero() -> None:
    file = build.Elf(type=build.EXECUTABLE, segments=[(0, 0x100)])
    file.add(".text", b"T" * 32, flags=build.ALLOC, addr=0x78)
    file.add(".gone", b"G" * 16, flags=build.ALLOC, addr=0x98)
    file.add(".rest", b"R" * 0x58, flags=build.ALLOC, addr=0xA8)
    data = file.build()
    fat, slim = added(data, ("x", b"1")), removed(data, ".gone")
    assert fat[64:0x100] == data[64:0x100]
    assert slim[0x98:0xA8] == bytes(16)
    assert slim[0xA8:0x100] == data[0xA8:0x100]
    assert content(slim, ".rest") == b"R" * 0x58


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_impossible_names_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        added(build.device_object().build(), (name, b""))


def test_names_that_are_no_utf8_are_stored_as_they_were() -> None:
    fat = added(build.device_object().build(), ("\udcff", b"x"))
    assert b"\0\xff\0" in fat


def test_a_file_whose_section_table_would_be_lost_is_refused() -> None:
    data = build.with_header(build.device_object().build(), "shstrndx", 0)
    with pytest.raises(HostError, match="no table of section names"):
        added(data, ("x", b""))


def test_damaged_files_are_named_as_such() -> None:
    data = build.device_object().build()
    with pytest.raises(BadValue, match="section 2 does not lie inside"):
        added(build.with_section(data, 2, size=1 << 30))
    with pytest.raises(FormatError, match="the name lies outside"):
        added(build.with_section(data, 2, name=5000))
    with pytest.raises(HostError, match=r"Info field value 77 in section .rela.data is invalid"):
        added(build.with_section(data, 4, info=77))


def test_alignment_cannot_make_the_file_huge() -> None:
    with pytest.raises(HostError, match="would be put into a file of"):
        added(build.with_section(build.device_object().build(), 3, addralign=1 << 40))
    zeros = build.with_section(build.device_object().build(), 5, size=1 << 40)
    with pytest.raises(HostError, match="would be put into a file of"):
        added(zeros, (".bss", b""))


def test_alignment_of_segments_cannot_make_the_file_huge() -> None:
    file = build.Elf(type=build.EXECUTABLE, segments=[(0, 0x40), (0x100, 0x40)])
    file.add(".text", b"T" * 0x200, flags=build.ALLOC, addr=0x78)
    data = file.build()
    for field, value in ((16, 0), (48, 0x200000000000008)):  # p_vaddr and p_align of the second segment
        at = 64 + 56 + field
        data = data[:at] + value.to_bytes(8, "little") + data[at + 8 :]
    with pytest.raises(HostError, match="would be put into a file of"):
        added(data)


def test_a_number_that_no_header_can_hold_is_refused() -> None:
    model = ElfModel(ElfFile(build.as_view(build.device_object().build())))
    model.parts[0].info = 1 << 32
    with pytest.raises(HostError, match="has a number that its fields cannot hold"):
        written(model)


def test_sections_over_the_same_bytes_are_refused_not_multiplied() -> None:
    file = build.Elf()
    for number in range(50):
        file.add(f".s{number}", b"")
    file.add(".all", b"c" * 100_000)
    data = file.build()
    for index in range(1, 51):
        data = build.with_section(data, index, offset=0, size=100_000)
    with pytest.raises(LimitExceeded, match="overlap"):
        added(data)


def test_contents_are_passed_on_unread() -> None:
    image = Untouchable(b"i" * 100).view()
    pieces = add_sections(build.as_view(build.device_object().build()), [("x", [b"head", image])])
    assert any(piece is image for piece in pieces)


def test_a_large_host_takes_little_memory(tmp_path: Path) -> None:
    """A sparse file of a gigabyte: its one large section is copied as a range of the file."""
    size = 1 << 30
    file = build.Elf()
    file.add(".text", b"\x90" * 64, flags=build.ALLOC | 4)
    file.add(".large", b"")
    file.symbol("function", 1, info=0x12)
    data = build.with_section(file.build(), 2, offset=4096, size=size)
    path, image = tmp_path / "large.o", (f"{PREFIX}a", [b"image"])
    edited = edited_sparse(path, data, 4096 + size, lambda view: add_sections(view, [image]))
    assert edited.largest >= size
    assert edited.peak < 1 << 20


def test_a_written_file_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "host.o").write_bytes(grouped().build())
    with open_source(tmp_path / "host.o") as source:
        pieces = add_sections(source.view(), [(name, [stored]) for name, stored in BUNDLES])
        write_file(tmp_path / "fat.o", pieces)
    with open_source(tmp_path / "fat.o") as source:
        slim = build.as_bytes(remove_sections(source.view(), PREFIX))
    assert slim == added(grouped().build())


@pytest.mark.sweep(2)
@pytest.mark.parametrize("count", [0xFF00 - 6, 0xFF00 + 3])
def test_section_numbers_beyond_16_bits_come_and_go(count: int) -> None:
    file = build.Elf()
    file.add(f"{PREFIX}x", b"")
    for number in range(count - 5):
        file.add(f".t{number % 9}", b"")
    last = file.add(".last", b"l")
    file.symbol("high", last, info=0x11)
    fat = added(file.build(), *BUNDLES, *BUNDLES)
    for data in (fat, removed(fat)):
        elf = ElfFile(build.as_view(data))
        needs_table = sections(data)[".last"].index >= 0xFF00
        assert (".symtab_shndx" in sections(data)) == needs_table
        assert elf.section_count == len(list(elf.rows()))
