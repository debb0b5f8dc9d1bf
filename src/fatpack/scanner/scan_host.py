"""The walk over files: what hosts name, what lies in members and modules, and what sections make together."""

from __future__ import annotations

from fatpack import binary, formats, images, limits
from fatpack.binary import IMAGE, IMAGES, MEMBER, RECORDS, TABLE, CodeSection
from fatpack.binary.elf import quick_header
from fatpack.errors import FormatError, HostError, Unsupported, cli_or_api, pluralize
from fatpack.findings import FindingTally, finding
from fatpack.model import Finding
from fatpack.scanner.context import (
    SEARCH_ALL,
    SEARCH_ANYWHERE,
    SEARCH_DATA,
    SEARCH_SECTIONS,
    WHOLE_FILE,
    ScanContext,
    detect_host,
)
from fatpack.scanner.results import FoundContainer, finding_from_error, identify_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.binary.known_sections import SectionSplit
    from fatpack.io.source import Span, View
    from fatpack.layout import ByteOrder
    from fatpack.model import Container
    from fatpack.registration.stripped_programs import ModuleIds
    from fatpack.scanner.carve import MagicSearcher
    from fatpack.scanner.results import EnterCallback


# The containers of one region of bytes, which follow each other, with padding or rubbish between.

_OFFLOAD_BINARY = "llvm-offload-binary"

#: e_type of what linkers take
_RELOCATABLE = 1


def scan_region(site: CodeSection, visit: ScanContext, enter: EnterCallback) -> Iterator[FoundContainer | Finding]:
    """Yield the containers of a region, with their images recognised, and a finding for everything wrong.

    ``visit`` says which file the region is in; ``enter`` walks what images hold.
    """
    section = site.section
    items = _containers(site, visit, enter)
    for item in _with_refusal(items, site) if _is_offloading(site, visit) else items:
        if section and isinstance(item, Finding) and not item.section:
            yield item.replace(section=section)
        else:
            yield item


def _is_offloading(site: CodeSection, visit: ScanContext) -> bool:
    """Return whether a place is a section of an object in which clang-linker-wrapper looks for offload binaries.

    By its type in ELF, by its name in COFF and bitcode; in linked files it looks for none.
    """
    if not (site.section or "").startswith(".llvm.offloading") or any(item.code == "FP2001" for item in site.findings):
        return False
    return visit.host in ("coff", "bitcode") or (
        visit.host == "elf" and quick_header.read_file_type(visit.view) == _RELOCATABLE
    )


def _with_refusal(items: Iterator[FoundContainer | Finding], site: CodeSection) -> Iterator[FoundContainer | Finding]:
    """Yield what a section for offload binaries holds, and a warning if LLVM's reader refuses all of it for that.

    Damage and bytes that are no container have findings of their own.
    """
    others: dict[str, None] = {}
    is_empty = True
    for item in items:
        is_empty = False
        if isinstance(item, FoundContainer) and item.format != _OFFLOAD_BINARY:
            others[item.format] = None
        yield item
    if others or (is_empty and len(site.data)):
        what = ", ".join(others) or f"{len(site.data)} zero bytes"
        text = f"{what} in a section for offload binaries: clang-linker-wrapper refuses the object"
        hint = f"{cli_or_api('fatpack convert', 'fatpack.convert')} makes offload binaries of images" if others else ""
        yield finding("FP1010", site.data.span(), text, hint)


