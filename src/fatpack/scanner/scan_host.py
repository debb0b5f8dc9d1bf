"""Recursive scan of a file: regions of containers, sections, archive members, MLIR modules, and images.

Two generators are on the stack when a container is read: the parts of the file (:func:`scan_limited`), and the
containers of a region. Each level of nested files adds its own.
"""

from __future__ import annotations

from fatpack import binary, formats, images, limits
from fatpack.binary import IMAGE, IMAGES, MEMBER, RECORDS, TABLE, CodeSection
from fatpack.binary.section_names import FATBINS, OFFLOADING
from fatpack.errors import FormatError, HostError, Unsupported, cli_or_api, pluralize
from fatpack.findings import FindingTally, finding
from fatpack.model import Finding
from fatpack.registration import EMPTY
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
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fatpack.binary.elf.device_sections import DeviceSections
    from fatpack.binary.host_sections import SectionSplit
    from fatpack.io.source import Span, View
    from fatpack.layout import ByteOrder
    from fatpack.model import Container
    from fatpack.registration.stripped_programs import ModuleIds
    from fatpack.scanner.carve import MagicSearcher, PassedMagics
    from fatpack.scanner.results import EnterCallback


_OFFLOAD_BINARY = "llvm-offload-binary"

#: e_type of object files
_RELOCATABLE = 1

#: Errors that end the scan of one part of a file, and become a finding; the other parts are scanned all the same.
_DAMAGE = (FormatError, Unsupported, HostError)


class _RegionScan:
    """Containers of one region of bytes: they follow each other, with padding or garbage between them."""

    def __init__(self, place: CodeSection, context: ScanContext, enter: EnterCallback) -> None:
        self._place, self._context, self._enter = place, context, enter
        self._magics: MagicSearcher | None = None
        #: the format of the last container, and whether it is damaged
        self._last, self._is_damaged = "", False

    def items(
        self, starts: dict[str, set[int]] | None = None, attributes: Iterator[tuple[str, str]] | None = None
    ) -> Iterator[FoundContainer | Finding]:
        """Yield the containers, with their images identified, and a finding for everything wrong.

        ``starts`` receives the offset of each container, by format, and of those without device images by ``EMPTY``;
        each container takes the next of the ``attributes``.
        """
        place, context = self._place, self._context
        view, section = place.data, place.section
        enter = self._enter if context.progress.identifies_images else None
        formats_found: dict[str, None] = {}
        unread: set[str] = set()
        is_empty = True
        at = 0
        while at < len(view):
            container: Container | None = None
            findings: Sequence[Finding] = ()
            name = formats.format_at(view, at) or (formats.find_text_format(view) if at == 0 else None)
            if name is None:
                at, findings = self._skip_gap(at)
            elif name not in formats.MODULES:
                if name not in unread:
                    unread.add(name)
                    findings = [finding("FP1008", view.span(at), f"{name}: this version does not read these")]
                # Its size is unknown too, so the scan goes on at the next magic.
                at = self._next_magic(at + 4)
            else:
                reader = formats.get_format(name)
                try:
                    container = reader.parse(view, at)
                except (FormatError, Unsupported) as error:
                    extent = reader.extent(view, at)
                    findings = [finding_from_error(error, view.span(at, min(extent or 4, len(view) - at)))]
                    at = at + extent if extent else self._next_magic(at + 4)
            if container is not None:
                is_empty = False
                formats_found[container.format] = None
                stored = view.slice(at, container.span.end - view.start - at)
                if starts is not None:
                    starts.setdefault(container.format, set()).add(stored.start)
                    if not any(image.size and image.target.offload != "host" for image in container.images):
                        starts.setdefault(EMPTY, set()).add(stored.start)
                attribute = next(attributes, None) if attributes is not None else None
                yield FoundContainer(
                    container,
                    stored,
                    context.host,
                    section,
                    context.member,
                    place.index,
                    identify_images(container.images, enter),
                    context.numbers,
                    () if attribute is None else (attribute,),
                )
                findings = container.findings
                self._last = container.format
                self._is_damaged = bool(findings) and any(item.severity == "error" for item in findings)
                at = stored.end - view.start
                if container.unknown:
                    from fatpack.scanner.carve import resume_position

                    at = resume_position(view, container)
            if findings:
                is_empty = False
                yield from _of_section(section, findings)
        formats_found.pop(_OFFLOAD_BINARY, None)
        if (formats_found or (is_empty and len(view))) and _is_offloading(place, context):
            yield from _of_section(section, [_refusal(place, formats_found)])

    def _next_magic(self, at: int) -> int:
        if self._magics is None:
            from fatpack.scanner.carve import MagicSearcher  # nearly all regions hold containers and nothing else

            self._magics = MagicSearcher(self._place.data)
        return self._magics.after(at)

    def _skip_gap(self, at: int) -> tuple[int, list[Finding]]:
        """Return the start of the next container after other bytes, and findings about these bytes."""
        view = self._place.data
        findings: list[Finding] = []
        # Zeros start no container: most containers follow them, without a search for every magic.
        following = view.skip_zeros(at)
        is_unexpected = following == len(view)
        if not is_unexpected and formats.format_by_magic(view.head(following, 24)) is None:
            following, is_unexpected = self._next_magic(following), True
        if self._place.content != "mixed":
            if len(view) - following >= 4:
                findings += _zeros_before(view, at, following, self._last)
            # The rest of a damaged container was reported with its damage.
            if is_unexpected and not self._is_damaged:
                findings += _gap(view, at, following, self._last, self._context.host)
        return following, findings


