"""Finding containers: source → stream of what was found. The only place where hosts and formats meet.

:func:`scan` asks the hosts where device code may lie, walks the containers there by their declared sizes, recognises
every image, and looks into images that are containers or hosts themselves. Damage becomes a
:class:`~fatpack.model.Finding` and the walk goes on behind it, so one bad container never hides its neighbours.

Rules the code below obeys:

1. A container whose header is sound is stepped over by its declared size, even when its inside is damaged: a magic
   inside a payload is never taken for a container.
2. Where nothing starts, the next magic is searched from there; every byte is searched once, so everything stays linear.
3. Limits on nesting and on containers bound what a hostile file can make us do, and each says so with an error. No
   number of findings ends a scan: from some number on those of a code are counted.
4. The same bytes are searched alike alone, in a folder and in a package. Programs and libraries are searched where
   device code is kept, in sections whose names say nothing, and in their data, whatever was found. Of objects in which
   nothing was found the data is searched as well, and a file of up to 256 MiB that no host reads to its last byte.
   :attr:`Scan.not_searched` says what was not.
"""

from __future__ import annotations

import sys

from fatpack import limits
from fatpack.findings import finding
from fatpack.model import Finding
from fatpack.scanner.context import (
    SEARCH_ALL,
    SEARCH_ANYWHERE,
    SEARCH_DATA,
    SEARCH_SECTIONS,
    WHOLE_FILE,
    NotSearched,
    detect_host,
    start_scan,
)
from fatpack.scanner.results import FoundContainer, FoundImage, LazyImages, bytes_to_inflate, inflate_image
from fatpack.scanner.scan_host import scan_limited, starts_as_container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fatpack.io.source import View
    from fatpack.registration.analysis.counts import RegistrationCounts

__all__ = [
    "ContainerScan",
    "FoundContainer",
    "FoundImage",
    "LazyImages",
    "NotSearched",
    "bytes_to_inflate",
    "detect_host",
    "inflate_image",
    "scan",
]


def scan(
    view: View,
    *,
    deep: bool = False,
    is_member: bool = False,
    is_thorough: bool = False,
    judges: bool = True,
    recognises: bool = True,
) -> ContainerScan:
    """Return every container in a file, an object, or a bare container, and a finding for everything wrong.

    Sections whose names say nothing are searched for containers too, and the data of programs and libraries also for
    device images in no container. If nothing is found, the data of objects is searched like that, and a file that no
    host reads to its last byte (``limits.SEARCHED``). ``deep`` searches all of every file
    (:mod:`fatpack.scanner.carve`), and
    ``is_thorough`` all of one in which nothing is found; what that finds comes behind the others of its host. A member
    of an archive in which something was found is searched for more only if no room reads it (``is_member`` says that
    the view is one).
    Without ``judges`` it is not asked whether hosts register what they launch. Without ``recognises`` images are not
    looked at: each is what its container says, of the form ``unknown``, and nothing is inside.

    Order is that of the bytes within a host; containers that only records lead to
    (:mod:`fatpack.registration.analysis`) come behind those of its sections. Nothing is read but headers, unless
    something is compressed or searched; of a large compressed bundle its table is inflated, and the rest when its
    images are looked at. Never raises for damaged input: an unreadable host is a finding as well. Raises ``OSError``
    when reading fails.
    """
    return ContainerScan(view, deep, is_member, is_thorough, judges=judges, recognises=recognises)


