"""The markers that HIP programs keep where their code was moved to kpack archives."""

from __future__ import annotations

import msgpack
import pytest
from tests.builders import elf as build
from tests.builders.kpack_host import REFERENCE, library, record, reference, windows_library

from fatpack.model import Finding
from fatpack.registration import records
from fatpack.registration.kpack_marker import KpackMarker
from fatpack.scanner import scan
from fatpack.testing.helpers import make_view

PATHS = ("../.kpack/x_lib_@GFXARCH@.kpack", "/opt/x.kpack")


def markers(data: bytes, host: str = "elf") -> list[KpackMarker]:
    found = list(records.kpack_markers(make_view(data), host))
    assert not [item for item in found if isinstance(item, Finding)]
    return [item for item in found if isinstance(item, KpackMarker)]


def findings(data: bytes) -> list[Finding]:
    """Return the findings of a scan of the whole file, which equal those of reading the markers alone."""
    found = [item for item in scan(make_view(data)) if isinstance(item, Finding) and item.code != "FP3004"]
    alone = [item for item in records.kpack_markers(make_view(data), "elf") if isinstance(item, Finding)]
    assert found == alone
    return found


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_marker_says_what_is_looked_up_and_where(is_loaded: bool) -> None:
    found = markers(library(reference("lib/libx.so.1", PATHS), count=3, is_loaded=is_loaded))
    assert [marker.key for marker in found] == ["lib/libx.so.1#0", "lib/libx.so.1#1", "lib/libx.so.1#2"]
    assert {marker.reference.search_paths for marker in found} == {PATHS}


def test_a_marker_says_its_position() -> None:
    marker = reference()
    data = library(marker, count=2)
    at = build.section_field(data, 3, "offset")
    found = markers(data)
    assert (found[0].reference.span.start, found[0].reference.span.end) == (at, at + len(marker))
    assert found[1].span.start == build.section_field(data, 2, "offset") + 24


def test_images_of_windows_have_markers_too() -> None:
    (found,) = markers(windows_library(), "pe")
    assert (found.key, found.reference.search_paths) == ("bin/x.dll#7", ("../.kpack/x_lib_@GFXARCH@.kpack",))
    assert [item.code for item in scan(make_view(windows_library())) if isinstance(item, Finding)] == ["FP3004"]


def test_a_program_whose_code_was_moved_gets_one_finding() -> None:
    """The remainder of ``.hip_fatbin`` has a size and no bytes, which is correct then."""
    (found,) = scan(make_view(library()))
    assert isinstance(found, Finding)
    assert (found.code, found.severity) == ("FP3004", "note")


def test_a_file_of_debug_information_is_still_reported() -> None:
    elf = build.Elf(type=build.SHARED)
    for name in (".hip_fatbin", ".rocm_kpack_ref"):
        elf.add(name, type=build.NOBITS, size=4096, flags=build.ALLOC)
    assert next(item.code for item in scan(make_view(elf.build())) if isinstance(item, Finding)) == "FP2003"


def test_bytes_that_are_no_text_are_kept() -> None:
    (found,) = markers(
        library(
            msgpack.packb(
                {"kernel_name": "lib/é\udcff", "kpack_search_paths": ["\udcfe"]}, unicode_errors="surrogateescape"
            )
        )
    )
    assert (found.key, found.reference.search_paths) == ("lib/é\udcff#0", ("\udcfe",))


def test_the_runtime_takes_the_first_of_two_keys_and_passes_over_what_is_no_path() -> None:
    row = [
        b"\x85",
        *map(msgpack.packb, ("more", {"a": [1]}, "kernel_name", "one", "kpack_search_paths", [1, "a", None])),
    ]
    row += map(msgpack.packb, ("kernel_name", "two", "kpack_search_paths", ["b"]))
    (found,) = markers(library(b"".join(row)))
    assert (found.key, found.reference.search_paths) == ("one#0", ("a",))


def test_a_record_of_another_version_is_reported() -> None:
    assert [(item.code, "version 2" in item.message) for item in findings(library(records=record(version=2)))] == [
        ("FP3001", True)
    ]


@pytest.mark.parametrize(
    ("to", "words"), [(0x99999000, "0x99999000, where the file has no bytes"), (0, "holds a null pointer")]
)
def test_a_pointer_to_nothing_is_reported_at_its_record(to: int, words: str) -> None:
    data = library(records=record() + record(1, to=to))
    (found,) = findings(data)
    assert (found.code, found.severity) == ("FP3005", "error")
    assert found.span.start == build.section_field(data, 2, "offset") + 24
    assert words in found.message
    assert found.message.startswith("record 1 of .hipFatBinSegment")
    assert [item.key for item in records.kpack_markers(make_view(data), "elf") if isinstance(item, KpackMarker)] == [
        "lib/libx.so#0"
    ]


GOOD = msgpack.packb({"kernel_name": "x", "kpack_search_paths": ["y"]})


@pytest.mark.parametrize(
    ("marker", "at", "words"),
    [
        (msgpack.packb([1]), 0, "expected map"),
        (GOOD[:-1], len(GOOD) - 2, "needs 2 bytes, 1 left"),
        (b"\xc1" + GOOD, 0, "begins no value"),
        (msgpack.packb({"kernel_name": "x"}), 0, "kpack_search_paths: the key is missing"),
        (msgpack.packb({"kpack_search_paths": ["y"]}), 0, "kernel_name: the key is missing"),
        (msgpack.packb({"kernel_name": b"x", "kpack_search_paths": ["y"]}), 13, "expected string"),
        (msgpack.packb({"kernel_name": "x", "kpack_search_paths": {}}), 34, "expected array"),
        (msgpack.packb({"kernel_name": "x", "kpack_search_paths": [1]}), 0, "it has no path"),
        (msgpack.packb({"more": bytes(70_000), "kernel_name": "x", "kpack_search_paths": ["y"]}), 6, "bytes"),
    ],
)
def test_a_damaged_marker_is_reported_where_it_is_wrong(marker: bytes, at: int, words: str) -> None:
    data = library(marker, count=2)
    (found,) = findings(data)
    assert (found.code, found.severity) == ("FP3005", "error")
    assert found.span.start == build.section_field(data, 3, "offset") + at
    assert words in found.message
    assert "split the program again" in found.hint


def test_no_more_markers_are_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.registration.kpack_marker._MOST_MAPS", 2)
    data = library(reference() * 3, records=b"".join(record(i, to=REFERENCE + i * len(reference())) for i in range(3)))
    assert [item.code for item in findings(data)] == ["FP1005"]


def test_a_program_with_bundles_has_no_markers() -> None:
    assert markers(library(records=b"")) == []
    assert list(records.kpack_markers(make_view(b"\0" * 64), "raw")) == []
