"""Proof of layers of container images: two tar archives compared block by block, with a reader of their own.

Headers are equal byte for byte, except size and checksum of changed files; so are the bytes of all files except
libraries, each of which is proved, and package databases, whose rows are compared after all layers.

How we know: POSIX.1-2017 (pax, ustar), GNU tar 1.34 ``src/tar.h``; OCI image-spec 1.1, layer.md.
"""

from __future__ import annotations

import gzip
import hashlib
import tempfile
import zlib

from fatpack import limits, magic_numbers
from fatpack.errors import BadValue, LimitExceeded
from fatpack.io.open import open_source
from fatpack.io.ranges import ViewFile
from fatpack.proof.packages import image_databases
from fatpack.proof.packages.verdict import compare_libraries
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO, Any

    from fatpack.io.source import View
    from fatpack.proof.ledger import DifferenceLog
    from fatpack.proof.packages.image_databases import FileDigests
    from fatpack.proof.packages.verdict import ProvedLibrary

_BLOCK = 512
_LINKED = (magic_numbers.ELF, magic_numbers.DOS)

#: positions in a header: name, size, checksum, type, prefix (POSIX.1-1988)
_NAME, _SIZE, _SUM, _TYPE, _PREFIX = slice(0, 100), slice(124, 136), slice(148, 156), 156, slice(345, 500)
#: in headers of sparse files of GNU: more blocks of places follow; and in these
_MORE_PLACES, _MORE_IN_BLOCK = 482, 504

#: types of members with bytes: files, sparse files, files of unknown types; all others have none
_WITHOUT_BYTES = b"123456"
_EXTENDED = b"xgXLK"

#: LIMIT: bytes of extended headers before one member, and of all package databases
_HEADERS, _DATABASES = 4 << 20, 256 << 20

#: table of contents of a layer for lazy pulling, which is wrong after any change
_CONTENTS_TABLE = "stargz.index.json"


class StoredDatabase(Record):
    """A package database: its path, its bytes before and after."""

    path: str
    before: bytes
    after: bytes


class ChangedLibrary(Record):
    """A library that changed: its path in the layer, size and digests before and after."""

    path: str
    before: FileDigests
    after: FileDigests


class ComparedLayer(Record):
    """A pair of layers: the digests of both archives, the paths of the members after, and what changed in content."""

    diff_ids: tuple[str, str]
    paths: frozenset[str]
    changed: tuple[ChangedLibrary, ...]
    databases: tuple[StoredDatabase, ...]
    same_count: int


class _Forward:
    """The archive in a layer, read forwards."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._file: Any
        head = view.head(0, 4)
        self.size = 0
        self.hash = hashlib.sha256(usedforsecurity=False)
        #: what the decompressor raises for damaged data
        self._errors: tuple[type[Exception], ...] = (OSError, EOFError, zlib.error)
        if head.startswith(magic_numbers.GZIP):
            self._file = gzip.GzipFile(fileobj=ViewFile(view), mode="rb")
        elif head.startswith(magic_numbers.ZSTD) or head[1:] == magic_numbers.SKIPPABLE:
            import zstandard

            decompressor = zstandard.ZstdDecompressor(max_window_size=limits.WINDOW)
            reader = decompressor.stream_reader(ViewFile(view), read_across_frames=True)  # type: ignore[arg-type]
            self._file, self._errors = reader, (OSError, zstandard.ZstdError)
        else:
            self._file = ViewFile(view)

    def read(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end. Raises BadValue and LimitExceeded."""
        parts, left = [], size
        try:
            while left and (part := self._file.read(min(left, limits.CHUNK))):
                parts.append(part)
                left -= len(part)
        except self._errors as error:
            raise self.damaged(str(error)) from error
        data = b"".join(parts)
        self.size += len(data)
        if not self._view.source.charge(self._view.start, self.size):
            raise LimitExceeded(
                "the layer inflates to more than allowed",
                format="layer",
                hint=limits.inflated_hint(),
                chain=self._view.chain,
            )
        self.hash.update(data)
        return data

    def damaged(self, problem: str) -> BadValue:
        """Return the error about the archive."""
        return BadValue(problem, format="layer", offset=self.size, hint="get the image again", chain=self._view.chain)


class _Headers(Record):
    """The headers of a member: all their bytes, those without sizes and checksums, path, type and size of its data.

    ``path`` is "" at the end: ``area`` is then the block of zeros that was read, or nothing.
    """

    area: bytes
    rest: bytes
    path: str
    kind: bytes
    size: int

    @property
    def is_end(self) -> bool:
        """True at the end of the archive."""
        return not self.kind

    @property
    def is_plain(self) -> bool:
        """True for a regular file without holes."""
        return self.kind in (b"0", b"\0", b"7")


