"""Proof that a conda package is another one with less device code: every file compared, every changed library proved.

Both are read with Python's ``zipfile``, ``tarfile`` and ``json``. Besides linked libraries only this may differ: in
``info/index.json`` the build string, which is part of the names of the archives in a ``.conda``, a higher build number,
and dependencies on ``cuda-arch`` and ``__cuda_arch``, by which solvers choose a package for devices; and the entries of
``info/paths.json`` about the libraries and the links to them.

How we know: conda/ceps, CEP 26 for build strings, 34 for the files that describe a package, 35 for ``.conda``, 46 for
``__cuda_arch``.
"""

from __future__ import annotations

import bz2
import io
import json
import re
import struct
import tarfile
import tempfile
import zipfile
import zlib
from hashlib import sha256
from itertools import zip_longest

from fatpack import codecs, limits, magic_numbers
from fatpack.errors import BadValue, LimitExceeded
from fatpack.io.open import open_source
from fatpack.io.ranges import ViewFile
from fatpack.proof.ledger import DifferenceLog, compare_views
from fatpack.proof.packages import zip_structure
from fatpack.proof.packages.verdict import PackageProofResult, compare_libraries, proved_file
from fatpack.proof.packages.wheels import copy_member
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import IO, Any, Protocol, TypeAlias

    from typing_extensions import Buffer

    from fatpack.io.source import View
    from fatpack.proof.packages.verdict import ProvedLibrary

    #: the SHA-256 of a file in hexadecimal digits, and its size in bytes
    PackageFiles: TypeAlias = tuple[str, int]

    class MemberContent(Protocol):
        """A file that is read forwards."""

        def read(self, size: int, /) -> bytes: ...  # noqa: D102


# The files that describe a conda package, parsed with Python's ``json``.

INDEX, PATHS = "info/index.json", "info/paths.json"
DESCRIPTION_NAMES = (INDEX, PATHS)


def compare_descriptions(
    texts: Mapping[str, tuple[bytes, bytes]],
    contents: Mapping[str, tuple[PackageFiles, PackageFiles]],
    ledger: DifferenceLog,
    chain: Sequence[str],
) -> tuple[str, str] | None:
    """Record differences between both descriptions; ``contents`` are the files of both packages by name.

    Returns the names of the packages in both indexes; None if there is none. Raises BadValue for JSON that no tool of
    conda writes.
    """
    parsed = {name: [_parsed(text, name, chain) for text in both] for name, both in texts.items()}
    for name in DESCRIPTION_NAMES:
        if name not in parsed:
            ledger.differ(name, expected="a file", found="none")
    if PATHS in parsed:
        _compare_paths(parsed[PATHS], contents, ledger)
    if INDEX not in parsed:
        return None
    old, new = parsed[INDEX]
    builds = str(old.pop("build", "")), str(new.pop("build", ""))
    _compare_devices(old, new, ledger)
    ledger.same(f"{INDEX}: all but the build and the devices", old, new)
    if builds[0] != builds[1] and not builds[1].endswith(f"_{builds[0]}"):
        ledger.differ(f"{INDEX}: build", expected=f"{builds[0]}, or a word and _ in front of it", found=builds[1])
    stems = [
        f"{part.get('name')}-{part.get('version')}-{build}" for part, build in zip((old, new), builds, strict=True)
    ]
    return stems[0], stems[1]


#: a dependency that only says on which devices the package is installed
_ABOUT_DEVICES = re.compile(r"(?:cuda-arch|__cuda_arch)(?![\w.-])")


def _compare_devices(old: dict[str, Any], new: dict[str, Any], ledger: DifferenceLog) -> None:
    """Record other differences of dependencies and of the build number than splitting makes, and take both out."""
    kept: list[object] = []
    counts: list[int] = []
    for part in (old, new):
        depends = part.pop("depends", [])
        is_list = isinstance(depends, list) and all(isinstance(spec, str) for spec in depends)
        others = [spec for spec in depends if not _ABOUT_DEVICES.match(spec)] if is_list else depends
        kept.append(others)
        counts.append(len(depends) - len(others) if is_list else 0)
    ledger.same(f"{INDEX}: depends, but for cuda-arch and __cuda_arch", *kept)
    if counts[0] and not counts[1]:
        ledger.differ(f"{INDEX}: depends on cuda-arch", expected="dependencies", found="none")
    was, now = (part.pop("build_number", 0) for part in (old, new))
    if type(was) is not int or type(now) is not int or now < was:
        ledger.same(f"{INDEX}: build_number", was, now)


