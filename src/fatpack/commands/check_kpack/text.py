"""JSON and text of ``check-kpack``.

The record is ``kpack`` in a document of ``fatpack.check/1``; ``schemas/check.schema.json`` describes it.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.printable import printable
from fatpack.text.findings import FindingList, finding_lines_by_file, finding_record, unlisted_records
from fatpack.text.style import align_columns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import NotRequired, TypedDict

    from fatpack.commands.check_kpack.lookup import KpackFolder, KpackProgram, LookupResult
    from fatpack.commands.check_kpack.run import KpackReport
    from fatpack.registration.kpack_marker import KpackMarker
    from fatpack.text.findings import FindingRecord, UnlistedRecord

    class MarkerNames(TypedDict):
        """The names of a program in kpack archives, and the paths at which it looks for them."""

        names: list[str]
        search_paths: list[str]

    class LookupRecord(TypedDict):
        """The code objects that a program gets from kpack archives on one device."""

        device: str
        resolved: int
        missing: list[str]
        missing_count: int
        only_newer: int
        wrong: int
        archives: list[str]

    class ProgramRecord(MarkerNames):
        """A program with markers of code in kpack archives, and what it gets on each device."""

        path: str
        markers: int
        devices: list[LookupRecord]

    class ArchiveRecord(TypedDict):
        """A kpack archive."""

        path: str
        size: int
        archs: list[str]
        objects: int

    class KpackManifestRecord(TypedDict):
        """A manifest, and the architectures for which it names archives."""

        path: str
        component: str
        prefix: str
        archs: list[str]

    class KpackFolderRecord(TypedDict):
        """The result for a folder."""

        folder: str
        devices: list[str]
        files: int
        passed_by: int
        links: int
        special: int
        environment: list[str]
        programs: list[ProgramRecord]
        archives: list[ArchiveRecord]
        manifests: list[KpackManifestRecord]

    class KpackDocument(TypedDict):
        """The document of ``check-kpack``."""

        schema: str
        kpack: KpackFolderRecord
        findings: list[FindingRecord]
        unlisted_findings: NotRequired[list[UnlistedRecord]]


# The code objects that programs get from kpack archives, as plain data, for ``inspect`` and ``check``.

#: Names of missing code objects that are shown; the number counts all of them.
_NAMED = 100


def marker_names(markers: Sequence[KpackMarker]) -> MarkerNames:
    """Return what a program is called in archives, and where it looks for them, each once."""
    return {
        "names": list(dict.fromkeys(marker.reference.kernel_name for marker in markers)),
        "search_paths": list(dict.fromkeys(path for marker in markers for path in marker.reference.search_paths)),
    }


def lookup_records(outcomes: Iterable[LookupResult], shown: Callable[[str], str]) -> list[LookupRecord]:
    """Return what a program gets on each device; ``shown`` is how paths are written."""
    return [
        {
            "device": each.device,
            "resolved": each.resolved,
            "missing": [marker.key for _, marker in each.missing[:_NAMED]],
            "missing_count": len(each.missing),
            "only_newer": len(each.older),
            "wrong": len(each.wrong),
            "archives": [shown(archive.path) for archive in each.used],
        }
        for each in outcomes
        if each.device
    ]


SCHEMA = "fatpack.check/1"

#: archives that a line names
_ARCHIVES_SHOWN = 4


def kpack_record(checked: KpackReport, environment: Sequence[str]) -> KpackDocument:
    """Return the document of a check: what was found, and the findings. ``environment`` are variables that are set."""
    folder = checked.folder
    found = FindingList()
    found.extend(checked.findings)
    unlisted = unlisted_records(found)
    by_program: dict[str, list[LookupResult]] = {}
    for each in checked.outcomes:
        by_program.setdefault(each.program.path, []).append(each)
    document: KpackDocument = {
        "schema": SCHEMA,
        "kpack": {
            "folder": folder.name,
            "devices": list(checked.devices),
            "files": folder.files,
            "passed_by": folder.skipped,
            "links": folder.links,
            "special": folder.special,
            "environment": list(environment),
            "programs": [_program(item, by_program.get(item.path, ()), folder) for item in folder.programs],
            "archives": [
                {
                    "path": folder.shown(item.path),
                    "size": item.size,
                    "archs": list(item.archs),
                    "objects": len(item.objects),
                }
                for item in folder.archives.values()
            ],
            "manifests": [
                {
                    "path": folder.shown(item.path),
                    "component": item.manifest.component,
                    "prefix": item.manifest.prefix,
                    "archs": [each.arch for each in item.manifest.files],
                }
                for item in folder.manifests
            ],
        },
        "findings": [finding_record(item) for item in found.kept],
    }
    if unlisted:
        document["unlisted_findings"] = unlisted
    return document


def _program(program: KpackProgram, outcomes: Sequence[LookupResult], folder: KpackFolder) -> ProgramRecord:
    return {
        "path": folder.shown(program.path),
        **marker_names(program.markers),
        "markers": len(program.markers),
        "devices": lookup_records(outcomes, folder.shown),
    }


def render_kpack(document: KpackDocument, *, verbose: int = 0) -> Iterator[str]:
    """Yield the lines of a document; ``verbose`` adds what each program gets, and from where."""
    check = document["kpack"]
    programs, archives, manifests = check["programs"], check["archives"], check["manifests"]
    markers = sum(each["markers"] for each in programs)
    held = sum(each["objects"] for each in archives)
    facts = [
        f"{pluralize(len(programs), 'program')} with {pluralize(markers, 'marker')}",
        f"{pluralize(len(archives), 'archive')} with {pluralize(held, 'code object')}",
        *([pluralize(len(manifests), "manifest")] if manifests else []),
    ]
    yield printable(f"{check['folder']}: {', '.join(facts)}")
    yield from align_columns([_device(device, programs, markers) for device in check["devices"]], indent="  ")
    if verbose:
        for each in programs:
            yield from _program_lines(each)
    for name in check["environment"]:
        yield f"  {name} is set: the runtime minds it, and this check does not"
    yield "  " + _looked_at(check)
    unlisted = document.get("unlisted_findings", ())
    yield from finding_lines_by_file(document["findings"], unlisted, "  ", verbose=verbose)


def _device(device: str, programs: Sequence[ProgramRecord], markers: int) -> list[str]:
    rows = [row for each in programs for row in each["devices"] if row["device"] == device]
    resolved = sum(row["resolved"] for row in rows)
    notes = [
        f"{count} {words}"
        for count, words in (
            (sum(row["missing_count"] for row in rows), "missing"),
            (sum(row["only_newer"] for row in rows), "not found by loaders before rocm-systems#9874"),
            (sum(row["wrong"] for row in rows), "not for it"),
        )
        if count
    ]
    return [device, f"{resolved} of {pluralize(markers, 'code object')} found", ", ".join(notes)]


def _program_lines(program: ProgramRecord) -> Iterator[str]:
    yield printable(
        f"  {program['path']}: {pluralize(program['markers'], 'marker')} of {', '.join(program['names'])}, looks for "
        f"{', '.join(program['search_paths'])}"
    )
    rows = []
    for row in program["devices"]:
        names = row["archives"][:_ARCHIVES_SHOWN]
        more = [f"{len(row['archives']) - len(names)} more"] if len(row["archives"]) > len(names) else []
        sources = f"from {', '.join([*names, *more])}" if names else "from no archive"
        rows.append([printable(row["device"]), f"{row['resolved']} of {program['markers']}", printable(sources)])
    yield from align_columns(rows, indent="    ")


def _looked_at(check: KpackFolderRecord) -> str:
    parts = [
        f"{pluralize(check['files'], 'file')} looked at",
        *([f"{check['passed_by']} passed by because of their names"] if check["passed_by"] else []),
        *([f"{pluralize(check['links'], 'link')} not followed"] if check["links"] else []),
        *([f"{check['special']} neither files nor folders"] if check["special"] else []),
    ]
    return ", ".join(parts)