def _containers(site: CodeSection, visit: ScanContext, enter: EnterCallback) -> Iterator[FoundContainer | Finding]:
    view, host, member, numbers = site.data, visit.host, visit.member, visit.numbers
    magics: MagicSearcher | None = None
    unread: set[str] = set()
    at, total, last, is_damaged = 0, len(view), "", False
    while at < total:
        name = formats.format_at(view, at) or (formats.find_text_format(view) if at == 0 else None)
        if name is None:
            # Zeros start no container: most containers are found behind them, without a search for every magic.
            following = view.skip_zeros(at)
            is_unexpected = following == total
            if not is_unexpected and formats.format_by_magic(view.head(following, 24)) is None:
                magics = magics or _next_magic(view)
                following, is_unexpected = magics.after(following), True
            if len(view) - following >= 4 and site.content != "mixed":
                yield from _zeros_before(view, at, following, last)
            # What is left of a damaged container was reported with its damage.
            if is_unexpected and site.content != "mixed" and not is_damaged:
                yield from _gap(view, at, following, last, host)
            at = following
            continue
        if name not in formats.MODULES:
            if name not in unread:
                unread.add(name)
                yield finding("FP1008", view.span(at), f"{name}: this version does not read these")
            # How far it reaches is unknown too, so the next magic behind its own is where the walk goes on.
            magics = magics or _next_magic(view)
            at = magics.after(at + 4)
            continue
        room = formats.get_format(name)
        try:
            container = room.parse(view, at)
        except (FormatError, Unsupported) as error:
            extent = room.extent(view, at)
            yield finding_from_error(error, view.span(at, min(extent or 4, len(view) - at)))
            magics = magics or _next_magic(view)
            at = at + extent if extent else magics.after(at + 4)
            continue
        stored = view.slice(at, container.span.size)
        inside = identify_images(container.images, enter if visit.progress.recognises else None)
        yield FoundContainer(container, stored, host, site.section, member, site.index, inside, numbers)
        last, is_damaged = container.format, False
        if container.findings:
            yield from container.findings
            is_damaged = any(item.severity == "error" for item in container.findings)
        at = _end_of(view, container) if container.unknown else container.span.end - view.start


def _next_magic(view: View) -> MagicSearcher:
    from fatpack.scanner.carve import MagicSearcher  # nearly all regions hold containers and nothing else

    return MagicSearcher(view)


def _end_of(view: View, container: Container) -> int:
    from fatpack.scanner.carve import resume_position

    return resume_position(view, container)


def _zeros_before(view: View, start: int, end: int, last: str) -> Iterator[Finding]:
    """Yield a warning for zeros in front of an offload binary, where LLVM expects one.

    Behind another one fewer than 8 are its padding.
    """
    if formats.format_by_magic(view.head(end, 4)) != _OFFLOAD_BINARY or not view.is_zero(start, end - start):
        return
    if start == 0 or (last == _OFFLOAD_BINARY and end - start >= 8):
        where = "before" if start == 0 else "between"
        yield finding("FP1007", view.span(start, end - start), f"{end - start} zero bytes {where} offload binaries")


def _gap(view: View, start: int, end: int, last: str, host: str) -> Iterator[Finding]:
    """Yield what is unexpected about bytes that no container starts with; ``last`` is the format before them."""
    gap = view.slice(start, end - start)
    if not gap.is_zero():
        yield finding("FP1002", gap.span(), f"{len(gap)} bytes that are no container")
    elif end == len(view) and len(gap) >= 8 and last == _OFFLOAD_BINARY:
        # Behind other containers zeros are usual; fewer than 8 round a compressed binary, whose size leaves them out.
        yield finding("FP1003", gap.span(), f"{len(gap)} zero bytes at the end")
    elif end == len(view) and len(gap) >= 16 and last == "cuda-fatbin" and host == "raw":
        # cuobjdump takes what is as long as a header for one; in sections it skips zeros.
        yield finding("FP1410", gap.span(), f"{len(gap)} zero bytes behind the last fat binary of the file")


#: Hosts with sections, some of which say something about the others.
_WITH_SECTIONS = ("elf", "coff", "pe", "macho")

#: e_machine of ELF files that are read for what they register: x86-64, AArch64, and of i386 objects the entries
_HOST_CODE = (b"\x3e\0", b"\xb7\0", b"\x03\0")

_ORDERS: tuple[ByteOrder, ...] = ("little", "big")

#: Sections that take others to be read.
_DEFERRED = (IMAGE, IMAGES, TABLE, RECORDS)