def _parsed(text: bytes, name: str, chain: Sequence[str]) -> dict[str, Any]:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(found)) != len(found):
            raise ValueError("a name is there twice")
        return dict(found)

    try:
        value = json.loads(text, object_pairs_hook=pairs)
    except (ValueError, RecursionError) as error:
        raise BadValue(
            "the package describes itself wrongly", format="conda", field=f"{name}: {error}", chain=chain
        ) from error
    if not isinstance(value, dict):
        raise BadValue(
            "the package describes itself wrongly", format="conda", field=name, expected="a JSON object", chain=chain
        )
    return value


def _compare_paths(
    both: Sequence[dict[str, Any]], contents: Mapping[str, tuple[PackageFiles, PackageFiles]], ledger: DifferenceLog
) -> None:
    old, new = both
    lists = [_entries(part) for part in both]
    ledger.same(f"{PATHS}: all but the paths", {**old, "paths": None}, {**new, "paths": None})
    if not ledger.same(f"{PATHS}: paths", *([entry.get("_path") for entry in part] for part in lists)):
        return
    changed = {name: pair for name, pair in contents.items() if pair[0] != pair[1]}
    #: possible targets of links to changed libraries in the list: QUIRK(conda-build, rattler-build)
    targets = dict(changed.values())
    for was, now in zip(*lists, strict=True):
        name = str(now.get("_path"))
        if name in changed:
            expected = changed[name]
        elif was == now:
            continue
        elif now.get("path_type") == "softlink" and _listed_files(was) in targets:
            expected = _listed_files(was), targets[_listed_files(was)]
        else:
            expected = _listed_files(was), _listed_files(was)
        for content, entry in zip(expected, (was, now), strict=True):
            ledger.same(f"{PATHS}: {name}", content, _listed_files(entry))
        for entry in (was, now):
            entry["sha256"] = entry["size_in_bytes"] = None
        ledger.same(f"{PATHS}: {name}: all but digest and size", was, now)


def _entries(document: dict[str, Any]) -> list[dict[str, Any]]:
    paths = document.get("paths")
    return [entry for entry in paths if isinstance(entry, dict)] if isinstance(paths, list) else []


def _listed_files(entry: Mapping[str, Any]) -> PackageFiles:
    size = entry.get("size_in_bytes")
    return str(entry.get("sha256")), size if isinstance(size, int) else -1


# Two tar archives read in parallel, compressed as conda compresses them, with Python's ``tarfile``.

#: properties of every file that must be unchanged
SAME = ("name", "mode", "uid", "gid", "mtime", "type", "linkname", "uname", "gname", "devmajor", "devminor")


class TarEntry(Record):
    """A file, folder or link of an archive; ``content`` is read before the next entry, None for a folder or link."""

    info: tarfile.TarInfo
    content: MemberContent | None


def read_tar_entries(view: View) -> Iterator[TarEntry]:
    """Yield the entries of an archive that is compressed with zstd or bzip2.

    The decompressed bytes count against the budget. Raises FormatError and LimitExceeded.
    """
    pieces = _PiecesFile(_inflated(view))
    reader = io.BufferedReader(pieces, limits.CHUNK)
    try:
        with tarfile.open(fileobj=reader, mode="r|") as archive:
            while (info := archive.next()) is not None:
                content = archive.extractfile(info) if info.isreg() else None
                yield TarEntry(info, None if content is None else _Content(content, view, info.name))
                archive.members.clear()  # type: ignore[attr-defined]  # it would grow with the archive
            while reader.read(limits.CHUNK):
                pass
            if pieces.last > archive.offset:
                # ``tarfile`` ends at a header that is none, and others read on
                raise tarfile.TarError("bytes follow the end of the archive")
    except _FAILURES as error:
        raise _damaged(error, view, "archive") from error


#: exceptions of ``tarfile`` for damaged archives
_FAILURES = (tarfile.TarError, ValueError, OverflowError, EOFError)


def _damaged(error: Exception, view: View, field: str) -> BadValue:
    text = str(error) or "it is no tar archive"
    return BadValue(text, format="tar", field=field, hint="get the package again", chain=view.chain)


