"""Packages: files that carry other files, which are hosts and containers in turn. One room per kind, all with one door.

============  =======================================================================================
``DOC``        the room's card (:class:`fatpack.layout.FormatInfo`)
``LAYOUTS``    the fixed records, for documents
``detect``     ``detect(view) -> bool``: cheap; reads a bounded number of bytes, never raises
``members``    ``members(view) -> Iterator[Member | Finding]``: the files in it, in stored order; damage is a finding
============  =======================================================================================

A package knows neither hosts nor formats: it says which files are in it and gives their bytes. Libraries that are made
for it read the carrier; what is ours is that nothing is unpacked by name, that memory stays bounded, and that a package
which lies about itself gives findings. A member is a file of its own: offsets in it count from its first byte, wherever
it lies and however it is compressed, so it reads as it would read when it was unpacked.
"""

from __future__ import annotations

from fatpack.io.source import Source
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import ModuleType
    from typing import Protocol

    from fatpack.io.source import View
    from fatpack.layout import FormatInfo, Layout
    from fatpack.model import Finding

    class Package(Protocol):
        """The door of a package room."""

        DOC: FormatInfo
        LAYOUTS: Sequence[Layout]

        def detect(self, view: View) -> bool: ...  # noqa: D102
        def members(self, view: View) -> Iterator[PackageMember | Finding]: ...  # noqa: D102


class PackageMember(Record):
    """A file in a package.

    ``name`` is as it is stored, with ``/`` between folders and without ``./`` before it; nobody writes to it
    (:mod:`fatpack.io.write`). Folders, links and devices are no members, and names may occur twice. ``number`` counts
    the members from 0. ``size`` are the bytes that it has when it is read, as the package states it; None where only
    reading tells. ``open`` returns a source of the bytes, whose offsets start at 0 and which the caller closes: a range
    of the package where the member is stored as it is, else what is inflated, in memory or in an unnamed temporary
    file, as far as somebody reads. It raises FormatError for bytes that are damaged, as reading them does, and
    Unsupported for what nobody can inflate (FP1710 is the code for findings of both). ``is_lasting`` says that it may
    be opened at any time, in any order, and by a fork of this process; what is read forwards only has to be opened
    before the next member is asked for. ``findings`` are about this member.
    """

    name: str
    number: int
    size: int | None
    open: Callable[[], MemberSource]
    is_lasting: bool = True
    findings: tuple[Finding, ...] = ()


#: JSON name of the package → module, in the order of detection
MODULES: dict[str, str] = {
    "zip": "fatpack.packages.zip",
    "deb": "fatpack.packages.deb",
    "rpm": "fatpack.packages.rpm",
    "tar": "fatpack.packages.tar",
    "compressed": "fatpack.packages.compressed",
}


def detect_package(view: View) -> str | None:
    """Return the JSON name of the package that the bytes are, None if they are none; asks the rooms in their order."""
    return next((name for name in MODULES if get_package(name).detect(view)), None)


def get_package(name: str) -> Package:
    """Return the package room of that JSON name; imports it."""
    module: ModuleType = __import__(MODULES[name], fromlist=["DOC"])
    return module


# What a member of a package is read as.

#: The most bytes that a file can have (off_t of systems, and what ``len`` can return).
MAX_FILE_SIZE = (1 << 63) - 1


class MemberSource(Source):
    """A file of its own, wherever its bytes lie: offsets count from the first of them.

    ``findings`` are what is unexpected about how they are stored, as far as they were read: those who have read ask.
    """

    is_file = True

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is unexpected about how the bytes are stored, as far as they were read."""
        return ()
