"""The files of a link line, read: which images each has for a device link, and why another has none.

Only offload binaries count, and only where LLVM's tools look for them: in sections of their type (ELF) or of their name
(COFF), in bitcode's globals, in files that are nothing else, and in all members of archives. Other device code, as the
fat binaries of ``-fno-gpu-rdc``, is linked and registered as it is in its object.

How we know: ``extractOffloadBinaries`` in llvm/lib/Object/OffloadBinary.cpp, LLVM 22 and 23; shared libraries are
passed over by clang-linker-wrapper before it comes to that.
"""

from __future__ import annotations

import errno
import os
import stat

from fatpack import binary, images, limits
from fatpack.binary.elf import quick_header
from fatpack.binary.elf.layout import SHARED
from fatpack.binary.section_names import OFFLOADING
from fatpack.commands.link_inputs.link_line import find_link_file
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.findings import finding
from fatpack.formats import offload_binary
from fatpack.io.open import open_source
from fatpack.magic_numbers import BITCODE, OFFLOAD_BINARY, WRAPPED_BITCODE
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary import CodeSection
    from fatpack.commands.link_inputs.link_line import LinkLine, LinkWord
    from fatpack.io.source import Source, View
    from fatpack.limits import Budget
    from fatpack.model import Image

#: Hosts in which LLVM's tools find nothing, whatever the section is called → what their files are
_UNREAD = {
    "pe": "a linked program or library",
    "macho": "a Mach-O file, for which LLVM embeds no device code",
    "universal": "a Mach-O file, for which LLVM embeds no device code",
}

#: JSON names of hosts → kinds of inputs
_KINDS = {"elf": "object", "coff": "object"}


class LinkImage(Record):
    """One device image of an input: what is stored, what its bytes are, and the number of the input on the line.

    ``is_lazy``: it is in an archive of which only what others need is linked. ``member`` is the file it lies in, the
    innermost of archives; "" outside of any. ``number`` counts the images of the whole line.
    """

    image: Image
    form: str
    input: int
    member: str
    is_lazy: bool
    number: int = 0


class LinkInput(Record):
    """A file of the line. ``kind`` is object, bitcode, archive, offload-binary, shared, missing, directory or other.

    ``why`` tells in words why nothing of it goes into a device link. ``other`` are the sections with device code that
    no device link takes.
    """

    path: str
    kind: str
    is_whole: bool = False
    images: int = 0
    why: str = ""
    other: tuple[str, ...] = ()


