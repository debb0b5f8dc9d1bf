"""Findings of one kind in one place are kept up to a limit, counted beyond it, and shown once."""

from __future__ import annotations

from typing import Any

import pytest

from fatpack import findings
from fatpack.commands.inspect.record import make_file_record
from fatpack.commands.inspect.text import render_inspect
from fatpack.formats.offload_binary.layout import MAGIC
from fatpack.io.source import Span
from fatpack.model import Finding
from fatpack.testing.helpers import make_view
from fatpack.text import findings as text_findings
from fatpack.text.findings import FindingList, finding_lines, finding_record, unlisted_records

PLACE = ("lib.so", ".nv_fatbin")


def note(at: int, message: str = "obfuscated", *, code: str = "FP1408", place: tuple[str, ...] = PLACE) -> Finding:
    return findings.finding(code, Span(at, at + 8, place), message)


def lines(items: list[Finding], **more: Any) -> list[str]:
    return list(finding_lines([finding_record(item) for item in items], **more))


def test_one_finding_has_no_number() -> None:
    assert lines([note(16)]) == ["note FP1408 at 0x10 (.nv_fatbin): obfuscated"]


def test_equal_findings_in_one_place_are_one_line_with_their_number() -> None:
    items = [note(16 * number) for number in range(1, 5573)]
    assert lines(items) == ["note FP1408, 5572 times, first at 0x10 (.nv_fatbin): obfuscated"]
    assert lines(items, title="lib.so") == ["note FP1408, 5572 times: lib.so, first at 0x10: obfuscated"]


def test_a_message_does_not_repeat_the_offset_of_its_finding() -> None:
    assert lines([note(16, "version 0 at 0x10; known is 1"), note(32, "version 0 at 0x20; known is 1")]) == [
        "note FP1408, 2 times, first at 0x10 (.nv_fatbin): version 0; known is 1"
    ]
    assert lines([note(16, "starts at 0x100")]) == ["note FP1408 at 0x10 (.nv_fatbin): starts at 0x100"]


def test_places_and_kinds_are_counted_separately() -> None:
    other = ("lib.so", ".data")
    items = [note(1), note(2, place=other), note(3), note(4, "short", code="FP1402"), note(5, place=other)]
    assert lines(items) == [
        "note FP1408, 2 times, first at 0x1 (.nv_fatbin): obfuscated",
        "note FP1408, 2 times, first at 0x2 (.data): obfuscated",
        "error FP1402 at 0x4 (.nv_fatbin): short",
    ]


def test_the_member_is_named() -> None:
    item = note(16, place=("libx.a(inner.a(m.o))", ".nv_fatbin"))
    assert lines([item], path="libx.a") == ["note FP1408 at 0x10 (inner.a(m.o) → .nv_fatbin): obfuscated"]
    assert lines([note(16, place=("libx.a(m.o)",))], path="libx.a") == ["note FP1408 at 0x10 (m.o): obfuscated"]


def test_many_different_messages_of_a_kind_are_cut_except_verbose() -> None:
    items = [note(number, f"entry {number}") for number in range(20)]
    assert lines(items)[2:] == [
        "note FP1408 at 0x2 (.nv_fatbin): entry 2",
        "note FP1408 (.nv_fatbin): 17 more with other messages; -v shows them",
    ]
    assert len(lines(items[:4])) == 4
    assert [line.rpartition(" ")[2] for line in lines(items, verbose=1)] == [str(number) for number in range(20)]


def test_what_is_not_listed_is_counted_with_its_kind() -> None:
    more = {"code": "FP1408", "severity": "note", "where": list(PLACE), "count": 7}
    assert lines([note(1), note(2)], unlisted=[more]) == ["note FP1408, 9 times, first at 0x1 (.nv_fatbin): obfuscated"]
    assert lines([note(1), note(2, "else")], unlisted=[more])[2:] == [
        "note FP1408 (.nv_fatbin): 7 more with other messages"
    ]
    assert lines([], unlisted=[{**more, "where": []}]) == ["note FP1408: 7 more"]
    assert lines([note(1)], unlisted=[{**more, "where": []}]) == [
        "note FP1408, 8 times, first at 0x1 (.nv_fatbin): obfuscated"
    ]
    two = [note(1), note(2, place=("lib.so", ".data"))]
    assert lines(two, unlisted=[{**more, "where": []}])[2:] == ["note FP1408: 7 more"]


def test_of_a_kind_in_a_place_the_first_are_kept_and_the_rest_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_findings, "KEPT_OF_A_KIND", 3)
    monkeypatch.setattr(text_findings, "KEPT", 5)
    found = FindingList()
    found.extend(note(number, code="FP1105") for number in range(10))
    assert [item.span.start for item in found.kept] == [0, 1, 2]
    found.extend(note(number, code="FP1105", place=("lib.so", ".data")) for number in range(10))
    assert len(found.kept) == 5
    assert unlisted_records(found) == [
        {"code": "FP1105", "severity": "note", "where": list(PLACE), "count": 7},
        {"code": "FP1105", "severity": "note", "where": [], "count": 8},
    ]
    assert len(found.kept) + sum(item["count"] for item in unlisted_records(found)) == 20


def test_that_images_are_obfuscated_is_reported_once_with_their_number() -> None:
    found, tally = FindingList(), findings.FindingTally(1000)
    items = [note(number, f"image {number} is obfuscated") for number in range(6573)]
    found.extend(items)
    assert len(found.kept) == 1
    assert lines(found.kept, unlisted=unlisted_records(found)) == [
        "note FP1408, 6573 times, first at 0x0 (.nv_fatbin): image 0 is obfuscated"
    ]
    assert sum(map(tally.keeps, items)) == 1
    assert [item.count for item in tally.rest()] == [6572]


def test_a_finding_that_represents_several_is_kept_once_and_counted() -> None:
    found = FindingList()
    found.extend(
        [
            note(16, code="FP1105"),
            note(32, code="FP1105").replace(count=5),
            note(48, code="FP1105", place=("lib.so", ".data")).replace(count=2),
        ]
    )
    assert [item.span.start for item in found.kept] == [16, 32, 48]
    assert [item["count"] for item in unlisted_records(found)] == [4, 1]
    assert lines(found.kept, unlisted=unlisted_records(found)) == [
        "note FP1105, 6 times, first at 0x10 (.nv_fatbin): obfuscated",
        "note FP1105, 2 times, first at 0x30 (.data): obfuscated",
    ]


def test_the_record_of_a_file_counts_what_it_does_not_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_findings, "KEPT_OF_A_KIND", 2)
    record = make_file_record(make_view(b"".join(MAGIC + bytes(20) for _ in range(10)), "x"))
    total = len(record["findings"]) + sum(item["count"] for item in record["unlisted_findings"])
    assert len(record["findings"]) == 2
    assert total == 10
    (line,) = (line for line in render_inspect(record) if " FP" in line)
    assert ", 10 times, first at 0x0: " in line
