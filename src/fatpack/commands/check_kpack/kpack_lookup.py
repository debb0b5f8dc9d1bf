"""Which code objects a program gets on a device, and from where, by the loader's rules."""

from __future__ import annotations

from fatpack.record import Record
from fatpack.targets.compatibility import can_serve_hip
from fatpack.targets.selection.kpack import candidate_archives, requested_target_ids, select_kpack_archive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fatpack.commands.check_kpack.facts import KpackArchive, KpackCodeObject, KpackProgram, Name
    from fatpack.commands.check_kpack.places import SearchPath
    from fatpack.registration.kpack_marker import KpackMarker


class KernelArchives(Record):
    """The markers of a program that name the same places, and the archives that are found there for a device."""

    places: tuple[SearchPath, ...]
    archives: tuple[KpackArchive, ...]
    markers: tuple[KpackMarker, ...]


class WrongCodeObject(Record):
    """A code object that a device gets and cannot run: the marker, its archive, and the reason."""

    marker: KpackMarker
    archive: KpackArchive
    code: KpackCodeObject
    reason: str


class LookupResult(Record):
    """What a program gets on a device.

    ``resolved`` is how many of its markers lead to a code object, ``missing`` are the others. ``older`` are those that
    only the newer loader resolves, with the position on their shelf of the archive that decides for the older one.
    ``used`` are the archives that code objects come from, ``wrong`` the code objects that the device cannot run.
    """

    program: KpackProgram
    device: str
    shelves: tuple[KernelArchives, ...]
    resolved: int
    missing: tuple[tuple[KernelArchives, KpackMarker], ...]
    older: tuple[tuple[KernelArchives, KpackMarker, int], ...]
    used: tuple[KpackArchive, ...]
    wrong: tuple[WrongCodeObject, ...]

    @property
    def is_whole(self) -> bool:
        """Whether every marker leads to a code object that the device can run."""
        return not self.missing and not self.wrong


def look_up(program: KpackProgram, device: str, shelves: Sequence[KernelArchives]) -> LookupResult:
    """Return what a program gets on a device from the archives of its shelves."""
    resolved = 0
    missing: list[tuple[KernelArchives, KpackMarker]] = []
    older: list[tuple[KernelArchives, KpackMarker, int]] = []
    used: dict[str, KpackArchive] = {}
    wrong: list[WrongCodeObject] = []
    verdicts: dict[str, str] = {}
    for shelf in shelves:
        order = candidate_archives([archive.archs for archive in shelf.archives], device) if device else []
        held = [archive.objects for archive in shelf.archives]
        for marker in shelf.markers:
            key = marker.key

            def holds(number: int, arch: str, key: str = key, held: Sequence[Mapping[Name, object]] = held) -> bool:
                return (key, arch) in held[number]

            taken = select_kpack_archive(order, holds)
            if taken.image is None:
                missing.append((shelf, marker))
                continue
            resolved += 1
            archive = shelf.archives[taken.image]
            used[archive.path] = archive
            code = archive.objects[key, taken.arch]
            reason = verdicts.get(code.claims)
            if reason is None:
                reason = verdicts[code.claims] = _cannot_run(code.claims, device)
            if reason:
                wrong.append(WrongCodeObject(marker, archive, code, reason))
            first = select_kpack_archive(order, holds, tries_all=False)
            if first.outcome == "fails" and first.image is not None:
                older.append((shelf, marker, first.image))
    return LookupResult(
        program, device, tuple(shelves), resolved, tuple(missing), tuple(older), tuple(used.values()), tuple(wrong)
    )


def _cannot_run(claims: str, device: str) -> str:
    """Return why a device cannot run code for a target ID, "" if it can, or if the code does not say what it is for."""
    if not claims:
        return ""
    verdicts = [can_serve_hip(claims, name) for name in requested_target_ids(device)]
    return "" if any(verdict.answer for verdict in verdicts) else verdicts[0].reason
