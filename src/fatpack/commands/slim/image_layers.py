"""Layers of container images: their members listed and slimmed in one pass, and written anew in another.

::

    layer ─► inflate ─► members ─┬► libraries: slimmed, new bytes to the spool
                                 ├► package databases: bytes to the spool
                                 └► names, links, whiteouts: for the file system of the image
    layer ─► inflate ─► all bytes but those of changed members ─► compress ─► digest, diff ID

How we know: OCI image-spec 1.1, layer.md; layers of umoci 0.4.7, skopeo 1.9.3 and buildah 1.28.2.
"""

from __future__ import annotations

import hashlib
import tempfile

from fatpack import limits, magic_numbers
from fatpack.codecs.compress import compress_stream
from fatpack.commands.slim.image_files import plain_name, resized_headers
from fatpack.commands.slim.outcome import HEAD_SIZE, STARTS, PackageLibrary, may_hold_device_code, try_to_slim
from fatpack.commands.slim.result import prove_slimmed
from fatpack.concurrency import system
from fatpack.edit.selection import is_linked_program
from fatpack.errors import BadValue, FatpackError, HostError, LimitExceeded, Truncated, Unsupported, pluralize
from fatpack.io.file import FileSource
from fatpack.io.source import View, piece_parts
from fatpack.packages.members import LazyInflatedMember
from fatpack.packages.names import detect_compression
from fatpack.packages.streams import ForwardStream, InflatedStream
from fatpack.packages.tar.reader import BLOCK, ForwardTarFile, TarHeaders
from fatpack.packages.zip.packing import pack_content
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from tarfile import TarInfo
    from typing import Any

    from fatpack.commands.slim.outcome import SlimmedMember, Slimming
    from fatpack.io.source import Piece

#: LIMIT: members of a layer, and characters of a name. The largest known layers have some hundred thousand.
_MEMBERS, _NAME = 4_000_000, 4096

#: LIMIT: bytes of a package database, which is read whole
_DATABASE = 64 << 20

#: levels of gzip and zstd, those of Docker and buildah
_GZIP_LEVEL, _ZSTD_LEVEL = 6, 3

#: header of a gzip stream without name and time, of no system in particular (RFC 1952, 2.3)
_GZIP_HEADER = magic_numbers.GZIP + b"\0\0\0\0\0\0\xff"

#: files inside files, which are not opened
_PACKAGES = (".whl", ".conda", ".deb", ".rpm", ".tar.bz2")

#: table of contents of an eStargz layer: its last member, wrong after any change
TABLE_OF_CONTENTS = "stargz.index.json"

#: record of a member whose bytes are signed for the kernel (Linux, IMA)
_SIGNED = "SCHILY.xattr.security.ima"

#: folders whose files are named by digests of content: bootc's store, and Nix's and Guix's
_NAMED_BY_CONTENT = ("sysroot/ostree/repo/objects/", "nix/store/", "gnu/store/")


