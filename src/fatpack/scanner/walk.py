"""The walk over files: what hosts name, what lies in members and modules, and what sections make together."""

from __future__ import annotations

from fatpack import formats, hosts, images
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.findings import finding
from fatpack.model import Finding
from fatpack.scanner import region
from fatpack.scanner.found import Found, as_finding, recognise_all
from fatpack.scanner.kind import PACKED, host_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.hosts import Site
    from fatpack.io.source import View
    from fatpack.runtime.registration.module_id import ModuleIds


def file(view: View, member: str | None, depth: int, deep: bool = False) -> Iterator[Found | Finding]:
    """Yield the containers of a file or member, and a finding for everything wrong; ``depth`` more levels are entered.

    ``member`` is what the file is called in the archive around it.
    """
    host = host_of(view)
    if host == "raw":
        yield from _raw(view, member, depth, deep)
        return
    aside: list[Site] = []
    starts: dict[str, set[int]] = {}
    known: list[tuple[int, int]] = []
    names: ModuleIds | None = None
    are_named = is_damaged = False
    try:
        for site in _places(view, host):
            if isinstance(site, Finding):
                is_damaged = is_damaged or site.severity == "error"
                yield _advised(site, host, deep, view)
                if deep and site.code == "FP2101":
                    rest = view.slice(site.span.start - view.start, site.span.size)
                    yield from _deep(rest, [], "raw", member, depth, may_be_cut=True)
                continue
            yield from site.findings
            if site.data.source is view.source and site.expects != "records":
                known.append((site.data.start - view.start, site.data.end - view.start))
            if site.expects == "member":
                yield from _member(site, member, depth, deep)
            elif site.expects in ("image", "images", "table", "records") or _may_be_raw(site):
                aside.append(site)
            else:
                if not are_named:
                    names, are_named = _module_ids(aside), True
                yield from _named(site, host, member, depth, names, starts)
        if aside:
            yield from _together(view, host, aside, starts, known, member, depth)
    except (FormatError, Unsupported, HostError) as error:
        yield as_finding(error, view.span())
    if deep and host != "archive":
        yield from _deep(view, known, host, member, depth, may_be_cut=is_damaged)


#: What helps where a host is damaged, so that it does not say where device code is.
_LEFT = "--deep lists what is left of its device code"


def _advised(item: Finding, host: str, deep: bool, view: View) -> Finding:
    """Return a finding of a host with the advice to search the whole file, if that was not done and may find more.

    A device image, which is an ELF file too, has nothing in it.
    """
    if deep:
        return item.replace(hint="") if item.hint.startswith("--deep") else item
    if item.severity != "error" or (host not in ("elf", "coff", "pe") and item.code != "FP2101"):
        return item
    if host == "elf" and images.recognise(view).form in ("cubin", "code-object"):
        return item
    return item.replace(hint=f"{item.hint}; {_LEFT}" if item.hint else _LEFT)


def _named(
    site: Site, host: str, member: str | None, depth: int, names: ModuleIds | None, starts: dict[str, set[int]]
) -> Iterator[Found | Finding]:
    """Yield the containers of a place with what the host says of them; where they start is added to ``starts``."""
    said = iter(names.of(site) if names is not None else ())
    for item in region.containers(site, host, member, depth):
        if isinstance(item, Finding):
            yield item
            continue
        starts.setdefault(item.container.format, set()).add(item.view.start)
        attribute = next(said, None)
        yield item if attribute is None else item.replace(host_attrs=(attribute,))


def _places(view: View, host: str) -> Iterator[Site | Finding]:
    """Yield what a host locates; of one with sections, first those that say something about the others.

    A host that is damaged ends with the finding that it is.
    """
    has_sections = host in ("elf", "coff", "pe")
    held: list[Site | Finding] = []
    try:
        for place in hosts.room(host).locate(view):
            if has_sections and (isinstance(place, Finding) or place.expects != "table"):
                held.append(place)
            else:
                yield place
    except (FormatError, Unsupported, HostError) as error:
        held.append(as_finding(error, view.span()))
    yield from held


def _module_ids(tables: Sequence[Site]) -> ModuleIds | None:
    """Return what the tables of a host call the units of CUDA code, None if they do not."""
    if not any((site.section or "").startswith("__nv_mod") for site in tables):
        return None
    from fatpack.runtime.registration import module_id

    return module_id.read(tables)


#: what all magics of little-endian Mach-O have in common
_MACH_O = b"\xfa\xed\xfe"


