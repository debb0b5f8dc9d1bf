"""Records that are damaged or lie: findings with offsets, no crash, and no more work than there are bytes."""

from __future__ import annotations

import struct

import pytest
from tests.builders import coff, elf
from tests.effort import some
from tests.registration.analysis.test_hostile import Reading
from tools.fuzz.evidence import all_records, read_evidence

from fatpack.binary.elf.file import ElfFile
from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.registration.analysis import analyze
from fatpack.registration.analysis.model import RegistrationEvidence

NEW = struct.pack("<QHHI5Q", 0, 1, 1, 0, 1, 1, 0, 0, 0)
NAMES = ("__tgt_register_lib", "__cudaRegisterFatBinary")


def built(*sections: tuple[str, bytes], type: int = elf.RELOCATABLE) -> bytes:
    """Return an ELF file with loaded sections at consecutive addresses, and names of two runtimes."""
    made = elf.Elf(type=type)
    for number, (name, content) in enumerate(sections):
        made.add(name, content, flags=elf.ALLOC | elf.WRITE, addr=0x1000 * (number + 1) if type != 1 else 0)
    for name in NAMES:
        made.symbol(name, 0)
    return made.build()


def findings(data: bytes, host: str = "elf") -> list[Finding]:
    view = BytesSource(data).view()
    return [item for item in analyze.registration_findings(view, host, lambda: None) if isinstance(item, Finding)]


def evidence(data: bytes) -> RegistrationEvidence:
    found, _ = analyze.read_evidence(BytesSource(data).view(), "elf")
    assert found is not None
    return found


@pytest.mark.parametrize("rest", [1, 7, 31, 55])
def test_an_entry_that_is_cut_is_reported_where_it_lies(rest: int) -> None:
    data = built(("llvm_offload_entries", NEW + b"\x01" * rest))
    found = [item for item in findings(data) if item.code == "FP3056"]
    parts = divmod(rest, 32)[1]
    assert [(item.span.size, data.index(NEW) + 56 + rest - item.span.end) for item in found] == [(parts, 0)]
    assert "are not a whole offload entry" in found[0].message


def test_a_section_of_entries_without_bytes_says_nothing() -> None:
    assert findings(built(("llvm_offload_entries", b""))) == []
    assert findings(built(("llvm_offload_entries", bytes(56)))) == []


def test_descriptors_that_point_into_each_other_end() -> None:
    word = struct.Struct("<IIQQQ")
    # Each descriptor has the next one's record as its image, and all claim more images than there are bytes.
    entries = 0x2000
    rows = b"".join(
        word.pack(count, 0, 0x1000 + 32 * (index % 64), entries, entries + 56)
        for index, count in enumerate([1, 4096, 1 << 31] * 64)
    )
    data = built((".data", rows), ("llvm_offload_entries", NEW), (".llvm.offloading", bytes(64)), type=elf.SHARED)
    pytest.importorskip("capstone")
    source = Reading(data)
    found, _ = analyze.read_evidence(source.view(), "elf")
    assert found is not None
    assert len(found.descriptors) <= 64
    assert sum(len(each.images) for each in found.descriptors) <= 1 << 12
    assert source.count < 100 * len(data)


def test_constructors_that_point_outside_lead_nowhere() -> None:
    made = elf.Elf()
    run = made.add(".init_array", bytes(24), flags=elf.ALLOC | elf.WRITE)
    text = made.add(".text", b"\xc3" * 8, flags=elf.ALLOC | 4)
    symbol = made.symbol("f", text, 0, 8, 2)
    far = made.symbol("far", text, 1 << 62, 8, 2)
    for name in NAMES:
        made.symbol(name, 0)
    made.relocations(run, (0, symbol, 1, 1 << 40), (8, far, 1, -(1 << 63)), (16, symbol, 1, 0))
    found = evidence(made.build())
    assert len(found.constructors) == 3
    assert found.reached is not None
    assert len(found.reached) == 1


def test_symbol_tables_that_are_gone_or_lie_give_no_verdict() -> None:
    whole = all_records()
    host = ElfFile(BytesSource(whole).view())
    for section in host.sections():
        if host.name(section) in (".symtab", ".strtab"):
            for field, value in (("link", 999), ("offset", 1 << 40), ("size", 1 << 40), ("type", 1), ("size", 25)):
                data = bytearray(whole)
                at = host.section_field(section.index, field)
                width = 4 if field in ("link", "type") else 8
                data[at : at + width] = value.to_bytes(width, "little")
                read_evidence(bytes(data))
                assert findings(bytes(data)) == []


def test_headers_of_coff_sections_that_share_a_table_are_read_once() -> None:
    rows = [(0, 0, 1)] * 4000
    sections = [coff.Section(b".text", b"\x90" * 64, 0x60000020, rows)]
    sections += [coff.Section(b".CRT$XCU", bytes(8)) for _ in range(20_000)]
    data = bytearray(coff.build(sections, [coff.Symbol(name.encode(), 0) for name in NAMES], big=True))
    first = 56
    table = data[first + 24 : first + 28]
    for number in range(1, len(sections)):
        at = first + 40 * number
        data[at + 24 : at + 28] = table
        data[at + 32 : at + 34] = (4000).to_bytes(2, "little")
    source = Reading(bytes(data))
    found, way = analyze.read_evidence(source.view(), "coff")
    assert way == "relocations"
    assert found is not None
    assert source.count < 16 * len(data)


def test_any_word_of_the_smallest_file_with_all_records_may_lie() -> None:
    whole = all_records()
    values = (b"\xff" * 8, b"\x7f" + b"\xff" * 7, (len(whole) - 8).to_bytes(8, "little"))
    for at in some(range(0, len(whole) - 7, 8)):
        read_evidence(whole[:at] + values[at // 8 % 3] + whole[at + 8 :])


def test_what_is_cut_off_anywhere_is_answered() -> None:
    whole = all_records()
    for end in some(range(0, len(whole), 37)):
        read_evidence(whole[:end])
