"""Reading a folder: all archives, manifests and programs in it, without following links."""

from __future__ import annotations

import os
import stat

from fatpack import formats
from fatpack.commands.check_kpack import lookup
from fatpack.commands.check_kpack.facts import FoundManifest, KpackFolder, KpackProgram, display_path
from fatpack.errors import FatpackError, FormatError
from fatpack.findings import finding
from fatpack.formats.kpack import manifest
from fatpack.formats.kpack.layout import KPACK_FORMAT
from fatpack.inputs.walk import TreeWalk
from fatpack.io.open import open_source
from fatpack.io.source import Span, VirtualName
from fatpack.model import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.commands.check_kpack.facts import KpackArchive
    from fatpack.io.source import View


class FolderReader:
    """A folder that is being read."""

    def __init__(self, path: str) -> None:
        self._given = path
        self._real = os.path.realpath(path)
        self._archives: dict[str, KpackArchive] = {}
        self._programs: list[KpackProgram] = []
        self._manifests: list[FoundManifest] = []
        self._findings: list[Finding] = []
        self._files = self._passed_by = self._links = self._special = 0

    def add(self, path: str) -> None:
        """Read one file more, which may lie elsewhere: an archive that is looked into for every program."""
        self._read(os.path.realpath(path))

    def whole(self) -> KpackFolder:
        """Read all that is in the folder. Raises OSError if that is no folder that can be read."""
        with os.scandir(self._given):
            pass
        walk = TreeWalk([self._real], passes=True)
        for place in walk:
            if place.problem:
                self._findings.append(self._finding(place.path, place.problem))
            else:
                self._read(place.path)
        self._passed_by, self._links, self._special = walk.passed, walk.links, walk.special
        return self.folder()

    def folder(self) -> KpackFolder:
        """Return what was read so far."""
        return KpackFolder(
            self._given,
            self._real,
            tuple(self._programs),
            self._archives,
            tuple(self._manifests),
            self._files,
            self._passed_by,
            self._links,
            self._special,
            tuple(self._findings),
        )

    def _read(self, path: str) -> None:
        if path in self._archives:
            return
        self._files += 1
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                self._findings.append(self._finding(path, "this is no file"))
                return
            with open_source(path, name=self._shown(path)) as source:
                self._take(path, source.view())
        except (OSError, FatpackError) as error:
            self._unreadable(path, error)

    def _take(self, path: str, view: View) -> None:
        if formats.format_by_magic(view.head(0, 24)) == KPACK_FORMAT:
            archive, found = lookup.read_archive(view, path)
            self._findings += found
            if archive is not None:
                self._archives[path] = archive
        elif path.endswith(".kpack"):
            words = "it is empty" if not len(view) else f"it starts with {view.head(0, 4).hex(' ')}"
            text = f"the name is that of a kpack archive, and {words}"
            self._findings.append(finding("FP3109", view.span(0, 4), text, "install the package again that brings it"))
        elif path.endswith(".kpm") or manifest.detect_manifest(view):
            self._take_manifest(path, view)
        elif host := lookup.marker_host(view):
            items = list(lookup.read_program_markers(view, host))
            self._findings += [item for item in items if isinstance(item, Finding)]
            markers = tuple(item for item in items if not isinstance(item, Finding))
            if markers:
                self._programs.append(KpackProgram(path, markers))

    def _take_manifest(self, path: str, view: View) -> None:
        try:
            read = manifest.parse_manifest(view)
        except FormatError as error:
            span = view.span(0, 0) if error.offset is None else Span(error.offset, error.offset, view.chain)
            self._findings.append(finding("FP1607", span, error.describe(), error.hint, field=error.field))
            return
        self._findings += read.findings
        self._manifests.append(FoundManifest(path, read))

    def _shown(self, path: str) -> str:
        return display_path(path, self._given, self._real)

    def _unreadable(self, path: str, error: OSError | FatpackError) -> None:
        words = error.problem if isinstance(error, FatpackError) else error.strerror or str(error)
        self._findings.append(self._finding(path, words))

    def _finding(self, path: str, problem: str) -> Finding:
        return finding("FP3109", Span(0, 0, (VirtualName(self._shown(path)),)), f"cannot be read: {problem}")
