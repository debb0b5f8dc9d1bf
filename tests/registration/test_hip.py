"""The records that register HIP's bundles, compared with the bundles of the same file."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from tests.builders import elf as build
from tests.builders import pe as build_pe

from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan

ABSOLUTE, RELATIVE = 1, 8
HIPF, HIPK = 0x48495046, 0x4B504948


def bundle(image: bytes = b"\x7fELF device") -> bytes:
    """Return a bundle of 4096 bytes with one image."""
    id = b"hipv4-amdgcn-amd-amdhsa--gfx90a"
    head = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, 512, len(image), len(id)) + id
    return (head.ljust(512, b"\0") + image).ljust(4096, b"\0")


def record(pointer: int = 0, magic: int = HIPF, version: int = 1) -> bytes:
    return struct.pack("<IIQQ", magic, version, pointer, 0)


def library(targets: Sequence[int | None], *, bundles: int = 2, records: bytes | None = None) -> bytes:
    """Return a library with bundles from 0x10000 on, and a record whose pointer a relocation fills per target."""
    elf = build.Elf(type=build.SHARED)
    elf.add(".hip_fatbin", bundle() * bundles, flags=build.ALLOC, align=4096, addr=0x10000)
    content = b"".join(record() for _ in targets) if records is None else records
    elf.add(".hipFatBinSegment", content, flags=build.ALLOC | build.WRITE, align=8, addr=0x20000)
    rows = [(0x20008 + 24 * number, RELATIVE, to) for number, to in enumerate(targets) if to is not None]
    elf.add(".rela.dyn", b"".join(struct.pack("<QQq", *row) for row in rows), type=build.RELA, flags=build.ALLOC)
    return elf.build()


def findings_of(data: bytes) -> list[tuple[str, str]]:
    items = list(scan(BytesSource(data, "x.so").view()))
    return [(item.code, item.message) for item in items if isinstance(item, Finding) and item.code.startswith("FP3")]


def test_a_record_for_every_bundle_is_nothing_to_tell() -> None:
    data = library([0x10000, 0x11000])
    assert sum(isinstance(item, FoundContainer) for item in scan(BytesSource(data).view())) == 2
    assert findings_of(data) == []


def test_units_of_a_relocatable_link_share_one_bundle() -> None:
    assert findings_of(library([0x10000, 0x10000, 0x10000], bundles=1)) == []


def test_a_bundle_without_a_record_is_reported() -> None:
    ((code, message),) = findings_of(library([0x10000]))
    assert code == "FP3002"
    at = build.section_field(library([0x10000]), 1, "offset")
    assert message == f"1 of 2 bundles is not registered: no record points to {at + 4096:#x}"


def test_of_many_lost_bundles_some_are_named() -> None:
    ((code, message),) = findings_of(library([0x10000], bundles=9))
    assert code == "FP3002"
    assert message.endswith("and 4 more")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (0x11010, "where no bundle starts"),
        (0x90000, "0x90000, where the file has no bytes"),
        (None, "holds a null pointer"),
    ],
)
def test_a_pointer_that_leads_to_no_bundle_is_reported(target: int | None, words: str) -> None:
    data = library([0x10000, 0x11000, target])
    ((code, message),) = findings_of(data)
    assert code == "FP3003"
    assert message.startswith("record 2 of .hipFatBinSegment ")
    assert words in message


def test_a_damaged_bundle_is_still_pointed_at() -> None:
    data = library([0x10000, 0x11000])
    at = build.section_field(data, 1, "offset")
    data = data[: at + 24] + b"\xff" * 8 + data[at + 32 :]
    assert findings_of(data) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (record(magic=0x466243B1), "has magic 0x466243b1, 0x48495046 was expected"),
        (record(0x10000, version=2), "is of version 2, 1 was expected"),
        (b"\1" * 7, "7 bytes of .hipFatBinSegment are no whole record"),
    ],
)
def test_records_that_are_wrong_are_reported(bad: bytes, words: str) -> None:
    records = record(0x10000) + record(0x11000) + bad
    ((code, message),) = findings_of(library([], records=records))
    assert code == "FP3001"
    assert words in message


def test_padding_between_records_is_skipped() -> None:
    assert findings_of(library([], records=record(0x10000) + bytes(24) + record(0x11000) + bytes(7))) == []


def test_device_code_that_was_moved_is_reported_and_not_missed() -> None:
    (code, message), (damage, _) = findings_of(library([], records=record(0x10000) + record(0x12345, magic=HIPK)))
    assert (code, damage) == ("FP3004", "FP3005")  # what it points to are zeros: tests/registration/test_kpack
    assert "1 of its records" in message
    assert "kpack" in message


def hip_object(*, is_defined: bool) -> bytes:
    elf = build.Elf()
    elf.add(".hip_fatbin", bundle() if is_defined else b"", align=4096)
    segment = elf.add(".hipFatBinSegment", record(), flags=build.ALLOC | build.WRITE, align=8)
    symbol = elf.symbol("", 1, info=build.SECTION_SYMBOL) if is_defined else elf.symbol("__hip_fatbin_5", 0, info=0x10)
    elf.relocations(segment, (8, symbol, ABSOLUTE, 0))
    return elf.build()


@pytest.mark.parametrize("is_defined", [True, False])
def test_objects_have_their_bundle_or_get_it_when_they_are_linked(is_defined: bool) -> None:
    assert findings_of(hip_object(is_defined=is_defined)) == []


def test_relocations_that_are_not_understood_leave_the_counts() -> None:
    elf = build.Elf()
    elf.add(".hip_fatbin", bundle() * 2, align=4096)
    segment = elf.add(".hipFatBinSegment", record() * 2, align=8)
    symbol = elf.symbol("", 1, info=build.SECTION_SYMBOL)
    elf.relocations(segment, (8, symbol, 99, 0), (32, symbol, 99, 4096))
    assert findings_of(elf.build()) == []
    elf = build.Elf()
    elf.add(".hip_fatbin", bundle() * 2, align=4096)
    segment = elf.add(".hipFatBinSegment", record(), align=8)
    elf.relocations(segment, (8, elf.symbol("", 1, info=build.SECTION_SYMBOL), 99, 0))
    ((code, message),) = findings_of(elf.build())
    assert code == "FP3002"
    assert message == "2 bundles are here, and records register 1"


@pytest.mark.parametrize("second", [0x180011000, 0x180011008])
def test_images_of_windows_have_the_addresses_in_place(second: int) -> None:
    sections = [
        build_pe.Section(b".hip_fat", bundle() * 2, address=0x10000),
        build_pe.Section(b".hipFatB", record(0x180010000) + bytes(24) + record(second), address=0x20000),
    ]
    codes = [code for code, _ in findings_of(build_pe.build(sections))]
    assert codes == ([] if second == 0x180011000 else ["FP3003", "FP3002"])


def test_a_host_without_records_is_not_judged() -> None:
    elf = build.Elf()
    elf.add(".hip_fatbin", bundle())
    assert findings_of(elf.build()) == []


def test_no_more_records_are_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.registration.records._MOST", 2)
    items = scan(BytesSource(library([], records=record(0x10000) + record(0x11000) + record(1))).view())
    assert [item.message for item in items if isinstance(item, Finding)] == ["3 records; only the first 2 are read"]


def test_no_more_tables_are_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.registration.records._MOST_TABLES", 1)
    elf = build.Elf(type=build.SHARED)
    elf.add(".hip_fatbin", bundle(), flags=build.ALLOC, align=4096, addr=0x10000)
    for _ in range(3):
        elf.add(".hipFatBinSegment", record(0x10000), flags=build.ALLOC)
    items = scan(BytesSource(elf.build()).view())
    assert [item.message for item in items if isinstance(item, Finding) and item.code == "FP1005"] == [
        "3 sections of records; only the first 1 are read"
    ]


def test_a_hundred_thousand_wrong_records_are_bounded() -> None:
    items = list(scan(BytesSource(library([], records=record(1 << 63) * 100_000)).view()))
    assert len(items) < 1100
    findings = [item for item in items if isinstance(item, Finding)]
    assert {item.code for item in findings} == {"FP1005", "FP3002", "FP3003"}
    assert sum(item.count for item in findings if item.code == "FP3003") == 65536