def _raw(view: View, member: str | None, depth: int, deep: bool) -> Iterator[Found | Finding]:
    """Walk a file that is itself a container; any other file simply has none, unless it is searched."""
    if formats.sniff_text(view) or formats.sniff(view.head(0, 24)):
        yield from region.containers(hosts.Site(view), "raw", member, depth)
        return
    found = False
    for item in in_module(view, member, depth, is_file=True):
        found = found or isinstance(item, Found)
        yield item
    if deep and not found:
        yield from _deep(view, [], "raw", member, depth, may_be_cut=True)
    head = view.head(0, 6)
    if head.startswith(tuple(PACKED)) or (head[1:4] == _MACH_O and not found and not deep):
        from fatpack.scanner import foreign

        refused = foreign.refusal(view)
        if refused is not None:
            yield refused


#: What a host module of ClangIR holds somewhere if a finished GPU binary is in it, before and after lowering.
_BINARY_MARKS = (b"cir.cu.device_binary", b"_fatbin_str")


def in_module(view: View, member: str | None, depth: int, *, is_file: bool = False) -> Iterator[Found | Finding]:
    """Yield the containers that an MLIR module holds as strings, if the bytes are one.

    Of a file that is nothing else, findings say too whether it is damaged, and whether it registers what it launches.
    """
    if images.recognise(view).form != "cir":
        return
    if not is_file and depth > 0 and formats.sniff_text(view):
        yield from file(view, member, depth - 1)
        return
    if not is_file and all(view.find(mark) < 0 for mark in _BINARY_MARKS):
        return
    from fatpack.formats.cir.gpu_binary.find import binaries_in

    if depth <= 0:
        yield finding("FP1004", view.span(), "containers nested deeper than the limit")
        return
    try:
        for binary in binaries_in(view):
            if isinstance(binary, Finding):
                if is_file:
                    yield binary
                continue
            for item in file(binary.data, member, depth - 1):
                yield item if isinstance(item, Finding) else item.replace(host="text", section=binary.holder)
    except (FormatError, Unsupported) as error:
        yield as_finding(error, view.span())


def _may_be_raw(site: Site) -> bool:
    """Return whether a section of LLVM's may hold what its SYCL programs have there: images without a container."""
    return (site.section or "").startswith(".llvm.offloading") and formats.sniff(site.data.head(0, 24)) is None


def _together(
    view: View,
    host: str,
    sites: Sequence[Site],
    starts: Mapping[str, Collection[int]],
    known: list[tuple[int, int]],
    member: str | None,
    depth: int,
) -> Iterator[Found | Finding]:
    """Yield what several sections make together; what turns out to stand alone is walked as all others.

    Places that only records lead to are added to ``known``.
    """
    from fatpack.runtime import sections

    for item in sections.read(view, host, sites, starts, tuple(known)):
        if isinstance(item, Finding):
            yield item
        elif isinstance(item, hosts.Site):
            known.append((item.data.start - view.start, item.data.end - view.start))
            yield from region.containers(item, host, member, depth)
        else:
            inside = recognise_all(item.container.images, depth)
            yield Found(item.container, item.data, host, item.section, member, item.index, inside)
            yield from item.container.findings


def _deep(
    view: View,
    known: Sequence[tuple[int, int]],
    host: str,
    member: str | None,
    depth: int,
    *,
    may_be_cut: bool,
) -> Iterator[Found | Finding]:
    """Yield the containers outside the places that the host named, each with the section it lies in."""
    from fatpack.deep import Sections, search

    sections = None
    for item in search(view, known, may_be_cut=may_be_cut):
        if isinstance(item, Finding):
            yield item
            continue
        container, stored = item
        if sections is None:
            sections = Sections(hosts.sections(host, view))
        name, index = sections.at(stored.start - view.start)
        yield Found(container, stored, host, name, member, index, recognise_all(container.images, depth))
        yield from container.findings


def _member(site: Site, archive: str | None, depth: int, deep: bool) -> Iterator[Found | Finding]:
    """Yield what is in a member; one of an archive that is a member itself is called ``inner.a(a.o)``."""
    if depth <= 0:
        yield finding("FP1004", site.data.span(), f"{site.member or 'member'} is nested too deeply")
        return
    if not len(site.data):
        return
    title = site.member if archive is None else f"{archive}({site.member})"
    for item in file(site.data, title, depth - 1, deep):
        if isinstance(item, Found) and site.index is not None:
            yield item.replace(member_numbers=(site.index, *item.member_numbers))
        else:
            yield item
