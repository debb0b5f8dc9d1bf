"""Reading a folder: all archives, manifests and programs in it, without following links."""

from __future__ import annotations

import os
import stat

from fatpack import formats
from fatpack.answers.kpack import reading
from fatpack.answers.kpack.facts import Folder, Listing, Program, shown
from fatpack.errors import FatpackError, FormatError
from fatpack.findings import finding
from fatpack.formats.kpack import manifest
from fatpack.formats.kpack.layout import FORMAT
from fatpack.io.source import Span
from fatpack.io.sources.opening import open_source
from fatpack.model import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.answers.kpack.facts import Archive
    from fatpack.io.source import View

#: Endings of files that are neither programs nor archives: a folder of packages has ten thousands of them.
_PASSED_BY = frozenset(
    "c cc cfg cpp css csv cu cuh cxx dat gz h hip hpp htm html hxx inc ini ipynb jpg js json md mo npy npz pem pkl png"
    " po ps pth pxd py pyc pyi pyx rst sh svg toml ts ttf txt typed xml xz yaml yml zip zst".split()
)


class Reading:
    """A folder that is being read."""

    def __init__(self, path: str) -> None:
        self._given = path
        self._real = os.path.realpath(path)
        self._archives: dict[str, Archive] = {}
        self._programs: list[Program] = []
        self._manifests: list[Listing] = []
        self._findings: list[Finding] = []
        self._files = self._passed_by = self._links = self._special = 0

    def add(self, path: str) -> None:
        """Read one file more, which may lie elsewhere: an archive that is looked into for every program."""
        self._read(os.path.realpath(path))

    def whole(self) -> Folder:
        """Read all that is in the folder. Raises OSError if that is no folder that can be read."""
        with os.scandir(self._real):
            pass
        for path in self._walk(self._real):
            self._read(path)
        return self.folder()

    def folder(self) -> Folder:
        """Return what was read so far."""
        return Folder(
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

    def _walk(self, folder: str) -> Iterator[str]:
        """Yield the files below a folder whose names do not say that they are something else, in order."""
        waiting = [folder]
        while waiting:
            here = waiting.pop()
            try:
                with os.scandir(here) as found:
                    entries = sorted(found, key=lambda entry: entry.name)
            except OSError as error:
                self._unreadable(here, error)
                continue
            for entry in entries:
                if entry.is_symlink():
                    self._links += 1
                elif entry.is_dir(follow_symlinks=False):
                    pass
                elif not entry.is_file(follow_symlinks=False):
                    self._special += 1
                elif entry.name.rpartition(".")[2].lower() in _PASSED_BY:
                    self._passed_by += 1
                else:
                    yield entry.path
            waiting += [entry.path for entry in reversed(entries) if entry.is_dir(follow_symlinks=False)]

    def _read(self, path: str) -> None:
        if path in self._archives:
            return
        self._files += 1
        try:
            if not stat.S_ISREG(os.stat(path).st_mode):
                self._findings.append(finding("FP3109", Span(0, 0, (self._shown(path),)), "this is no file"))
                return
            with open_source(path, name=self._shown(path)) as source:
                self._take(path, source.view())
        except (OSError, FatpackError) as error:
            self._unreadable(path, error)

    def _take(self, path: str, view: View) -> None:
        if formats.sniff(view.head(0, 24)) == FORMAT:
            archive, found = reading.archive(view, path)
            self._findings += found
            if archive is not None:
                self._archives[path] = archive
        elif path.endswith(".kpack"):
            words = "it is empty" if not len(view) else f"it starts with {view.head(0, 4).hex(' ')}"
            text = f"the name is that of a kpack archive, and {words}"
            self._findings.append(finding("FP3109", view.span(0, 4), text, "install the package again that brings it"))
        elif path.endswith(".kpm") or manifest.detect(view):
            self._take_manifest(path, view)
        elif host := reading.host_of(view):
            items = list(reading.markers(view, host))
            self._findings += [item for item in items if isinstance(item, Finding)]
            markers = tuple(item for item in items if not isinstance(item, Finding))
            if markers:
                self._programs.append(Program(path, markers))

    def _take_manifest(self, path: str, view: View) -> None:
        try:
            read = manifest.parse(view)
        except FormatError as error:
            span = view.span(0, 0) if error.offset is None else Span(error.offset, error.offset, view.chain)
            self._findings.append(finding("FP1607", span, error.describe(), error.hint, field=error.field))
            return
        self._findings += read.findings
        self._manifests.append(Listing(path, read))

    def _shown(self, path: str) -> str:
        return shown(path, self._given, self._real)

    def _unreadable(self, path: str, error: OSError | FatpackError) -> None:
        words = error.problem if isinstance(error, FatpackError) else error.strerror or str(error)
        self._findings.append(finding("FP3109", Span(0, 0, (self._shown(path),)), f"cannot be read: {words}"))