def _is_offloading(place: CodeSection, context: ScanContext) -> bool:
    """Return whether a place is a section of an object in which clang-linker-wrapper looks for offload binaries.

    By its type in ELF, by its name in COFF and bitcode; in linked files it looks for none.
    """
    if not (place.section or "").startswith(OFFLOADING) or any(item.code == "FP2001" for item in place.findings):
        return False
    if context.host != "elf":
        return context.host in ("coff", "bitcode")
    from fatpack.binary.elf import quick_header

    return quick_header.read_file_type(context.view) == _RELOCATABLE


def _refusal(place: CodeSection, others: Iterable[str]) -> Finding:
    """Return the warning that LLVM's reader refuses a section for offload binaries, which holds other formats or none.

    Damage and bytes that are no container have findings of their own.
    """
    what = ", ".join(others)
    hint = f"{cli_or_api('fatpack convert', 'fatpack.convert')} makes offload binaries of images" if what else ""
    what = what or f"{len(place.data)} zero bytes"
    text = f"{what} in a section for offload binaries: clang-linker-wrapper refuses the object"
    return finding("FP1010", place.data.span(), text, hint)


def _zeros_before(view: View, start: int, end: int, last: str) -> Iterator[Finding]:
    """Yield a warning for zeros before an offload binary, where LLVM expects one.

    After another offload binary, fewer than 8 zeros are its padding.
    """
    if formats.format_by_magic(view.head(end, 4)) != _OFFLOAD_BINARY or not view.is_zero(start, end - start):
        return
    if start == 0 or (last == _OFFLOAD_BINARY and end - start >= 8):
        where = "before" if start == 0 else "between"
        yield finding("FP1007", view.span(start, end - start), f"{end - start} zero bytes {where} offload binaries")


def _gap(view: View, start: int, end: int, last: str, host: str) -> Iterator[Finding]:
    """Yield findings for bytes in which no container starts; ``last`` is the format of the container before them."""
    gap = view.slice(start, end - start)
    if not gap.is_zero():
        yield finding("FP1002", gap.span(), f"{len(gap)} bytes that are no container")
    elif end == len(view) and len(gap) >= 8 and last == _OFFLOAD_BINARY:
        # After other containers zeros are usual; fewer than 8 pad a compressed binary, whose size does not count them.
        yield finding("FP1003", gap.span(), f"{len(gap)} zero bytes at the end")
    elif end == len(view) and len(gap) >= 16 and last == "cuda-fatbin" and host == "raw":
        # cuobjdump reads 16 bytes as a header; in sections it skips zeros.
        yield finding("FP1410", gap.span(), f"{len(gap)} zero bytes after the last fat binary of the file")


