"""Property sets of images in linked SYCL programs, found by their records, as text and as data."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests import reference
from tests.builders import elf as build
from tests.builders.sycl import MACHINES, SPIR64, spirv
from tests.builders.syclbin import sets

import fatpack
from fatpack import formats, limits
from fatpack.io.source import BytesSource
from fatpack.scanner import FoundContainer, scan

IMAGE = spirv(20, 1)
IMAGES, STRINGS, RECORDS = 0x40010000, 0x40020000, 0x40030000
GIVEN: dict[str, dict[str, int | bytes]] = {
    "SYCL/device requirements": {"aspects": b"\x01\x02\0", "compile_target": b"spir64_gen"},
    "SYCL/misc properties": {"optLevel": 2},
    "SYCL/empty": {},
}
SHOWN = {
    "SYCL/device requirements": {"aspects": {"hex": "010200"}, "compile_target": "spir64_gen"},
    "SYCL/misc properties": {"optLevel": 2},
    "SYCL/empty": {},
}


def entries(data: bytes) -> list[dict[str, object]]:
    """Return the descriptions of the images of all containers."""
    found = [item for item in scan(BytesSource(data, "x").view()) if isinstance(item, FoundContainer)]
    described = [formats.get_format(item.container.format).describe(item.container) for item in found]
    return [entry for item in described for entry in item["entries"]]  # type: ignore[attr-defined]


class Library:
    """A library with two images, the second with property sets; parts of the tables can be other than they should."""

    def __init__(self, order: str = "little", bits: int = 64) -> None:
        self.order, self.bits = order, bits
        self.mark = "<" if order == "little" else ">"
        self.strings = b"spir64\0"
        self.tables = b""

    def string(self, data: bytes) -> int:
        """Put bytes among the strings; return their address."""
        self.strings += data
        return STRINGS + len(self.strings) - len(data)

    def table(self, rows: list[bytes]) -> tuple[int, int]:
        """Put records into the tables; return where they begin and end."""
        begin = RECORDS + len(self.tables)
        self.tables += b"".join(rows)
        return begin, RECORDS + len(self.tables)

    def property(self, name: str, kind: int, value: int, size: int) -> bytes:
        return struct.pack(f"{self.mark}QQI4xQ", self.string(name.encode() + b"\0"), value, kind, size)

    def of(self, name: str, value: int | bytes) -> bytes:
        if isinstance(value, int):
            return self.property(name, 1, 0, value)
        data = (8 * len(value)).to_bytes(8, "little") + value
        return self.property(name, 2, self.string(data), len(data))

    def set(self, name: str, rows: tuple[int, int]) -> bytes:
        return struct.pack(f"{self.mark}QQQ", self.string(name.encode() + b"\0"), *rows)

    def build(self, rows: tuple[int, int], version: int = 2) -> bytes:
        word = "Q" if self.bits == 64 else "I"
        records = []
        for begin, pair in ((IMAGES, (0, 0)), (IMAGES + len(IMAGE), rows)):
            manifest = (0, 0) if version < 3 else ()
            pointers = (STRINGS, 0, 0, *manifest, begin, begin + len(IMAGE), 0, 0, *pair)
            pad = "4x" if word == "Q" else ""
            records.append(struct.pack(f"{self.mark}HBB{pad}{len(pointers)}{word}", version, 4, 2, *pointers))
        elf = build.Elf(bits=self.bits, order=self.order, machine=MACHINES[self.bits, self.order][0], type=build.SHARED)
        elf.add(SPIR64, IMAGE * 2, flags=build.ALLOC, addr=IMAGES)
        elf.add(".rodata", self.strings, flags=build.ALLOC, addr=STRINGS)
        elf.add(".data", self.tables + b"".join(records), flags=build.ALLOC | build.WRITE, addr=RECORDS)
        return elf.build()


def library(order: str = "little", version: int = 2) -> bytes:
    made = Library(order)
    rows = []
    for name, properties in GIVEN.items():
        bounds = made.table([made.of(*item) for item in properties.items()]) if properties else (0, 0)
        rows.append(made.set(name, bounds))
    return made.build(made.table(rows), version)


@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_records_lead_to_the_sets_of_each_image(order: str, version: int) -> None:
    first, second = entries(library(order, version))
    assert "properties" not in first
    assert second["properties"] == SHOWN
    assert "properties_unread" not in second


def test_hosts_of_32_bits_have_none_that_are_read() -> None:
    assert all("properties" not in entry for entry in entries(Library(bits=32).build((0, 0))))


@pytest.mark.parametrize("linker", ["ld.lld", "ld.bfd"])
def test_what_the_wrapper_is_given_is_shown_of_what_linkers_make(tmp_path: Path, linker: str) -> None:
    (tmp_path / "k.spv").write_bytes(IMAGE)
    (tmp_path / "k.prop").write_bytes(sets(GIVEN))
    wrap = ["tool", "clang-offload-wrapper", "-kind=sycl", "-target=spir64", "-format=spirv", "-properties=k.prop"]
    command = [sys.executable, "-m", "fatpack", *wrap, "-o", "k.ll", "k.spv"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    reference.run("clang", "--target=x86_64-linux-gnu", "-fPIC", "-x", "ir", "-c", "k.ll", "-o", "k.o", cwd=tmp_path)
    reference.run(linker, "-shared", "k.o", "-o", "k.so", cwd=tmp_path)
    (entry,) = entries((tmp_path / "k.so").read_bytes())
    assert entry["properties"] == SHOWN
    with fatpack.open(tmp_path / "k.so") as file:
        assert file.findings == ()
    command = [sys.executable, "-m", "fatpack", "inspect", "-v", "k.so"]
    said = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert "        [SYCL/device requirements] aspects = 0x010200\n" in said
    assert "        [SYCL/device requirements] compile_target = spir64_gen\n" in said
    assert "        [SYCL/misc properties] optLevel = 2\n" in said


@pytest.mark.parametrize(
    ("kind", "value", "size", "why"),
    [
        (9, STRINGS, 4, "a property of type 9"),
        (2, 0x50000000, 16, "a value does not lie in the file"),
        (2, STRINGS, 1 << 63, "a value does not lie in the file"),
        (2, STRINGS, 4, "a value does not lie in the file"),
    ],
)
def test_what_cannot_be_read_is_reported_and_the_rest_shown(kind: int, value: int, size: int, why: str) -> None:
    made = Library()
    bounds = made.table([made.property("bad", kind, value, size), made.of("good", 7)])
    _, second = entries(made.build(made.table([made.set("SYCL/x", bounds)])))
    assert (second["properties"], second["properties_unread"]) == ({"SYCL/x": {"good": 7}}, why)


@pytest.mark.parametrize("length", [-24, 25, 1 << 40])
def test_a_table_that_leads_out_of_the_file_is_reported(length: int) -> None:
    made = Library()
    begin, _ = made.table([made.set("SYCL/x", (0, 0))])
    _, second = entries(made.build((begin, begin + length)))
    assert "properties" not in second
    assert second["properties_unread"] == "a table of properties does not lie in the file"


def test_text_is_shown_without_the_nul_after_it() -> None:
    made = Library()
    bounds = made.table([made.property("called", 3, made.string(b"vadd\0"), 5)])
    assert entries(made.build(made.table([made.set("SYCL/x", bounds)])))[1]["properties"] == {
        "SYCL/x": {"called": "vadd"}
    }


def test_tables_that_share_their_bytes_are_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Library()
    bounds = made.table([made.of(f"p{number}", number) for number in range(8)])
    data = made.build(made.table([made.set(f"SYCL/{number}", bounds) for number in range(8)]))
    assert "properties_unread" not in entries(data)[1]
    monkeypatch.setattr(limits, "IMAGES", 16)
    assert entries(data)[1]["properties_unread"] == "more than 16 properties"


def test_values_that_share_their_bytes_are_read_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "STRING_FLOOR", 0)
    made = Library()
    size = 1 << 14
    value = made.string(bytes(size))
    bounds = made.table([made.property(f"p{number}", 2, value, size) for number in range(8)])
    _, second = entries(made.build(made.table([made.set("SYCL/x", bounds)])))
    assert len(second["properties"]["SYCL/x"]) < 8  # type: ignore[index]
    assert "many times the size of the file" in str(second["properties_unread"])


def test_any_cut_or_flip_gives_sets_or_says_why_not() -> None:
    good = library()
    for at in range(0, len(good), 3):
        entries(good[:at])
        entries(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
