"""Known sections of hosts, and unknown sections, which are searched."""

from __future__ import annotations

import pytest
from tests.builders import coff, elf, pe

from fatpack import binary
from fatpack.binary.host_sections import is_known_section, may_hold_anything, section_name_stem, split_sections
from fatpack.io.source import BytesSource


@pytest.mark.parametrize(
    "name",
    (
        ".text .text.main .text$mn .rela.text.main .data.rel.ro .note.gnu.build-id .debug_info .gcc_except_table._Z1fv"
        " .rdata$r .group .llvm_addrsig .eh_frame_hdr .gnu.hash .xdata"
    ).split(),
)
def test_sections_of_compilers_and_linkers_are_usual(name: str) -> None:
    assert is_known_section(name)


@pytest.mark.parametrize("name", [".cask_resource", "", ".nvkernels", ".mytext", "text", ".rsrc", ".datastore"])
def test_sections_of_a_producer_are_not(name: str) -> None:
    assert not is_known_section(name)


def test_names_are_counted_by_their_stem() -> None:
    rows = [(0, 10, ".text.a", 1), (10, 15, ".text.b", 2), (20, 30, ".mine", 3), (30, 40, ".symtab", 4)]
    division = split_sections(rows)
    assert division.searched == [(20, 30)]
    assert division.skipped == {".text": (2, 15)}
    assert (section_name_stem(".text$mn"), section_name_stem(".data"), may_hold_anything(".symtab")) == (
        ".text",
        ".data",
        False,
    )


def test_elf_files_are_divided_as_their_rows_are() -> None:
    made = elf.Elf()
    for name in (".text.a", ".text.b", ".rodata.str1.1", ".mine", ".group", ".data", ".debug_line", ""):
        made.add(name, b"x" * 40)
    data = made.build()
    view = BytesSource(data).view()
    division = binary.divided_sections("elf", view)
    assert division == split_sections(binary.sections("elf", view))
    assert division.skipped == {".text": (2, 80), ".rodata": (1, 40), ".data": (1, 40)}
    assert len(division.searched) == 2
    behind = binary.divided_sections("elf", BytesSource(data + b"behind").view())
    assert list(behind.searched) == [*division.searched, (len(view), len(view) + 6)]


def test_windows_files_are_divided_too() -> None:
    for host, build, section in (("coff", coff.build, coff.Section), ("pe", pe.build, pe.Section)):
        view = BytesSource(build([section(b".text", b"x" * 64), section(b".mine", b"x" * 64)])).view()
        division = binary.divided_sections(host, view)
        assert division.skipped[".text"][0] == 1
        start, end = division.searched[0]
        assert view.read(start, end - start).startswith(b"x" * 64)


def test_a_damaged_host_gives_what_can_be_read() -> None:
    assert binary.divided_sections("elf", BytesSource(b"\x7fELF\2\1").view()).searched == []
    assert binary.divided_sections("archive", BytesSource(b"!<arch>\n").view()).searched == []
