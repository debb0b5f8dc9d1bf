"""Files that the new package lacks: each must have held device code of AMD alone, or be a table without code.

==================  ================================================================================================
AKS2                header and one whole XZ stream, every image in it a code object; also in a zip of nothing else
database            the table ``kern_db`` or ``cache_v1`` and no other, every row with a code object
code of Tensile     a code object or a bundle, under a name of Tensile's
table of Tensile    for a target of which code went and none is left in its folder
==================  ================================================================================================

That no device misses them is not proved: ``fatpack check --require`` is asked for that.

Read by ``struct``, and Python's ``lzma``, ``bz2``, ``sqlite3`` and ``zipfile``. How we know: ROCm/aotriton
``packed_kernel_common.cc``, ROCm/MIOpen ``kern_db.hpp``, ROCm/rocFFT ``rtc_cache.cpp``, ROCm/rocBLAS
``tensile_host.cpp``.
"""

from __future__ import annotations

import bz2
import lzma
import os
import re
import struct
import zipfile
import zlib
from contextlib import closing

from fatpack import limits, magic_numbers
from fatpack.io.ranges import ViewFile
from fatpack.proof.containers.bundle import read_bundle_table
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import TypeAlias

    from fatpack.io.source import View

    #: what is expected, and what was found
    Objection: TypeAlias = tuple[str, str]


class LeftOutFile(Record):
    """A file that the new package lacks: its path, its size in bytes, its SHA-256, and its kind in words."""

    path: str
    size: int
    digest: str
    kind: str


_KIND_AKS2, _KIND_ZIP, _KIND_DATABASE, _KIND_CODE, _KIND_TABLE = (
    "AKS2 archive", "zip of AKS2 archives", "kernel cache", "code of Tensile", "table of Tensile",
)  # fmt: skip

#: names of Tensile's code and tables, with the target that they state
_CODE = re.compile(
    r"(?:Kernels\.so-|Tensile(?:Lite)?Library).*?(?:[-_](gfx[0-9a-f]+)(?:-xnack[-+])?)?\.(?:co|hsaco)", re.DOTALL
)
_TABLE = re.compile(r"Tensile(?:Lite)?Library.*?(?:_(gfx[0-9a-f]+))?(?:_Mapping)?\.(?:dat|dat\.zlib|yaml)", re.DOTALL)
_TARGET = re.compile("gfx[0-9a-f]+")

_ELF_64, _AMDGPU = b"\x7fELF\x02\x01", 224

#: bytes of an image that say what it is: the header of an ELF file up to its machine, or the magic of a bundle
_HEAD = 24


def place_of(path: str, pattern: re.Pattern[str]) -> tuple[str, str] | None:
    """Return the folder and target of a file of Tensile, None for the name of any other file.

    The target is that in the name, or else that of the folder.
    """
    folder, _, name = path.rpartition("/")
    match = pattern.fullmatch(name)
    if match is None:
        return None
    inner = folder.rpartition("/")[2]
    return folder, match[1] or (inner if _TARGET.fullmatch(inner) else "")


def find_table_objection(path: str, gone: Collection[str], left: Iterable[str]) -> Objection | None:
    """Return what speaks against leaving a table out; None for a table without code, and for any other file.

    ``gone`` are the paths of the files that went, ``left`` those of the files that are left.
    """
    place = place_of(path, _TABLE)
    if place is None:
        return None
    if not any(place_of(other, _CODE) == place for other in gone):
        return f"a table without code for {place[1] or 'any target'}", "no code of it went"
    staying = next((other for other in left if place_of(other, _CODE) == place), None)
    if staying is not None:
        return f"a table without code for {place[1]}", f"{staying} is left"
    if not place[1]:
        return "a table for one target", "a table for several"
    return None


