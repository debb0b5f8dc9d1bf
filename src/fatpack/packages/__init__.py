"""Packages: files that contain other files. One module or package per format, all with the same interface.

============  =======================================================================================
``DOC``        the format's description (:class:`fatpack.layout.FormatInfo`)
``LAYOUTS``    the fixed records, for documents
``detect``     ``detect(view) -> bool``: cheap; reads a bounded number of bytes, never raises
``members``    ``members(view) -> Iterator[Member | Finding]``: the files in it, in stored order; damage is a finding
============  =======================================================================================

This code lists the files of a package and returns their bytes; it does not interpret them. Nothing is unpacked by name,
memory is bounded, and contradictions in a package are findings. A member is a file of its own: offsets in it count from
its first byte, wherever it is stored and even if it is compressed, so it is read as if it had been unpacked.
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
        """Interface of a package module."""

        DOC: FormatInfo
        LAYOUTS: Sequence[Layout]

        def detect(self, view: View) -> bool: ...  # noqa: D102
        def members(self, view: View) -> Iterator[PackageMember | Finding]: ...  # noqa: D102


class PackageMember(Record):
    """A file in a package.

    ``name`` is the stored name, with ``/`` between folders and without ``./`` before it; it is never used as a path to
    write to (:mod:`fatpack.io.write`). Folders, links and devices are not members, and names may occur twice.
    ``number`` counts the members from 0. ``size`` is the stated size of its content; None if only reading shows it.
    ``open`` returns a source of the bytes, whose offsets start at 0 and which the caller closes: a range of the package
    if the member is stored uncompressed, else bytes that are inflated on demand and kept in memory or in an unnamed
    temporary file. It raises FormatError for damaged bytes, as reading them does, and Unsupported for an unsupported
    method (FP1710 is the code for findings of both). ``is_lasting`` is true if it may be opened at any time, in any
    order, and by a fork of this process; otherwise it has to be opened before the next member is requested.
    ``findings`` are about this member.
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
    """Return the JSON name of the package that the bytes are, None if they are not one; tries the formats in order."""
    return next((name for name in MODULES if get_package(name).detect(view)), None)


def get_package(name: str) -> Package:
    """Return the module of the package format with that JSON name; imports it."""
    module: ModuleType = __import__(MODULES[name], fromlist=["DOC"])
    return module


# The source of a member.

#: The maximum size of a file (off_t of systems, and the maximum of ``len``).
MAX_FILE_SIZE = (1 << 63) - 1


class MemberSource(Source):
    """A member as a file of its own: offsets count from its first byte.

    ``findings`` are about the stored form of the bytes read so far: ask for them after reading.
    """

    is_file = True

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Findings about the stored form of the bytes read so far."""
        return ()