#: Hosts with sections: tables in some of them describe the others.
_WITH_SECTIONS = ("elf", "coff", "pe", "macho")

#: e_machine of ELF files whose registrations are read: x86-64, AArch64, and of i386 objects the entries
_HOST_CODE = (b"\x3e\0", b"\xb7\0", b"\x03\0")

_ORDERS: tuple[ByteOrder, ...] = ("little", "big")

#: Sections that are read together with others, after all sections are known.
_DEFERRED = (IMAGE, IMAGES, TABLE, RECORDS)

#: Sections of containers that a program registers by records when it starts.
_REGISTERED = FATBINS


def scan_limited(context: ScanContext) -> Iterator[FoundContainer | Finding]:
    """Return the containers of a file and a finding for everything wrong, within the limits of the scan.

    No number of findings ends it: of each code some are yielded one by one, and the others counted.
    """
    return _FileScan(context, FindingTally(limits.FINDINGS)).items()


class _InsideScanner:
    """A callback for the module that identifies images, which does not know this one: it scans a file in an image."""

    __slots__ = ("_context",)

    def __init__(self, context: ScanContext) -> None:
        self._context = context

    def __call__(self, view: View, form: str) -> tuple[FoundContainer | Finding, ...]:
        if form == "module" or (form == "cir" and not formats.find_text_format(view)):
            return tuple(_in_module(view, self._context))
        if self._context.depth <= 0:
            return (
                finding("FP1004", view.span(), "containers nested deeper than the limit", limits.advice("NESTING")),
            )
        return tuple(scan_limited(self._context.inside(view)))