def find_objection(path: str, view: View) -> Objection | None:
    """Return what speaks against leaving a file out, by its content; None if it is device code alone, or a table."""
    kind = kind_of(path, view)
    try:
        if kind == _KIND_AKS2:
            problem = _aks2_problem(view)
        elif kind == _KIND_ZIP:
            problem = _zip_problem(view)
        elif kind == _KIND_DATABASE:
            problem = _database_problem(view)
        elif kind == _KIND_CODE:
            problem = "" if _is_code(view.head) else "other bytes"
        elif kind == _KIND_TABLE:
            head = view.head(0, 1)
            is_map = head and (head[0] >> 4 == 8 or head[0] in (0xDE, 0xDF, 0x78))
            problem = "" if is_map or path.endswith(".yaml") else "no table"
        else:
            return "a file of a kernel store", "another file"
    except (lzma.LZMAError, zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, struct.error, OSError) as error:
        problem = str(error) or "damage"
    return (f"{kind} with device code of AMD alone", problem) if problem else None


def kind_of(path: str, view: View) -> str:
    """Return the kind of a file of a kernel store in words, "" for any other file."""
    head = view.head(0, 16)
    if head.startswith(magic_numbers.AKS2):
        return _KIND_AKS2
    if head == magic_numbers.SQLITE:
        return _KIND_DATABASE
    if head.startswith(magic_numbers.ZIP) and path.endswith(".zip"):
        return _KIND_ZIP
    if place_of(path, _CODE) is not None:
        return _KIND_CODE
    return _KIND_TABLE if place_of(path, _TABLE) is not None else ""


def _is_code(read: Callable[[int, int], bytes]) -> bool:
    """Return whether bytes are a code object of AMD, or a bundle of such."""
    head = read(0, _HEAD)
    if not head.startswith(magic_numbers.BUNDLE):
        return _is_code_head(head)
    entries = read_bundle_table(read)
    return entries is not None and all(
        b"amdgcn" in entry.title or (entry.title.startswith(b"host") and not entry.size) for entry in entries
    )


# AKS2: a header of four words, and an XZ stream with a directory and the images.

_AKS2, _AKS2_ENTRY = struct.Struct("<4s3I"), struct.Struct("<5I")

#: LIMIT: bytes of a directory, which is kept in memory
_DIRECTORY = 64 << 20


def _aks2_problem(view: View) -> str:
    """Return what is wrong with an archive, "" for one that has code objects alone."""
    if len(view) < _AKS2.size:
        return "a cut header"
    _, total, count, size = _AKS2.unpack(view.read(0, _AKS2.size))
    if size > min(total, _DIRECTORY):
        return "a directory that is larger than it may be"
    stream = _inflated(view)
    directory, rest = bytearray(), b""
    for block in stream:
        directory += block
        if len(directory) >= size:
            directory, rest = directory[:size], bytes(directory[size:])
            break
    if len(directory) < size:
        return "a stream that ends in its directory"
    heads = _heads(bytes(directory), count, total - size)
    if heads is None:
        return "a directory that is wrong"
    at, found = 0, {offset: bytearray() for offset in heads}
    waiting = sorted(found, reverse=True)
    for block in _with_first(rest, stream):
        for offset in reversed(waiting):
            if offset >= at + len(block):
                break
            have = found[offset]
            have += block[max(offset + len(have) - at, 0) :][: _HEAD - len(have)]
        while waiting and len(found[waiting[-1]]) >= _HEAD:
            waiting.pop()
        at += len(block)
    if at != total - size:
        return f"{at} bytes of images where its header says {total - size}"
    other = next((offset for offset, head in found.items() if not _is_code_head(bytes(head))), None)
    return "" if other is None else f"an image at {other} that is no code object"


def _is_code_head(head: bytes) -> bool:
    return head.startswith(_ELF_64) and int.from_bytes(head[18:20], "little") == _AMDGPU