class Spool:
    """An unnamed temporary file for new bytes, in the folder ``TMPDIR``. A context manager."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # closed in __exit__
        self._size = 0

    def add(self, pieces: Iterable[Piece]) -> View:
        """Append bytes, and return a view of them."""
        start, fd = self._size, self._file.fileno()
        for part in piece_parts(pieces):
            left = memoryview(part).cast("B")
            while left:
                count = system.write_at(fd, left, self._size)
                self._size += count
                left = left[count:]
        return FileSource(fd, "new bytes", owned=False).view().slice(start, self._size - start)

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


#: digests by which package databases know files
HASHES = ("sha256", "md5", "sha1")


class FileFacts(Record):
    """Size and digests of a file; ``digests`` are in the order of ``HASHES``."""

    size: int
    digests: tuple[bytes, ...]

    def digest(self, name: str) -> bytes:
        """Return the digest of an algorithm."""
        return self.digests[HASHES.index(name)]


def file_facts(view: View) -> FileFacts:
    """Return size and digests of a file."""
    found = [hashlib.new(name, usedforsecurity=False) for name in HASHES]
    for piece in view.read_once():
        for one in found:
            one.update(piece)
    return FileFacts(len(view), tuple(one.digest() for one in found))


class MemberChange(Record):
    """A member with other content: where its headers and its data start, its old size; None drops the member."""

    start: int
    data: int
    size: int
    content: View | None


class LayerLibrary(Record):
    """A library of a layer that changed, and what it was and is."""

    name: str
    change: MemberChange
    before: FileFacts
    after: FileFacts


class LayerDatabase(Record):
    """A package database of a layer: ``change`` with its old bytes as content."""

    name: str
    change: MemberChange


class LayerMember(Record):
    """A member: its path without slashes in front; ``kind`` is file, link, hard, folder or other.

    ``subject`` is the library or the database that it is, if it is one.
    """

    path: str
    kind: str
    target: str = ""
    subject: LayerLibrary | LayerDatabase | None = None


class LayerListing(Record):
    """A layer that was read: its digest as it is stored and inflated, its inflated size, and what it holds.

    ``libraries`` are the files that were looked at; ``notes`` say what stays and why.
    """

    digest: str
    diff_id: str
    method: str
    size: int
    members: tuple[LayerMember, ...]
    libraries: tuple[PackageLibrary, ...]
    notes: tuple[str, ...]
    contents_table: MemberChange | None = None

    @property
    def changed(self) -> list[LayerLibrary]:
        """The libraries that changed."""
        return [member.subject for member in self.members if isinstance(member.subject, LayerLibrary)]


def layer_method(view: View) -> str:
    """Return how a layer is compressed: ``gzip``, ``zstd`` or "". Raises Unsupported for another method."""
    method = detect_compression(view) or ""
    if method not in ("gzip", "zstd", ""):
        hint = "copy the image with skopeo copy --dest-compress-format gzip"
        raise Unsupported(f"a layer that is compressed with {method} is not written", hint=hint, chain=view.chain)
    return method


def inflate_layer(view: View, method: str) -> Iterator[bytes | memoryview]:
    """Yield the tar archive of a layer. Raises FormatError and LimitExceeded."""
    if method:
        return InflatedStream(view, method, format="layer")()
    return view.read_once()


class LayerReader:
    """Reads a layer once, and slims what it holds; ``is_database`` tells the files that hold digests of others."""

    def __init__(
        self, view: View, spool: Spool, slimming: Slimming, is_database: Callable[[str], bool], *, changes: bool
    ) -> None:
        self._view = view
        self._spool = spool
        self._slimming = slimming
        self._is_database = is_database
        self._changes = changes
        self._method = layer_method(view)
        self._inflated = hashlib.sha256(usedforsecurity=False)
        self._forward = ForwardStream(self._hashed(inflate_layer(view, self._method)))
        self._members: list[LayerMember] = []
        self._libraries: list[PackageLibrary] = []
        self._unlinked = [0, 0]
        self._packed = [0, 0]
        self._sparse = [0, 0]
        self._left: dict[str, list[int]] = {}
        self._table: MemberChange | None = None

    def _hashed(self, pieces: Iterable[bytes | memoryview]) -> Iterator[bytes | memoryview]:
        for piece in pieces:
            self._inflated.update(piece)
            yield piece

    def read(self) -> LayerListing:
        """Return what is in it. Raises FormatError for damage, Unsupported for what cannot be written."""
        forward = self._forward
        headers = TarHeaders(ForwardTarFile(forward), lambda at: (at, self._view.chain))
        data_end = 0
        try:
            for header in headers:
                if len(self._members) >= _MEMBERS or len(header.name) > _NAME:
                    raise self._too_many()
                data_end = header.offset_data + (header.size if header.isreg() else 0)
                self._member(header)
        except Truncated:
            # umoci 0.4.7 pads the last file to no block and writes no end; all that pull images take its layers.
            if not data_end <= forward.at < headers.next_at:
                raise
        else:
            if headers.last.strip(b"\0"):
                raise self._damaged("the header does not add up to its checksum", headers.next_at)
        while forward.take(limits.CHUNK):
            pass
        return LayerListing(
            self._digest(),
            self._inflated.hexdigest(),
            self._method,
            forward.at,
            tuple(self._members),
            tuple(self._libraries),
            tuple(self._notes()),
            self._table,
        )

    def _digest(self) -> str:
        if not self._method:
            return self._inflated.hexdigest()
        found = hashlib.sha256(usedforsecurity=False)
        for piece in self._view.read_once():
            found.update(piece)
        return found.hexdigest()

    def _too_many(self) -> LimitExceeded:
        return LimitExceeded(
            "the layer has too many files, or too long names",
            format="layer",
            expected=f"at most {_MEMBERS} files, names of {_NAME} characters",
            hint="is it a layer?",
            chain=self._view.chain,
        )

    def _damaged(self, problem: str, at: int) -> BadValue:
        return BadValue(problem, format="layer", offset=at, hint="get the image again", chain=self._view.chain)

    def _notes(self) -> Iterator[str]:
        from fatpack.printable import format_size

        for reason, (count, size) in self._left.items():
            yield f"{pluralize(count, 'file')} with device code, {format_size(size)}, not changed: {reason}"
        for words, (count, size) in (
            ("objects, archives and containers with device code stay", self._unlinked),
            ("packages in the layer are not opened", self._packed),
            ("files with holes are not looked at", self._sparse),
        ):
            if count:
                yield f"{words}: {pluralize(count, 'file')}, {format_size(size)}"

    def _member(self, header: TarInfo) -> None:
        path = plain_name(header.name)
        if ".." in path.split("/"):
            raise self._refused(f"{header.name!r} leads out of the layer")
        if header.islnk():
            if header.size:
                raise self._refused(
                    f"{header.name!r} is a hard link with bytes of its own, which old writers of cpio make"
                )
            self._members.append(LayerMember(path, "hard", plain_name(header.linkname)))
        elif header.issym():
            self._members.append(LayerMember(path, "link", header.linkname))
        elif header.isreg():
            self._members.append(LayerMember(path, "file", "", self._subject(header, path)))
        else:
            self._members.append(LayerMember(path, "folder" if header.isdir() else "other"))

    def _refused(self, problem: str) -> Unsupported:
        hint = "the layer stays as it is; copy the image with skopeo copy or umoci repack"
        return Unsupported(problem, hint=hint, chain=self._view.chain)

    def _subject(self, header: TarInfo, path: str) -> LayerLibrary | LayerDatabase | None:
        place = MemberChange(header.offset, header.offset_data, header.size, None)
        if path == TABLE_OF_CONTENTS:
            self._table = place
        if not header.size or not self._changes:
            return None
        if header.sparse is not None:
            self._sparse = [self._sparse[0] + 1, self._sparse[1] + header.size]
            return None
        if self._is_database(path):
            is_small = header.size <= _DATABASE
            return (
                LayerDatabase(path, place.replace(content=self._spool.add(self._content(header)))) if is_small else None
            )
        if path.endswith(_PACKAGES):
            self._packed = [self._packed[0] + 1, self._packed[1] + header.size]
        return self._library(header, path, place)

    def _content(self, header: TarInfo, head: bytes = b"") -> Iterator[bytes | memoryview]:
        if not head:
            self._forward.skip_to(header.offset_data)
        else:
            yield head
        yield from self._forward.pieces(header.size - len(head))
        left = header.offset_data + header.size - self._forward.at
        if left > 0:
            raise Truncated(
                needed=header.size,
                left=header.size - left,
                format="layer",
                offset=header.offset_data,
                field=header.name,
                chain=self._view.chain,
            )

    def _leave(self, reason: str, size: int) -> None:
        found = self._left.setdefault(reason, [0, 0])
        found[0] += 1
        found[1] += size

    def _library(self, header: TarInfo, path: str, place: MemberChange) -> LayerLibrary | None:
        self._forward.skip_to(header.offset_data)
        head = self._forward.read(min(HEAD_SIZE, header.size))
        if not (head.startswith(STARTS) and may_hold_device_code(path, head)):
            return None
        source = LazyInflatedMember(
            lambda: self._content(header, head), header.size, path, present=header.size, budget=self._view.source.budget
        )
        try:
            source.complete()
            view = source.view()
            outcome = try_to_slim(self._slimming, view)
            if isinstance(outcome, FatpackError):
                self._libraries.append(PackageLibrary(path, len(view), len(view), None, None, None, outcome))
                return None
            return self._changed(header, path, place, view, outcome)
        finally:
            source.close()

    def _changed(
        self, header: TarInfo, path: str, place: MemberChange, view: View, outcome: SlimmedMember
    ) -> LayerLibrary | None:
        size = len(view)
        if not outcome.is_changed:
            self._libraries.append(PackageLibrary(path, size, size, None, None, outcome))
            return None
        if not is_linked_program(view):
            self._unlinked = [self._unlinked[0] + 1, self._unlinked[1] + size]
            return None
        records: Mapping[str, Any] = header.pax_headers
        reason = ""
        if _SIGNED in records:
            reason = "signed for the kernel (security.ima)"
        elif path.startswith(_NAMED_BY_CONTENT):
            reason = "in a folder that is named by a digest of its content"
        if reason:
            self._leave(reason, size)
            return None
        new = self._spool.add(outcome.pieces)
        outcome.verify(view, new)
        try:
            prove_slimmed(view, new)
        except FatpackError as error:  # the others are slimmed, and the proof of the image will accept them
            unproved = HostError(getattr(error, "problem", str(error)), hint="report this, with the library")
            self._libraries.append(PackageLibrary(path, size, size, None, None, None, unproved))
            return None
        self._libraries.append(PackageLibrary(path, size, len(new), None, None, outcome))
        return LayerLibrary(path, place.replace(content=new), file_facts(view), file_facts(new))


class NewLayer(Record):
    """A layer that was written anew: its bytes, their digest, and the digest of the archive in it."""

    blob: View
    digest: str
    diff_id: str


def write_layer(view: View, listing: LayerListing, changes: Sequence[MemberChange], spool: Spool) -> NewLayer:
    """Write a layer with changes of members, compressed as before."""
    archive = exchange_members(view, listing.method, changes)
    if listing.method == "gzip":
        packed = pack_content(archive, deflates=True, level=_GZIP_LEVEL)
        end = packed.crc.to_bytes(4, "little") + (packed.size & 0xFFFFFFFF).to_bytes(4, "little")
        diff_id = packed.digest.hex()
        pieces: list[Piece] = [_GZIP_HEADER, packed.stored, end]
    elif listing.method == "zstd":
        inner = hashlib.sha256(usedforsecurity=False)
        size = listing.size + sum(_growth(listing, change) for change in changes)

        def hashed() -> Iterator[bytes]:
            for piece in archive:
                inner.update(piece)
                yield bytes(piece)

        packed = pack_content(compress_stream(hashed(), "zstd", size, _ZSTD_LEVEL), deflates=False)
        diff_id = inner.hexdigest()
        pieces = [packed.stored]
    else:
        packed = pack_content(archive, deflates=False)
        diff_id = packed.digest.hex()
        pieces = [packed.stored]
    blob = spool.add(pieces)
    packed.stored.source.close()
    digest = hashlib.sha256(usedforsecurity=False)
    for piece in blob.read_once():
        digest.update(piece)
    return NewLayer(blob, digest.hexdigest(), diff_id)


def exchange_members(view: View, method: str, changes: Sequence[MemberChange]) -> Iterator[bytes | memoryview]:
    """Yield the archive of a layer with changes of members; everything else keeps its bytes."""
    stream = ForwardStream(inflate_layer(view, method))
    for change in sorted(changes, key=lambda one: one.start):
        yield from stream.pieces(change.start - stream.at)
        area = stream.read(change.data - change.start)
        stream.skip_to(change.data + change.size)
        padding = stream.read(-change.size % BLOCK)
        if change.content is None:
            continue
        size = len(change.content)
        yield resized_headers(area, size)
        yield from change.content.read_once()
        if len(padding) == -change.size % BLOCK:  # the last file of umoci's layers has none
            yield bytes(-size % BLOCK)
    yield from stream.pieces(1 << 62)


def _growth(listing: LayerListing, change: MemberChange) -> int:
    """Return by how many bytes an archive grows by a change; negative where it shrinks."""
    old_end = min(change.data + change.size + -change.size % BLOCK, listing.size)
    if change.content is None:
        return change.start - old_end
    size = len(change.content)
    is_padded = old_end == change.data + change.size + -change.size % BLOCK
    return size + (-size % BLOCK if is_padded else 0) - (old_end - change.data)