class _FileScan:
    """The scan of one file: its sections and members, then containers spread over several sections, then the rest.

    ``tally`` counts findings, and a scan with one ends at the limit of containers; a member's counts for its archive.
    """

    def __init__(self, context: ScanContext, tally: FindingTally | None = None) -> None:
        self._context = context
        self._tally = tally
        self._is_full = False
        self._inside = _InsideScanner(context)
        self._located: Iterator[CodeSection | Finding] | None = None
        self._deferred: list[CodeSection] = []
        #: by format, where containers start
        self._starts: dict[str, set[int]] = {}
        self._searched_ranges: list[tuple[int, int]] = []
        self._module_ids: ModuleIds | None = None
        self._are_tables_read = False
        #: true if registrations can be read from the code of the host; true if that is an object
        self._has_host_code = self._is_object = False
        #: containers of an object, whose kernel names are compared with the names that it registers
        self._found: list[FoundContainer] = []
        self._is_damaged = False
        #: true if a record that registers containers is wrong
        self._is_wrong = False

    def items(self) -> Iterator[FoundContainer | Finding]:
        """Yield the containers and findings of all parts. Damage that ends one part is a finding, and the next follows.

        Raises ``OSError`` when reading the file fails.
        """
        try:
            host, stated = self._context.host, self._context.view.head(16, 4)  # of ELF: type and machine
            self._has_host_code = host == "coff" or (host == "elf" and stated[2:] in _HOST_CODE)
            self._is_object = self._has_host_code and (host == "coff" or stated[:2] == b"\1\0")
            for span, part, arguments in self._parts():
                try:
                    for found in part(*arguments):
                        item = self._counted(found)
                        if item is not None:
                            yield item
                        if self._is_full:
                            break
                except _DAMAGE as error:
                    item = self._counted(finding_from_error(error, span))
                    if item is not None:
                        yield item
                if self._is_full:
                    break
        except _DAMAGE as error:
            item = self._counted(finding_from_error(error, self._context.view.span()))
            if item is not None:
                yield item
        if self._tally is not None:
            yield from self._tally.rest()

    def _counted(self, item: FoundContainer | Finding) -> FoundContainer | Finding | None:
        """Count an item and return it; None for one finding too many, and a finding for one container too many."""
        if isinstance(item, Finding):
            self._is_wrong |= item.code.startswith("FP30") and item.severity != "note"
            return item if self._tally is None or self._tally.keeps(item) else None
        if self._is_object:
            self._found.append(item)
        progress = self._context.progress
        if self._tally is not None:
            progress.containers -= 1
            if progress.containers < 0:
                self._is_full = progress.has_plain_members = True
                text = f"more than {pluralize(limits.CONTAINERS, 'container')}; the rest is not listed"
                return finding("FP1005", item.span, text, limits.advice("CONTAINERS"))
        return item

    def _parts(self) -> Iterator[tuple[Span, Callable[..., Iterable[FoundContainer | Finding]], tuple[object, ...]]]:
        """Yield the parts of the file: span, function and arguments. A part is read before the next is yielded."""
        context = self._context
        view, whole = context.view, context.view.span()
        if context.host == "raw":
            yield whole, self._raw, ()
            return
        for place in self._places():
            if isinstance(place, Finding):
                yield place.span, self._wrong, (place,)
                continue
            span = place.data.span()
            if place.findings:
                yield span, _of_section, (place.section, place.findings)
            if place.data.source is view.source and place.content != RECORDS:
                self._searched_ranges.append((place.data.start - view.start, place.data.end - view.start))
            if place.content == MEMBER:
                yield span, self._member, (place,)
            elif place.content in _DEFERRED:
                self._deferred.append(place)
            else:
                yield span, self._containers, (place,)
        if self._deferred:
            yield whole, self._together, ()
        if context.host == "elf" and not context.is_inside:
            yield whole, self._gcc_offload, ()
        if context.host != "archive":
            yield whole, self._elsewhere, ()
        if self._has_host_code:
            yield whole, self._registration, ()

    @property
    def _tables(self) -> DeviceSections | None:
        """The search for the sections of an ELF file, with the tables that it has read; None for other hosts."""
        from fatpack.binary.elf.device_sections import DeviceSections

        return self._located if isinstance(self._located, DeviceSections) else None

    def _gcc_offload(self) -> Iterator[FoundContainer | Finding]:
        """Yield the images that GCC's own offloading registers, and findings about it; no search finds them again."""
        context, sections, tables = self._context, None, self._tables
        if tables is None or not tables.may_have_gcc_code:
            return
        from fatpack.registration.gcc_offload import find_gcc_offload

        for item in find_gcc_offload(context.view):
            if isinstance(item, Finding):
                yield item
                continue
            from fatpack.scanner.carve import SectionIndex

            container, stored = item
            start = context.view.start
            self._searched_ranges += [(image.span.start - start, image.span.end - start) for image in container.images]
            sections = sections or SectionIndex(binary.sections(context.host, context.view))
            name, index = sections.at(stored.start - start)
            yield _found(container, stored, context, name, index, self._inside)

    def _places(self) -> Iterator[CodeSection | Finding]:
        """Yield the places and findings of the host; of a host with sections, tables about the others first.

        If the host is damaged, that finding is the last.
        """
        view, host = self._context.view, self._context.host
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
        """Yield a finding of the host, and the containers after a damaged member of an archive."""
        context = self._context
        self._is_damaged = self._is_damaged or item.severity == "error"
        yield self._advised(item)
        if context.search != SEARCH_SECTIONS and item.code == "FP2101":
            rest = context.view.slice(item.span.start - context.view.start, item.span.size)
            yield from _searched(context.replace(view=rest, host="raw"), None, may_be_cut=True)

    def _advised(self, item: Finding) -> Finding:
        """Return a finding of a host with the advice to search the whole file if that may find more.

        A device image is an ELF file too, and has no containers.
        """
        context = self._context
        if context.search != SEARCH_SECTIONS:
            return item.replace(hint="") if item.hint.startswith(cli_or_api("--deep", "deep=True")) else item
        if item.severity != "error" or (context.host not in _WITH_SECTIONS and item.code != "FP2101"):
            return item
        if context.host == "elf" and images.identify_image(context.view).form in ("cubin", "code-object"):
            return item
        # The section table of a damaged host is incomplete.
        left = f"{cli_or_api('--deep', 'deep=True')} lists the remaining device code"
        return item.replace(hint=f"{item.hint}; {left}" if item.hint else left)

    def _raw(self) -> Iterator[FoundContainer | Finding]:
        """Yield the containers of a file without a host: a container itself, an MLIR module, or a file to search."""
        context = self._context
        view = context.view
        if starts_as_container(context):
            parted = None
            if not formats.format_by_magic(view.head(0, 24)):
                from fatpack.scanner.unsupported_files import split_mlir_finding

                parted = split_mlir_finding(view)
            yield from _RegionScan(CodeSection(_first_part(view, parted)), context, self._inside).items()
            yield from filter(None, (parted,))
            return
        from fatpack.scanner import unsupported_files

        found = False
        for item in _in_module(view, context, is_file=True):
            found = found or isinstance(item, FoundContainer)
            yield item
        if images.identify_image(view).form == "cir":
            yield from filter(None, (unsupported_files.split_mlir_finding(view),))
        for item in _in_compiler_text(view, context) if not found else ():
            found = found or isinstance(item, FoundContainer)
            yield item
        if found:
            return
        is_searched = context.search == SEARCH_ALL or (
            context.search == SEARCH_ANYWHERE and not unsupported_files.is_compressed(view)
        )
        if is_searched:
            yield from _searched(context, None, may_be_cut=True)
        elif context.search == SEARCH_ANYWHERE:
            context.progress.skip(WHOLE_FILE, 1, len(view))
        refused = unsupported_files.unsupported_finding(view, is_searched)
        if refused is not None:
            yield refused

    def _member(self, place: CodeSection) -> Iterator[FoundContainer | Finding]:
        """Yield everything in a member; one of an archive that is a member itself is called ``inner.a(a.o)``."""
        archive = self._context
        if archive.depth <= 0:
            text = f"{place.member or 'member'} is nested too deeply"
            yield finding("FP1004", place.data.span(), text, limits.advice("NESTING"))
            return
        if not len(place.data):
            return
        title = place.member if archive.member is None else f"{archive.member}({place.member})"
        host = detect_host(place.data)
        # A member that no module reads is searched as a file of its own is: its device code would be missed otherwise.
        search = max(archive.search, SEARCH_ANYWHERE) if host == "raw" else archive.search
        progress, numbers = archive.progress, (*archive.numbers, place.number)
        left = progress.containers
        member = ScanContext(place.data, host, archive.depth - 1, search, progress, title, numbers)
        yield from _FileScan(member).items()
        if progress.containers == left and host != "archive":
            progress.has_plain_members = True

    def _containers(self, place: CodeSection) -> Iterable[FoundContainer | Finding]:
        """Return the containers of a place with the attributes that the host has for them, and record their offsets."""
        if _may_be_raw(place):
            self._deferred.append(place)
            return ()
        if not self._are_tables_read:
            self._module_ids, self._are_tables_read = _module_ids(self._deferred), True
        attributes = iter(self._module_ids.of(place)) if self._module_ids is not None else None
        return _RegionScan(place, self._context, self._inside).items(self._starts, attributes)

    def _registration(self) -> Iterator[Finding]:
        """Yield findings about the kernels that the host registers and launches, or record its registrations."""
        if not self._context.progress.checks_registration:
            return
        is_wrong = self._is_wrong
        from fatpack.registration.analysis import analyze
        from fatpack.scanner.image_names import defined_variables, kernel_names_by_arch

        is_wrapped = any(found.section in _REGISTERED for found in self._found)
        context, tables = self._context, self._tables
        names, variables = lambda: kernel_names_by_arch(self._found), lambda: defined_variables(self._found) or set()
        for item in analyze.registration_findings(
            context.view, context.host, names, variables, is_wrapped=is_wrapped, elf=tables.elf if tables else None
        ):
            if isinstance(item, Finding):
                yield item
            elif not is_wrong and not context.is_inside:
                context.progress.units.append(item.replace(member=context.member, numbers=context.numbers))

    def _together(self) -> Iterator[FoundContainer | Finding]:
        """Yield containers spread over several sections; independent sections are scanned one by one."""
        from fatpack.registration import combine_sections

        context = self._context
        already = tuple(self._searched_ranges)
        for item in combine_sections.read_combined(context.view, context.host, self._deferred, self._starts, already):
            if isinstance(item, Finding):
                yield item
            elif isinstance(item, CodeSection):
                place = item.data.start - context.view.start, item.data.end - context.view.start
                context.progress.is_outside = context.progress.is_outside or place not in already
                self._searched_ranges.append(place)
                if item.content == IMAGE:
                    yield from self._registered_image(item, place)
                else:
                    yield from _RegionScan(item, context, self._inside).items()
            else:
                yield _found(item.container, item.data, context, item.section, item.index, self._inside)
                yield from _of_section(item.section, item.container.findings)

    def _registered_image(self, site: CodeSection, place: tuple[int, int]) -> Iterator[FoundContainer | Finding]:
        """Yield an image that a record registers without a container, as a container of its own."""
        from fatpack.scanner import bare_images

        if (site.section or "").startswith(OFFLOADING):  # its record has its size
            container = bare_images.bare_image_container(site.data, offload="openmp")
            yield _found(container, site.data, self._context, site.section, site.index, self._inside)
            return
        for item in bare_images.find_bare_images(self._context.view, [place]):
            if isinstance(item, Finding):
                yield item
            else:
                yield _found(*item, self._context, site.section, site.index, self._inside)

    def _elsewhere(self) -> Iterator[FoundContainer | Finding]:
        """Yield containers outside the sections for device code: in sections of unknown names, in data, or anywhere.

        The code of a program that has some loads them by itself, so there may be others: it is searched, too.
        """
        context = self._context
        if context.search != SEARCH_ALL and _is_device_image(context):
            return
        view, is_whole, division = context.view, context.search >= SEARCH_ANYWHERE, None
        if not is_whole:
            division = binary.divided_sections(context.host, view, self._located)
            tells = bool(division.skipped) or bool(binary.sections(context.host, view))
            if self._is_damaged or not tells:  # it has no table of its data
                is_whole, context.progress.has_more = context.search == SEARCH_DATA, True
        has_data, places = False, [(0, len(view))]
        if not is_whole and division is not None:
            has_data = context.search == SEARCH_DATA or _is_program(context)
            places = self._places_to_search(division, has_data=has_data)
        has_found = False
        for item in self._search(places, may_be_cut=is_whole and self._is_damaged, has_data=has_data):
            has_found = has_found or isinstance(item, FoundContainer)
            yield item
        if division is None or is_whole:
            return
        if has_found and has_data:
            yield from self._search(division.code, may_be_cut=False, has_data=True)
            return
        for name, (count, total) in division.skipped.items():
            if not has_data or name not in division.data:
                context.progress.skip(name, count, total)

    def _search(
        self, places: Sequence[tuple[int, int]], *, may_be_cut: bool, has_data: bool
    ) -> Iterator[FoundContainer | Finding]:
        """Yield the containers of some ranges that no section was scanned for."""
        if set(places) <= set(self._searched_ranges):
            return
        from fatpack.scanner.carve import intersect_ranges, ranges_between

        rest = intersect_ranges(places, list(ranges_between(self._searched_ranges, len(self._context.view))))
        yield from _searched(self._context, rest, may_be_cut=may_be_cut, has_data=has_data)

    def _places_to_search(self, division: SectionSplit, *, has_data: bool) -> list[tuple[int, int]]:
        """Return the sections of unknown names, with ``has_data`` those of data too."""
        if not has_data:
            progress = self._context.progress
            progress.has_more = progress.has_more or bool(division.data)
            return list(division.searched)
        return [*division.searched, *(place for places in division.data.values() for place in places)]


