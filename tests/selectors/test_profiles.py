"""Profiles of runs: the kernels that each profiler's file names, made here in the shapes that the profilers write."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fatpack.errors import FatpackError, FormatError, UsageError
from fatpack.selectors import profiles

ADD = "_Z3addPf"
FILL = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<float>, char *>(int, T2, T3)"


def names(path: Path, kind: str = "") -> tuple[str, list[str]]:
    (profile,) = profiles.read_profiles([f"{path}:{kind}" if kind else str(path)])
    return profile.kind, sorted(profile.names)


def database(path: Path, *statements: str | tuple[str, list[tuple[Any, ...]]]) -> Path:
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as made:
        for statement in statements:
            if isinstance(statement, str):
                made.execute(statement)
            else:
                made.executemany(*statement)
        made.commit()
    return path


STRINGS = "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)"


def nsys(path: Path, columns: str, rows: list[tuple[Any, ...]], *more: str) -> Path:
    strings = [(1, ADD), (2, "add(float*)"), (3, "add"), (4, FILL), (5, "vectorized_elementwise_kernel")]
    table = f"CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, {columns})"
    places = ", ".join("?" * (columns.count(",") + 2))
    return database(
        path,
        STRINGS,
        ("INSERT INTO StringIds VALUES (?, ?)", strings),
        table,
        (f"INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ({places})", rows),
        *more,
    )


def test_nsight_systems_prefers_the_mangled_name(tmp_path: Path) -> None:
    columns = "demangledName INTEGER, shortName INTEGER, mangledName INTEGER"
    path = nsys(tmp_path / "run.sqlite", columns, [(10, 2, 3, 1), (20, 4, 5, None), (30, 2, 3, 1)])
    assert names(path) == ("nsys", sorted([ADD, FILL]))


def test_an_older_export_has_no_mangled_names(tmp_path: Path) -> None:
    path = nsys(tmp_path / "run.sqlite", "demangledName INTEGER, shortName INTEGER", [(1, 2, 3), (2, None, 5)])
    assert names(path) == ("nsys", ["add(float*)", "vectorized_elementwise_kernel"])


def test_graphs_without_their_kernels_are_refused(tmp_path: Path) -> None:
    graphs = ("CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER)",)
    path = nsys(tmp_path / "run.sqlite", "demangledName INTEGER", [(1, 2)], *graphs)
    assert names(path) == ("nsys", ["add(float*)"])
    with closing(sqlite3.connect(path)) as made:
        made.execute("INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (1)")
        made.commit()
    with pytest.raises(UsageError, match="CUDA graphs") as caught:
        names(path)
    assert "--cuda-graph-trace=node" in caught.value.hint


def test_a_run_without_kernels_is_refused(tmp_path: Path) -> None:
    path = database(tmp_path / "run.sqlite", STRINGS)
    with pytest.raises(UsageError, match="names no kernel"):
        names(path)


@pytest.mark.parametrize("suffix", ["", "_00017f5a_1c2d"])
def test_rocpd_takes_the_symbols_that_were_dispatched(tmp_path: Path, suffix: str) -> None:
    path = database(
        tmp_path / "run.db",
        f"CREATE TABLE rocpd_info_kernel_symbol{suffix} (id INTEGER, kernel_name TEXT, display_name TEXT)",
        f"CREATE TABLE rocpd_kernel_dispatch{suffix} (id INTEGER, kernel_id INTEGER)",
        (
            f"INSERT INTO rocpd_info_kernel_symbol{suffix} VALUES (?, ?, ?)",
            [(1, f"{ADD}.kd", "add(float*)"), (2, "_Z5otherv.kd", "other()")],
        ),
        (f"INSERT INTO rocpd_kernel_dispatch{suffix} VALUES (?, ?)", [(1, 1), (2, 1)]),
    )
    assert names(path) == ("rocpd", [ADD])


def test_views_of_a_database_are_not_read(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS demangledName FROM n"
    path = database(tmp_path / "run.sqlite", STRINGS, f"CREATE VIEW CUPTI_ACTIVITY_KIND_KERNEL AS {endless}")
    with pytest.raises(UsageError, match="names no kernel"):
        names(path, "nsys")


def test_a_database_is_not_changed(tmp_path: Path) -> None:
    path = nsys(tmp_path / "run.sqlite", "demangledName INTEGER", [(1, 2)])
    before = path.read_bytes()
    path.chmod(0o400)
    names(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.sqlite"]


TRACE = {
    "schemaVersion": 1,
    "deviceProperties": [{"name": "NVIDIA H100"}],
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::add"},
        {"ph": "X", "cat": "kernel", "name": FILL, "args": {"grid": [1, 1, 1]}},
        {"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD"},
        {"ph": "X", "cat": "kernel", "name": FILL},
    ],
    "traceName": "run.json",
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_trace_of_torch_has_kernels_among_its_events(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(pack(json.dumps(TRACE, indent=1).encode()))
    assert names(path) == ("torch", [FILL])
    path.write_bytes(pack(json.dumps(TRACE["traceEvents"]).encode()))
    assert names(path) == ("torch", [FILL])


def test_rocprof_names_kernels_in_a_column_or_by_number(tmp_path: Path) -> None:
    table = tmp_path / "1_kernel_trace.csv"
    table.write_text(
        '"Kind","Agent_Id","Kernel_Id","Kernel_Name","Start_Timestamp"\n'
        f'"KERNEL_DISPATCH",1,1,"{FILL}",5\n"KERNEL_DISPATCH",1,2,"{ADD}.kd",6\n'
    )
    assert names(table) == ("rocprof", sorted([ADD, FILL]))
    symbols = [{"kernel_id": 7, "kernel_name": f"{ADD}.kd"}, {"kernel_id": 8, "kernel_name": "_Z5otherv.kd"}]
    records = {"kernel_dispatch": [{"dispatch_info": {"kernel_id": 7}}]}
    document = tmp_path / "1_results.json"
    document.write_text(json.dumps({"rocprofiler-sdk-tool": [{"kernel_symbols": symbols, "buffer_records": records}]}))
    assert names(document) == ("rocprof", [ADD])


def test_negativa_lists_names(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text(json.dumps({"loaded_sos": ["/usr/lib/libx.so"], "detected_kernels": [ADD]}))
    assert names(path) == ("negativa", [ADD])


def test_a_text_has_comments_and_patterns(tmp_path: Path) -> None:
    path = tmp_path / "used.txt"
    path.write_text(f"# of two runs\n{ADD}\n\n  at::native::*Fill*  \n")
    (profile,) = profiles.read_profiles([str(path)])
    assert (profile.kind, profile.names, profile.patterns) == (
        "text",
        (ADD, "at::native::*Fill*"),
        ("at::native::*Fill*",),
    )
    path.write_text("re:.*\n")
    with pytest.raises(UsageError, match="line 1: regular expressions"):
        names(path)


@pytest.mark.parametrize(
    "data",
    [
        b"SQLite format 3\0" + b"\xff" * 5000,
        gzip.compress(b'{"traceEvents": [' * 100, mtime=0)[:-9],
        b'{"traceEvents": [{"cat": "kernel"',
        b'{"traceEvents": ' + b"[" * 100_000,
        b'{"detected_kernels": ' + b'{"a":' * 100_000,
        b'{"rocprofiler-sdk-tool": [1, {"kernel_symbols": 3, "buffer_records": []',
        b'{"a" 1}',
        b"\xff\xfe\xfd",
        b"",
        b"Kind,Kernel_Name\n",
        b'Kind,Kernel_Name\n"' + b"x" * 200_000,
        b"x" * 100_000,
    ],
    ids=lambda data: repr(data[:20]),
)
def test_damage_is_said(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "run"
    path.write_bytes(data)
    with pytest.raises((UsageError, FormatError)) as caught:
        names(path)
    assert str(path) in str(caught.value)


def test_a_file_that_is_no_profile_is_called_so(tmp_path: Path) -> None:
    path = tmp_path / "x.whl"
    path.write_bytes(b"PK\3\4" + b"\xff" * 100)
    with pytest.raises(FormatError, match="it is no profile that is known, and no text of names") as caught:
        names(path)
    assert "profile at 0x4" in str(caught.value) and "expected UTF-8, found byte 0xff" in str(caught.value)


def test_every_byte_of_a_database_may_be_wrong(tmp_path: Path) -> None:
    path = nsys(tmp_path / "run.sqlite", "demangledName INTEGER", [(1, 2)])
    good = path.read_bytes()
    for at in range(0, len(good), 97):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])
        try:
            kind, found = names(path, "nsys")
        except FatpackError:
            continue
        assert kind == "nsys"
        assert len(found) == 1