class _Content:
    """A file of an archive. ``tarfile`` raises errors of its own if the archive ends in it."""

    def __init__(self, file: IO[bytes], view: View, name: str) -> None:
        self._file, self._view, self._name = file, view, name

    def read(self, size: int) -> bytes:
        """Return up to ``size`` next bytes. Raises BadValue."""
        try:
            return self._file.read(size)
        except _FAILURES as error:
            raise _damaged(error, self._view, f"file {self._name}") from error


def _inflated(view: View) -> Iterator[bytes]:
    if view.head(0, 4).startswith(magic_numbers.BZIP2):
        return _bunzipped(view)
    return codecs.inflate_pieces(view, "zstd", None, format="conda")


def _bunzipped(view: View) -> Iterator[bytes]:
    """Yield the content of one or more bzip2 streams."""
    stream, size = bz2.BZ2Decompressor(), 0
    try:
        for piece in view.read_once():
            data = bytes(piece)
            while data or not (stream.needs_input or stream.eof):
                if stream.eof:
                    stream = bz2.BZ2Decompressor()
                inflated = stream.decompress(data, max_length=limits.CHUNK)
                data = stream.unused_data if stream.eof else b""
                size += len(inflated)
                if not view.source.charge(view.start, size):
                    raise codecs.inflation_limit_error(view, None, format="conda")
                yield inflated
    except (OSError, ValueError) as error:  # bz2's
        raise BadValue(str(error), format="bzip2", field="stream", chain=view.chain) from error
    if not stream.eof:
        text = "the bzip2 data end early"
        raise BadValue(text, format="bzip2", field="stream", hint="get the package again", chain=view.chain)


