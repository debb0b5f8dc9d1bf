"""What is known of kpack archives, and of the programs that look for them."""

from __future__ import annotations

import os

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from fatpack.formats.kpack.manifest import KpackManifest
    from fatpack.io.source import Span
    from fatpack.model import Finding
    from fatpack.registration.kpack_marker import KpackMarker

    #: name of a code object (``lib/libx.so#0``), and the architecture for which an archive has it
    Name: TypeAlias = tuple[str, str]


class KpackCodeObject(Record):
    """A code object in an archive: where it stands, and the target ID that its header states ("": none)."""

    claims: str
    span: Span


class KpackArchive(Record):
    """A kpack archive: its path and size, the architectures that it lists, and what it holds."""

    path: str
    size: int
    archs: tuple[str, ...]
    objects: Mapping[Name, KpackCodeObject]


class KpackProgram(Record):
    """A program that looks for code objects in archives: its path, with links resolved, and its markers."""

    path: str
    markers: tuple[KpackMarker, ...]


class FoundManifest(Record):
    """A manifest and its path."""

    path: str
    manifest: KpackManifest


class KpackFolder(Record):
    """What was read of a folder.

    ``given`` is the folder as it was named, ``path`` with links resolved; archives are by their paths. ``files`` is how
    many were looked at, ``passed_by`` how many were not, because of their names; ``links`` and ``special`` count links,
    and pipes and the like, which are not followed. ``findings`` are about what was read, and what could not be.
    """

    given: str
    path: str
    programs: tuple[KpackProgram, ...]
    archives: Mapping[str, KpackArchive]
    manifests: tuple[FoundManifest, ...]
    files: int
    passed_by: int
    links: int
    special: int
    findings: tuple[Finding, ...]

    def shown(self, path: str) -> str:
        """Return how a path is written in reports; see :func:`shown`."""
        return display_path(path, self.given, self.path)


def display_path(path: str, given: str, real: str) -> str:
    """Return how a path below a folder is written: as the folder was given, whose links are resolved in ``real``."""
    if path == real:
        return given
    return (
        os.path.join(given, path[len(real.rstrip(os.sep)) + 1 :])
        if path.startswith(real.rstrip(os.sep) + os.sep)
        else path
    )
