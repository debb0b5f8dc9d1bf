"""Finding containers: source → stream of what was found. The only place where hosts and formats meet.

:func:`scan` asks the hosts where device code may lie, walks the containers there by their declared sizes, recognises
every image, and looks into images that are containers or hosts themselves. Damage becomes a
:class:`~fatpack.model.Finding` and the walk goes on behind it, so one bad container never hides its neighbours.

Rules the code below obeys:

1. A container whose header is sound is stepped over by its declared size, even when its inside is damaged: a magic
   inside a payload is never taken for a container.
2. Where nothing starts, the next magic is searched from there; each magic's next position is remembered, so a magic
   that does not occur again is searched for once per region and everything stays linear.
3. Limits on nesting and on findings bound what a hostile file can make us do.
"""

from __future__ import annotations

import sys

from fatpack import formats, hosts, images
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.findings import finding
from fatpack.images.agreement import disagreements
from fatpack.io import limits
from fatpack.io.source import open_source
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.hosts import Site
    from fatpack.images import Recognised
    from fatpack.io.source import Input, View
    from fatpack.model import Container, Image, Span


class Found(Record):
    """A container and where it lies.

    ``view`` are the container's own bytes, ``host`` the kind of file around it (``raw``: none), ``section`` and
    ``member`` the place in that host, ``index`` the section's number there (None outside sections). ``images`` are
    its images, recognised and with what they hold in turn.
    """

    container: Container
    view: View
    host: str
    section: str | None
    member: str | None
    index: int | None
    images: tuple[FoundImage, ...]


class FoundImage(Record):
    """An image, what its bytes turned out to be, and the containers and findings inside it."""

    image: Image
    recognised: Recognised
    inside: tuple[Found | Finding, ...] = ()

    @property
    def form(self) -> str:
        """What the bytes are: recognised, or as the container says where nothing was recognised."""
        return self.recognised.form or self.image.form


def host_of(view: View) -> str:
    """Return the JSON name of the host the bytes are: ``raw`` when they are no host we know."""
    if formats.sniff(view.head(0, 24)):
        return "raw"
    return next((name for name in hosts.ROOMS if hosts.room(name).detect(view)), "raw")


def scan(view: View) -> Iterator[Found | Finding]:
    """Yield every container in a file, an object, or a bare container, and a finding for everything wrong.

    Order is that of the bytes within a host. Nothing is read but headers, unless something is compressed. Never
    raises for damaged input: an unreadable host is a finding as well. Raises ``OSError`` when reading fails.
    """
    findings, containers = limits.FINDINGS, limits.CONTAINERS
    for item in _scan(view, None, limits.NESTING):
        if isinstance(item, Finding):
            findings -= 1
            if findings < 0:
                yield finding("FP1005", item.span, f"more than {limits.FINDINGS} findings; the rest is not listed")
                return
        else:
            containers -= 1
            if containers < 0:
                text = f"more than {limits.CONTAINERS} containers; the rest is not listed"
                yield finding("FP1005", item.container.span, text, "raise fatpack.io.limits.CONTAINERS")
                return
        yield item


def scan_input(data: Input) -> Iterator[Found | Finding]:
    """Yield the containers and findings of a file, buffer or binary file object as they are met.

    The public ``fatpack.scan``. The file stays open while you iterate, and image data can be read as long.
    """
    with open_source(data) as source:
        yield from scan(source.view())


def _scan(view: View, member: str | None, depth: int) -> Iterator[Found | Finding]:
    host = host_of(view)
    if host == "raw":
        yield from _raw(view, member, depth)
        return
    room = hosts.room(host)
    try:
        for site in room.locate(view):
            if isinstance(site, Finding):
                yield site
                continue
            yield from site.findings
            if site.expects == "member":
                yield from _member(site, depth)
            else:
                yield from _walk(site, host, member, depth)
    except (FormatError, Unsupported, HostError) as error:
        yield _as_finding(error, view.span())


def _raw(view: View, member: str | None, depth: int) -> Iterator[Found | Finding]:
    """Walk a file that is itself a container; any other file simply has none."""
    if formats.sniff_text(view) or formats.sniff(view.head(0, 24)):
        yield from _walk(hosts.Site(view), "raw", member, depth)


def _member(site: Site, depth: int) -> Iterator[Found | Finding]:
    if depth <= 0:
        yield finding("FP1004", site.data.span(), f"{site.member or 'member'} is nested too deeply")
        return
    if not len(site.data):
        return
    yield from _scan(site.data, site.member, depth - 1)