class _PiecesFile(io.RawIOBase):
    """Pieces as a file that is read from start to end."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._unread = memoryview(b"")
        self._size = 0
        #: end of the last byte that is no zero
        self.last = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        target = memoryview(buffer).cast("B")
        while not self._unread:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._unread = memoryview(piece)
            if used := len(bytes(piece).rstrip(b"\0")):
                self.last = self._size + used
            self._size += len(piece)
        size = min(len(target), len(self._unread))
        target[:size], self._unread = self._unread[:size], self._unread[size:]
        return size


#: LIMIT: bytes of a file that describes the package, each read whole
_TEXT = 64 << 20

#: properties of every file of the outer archive that must be unchanged
_SAME = ("date_time", "comment", "create_system", "internal_attr", "external_attr")

COMPARED = (
    "the order, names, owners, times, permissions and links of all files",
    "the content of every file, byte for byte, except changed libraries and the two files that describe the package",
    "every changed library, by a proof of its own",
    "info/index.json except the build string, which may get a word and _ before it, a higher build number, and "
    "dependencies on cuda-arch and __cuda_arch",
    "info/paths.json except digests and sizes of changed libraries and of links to them",
)
NOT_COMPARED = (
    "the compression of the archives",
    "the package's file name: compare it with info/index.json",
)


def prove_conda(before: View, after: View) -> PackageProofResult:
    """Return whether ``after`` is the conda package ``before`` with less device code, and otherwise unchanged.

    Decompresses all of both, in windows; libraries go to unnamed temporary files. Raises FormatError for a file that is
    no conda package or damaged, and the errors of proofs of libraries.
    """
    work = _CondaComparison(DifferenceLog())
    if before.head(0, 4).startswith(magic_numbers.BZIP2):
        work.compare(before, after)
    else:
        _compare_zips(work, before, after)
    build = compare_descriptions(work.texts, work.contents, work.ledger, after.chain)
    if build is not None:
        for names, stem in zip(work.stems, build, strict=True):
            for name in names:
                work.ledger.same("name of an archive", stem, name)
    return PackageProofResult(
        "conda",
        proved_file(before),
        proved_file(after),
        not work.ledger.count,
        tuple(work.ledger.differences),
        work.ledger.count,
        work.same_count,
        tuple(work.libraries),
        tuple(work.described),
        COMPARED,
        NOT_COMPARED,
    )


def _compare_zips(work: _CondaComparison, before: View, after: View) -> None:
    """Compare two ``.conda`` files. Raises BadValue for one that is none."""
    try:
        with zipfile.ZipFile(ViewFile(before)) as old, zipfile.ZipFile(ViewFile(after)) as new:
            for was, now in zip_longest(old.infolist(), new.infolist()):
                if was is None or now is None:
                    name = (was or now).filename
                    found = "none" if now is None else name
                    work.ledger.differ("number of files", expected="none" if was is None else name, found=found)
                    return
                for field in _SAME:
                    work.ledger.same(f"{now.filename}: {field}", getattr(was, field), getattr(now, field))
                kinds = [_kind(info.filename) for info in (was, now)]
                if kinds[0] != kinds[1] or not (kinds[0] or was.filename == now.filename):
                    work.ledger.differ("name of a file", expected=was.filename, found=now.filename)
                    return
                with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as second:
                    copy_member(old, was, first)
                    copy_member(new, now, second)
                    with open_source(first, name=was.filename) as one, open_source(second, name=now.filename) as other:
                        one.budget, other.budget = before.source.budget, after.source.budget
                        if not kinds[0]:
                            compare_views(f"{now.filename}: content", one.view(), other.view(), work.ledger)
                            continue
                        for names, info in zip(work.stems, (was, now), strict=True):
                            names.append(info.filename.removeprefix(kinds[0]).removesuffix(_ENDING))
                        work.compare(one.view(), other.view())
            zip_structure.compare_zip_structure(old, new, before, after, work.ledger)
    except (zipfile.BadZipFile, RuntimeError, zlib.error, EOFError, struct.error) as error:  # zipfile's, all of them
        raise BadValue(str(error), format="conda", field="archive", chain=after.chain) from error


_ENDING = ".tar.zst"


def _kind(name: str) -> str:
    """Return the prefix of the name of an archive in a ``.conda``, "" for another file."""
    return next((kind for kind in ("pkg-", "info-") if name.startswith(kind) and name.endswith(_ENDING)), "")


class _CondaComparison:
    """Two packages that are compared: ``texts`` are both versions of the files that describe them."""

    def __init__(self, ledger: DifferenceLog) -> None:
        self.ledger = ledger
        self.texts: dict[str, tuple[bytes, bytes]] = {}
        self.contents: dict[str, tuple[PackageFiles, PackageFiles]] = {}
        self.stems: tuple[list[str], list[str]] = ([], [])
        self._seen: set[str] = set()
        self.same_count = 0
        self.libraries: list[ProvedLibrary] = []
        self.described: list[str] = []

    def compare(self, before: View, after: View) -> None:
        """Compare two tar archives."""
        for was, now in zip_longest(read_tar_entries(before), read_tar_entries(after)):
            if was is None or now is None:
                name = (was or now).info.name
                found = "none" if now is None else name
                self.ledger.differ("number of files", expected="none" if was is None else name, found=found)
                return
            if not self.ledger.same("name of a file", was.info.name, now.info.name):
                return
            for field in SAME:
                self.ledger.same(f"{now.info.name}: {field}", getattr(was.info, field), getattr(now.info, field))
            if now.info.name in self._seen:
                self.ledger.differ(f"{now.info.name}: entries", expected="one", found="several")
                continue
            self._seen.add(now.info.name)
            if was.content is not None and now.content is not None:
                self._content(now.info.name, was.content, now.content)

    def _content(self, name: str, old: MemberContent, new: MemberContent) -> None:
        if name in DESCRIPTION_NAMES:
            texts = _text(name, old), _text(name, new)
            self.texts[name] = texts
            if texts[0] == texts[1]:
                self.same_count += 1
            else:
                self.described.append(name)
            return
        with tempfile.TemporaryFile() as first, tempfile.TemporaryFile() as second:
            was, now = _copy_content(old, first), _copy_content(new, second)
            self.contents[name] = was, now
            if was == now:
                self.same_count += 1
                return
            with open_source(first, name=name) as one, open_source(second, name=name) as other:
                compare_libraries(name, one.view(), other.view(), self.ledger, self.libraries)


def _text(name: str, file: MemberContent) -> bytes:
    data = file.read(_TEXT + 1)
    if len(data) > _TEXT:
        raise LimitExceeded(
            "a file that describes the package is far too large to be one",
            format="conda",
            field=name,
            expected=f"at most {_TEXT} bytes",
            hint="no tool writes such a file; get the package again",
        )
    return data


def _copy_content(file: MemberContent, into: IO[bytes]) -> PackageFiles:
    """Return digest and size of a file; write it to ``into`` if it may be a changed library."""
    digest, size = sha256(), 0
    is_library = False
    while block := file.read(limits.CHUNK):
        is_library = is_library or (not size and block.startswith((magic_numbers.ELF, magic_numbers.DOS)))
        digest.update(block)
        size += len(block)
        if is_library:
            into.write(block)
    into.flush()
    return digest.hexdigest(), size