class LinkInputFiles:
    """The files of a link line, open until the end of a block; they are read when this is made.

    ``findings`` are what is damaged or unusual in them: damage is an ``error``, and the images there are missing.
    """

    def __init__(self, line: LinkLine, budget: Budget | None = None) -> None:
        self._budget = budget
        self.inputs: list[LinkInput] = []
        self.devices: list[LinkImage] = []
        self.findings: list[Finding] = []
        self.views: list[View] = []
        self._opened: list[Source] = []
        try:
            for word in line.words:
                self._read(word, find_link_file(word, line))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> LinkInputFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the files; images can be read no more."""
        while self._opened:
            self._opened.pop().close()

    def _read(self, word: LinkWord, path: str) -> None:
        if path != "-":
            try:
                is_folder = stat.S_ISDIR(os.stat(path).st_mode)
            except OSError as error:
                if word.is_required or error.errno not in (errno.ENOENT, errno.ENOTDIR):
                    raise
                self.inputs.append(LinkInput(path, "missing", why="there is no such file"))
                return
            if is_folder:
                if word.is_required:
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
                self.inputs.append(LinkInput(path, "directory", why="it is a folder"))
                return
        source = open_source(path, may_close=True, budget=self._budget)
        self._opened.append(source)
        view = source.view()
        self.views.append(view)
        reader = _InputReader(len(self.inputs), view, word.is_whole)
        try:
            self.inputs.append(reader.read(path))
        except (FormatError, HostError, Unsupported) as error:
            self.inputs.append(LinkInput(path, "other", why="it cannot be read"))
            reader.findings.append(_damage(error, view))
        numbered = enumerate(reader.devices, len(self.devices))
        self.devices += [each.replace(number=number) for number, each in numbered]
        self.findings += reader.findings


class _InputReader:
    """One file of the line while it is read."""

    def __init__(self, number: int, view: View, is_whole: bool) -> None:
        self.devices: list[LinkImage] = []
        self.findings: list[Finding] = []
        self._number = number
        self._view = view
        self._is_whole = is_whole
        self._is_lazy = False
        self._other: dict[str, None] = {}

    def read(self, path: str) -> LinkInput:
        """Return what the file is, with its images in ``devices``. Raises FormatError, HostError, Unsupported."""
        view = self._view
        if view.head(0, 4) == OFFLOAD_BINARY:
            kind, why = "offload-binary", ""
            self._take(view, "")
        else:
            kind, why = self._read_host(view)
        if not self.devices and not why and not self.findings:
            why = "no offload binary is in it"
        return LinkInput(path, kind, self._is_whole and kind == "archive", len(self.devices), why, tuple(self._other))

    def _read_host(self, view: View) -> tuple[str, str]:
        """Return which kind of file this is and why nothing of it is linked, if that is so; take what is."""
        host = binary.detect_host(view)
        if host is None:
            return "other", "it is neither an object nor an archive"
        if host in _UNREAD:
            return "shared" if host == "pe" else "other", _UNREAD[host]
        if quick_header.read_file_type(view) == SHARED:
            return "shared", "a shared library or a program: its device code is linked and registered already"
        kind = _KINDS.get(host, host)
        self._is_lazy = kind == "archive" and not self._is_whole
        self._walk(host, view, "", limits.NESTING)
        return kind, ""

    def _walk(self, host: str, view: View, member: str, depth: int) -> None:
        for site in binary.get_host(host).locate(view):
            if isinstance(site, Finding):
                self.findings.append(site)
            elif site.content == binary.MEMBER:
                self._enter(site, depth)
            elif _is_offloading(site):
                self._take(site.data, member)
            elif site.content not in (binary.RECORDS, binary.TABLE):
                self._other[site.section or ""] = None
                self.findings += site.findings

    def _enter(self, site: CodeSection, depth: int) -> None:
        """Read a member of an archive, which may be an archive itself."""
        view, member = site.data, site.member or ""
        self.findings += site.findings
        if not depth:
            self.findings.append(finding("FP1004", view.span(), f"archives are nested more than {limits.NESTING} deep"))
            return
        try:
            if view.head(0, 4) == OFFLOAD_BINARY:
                self._take(view, member)
                return
            host = binary.detect_host(view)
            if host is not None and host not in _UNREAD:
                self._walk(host, view, member, depth - 1)
        except (FormatError, HostError, Unsupported) as error:
            self.findings.append(_damage(error, view))

    def _take(self, view: View, member: str) -> None:
        """Take the images of all binaries in a place. Bytes after them are damage: a link without them lacks code."""
        at = 0
        try:
            while at < len(view):
                if _is_padding(view, at):
                    text = "zero bytes after the last container; LLVM refuses the whole section because of them"
                    self.findings.append(finding("FP1003", view.span(at), text))
                    return
                container = offload_binary.parse(view, at)
                for image in container.images:
                    form = images.identify_image(image.data).form or image.form
                    self.devices.append(LinkImage(image, form, self._number, member, self._is_lazy))
                self.findings += container.findings
                # A compressed binary (v3) is padded to 8 bytes that its size does not count.
                at += container.span.size + (-container.span.size % 8 if container.version == 3 else 0)
        except (FormatError, Unsupported) as error:
            self.findings.append(_damage(error, view))


#: bytes after the last binary that are looked at: more of them are no padding
_PADDING = 4096


def _is_padding(view: View, at: int) -> bool:
    rest = len(view) - at
    return rest <= _PADDING and not any(view.read(at, rest))


def _is_offloading(site: CodeSection) -> bool:
    """Return whether LLVM's tools read a place: by its type (ELF), by its name (COFF, bitcode)."""
    if site.content != binary.CONTAINER:
        return False
    if any(item.code == "FP2001" for item in site.findings):
        return False  # of that name, and not of LLVM's type
    section = site.section or ""
    return section.startswith(OFFLOADING) or site.data.head(0, 4) == OFFLOAD_BINARY


def _damage(error: FormatError | HostError | Unsupported, view: View) -> Finding:
    from fatpack.scanner.results import finding_from_error

    return finding_from_error(error, view.span())


def is_bitcode(view: View) -> bool:
    """Return whether an image is LLVM bitcode by its first bytes, as linkers see it."""
    return view.head(0, 4) in (BITCODE, WRAPPED_BITCODE)
