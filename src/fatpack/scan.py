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
from fatpack.deep import NextMagic, Sections
from fatpack.deep import search as deep_search
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.findings import finding
from fatpack.images.agreement import disagreements
from fatpack.io import limits
from fatpack.io.source import open_source
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.hosts import Site
    from fatpack.images import Recognised
    from fatpack.io.source import Input, View
    from fatpack.model import Container, Image, Span


class Found(Record):
    """A container and where it lies.

    ``view`` are the container's own bytes, ``host`` the kind of file around it (``raw``: none), ``section`` and
    ``member`` the place in that host, ``index`` the section's number there (None outside sections). ``images`` are
    its images, recognised and with what they hold in turn; those of a container that is compressed as a whole are
    recognised when the first is looked at, which takes inflating it. ``member_numbers`` lead to the member, outermost
    archive first: names may occur twice.
    """

    container: Container
    view: View
    host: str
    section: str | None
    member: str | None
    index: int | None
    images: tuple[FoundImage, ...] | LateImages
    member_numbers: tuple[int, ...] = ()


class FoundImage(Record):
    """An image, what its bytes turned out to be, and the containers and findings inside it.

    One that would have to be inflated, and whose container says what it is, has ``images.UNREAD`` for ``recognised``
    until :func:`looked_at`.
    """

    image: Image
    recognised: Recognised
    inside: tuple[Found | Finding, ...] = ()

    @property
    def form(self) -> str:
        """What the bytes are: recognised, or as the container says where nothing was recognised."""
        return self.recognised.form or self.image.form


class LateImages:
    """The images of a container that has to be inflated for them: they are recognised when the first is looked at."""

    __slots__ = ("_depth", "_found", "_stored")

    def __init__(self, stored: Sequence[Image], depth: int) -> None:
        self._stored = stored
        self._depth = depth
        self._found: tuple[FoundImage, ...] | None = None

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[FoundImage]:
        return iter(self._recognised())

    def __getitem__(self, index: int) -> FoundImage:
        return self._recognised()[index]

    def _recognised(self) -> tuple[FoundImage, ...]:
        if self._found is None:
            self._found = _recognise_now(self._stored, self._depth)
        return self._found


def host_of(view: View) -> str:
    """Return the JSON name of the host the bytes are: ``raw`` when they are no host we know."""
    if formats.sniff(view.head(0, 24)):
        return "raw"
    return next((name for name in hosts.ROOMS if hosts.room(name).detect(view)), "raw")


def scan(view: View, *, deep: bool = False) -> Iterator[Found | Finding]:
    """Yield every container in a file, an object, or a bare container, and a finding for everything wrong.

    ``deep`` looks for containers outside the places known for them too, which reads the whole file
    (:mod:`fatpack.deep`); those come behind the others of their host.

    Order is that of the bytes within a host. Nothing is read but headers, unless something is compressed; of a large
    compressed bundle its table is inflated, and the rest when its images are looked at. Never raises for damaged input:
    an unreadable host is a finding as well. Raises ``OSError`` when reading fails.
    """
    findings, containers = limits.FINDINGS, limits.CONTAINERS
    models: tuple[dict[str, None], dict[str, None]] = ({}, {})
    for item in _scan(view, None, limits.NESTING, deep):
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
            place = item.member or ""
            if item.container.attrs.get("flavour") == "object":
                models[0][place] = None
            elif (item.section or "").startswith(".llvm.offloading"):
                models[1][place] = None
        yield item
    if all(models):
        yield _mixed(view, *models)


def _mixed(view: View, old: Collection[str], new: Collection[str]) -> Finding:
    """Return the finding that a file holds device code of two models, with the members or sections that do."""

    def named(places: Collection[str]) -> str:
        words = [place for place in places if place][:3]
        more = [f"{len(places) - 3} more"] if len(places) > 3 else []
        return f" ({', '.join([*words, *more])})" if words else ""

    text = f"device code in sections of clang-offload-bundler{named(old)} and in .llvm.offloading{named(new)}"
    return finding("FP3021", view.span(), text, "a link takes one of them and drops the other: compile all in one way")


def scan_input(data: Input, *, deep: bool = False) -> Iterator[Found | Finding]:
    """Yield the containers and findings of a file, buffer or binary file object as they are met.

    The public ``fatpack.scan``. The file stays open while you iterate, and image data can be read as long.
    """
    with open_source(data) as source:
        yield from scan(source.view(), deep=deep)


