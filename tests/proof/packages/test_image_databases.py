"""Rows of package databases: those of libraries that changed have the new digest and size, and no other row differs."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable

import pytest

from fatpack.proof.ledger import DifferenceLog
from fatpack.proof.packages.image_databases import FileDigests, compare_database, is_database


def digests(data: bytes) -> FileDigests:
    return FileDigests(len(data), *(hashlib.new(name, data).digest() for name in ("sha256", "md5", "sha1")))


OLD, NEW, OTHER = digests(b"the old library"), digests(b"new"), digests(b"another file")

Rows = list[tuple[str, FileDigests]]


def record(rows: Rows) -> bytes:
    def line(path: str, facts: FileDigests) -> str:
        return f"{path},sha256={base64.urlsafe_b64encode(facts.sha256).decode().rstrip('=')},{facts.size}\n"

    return "".join([*(line(*row) for row in rows), "demo-1.dist-info/RECORD,,\n"]).encode()


def sums(rows: Rows) -> bytes:
    return "".join(f"{facts.md5.hex()}  {path}\n" for path, facts in rows).encode()


def conda(rows: Rows) -> bytes:
    paths = [
        {"_path": path, "path_type": "hardlink", "sha256_in_prefix": facts.sha256.hex(), "size_in_bytes": facts.size}
        for path, facts in rows
    ]
    return json.dumps({"name": "demo", "paths_data": {"paths": paths, "paths_version": 1}}).encode()


def cache(rows: Rows) -> bytes:
    paths = [{"_path": path, "sha256": facts.sha256.hex(), "size_in_bytes": facts.size} for path, facts in rows]
    return json.dumps({"paths": paths, "paths_version": 1}).encode()


def apk(rows: Rows) -> bytes:
    lines = ["P:demo"]
    for path, facts in rows:
        folder, _, name = path.rpartition("/")
        lines += [f"F:{folder}", f"R:{name}", f"Z:Q1{base64.b64encode(facts.sha1).decode()}"]
    return "\n".join([*lines, ""]).encode()


#: Path of a database, its writer, and the path of the library in it and in the image.
KINDS = [
    pytest.param("opt/lib/demo-1.dist-info/RECORD", record, "demo/lib.so", "opt/lib/demo/lib.so", id="RECORD"),
    pytest.param("demo-1.dist-info/RECORD", record, "demo/lib.so", "demo/lib.so", id="RECORD at the root"),
    pytest.param("opt/lib/demo-1.dist-info/RECORD", record, "/usr/lib.so", "usr/lib.so", id="RECORD, from the root"),
    pytest.param("var/lib/dpkg/info/demo.md5sums", sums, "usr/lib/lib.so", "usr/lib/lib.so", id="dpkg"),
    pytest.param("var/lib/dpkg/status.d/demo.md5sums", sums, "usr/lib.so", "usr/lib.so", id="dpkg, distroless"),
    pytest.param("opt/env/conda-meta/demo.json", conda, "lib/lib.so", "opt/env/lib/lib.so", id="conda"),
    pytest.param("opt/pkgs/demo-1/info/paths.json", cache, "lib.so", "opt/pkgs/demo-1/lib.so", id="cache"),
    pytest.param("lib/apk/db/installed", apk, "usr/lib/lib.so", "usr/lib/lib.so", id="apk"),
    pytest.param("usr/lib/apk/db/installed", apk, "usr/lib/lib.so", "usr/lib/lib.so", id="apk, usr merged"),
]  # fmt: skip


def compared(path: str, before: bytes, after: bytes, shown: str) -> list[str]:
    """Return what differs between two databases, if the library changed."""
    ledger = DifferenceLog()
    name = shown.rpartition("/")[2]
    changed = {(name, digest): NEW for digest in (OLD.sha256, OLD.md5, OLD.sha1)}
    assert is_database(path)
    compare_database("layer 0", path, before, after, changed, {shown: OLD}, ledger)
    return [difference.what for difference in ledger.differences]


@pytest.mark.parametrize(("path", "write", "row", "shown"), KINDS)
def test_the_row_of_a_library_that_changed_has_to_change(
    path: str, write: Callable[[Rows], bytes], row: str, shown: str
) -> None:
    before = write([("bin/tool", OTHER), (row, OLD)])
    assert compared(path, before, write([("bin/tool", OTHER), (row, NEW)]), shown) == []
    assert compared(path, before, before, shown) == [f"layer 0: {path}: {shown}"]
    # Where the image does not show the library that the row is about, it may stay.
    assert compared(path, before, before, f"elsewhere/{shown}") == []


@pytest.mark.parametrize(("path", "write", "row", "shown"), KINDS)
def test_no_other_row_may_change_and_none_may_lie(
    path: str, write: Callable[[Rows], bytes], row: str, shown: str
) -> None:
    before = write([("bin/tool", OTHER), (row, OLD)])
    assert compared(path, before, write([("bin/tool", OTHER), (row, OTHER)]), shown)
    assert compared(path, before, write([("bin/tool", NEW), (row, NEW)]), shown)
    assert compared(path, before, write([(row, NEW), ("bin/tool", OTHER)]), shown)
    assert compared(path, before, write([(row, NEW)]), shown) == [f"layer 0: {path}: rows"]
    if write in (record, conda, cache):
        lie = NEW.replace(size=NEW.size + 1)
        assert compared(path, before, write([("bin/tool", OTHER), (row, lie)]), shown) == [f"layer 0: {path}: {shown}"]


@pytest.mark.parametrize(("path", "write"), [("conda-meta/demo.json", conda), ("pkgs/demo-1/info/paths.json", cache)])
def test_a_row_without_a_size_gets_none(path: str, write: Callable[[Rows], bytes]) -> None:
    def sizeless(facts: FileDigests) -> bytes:
        return re.sub(rb', "size_in_bytes": \d+', b"", write([("lib.so", facts)]))

    shown = f"{path.removesuffix('conda-meta/demo.json').removesuffix('info/paths.json')}lib.so"
    assert compared(path, sizeless(OLD), sizeless(NEW), shown) == []
    assert compared(path, sizeless(OLD), write([("lib.so", NEW)]), shown) == [f"layer 0: {path}: {shown}"]
    assert compared(path, write([("lib.so", OLD)]), sizeless(NEW), shown) == [f"layer 0: {path}: {shown}"]


def test_a_sum_of_another_form_is_no_row() -> None:
    path = "var/lib/dpkg/info/x.md5sums"
    for space in (" *", " \t", "\t ", "--", " a"):
        before, after = (f"{facts.md5.hex()}{space}usr/lib.so\n".encode() for facts in (OLD, NEW))
        assert compared(path, before, before, "usr/lib.so") == []
        assert compared(path, before, after, "usr/lib.so"), space


@pytest.mark.parametrize("line", [b"lib.so,sha256=x,5,more", b"lib.so,sha256=x", b"lib.so"])
def test_a_line_with_other_columns_names_no_library(line: bytes) -> None:
    assert compared("x-1.dist-info/RECORD", line, line, "lib.so") == []


def test_what_is_no_row_is_compared_as_it_is() -> None:
    for path, before, after in (
        ("x-1.dist-info/RECORD", b"a,md5=1,2\n", b"a,md5=1,3\n"),
        ("x-1.dist-info/RECORD", b"a,,\n", b"a,,\r\n"),
        ("var/lib/dpkg/info/x.md5sums", b"no sum\n", b"No sum\n"),
        ("lib/apk/db/installed", b"P:a\nV:1\n", b"P:a\nV:2\n"),
        ("conda-meta/x.json", b'{"a": 1}', b'{"a": 2}'),
        ("conda-meta/x.json", b"no JSON", b"no json"),
    ):
        assert compared(path, before, before, "usr/lib.so") == []
        assert compared(path, before, after, "usr/lib.so")


@pytest.mark.parametrize(
    "path",
    [
        "RECORD",
        "x.dist-info/RECORD/x",
        "dpkg/info/x.md5sums",
        "conda-meta/x/y.json",
        "pkgs/paths.json",
        "apk/installed",
    ],
)
def test_other_files_are_no_databases(path: str) -> None:
    assert not is_database(path)
