"""The check of a folder: every marker of every program, on every device, leads to code that the device can run."""

from __future__ import annotations

import os

from fatpack.commands.check_kpack import devices, findings, manifests, places
from fatpack.commands.check_kpack.kpack_lookup import KernelArchives, look_up
from fatpack.commands.check_kpack.run import FolderReader
from fatpack.errors import pluralize
from fatpack.findings import finding
from fatpack.io.source import Span, VirtualName
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.check_kpack.facts import KpackArchive, KpackFolder, KpackProgram
    from fatpack.commands.check_kpack.kpack_lookup import LookupResult
    from fatpack.commands.check_kpack.places import SearchPath
    from fatpack.model import Finding
    from fatpack.registration.kpack_marker import KpackMarker


class LoaderSettings(Record):
    """What is asked for: devices (none: all for which there are archives), and archives that replace those of the
    programs' search paths (``ROCM_KPACK_PATH``). With ``newer_only`` loaders before rocm-systems#9874 do not count.
    """

    devices: tuple[str, ...] = ()
    newer_only: bool = False
    paths: tuple[str, ...] = ()


class KpackReport(Record):
    """What was found: the folder, the devices that were asked about, and what each program gets on each of them."""

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
        devices.resolve_devices(settings.devices, archives)
        if settings.devices
        else devices.devices_in_archives(archives)
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
        found += manifests.manifest_differences(listing, folder)
    return KpackReport(folder, asked, tuple(outcomes), tuple(found))


def _groups(program: KpackProgram) -> Iterator[tuple[tuple[SearchPath, ...], tuple[KpackMarker, ...]]]:
    """Yield the places that markers of a program name, and the markers that name them."""
    groups: dict[tuple[str, ...], list[KpackMarker]] = {}
    for marker in program.markers:
        groups.setdefault(marker.reference.search_paths, []).append(marker)
    for given, markers in groups.items():
        where = [places.resolve_search_path(program.path, path) for path in given[: places.MAX_SEARCH_PATHS]]
        yield tuple(place for place in where if place is not None), tuple(markers)


def _found(where: Sequence[SearchPath], folder: KpackFolder, device: str) -> list[KpackArchive]:
    return places.find_archives(where, folder.archives, device) if device else []
