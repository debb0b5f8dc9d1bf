"""Kernel caches of MIOpen and rocFFT: what is listed, findings, and what SQLite itself reads of the same files."""

from __future__ import annotations

import sqlite3
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.amd_stores import KERN_DB, database, hsaco, kdb, rocfft, row
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.errors import FormatError, Unsupported
from fatpack.formats import kernel_cache as room
from fatpack.formats.kernel_cache.reader import stated_device
from fatpack.formats.kernel_cache.sqlite import Database
from fatpack.main import main
from fatpack.testing.helpers import make_view

A, B = hsaco("gfx942"), hsaco("gfx1100")
PACKED = row("MIOpenConv.cl.o", "-DA=1 -mcpu=gfx942", A, packed=True)


def codes(path: Path) -> list[str]:
    return [item.code for item in fatpack.doctor(path).findings]


def written(tmp_path: Path, name: str, data: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def test_kernels_are_listed_by_their_options_or_else_by_their_code() -> None:
    found = room.parse(make_view(kdb([PACKED, row("x.o", "-O3", B), row("y.o", "-O3", B, packed=True)])))
    assert [image.target.arch for image in found.images] == ["gfx942", "gfx1100", "gfx1100"]
    assert [image.compression for image in found.images] == ["bzip2", None, "bzip2"]
    assert [image.data.tobytes() for image in found.images] == [A, B, B]
    assert found.findings == ()


@pytest.mark.parametrize(
    ("name", "processor", "units"),
    [
        ("gfx906_60.kdb", "gfx906", 60),
        ("gfx1030_36.kdb", "gfx1030", 36),
        ("gfx90878.kdb", "gfx908", 120),
        ("gfx90a68.kdb", "gfx90a", 104),
        ("gfx90a6e.ukdb", "gfx90a", 110),
        ("gfx942130.kdb", "gfx942", 304),
        ("gfx942.kdb", "gfx942", 0),
        ("gfx908_nosramecc_xnack78.kdb", "gfx908", 120),
        ("x.whl!torch/share/miopen/db/gfx942130.kdb", "gfx942", 304),
        ("rocfft_kernel_cache_gfx950.db", "gfx950", 0),
        ("rocfft_kernel_cache.db", "", 0),
        ("badhash.kdb", "", 0),
    ],
)
def test_names_state_a_processor_and_its_compute_units(name: str, processor: str, units: int) -> None:
    assert stated_device(name) == (processor, units)


CASES = {
    "gfx942130.kdb": (kdb([PACKED, row("MIOpenPool.cl.o", "-DA=2 -mcpu=gfx942", A)]), []),
    "gfx1100_48.kdb": (kdb([row("naive_conv.cpp.o", "-O3 -mcpu=gfx1100", B, packed=True)]), []),
    "gfx90a68.kdb": (kdb([row("MIOpenConv.cl.o", "-DA=1", A, packed=True)]), ["FP2803"]),
    "badhash.kdb": (kdb([row("MIOpenConv.cl.o", "-DA=1", A, packed=True, digest="0" * 32)]), ["FP2804"]),
    "options.kdb": (kdb([row("MIOpenConv.cl.o", "-mcpu=gfx1100", A, packed=True)]), ["FP1102"]),
    "rocfft_kernel_cache.db": (rocfft([("f", "gfx942", A), ("f", "gfx1100", B)]), []),
    "rocfft_kernel_cache_gfx942.db": (rocfft([("f", "gfx942", A)]), []),
    "rocfft_kernel_cache_gfx1100.db": (rocfft([("f", "gfx942", A)]), ["FP2803"]),
    "lies.db": (rocfft([("f", "gfx942", B)]), ["FP1102"]),
    "versions.db": (rocfft([(f"f{number}", "gfx942", A) for number in range(101)]), ["FP2805"]),
}


@pytest.mark.parametrize("name", CASES)
def test_contradictions_of_caches_are_found(tmp_path: Path, name: str) -> None:
    data, expected = CASES[name]
    assert codes(written(tmp_path, name, data)) == expected


def test_a_log_beside_a_database_is_said_and_nothing_is_made_there(tmp_path: Path) -> None:
    path = written(tmp_path, "gfx942130.kdb", CASES["gfx942130.kdb"][0])
    assert codes(path) == []
    assert [file.name for file in tmp_path.iterdir()] == ["gfx942130.kdb"]
    (tmp_path / "gfx942130.kdb-wal").write_bytes(b"")
    assert codes(path) == ["FP2806"]


def test_a_cache_never_decides_if_a_device_is_served(tmp_path: Path) -> None:
    path = written(tmp_path, "gfx942130.kdb", CASES["gfx942130.kdb"][0])
    made = fatpack.check(path, require="gfx942")
    assert [item.code for item in made.violations] == ["FP3302", "FP2807"]
    assert "kernel cache" in made.violations[0].message
    assert "304 compute units" in made.violations[1].message
    (tmp_path / "x.hsaco").write_bytes(B)
    assert fatpack.check(tmp_path, require="gfx1100").verdict == "passed"
    assert fatpack.check(tmp_path, require="gfx942").verdict == "failed"


def test_caches_in_packages_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("share/miopen/db/gfx90a68.kdb", CASES["gfx90a68.kdb"][0])
    assert codes(path) == ["FP2803"]


def test_other_databases_are_said_not_to_be_read(tmp_path: Path) -> None:
    path = written(tmp_path, "x.db", database("CREATE TABLE t (a)", "INSERT INTO t VALUES (?)", [(1,)]))
    found = fatpack.check([path, written(tmp_path, "x.hsaco", A)], require="gfx942")
    assert fatpack.check(tmp_path, require="gfx942").verdict == "passed"
    assert "FP3302" in [item.code for item in found.violations]
    assert "FP2801" in codes(path)


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE kern_db (id INTEGER PRIMARY KEY, kernel_name TEXT)",
        "CREATE VIEW kern_db AS SELECT 1",
        KERN_DB.partition(";")[0] + " WITHOUT ROWID",
    ],
)
def test_tables_of_other_columns_and_views_are_refused(script: str) -> None:
    with pytest.raises(Unsupported):
        room.parse(make_view(database(script, "SELECT ?", [])))