def _scan(view: View, member: str | None, depth: int, deep: bool = False) -> Iterator[Found | Finding]:
    host = host_of(view)
    if host == "raw":
        yield from _raw(view, member, depth, deep)
        return
    room = hosts.room(host)
    aside: list[Site] = []
    bundles: list[int] = []
    known: list[tuple[int, int]] = []
    try:
        for site in room.locate(view):
            if isinstance(site, Finding):
                yield site
                continue
            yield from site.findings
            if site.data.source is view.source:
                known.append((site.data.start - view.start, site.data.end - view.start))
            if site.expects == "member":
                yield from _member(site, member, depth, deep)
            elif site.expects in ("image", "images", "table") or _may_be_raw(site):
                aside.append(site)
            else:
                for item in _walk(site, host, member, depth):
                    if isinstance(item, Found) and item.container.format == "clang-offload-bundle":
                        bundles.append(item.view.start)
                    yield item
        if aside:
            yield from _together(view, host, aside, bundles, member, depth)
    except (FormatError, Unsupported, HostError) as error:
        yield _as_finding(error, view.span())
    if deep and host != "archive":
        yield from _deep(view, known, host, member, depth)


def _raw(view: View, member: str | None, depth: int, deep: bool) -> Iterator[Found | Finding]:
    """Walk a file that is itself a container; any other file simply has none, unless it is searched."""
    if formats.sniff_text(view) or formats.sniff(view.head(0, 24)):
        yield from _walk(hosts.Site(view), "raw", member, depth)
        return
    found = False
    for item in _in_module(view, member, depth):
        found = True
        yield item
    if deep and not found:
        yield from _deep(view, [], "raw", member, depth)


#: What a host module of ClangIR holds somewhere if a finished GPU binary is in it, before and after lowering.
_BINARY_MARKS = (b"cir.cu.device_binary", b"_fatbin_str")


def _in_module(view: View, member: str | None, depth: int) -> Iterator[Found | Finding]:
    """Yield the containers that an MLIR module holds as strings, if the bytes are one."""
    if images.recognise(view).form != "cir" or all(view.find(mark) < 0 for mark in _BINARY_MARKS):
        return
    from fatpack.formats.cir.device_binary import device_binaries
    from fatpack.formats.cir.outline import Outliner

    if depth <= 0:
        yield finding("FP1004", view.span(), "containers nested deeper than the limit")
        return
    try:
        for binary in device_binaries(Outliner(view).outline()):
            for item in _scan(binary.data, member, depth - 1):
                yield item if isinstance(item, Finding) else item.replace(host="text", section=binary.holder)
    except (FormatError, Unsupported) as error:
        yield _as_finding(error, view.span())


def _may_be_raw(site: Site) -> bool:
    """Return whether a section of LLVM's may hold what its SYCL programs have there: images without a container."""
    return (site.section or "").startswith(".llvm.offloading") and formats.sniff(site.data.head(0, 24)) is None


def _together(
    view: View, host: str, sites: Sequence[Site], bundles: Sequence[int], member: str | None, depth: int
) -> Iterator[Found | Finding]:
    """Yield what several sections make together; what turns out to stand alone is walked as all others."""
    from fatpack.runtime import sections

    for item in sections.read(view, host, sites, frozenset(bundles)):
        if isinstance(item, Finding):
            yield item
        elif isinstance(item, hosts.Site):
            yield from _walk(item, host, member, depth)
        else:
            inside = _recognise_all(item.container.images, depth)
            yield Found(item.container, item.data, host, item.section, member, item.index, inside)
            yield from item.container.findings


def _deep(
    view: View, known: Sequence[tuple[int, int]], host: str, member: str | None, depth: int
) -> Iterator[Found | Finding]:
    """Yield the containers outside the places that the host named, each with the section it lies in."""
    sections = None
    for item in deep_search(view, known):
        if isinstance(item, Finding):
            yield item
            continue
        container, stored = item
        if sections is None:
            sections = Sections(hosts.sections(host, view))
        name, index = sections.at(stored.start - view.start)
        yield Found(container, stored, host, name, member, index, _recognise_all(container.images, depth))
        yield from container.findings


def _member(site: Site, archive: str | None, depth: int, deep: bool) -> Iterator[Found | Finding]:
    """Yield what is in a member; one of an archive that is a member itself is called ``inner.a(a.o)``."""
    if depth <= 0:
        yield finding("FP1004", site.data.span(), f"{site.member or 'member'} is nested too deeply")
        return
    if not len(site.data):
        return
    title = site.member if archive is None else f"{archive}({site.member})"
    for item in _scan(site.data, title, depth - 1, deep):
        if isinstance(item, Found) and site.index is not None:
            yield item.replace(member_numbers=(site.index, *item.member_numbers))
        else:
            yield item


def _walk(site: Site, host: str, member: str | None, depth: int) -> Iterator[Found | Finding]:
    """Yield the containers of one region, which follow each other, with padding or rubbish between."""
    view = site.data
    magics = NextMagic(view)
    unread: set[str] = set()
    at, last = 0, ""
    while at < len(view):
        name = formats.sniff(view.head(at, 24)) or (formats.sniff_text(view) if at == 0 else None)
        if name is None:
            # Zeros start no container: most containers are found behind them, without a search for every magic.
            following = view.skip_zeros(at)
            if following < len(view) and formats.sniff(view.head(following, 24)) is None:
                following = magics.after(following)
            if site.expects != "mixed":
                yield from _gap(view, at, following, last, host)
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