def _number(field: bytes, archive: _Forward) -> int:
    if field[0] & 0x80:
        return int.from_bytes(field, "big") & ((1 << 8 * len(field) - 1) - 1)
    digits = field.rstrip(b" \0").lstrip(b" ")
    if digits.strip(b"01234567"):  # int() takes 0o7, 1_7 and -7, too
        raise archive.damaged(f"size {field!r} is no number")
    return int(digits or b"0", 8)


class _HeaderReader:
    """Reads the headers of one member: extended ones, its own, and the places of a sparse file."""

    def __init__(self, archive: _Forward) -> None:
        self._archive = archive
        self._area: list[bytes] = []
        self._rest: list[bytes] = []
        self._path: str | None = None
        self._size: int | None = None
        self._is_sparse = False
        self._total = 0

    def read(self) -> _Headers:
        """Return the headers. Raises BadValue."""
        while True:
            block = self._archive.read(_BLOCK)
            if len(block) < _BLOCK or not block.strip(b"\0"):
                if self._area:
                    raise self._archive.damaged("the archive ends after an extended header")
                return _Headers(block, block, "", b"", 0)
            kind, length = block[_TYPE : _TYPE + 1], _number(block[_SIZE], self._archive)
            self._check(block)
            if kind not in _EXTENDED:
                return self._own(block, kind, length)
            self._extended(kind, length)

    def _check(self, block: bytes) -> None:
        stated = _number(block[_SUM], self._archive)
        blank = block[: _SUM.start] + b" " * 8 + block[_SUM.stop :]
        if stated not in (sum(blank), sum(blank) - 256 * sum(byte > 127 for byte in blank)):
            raise self._archive.damaged("the header does not add up to its checksum")
        self._area.append(block)
        self._rest.append(blank[: _SIZE.start] + bytes(12) + blank[_SIZE.stop :])

    def _extended(self, kind: bytes, length: int) -> None:
        self._total += length
        if self._total > _HEADERS:
            raise self._archive.damaged("the extended headers are far too large")
        body = self._archive.read(length)
        self._area += [body, self._archive.read(-length % _BLOCK)]
        if kind in b"LK":
            self._rest.append(body)
            self._path = _text(body) if kind == b"L" else self._path
            return
        for key, value in _pax(body, self._archive):
            if key == b"size":
                if kind == b"g":  # some readers use it, others do not
                    raise self._archive.damaged("a global header has a size")
                self._size = int(value) if value.isdigit() else self._size
                self._rest.append(b"size")
                continue
            if key == b"path":
                self._path = _text(value)
            self._is_sparse = self._is_sparse or key.startswith(b"GNU.sparse.")
            self._rest.append(b"%s=%s\n" % (key, value))

    def _own(self, block: bytes, kind: bytes, length: int) -> _Headers:
        is_more = kind == b"S" and bool(block[_MORE_PLACES])
        while is_more:
            places = self._archive.read(_BLOCK)
            self._area.append(places)
            self._rest.append(places)
            is_more = len(places) == _BLOCK and bool(places[_MORE_IN_BLOCK])
        path = self._path
        if path is None:
            is_posix = block.startswith(magic_numbers.TAR + b"\0", magic_numbers.TAR_AT)
            path = "/".join(filter(None, (_text(block[_PREFIX]) if is_posix else "", _text(block[_NAME]))))
        data = 0 if kind in _WITHOUT_BYTES else length if self._size is None else self._size
        plain = "/".join(part for part in path.split("/") if part not in ("", "."))
        kind = b"S" if self._is_sparse else kind
        return _Headers(b"".join(self._area), b"".join(self._rest), plain, kind, data)


def _text(data: bytes) -> str:
    return data.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def _pax(body: bytes, archive: _Forward) -> Iterator[tuple[bytes, bytes]]:
    at = 0
    while at < len(body):
        digits = body[at : at + 20].partition(b" ")[0]
        record = body[at : at + int(digits)] if digits.isdigit() else b""
        if not record.startswith(digits + b" ") or not record.endswith(b"\n"):
            raise archive.damaged("an extended header has a record of a wrong length")
        key, _, value = record[len(digits) + 1 : -1].partition(b"=")
        yield key, value
        at += len(record)