class _NextMagic:
    """Where each magic occurs next: every search goes on where the last one ended (rule 2)."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._next = dict.fromkeys(formats.MAGICS, -1)

    def after(self, at: int) -> int:
        """Return the first position of any magic at or after ``at``, or the end of the view."""
        for magic, place in self._next.items():
            if place < at:
                hit = self._view.find(magic, at)
                self._next[magic] = hit if hit >= 0 else len(self._view)
        return min(self._next.values())


#: clang-offload-bundler -type=o keeps each image as it is in a section of this name and the image's ID.
_FAT_OBJECT = "__CLANG_OFFLOAD_BUNDLE__"


def _walk(site: Site, host: str, member: str | None, depth: int) -> Iterator[Found | Finding]:
    """Yield the containers of one region, which follow each other, with padding or rubbish between."""
    view = site.data
    if (site.section or "").startswith(_FAT_OBJECT) and not formats.sniff(view.head(0, 24)):
        target = (site.section or "").removeprefix(_FAT_OBJECT)
        yield finding("FP1006", view.span(), f"an image of a fat object for {target}: this version does not read these")
        return
    magics = _NextMagic(view)
    unread: set[str] = set()
    at, last = 0, ""
    while at < len(view):
        name = formats.sniff(view.head(at, 24)) or (formats.sniff_text(view) if at == 0 else None)
        if name is None:
            following = magics.after(at)
            if site.expects != "mixed":
                yield from _gap(view, at, following, last)
            at = following
            continue
        if name not in formats.ROOMS:
            if name not in unread:
                unread.add(name)
                yield finding("FP1006", view.span(at), f"{name}: this version does not read these")
            # How far it reaches is unknown too, so the next magic behind its own is where the walk goes on.
            at = magics.after(at + 4)
            continue
        room = formats.room(name)
        try:
            container = room.parse(view, at)
        except (FormatError, Unsupported) as error:
            extent = room.extent(view, at)
            yield _as_finding(error, view.span(at, min(extent or 4, len(view) - at)))
            at = at + extent if extent else magics.after(at + 4)
            continue
        stored = view.slice(at, container.span.size)
        inside = _recognise_all(container.images, depth)
        yield Found(container, stored, host, site.section, member, site.index, inside)
        yield from container.findings
        last = container.format
        at = _end(view, container)


def _end(view: View, container: Container) -> int:
    """Return where the walk goes on: behind the container, or at a magic that a too large size has swallowed."""
    start, end = container.span.start - view.start, container.span.end - view.start
    unknown = container.unknown[-1] if container.unknown else None
    if unknown is not None and unknown.end == container.span.end:
        # A damaged size that is too large ends in bytes no field describes, and in them the next container starts.
        used = unknown.start - container.span.start
        following = start + used + -used % 8
        if following > start and formats.sniff(view.head(following, 24)):
            return following
    return end


def _gap(view: View, start: int, end: int, last: str) -> Iterator[Finding]:
    """Yield what is odd about bytes that no container starts with; ``last`` is the format before them."""
    gap = view.slice(start, end - start)
    if not gap.is_zero():
        yield finding("FP1002", gap.span(), f"{len(gap)} bytes that are no container")
    elif end == len(view) and len(gap) >= 8 and last == "llvm-offload-binary":
        # Behind other containers zeros are usual; fewer than 8 round a compressed binary, whose size leaves them out.
        yield finding("FP1003", gap.span(), f"{len(gap)} zero bytes at the end")


def _recognise_all(stored: Sequence[Image], depth: int) -> tuple[FoundImage, ...]:
    """Recognise images, and look into those that can hold containers.

    Entries may share their bytes, so each span is looked at once; and of images that overlap otherwise only the first
    is looked at (rule 3). Entries of 40 bytes that all point into one container full of such entries would make work
    grow exponentially with the nesting.
    """
    seen: dict[tuple[int, int], tuple[Recognised, tuple[Found | Finding, ...]]] = {}
    reached = 0
    for image in sorted(stored, key=lambda image: image.span.start):
        place = (image.span.start, image.span.end)
        if place in seen:
            continue
        if image.size and image.span.start < reached:
            seen[place] = (images.UNKNOWN, ())
            continue
        recognised = images.recognise(image.data)  # type: ignore[arg-type]  # every parsed image is a View
        inside: tuple[Found | Finding, ...] = ()
        if recognised.container or recognised.form in ("object", "archive"):
            if depth <= 0:
                inside = (finding("FP1004", image.span, "containers nested deeper than the limit"),)
            else:
                inside = tuple(_scan(image.data, None, depth - 1))  # type: ignore[arg-type]
        seen[place] = (recognised, inside)
        reached = max(reached, image.span.end)
    results = []
    for image in stored:
        place = (image.span.start, image.span.end)
        recognised, inside = seen[place]
        results.append(FoundImage(image, recognised, (*disagreements(image, recognised), *inside)))
        # What lies inside belongs to the first image of a span: each level would multiply it otherwise.
        seen[place] = (recognised, ())
    return tuple(results)


def _as_finding(error: FormatError | Unsupported | HostError, span: Span) -> Finding:
    if isinstance(error, FormatError) and error.offset is not None:
        start = error.offset
        span = span.replace(start=start, end=max(span.end, start))
        message = f"{error.format}: {error.describe()}" if error.format else error.describe()
        return finding("FP1001", span, message, error.hint)
    code = "FP1006" if isinstance(error, Unsupported) else "FP1001"
    return finding(code, span, error.problem, error.hint)


class _CallableModule(type(sys)):  # type: ignore[misc]  # the type of modules, without importing types
    """``fatpack.scan`` is this module and the public function of that name at once.

    Importing a submodule binds its name in the package, which would hide the function ``fatpack.scan``.
    """

    def __call__(self, data: Input) -> Iterator[Found | Finding]:
        """Do what :func:`scan_input` does."""
        return scan_input(data)


sys.modules[__name__].__class__ = _CallableModule
