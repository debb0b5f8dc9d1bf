"""Reading a folder: all archives, manifests and programs in it, without following links."""

from __future__ import annotations

import os
import stat

from fatpack import formats
from fatpack.commands.check_kpack import findings, lookup
from fatpack.commands.check_kpack.lookup import (
    FoundManifest,
    KernelArchives,
    KpackFolder,
    KpackProgram,
    display_path,
    look_up,
)
from fatpack.errors import FatpackError, FormatError, pluralize
from fatpack.findings import finding
from fatpack.formats.kpack import manifest
from fatpack.formats.kpack.layout import KPACK_FORMAT
from fatpack.inputs.walk import TreeWalk
from fatpack.io.open import open_source
from fatpack.io.source import Span, VirtualName
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.check_kpack.lookup import KpackArchive, LookupResult, SearchPath
    from fatpack.formats.kpack.manifest import ManifestFile
    from fatpack.io.source import View
    from fatpack.registration.kpack_marker import KpackMarker


# Check that manifests describe the archives beside them.

_HINT = "install archives and manifest of one build"


def manifest_differences(listing: FoundManifest, folder: KpackFolder) -> Iterator[Finding]:
    """Yield a finding for everything in which a manifest and the archives beside it differ."""
    for item in listing.manifest.files:
        for text in _of_file(item, os.path.dirname(listing.path), folder):
            yield finding("FP3108", item.span, f"{item.arch}: {text}", _HINT)


def _of_file(item: ManifestFile, here: str, folder: KpackFolder) -> Iterator[str]:
    if os.path.basename(item.file) != item.file or item.file in ("", ".", "..") or "\0" in item.file:
        yield f"{item.file!r} is no name of a file beside the manifest"
        return
    path = os.path.realpath(os.path.join(here, item.file))
    archive = folder.archives.get(path)
    if archive is None:
        there = "is no archive that can be read" if os.path.lexists(os.path.join(here, item.file)) else "does not exist"
        yield f"{folder.shown(os.path.join(here, item.file))} {there}"
        return
    if item.size is not None and item.size != archive.size:
        yield f"{folder.shown(path)} has {archive.size} bytes, and the manifest says {item.size}"
    count = sum(arch == item.arch for _, arch in archive.objects)
    if item.kernel_count is not None and item.kernel_count != count:
        yield f"{folder.shown(path)} has {count} code objects for it, and the manifest says {item.kernel_count}"


class FolderReader:
    """A folder that is being read."""

    def __init__(self, path: str) -> None:
        self._name = path
        self._real = os.path.realpath(path)
        self._archives: dict[str, KpackArchive] = {}
        self._programs: list[KpackProgram] = []
        self._manifests: list[FoundManifest] = []
        self._findings: list[Finding] = []
        self._files = self._skipped = self._links = self._special = 0

    def add(self, path: str) -> None:
        """Read one file more, which may lie elsewhere: an archive that is looked into for every program."""
        self._read(os.path.realpath(path))

    def whole(self) -> KpackFolder:
        """Read all that is in the folder. Raises OSError if that is no folder that can be read."""
        with os.scandir(self._name):
            pass
        walk = TreeWalk([self._real], passes=True)
        for place in walk:
            if place.problem:
                self._findings.append(self._finding(place.path, place.problem))
            else:
                self._read(place.path)
        self._skipped, self._links, self._special = walk.passed, walk.links, walk.special
        return self.folder()

    def folder(self) -> KpackFolder:
        """Return what was read so far."""
        return KpackFolder(
            self._name,
            self._real,
            tuple(self._programs),
            self._archives,
            tuple(self._manifests),
            self._files,
            self._skipped,
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
        return display_path(path, self._name, self._real)

    def _unreadable(self, path: str, error: OSError | FatpackError) -> None:
        words = error.problem if isinstance(error, FatpackError) else error.strerror or str(error)
        self._findings.append(self._finding(path, words))

    def _finding(self, path: str, problem: str) -> Finding:
        return finding("FP3109", Span(0, 0, (VirtualName(self._shown(path)),)), f"cannot be read: {problem}")


# The check of a folder: every marker of every program, on every device, leads to code that the device can run.


class LoaderSettings(Record):
    """The request: devices (none: all for which there are archives), and archives that replace the archives of the
    programs' search paths (``ROCM_KPACK_PATH``). With ``newer_only`` loaders before rocm-systems#9874 do not count.
    """

    devices: tuple[str, ...] = ()
    newer_only: bool = False
    paths: tuple[str, ...] = ()


class KpackReport(Record):
    """Result: the folder, the devices, and the code objects that each program gets on each device."""

    folder: KpackFolder
    devices: tuple[str, ...]
    outcomes: tuple[LookupResult, ...]
    findings: tuple[Finding, ...]


def check_folder(path: str, settings: LoaderSettings) -> KpackReport:
    """Check a folder. Raises OSError if it cannot be read, and TargetError for a device that is none.

    Fails closed: whatever cannot be read is a finding of its own, an error.
    """
    reading = FolderReader(path)
    folder = reading.whole()
    for extra in settings.paths:
        reading.add(extra)
    folder = reading.folder()
    archives = tuple(folder.archives.values())
    asked = (
        lookup.resolve_devices(settings.devices, archives) if settings.devices else lookup.devices_in_archives(archives)
    )
    found = list(folder.findings)
    if not folder.programs:
        text = f"no program looks for kpack archives among {pluralize(folder.files, 'file')}"
        found.append(
            finding(
                "FP3110", Span(0, 0, (VirtualName(path),)), text, "name the folder that holds programs and archives"
            )
        )
    override = [folder.archives[real] for real in map(os.path.realpath, settings.paths) if real in folder.archives]
    outcomes: list[LookupResult] = []
    for program in folder.programs:
        found += findings.unread_path_findings(program)
        groups = list(_groups(program))
        for device in asked or ("",):
            shelves = [
                KernelArchives((), tuple(override), markers)
                if override
                else KernelArchives(where, tuple(_found(where, folder, device)), markers)
                for where, markers in groups
            ]
            result = look_up(program, device, shelves)
            outcomes.append(result)
            found += findings.missing_code_findings(result, folder)
            if not settings.newer_only:
                found += findings.older_loader_findings(result, folder)
    for listing in folder.manifests:
        found += manifest_differences(listing, folder)
    return KpackReport(folder, asked, tuple(outcomes), tuple(found))


def _groups(program: KpackProgram) -> Iterator[tuple[tuple[SearchPath, ...], tuple[KpackMarker, ...]]]:
    """Yield the places that markers of a program name, and the markers that name them."""
    groups: dict[tuple[str, ...], list[KpackMarker]] = {}
    for marker in program.markers:
        groups.setdefault(marker.reference.search_paths, []).append(marker)
    for given, markers in groups.items():
        where = [lookup.resolve_search_path(program.path, path) for path in given[: lookup.MAX_SEARCH_PATHS]]
        yield tuple(place for place in where if place is not None), tuple(markers)


def _found(where: Sequence[SearchPath], folder: KpackFolder, device: str) -> list[KpackArchive]:
    return lookup.find_archives(where, folder.archives, device) if device else []
