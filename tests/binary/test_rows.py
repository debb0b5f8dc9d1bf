"""Names for the columns of rows agree with the layouts of the rows."""

from __future__ import annotations

import pytest

from fatpack.binary.coff.layout import CoffSection, section_header_layout
from fatpack.binary.elf import layout


@pytest.mark.parametrize("bits", [32, 64])
def test_columns_of_elf_sections_are_those_of_the_layout(bits: int) -> None:
    fields = layout.elf_layouts(bits, "little").section.fields
    for place, field in enumerate(fields):
        name = field.doc.partition(":")[0].upper().replace("SH_", "SH_", 1)
        assert getattr(layout, name) == place


def test_a_coff_section_has_the_fields_of_its_header() -> None:
    header = section_header_layout("coff")
    section = CoffSection(1, *header.struct.unpack(bytes(range(header.size))))
    assert [name for name in CoffSection._fields if name not in ("number", "stored_name")] == [
        field.name for field in header.fields if field.name != "name"
    ]
    assert header.pack(*section.row) == bytes(range(header.size))
