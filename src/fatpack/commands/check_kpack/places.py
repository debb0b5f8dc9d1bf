"""Where a program looks for its archives: its search paths on this disk, and what there is."""

from __future__ import annotations

import os

from fatpack.record import Record
from fatpack.targets.selection.kpack import PLACEHOLDER, expand_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fatpack.commands.check_kpack.facts import KpackArchive

#: LIMIT: search paths of one program that are looked at. rocm_kpack writes one.
MAX_SEARCH_PATHS = 64


class SearchPath(Record):
    """A search path: as it is stored, and where it leads on this disk, with links resolved; the placeholder stays."""

    given: str
    path: str

    @property
    def folder(self) -> str:
        """The folder in which the archives should be."""
        return os.path.dirname(self.path.partition(PLACEHOLDER)[0] + "x")

    def arch_of(self, path: str) -> str | None:
        """Return what stands in a path for the placeholder, None if it is no archive of this place."""
        before, mark, after = self.path.partition(PLACEHOLDER)
        if not mark:
            return "" if path == self.path else None
        if len(path) <= len(before) + len(after) or not (path.startswith(before) and path.endswith(after)):
            return None
        middle = path[len(before) : len(path) - len(after)]
        return None if os.sep in middle else middle


def resolve_search_path(program: str, given: str) -> SearchPath | None:
    """Return where a search path of a program leads; None for one that no file system has.

    Paths are relative to the program that is loaded: ``program`` is its path with links resolved.
    """
    if "\0" in given:
        return None
    if os.path.isabs(given):
        return SearchPath(given, given)
    return SearchPath(given, os.path.realpath(os.path.join(os.path.dirname(program), given)))


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
