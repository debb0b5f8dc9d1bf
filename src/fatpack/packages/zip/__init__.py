"""Zip archives: wheels, the outer archive of ``.conda``, ``.pt2`` of AOTInductor, jars, self-extracting programs.

::

    anything              a program or a script, in self-extracting archives
    per file              local header, name, extra fields, data, some with sizes after them
    directory             per file: an entry with name, extra fields, comment
    [Zip64 record, and its locator]
    end of directory      start of the directory, number of entries; a comment ends the archive

It is read from its end: a listing needs only the directory, so listing an archive on a server downloads nothing else.
Headers of files are read, and checked against the directory, when a file is opened.

How we know: PKWARE's APPNOTE.TXT 6.3.10. Archives of Python's ``zipfile``, Info-ZIP's ``zip`` and ``7z`` are compared
with their listings in the reference tests.

QUIRK(data descriptors): with bit 3 of the flags the local header has no sizes; the directory always has them.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import FatpackError, FormatError, Unsupported, pluralize
from fatpack.findings import code_for_error, finding
from fatpack.layout import FormatInfo
from fatpack.packages import PackageMember
from fatpack.packages.names import NameChecker
from fatpack.packages.zip.directory import END, ENTRY, FORMAT, LAYOUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.packages.zip.directory import ZipDirectory, ZipEntry

__all__ = ["DOC", "LAYOUTS", "detect", "members"]

DOC = FormatInfo(
    name=FORMAT,
    title="Zip archive",
    description=(
        "Wheels of Python, the outer archive of conda's packages, AOTInductor's `.pt2`, jars, and self-extracting "
        "programs. A directory at the end lists all files; each is stored uncompressed or compressed on its own."
    ),
    references=(
        "PKWARE APPNOTE.TXT 6.3.10",
        "Info-ZIP zip 3.0 and unzip 6.0",
        "Python 3.11, Lib/zipfile.py",
        "Binary distribution format of Python (wheels), PEP 427",
    ),
    reads=(
        "archives with and without Zip64, with anything before them; uncompressed files (in place), and files "
        "compressed with deflate, bzip2, LZMA, zstd or xz"
    ),
    writes=(
        "copies in which some files are replaced or renamed, stored or deflated; all others keep their stored bytes, "
        "and all keep order, times, attributes, extra fields and comments"
    ),
    limitations=(
        "Nothing is added or removed. An archive with bytes after its end, or with a signature of its directory, is "
        "not changed.",
        "New content is deflated by Python's zlib: another build of zlib may give other bytes.",
        "Encrypted files are named, not read. So are files compressed with deflate64, PPMd and older methods.",
        "Archives on several disks are not read.",
        "Without its directory, which is at the end, nothing of an archive is read: `zip -FF` recovers the rest.",
        "A compressed file is checked by its CRC-32 when its last byte is read; an uncompressed one, when its "
        "content is read (extract, --verify, --digests): a listing reads no content.",
        "An archive after anything except a program or a script is not recognised.",
        "Signatures, comments, times and modes are ignored.",
        "A name that is neither marked as UTF-8 nor valid UTF-8 is read in code page 437.",
        "`fatpack[fast]` inflates in a fraction of the time of zlib.",
    ),
)


def detect(view: View) -> bool:
    """Return whether the bytes are a zip archive: they start like one, or like a program and end like one without a
    comment.

    Reading the end of a file in a package inflates all of it: that is done only for programs, whose tables need it too.
    """
    head = view.head(0, 4)
    if head in (magic_numbers.ZIP, magic_numbers.ZIP_END):
        return True
    at = len(view) - END.size
    if at < 0 or not head.startswith(_PROGRAMS):
        return False
    tail = view.head(at, END.size)
    if tail[:4] != magic_numbers.ZIP_END or tail[-2:] != b"\0\0":
        return False
    size = int.from_bytes(tail[12:16], "little")  # the directory is directly before its end record
    return (
        not size
        or view.head(at - size, 4) == magic_numbers.ZIP_ENTRY
        or view.head(at - 20, 4) == magic_numbers.ZIP64_LOCATOR
    )


#: first bytes of files that may be self-extracting
_PROGRAMS = (magic_numbers.ELF, magic_numbers.DOS, *magic_numbers.MACH_O, magic_numbers.UNIVERSAL_MACH_O, b"#!")


def members(view: View) -> Iterator[PackageMember | Finding]:
    """Yield every file in the order of the directory, and findings about the archive."""
    from fatpack.packages.zip.directory import ZipDirectory

    try:
        directory = ZipDirectory(view)
        if directory.end < len(view):
            size = len(view) - directory.end
            yield finding("FP1706", view.span(directory.end, size), f"{size} bytes after the end of the archive")
        yield from _listed(view, directory)
    except FormatError as error:
        at = 0 if error.offset is None else min(max(error.offset - view.start, 0), len(view))
        yield finding(code_for_error("FP1701", error), view.span(at), error.describe(), error.hint, field=error.field)


def _listed(view: View, directory: ZipDirectory) -> Iterator[PackageMember | Finding]:
    from fatpack.packages.zip.content import ZipMemberOpener
    from fatpack.packages.zip.directory import is_shared

    names, number, store = NameChecker(), 0, _KernelStore()
    first = True
    for entry in directory.entries():
        if first:
            yield from _before(view, directory)
            first = False
        if entry.is_folder:
            continue
        span = view.span(entry.at, ENTRY.size)
        store.take(entry)
        if entry.is_link:
            yield from _link(view, entry, names)
            continue
        findings = names.check(entry.name, span)
        if is_shared(entry):
            text = f"file {entry.name!r}: {entry.damage}"
            findings = (*findings, finding("FP1705", span, text, "it is not read", field="offset"))
        elif entry.damage:
            findings = (*findings, finding("FP1704", span, f"file {entry.name!r}: {entry.damage}", field="offset"))
        yield PackageMember(entry.name, number, entry.size, ZipMemberOpener(view, entry), findings=findings)
        number += 1
    yield from store.findings(view)


class _KernelStore:
    """Tells if an archive is one of AOTriton: AKS2 archives and a signature alone, at its top.

    AOTriton's own reader (``lszip.cc``) refuses an archive in which any member is compressed or encrypted.
    """

    __slots__ = ("_archives", "_is_one", "_packed", "_span_at")

    def __init__(self) -> None:
        self._is_one, self._archives, self._packed, self._span_at = True, 0, 0, 0

    def take(self, entry: ZipEntry) -> None:
        """Take the next member."""
        is_archive = entry.name.endswith(".aks2")
        self._archives += is_archive
        self._is_one = self._is_one and (is_archive or entry.name == "__signature__")
        if entry.method or entry.flags & 1:
            self._span_at = self._span_at if self._packed else entry.at
            self._packed += 1

    def findings(self, view: View) -> Iterator[Finding]:
        """Yield the finding that AOTriton refuses the archive, if it does."""
        if self._is_one and self._archives and self._packed:
            text = f"{pluralize(self._packed, 'member')} compressed, and AOTriton's reader takes stored ones alone"
            hint = "store them: zip -0"
            yield finding("FP1908", view.span(self._span_at, ENTRY.size), text, hint, field="method")


def _before(view: View, directory: ZipDirectory) -> Iterator[Finding]:
    """Yield the finding about a program before the archive, whose own device code is not listed with the files."""
    places = directory.places
    size = min(directory.start, places[0]) if places else directory.start
    if not size or size > len(view):
        return
    head = view.head(0, 4)
    if head == magic_numbers.ELF or head[:2] == magic_numbers.DOS:
        text = f"{size} bytes of a program are before the archive: device code in the program itself is not listed"
        yield finding("FP1706", view.span(0, size), text, f"cut it off, and give the program: head -c {size}")
    elif head in (magic_numbers.ZIP, magic_numbers.ZIP_END):
        text = f"{size} bytes are before the archive, which begin as another one: no file in those is listed"
        yield finding("FP1706", view.span(0, size), text, "cut the archives apart, and give each of them")


def _link(view: View, entry: ZipEntry, names: NameChecker) -> Iterator[Finding]:
    """Yield the findings about a symbolic link, whose target is its content."""
    from fatpack.packages.zip.content import open_content

    span = view.span(entry.at, ENTRY.size)
    if entry.size > _TARGET:
        yield finding("FP1704", span, f"link {entry.name!r} has a target of {entry.size} bytes", field="size")
        return
    try:
        with open_content(view, entry) as source:
            target = source.read(0, source.size).decode("utf-8", "surrogateescape")
    except (FormatError, Unsupported) as error:
        yield finding(code_for_error("FP1710", error), span, _described(error), error.hint, field="link")
        return
    yield from names.link(entry.name, target, span)


def _described(error: FatpackError) -> str:
    return error.describe() if isinstance(error, FormatError) else error.problem


#: LIMIT: bytes of the target of a link, the longest path of common systems.
_TARGET = 4096
