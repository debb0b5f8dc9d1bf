"""The byte layouts, compared with the sizes of the gABI and with construct and pyelftools as second readers."""

from __future__ import annotations

import io

import pytest
from tests.builders import elf as build

from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import elf_layouts

KINDS = [(32, "little"), (32, "big"), (64, "little"), (64, "big")]
each_kind = pytest.mark.parametrize(("bits", "order"), KINDS)
NAMES = ("header", "section", "program", "symbol", "rel", "rela", "index", "dynamic")


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize(
    ("bits", "sizes"), [(32, (52, 40, 32, 16, 8, 12, 4, 8)), (64, (64, 64, 56, 24, 16, 24, 4, 16))], ids=["32", "64"]
)
def test_records_have_the_sizes_of_the_gabi(bits: int, sizes: tuple[int, ...], order: str) -> None:
    assert tuple(getattr(elf_layouts(bits, order), name).size for name in NAMES) == sizes


@pytest.mark.parametrize("bits", [32, 64])
def test_fields_lie_where_the_gabi_has_them(bits: int) -> None:
    tables = elf_layouts(bits, "little")
    ours = {"phoff": "program_offset", "shoff": "section_offset", "phentsize": "program_entry_size"}
    ours |= {"phnum": "program_count", "shentsize": "section_entry_size", "shnum": "section_count"}
    ours |= {"shstrndx": "names_index"}
    for name, offset in build.HEADER_FIELDS[bits].items():
        assert tables.header.field_offset(ours.get(name, name)) == offset
    ours = {"name": "name_offset", "addr": "address", "addralign": "align", "entsize": "entry_size"}
    for name, offset in build.SECTION_FIELDS[bits].items():
        assert tables.section.field_offset(ours.get(name, name)) == offset


def test_layouts_are_built_once() -> None:
    assert elf_layouts(64, "little") is elf_layouts(64, "little")


@each_kind
def test_every_field_says_what_it_means(bits: int, order: str) -> None:
    tables = elf_layouts(bits, order)
    for name in NAMES:
        for row in getattr(tables, name).fields:
            assert len(row.doc) > 10, row.name


@each_kind
def test_construct_reads_the_same_values(bits: int, order: str) -> None:
    tables = elf_layouts(bits, order)
    for name in NAMES:
        layout = getattr(tables, name)
        raw = bytes((37 * at + 11) % 251 for at in range(layout.size))
        parsed = layout.construct().parse(raw)
        assert [parsed[field.name] for field in layout.fields] == list(layout.struct.unpack(raw))


@each_kind
def test_pyelftools_reads_the_same_tables(bits: int, order: str) -> None:
    from elftools.elf.elffile import ELFFile

    data = build.device_object(bits=bits, order=order).build()
    ours, theirs = ElfFile(build.as_view(data)), ELFFile(io.BytesIO(data))
    assert ours.section_count == theirs.num_sections()
    assert ours.names_index == theirs.get_shstrndx()
    for section in ours.sections():
        other = theirs.get_section(section.index)
        header = other.header
        assert ours.name(section) == other.name
        assert (section.offset, section.size, section.flags) == (header.sh_offset, header.sh_size, header.sh_flags)
        assert (section.link, section.info, section.align) == (header.sh_link, header.sh_info, header.sh_addralign)
        assert (section.address, section.entry_size) == (header.sh_addr, header.sh_entsize)