#: Sections of containers that records register, one by one, when a program starts.
_REGISTERED = (".nv_fatbin", "__nv_relfatbin", ".hip_fatbin")


def scan_limited(visit: ScanContext) -> Iterator[FoundContainer | Finding]:
    """Yield the containers of a file and a finding for everything wrong, within the limits of the scan.

    No number of findings ends it: of each code some are yielded one by one, and the others counted.
    """
    tally, progress = FindingTally(limits.FINDINGS), visit.progress
    for item in _file(visit):
        if isinstance(item, Finding):
            if tally.keeps(item):
                yield item
            continue
        progress.containers -= 1
        if progress.containers < 0:
            text = f"more than {pluralize(limits.CONTAINERS, 'container')}; the rest is not listed"
            yield finding("FP1005", item.span, text, limits.advice("CONTAINERS"))
            progress.has_plain_members = True
            break
        yield item
    yield from tally.rest()


class _InsideScanner:
    """What walks the files inside images: handed to those who recognise images, who do not know the walk."""

    __slots__ = ("_visit",)

    def __init__(self, visit: ScanContext) -> None:
        self._visit = visit

    def __call__(self, view: View, form: str) -> tuple[FoundContainer | Finding, ...]:
        if form == "module" or (form == "cir" and not formats.find_text_format(view)):
            return tuple(_in_module(view, self._visit))
        if self._visit.depth <= 0:
            return (
                finding("FP1004", view.span(), "containers nested deeper than the limit", limits.advice("NESTING")),
            )
        return tuple(scan_limited(self._visit.inside(view)))


def _file(visit: ScanContext) -> Iterator[FoundContainer | Finding]:
    return _isolated(_raw(visit) if visit.host == "raw" else _HostScan(visit).items(), visit.view.span())


def _isolated(items: Iterable[FoundContainer | Finding], span: Span) -> Iterator[FoundContainer | Finding]:
    """Yield what is found in one place; an error that ends it is a finding, and takes nothing from other places."""
    try:
        yield from items
    except (FormatError, Unsupported, HostError) as error:
        yield finding_from_error(error, span)


