"""Reading headers and tables: every number that could point outside the file is checked first."""

from __future__ import annotations

from typing import Literal

import pytest
from tests.builders import elf as build
from tests.laws.rooms import FIXTURES

from fatpack import limits
from fatpack.binary.elf import detect, file, layout
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import elf_layouts
from fatpack.binary.elf.segments import dynamic_entries
from fatpack.binary.elf.symbols import read_symbols
from fatpack.errors import BadMagic, BadValue, LimitExceeded, Truncated


def opened(data: bytes) -> ElfFile:
    return ElfFile(build.as_view(data))


@pytest.fixture
def plain() -> bytes:
    return build.device_object().build()


def test_detect_wants_the_magic_and_nothing_else(plain: bytes) -> None:
    assert detect(build.as_view(plain))
    assert detect(build.as_view(b"\x7fELF"))
    assert not detect(build.as_view(b"\x7fELG" + plain[4:]))
    assert not detect(build.as_view(b""))


def test_another_file_is_no_elf_file() -> None:
    with pytest.raises(BadMagic, match="expected 7f 45 4c 46, found 4d 5a"):
        opened(b"MZ")


def test_a_file_that_ends_in_the_identification_is_cut_short() -> None:
    with pytest.raises(Truncated, match="needs 16 bytes, 9 left"):
        opened(b"\x7fELF\x02\x01\x01\0\0")


@pytest.mark.parametrize(("at", "field"), [(4, "class"), (5, "byte order")])
def test_an_unknown_class_or_byte_order_is_named(plain: bytes, at: int, field: str) -> None:
    with pytest.raises(BadValue) as caught:
        opened(plain[:at] + b"\3" + plain[at + 1 :])
    assert (caught.value.field, caught.value.offset, caught.value.found) == (field, at, "3")


def test_errors_are_absolute_and_carry_the_chain(plain: bytes) -> None:
    view = build.as_view(b"1234" + build.with_header(plain, "shentsize", 63)).slice(4, len(plain), "member")
    with pytest.raises(BadValue) as caught:
        ElfFile(view)
    assert caught.value.offset == 4 + 58
    assert caught.value.chain == ("test.o", "member")
    assert (caught.value.expected, caught.value.found) == ("64", "63")


def test_a_section_table_outside_the_file_is_cut_short(plain: bytes) -> None:
    with pytest.raises(Truncated, match="section table"):
        opened(plain[:-1])
    with pytest.raises(Truncated):
        opened(build.with_header(plain, "shoff", (1 << 64) - 1))
    with pytest.raises(Truncated, match="section table"):
        opened(build.with_header(plain, "shnum", 0xFFFF))


LINKED = (FIXTURES / "elf" / "lld-22-sycl.so").read_bytes()


@pytest.mark.parametrize(
    ("name", "value", "hint"),
    [
        ("shoff", 1 << 40, "the file is cut short, or e_shoff at 0x28 is wrong"),
        ("shnum", 0xFFF0, "the file is cut short, or e_shoff at 0x28 or e_shnum at 0x3c is wrong"),
    ],
)
def test_a_wrong_number_of_the_section_table_is_not_reported_as_a_cut_alone(
    plain: bytes, name: str, value: int, hint: str
) -> None:
    for data in (plain, LINKED):
        with pytest.raises(Truncated, match="section table") as caught:
            opened(build.with_header(data, name, value))
        assert caught.value.hint == hint


def test_a_file_that_lacks_bytes_of_its_segments_is_cut_short() -> None:
    end = max(end for _, end in opened(LINKED).segment_ranges())
    for size in (end - 1, 100):
        with pytest.raises(Truncated, match="section table") as caught:
            opened(LINKED[:size])
        assert caught.value.hint == "the file looks cut short"
    with pytest.raises(Truncated, match="or e_shoff at 0x28") as caught:
        opened(LINKED[:end])
    assert caught.value.left <= 0


def test_a_count_without_a_table_is_refused(plain: bytes) -> None:
    with pytest.raises(BadValue, match="the table has no place"):
        opened(build.with_header(plain, "shoff", 0))


def test_a_file_without_a_section_table_has_no_sections(plain: bytes) -> None:
    elf = opened(build.with_header(build.with_header(plain, "shoff", 0), "shnum", 0))
    assert elf.section_count == 0
    assert list(elf.sections()) == []


