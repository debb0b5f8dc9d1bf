"""Sizes of tables that only the dynamic section refers to are those that linkers state in section headers."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from fatpack.io.source import BytesSource
from fatpack.proof.elf.reader import ProofElfFile, read_elf
from fatpack.proof.elf.tables import symbol_count, table_size

#: tag of the dynamic section → name of the section
TABLES = {
    "DT_HASH": ".hash",
    "DT_GNU_HASH": ".gnu.hash",
    "DT_SYMTAB": ".dynsym",
    "DT_STRTAB": ".dynstr",
    "DT_VERSYM": ".gnu.version",
    "DT_VERNEED": ".gnu.version_r",
    "DT_VERDEF": ".gnu.version_d",
}


def loaded_libraries() -> list[Path]:
    """Return the libraries that this interpreter has loaded: those of the C library define and need versions."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    names = {line.split()[-1] for line in lines if ".so" in line.split()[-1]}
    return [path for path in map(Path, sorted(names)) if path.is_file() and path.stat().st_size < 5_000_000]


LIBRARIES = loaded_libraries()


def elf_of(data: bytes) -> ProofElfFile:
    return read_elf(BytesSource(data, "lib.so").view())


def places(elf: ProofElfFile) -> dict[str, int]:
    return {tag: value for tag, value, _ in elf.dynamic}


@pytest.mark.parametrize("path", LIBRARIES, ids=[path.name for path in LIBRARIES])
def test_a_table_has_the_size_that_its_linker_states(path: Path) -> None:
    elf = elf_of(path.read_bytes())
    stated = {section.name: section for section in elf.sections}
    at = places(elf)
    found = {name: table_size(elf, tag, at[tag]) for tag, name in TABLES.items() if tag in at}
    assert found == {name: stated[name].size for name in found}
    assert symbol_count(elf) == stated[".dynsym"].size // (24 if elf.memory.word == 8 else 16)


def test_the_libraries_have_tables_of_every_kind() -> None:
    found = {tag for path in LIBRARIES for tag in places(elf_of(path.read_bytes()))}
    assert found >= TABLES.keys() - {"DT_HASH"}


@pytest.mark.parametrize(
    ("tag", "count", "step"), [("DT_VERNEED", "DT_VERNEEDNUM", 8), ("DT_VERDEF", "DT_VERDEFNUM", 12)]
)
def test_versions_that_lead_out_of_the_file_have_no_size(tag: str, count: str, step: int) -> None:
    data = next(data for path in LIBRARIES if tag in places(elf_of(data := path.read_bytes())))
    elf = elf_of(data)
    place = elf.memory.stored(places(elf)[tag], 4)
    assert place is not None
    for at, is_read in ((step, True), (step + 4, places(elf)[count] > 1)):  # the first of its own level, and the next
        changed = bytearray(data)
        struct.pack_into("<I", changed, place.start + at, 1 << 31)
        damaged = elf_of(bytes(changed))
        assert (table_size(damaged, tag, places(damaged)[tag]) is None) == is_read
