"""Find the containers of a file: the only package that knows both hosts and formats.

:func:`scan` asks the host for the places of device code, reads the containers there one after the other, identifies
every image, and scans images that are containers or hosts themselves. Damage becomes a
:class:`~fatpack.model.Finding` and the scan continues after it, so one bad container never hides its neighbours.

The code below keeps these invariants:

1. A container with an intact header is skipped by its declared size, even if its content is damaged: a magic number
   inside a payload is never taken for a container.
2. Where no container starts, the next magic number is searched from there; every byte is searched once, so the scan is
   linear.
3. Limits on nesting and on containers bound the work that a hostile file can cause, and each reports an error. No
   number of findings ends a scan: from some number on, findings of one code are counted.
4. The same bytes are searched alike alone, in a folder and in a package. Programs and libraries are searched where
   device code is kept, in sections of unknown names, and in their data, whatever was found. If nothing was found, the
   data of objects is searched as well, and so is a file of up to 256 MiB that no host reads to its last byte.
   :attr:`ContainerScan.not_searched` lists the rest.
"""

from __future__ import annotations

import sys

from fatpack import limits
from fatpack.binary.section_names import OFFLOADING
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
from fatpack.scanner.results import (
    FoundContainer,
    FoundImage,
    LazyImages,
    bytes_to_inflate,
    has_files,
    inflate_image,
)
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
    "has_files",
    "inflate_image",
    "scan",
]


def scan(
    view: View,
    *,
    deep: bool = False,
    is_member: bool = False,
    is_thorough: bool = False,
    checks_registration: bool = True,
    identifies_images: bool = True,
) -> ContainerScan:
    """Return every container in a file, an object, or a bare container, and a finding for everything wrong.

    Sections of unknown names are searched for containers too, and the data of programs and libraries also for device
    images outside containers. If nothing is found, the data of objects is searched in the same way, and so is a file
    that no host reads to its last byte (``limits.SEARCHED``).

    ``deep``: search all of every file (:mod:`fatpack.scanner.carve`). The containers found there follow the others of
    their host.
    ``is_member``: the view is a member of an archive in which something was found; more of it is searched only if its
    type is unknown.
    ``is_thorough``: search all of a file in which nothing is found.
    ``checks_registration``: check that hosts register the kernels that they launch.
    ``identifies_images``: read the images. Otherwise each is described by its container alone, its form is ``unknown``,
    and nothing is inside.

    The order is that of the bytes within a host; containers that only a registration record points to
    (:mod:`fatpack.registration.analysis`) follow those of its sections. Only headers are read, unless something is
    compressed or searched; of a large compressed bundle the table is inflated first, and the rest when its images are
    accessed. Damaged input raises nothing: an unreadable host is a finding as well. Raises ``OSError`` when reading
    fails.
    """
    return ContainerScan(
        view, deep, is_member, is_thorough, checks_registration=checks_registration, identifies_images=identifies_images
    )


class ContainerScan:
    """A scan in progress: yields containers and findings once, then lists the sections that were not searched."""

    def __init__(
        self,
        view: View,
        deep: bool,
        is_member: bool,
        is_thorough: bool = False,
        *,
        checks_registration: bool = True,
        identifies_images: bool = True,
    ) -> None:
        self._is_member, self._is_thorough = is_member, is_thorough
        self._checks_registration, self._identifies_images = checks_registration, identifies_images
        self._context = start_scan(
            view,
            SEARCH_ALL if deep else SEARCH_SECTIONS,
            checks_registration=checks_registration,
            identifies_images=identifies_images,
        )
        if is_member and not deep and self._context.host == "raw":
            self._context = self._context.replace(search=SEARCH_ANYWHERE)
        self._items = self._scan()

    def __iter__(self) -> Iterator[FoundContainer | Finding]:
        return self._items

    def __next__(self) -> FoundContainer | Finding:
        return next(self._items)

    @property
    def not_searched(self) -> tuple[NotSearched, ...]:
        """Sections of hosts that were not searched so far, by name, the largest first."""
        return self._context.progress.skipped()

    @property
    def units(self) -> tuple[RegistrationCounts, ...]:
        """Registrations of the objects and programs scanned so far, except of those with a finding about them."""
        return tuple(self._context.progress.units)

    @property
    def is_outside(self) -> bool:
        """True if containers were found in sections that are not for device code: more may be in the rest."""
        return self._context.progress.is_outside

    @property
    def has_plain_members(self) -> bool:
        """True if archives may have members without containers among those scanned so far."""
        return self._context.progress.has_plain_members

    def _scan(self) -> Iterator[FoundContainer | Finding]:
        """Yield everything in the file; if that is nothing, search more of it. Findings about the whole come last."""
        waiting: list[Finding] = []
        is_found = self._context.search == SEARCH_ALL
        models = _OffloadModels()
        for item in scan_limited(self._context):
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
            self._context = start_scan(
                self._context.view,
                more,
                checks_registration=self._checks_registration,
                identifies_images=self._identifies_images,
            )
            for item in scan_limited(self._context):
                if isinstance(item, FoundContainer):
                    models.add(item)
                yield item
        elif not is_found:
            yield from waiting
        yield from models.findings(self._context.view)
        plugins = sys.modules.get("fatpack.plugins")  # imported only if unknown bytes were met
        for problem in plugins.problems() if plugins else ():
            yield finding("FP1009", self._context.view.span(0, 0), problem)

    def _more(self) -> int | None:
        """Return how much of a file without containers to search next; None if all of it was searched."""
        # A file that starts with a container was scanned to its end in any case.
        if self._is_member or starts_as_container(self._context):
            return None
        if self._is_thorough:
            return SEARCH_ANYWHERE
        if self._context.host == "raw":
            size = len(self._context.view)
            if size <= limits.SEARCHED:
                return SEARCH_ANYWHERE
            self._context.progress.skip(WHOLE_FILE, 1, size)
            return None
        return SEARCH_DATA if self._context.progress.has_more else None


class _OffloadModels:
    """The members or sections with device code of each of two models, which no link takes together."""

    def __init__(self) -> None:
        self._fat: dict[str, None] = {}
        self._offloading: dict[str, None] = {}

    def add(self, item: FoundContainer) -> None:
        """Take note of the model of a container."""
        if item.container.is_fat_object:
            self._fat[item.member or ""] = None
        elif (item.section or "").startswith(OFFLOADING):
            self._offloading[item.member or ""] = None

    def findings(self, view: View) -> Iterator[Finding]:
        """Yield a finding if the file has device code of both models."""
        if self._fat and self._offloading:
            yield _mixed(view, self._fat, self._offloading)


def _mixed(view: View, old: Collection[str], new: Collection[str]) -> Finding:
    """Return the finding that a file has device code of two models, with the members that have it."""

    def named(places: Collection[str]) -> str:
        names = [place for place in places if place][:3]
        more = [f"{len(places) - 3} more"] if len(places) > 3 else []
        return f" ({', '.join([*names, *more])})" if names else ""

    text = f"device code in sections of clang-offload-bundler{named(old)} and in .llvm.offloading{named(new)}"
    return finding("FP3021", view.span(), text, "a link takes one of them and drops the other: compile all in one way")