def test_the_number_of_sections_is_limited_on_purpose(plain: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECTIONS", 3)
    with pytest.raises(LimitExceeded, match="at most 3"):
        opened(plain)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("count", [0xFEFE, 0xFEFF, 0xFF00, 70000])
def test_counts_that_do_not_fit_into_the_header_come_from_section_0(count: int, order: str) -> None:
    elf = build.Elf(order=order)
    for number in range(count - 2):
        elf.sections.append(build.Section("", type=build.PROGBITS, info=number))
    data = elf.build()
    ours = opened(data)
    assert ours.section_count == count
    assert ours.names_index == count - 1
    assert build.header_field(data, "shnum") == (0 if count >= 0xFF00 else count)
    assert build.header_field(data, "shstrndx") == (0xFFFF if count > 0xFF00 else count - 1)
    assert ours.names_section().type == layout.STRTAB
    (infos,) = ours.columns("info")
    assert infos == [0, *range(count - 2), 0]
    assert [row[7] for row in ours.rows()] == infos


def test_columns_agree_with_rows_in_every_kind_of_file() -> None:
    for bits in (32, 64):
        for order in ("little", "big"):
            elf = opened(build.device_object(bits=bits, order=order).build())
            assert [list(column) for column in elf.columns("name_offset", "type")] == [
                [section.name_offset for section in elf.sections()],
                [section.type for section in elf.sections()],
            ]


def test_a_wrong_index_of_the_names_is_named(plain: bytes) -> None:
    elf = opened(build.with_header(plain, "shstrndx", 77))
    with pytest.raises(BadValue, match="expected 1 to 8, found 77"):
        elf.names_section()
    assert elf.title(elf.section(2)) == "section 2"
    with pytest.raises(BadValue, match="expected strtab, found llvm_offloading"):
        opened(build.with_header(plain, "shstrndx", 2)).names_section()


def test_contents_outside_the_file_are_refused(plain: bytes) -> None:
    elf = opened(build.with_section(plain, 2, size=1 << 62))
    with pytest.raises(BadValue) as caught:
        elf.contents(elf.section(2))
    assert caught.value.offset == elf.section_field(2, "offset")
    assert "section 2 does not lie inside the file" in str(caught.value)


def test_sections_without_bytes_may_claim_any_place(plain: bytes) -> None:
    elf = opened(build.with_section(plain, 5, offset=1 << 60))
    assert len(elf.contents(elf.section(5))) == 0
    assert elf.section(5).size == 4096
    assert elf.section(5).stored_size == 0


def test_names_that_are_no_utf_8_are_escaped_and_long_names_cut(plain: bytes) -> None:
    elf = build.Elf()
    elf.add("x" * 5000, b"1")
    data = elf.build().replace(b"\0" + b"x", b"\0" + b"\xff")
    ours = opened(data)
    name = ours.name(ours.section(1))
    assert name.startswith("\\xffxxx")
    assert len(name) == file.NAME_SIZE + 3


def test_program_headers_of_the_wrong_size_are_refused() -> None:
    data = build.device_object(type=build.EXECUTABLE, segments=[(0, 64)]).build()
    assert list(opened(data).segment_ranges()) == [(0, 64)]
    with pytest.raises(BadValue, match="wrong size of a program header"):
        list(opened(build.with_header(data, "phentsize", 32)).programs())
    with pytest.raises(Truncated, match="program header table"):
        list(opened(build.with_header(data, "phnum", 5000)).programs())


def test_many_program_headers_are_counted_in_section_0() -> None:
    data = build.device_object(type=build.EXECUTABLE, segments=[(0, 64)]).build()
    assert opened(build.with_section(build.with_header(data, "phnum", 0xFFFF), 0, info=1)).program_count == 1


@pytest.mark.parametrize(("bits", "order"), [(32, "little"), (32, "big"), (64, "little"), (64, "big")])
def test_symbols_have_one_order_of_fields(bits: int, order: Literal["little", "big"]) -> None:
    record = elf_layouts(bits, order).symbol
    rows = [{"name_offset": n, "info": 18, "other": 2, "section_index": 5, "value": 7 * n, "size": n} for n in range(9)]
    data = b"".join(record.pack(*(row[field.name] for field in record.fields)) for row in rows)
    built = build.Elf(bits=bits, order=order)
    index = built.add(".symtab", data + b"cut", type=build.SYMTAB, entsize=record.size)
    elf = ElfFile(build.as_view(built.build()))
    assert list(read_symbols(elf, elf.section(index))) == [tuple(row.values()) for row in rows]


@pytest.mark.parametrize(("bits", "order"), [(32, "big"), (64, "little")])
def test_a_dynamic_table_ends_at_its_null_entry(bits: int, order: Literal["little", "big"]) -> None:
    record = elf_layouts(bits, order).dynamic
    entries = [(1, 0x10), (14, 0x20), (0, 0), (5, 0x30)]
    built = build.Elf(bits=bits, order=order)
    index = built.add(".dynamic", b"".join(record.pack(*entry) for entry in entries), type=6)
    elf = ElfFile(build.as_view(built.build()))
    section = elf.section(index)
    assert dynamic_entries(elf, section.offset, section.size) == entries[:2]
    assert dynamic_entries(elf, section.offset, record.size + 1) == entries[:1]
    assert dynamic_entries(elf, 1 << 40, 1 << 40) == []