class _HostScan:
    """A host on the walk: its sections and members one by one, then what some make together, then the rest of it."""

    def __init__(self, visit: ScanContext) -> None:
        self._visit = visit
        self._inside = _InsideScanner(visit)
        self._located: Iterator[CodeSection | Finding] | None = None
        self._deferred: list[CodeSection] = []
        #: by format, where containers start
        self._starts: dict[str, set[int]] = {}
        self._searched_ranges: list[tuple[int, int]] = []
        self._module_ids: ModuleIds | None = None
        self._are_tables_read = False
        #: of objects: what the names that they register are compared with
        self._found: list[FoundContainer] = []
        self._is_damaged = False
        #: whether something is wrong with what registers containers
        self._is_wrong = False

    def items(self) -> Iterator[FoundContainer | Finding]:
        """Yield what is in the host, each place for itself. Raises what reading the file raises."""
        has_code = _has_host_code(self._visit)
        is_object = has_code and not _is_linked(self._visit)
        for item in self._held():
            if isinstance(item, Finding):
                self._is_wrong = self._is_wrong or (item.code.startswith("FP30") and item.severity != "note")
            elif is_object:
                self._found.append(item)
            yield item
        if has_code:
            yield from _isolated(self._registration(), self._visit.view.span())

    def _held(self) -> Iterator[FoundContainer | Finding]:
        """Yield the containers of the host, and what is wrong with each place."""
        for place in self._places():
            if isinstance(place, Finding):
                yield from _isolated(self._wrong(place), place.span)
            else:
                yield from _isolated(self._site(place), place.data.span())
        if self._deferred:
            yield from _isolated(self._together(), self._visit.view.span())
        if self._visit.host != "archive":
            yield from _isolated(self._elsewhere(), self._visit.view.span())

    def _places(self) -> Iterator[CodeSection | Finding]:
        """Yield what a host locates; of one with sections, first those that say something about the others.

        A host that is damaged ends with the finding that it is.
        """
        view, host = self._visit.view, self._visit.host
        held: list[CodeSection | Finding] = []
        try:
            self._located = binary.get_host(host).locate(view)
            for place in self._located:
                if host in _WITH_SECTIONS and (isinstance(place, Finding) or place.content != TABLE):
                    held.append(place)
                else:
                    yield place
        except (FormatError, Unsupported, HostError) as error:
            held.append(finding_from_error(error, view.span()))
        yield from held

    def _wrong(self, item: Finding) -> Iterator[FoundContainer | Finding]:
        """Yield a finding of the host, and what is left behind a damaged member of an archive."""
        visit = self._visit
        self._is_damaged = self._is_damaged or item.severity == "error"
        yield self._advised(item)
        if visit.search != SEARCH_SECTIONS and item.code == "FP2101":
            rest = visit.view.slice(item.span.start - visit.view.start, item.span.size)
            yield from _searched(visit.replace(view=rest, host="raw"), None, may_be_cut=True)

    def _advised(self, item: Finding) -> Finding:
        """Return a finding of a host with the advice to search the whole file, if that may find more.

        A device image, which is an ELF file too, has nothing in it.
        """
        visit = self._visit
        if visit.search != SEARCH_SECTIONS:
            return item.replace(hint="") if item.hint.startswith(cli_or_api("--deep", "deep=True")) else item
        if item.severity != "error" or (visit.host not in _WITH_SECTIONS and item.code != "FP2101"):
            return item
        if visit.host == "elf" and images.identify_image(visit.view).form in ("cubin", "code-object"):
            return item
        # A damaged host does not say where device code is.
        left = f"{cli_or_api('--deep', 'deep=True')} lists what is left of its device code"
        return item.replace(hint=f"{item.hint}; {left}" if item.hint else left)

    def _site(self, site: CodeSection) -> Iterator[FoundContainer | Finding]:
        view = self._visit.view
        yield from _of_section(site.section, site.findings)
        if site.data.source is view.source and site.content != RECORDS:
            self._searched_ranges.append((site.data.start - view.start, site.data.end - view.start))
        if site.content == MEMBER:
            yield from _member(site, self._visit)
        elif site.content in _DEFERRED or _may_be_raw(site):
            self._deferred.append(site)
        else:
            yield from self._containers(site)

    def _containers(self, site: CodeSection) -> Iterator[FoundContainer | Finding]:
        """Yield the containers of a place with what the host says of them, and note where they start."""
        if not self._are_tables_read:
            self._module_ids, self._are_tables_read = _module_ids(self._deferred), True
        attributes = iter(self._module_ids.of(site) if self._module_ids is not None else ())
        for item in scan_region(site, self._visit, self._inside):
            if isinstance(item, Finding):
                yield item
                continue
            self._starts.setdefault(item.format, set()).add(item.view.start)
            attribute = next(attributes, None)
            yield item if attribute is None else item.replace(host_attrs=(attribute,))

    def _registration(self) -> Iterator[Finding]:
        """Yield what is wrong with what the host registers and launches; where nothing is, note what it registers."""
        if not self._visit.progress.judges:
            return
        from fatpack.registration.analysis import analyze
        from fatpack.scanner.results import defined_variables, kernel_names_by_arch

        is_wrapped = any(found.section in _REGISTERED for found in self._found)
        visit = self._visit
        names, variables = lambda: kernel_names_by_arch(self._found), lambda: defined_variables(self._found)
        for item in analyze.registration_findings(visit.view, visit.host, names, variables, is_wrapped=is_wrapped):
            if isinstance(item, Finding):
                yield item
            elif not self._is_wrong and not visit.is_inside:
                visit.progress.units.append(item.replace(member=visit.member, numbers=visit.numbers))

    def _together(self) -> Iterator[FoundContainer | Finding]:
        """Yield what several sections make together; what turns out to stand alone is walked as all others."""
        from fatpack.registration import combine_sections

        visit = self._visit
        already = tuple(self._searched_ranges)
        for item in combine_sections.read_combined(visit.view, visit.host, self._deferred, self._starts, already):
            if isinstance(item, Finding):
                yield item
            elif isinstance(item, CodeSection):
                place = item.data.start - visit.view.start, item.data.end - visit.view.start
                visit.progress.is_outside = visit.progress.is_outside or place not in already
                self._searched_ranges.append(place)
                if item.content == IMAGE:
                    yield from self._registered_image(item, place)
                else:
                    yield from scan_region(item, visit, self._inside)
            else:
                yield _found(item.container, item.data, visit, item.section, item.index, self._inside)
                yield from _of_section(item.section, item.container.findings)

    def _registered_image(self, site: CodeSection, place: tuple[int, int]) -> Iterator[FoundContainer | Finding]:
        """Yield an image that a record registers without a container around it, as one of its own."""
        from fatpack.scanner import bare_images

        if (site.section or "").startswith(".llvm.offloading"):  # its record says where it ends
            container = bare_images.bare_image_container(site.data, offload="openmp")
            yield _found(container, site.data, self._visit, site.section, site.index, self._inside)
            return
        for item in bare_images.find_bare_images(self._visit.view, [place]):
            if isinstance(item, Finding):
                yield item
            else:
                yield _found(*item, self._visit, site.section, site.index, self._inside)

    def _elsewhere(self) -> Iterator[FoundContainer | Finding]:
        """Yield the containers outside the places that the host named: in sections of unusual names, or anywhere."""
        visit = self._visit
        if visit.search != SEARCH_ALL and _is_device_image(visit):
            return
        view, is_whole, division = visit.view, visit.search >= SEARCH_ANYWHERE, None
        if not is_whole:
            division = binary.divided_sections(visit.host, view, self._located)
            tells = bool(division.open) or bool(binary.sections(visit.host, view))
            if self._is_damaged or not tells:  # it does not say where its data is
                is_whole, visit.progress.has_more = visit.search == SEARCH_DATA, True
        if is_whole or division is None:
            from fatpack.scanner.carve import ranges_between

            yield from _searched(visit, ranges_between(self._searched_ranges, len(view)), may_be_cut=self._is_damaged)
            return
        yield from (
            self._in_data(division) if visit.search == SEARCH_DATA or _is_program(visit) else self._unusual(division)
        )

    def _unusual(self, division: SectionSplit) -> Iterator[FoundContainer | Finding]:
        """Yield the containers in sections whose names say nothing; take note of data that is left."""
        progress = self._visit.progress
        for name, (count, total) in division.open.items():
            progress.skip(name, count, total)
        progress.has_more = progress.has_more or bool(division.data)
        yield from self._among(division.unusual, has_data=False)

    def _in_data(self, division: SectionSplit) -> Iterator[FoundContainer | Finding]:
        """Yield the containers and the device images in sections whose names say nothing, and in data."""
        for name, (count, total) in division.open.items():
            if name not in division.data:
                self._visit.progress.skip(name, count, total)
        data = [place for places in division.data.values() for place in places]
        yield from self._among([*division.unusual, *data], has_data=True)

    def _among(self, places: Sequence[tuple[int, int]], *, has_data: bool) -> Iterator[FoundContainer | Finding]:
        """Yield what is in some places, as far as they were not searched yet."""
        searched = set(self._searched_ranges)
        if not all(place in searched for place in places):
            from fatpack.scanner.carve import intersect_ranges, ranges_between

            rest = list(ranges_between(self._searched_ranges, len(self._visit.view)))
            yield from _searched(self._visit, intersect_ranges(places, rest), may_be_cut=False, has_data=has_data)


