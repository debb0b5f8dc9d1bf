"""Lookup of a program's code objects in kpack archives. Reads only the tables of archives with matching names."""

from __future__ import annotations

import os
import stat
from itertools import product

from fatpack import binary, formats, images, limits
from fatpack.binary.pointers import HOSTS
from fatpack.errors import FatpackError, FormatError, Unsupported, pluralize
from fatpack.findings import FindingTally, finding
from fatpack.formats.kpack.layout import KPACK_FORMAT, KpackEntry, KpackHeader
from fatpack.images.container_mismatch import arch_contradiction
from fatpack.io.open import open_source
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.registration import records
from fatpack.scanner.results import finding_from_error
from fatpack.targets.compatibility import can_serve_hip
from fatpack.targets.selection.amd import (
    PLACEHOLDER,
    candidate_archives,
    expand_path,
    requested_target_ids,
    select_kpack_archive,
)
from fatpack.targets.vocabulary import check_target_id, feature_signs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.formats.kpack.manifest import KpackManifest
    from fatpack.images import ImageInfo
    from fatpack.io.source import Span, View
    from fatpack.model import Image
    from fatpack.registration.kpack_marker import KpackMarker

    #: name of a code object (``lib/libx.so#0``), and the architecture for which an archive has it
    Name: TypeAlias = tuple[str, str]


# The devices to check: those given by the user, or all for which there are archives.
#
# A device reports every feature that its processor has; a name without a feature means both settings of it. So a name
# becomes one device for each setting of the features that the archives or code objects distinguish. The other
# features change no answer.

#: LIMIT: features of a processor that are distinguished: processors have two.
_MOST_FEATURES = 4


def resolve_devices(names: Sequence[str], archives: Iterable[KpackArchive]) -> tuple[str, ...]:
    """Return the devices of target IDs. Raises TargetError for a name that is not a target ID."""
    told_apart = _told_apart(archives)
    found: dict[str, None] = {}
    for name in names:
        target = check_target_id(name)
        fixed = feature_signs(str(target))
        for device in _settings(target.processor, {*told_apart.get(target.processor, ()), *fixed}, fixed):
            found[device] = None
    return tuple(found)


def devices_in_archives(archives: Sequence[KpackArchive]) -> tuple[str, ...]:
    """Return the devices for which there are archives, each of which one of them lists."""
    told_apart = _told_apart(archives)
    listed: dict[str, list[dict[str, str]]] = {}
    for archive in archives:
        for arch in (*archive.archs, *(arch for _, arch in archive.objects)):
            rows = listed.setdefault(arch.partition(":")[0], [])
            if feature_signs(arch) not in rows:
                rows.append(feature_signs(arch))
    found = []
    for processor in sorted(filter(None, listed), key=_in_order):
        for device in _settings(processor, told_apart.get(processor, ()), {}):
            has = feature_signs(device)
            if any(
                all(has[feature] == sign for feature, sign in row.items() if feature in has)
                for row in listed[processor]
            ):
                found.append(device)
    return tuple(found)


def _told_apart(archives: Iterable[KpackArchive]) -> dict[str, dict[str, None]]:
    """Return processor → features of which a name in an archive, or the header of a code object, states the setting."""
    found: dict[str, dict[str, None]] = {}
    for archive in archives:
        names = {
            *archive.archs,
            *(arch for _, arch in archive.objects),
            *(item.claims for item in archive.objects.values()),
        }
        for name in sorted(names):
            found.setdefault(name.partition(":")[0], {}).update(dict.fromkeys(feature_signs(name)))
    return found


def _settings(processor: str, features: Iterable[str], fixed: dict[str, str]) -> Iterator[str]:
    """Yield a processor with every setting of some features, off first; fixed features have one."""
    ordered = sorted(features)[:_MOST_FEATURES]
    for chosen in product(*(fixed.get(feature, "-+") for feature in ordered)):
        yield ":".join((processor, *(f"{feature}{sign}" for feature, sign in zip(ordered, chosen, strict=True))))


def _in_order(name: str) -> tuple[int, str]:
    """Sort gfx906 in front of gfx1100."""
    return len(name), name


# kpack archives, and the programs that look for them.


class KpackCodeObject(Record):
    """A code object in an archive: its position, and the target ID that its header states ("": none)."""

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
    """Contents of a folder: archives, manifests and programs.

    ``name`` is the path that the user typed, ``path`` the same with links resolved; archives are by their paths.
    ``files`` counts the files that were read, ``skipped`` files skipped by name, ``links`` and ``special`` links, pipes
    and devices, which are not followed. ``findings`` are about the files that were read, or could not be.
    """

    name: str
    path: str
    programs: tuple[KpackProgram, ...]
    archives: Mapping[str, KpackArchive]
    manifests: tuple[FoundManifest, ...]
    files: int
    skipped: int
    links: int
    special: int
    findings: tuple[Finding, ...]

    def shown(self, path: str) -> str:
        """Return how a path is written in reports; see :func:`shown`."""
        return display_path(path, self.name, self.path)


