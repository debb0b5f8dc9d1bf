"""Shrinking loaded device code: moved parts, updated pointers, and refusals."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest
from tests.builders.handmade_elf import (
    AFTER,
    ALLOC,
    BASE,
    CODE,
    CODE_SIZE,
    DATA_ADDRESS,
    MORE,
    MORE_SIZE,
    PROGBITS,
    PT_LOAD,
    PT_RELRO,
    LinkedElf,
    Section,
    Segment,
)

from fatpack.binary import elf
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.shrink import ContainerMove, NewSectionContent, ShrinkRequest
from fatpack.errors import FormatError, HostError, UsageError
from fatpack.io.source import BytesSource
from fatpack.testing.helpers import join_pieces, make_view

if TYPE_CHECKING:
    from fatpack.binary.shrink import ShrinkMode, ShrinkResult

KINDS = list(product((32, 64), ("little", "big")))
each_kind = pytest.mark.parametrize(("bits", "order"), KINDS)

#: containers: old address, old size, new address, new size
FIRST = ContainerMove(BASE + CODE, 0x800, BASE + CODE, 0x40)
SECOND = ContainerMove(BASE + CODE + 0x800, CODE_SIZE - 0x800, BASE + CODE + 0x40, 0xC0)
THIRD = ContainerMove(BASE + MORE, MORE_SIZE, BASE + MORE, 0x100)
NEW = bytes(range(256))


def change(file: LinkedElf, **pointers: int) -> ShrinkRequest:
    """Return the usual change: 256 bytes of both sections are left, and the second container moves."""
    contents = [
        NewSectionContent(file.index(".nv_fatbin"), [NEW]),
        NewSectionContent(file.index(".hip_fatbin"), [NEW[:128], NEW[128:]]),
    ]
    usual = {DATA_ADDRESS: BASE + CODE + 0x10, DATA_ADDRESS + 2 * file.word: SECOND.new}
    return ShrinkRequest(contents, [FIRST, SECOND, THIRD], usual)


def relayed(file: LinkedElf, mode: ShrinkMode = "auto", **facts: object) -> tuple[bytes, ShrinkResult]:
    result = elf.shrink(make_view(file.build()), change(file).replace(**facts), mode=mode)
    return join_pieces(result.pieces), result


def loads(data: bytes) -> list[tuple[int, ...]]:
    """Return (offset, address, size) of the loaded segments."""
    file = ElfFile(make_view(data))
    places = [file.layouts.program.position(name) for name in ("offset", "address", "file_size")]
    return [tuple(row[place] for place in places) for row in file.programs() if row[0] == PT_LOAD]


def memory(data: bytes) -> dict[int, int]:
    """Return address → byte of the loaded segments."""
    return {
        address + number: byte
        for offset, address, size in loads(data)
        for number, byte in enumerate(data[offset : offset + size])
    }


def named(data: bytes) -> dict[str, tuple[int, int, bytes]]:
    """Return name → (address, size, bytes) of the sections."""
    file = ElfFile(make_view(data))
    return {
        file.name(section): (section.address, section.size, file.contents(section).tobytes())
        for section in file.sections()
    }


@each_kind
@pytest.mark.parametrize("mode", ["shrink", "zero"])
def test_memory_is_unchanged_except_device_code_and_its_pointers(bits: int, order: str, mode: ShrinkMode) -> None:
    file = LinkedElf(bits, order, machine=62 if bits == 64 else 3)
    before = file.build()
    after, result = relayed(file, mode)
    assert result.mode == mode and result.why == ""
    assert len(after) == len(before) - sum(size for _, size in result.cuts)
    old, new = memory(before), memory(after)
    changed = {address for address, byte in new.items() if old[address] != byte}
    pointers = range(DATA_ADDRESS, DATA_ADDRESS + 3 * file.word)
    rela = file.section(".rela.dyn")
    table = range(BASE, file.section(".fixed").address)
    addends = range(rela.address, rela.address + len(rela.content))
    dynamic = range(DATA_ADDRESS + 64, DATA_ADDRESS + 128)
    code = range(BASE + CODE, BASE + AFTER)
    assert all(any(address in part for part in (pointers, addends, code, table, dynamic)) for address in changed)
    gone = old.keys() - new.keys()
    assert all(address in code for address in gone)
    assert bool(gone) == (mode == "shrink")
    assert bytes(new[BASE + CODE + at] for at in range(256)) == NEW
    assert bytes(new[BASE + MORE + at] for at in range(256)) == NEW


class _Guarded(BytesSource):
    """A file whose device code must not be read."""

    def read(self, offset: int, size: int) -> bytes:
        assert offset + size <= CODE or offset >= AFTER, f"{size} bytes at {offset:#x} were read"
        return super().read(offset, size)


def test_device_code_is_passed_on_unread() -> None:
    file = LinkedElf()
    view = _Guarded(file.build(), "test").view()
    kept = view.slice(MORE + 0x40, 0x300)
    result = elf.shrink(view, ShrinkRequest([NewSectionContent(file.index(".hip_fatbin"), [kept])], [], {}))
    assert any(piece is kept for piece in result.pieces)
    assert result.mode == "shrink"


@each_kind
def test_segments_are_split_at_pages_and_all_that_follows_moves_down(bits: int, order: str) -> None:
    file = LinkedElf(bits, order, machine=62 if bits == 64 else 3)
    before, (after, result) = file.build(), relayed(file)
    assert [size % 0x1000 for _, size in result.cuts] == [0, 0]
    assert loads(after) == [
        (0, BASE, loads(after)[0][2]),
        (0x2000, BASE + 0xA000, 0x500),
        (0x3000, BASE + 0xF000, 0x440),
        (0x4000, DATA_ADDRESS, loads(before)[1][2]),
    ]
    # The note and the hash table follow the first section's new bytes.
    assert CODE + 0x100 + 0x118 <= loads(after)[0][2] <= CODE + 0x100 + 0x140
    sections = named(after)
    assert sections[".nv_fatbin"] == (BASE + CODE, 256, NEW)
    assert sections[".hip_fatbin"] == (BASE + MORE, 256, NEW)
    kept = {name: facts for name, facts in named(before).items() if name in (".after", ".fixed", ".shstrtab")}
    assert kept.items() <= sections.items()


@each_kind
def test_what_follows_the_program_headers_makes_room(bits: int, order: str) -> None:
    file = LinkedElf(bits, order, machine=62 if bits == 64 else 3)
    before, (after, _) = file.build(), relayed(file)
    old, new = named(before), named(after)
    for name in (".note", ".hash"):
        assert new[name][2] == old[name][2]
        assert BASE + CODE + 0x100 <= new[name][0] < BASE + CODE + 0x240
        assert (new[name][0] - old[name][0]) % 16 == 0
    read = ElfFile(make_view(after))
    rows = list(read.programs())
    kind, offset, address, size = (
        read.layouts.program.position(name) for name in ("type", "offset", "address", "file_size")
    )
    note = next(row for row in rows if row[kind] == 4)
    assert (note[address], note[offset]) == (new[".note"][0], new[".note"][0] - BASE)
    headers = next(row for row in rows if row[kind] == 6)
    assert headers[size] == len(rows) * read.layouts.program.size
    assert new[".dynamic"][2][: 2 * file.word] == file.pack("WW", 4, new[".hash"][0])
    assert read.header.program_offset == read.layouts.header.size


@each_kind
def test_pointers_are_set_in_place_and_in_their_relocations(bits: int, order: str) -> None:
    file = LinkedElf(bits, order, machine=62 if bits == 64 else 3)
    pointers = {DATA_ADDRESS + number * file.word: BASE + CODE + 8 * number for number in range(3)}
    after, _ = relayed(file, pointers=pointers)
    sections = named(after)
    words = "W" * 3
    assert sections[".nvFatBinSegment"][2] == file.pack(words, BASE + CODE, BASE + CODE + 8, 0)
    second = (DATA_ADDRESS + file.word, 8, BASE + CODE + 8)
    third = (DATA_ADDRESS + 2 * file.word, 8, BASE + CODE + 16)
    assert sections[".rela.dyn"][2] == file.pack(words * 2, *second, *third)


def test_a_relocation_against_a_local_symbol_holds_the_distance() -> None:
    file = LinkedElf()
    code = file.index(".nv_fatbin")
    file.section(".dynsym").content = file.symbols([(BASE + CODE + 0x20, 0, 0, code)])
    place = DATA_ADDRESS + 16
    file.section(".rela.dyn").content = file.pack("QQq", place, 1 << 32 | 1, 0x30)
    file.section(".rela.dyn").offset += 64
    file.section(".rela.dyn").address += 64
    after, _ = relayed(file, pointers={place: BASE + CODE + 8})
    assert named(after)[".rela.dyn"][2] == file.pack("QQq", place, 1 << 32 | 1, -0x18)


def test_symbols_follow_their_container() -> None:
    file = LinkedElf()
    code = file.index(".nv_fatbin")
    rows = [
        (FIRST.old, FIRST.old_size, 1, code),
        (SECOND.old, SECOND.old_size, 0x11, code),
        (SECOND.old, 0, 1, code),
        (BASE + CODE, 0, 3, code),
        (SECOND.old + 0x1000, 64, 1, code),
        (SECOND.old + 0x10, 64, 1, code),
        (SECOND.old, 8, 1, 0xFFF1),
        (BASE + AFTER, 64, 1, file.index(".after")),
    ]
    file.symbol_table(*rows)
    after, _ = relayed(file)
    expected = [
        (FIRST.new, FIRST.new_size, 1, code),
        (SECOND.new, SECOND.new_size, 0x11, code),
        (SECOND.new, 0, 1, code),
        (BASE + CODE, 0, 3, code),
        (BASE + CODE + 256, 0, 1, code),
        (SECOND.new + 0x10, 64, 1, code),
        *rows[6:],
    ]
    assert named(after)[".symtab"][2] == file.symbols(expected)


def test_symbols_of_other_places_stay_whatever_section_they_name() -> None:
    """Linkers give ``__ehdr_start`` the first section, and symbols after a section that section."""
    file = LinkedElf()
    rows = [(BASE, 0, 1, number) for number in (file.index(".note"), file.index(".nv_fatbin"))]
    rows += [(BASE + AFTER, 0, 0x10, file.index(".nv_fatbin")), (DATA_ADDRESS, 8, 0x10, file.index(".hash"))]
    note = file.section(".note").address
    file.symbol_table(*rows, (note, 4, 1, file.index(".note")))
    after, _ = relayed(file, "shrink")
    moved = named(after)[".note"][0]
    assert moved != note
    assert named(after)[".symtab"][2] == file.symbols([*rows, (moved, 4, 1, file.index(".note"))])


def test_a_relocation_that_leads_to_a_note_keeps_it_in_its_place() -> None:
    file = LinkedElf()
    file.section(".rela.dyn").content = file.pack("QQQ", DATA_ADDRESS + 16, 8, file.section(".note").address + 4)
    assert "something that a relocation leads to is after the program headers" in why(file, pointers={})


def test_a_global_symbol_on_a_note_keeps_it_in_its_place() -> None:
    file = LinkedElf()
    file.symbol_table((file.section(".note").address, 4, 0x11, file.index(".note")))
    assert "section 1 (.note), which a global symbol names, is after the program headers" in why(file)


def test_a_container_that_other_files_can_see_does_not_move() -> None:
    file = LinkedElf()
    code = file.index(".nv_fatbin")
    file.section(".rela.dyn").offset += 64
    file.section(".rela.dyn").address += 64
    file.section(".dynsym").content = file.symbols([(SECOND.old, 16, 0x11, code)])
    with pytest.raises(HostError, match=r"at address 0x41c00, in section 6 .* would move, and other files can see it"):
        relayed(file)
    file.section(".dynsym").content = file.symbols([(SECOND.old + 8, 16, 0x11, code)])
    with pytest.raises(HostError, match="at address 0x41c08"):
        relayed(file, "zero")
    file.section(".dynsym").content = file.symbols([(FIRST.old, FIRST.old_size, 0x11, code)])
    after, _ = relayed(file)
    assert named(after)[".dynsym"][2] == file.symbols([(FIRST.old, FIRST.new_size, 0x11, code)])


def why(file: LinkedElf, **facts: object) -> str:
    """Return why a file does not get smaller; mode "auto" still edits it, and mode "shrink" refuses."""
    before = file.build()
    after, result = relayed(file, **facts)
    assert (result.mode, len(after), result.cuts) == ("zero", len(before), [])
    if "loses less than a page" not in result.why:
        with pytest.raises(HostError, match="cannot shrink") as caught:
            relayed(file, "shrink", **facts)
        assert "zero" in caught.value.hint and caught.value.problem.partition(": ")[2] in result.why
    return result.why


def test_less_than_a_page_becomes_zeros() -> None:
    file = LinkedElf()
    content = NewSectionContent(file.index(".nv_fatbin"), [b"x" * (CODE_SIZE - 0xFFF)])
    assert why(file, contents=[content], moves=[], pointers={}) == "every section loses less than a page of 4096 bytes"


def test_data_after_the_image_stays_where_it_is() -> None:
    assert "9 bytes that may be looked for there follow the ELF image at 0x10" in why(LinkedElf(trailing=b"signature"))


def test_signed_files_are_refused() -> None:
    file = LinkedElf(trailing=b"somebody's" + b"~Module signature appended~\n")
    with pytest.raises(HostError, match="a signature of the file's bytes is appended to it"):
        relayed(file, "zero")


def lying(number: int, **facts: int) -> LinkedElf:
    file = LinkedElf()
    for name, value in facts.items():
        setattr(file.segments[number], name, value)
    return file


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        (lying(1, flags=6), r"segment 1 at 0x0 is written to"),
        (lying(1, memory=AFTER + 128), r"segment 1 at 0x0 has memory beyond its bytes"),
        (lying(1, memory=64), r"segment 1 at 0x0 has more bytes than memory"),
        (lying(1, memory=0x30000), r"segment 2 at 0x10000 overlaps another one in memory"),
        (lying(1, align=0x3000), r"do not fit its alignment of 0x3000"),
        (lying(1, address=BASE + 8), r"do not fit its alignment of 0x1000"),
        (lying(1, align=8), r"segment 1 at 0x0 is aligned to 8 bytes"),
        (lying(2, offset=0xF000), r"segment 2 at 0xf000 overlaps another one in the file"),
        (lying(1, size=MORE - 0x100), r"it lies in no segment, or in more than one"),
        (lying(1, address=BASE + 0x1000), r"its address is another one than that in segment 1"),
    ],
    ids=lambda case: "" if isinstance(case, LinkedElf) else case.partition(" at ")[2][:40],
)
def test_segments_that_cannot_be_split(file: LinkedElf, reason: str) -> None:
    # Some of these files do not have the pointers.
    assert reason in why(file, pointers={})


@each_kind
def test_physical_addresses_go_round_where_words_end(bits: int, order: str) -> None:
    file = LinkedElf(bits, order)
    data = bytearray(file.build())
    elf_file = ElfFile(make_view(bytes(data)))
    layout, start = elf_file.layouts.program, elf_file.header.program_offset
    place, kind = layout.position("physical_address"), layout.position("type")
    largest, rows = elf_file.layouts.largest, list(elf_file.programs())
    for number, row in enumerate(rows):
        values = list(row)
        values[place] = largest - 0xFFF
        data[start + number * layout.size : start + (number + 1) * layout.size] = layout.pack(*values)
    result = elf.shrink(make_view(bytes(data)), change(file), mode="shrink")
    after = [row for row in ElfFile(make_view(join_pieces(result.pieces))).programs() if row[kind] == PT_LOAD]
    assert len(after) > len([row for row in rows if row[kind] == PT_LOAD])
    at = layout.position("address")
    wholes = [row[at] for row in rows if row[kind] == PT_LOAD]
    for row in after:
        whole = max(address for address in wholes if address <= row[at])
        assert row[place] == (largest - 0xFFF + row[at] - whole) & largest


def test_segments_out_of_order_are_not_split() -> None:
    file = LinkedElf()
    file.segments[1], file.segments[2] = file.segments[2], file.segments[1]
    assert "precedes another one of a lower address" in why(file)


def test_another_segment_over_device_code_keeps_it_whole() -> None:
    file = LinkedElf()
    file.segments[4] = Segment(PT_RELRO, CODE, BASE + CODE, AFTER - CODE, align=1)
    assert "segment 4 lies over it" in why(file)


def test_a_symbol_at_a_sections_end_keeps_it_whole() -> None:
    file = LinkedElf()
    file.symbol_table((BASE + MORE, 0, 0, file.index(".nv_fatbin")))
    after, result = relayed(file)
    assert "section 6 (.nv_fatbin) keeps its size: a symbol is its end" in result.why
    assert (result.mode, [start > MORE for start, _ in result.cuts]) == ("shrink", [True])
    assert named(after)[".nv_fatbin"][1:] == (CODE_SIZE, NEW + bytes(CODE_SIZE - 256))
    with pytest.raises(HostError, match="a symbol is its end"):
        relayed(file, "shrink")


def test_where_no_room_can_be_made_zeros_stay() -> None:
    file = LinkedElf()
    file.section(".note").type = PROGBITS
    assert "section 1 (.note) is after the program headers, where there is room for 0 more and not for 2" in why(file)


def test_with_room_for_one_the_larger_cut_is_made() -> None:
    file = LinkedElf(gap=56)
    file.section(".note").type = PROGBITS
    _, result = relayed(file)
    assert result.mode == "shrink" and "room for 1 more and not for 2" in result.why
    assert [(CODE < start < MORE, size) for start, size in result.cuts] == [(True, 0x8000)]
    with pytest.raises(HostError, match="room for 1 more"):
        relayed(file, "shrink")


def test_free_bytes_after_the_table_are_taken_first() -> None:
    file = LinkedElf(gap=112)
    after, _ = relayed(file, "shrink")
    assert named(after)[".note"] == named(file.build())[".note"]


def test_what_the_dynamic_table_leads_to_is_not_free() -> None:
    file = LinkedElf(gap=112)
    file.section(".dynamic").content = file.pack("QQQQ", 0x6FFFFEF8, BASE + 64 + 5 * 56 + 8, 0, 0)
    assert "something that the dynamic table leads to" in why(file)


@pytest.mark.slow
@pytest.mark.parametrize(("count", "reason"), [(65532, ""), (65533, "it would have more than 65534 program headers")])
def test_as_many_program_headers_as_there_can_be(count: int, reason: str) -> None:
    file = LinkedElf(far=True)
    file.segments = [*file.segments[1:], *[Segment(0, 0, 0, 0)] * (count - len(file.segments) + 1)]
    if reason:
        assert reason in why(file)
        return
    after, _ = relayed(file, "shrink")
    read = ElfFile(make_view(after))
    assert read.program_count == 65534 and len(loads(after)) == 4
    assert len(list(read.programs())) == 65534


@pytest.mark.parametrize(
    ("pointers", "problem"),
    [
        ({BASE + CODE: 0}, "lies in the device code that changes"),
        ({BASE + CODE - 4: 0}, "lies in the device code that changes"),
        ({DATA_ADDRESS - 0x100: 0}, "the file holds no bytes of a pointer at address 0x5ff00"),
        ({1: 0}, "the file holds no bytes of a pointer at address 0x1"),
        ({DATA_ADDRESS + 24: BASE}, "there is no pointer at address 0x60018, 0x10018 in the file"),
        ({DATA_ADDRESS: 1 << 64}, "more than a 64-bit ELF file"),
        ({DATA_ADDRESS: BASE, DATA_ADDRESS + 4: BASE}, "overlap at or after 0x10000"),
    ],
)
def test_pointers_that_are_none(pointers: dict[int, int], problem: str) -> None:
    with pytest.raises(HostError, match=problem):
        relayed(LinkedElf(), pointers=pointers)


@pytest.mark.parametrize(
    ("info", "symbol", "problem"),
    [
        (37, None, "has type 37, whose result is not known"),
        (1 << 32 | 1, (BASE + CODE, 0, 0x11, 6), "goes through a symbol that another file may define"),
        (1 << 32 | 1, (0, 0, 0x10, 0), "goes through a symbol that another file may define"),
        (9 << 32 | 1, None, "names a symbol that is not there"),
    ],
)
def test_relocations_whose_pointers_cannot_be_set(
    info: int, symbol: tuple[int, int, int, int] | None, problem: str
) -> None:
    file = LinkedElf()
    file.section(".dynsym").content = file.symbols([symbol] if symbol else [])
    rela = file.section(".rela.dyn")
    rela.offset, rela.address = rela.offset + 64, rela.address + 64
    rela.content = file.pack("QQq", DATA_ADDRESS + 16, info, 0)
    with pytest.raises((HostError, FormatError), match=problem):
        relayed(file, moves=[], pointers={DATA_ADDRESS + 16: BASE + CODE})


def test_two_relocations_of_one_pointer_are_refused() -> None:
    file = LinkedElf()
    file.section(".rela.dyn").content = file.pack("QQQ", DATA_ADDRESS, 8, BASE + CODE) * 2
    with pytest.raises(HostError, match="two relocations change the pointer at address 0x60000, at 0x"):
        relayed(file, pointers={DATA_ADDRESS: BASE})


def test_relocated_device_code_is_refused() -> None:
    file = LinkedElf()
    file.section(".rela.dyn").content = file.pack("QQQ", BASE + CODE + 0x100, 8, BASE + CODE)
    with pytest.raises(HostError, match=r"relocates section 6 \(.nv_fatbin\), at address 0x41500"):
        relayed(file, pointers={})


def test_packed_relocations_are_refused() -> None:
    file = LinkedElf()
    file.section(".rela.dyn").type = 0x60000002
    with pytest.raises(HostError, match="holds relocations as android_rela, which is not read"):
        relayed(file)


def test_contents_that_cannot_be() -> None:
    file = LinkedElf()
    code, fixed = file.index(".nv_fatbin"), file.index(".hash")
    for contents, problem in (
        ([NewSectionContent(0, [])], "there is no section 0"),
        ([NewSectionContent(99, [])], "there is no section 99"),
        ([NewSectionContent(code, []), NewSectionContent(code, [])], "section 6 is given twice"),
    ):
        with pytest.raises(UsageError, match=problem):
            relayed(file, contents=contents)
    with pytest.raises(HostError, match=r"section 2 \(.hash\) at 0x.* has type hash"):
        relayed(file, contents=[NewSectionContent(fixed, [])])
    with pytest.raises(HostError, match="would get 36865 bytes, and has room for 36864"):
        relayed(file, contents=[NewSectionContent(code, [bytes(CODE_SIZE + 1)])])
    file.section(".nv_fatbin").flags |= 0x400
    with pytest.raises(HostError, match="has flags A"):
        relayed(file)


def test_objects_and_files_without_sections_are_refused() -> None:
    with pytest.raises(HostError, match="this is an object"):
        relayed(LinkedElf(type=1))
    data = bytearray(LinkedElf().build())
    data[40:48] = data[58:64] = b""
    with pytest.raises((HostError, FormatError)):
        elf.shrink(make_view(bytes(data)), ShrinkRequest([], [], {}))


def test_sections_over_each_other_are_refused() -> None:
    file = LinkedElf()
    file.sections.append(Section(".over", PROGBITS, CODE + 8, b"\x11" * 8, ALLOC, BASE + CODE + 8))
    with pytest.raises(HostError, match=r"section 6 \(.nv_fatbin\) and section 11 \(.over\) overlap"):
        relayed(file, "zero")


def test_sections_without_an_address_shrink_without_a_split() -> None:
    file = LinkedElf()
    file.sections.append(Section(".llvm.offloading", PROGBITS, -1, b"z" * 0x5000, 0x80000000))
    before = file.build()
    content = NewSectionContent(file.index(".llvm.offloading"), [b"new"])
    after, result = relayed(file, "shrink", contents=[content], moves=[], pointers={})
    assert len(after) == len(before) - 0x4000 and len(loads(after)) == len(loads(before))
    assert named(after)[".llvm.offloading"] == (0, 3, b"new")
    assert result.cuts[0][1] == 0x4000


def test_an_emptied_section_at_a_segments_end_takes_no_header() -> None:
    file = LinkedElf()
    file.sections = [each for each in file.sections if each.name != ".after"]
    file.segments[1].size = AFTER
    contents = [NewSectionContent(file.index(".hip_fatbin"), [])]
    after, _ = relayed(file, "shrink", contents=contents, moves=[], pointers={})
    assert [size for _, _, size in loads(after)] == [MORE, loads(file.build())[1][2]]


def test_thousands_of_sections_and_segments_are_gone_through_once() -> None:
    """A quadratic algorithm would not finish."""
    file = LinkedElf(far=True)
    del file.segments[0]
    file.sections += [Section(".note", 7, -1, b"note", align=1, address=number) for number in range(8000)]
    file.segments += [Segment(4, 0x10000, DATA_ADDRESS, 8, align=1)] * 4000
    file.symbol_table(*[(0, 0, 1, number % 40000) for number in range(8000)])
    result = elf.shrink(make_view(file.build()), change(file))
    assert result.mode == "zero"
    changes = [NewSectionContent(number, [b""]) for number in range(11, 4000)]
    for section in file.sections[11:4000]:
        section.type = PROGBITS
    elf.shrink(make_view(file.build()), ShrinkRequest(changes, [], {}))
