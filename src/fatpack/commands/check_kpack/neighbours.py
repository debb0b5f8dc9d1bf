"""What one program finds in the folders beside it: nothing is read but the tables of archives with fitting names."""

from __future__ import annotations

import os
import stat

from fatpack.commands.check_kpack import devices, lookup, places
from fatpack.commands.check_kpack.facts import KpackProgram
from fatpack.commands.check_kpack.kpack_lookup import KernelArchives, look_up
from fatpack.errors import FatpackError
from fatpack.io.open import open_source
from fatpack.record import Record
from fatpack.targets.selection.kpack import PLACEHOLDER

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.check_kpack.facts import KpackArchive
    from fatpack.commands.check_kpack.kpack_lookup import LookupResult
    from fatpack.commands.check_kpack.places import SearchPath
    from fatpack.registration.kpack_marker import KpackMarker

#: LIMIT: archives that are read beside one program. There are some forty processors.
_MOST_ARCHIVES = 256

_SUFFIX = ".kpack"


class SiblingArchives(Record):
    """What is beside a program.

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
        for text in given[: places.MAX_SEARCH_PATHS]:
            place = places.resolve_search_path(program.path, text)
            if place is None or os.path.isabs(text):
                problems[text] = "it is not relative to the program, and was not followed"
                continue
            found.append(place)
            problem = _read_archives(place, archives)
            if problem:
                problems[text] = problem
        if len(given) > places.MAX_SEARCH_PATHS:
            problems[given[places.MAX_SEARCH_PATHS]] = (
                f"this path and those behind it: only {places.MAX_SEARCH_PATHS} are followed"
            )
        where[given] = tuple(found)
    outcomes = []
    for device in devices.devices_in_archives(tuple(archives.values())):
        shelves = [
            KernelArchives(where[given], tuple(places.find_archives(where[given], archives, device)), tuple(those))
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
                archive, found = lookup.read_archive(source.view(), real, reads_code=False)
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