def _of_section(section: str | None, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings with the section they are of."""
    for item in findings:
        yield item.replace(section=section) if section and not item.section else item


def _module_ids(tables: Sequence[CodeSection]) -> ModuleIds | None:
    """Return what the tables of a host call the units of CUDA code, None if they do not."""
    if not any((site.section or "").rpartition(",")[2].startswith("__nv_mod") for site in tables):
        return None
    from fatpack.registration import stripped_programs

    return stripped_programs.read_module_ids(tables)


def _has_host_code(visit: ScanContext) -> bool:
    """Return whether the code of a host can be read for what it registers."""
    return visit.host == "coff" or (visit.host == "elf" and visit.view.head(18, 2) in _HOST_CODE)


def _is_linked(visit: ScanContext) -> bool:
    """Return whether an ELF file is a program or a library: e_type is 2 or 3."""
    return visit.host == "elf" and visit.view.head(16, 2) != b"\1\0"


#: e_type of programs and libraries in ELF, and filetype of those in Mach-O
_ELF_PROGRAMS = (2, 3)
_MACH_O_PROGRAMS = (2, 6, 8)


def _is_program(visit: ScanContext) -> bool:
    """Return whether a host is a linked program or library, whose data may hold device code that it loads by itself."""
    if visit.host == "elf":
        return any(visit.view.head(16, 2) == type.to_bytes(2, order) for type in _ELF_PROGRAMS for order in _ORDERS)
    if visit.host == "macho":
        return any(visit.view.head(12, 4) == type.to_bytes(4, order) for type in _MACH_O_PROGRAMS for order in _ORDERS)
    return visit.host == "pe"


def _is_device_image(visit: ScanContext) -> bool:
    return visit.host == "elf" and images.is_device_elf(visit.view)


def starts_as_container(visit: ScanContext) -> bool:
    """Return whether a file is one in which containers follow each other from its first byte on."""
    view = visit.view
    return (
        visit.host == "raw"
        and (formats.format_by_magic(view.head(0, 24)) or formats.find_text_format(view)) is not None
    )


def _raw(visit: ScanContext) -> Iterator[FoundContainer | Finding]:
    """Walk a file that is itself a container; any other file simply has none, unless it is searched."""
    view = visit.view
    from fatpack.scanner import unsupported_files

    if starts_as_container(visit):
        yield from scan_region(CodeSection(view), visit, _InsideScanner(visit))
        if not formats.format_by_magic(view.head(0, 24)):
            yield from filter(None, (unsupported_files.split_mlir_finding(view),))
        return
    found = False
    for item in _in_module(view, visit, is_file=True):
        found = found or isinstance(item, FoundContainer)
        yield item
    if images.identify_image(view).form == "cir":
        yield from filter(None, (unsupported_files.split_mlir_finding(view),))
    if found:
        return
    is_searched = visit.search == SEARCH_ALL or (
        visit.search == SEARCH_ANYWHERE and not unsupported_files.is_compressed(view)
    )
    if is_searched:
        yield from _searched(visit, None, may_be_cut=True)
    elif visit.search == SEARCH_ANYWHERE:
        visit.progress.skip(WHOLE_FILE, 1, len(view))
    refused = unsupported_files.unsupported_finding(view, is_searched)
    if refused is not None:
        yield refused


#: What a host module of ClangIR holds somewhere if a finished GPU binary is in it, before and after lowering.
_BINARY_WORDS = (b"cir.cu.device_binary", b"_fatbin_str")


def _in_module(view: View, visit: ScanContext, *, is_file: bool = False) -> Iterator[FoundContainer | Finding]:
    """Yield the containers that an MLIR module holds as strings, if the bytes are one.

    Of a file that is nothing else, findings say too whether it is damaged, and whether it registers what it launches.
    """
    if is_file and images.identify_image(view).form != "cir":
        return
    if not is_file and not _has_word(view):
        return
    from fatpack.formats.cir.gpu_binary import find_binaries

    if visit.depth <= 0:
        yield finding("FP1004", view.span(), "containers nested deeper than the limit", limits.advice("NESTING"))
        return
    member, numbers = (visit.member, visit.numbers) if is_file else (None, ())
    try:
        for binary in find_binaries(view):
            if isinstance(binary, Finding):
                if is_file:
                    yield binary
                continue
            for item in _file(visit.inside(binary.data).replace(member=member, numbers=numbers)):
                yield item if isinstance(item, Finding) else item.replace(host="text", section=binary.holder)
    except (FormatError, Unsupported) as error:
        yield finding_from_error(error, view.span())


def _has_word(view: View) -> bool:
    if len(view) > limits.CHUNK:
        return any(view.find(word) >= 0 for word in _BINARY_WORDS)
    module = view.tobytes()  # most are small, and there may be very many
    return any(word in module for word in _BINARY_WORDS)


def _may_be_raw(site: CodeSection) -> bool:
    """Return whether a section of LLVM's may hold what its SYCL programs have there: images without a container."""
    return (site.section or "").startswith(".llvm.offloading") and formats.format_by_magic(
        site.data.head(0, 24)
    ) is None


def _searched(
    visit: ScanContext, ranges: Iterable[tuple[int, int]] | None, *, may_be_cut: bool, has_data: bool = False
) -> Iterator[FoundContainer | Finding]:
    """Yield the containers in some ranges of a file, by default all of it, each with the section it lies in.

    Where everything or data of a host (``has_data``) is searched, device images that are in no container come behind
    them.
    """
    from fatpack.scanner.carve import SectionIndex, carve

    view, sections, inside = visit.view, None, _InsideScanner(visit)
    ranges = [(0, len(view))] if ranges is None else list(ranges)
    found = carve(view, ranges, may_be_cut=may_be_cut)
    for item in _with_bare_images(found, visit, ranges) if has_data or visit.search == SEARCH_ALL else found:
        if isinstance(item, Finding):
            yield item
            continue
        container, stored = item
        if sections is None:
            sections = SectionIndex(binary.sections(visit.host, view))
            visit.progress.is_outside = visit.progress.is_outside or visit.host != "raw"
        name, index = sections.at(stored.start - view.start)
        yield _found(container, stored, visit, name, index, inside)
        yield from _of_section(name, container.findings)


def _with_bare_images(
    items: Iterable[tuple[Container, View] | Finding], visit: ScanContext, ranges: Sequence[tuple[int, int]]
) -> Iterator[tuple[Container, View] | Finding]:
    """Yield what a search has found, and then the images between these containers."""
    found: list[tuple[int, int]] = []
    start = visit.view.start
    for item in items:
        if not isinstance(item, Finding):
            found.append((item[1].start - start, item[1].end - start))
        yield item
    from fatpack.scanner import bare_images
    from fatpack.scanner.carve import intersect_ranges, ranges_between

    yield from bare_images.find_bare_images(
        visit.view, intersect_ranges(ranges, list(ranges_between(found, len(visit.view))))
    )


def _found(
    container: Container,
    stored: View,
    visit: ScanContext,
    section: str | None,
    index: int | None,
    inside: _InsideScanner,
) -> FoundContainer:
    images = identify_images(container.images, inside if visit.progress.recognises else None)
    return FoundContainer(container, stored, visit.host, section, visit.member, index, images, visit.numbers)


def _member(site: CodeSection, archive: ScanContext) -> Iterator[FoundContainer | Finding]:
    """Yield what is in a member; one of an archive that is a member itself is called ``inner.a(a.o)``."""
    if archive.depth <= 0:
        yield finding(
            "FP1004", site.data.span(), f"{site.member or 'member'} is nested too deeply", limits.advice("NESTING")
        )
        return
    if not len(site.data):
        return
    title = site.member if archive.member is None else f"{archive.member}({site.member})"
    host = detect_host(site.data)
    # A member that no room reads is searched as a file of its own is: else its device code would be passed over.
    search = max(archive.search, SEARCH_ANYWHERE) if host == "raw" else archive.search
    progress, numbers = archive.progress, (*archive.numbers, site.number)
    left = progress.containers
    yield from _file(ScanContext(site.data, host, archive.depth - 1, search, progress, title, numbers))
    if progress.containers == left and host != "archive":
        progress.has_plain_members = True
