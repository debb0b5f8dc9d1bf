"""Findings about programs that do not get their code objects: the cause, the place, and the fix."""

from __future__ import annotations

import os

from fatpack.commands.check_kpack import lookup
from fatpack.errors import pluralize
from fatpack.findings import finding
from fatpack.record import Record
from fatpack.targets.selection.amd import PLACEHOLDER, requested_target_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.check_kpack.lookup import (
        KernelArchives,
        KpackArchive,
        KpackFolder,
        KpackProgram,
        LookupResult,
        SearchPath,
    )
    from fatpack.model import Finding
    from fatpack.registration.kpack_marker import KpackMarker

#: code objects and archives that a finding names
_NAMED = 3


class MissingCodeReason(Record):
    """Why a place has nothing for a device: how near it came (the largest number counts), code, message, advice."""

    nearness: int
    code: str
    message: str
    hint: str


def missing_code_findings(outcome: LookupResult, folder: KpackFolder) -> Iterator[Finding]:
    """Yield what is wrong with what a program gets on a device."""
    # Markers with the same search paths share one object of archives; comparing all of its archives would be slow.
    missing: dict[int, tuple[KernelArchives, list[KpackMarker]]] = {}
    for shelf, marker in outcome.missing:
        missing.setdefault(id(shelf), (shelf, []))[1].append(marker)
    for shelf, markers in missing.values():
        reason = _reason(shelf, markers, outcome, folder)
        yield finding(reason.code, markers[0].reference.span, reason.message, reason.hint)
    for item in outcome.wrong[:_NAMED]:
        text = f"{item.marker.key}: {outcome.device} gets code for {item.code.claims}: {item.reason}"
        yield finding("FP3107", item.code.span, text, "the device cannot run it: pack the archive again")
    if len(outcome.wrong) > _NAMED:
        item = outcome.wrong[_NAMED]
        more = len(outcome.wrong) - _NAMED
        text = f"{pluralize(more, 'more code object')} that {outcome.device} gets {_is(more)} not for it"
        yield finding("FP3107", item.code.span, text)


def older_loader_findings(outcome: LookupResult, folder: KpackFolder) -> Iterator[Finding]:
    """Yield what the older loader does not find, where the newer does: one finding for each archive that decides."""
    groups: dict[str, tuple[KpackArchive, list[KpackMarker]]] = {}
    for shelf, marker, number in outcome.older:
        archive = shelf.archives[number]
        groups.setdefault(archive.path, (archive, []))[1].append(marker)
    for archive, markers in groups.values():
        empty = "" if archive.objects else "is empty, "
        count = f"{len(markers)} of {pluralize(len(outcome.program.markers), 'code object')}"
        text = (
            f"{outcome.device}: {folder.shown(archive.path)} {empty}lists the device and comes first, so loaders "
            f"before rocm-systems#9874 do not find {count}, which it lacks: {_keys(markers)}"
        )
        hint = "take a runtime that has the fix, or remove this archive where the others hold all of its code"
        yield finding("FP3105", markers[0].reference.span, text, hint)


def _reason(
    shelf: KernelArchives, markers: Sequence[KpackMarker], outcome: LookupResult, folder: KpackFolder
) -> MissingCodeReason:
    """Return why markers that name the same places lead to nothing."""
    listing = [archive for archive in shelf.archives if _lists(archive, outcome.device)]
    if listing:
        held = ", ".join(f"{folder.shown(item.path)}{'' if item.objects else ' (empty)'}" for item in listing[:_NAMED])
        count = f"{len(markers)} of {pluralize(len(outcome.program.markers), 'code object')}"
        text = f"{count} {_is(len(markers))} in none of the archives that list it: {_keys(markers)}; looked into {held}"
        text = f"{outcome.device}: {text}"
        hint = "install all packages of one build: those of the family hold what those of one device do not"
        return MissingCodeReason(9, "FP3104", text, hint)
    if not shelf.places:
        given = markers[0].reference.search_paths[0]
        text = f"no file system has the path {given!r}"
        if shelf.archives:
            text = f"{outcome.device}: none of the archives that are taken in the place of others lists it"
        return MissingCodeReason(0, "FP3102", text, "" if shelf.archives else "split the program again")
    reasons = [_of_place(place, outcome, folder) for place in shelf.places]
    return max(reasons, key=lambda reason: reason.nearness)


def _of_place(place: SearchPath, outcome: LookupResult, folder: KpackFolder) -> MissingCodeReason:
    for_device = f"{outcome.device}: " if outcome.device else ""
    if not lookup.is_inside(place.path, folder.path):
        text = f"{for_device}{place.stored_path} leads out of the folder, to {place.folder}"
        return MissingCodeReason(0, "FP3106", text, "check the folder that holds both the program and its archives")
    there, name = lookup.archs_in_path(place, folder.archives), os.path.basename(place.path)
    if there and PLACEHOLDER not in place.path:
        text = f"{for_device}{folder.shown(place.path)} does not list the device"
        return MissingCodeReason(4, "FP3103", text, _advice(outcome.device))
    if there:
        named = ", ".join(there)
        text = f"{for_device}in {folder.shown(place.folder)} is no {name} for it, only for {named}"
        own = [each for each in requested_target_ids(outcome.device) if each in there]
        if own:
            text = f"{for_device}{name} in {folder.shown(place.folder)} is for {own[0]}, and does not list it"
        return MissingCodeReason(4, "FP3103", text, _advice(outcome.device))
    if not os.path.isdir(place.folder):
        text = f"the folder {folder.shown(place.folder)} of {place.stored_path} does not exist"
        return MissingCodeReason(1, "FP3101", text, _elsewhere(place, folder))
    if place.path.endswith(".kpm"):
        text = f"{place.stored_path} names a manifest, which loaders since February of 2026 do not read"
        return MissingCodeReason(3, "FP3102", text, "install program and runtime of one release")
    text = f"no archive in {folder.shown(place.folder)} is called {name}, whatever the device"
    return MissingCodeReason(2, "FP3102", text, _elsewhere(place, folder))


def _elsewhere(place: SearchPath, folder: KpackFolder) -> str:
    """Return what to do about archives that are not where a program looks: they may be somewhere else."""
    name = lookup.SearchPath("", os.path.join(os.sep, os.path.basename(place.path)))
    others = sorted(
        {os.path.dirname(path) for path in folder.archives if name.arch_of(os.sep + os.path.basename(path)) is not None}
    )
    if others:
        where = ", ".join(map(folder.shown, others[:_NAMED]))
        return f"such archives are in {where}: install packages of one build"
    return "install the package that brings these archives"


def _advice(device: str) -> str:
    return f"install the package of device code for {device.partition(':')[0]}, or choose a device that is there"


def _lists(archive: KpackArchive, device: str) -> bool:
    from fatpack.targets.selection.amd import candidate_archives

    return bool(device) and bool(candidate_archives([archive.archs], device))


def _keys(markers: Sequence[KpackMarker]) -> str:
    more = f" and {len(markers) - _NAMED} more" if len(markers) > _NAMED else ""
    return ", ".join(marker.key for marker in markers[:_NAMED]) + more


def _is(number: int) -> str:
    return "is" if number == 1 else "are"


def unread_path_findings(program: KpackProgram) -> Iterator[Finding]:
    """Yield a finding where a program names more places than are looked at."""
    for reference in dict.fromkeys(marker.reference for marker in program.markers):
        if len(reference.search_paths) > lookup.MAX_SEARCH_PATHS:
            text = f"{len(reference.search_paths)} search paths; only the first {lookup.MAX_SEARCH_PATHS} are looked at"
            yield finding("FP1005", reference.span, text)