def _gap(view: View, start: int, end: int, last: str, host: str) -> Iterator[Finding]:
    """Yield what is odd about bytes that no container starts with; ``last`` is the format before them."""
    gap = view.slice(start, end - start)
    if not gap.is_zero():
        yield finding("FP1002", gap.span(), f"{len(gap)} bytes that are no container")
    elif end == len(view) and len(gap) >= 8 and last == "llvm-offload-binary":
        # Behind other containers zeros are usual; fewer than 8 round a compressed binary, whose size leaves them out.
        yield finding("FP1003", gap.span(), f"{len(gap)} zero bytes at the end")
    elif end == len(view) and len(gap) >= 16 and last == "cuda-fatbin" and host == "raw":
        # cuobjdump takes what is as long as a header for one; in sections it skips zeros.
        yield finding("FP1410", gap.span(), f"{len(gap)} zero bytes behind the last fat binary of the file")


def _recognise_all(stored: Sequence[Image], depth: int) -> tuple[FoundImage, ...] | LateImages:
    """Recognise images, those that come out of a stream not before somebody looks at them."""
    if stored and stored[0].data.source.is_streamed:  # type: ignore[attr-defined]  # every parsed image is a View
        return LateImages(stored, depth)
    return _recognise_now(stored, depth)


def _recognise_now(stored: Sequence[Image], depth: int) -> tuple[FoundImage, ...]:
    """Recognise images, and look into those that can hold containers.

    Entries may share their bytes, so each span is looked at once; and of images that overlap otherwise only the first
    is looked at (rule 3). Entries of 40 bytes that all point into one container full of such entries would make work
    grow exponentially with the nesting.

    Nothing is inflated that its container names: a CUDA library has thousands of such images (:func:`looked_at`).
    """
    seen: dict[tuple[tuple[str, ...], int, int], tuple[Recognised, tuple[Found | Finding, ...]]] = {}
    reached: dict[tuple[str, ...], int] = {}
    known: FormatError | Unsupported | None = None
    for image in sorted(stored, key=lambda image: image.span.start):
        place = _place(image)
        if place in seen:
            continue
        if image.size and image.span.start < reached.get(image.span.source, 0):
            seen[place] = (images.UNKNOWN, ())
            continue
        if image.form and not image.data.source.is_at_hand:  # type: ignore[attr-defined]  # every parsed image is a View
            seen[place] = (images.UNREAD, ())
            continue
        try:
            seen[place] = _recognise(image, depth)
        except (FormatError, Unsupported) as error:
            # An image of its own compression does not inflate; its neighbours do. A damaged stream is told of once.
            seen[place] = (images.UNKNOWN, (_as_finding(error, image.span),) if error is not known else ())
            known = error
            continue
        reached[image.span.source] = max(reached.get(image.span.source, 0), image.span.end)
    results = []
    for image in stored:
        place = _place(image)
        recognised, inside = seen[place]
        odd = () if recognised is images.UNREAD else disagreements(image, recognised)
        results.append(FoundImage(image, recognised, (*odd, *inside)))
        # What lies inside belongs to the first image of a span: each level would multiply it otherwise.
        seen[place] = (recognised, ())
    return tuple(results)


def _place(image: Image) -> tuple[tuple[str, ...], int, int]:
    return image.span.source, image.span.start, image.span.end


def looked_at(found: FoundImage) -> FoundImage:
    """Return an image that was listed without looking at it (``images.UNREAD``), inflated and recognised.

    Raises FormatError when it does not inflate, Unsupported when nobody can.
    """
    recognised = images.recognise(found.image.data)  # type: ignore[arg-type]  # every parsed image is a View
    return found.replace(recognised=recognised, inside=(*disagreements(found.image, recognised), *found.inside))


def _recognise(image: Image, depth: int) -> tuple[Recognised, tuple[Found | Finding, ...]]:
    """Return what an image is, and the containers in it. Raises FormatError when it does not inflate."""
    view: View = image.data  # type: ignore[assignment]  # every parsed image is a View
    recognised = images.recognise(view)
    if recognised.form == "cir":
        return recognised, tuple(_in_module(view, None, depth))
    is_stored = image.compression is None or image.stored_size is None
    # What an archive that is compressed by itself holds are device binaries, for which all of it must be inflated.
    if not (recognised.container or recognised.form == "object" or (recognised.form == "archive" and is_stored)):
        return recognised, ()
    if depth <= 0:
        return recognised, (finding("FP1004", image.span, "containers nested deeper than the limit"),)
    return recognised, tuple(_scan(view, None, depth - 1))


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

    def __call__(self, data: Input, *, deep: bool = False) -> Iterator[Found | Finding]:
        """Do what :func:`scan_input` does."""
        return scan_input(data, deep=deep)


sys.modules[__name__].__class__ = _CallableModule