def _of_section(section: str | None, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings with the name of their section."""
    for item in findings:
        yield item.replace(section=section) if section and not item.section else item


def _module_ids(tables: Sequence[CodeSection]) -> ModuleIds | None:
    """Return the module IDs of the units of CUDA code in the tables of a host, None if there are none."""
    if not any((site.section or "").rpartition(",")[2].startswith("__nv_mod") for site in tables):
        return None
    from fatpack.registration import stripped_programs

    return stripped_programs.read_module_ids(tables)


#: e_type of programs and libraries in ELF, and filetype of those in Mach-O, in either byte order
_ELF_PROGRAMS = frozenset(type.to_bytes(2, order) for type in (2, 3) for order in _ORDERS)
_MACH_O_PROGRAMS = frozenset(type.to_bytes(4, order) for type in (2, 6, 8) for order in _ORDERS)


def _is_program(context: ScanContext) -> bool:
    """Return whether a host is a linked program or library, whose data may have device code that it loads itself."""
    if context.host == "elf":
        return context.view.head(16, 2) in _ELF_PROGRAMS
    if context.host == "macho":
        return context.view.head(12, 4) in _MACH_O_PROGRAMS
    return context.host == "pe"


def _is_device_image(context: ScanContext) -> bool:
    return context.host == "elf" and images.is_device_elf(context.view)


def starts_as_container(context: ScanContext) -> bool:
    """Return whether a file is a sequence of containers from its first byte on."""
    view = context.view
    return (
        context.host == "raw"
        and (formats.format_by_magic(view.head(0, 24)) or formats.find_text_format(view)) is not None
    )


def _first_part(view: View, parted: Finding | None) -> View:
    """Return the part of an MLIR file before its first separator, if that is the container; else all of it."""
    if parted is None:
        return view
    part = view.slice(0, parted.span.start - view.start)
    return part if formats.find_text_format(part) is not None else view


#: Words in a host module of ClangIR with a GPU binary in it, before and after lowering.
_BINARY_WORDS = (b"cir.cu.device_binary", b"_fatbin_str")


def _in_module(view: View, context: ScanContext, *, is_file: bool = False) -> Iterator[FoundContainer | Finding]:
    """Yield the containers in the strings of an MLIR module, if the bytes are one.

    For a file that is a module (``is_file``) its findings are yielded too: damage, and unregistered kernels.
    """
    if is_file and images.identify_image(view).form != "cir":
        return
    if not is_file and not _has_word(view):
        return
    from fatpack.formats.cir.gpu_binary import find_binaries

    if context.depth <= 0:
        yield finding("FP1004", view.span(), "containers nested deeper than the limit", limits.advice("NESTING"))
        return
    member, numbers = (context.member, context.numbers) if is_file else (None, ())
    try:
        for binary in find_binaries(view):
            if isinstance(binary, Finding):
                if is_file:
                    yield binary
                continue
            for item in _FileScan(context.inside(binary.data).replace(member=member, numbers=numbers)).items():
                yield item if isinstance(item, Finding) else item.replace(host="text", section=binary.holder)
    except (FormatError, Unsupported) as error:
        yield finding_from_error(error, view.span())


#: findings that a container ends too early; a bundle has no size of its own, only those of its entries
_CUT = ("FP1001", "FP1301", "FP1302")


def _in_compiler_text(view: View, context: ScanContext) -> Iterator[FoundContainer | Finding]:
    """Yield the containers that LLVM IR, assembly or nvcc's C file with a fat binary spells."""
    from fatpack.scanner.unsupported_files import has_spelled_code, undecoded_finding

    if not has_spelled_code(view):
        return
    from fatpack.scanner.compiler_text import find_text_containers

    if context.depth <= 0:
        yield finding("FP1004", view.span(), "containers nested deeper than the limit", limits.advice("NESTING"))
        return
    is_cut = has_containers = False
    for spelled in find_text_containers(view):
        name = formats.format_by_magic(spelled.data.head(0, 24))
        size = formats.get_format(name).extent(spelled.data) if name else None
        if size is None or size > len(spelled.data):
            is_cut = True
            continue
        end = next((label for label in spelled.labels if label >= size), len(spelled.data))
        inside = context.inside(spelled.data.slice(0, end)).replace(member=context.member, numbers=context.numbers)
        items = list(_FileScan(inside).items())  # of a text of limited size
        if any(isinstance(item, Finding) and item.code in _CUT for item in items):
            is_cut = True  # more likely a text that is not understood than a damaged container
            continue
        for item in items:
            has_containers = has_containers or isinstance(item, FoundContainer)
            yield item if isinstance(item, Finding) else item.replace(host="text", section=spelled.holder)
    if is_cut and has_containers:  # a text without containers gets its finding from the scan
        yield undecoded_finding(view)


def _has_word(view: View) -> bool:
    if len(view) > limits.CHUNK:
        return any(view.find(word) >= 0 for word in _BINARY_WORDS)
    module = view.tobytes()  # most are small, and there may be very many
    return any(word in module for word in _BINARY_WORDS)


def _may_be_raw(site: CodeSection) -> bool:
    """Return whether a section of LLVM may have images without a container, as in its SYCL programs."""
    return (site.section or "").startswith(OFFLOADING) and formats.format_by_magic(site.data.head(0, 24)) is None


def _searched(
    context: ScanContext, ranges: Iterable[tuple[int, int]] | None, *, may_be_cut: bool, has_data: bool = False
) -> Iterator[FoundContainer | Finding]:
    """Yield the containers in some ranges of a file, by default all of it, each with its section.

    If everything or the data of a host (``has_data``) is searched, device images outside containers follow.
    """
    from fatpack.scanner.carve import PassedMagics, SectionIndex, carve

    view, sections, inside = context.view, None, _InsideScanner(context)
    ranges = [(0, len(view))] if ranges is None else list(ranges)
    found: list[tuple[int, int]] = []
    passed: PassedMagics | None = None
    searches: list[Iterator[tuple[Container, View] | Finding]] = []
    if has_data or context.search == SEARCH_ALL:
        from fatpack.scanner.bare_images import MAGICS

        passed = PassedMagics(MAGICS)
        searches.append(_bare_images_between(found, context, ranges, passed))
    searches.insert(0, carve(view, ranges, may_be_cut=may_be_cut, passed=passed))
    for search in searches:
        for item in search:
            if isinstance(item, Finding):
                yield item
                continue
            container, stored = item
            found.append((stored.start - view.start, stored.end - view.start))
            if sections is None:
                sections = SectionIndex(binary.sections(context.host, view))
                context.progress.is_outside = context.progress.is_outside or context.host != "raw"
            name, index = sections.at(stored.start - view.start)
            yield _found(container, stored, context, name, index, inside)
            yield from _of_section(name, container.findings)


def _bare_images_between(
    found: Sequence[tuple[int, int]],
    context: ScanContext,
    ranges: Sequence[tuple[int, int]],
    passed: PassedMagics,
) -> Iterator[tuple[Container, View] | Finding]:
    """Yield the device images outside the containers ``found``, which is read when the first image is taken.

    ``passed`` are the magics of images that the search for the containers met.
    """
    from fatpack.scanner import bare_images
    from fatpack.scanner.carve import intersect_ranges, ranges_between

    rest = list(ranges_between(found, len(context.view)))
    yield from bare_images.find_bare_images(context.view, intersect_ranges(ranges, rest), passed)


def _found(
    container: Container,
    stored: View,
    context: ScanContext,
    section: str | None,
    index: int | None,
    inside: _InsideScanner,
) -> FoundContainer:
    images = identify_images(container.images, inside if context.progress.identifies_images else None)
    return FoundContainer(container, stored, context.host, section, context.member, index, images, context.numbers)