class ContainerScan:
    """A scan under way: an iterator over what is found, which knows afterwards what was not searched."""

    def __init__(
        self,
        view: View,
        deep: bool,
        is_member: bool,
        is_thorough: bool = False,
        *,
        judges: bool = True,
        recognises: bool = True,
    ) -> None:
        self._is_member, self._is_thorough = is_member, is_thorough
        self._judges, self._recognises = judges, recognises
        self._visit = start_scan(view, SEARCH_ALL if deep else SEARCH_SECTIONS, judges=judges, recognises=recognises)
        if is_member and not deep and self._visit.host == "raw":
            self._visit = self._visit.replace(search=SEARCH_ANYWHERE)
        self._items = self._scan()

    def __iter__(self) -> Iterator[FoundContainer | Finding]:
        return self._items

    def __next__(self) -> FoundContainer | Finding:
        return next(self._items)

    @property
    def not_searched(self) -> tuple[NotSearched, ...]:
        """The bytes of hosts that were not searched so far, by the names of their sections, most bytes first."""
        return self._visit.progress.skipped()

    @property
    def units(self) -> tuple[RegistrationCounts, ...]:
        """What the objects and programs passed so far register, of those about which nothing is wrong in that."""
        return tuple(self._visit.progress.units)

    @property
    def is_outside(self) -> bool:
        """Whether containers were found in places that are not made for them, so that more may be in what is left."""
        return self._visit.progress.is_outside

    @property
    def has_plain_members(self) -> bool:
        """Whether members of archives may have been passed so far in which no container was found."""
        return self._visit.progress.has_plain_members

    def _scan(self) -> Iterator[FoundContainer | Finding]:
        """Yield everything in the file; if that is nothing, search more of it. Findings about the whole come last."""
        waiting: list[Finding] = []
        is_found = self._visit.search == SEARCH_ALL
        models = _OffloadModels()
        for item in scan_limited(self._visit):
            if isinstance(item, FoundContainer):
                models.add(item)
                if not is_found:
                    is_found = True
                    yield from waiting
            elif not is_found:
                waiting.append(item)
                continue
            yield item
        more = None if is_found else self._more()
        if more is not None:
            self._visit = start_scan(self._visit.view, more, judges=self._judges, recognises=self._recognises)
            for item in scan_limited(self._visit):
                models.add(item)
                yield item
        elif not is_found:
            yield from waiting
        yield from models.findings(self._visit.view)
        plugins = sys.modules.get("fatpack.plugins")  # imported only if unknown bytes were met
        for problem in plugins.problems() if plugins else ():
            yield finding("FP1009", self._visit.view.span(0, 0), problem)

    def _more(self) -> int | None:
        """Return how much of a file in which nothing was found is searched next, None for one that was searched."""
        # What starts as a container does was walked to its end, whatever was searched for.
        if self._is_member or starts_as_container(self._visit):
            return None
        if self._is_thorough:
            return SEARCH_ANYWHERE
        if self._visit.host == "raw":
            size = len(self._visit.view)
            if size <= limits.SEARCHED:
                return SEARCH_ANYWHERE
            self._visit.progress.skip(WHOLE_FILE, 1, size)
            return None
        return SEARCH_DATA if self._visit.progress.has_more else None


class _OffloadModels:
    """The members or sections with device code of each of two models, which no link takes together."""

    def __init__(self) -> None:
        self._fat: dict[str, None] = {}
        self._offloading: dict[str, None] = {}

    def add(self, item: FoundContainer | Finding) -> None:
        """Take note of the model of a container."""
        if isinstance(item, Finding):
            return
        if item.container.is_fat_object:
            self._fat[item.member or ""] = None
        elif (item.section or "").startswith(".llvm.offloading"):
            self._offloading[item.member or ""] = None

    def findings(self, view: View) -> Iterator[Finding]:
        """Yield a finding if the file has device code of both models."""
        if self._fat and self._offloading:
            yield _mixed(view, self._fat, self._offloading)


def _mixed(view: View, old: Collection[str], new: Collection[str]) -> Finding:
    """Return the finding that a file holds device code of two models, with the members or sections that do."""

    def named(places: Collection[str]) -> str:
        names = [place for place in places if place][:3]
        more = [f"{len(places) - 3} more"] if len(places) > 3 else []
        return f" ({', '.join([*names, *more])})" if names else ""

    text = f"device code in sections of clang-offload-bundler{named(old)} and in .llvm.offloading{named(new)}"
    return finding("FP3021", view.span(), text, "a link takes one of them and drops the other: compile all in one way")