@pytest.mark.parametrize("size", [15, 99, 500])
def test_a_cut_database_is_damage(size: int) -> None:
    with pytest.raises(FormatError):
        room.parse(make_view(kdb([PACKED])[:size]))


def test_a_database_that_ends_early_is_damage() -> None:
    data = kdb([PACKED])
    assert [item.code for item in room.parse(make_view(data[:4096])).findings] == ["FP2802", "FP2802"]
    found = room.parse(make_view(data[:-4096]))
    assert ([item.code for item in found.findings], len(found.images)) == (["FP2802"], 1)


def test_a_bomb_ends_at_the_stated_size() -> None:
    name, options, blob, digest, _ = row("x.o", "-mcpu=gfx942", bytes(1 << 22), packed=True)
    (image,) = room.parse(make_view(kdb([(name, options, blob, digest, 4000)]))).images
    with pytest.raises(FormatError, match="more than 4000"):
        image.data.tobytes()


def test_a_database_whose_rows_share_pages_is_damage() -> None:
    data = bytearray(kdb([row("a.o", "", bytes(9000)), row("b.o", "", bytes(9000))]))
    page = data.index(b"a.o") // 4096 * 4096
    places = [int.from_bytes(data[page + 8 + 2 * at : page + 10 + 2 * at], "big") for at in range(2)]
    data[page + 10 : page + 12] = places[0].to_bytes(2, "big")
    found = room.parse(make_view(bytes(data)))
    assert [item.code for item in found.findings] == ["FP2802"]


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([512, 1024, 4096, 65536]),
    st.lists(st.tuples(st.integers(), st.text(max_size=300), st.binary(max_size=20_000)), max_size=60),
)
def test_rows_are_those_that_sqlite_reads(page_size: int, rows: list[tuple[int, str, bytes]]) -> None:
    rows = [(max(-(1 << 63), min(number, (1 << 63) - 1)), text.replace("\0", ""), blob) for number, text, blob in rows]
    rows = [(number, text.encode("utf-8", "ignore").decode(), blob) for number, text, blob in rows]
    data = database("CREATE TABLE t (a, b, c)", "INSERT INTO t VALUES (?, ?, ?)", rows, page_size)
    reference = sqlite3.connect(":memory:")
    reference.deserialize(data)
    expected = reference.execute("SELECT a, b, c FROM t ORDER BY rowid").fetchall()
    reader = Database(make_view(data))
    (schema,) = list(reader.rows(1))
    root = schema.columns[3]
    assert isinstance(root, int)
    read = [
        (found.columns[0], reader.text(found.columns[1]), getattr(found.columns[2], "tobytes", bytes)())
        for found in reader.rows(root)
    ]
    assert read == expected


@pytest.mark.parametrize("device", ["gfx1100", "gfx1030"])
def test_a_cache_neither_serves_nor_fails_a_device(device: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(FIXTURES / "kernel_cache" / "gfx1100_48.kdb"), "--device", device]) == 1
    words = "what it has for AMD devices is a kernel cache, which does not decide if a device is served"
    assert capsys.readouterr().out.splitlines()[0] == f"{device}: {words}"