def display_path(path: str, name: str, real: str) -> str:
    """Return a path below the folder ``real`` with the folder's ``name`` in its place."""
    if path == real:
        return name
    return (
        os.path.join(name, path[len(real.rstrip(os.sep)) + 1 :])
        if path.startswith(real.rstrip(os.sep) + os.sep)
        else path
    )


# The code objects that a program gets on a device, and their archives, by the loader's rules.


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
    """Code objects that a program gets on a device.

    ``resolved`` is how many of its markers lead to a code object, ``missing`` are the others. ``older`` are markers
    that only the newer loader resolves, with the position of the archive that decides for the older loader.
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
        """True if every marker leads to a code object that the device can run."""
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


# Bytes → facts: one archive, program or manifest. Damage becomes a finding, and the rest is read.

#: Bytes at the start of a code object that are read: its header says what it is for.
_HEADER = 256

#: LIMIT: markers of one program. The library with most units that is known to us has 845.
_MOST_MARKERS = 1 << 16

TRIPLE = "amdgcn-amd-amdhsa"


def read_archive(view: View, path: str, *, reads_code: bool = True) -> tuple[KpackArchive | None, list[Finding]]:
    """Return the archive that the bytes are, None if it cannot be read, and what is wrong with it.

    Of each code object the first bytes are read, and inflated where it is compressed; without ``reads_code`` no more is
    read than the table of contents.
    """
    try:
        container = formats.get_format(KPACK_FORMAT).parse(view, 0)
    except (FormatError, Unsupported) as error:
        return None, [finding_from_error(error, view.span())]
    found = list(container.findings)
    tally = FindingTally(limits.FINDINGS)
    objects: dict[Name, KpackCodeObject] = {}
    for image in container.images:
        name = image.attrs["binary"], image.target.arch
        if not reads_code:
            objects.setdefault(name, KpackCodeObject("", image.span))
            continue
        try:
            recognised = _recognised(image)
        except (FormatError, Unsupported) as error:
            problem: Finding | None = finding_from_error(error, image.span)
            claims = ""
        else:
            problem = _contradiction(image, recognised)
            claims = recognised.arch if recognised.form == "code-object" else ""
        if problem is not None and tally.keeps(problem):
            found.append(problem)
        # The loader takes the first of two equal names.
        objects.setdefault(name, KpackCodeObject(claims, image.span))
    found += tally.rest()
    assert isinstance(container.record, KpackHeader)  # the room has read it
    return KpackArchive(path, len(view), container.record.archs, objects), found


def _recognised(image: Image) -> ImageInfo:
    """Return what a code object is, by its first bytes. Raises FormatError if it does not inflate."""
    from fatpack.io.source import BytesSource

    if image.compression is None or not isinstance(image.record, KpackEntry):
        head = image.data.head(0, _HEADER)
    else:
        from fatpack.codecs import inflate_beginning

        head = inflate_beginning(image.record.stored, _HEADER, method=image.compression, format=KPACK_FORMAT)
    return images.identify_image(BytesSource(head).view())


def _contradiction(image: Image, recognised: ImageInfo) -> Finding | None:
    """Return the finding that a code object is not what its archive says."""
    binary, arch = image.attrs["binary"], image.target.arch
    hint = "the runtime hands it to such a device, which cannot run it: pack the archive again"
    if recognised.form != "code-object":
        what = recognised.form or "of unknown form"
        return finding("FP3107", image.span, f"{binary} for {arch} is no code object but {what}", hint)
    if arch_contradiction(arch, TRIPLE, recognised):
        text = f"{binary} is listed for {arch}, and its header says {recognised.arch}"
        return finding("FP3107", image.span, text, hint)
    return None


def read_program_markers(view: View, host: str) -> Iterator[KpackMarker | Finding]:
    """Yield the markers of a program, and what is wrong with them; never raises for damaged bytes."""
    count = 0
    try:
        for item in records.kpack_markers(view, host):
            count += not isinstance(item, Finding)
            if count > _MOST_MARKERS:
                text = f"more than {pluralize(_MOST_MARKERS, 'marker')}; the others are not read"
                yield finding("FP1005", view.span(), text)
                return
            yield item
    except (FormatError, Unsupported) as error:
        yield finding_from_error(error, view.span())


def marker_host(view: View) -> str | None:
    """Return the kind of program that the bytes are, if it is one that can have markers."""
    host = binary.detect_host(view)
    return host if host in HOSTS else None


# The search paths of a program on this disk, and the archives that exist there.

#: LIMIT: search paths of one program that are looked at. rocm_kpack writes one.
MAX_SEARCH_PATHS = 64


class SearchPath(Record):
    """A search path: as it is stored, and where it leads on this disk, with links resolved; the placeholder stays."""

    stored_path: str
    path: str

    @property
    def folder(self) -> str:
        """The folder in which the archives should be."""
        return os.path.dirname(self.path.partition(PLACEHOLDER)[0] + "x")

    def arch_of(self, path: str) -> str | None:
        """Return the part of a path at the placeholder, None if it is not an archive of this place."""
        before, mark, after = self.path.partition(PLACEHOLDER)
        if not mark:
            return "" if path == self.path else None
        if len(path) <= len(before) + len(after) or not (path.startswith(before) and path.endswith(after)):
            return None
        middle = path[len(before) : len(path) - len(after)]
        return None if os.sep in middle else middle


def resolve_search_path(program: str, stored_path: str) -> SearchPath | None:
    """Return where a search path of a program leads; None for one that no file system has.

    Paths are relative to the program that is loaded: ``program`` is its path with links resolved.
    """
    if "\0" in stored_path:
        return None
    if os.path.isabs(stored_path):
        return SearchPath(stored_path, stored_path)
    return SearchPath(stored_path, os.path.realpath(os.path.join(os.path.dirname(program), stored_path)))


def is_inside(path: str, folder: str) -> bool:
    """Return whether a path is below a folder; both have their links resolved."""
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def find_archives(
    places: Sequence[SearchPath], archives: Mapping[str, KpackArchive], device: str
) -> list[KpackArchive]:
    """Return the archives that a program finds for a device, in the order in which it looks for them."""
    paths = dict.fromkeys(os.path.realpath(path) for place in places for path in expand_path(place.path, device))
    return [archives[path] for path in paths if path in archives]


def archs_in_path(place: SearchPath, archives: Iterable[str]) -> list[str]:
    """Return for which architectures there are archives at a place, by their names."""
    return sorted(arch for path in archives if (arch := place.arch_of(path)) is not None)


#: LIMIT: archives that are read beside one program. There are some forty processors.
_MOST_ARCHIVES = 256

_SUFFIX = ".kpack"


class SiblingArchives(Record):
    """The archives beside a program.

    ``archives`` are those at its places, ``outcomes`` what it gets on each device for which they are. ``problems`` say
    of a place why nothing, or not all, is known: they go with its search path as it is stored.
    """

    archives: tuple[KpackArchive, ...]
    outcomes: tuple[LookupResult, ...]
    problems: tuple[tuple[str, str], ...]


def find_siblings(path: str, markers: Sequence[KpackMarker]) -> SiblingArchives:
    """Return what a program finds beside it; never raises for what is there.

    Only search paths that are relative are followed, and only to files named ``.kpack``.
    """
    program = KpackProgram(os.path.realpath(path), tuple(markers))
    groups: dict[tuple[str, ...], list[KpackMarker]] = {}
    for marker in markers:
        groups.setdefault(marker.reference.search_paths, []).append(marker)
    archives: dict[str, KpackArchive] = {}
    problems: dict[str, str] = {}
    where: dict[tuple[str, ...], tuple[SearchPath, ...]] = {}
    for given in groups:
        found = []
        for text in given[:MAX_SEARCH_PATHS]:
            place = resolve_search_path(program.path, text)
            if place is None or os.path.isabs(text):
                problems[text] = "it is not relative to the program, and was not followed"
                continue
            found.append(place)
            problem = _read_archives(place, archives)
            if problem:
                problems[text] = problem
        if len(given) > MAX_SEARCH_PATHS:
            problems[given[MAX_SEARCH_PATHS]] = f"this path and those after it: only {MAX_SEARCH_PATHS} are followed"
        where[given] = tuple(found)
    outcomes = []
    for device in devices_in_archives(tuple(archives.values())):
        shelves = [
            KernelArchives(where[given], tuple(find_archives(where[given], archives, device)), tuple(those))
            for given, those in groups.items()
        ]
        outcomes.append(look_up(program, device, shelves))
    return SiblingArchives(tuple(archives.values()), tuple(outcomes), tuple(problems.items()))


def _read_archives(place: SearchPath, archives: dict[str, KpackArchive]) -> str:
    """Take up the archives at a place; return why there are none, or not all of them."""
    problem, count = "", 0
    try:
        for path in _candidates(place):
            if len(archives) >= _MOST_ARCHIVES:
                return f"only {_MOST_ARCHIVES} archives are read"
            if not stat.S_ISREG(os.stat(path).st_mode):
                continue
            count += 1
            real = os.path.realpath(path)
            if real in archives:
                continue
            with open_source(path) as source:
                archive, found = read_archive(source.view(), real, reads_code=False)
            if archive is not None:
                archives[real] = archive
            else:
                problem = f"{os.path.basename(path)} cannot be read: {found[0].message}"
    except OSError as error:
        if isinstance(error, (FileNotFoundError, NotADirectoryError)):
            return f"{error.filename or place.folder} does not exist"
        return f"{error.filename or place.folder} cannot be read: {error.strerror or error}"
    except FatpackError as error:
        return error.problem
    return problem or ("" if count else f"no such archive is in {place.folder}")


def _candidates(place: SearchPath) -> Iterator[str]:
    """Yield the paths of files that a place may mean. Raises OSError if its folder cannot be read."""
    if PLACEHOLDER not in place.path:
        if place.path.endswith(_SUFFIX):
            yield place.path
        return
    with os.scandir(place.folder) as entries:
        names = sorted(entry.name for entry in entries if entry.name.endswith(_SUFFIX))
    if PLACEHOLDER in os.path.dirname(place.path):
        return
    for name in names:
        path = os.path.join(place.folder, name)
        if place.arch_of(path) is not None:
            yield path
