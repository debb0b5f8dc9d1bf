"""Programs whose section table is gone or damaged: containers are found through the records in their segments."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest
from tests.builders import elf as build
from tests.laws.rooms import FIXTURES
from tests.registration.test_cuda import FATBIN, record
from tests.registration.test_hip import bundle
from tests.registration.test_hip import record as hip_record

from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan
from fatpack.scanner.context import SEARCH_SECTIONS, start_scan
from fatpack.scanner.scan_host import scan_limited
from fatpack.tools.llvm.object_files import llvm_images

LOAD, DYNAMIC = 1, 2
READ, WRITE = 4, 6
BASE = 0x400000


class Segment(NamedTuple):
    content: bytes
    flags: int = READ
    type: int = LOAD
    address: int | None = None


def program(*segments: Segment, bits: int = 64, order: str = "little", type: int = build.SHARED) -> bytes:
    """Return a program without a section table, each segment at a multiple of 4096 and at BASE more in memory."""
    mark = "<" if order == "little" else ">"
    row = struct.Struct(mark + build.PROGRAM[bits])
    header = struct.Struct(mark + build.HEADER[bits])
    body, rows = bytearray(), b""
    for segment in segments:
        offset = 4096 + len(body)
        address = BASE + offset if segment.address is None else segment.address
        size = len(segment.content)
        if bits == 64:
            rows += row.pack(segment.type, segment.flags, offset, address, address, size, size, 4096)
        else:
            rows += row.pack(segment.type, offset, address, address, size, size, segment.flags, 4096)
        body += segment.content + bytes(-size % 4096)
    ident = b"\x7fELF" + bytes([bits // 32, 1 if order == "little" else 2, 1])
    head = header.pack(
        ident, type, build.X86_64, 1, 0, header.size, 0, 0, header.size, row.size, len(segments), 0, 0, 0
    )
    return (head + rows).ljust(4096, b"\0") + bytes(body)


def at(number: int) -> int:
    """Return the address of a segment when all are smaller than 4096 bytes."""
    return BASE + 4096 + 4096 * number


def items(data: bytes, *, deep: bool = False) -> list[FoundContainer | Finding]:
    """Return what records lead to; a scan would search the whole file where that is nothing."""
    view = BytesSource(data, "x.so").view()
    return list(scan(view, deep=True) if deep else scan_limited(start_scan(view, SEARCH_SECTIONS)))


def found(data: bytes, *, deep: bool = False) -> list[tuple[str, int]]:
    containers = [item for item in items(data, deep=deep) if isinstance(item, FoundContainer)]
    assert {(item.host, item.section, item.index) for item in containers} <= {("elf", None, None)}
    return [(item.container.format, item.container.span.start) for item in containers]


def findings_of(data: bytes) -> list[str]:
    return [item.code for item in items(data) if isinstance(item, Finding)]


def test_what_records_in_writable_segments_lead_to_is_listed() -> None:
    records = record(at(0)) + record(at(0) + len(FATBIN), version=2) + hip_record(at(1))
    data = program(Segment(FATBIN * 2), Segment(bundle()), Segment(bytes(8) + records, WRITE))
    expected = [("cuda-fatbin", 4096), ("cuda-fatbin", 4096 + len(FATBIN)), ("clang-offload-bundle", 8192)]
    assert found(data) == expected
    assert findings_of(data) == ["FP1006"]
    assert found(data, deep=True) == expected


def test_a_container_without_a_record_takes_a_deep_search_as_the_finding_says() -> None:
    data = program(Segment(b"code" + FATBIN), Segment(bytes(64), WRITE))
    assert found(data) == []
    (finding,) = [item for item in items(data) if isinstance(item, Finding)]
    assert "deep=True" in finding.hint
    assert found(data, deep=True) == [("cuda-fatbin", 4100)]


@pytest.mark.parametrize("flags", [READ, 5])
def test_records_are_looked_for_where_a_program_writes(flags: int) -> None:
    assert found(program(Segment(FATBIN), Segment(record(at(0)), flags))) == []


@pytest.mark.parametrize(
    "false",
    [
        b"\1\2\3\4" + record(at(0)),  # not aligned
        record(at(0), version=3),
        record(at(0) + 8),  # leads into a fat binary
        record(0x10),
        record(0),
        hip_record(at(0)),  # leads to something of another model
    ],
)
def test_what_only_looks_like_a_record_is_none(false: bytes) -> None:
    data = program(Segment(FATBIN), Segment(false, WRITE))
    assert found(data) == []
    assert findings_of(data) == ["FP1006"]


def test_pointers_that_a_loader_fills_in_are_followed() -> None:
    relocations = struct.pack("<QQq", at(2) + 8, 8, at(0)) + struct.pack("<QQq", at(2) + 24, 0, 0)
    dynamic = struct.pack("<QQQQQQ", 7, at(1), 8, len(relocations), 0, 0)
    data = program(Segment(FATBIN), Segment(relocations), Segment(record(), WRITE), Segment(dynamic, WRITE, DYNAMIC))
    assert found(data) == [("cuda-fatbin", 4096)]
    # Without an end the table is read to its last byte, and a place outside the segments is none.
    lost = dynamic[:32].replace(struct.pack("<Q", at(1)), struct.pack("<Q", 0x99))
    data = program(Segment(FATBIN), Segment(relocations), Segment(record(), WRITE), Segment(lost, WRITE, DYNAMIC))
    assert found(data) == []


@pytest.mark.parametrize(("bits", "order"), [(32, "little"), (32, "big"), (64, "big")])
def test_other_words_and_orders(bits: int, order: str) -> None:
    mark, word = ("<" if order == "little" else ">"), ("I" if bits == 32 else "Q")
    wrapper = struct.pack(f"{mark}II{word}{word}", 0x466243B1, 1, at(0), 0)
    data = program(Segment(FATBIN), Segment(wrapper, WRITE), bits=bits, order=order)
    assert found(data) == [("cuda-fatbin", 4096)]


@pytest.mark.parametrize("damage", [{"shentsize": 33}, {"shnum": 60000}, {"shoff": 1 << 40}])
def test_a_damaged_section_table_is_reported_and_gone_round(damage: dict[str, int]) -> None:
    data = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.stripped.so").read_bytes()
    whole = [item.view.tobytes() for item in items(data) if isinstance(item, FoundContainer)]
    ((name, value),) = damage.items()
    damaged = build.with_header(data, name, value)
    assert [item.view.tobytes() for item in items(damaged) if isinstance(item, FoundContainer)] == whole
    (finding,) = [item for item in items(damaged) if isinstance(item, Finding)]
    assert finding.code == "FP1001"
    assert "deep=True" in finding.hint


def test_damaged_program_headers_leave_nothing_to_go_by() -> None:
    data = program(Segment(FATBIN), Segment(record(at(0)), WRITE))
    assert found(build.with_header(data, "phentsize", 33)) == []
    assert findings_of(build.with_header(data, "phentsize", 33)) == ["FP1006", "FP1001"]
    assert findings_of(build.with_header(data, "phoff", 1 << 40)) == ["FP1006", "FP1001"]


def test_a_container_that_is_cut_off_is_reported() -> None:
    data = program(Segment(record(at(1)), WRITE), Segment(FATBIN))
    cut = data[: 8192 + len(FATBIN) - 8]
    assert [code for code in findings_of(cut) if code != "FP1006"] == ["FP1402", "FP1401"]


def test_many_records_and_segments_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    data = program(Segment(FATBIN), *[Segment(record(at(0)), WRITE)] * 65)
    assert found(data) == [("cuda-fatbin", 4096)]
    late = program(
        Segment(FATBIN), *[Segment(b"", WRITE)] * 5, *[Segment(b"x" * 24, WRITE)] * 64, Segment(record(at(0)), WRITE)
    )
    assert found(late) == []
    monkeypatch.setattr("fatpack.registration.stripped_programs._MOST", 1)
    data = program(Segment(FATBIN * 2), Segment(record(at(0)) + record(at(0) + len(FATBIN)), WRITE))
    assert len(found(data)) == 1


def test_the_stand_in_for_llvms_extractor_finds_nothing_as_llvm_does() -> None:
    data = program(Segment(FATBIN), Segment(record(at(0)), WRITE))
    assert list(llvm_images(BytesSource(data).view(), "x", "22")) == []
