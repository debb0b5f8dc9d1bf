"""The check of a folder: every marker of every program, on every device, leads to code that the device can run."""

from __future__ import annotations

import os

from fatpack.answers.kpack import devices, manifests, missing, places
from fatpack.answers.kpack.folder import Reading
from fatpack.answers.kpack.lookup import Shelf, outcome
from fatpack.errors import counted
from fatpack.findings import finding
from fatpack.io.source import Derived, Span
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.answers.kpack.facts import Archive, Folder, Program
    from fatpack.answers.kpack.lookup import Outcome
    from fatpack.answers.kpack.places import SearchPath
    from fatpack.model import Finding
    from fatpack.runtime.registration.kpack import Marker


class LoaderSettings(Record):
    """What is asked for: devices (none: all for which there are archives), and archives that replace those of the
    programs' search paths (``ROCM_KPACK_PATH``). With ``newer_only`` loaders before rocm-systems#9874 do not count.
    """

    devices: tuple[str, ...] = ()
    newer_only: bool = False
    paths: tuple[str, ...] = ()


class Checked(Record):
    """What was found: the folder, the devices that were asked about, and what each program gets on each of them."""

    folder: Folder
    devices: tuple[str, ...]
    outcomes: tuple[Outcome, ...]
    findings: tuple[Finding, ...]


def check(path: str, settings: LoaderSettings) -> Checked:
    """Check a folder. Raises OSError if it cannot be read, and TargetError for a device that is none.

    Fails closed: whatever cannot be read is a finding of its own, an error.
    """
    reading = Reading(path)
    folder = reading.whole()
    for extra in settings.paths:
        reading.add(extra)
    folder = reading.folder()
    archives = tuple(folder.archives.values())
    asked = devices.named(settings.devices, archives) if settings.devices else devices.present(archives)
    found = list(folder.findings)
    if not folder.programs:
        text = f"no program looks for kpack archives among {counted(folder.files, 'file')}"
        found.append(
            finding("FP3110", Span(0, 0, (Derived(path),)), text, "name the folder that holds programs and archives")
        )
    override = [folder.archives[real] for real in map(os.path.realpath, settings.paths) if real in folder.archives]
    outcomes: list[Outcome] = []
    for program in folder.programs:
        found += missing.unread_places(program)
        groups = list(_groups(program))
        for device in asked or ("",):
            shelves = [
                Shelf((), tuple(override), markers)
                if override
                else Shelf(where, tuple(_found(where, folder, device)), markers)
                for where, markers in groups
            ]
            result = outcome(program, device, shelves)
            outcomes.append(result)
            found += missing.of(result, folder)
            if not settings.newer_only:
                found += missing.of_older(result, folder)
    for listing in folder.manifests:
        found += manifests.differences(listing, folder)
    return Checked(folder, asked, tuple(outcomes), tuple(found))


def _groups(program: Program) -> Iterator[tuple[tuple[SearchPath, ...], tuple[Marker, ...]]]:
    """Yield the places that markers of a program name, and the markers that name them."""
    groups: dict[tuple[str, ...], list[Marker]] = {}
    for marker in program.markers:
        groups.setdefault(marker.reference.search_paths, []).append(marker)
    for given, markers in groups.items():
        where = [places.resolved(program.path, path) for path in given[: places.MOST]]
        yield tuple(place for place in where if place is not None), tuple(markers)


def _found(where: Sequence[SearchPath], folder: Folder, device: str) -> list[Archive]:
    return places.found(where, folder.archives, device) if device else []