class LayerComparison:
    """Compares the archives of two layers; ``title`` is for differences."""

    def __init__(
        self, title: str, before: View, after: View, ledger: DifferenceLog, libraries: list[ProvedLibrary]
    ) -> None:
        self._title = title
        self._old, self._new = _Forward(before), _Forward(after)
        self._ledger = ledger
        self._libraries = libraries
        self._changed: list[ChangedLibrary] = []
        self._databases: list[StoredDatabase] = []
        self._kept = 0
        self._same = 0

    def compare(self) -> ComparedLayer:
        """Compare everything. Raises FormatError for a damaged archive."""
        paths: set[str] = set()
        while True:
            old, new = _HeaderReader(self._old).read(), _HeaderReader(self._new).read()
            if old.path == _CONTENTS_TABLE != new.path:
                self._skip(old)
                old = _HeaderReader(self._old).read()
            if old.is_end or new.is_end:
                break
            paths.add(new.path)
            if not self._ledger.same(f"{self._title}: name of a file", old.path, new.path):
                return self._result(paths)
            self._member(old, new)
        if not (old.is_end and new.is_end):
            self._ledger.differ(f"{self._title}: files", expected=old.path or "the end", found=new.path or "the end")
            return self._result(paths)
        if not self._ledger.same(f"{self._title}: end of the archive", old.area, new.area):
            return self._result(paths)
        while True:
            first, second = self._old.read(limits.CHUNK), self._new.read(limits.CHUNK)
            self._ledger.same(f"{self._title}: bytes after the end of the archive", first == second, True)
            if not first and not second:
                return self._result(paths)

    def _result(self, paths: set[str]) -> ComparedLayer:
        for archive in (self._old, self._new):
            while archive.read(limits.CHUNK):
                pass
        diff_ids = self._old.hash.hexdigest(), self._new.hash.hexdigest()
        return ComparedLayer(diff_ids, frozenset(paths), tuple(self._changed), tuple(self._databases), self._same)

    def _skip(self, headers: _Headers) -> None:
        left = headers.size + -headers.size % _BLOCK
        while left and (part := self._old.read(min(left, limits.CHUNK))):
            left -= len(part)

    def _member(self, old: _Headers, new: _Headers) -> None:
        name = f"{self._title}: {new.path}"
        if old.area != new.area:
            self._ledger.same(f"{name}: headers, without size and checksum", old.rest, new.rest)
            self._ledger.same(f"{name}: regular file", old.is_plain and new.is_plain, True)
        is_database = old.is_plain and image_databases.is_database(new.path)
        head = self._old.read(min(4, old.size)), self._new.read(min(4, new.size))
        is_kept = is_database or (old.is_plain and head[0].startswith(_LINKED)) or old.size != new.size
        if is_kept:
            self._content(name, head, old, new, is_database=is_database)
        else:
            self._equal(name, head, old.size)
        padding = self._old.read(-old.size % _BLOCK), self._new.read(-new.size % _BLOCK)
        if old.size == new.size:
            self._ledger.same(f"{name}: padding", *padding)
        else:
            # umoci's layers end after the last byte of the last file.
            is_cut = -old.size % _BLOCK != len(padding[0])
            self._ledger.same(f"{name}: size of the padding", 0 if is_cut else -new.size % _BLOCK, len(padding[1]))
            self._ledger.same(f"{name}: zeros in the padding", b"", padding[1].strip(b"\0"))

    def _equal(self, name: str, head: tuple[bytes, bytes], size: int) -> None:
        is_same = head[0] == head[1]
        left = size - len(head[0])
        while left:
            blocks = self._old.read(min(left, limits.CHUNK)), self._new.read(min(left, limits.CHUNK))
            is_same = is_same and blocks[0] == blocks[1]
            left -= len(blocks[0])
            if not blocks[0]:
                raise self._old.damaged("the archive ends in a file")
        if self._ledger.same(f"{name}: content", is_same, True):
            self._same += 1

    def _content(
        self, name: str, head: tuple[bytes, bytes], old: _Headers, new: _Headers, *, is_database: bool
    ) -> None:
        """Compare the contents of a file that may have changed: from temporary files."""
        with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as second:
            digests = (
                _copy(self._old, head[0], old.size, first),
                _copy(self._new, head[1], new.size, second),
            )
            if is_database:
                self._kept += old.size + new.size
                if self._kept > _DATABASES:
                    raise self._old.damaged(f"package databases have more than {_DATABASES} bytes")
                both = [_whole(file) for file in (first, second)]
                self._databases.append(StoredDatabase(new.path, both[0], both[1]))
            if digests[0] == digests[1]:
                self._same += 1
                return
            if is_database:
                return
            with open_source(first, name=old.path) as one, open_source(second, name=new.path) as other:
                compare_libraries(name, one.view(), other.view(), self._ledger, self._libraries)
            self._changed.append(ChangedLibrary(new.path, *digests))


def _whole(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()


def _copy(archive: _Forward, head: bytes, size: int, into: IO[bytes]) -> FileDigests:
    """Copy a file of an archive, and return its size and digests. Raises BadValue."""
    hashes = [hashlib.new(name, usedforsecurity=False) for name in image_databases.HASHES]
    left, block = size - len(head), head
    while True:
        into.write(block)
        for one in hashes:
            one.update(block)
        if not left:
            break
        block = archive.read(min(left, limits.CHUNK))
        left -= len(block)
        if not block:
            raise archive.damaged("the archive ends in a file")
    into.flush()
    return image_databases.FileDigests(size, *(one.digest() for one in hashes))
