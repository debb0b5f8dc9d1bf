"""Proof of package databases in container images: rows of libraries that changed, and of nothing else, are others.

A row may change from the digest of a library before to that of the same library after. And a row that states the
digest of a library before, for the path at which the image shows that library, has to.
"""

from __future__ import annotations

import base64
import csv
import json
import re

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from fatpack.proof.ledger import DifferenceLog

HASHES = ("sha256", "md5", "sha1")


class FileDigests(Record):
    """Size and digests of a file."""

    size: int
    sha256: bytes
    md5: bytes
    sha1: bytes


class _Row(Record):
    """A row about a file: its path from the root, the digest and the size that it states, -1 for none.

    ``rest`` is all else in the row, or all of a row about no file.
    """

    path: str
    digest: bytes
    size: int
    rest: str


#: name of a database → its kind, and how many folders above it its paths count from
_KINDS = (
    (re.compile(r"(.*/)?[^/]+\.dist-info/RECORD"), "wheel", 2),
    (re.compile(r"var/lib/dpkg/(info|status\.d)/[^/]+\.md5sums"), "dpkg", 0),
    (re.compile(r"(.*/)?(conda-meta/[^/]+\.json|pkgs/[^/]+/info/paths\.json)"), "conda", 2),
    (re.compile(r"(usr/)?lib/apk/db/installed"), "apk", 0),
)


def is_database(path: str) -> bool:
    """Return whether a file is a package database with digests of other files."""
    return any(pattern.fullmatch(path) for pattern, _, _ in _KINDS)


def compare_database(
    title: str,
    path: str,
    before: bytes,
    after: bytes,
    changed: Mapping[tuple[str, bytes], FileDigests],
    shown: Mapping[str, FileDigests],
    ledger: DifferenceLog,
    left_out: Collection[str] = (),
) -> None:
    """Record what differs in a database besides rows of libraries.

    ``changed`` are new facts by file name and old digest, of each algorithm; ``shown`` the old facts of libraries by
    the paths at which the image shows them. Rows of the files of ``left_out`` must be missing.
    """
    kind, levels = next((kind, levels) for pattern, kind, levels in _KINDS if pattern.fullmatch(path))
    base = "/".join(path.split("/")[:-levels]) if levels else ""
    try:
        old, new = list(_READERS[kind](before, base)), list(_READERS[kind](after, base))
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError, csv.Error):  # of JSON of any kind
        ledger.same(f"{title}: {path}: bytes of a database that cannot be read", before == after, True)
        return
    old = [row for row in old if row.path not in left_out]
    if not ledger.same(f"{title}: {path}: rows", len(old), len(new)):
        return
    algorithm = {"dpkg": "md5", "apk": "sha1"}.get(kind, "sha256")
    for was, now in zip(old, new, strict=True):
        if was == now:
            library = shown.get(was.path)
            if library is not None and was.digest == getattr(library, algorithm):
                ledger.differ(f"{title}: {path}: {was.path}", expected="the new digest", found="the old one")
            continue
        facts = changed.get((was.path.rpartition("/")[2], was.digest))
        if facts is None:
            ledger.differ(f"{title}: {path}: a row about no library that changed", expected=was.rest, found=now.rest)
            continue
        size = -1 if was.size < 0 else facts.size
        expected = _Row(was.path, getattr(facts, algorithm), size, was.rest)
        ledger.same(f"{title}: {path}: {was.path}", expected, now)


def _from_root(base: str, path: str) -> str:
    return path.lstrip("/") if not base or path.startswith("/") else f"{base}/{path}"


def _wheel(data: bytes, base: str) -> Iterator[_Row]:
    for line in data.decode().splitlines(keepends=True):
        body = line.rstrip("\r\n")
        parts = next(csv.reader([body], strict=True), [])
        if len(parts) != 3 or not parts[1].startswith("sha256="):
            yield _Row(_from_root(base, parts[0]) if len(parts) == 3 else "", b"", -1, line)
            continue
        digest = base64.urlsafe_b64decode(parts[1].partition("=")[2] + "=" * (-len(parts[1].partition("=")[2]) % 4))
        yield _Row(_from_root(base, parts[0]), digest, int(parts[2] or -1), line[len(body) :])


def _dpkg(data: bytes, _base: str) -> Iterator[_Row]:
    for line in data.decode("utf-8", "surrogateescape").splitlines(keepends=True):
        digest, space, path = line[:32], line[32:34], line[34:]
        if space != "  ":
            yield _Row("", b"", -1, line)
            continue
        yield _Row(path.rstrip("\n").lstrip("/"), bytes.fromhex(digest), -1, path)


def _conda(data: bytes, base: str) -> Iterator[_Row]:
    document: Any = json.loads(data)
    inner = document.get("paths_data", document)
    is_cache = inner is document
    paths = inner.pop("paths", [])
    for entry in paths:
        key = "sha256" if is_cache or "sha256_in_prefix" not in entry else "sha256_in_prefix"
        stated = str(entry.get(key, ""))
        digest = bytes.fromhex(stated) if re.fullmatch("[0-9a-f]{64}", stated) else b""
        size = entry.pop("size_in_bytes", -1)
        if not is_cache:  # the package's own digest stays where that of the file is added
            entry.pop("sha256_in_prefix", None)
        else:
            entry.pop("sha256", None)
        yield _Row(_from_root(base, str(entry.get("_path"))), digest, int(size), json.dumps(entry, sort_keys=True))
    yield _Row("", b"", -1, json.dumps(document, sort_keys=True))


def _apk(data: bytes, _base: str) -> Iterator[_Row]:
    folder = path = ""
    for line in data.decode("utf-8", "surrogateescape").split("\n"):
        folder = line[2:] if line.startswith("F:") else folder
        path = f"{folder}/{line[2:]}".lstrip("/") if line.startswith("R:") else path
        if line.startswith("Z:Q1"):
            yield _Row(path, base64.b64decode(line[4:]), -1, "Z:Q1")
        else:
            yield _Row("", b"", -1, line)


_READERS = {"wheel": _wheel, "dpkg": _dpkg, "conda": _conda, "apk": _apk}