def _heads(directory: bytes, count: int, size: int) -> list[int] | None:
    """Return the offsets of the images; None for a damaged directory, and unless the images fill ``size`` bytes."""
    at = 0
    ranges: set[tuple[int, int]] = set()
    for _ in range(count):
        if at + _AKS2_ENTRY.size > len(directory):
            return None
        _, _, offset, length, name_size = _AKS2_ENTRY.unpack_from(directory, at)
        at += _AKS2_ENTRY.size + name_size
        if length:
            ranges.add((offset, offset + length))
    starts, ends = sorted(start for start, _ in ranges), sorted(end for _, end in ranges)
    return starts if at == len(directory) and [*starts, size] == [0, *ends] else None


def _inflated(view: View) -> Iterator[bytes]:
    """Yield what the XZ stream of an archive inflates to. Raises LZMAError, EOFError for a cut one."""
    stream = lzma.LZMADecompressor(lzma.FORMAT_XZ)
    for piece in view.slice(_AKS2.size, len(view) - _AKS2.size).read_once():
        data = bytes(piece)
        while not stream.eof and (data or not stream.needs_input):
            yield stream.decompress(data, limits.CHUNK)
            data = b""
        if stream.eof and (data or stream.unused_data):
            raise EOFError("bytes follow the XZ stream")
    if not stream.eof:
        raise EOFError("the XZ stream is cut")


def _with_first(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _zip_problem(view: View) -> str:
    """Return what is wrong with a zip of AKS2 archives, "" for one that has them alone."""
    import tempfile

    from fatpack.io.open import open_source

    with zipfile.ZipFile(ViewFile(view)) as archive:
        for info in archive.infolist():
            if info.is_dir() or info.filename == "__signature__":
                continue
            if not info.filename.endswith(".aks2"):
                return f"{info.filename} in it"
            with tempfile.TemporaryFile() as file:
                with archive.open(info) as member:
                    while block := member.read(limits.CHUNK):
                        file.write(block)
                file.flush()
                with open_source(file, name=info.filename) as source:
                    problem = _aks2_problem(source.view()) if kind_of("", source.view()) == _KIND_AKS2 else "no archive"
            if problem:
                return f"{info.filename} in it: {problem}"
    return ""


# Databases of MIOpen and rocFFT.

#: table → the columns with code, and with its size where it is compressed by bzip2 (0: it is not)
_QUERIES = {
    "kern_db": "SELECT kernel_blob, uncompressed_size FROM kern_db",
    "cache_v1": "SELECT code, 0 FROM cache_v1",
}

#: LIMIT: bytes of a blob, which sqlite3 returns whole
_MOST_OF_BLOB = 1 << 30

#: bytes of a compressed blob that are inflated: the table of a bundle has fewer
_MOST_OF_TABLE = 1 << 16


def _database_problem(view: View) -> str:
    """Return what is wrong with a database, "" for one that has nothing but a table of code objects."""
    import sqlite3
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "db")
        with open(path, "wb") as file:
            for piece in view.read_once():
                file.write(piece)
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)) as database:
                database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MOST_OF_BLOB)
                return _rows_problem(database)
        except (sqlite3.Error, OverflowError) as error:
            return str(error)


def _rows_problem(database: sqlite3.Connection) -> str:
    database.execute("PRAGMA trusted_schema=OFF")
    listed = list(database.execute("SELECT type, name FROM sqlite_master"))
    tables = [name for kind, name in listed if kind == "table" and not name.startswith("sqlite_")]
    other = next((f"{kind} {name}" for kind, name in listed if kind not in ("table", "index")), "")
    if other or len(tables) != 1 or tables[0] not in _QUERIES:
        return other or f"the tables {', '.join(tables) or 'none'}"
    for number, (blob, size) in enumerate(database.execute(_QUERIES[tables[0]])):
        data = bytes(blob) if isinstance(blob, bytes) else b""
        if size:
            data = bz2.BZ2Decompressor().decompress(data, _MOST_OF_TABLE)
        if not _is_code(lambda at, length, data=data: data[at : at + length]):  # type: ignore[misc]
            return f"row {number} that is no code object"
    return ""
