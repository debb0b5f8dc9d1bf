"""Debian packages (``.deb``, ``.udeb``): an ``ar`` archive of a version, metadata, and the files.

::

    debian-binary     "2.0\\n"
    control.tar[.…]   name, dependencies and installation scripts
    data.tar[.…]      the files to install; gzip, xz, zstd, bzip2 or LZMA

Its members are packages in turn (:mod:`fatpack.packages.tar`), so a library in it is ``x.deb!data.tar.xz!usr/lib/…``.

How we know: deb(5) of dpkg 1.21; headers are those of archives of objects (:mod:`fatpack.binary.archive`).
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.archive.layout import HEADER, MAGIC_SIZE
from fatpack.errors import FormatError
from fatpack.findings import code_for_error, finding
from fatpack.layout import FormatInfo
from fatpack.packages import PackageMember
from fatpack.packages.members import SubRangeSource
from fatpack.packages.names import NameChecker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding

__all__ = ["DOC", "LAYOUTS", "detect", "members"]

FORMAT = "deb"

DOC = FormatInfo(
    name=FORMAT,
    title="Debian package",
    description=(
        "Packages of dpkg (Debian, Ubuntu and others): an archive of two tar archives, one about the "
        "package, one with its files."
    ),
    references=("deb(5) and deb-split(5) of dpkg 1.21", "ar(5)"),
    reads="packages of version 2.x with members of any compression that tar archives may have",
    writes="none",
    limitations=(
        "Listings do not compare files with `md5sums`; `fatpack doctor` does. Signatures are not checked.",
        "Parts of split packages (`debian-split`) are not joined.",
        "The old format from before 1995 is not read.",
    ),
)

LAYOUTS = (HEADER,)


def detect(view: View) -> bool:
    """Return whether the bytes are an archive that starts with the version of Debian's packages."""
    head = view.head(0, MAGIC_SIZE + 16)
    return head.startswith(magic_numbers.ARCHIVE) and head[MAGIC_SIZE:].rstrip(b" ").rstrip(b"/") == magic_numbers.DEB


def members(view: View) -> Iterator[PackageMember | Finding]:
    """Yield every member in stored order, and damage to headers; members after it are found if possible."""
    from fatpack.binary.archive.reader import DamagedMember, read_intact_members

    outer = view.chain[-1] if view.chain else view.source.name
    names = NameChecker()
    try:
        for member in read_intact_members(view):
            if isinstance(member, DamagedMember):
                error, span = member.error, view.span(member.at, member.end - member.at)
                yield finding(code_for_error("FP1701", error), span, error.describe(), error.hint, field=error.field)
            elif member.number is not None:
                name = member.name.decode("utf-8", "surrogateescape")
                findings = (*names.check(name, view.span(member.header_at, HEADER.size)), *member.findings)
                data = view.slice(member.data_at, member.size)
                opening = _DebMemberOpener(data, f"{outer}!{name}")
                yield PackageMember(name, member.number, member.size, opening, findings=findings)
    except FormatError as error:
        yield finding(code_for_error("FP1701", error), view.span(), error.describe(), error.hint, field=error.field)


class _DebMemberOpener:
    """Opens a member; used as ``PackageMember.open``."""

    __slots__ = ("_data", "_name")

    def __init__(self, data: View, name: str) -> None:
        self._data = data
        self._name = name

    def __call__(self) -> SubRangeSource:
        """Return a source of the member: a range of the package."""
        return SubRangeSource(self._data, self._name)
