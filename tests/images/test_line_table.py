"""Tables of line programs: every version of DWARF gives the same paths and times, and their places."""

from __future__ import annotations

import struct
import subprocess
from pathlib import Path

import pytest
from tests import reference

from fatpack.images.build_traces import build_traces
from fatpack.images.line_table import LineEntry, read_line_tables
from fatpack.io.open import open_source

SOURCE = 'extern "C" __attribute__((amdgpu_kernel)) void k(int *p) { *p += 3; }\n'


def little(data: bytes) -> int:
    return int.from_bytes(data, "little")


def unit(version: int, tables: bytes, after: bytes = b"") -> bytes:
    """Return a line program of a version with these tables, without instructions."""
    sizes = b"\x08\0" if version == 5 else b""
    begin = b"\x01\x01\x01\xfb\x0e\x01" if version > 3 else b"\x01\x01\xfb\x0e\x01"
    head = begin + tables
    body = struct.pack("<H", version) + sizes + struct.pack("<I", len(head)) + head + after
    return struct.pack("<I", len(body)) + body


OLD = b"/src\0\0" + b"k.cu\0\x01\xa0\xe0\xd4\xac\x06\x07" + b"\0"
NEW = (
    b"\x01\x01\x08\x01/src\0"  # a path in place; one folder
    b"\x03\x01\x1f\x03\x0f\x03\x06\x02\x04\0\0\0\xa0\xe0\xd4\xac\x06\x11\x22\0\0\x00\0\0\0\x05\0\0\0"
)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_older_tables_have_times_with_their_places(version: int) -> None:
    data = unit(version, OLD) * 2
    found = list(read_line_tables(data, little))
    assert [(entry.kind, entry.name, entry.time) for entry in found] == [
        ("source folder", b"/src", 0),
        ("source", b"k.cu", 1704276000),
    ] * 2
    for entry in (found[1], found[3]):
        assert data[entry.at : entry.at + 5] == b"\xa0\xe0\xd4\xac\x06"
        without = data[: entry.at] + entry.unknown + data[entry.at + 5 :]
        assert [other.time for other in read_line_tables(without, little) if other.kind == "source"].count(0) == 1


def test_version_5_has_paths_in_other_sections() -> None:
    tables = (
        b"\x01\x01\x08\x01/src\0"  # folders: a path in place
        b"\x02\x01\x1f\x03\x0f\x02"  # files: a path in .debug_line_str, a time as ULEB128
        b"\x04\0\0\0\xa0\xe0\xd4\xac\x06" + b"\x09\0\0\0\x00"
    )
    texts = {(".debug_line_str", 4): b"k.cu", (".debug_line_str", 9): b"h.h"}
    data = unit(5, tables)
    found = list(read_line_tables(data, little, lambda name, at: texts[name, at]))
    assert [(entry.kind, entry.name, entry.time) for entry in found] == [
        ("source folder", b"/src", 0),
        ("source", b"k.cu", 1704276000),
        ("source", b"h.h", 0),
    ]
    assert found[1].unknown == b"\x80\x80\x80\x80\0"
    assert found[1] != LineEntry("source", b"k.cu", 1704276000)
    fixed = unit(5, b"\x01\x01\x08\0" + b"\x02\x01\x08\x03\x06\x01" + b"k.cu\0" + b"\x20\x30\x95\x65")
    (entry,) = read_line_tables(fixed, little)
    assert (entry.time, entry.unknown) == (0x65953020, bytes(4))
    assert fixed[entry.at : entry.at + 4] == b"\x20\x30\x95\x65"


@pytest.mark.parametrize("data", [unit(version, OLD if version < 5 else NEW) for version in (2, 3, 4, 5)])
def test_any_cut_and_any_byte_gives_entries_inside(data: bytes) -> None:
    changed = [data[:size] for size in range(len(data))]
    changed += [data[:at] + bytes([byte]) + data[at + 1 :] for at in range(len(data)) for byte in (0, 1, 127, 255)]
    for each in changed:
        for entry in read_line_tables(each, little, lambda name, at: b"x"):
            assert entry.at + len(entry.unknown) <= len(each)


def test_clang_writes_the_same_paths_in_both_versions(tmp_path: Path) -> None:
    (tmp_path / "k.cpp").write_text(SOURCE)
    told = {}
    for version in (4, 5):
        made = tmp_path / f"{version}.co"
        words = ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-O2", f"-gdwarf-{version}", "k.cpp"]
        subprocess.run([reference.tool("clang"), *words, "-o", made.name], cwd=tmp_path, check=True)
        with open_source(str(made)) as source:
            told[version] = {text for text in build_traces(source.view(), "code-object") if text.startswith("source")}
    assert "source: k.cpp" in told[4] & told[5]
    assert f"source folder: {tmp_path}" in told[5]
