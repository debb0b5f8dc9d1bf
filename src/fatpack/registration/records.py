"""Registration records of CUDA (``.nvFatBinSegment``) and HIP, compared with the containers in the file.

::

    0x00  magic 0x466243b1 ("\xb1CbF" in a dump)   0x04  version   0x08  pointer to the fat binary
    0x10  version 1: 0                             version 2: pointer to pointers to prelinked fat binaries, then 0

One record per translation unit. A device link (nvcc -dlink) writes version 2; its second pointer points to memory that
is filled when the program starts, and is followed if the file has bytes there. The fat binary may be in any section:
records find it elsewhere, too.

The fat binary of tile code (nvcc 13.5, ``--enable-tile``) has its record in ``.nvFatBinSegmentAlt``, apart from the
record of the other kernels of its unit; an RDC unit has it in ``.nv_fatbin`` as well.

How we know: ``fatbinary_section.h`` of CUDA and clang/lib/CodeGen/CGCUDANV.cpp (LLVM 22.1) for the record; objects and
libraries of nvcc 13.0 and clang 22 for the pointers. NVIDIA's own libraries have as many records as fat binaries,
except for those of a device link without input: cubins without a symbol, which need no record.
"""

from __future__ import annotations

from fatpack import binary, formats, images, magic_numbers
from fatpack.binary import IMAGE, CodeSection
from fatpack.binary.elf.layout import SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.binary.pointers import HOSTS, INSIDE, NULL, OUTSIDE, UNDEFINED, UNKNOWN, open_pointers
from fatpack.binary.section_names import CUDA_RECORDS, CUDA_TILE_RECORDS, HIP_RECORDS, with_cut
from fatpack.errors import FormatError, LimitExceeded
from fatpack.findings import finding
from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from fatpack.binary.pointers import Pointer, PointerReader
    from fatpack.io.source import Span, View
    from fatpack.registration.kpack_marker import KpackMarker


# Both models have the same record, one per translation unit, one after the other in a section:
#
#     0x00  magic u32   0x04  version u32   0x08  pointer to the container   0x10  pointer, defined by the version
#
# (clang/lib/CodeGen/CGCUDANV.cpp, LLVM 22.1, for both models; nvcc's ``fatbinary_section.h``). On 32-bit hosts pointers
# have 4 bytes.

#: LIMIT: records that are read. The known library with most bundles has 845.
_MOST = 1 << 16

#: LIMIT: sections of records of one host. Linkers make one, and the relocations are read for each.
_MOST_TABLES = 64

#: containers whose offsets a finding lists
_MOST_NAMED = 4


class RegistrationRecord(Record):
    """A record and the target of its pointer.

    ``at`` is its position in the section, ``span`` its range in the file, ``title`` its name in findings.
    """

    at: int
    span: Span
    title: str
    magic: int
    version: int
    pointer: Pointer


class RecordModel(Record):
    """The differences between the records of CUDA and HIP.

    ``names``: names of their sections. ``versions``: the versions by magic (empty if any is valid; the first magic is
    the usual one). ``container``: the noun for the target. The others are codes of findings: the record is ``wrong``,
    it ``leads`` to no container, a container is ``unregistered``.
    """

    names: Collection[str]
    versions: Mapping[int, Collection[int]]
    container: str
    containers: str
    wrong: str
    leads: str
    unregistered: str


class RecordSection(Record):
    """A section of records: its location, the reader of its host's pointers, and the records in it."""

    site: CodeSection
    reader: PointerReader
    records: Sequence[RegistrationRecord]


def find_record_sections(
    view: View, host: str, tables: Sequence[CodeSection], model: RecordModel
) -> Iterator[RecordSection | Finding]:
    """Yield the sections of a model's records in a host, and findings about them.

    The text after a ``$`` in a name only sorts the sections of COFF objects.
    """
    found = [site for site in tables if (site.section or "").partition("$")[0] in model.names]
    if not found or host not in HOSTS:  # bitcode has no pointers
        return
    if len(found) > _MOST_TABLES:
        text = f"{len(found)} sections of records; only the first {_MOST_TABLES} are read"
        yield finding("FP1005", found[_MOST_TABLES].data.span(), text)
    try:
        reader = open_pointers(view, host)
    except FormatError as error:
        yield finding(model.wrong, view.span(), error.describe(), error.hint)
        return
    for site in found[:_MOST_TABLES]:
        records, problems = _read(site, reader, model)
        yield from problems
        yield RecordSection(site, reader, records)


def _read(
    site: CodeSection, reader: PointerReader, model: RecordModel
) -> tuple[list[RegistrationRecord], list[Finding]]:
    """Return the records of a section that have one of the magics, in order, and findings about the others."""
    data, step = site.data, 8 + 2 * reader.word
    count, rest = divmod(len(data), step)
    heads: list[tuple[int, int, int]] = []
    problems: list[Finding] = []
    if count > _MOST:
        problems.append(finding("FP1005", data.span(), f"{count} records; only the first {_MOST} are read"))
        count, rest = _MOST, 0
    expected = next(iter(model.versions))
    for at in range(0, count * step, step):
        head = data.read(at, step)
        magic, version = (int.from_bytes(head[place : place + 4], reader.order) for place in (0, 4))
        name = _title(site, at, step)
        if magic not in model.versions:
            # Linkers for Windows pad between the sections of objects.
            if any(head):
                text = f"{name} has magic {magic:#010x}, {expected:#010x} was expected"
                problems.append(finding(model.wrong, data.span(at, step), text))
            continue
        versions = model.versions[magic]
        if versions and version not in versions:
            expected_versions = " or ".join(map(str, versions))
            text = f"{name} is of version {version}, {expected_versions} was expected"
            problems.append(finding(model.wrong, data.span(at, step), text))
        heads.append((at, magic, version))
    if rest and any(data.head(count * step, rest)):
        text = f"{rest} bytes of {site.section} are no whole record"
        problems.append(finding(model.wrong, data.span(count * step, rest), text))
    pointers = reader.pointers(site, [at + 8 for at, _, _ in heads])
    records = [
        RegistrationRecord(at, data.span(at, step), _title(site, at, step), magic, version, pointer)
        for (at, magic, version), pointer in zip(heads, pointers, strict=True)
    ]
    return records, problems


def _title(site: CodeSection, at: int, step: int) -> str:
    return f"record {at // step} of {site.section}"


class ContainerRegistrations:
    """The containers of a host that its records register.

    ``starts`` are the absolute offsets of the containers that were found; ``starts_container`` tells if a container may
    start at another position of the view.
    """

    def __init__(
        self, view: View, model: RecordModel, starts: Collection[int], starts_container: Callable[[int], bool]
    ) -> None:
        self._view = view
        self._model = model
        self._starts = starts
        self._starts_container = starts_container
        #: positions outside ``starts`` to which records point → the pointer, and the record
        self.elsewhere: dict[int, tuple[Pointer, Span, str]] = {}
        #: absolute offsets of the containers without a record
        self.unregistered = set(starts)
        self._registered = self._unresolved = 0

    def follow(self, pointer: Pointer, span: Span, title: str) -> Iterator[Finding]:
        """Record the target of a pointer, and yield findings about it."""
        model = self._model
        self._registered += pointer.kind != UNDEFINED
        self._unresolved += pointer.kind == UNKNOWN
        if pointer.kind == NULL:
            yield finding(model.leads, span, f"{title} holds a null pointer")
        elif pointer.kind == OUTSIDE:
            yield finding(model.leads, span, f"{title} points to {pointer.address:#x}, where the file has no bytes")
        elif pointer.kind == INSIDE:
            start = self._view.start + pointer.position
            if start in self._starts:
                self.unregistered.discard(start)
            elif self._starts_container(pointer.position):
                self.elsewhere.setdefault(pointer.position, (pointer, span, title))
            else:
                yield finding(model.leads, span, f"{title} points to {start:#x}, where no {model.container} starts")

    def missing(self, site: CodeSection, unregistered: Collection[int]) -> Iterator[Finding]:
        """Yield the finding that containers are not registered, if that is certain; ``site`` has records."""
        model, count = self._model, len(self._starts)
        if not unregistered or (self._unresolved and self._registered >= count):
            return
        where = ", ".join(f"{start:#x}" for start in sorted(unregistered)[:_MOST_NAMED])
        more = f" and {len(unregistered) - _MOST_NAMED} more" if len(unregistered) > _MOST_NAMED else ""
        verb = "is" if len(unregistered) == 1 else "are"
        text = f"{len(unregistered)} of {count} {model.containers} {verb} not registered"
        text = f"{text}: no record points to {where}{more}"
        if self._unresolved:
            text = f"{count} {model.containers} are here, and records register {self._registered}"
        yield finding(model.unregistered, site.data.span(), text, _UNREGISTERED_HINT)

    def without_images(self, emptied: Collection[int]) -> Iterator[Finding]:
        """Yield the note that registered containers have no device images; ``emptied`` are the offsets of all such."""
        found = sorted(set(emptied).intersection(self._starts) - self.unregistered)
        if found:
            noun = self._model.container if len(found) == 1 else self._model.containers
            text = f"{len(found)} registered {noun} without any image for a device"
            span = self._view.slice(found[0] - self._view.start, 1).span()
            yield finding("FP3061", span, text, _EMPTIED_HINT)


_EMPTIED_HINT = (
    "kernels registered with one run on no device; fatpack slim leaves these if none of the devices was served"
)

#: Consequence of a container in a program without a record.
_UNREGISTERED_HINT = "the runtime does not load it, so its kernels cannot be launched; compile and link again"


# HIP: ``.hipFatBinSegment``
#
#     0x00  magic 0x48495046 ("FPIH" in a dump)   0x04  version 1   0x08  pointer to the bundle   0x10  0
#
# One record per translation unit, or one per unit that all point to one bundle (-fgpu-rdc). In objects of -fgpu-rdc the
# bundle is an undefined symbol ``__hip_fatbin_<cuid>``: it comes with the link. (clang/lib/CodeGen/CGCUDANV.cpp,
# LLVM 22.1; the second magic: kpack of TheRock, which moves device code into separate archives, and for which the last
# field is a number: :mod:`fatpack.registration.kpack_marker`.)

HIP_NAMES = with_cut(HIP_RECORDS)

HIP_MAGIC = int.from_bytes(magic_numbers.HIP_WRAPPER, "little")
_KPACK_MAGIC = int.from_bytes(magic_numbers.KPACK_WRAPPER, "little")
_HIP_VERSION = 1


#: The properties of HIP's records.
HIP_MODEL = RecordModel(
    names=HIP_NAMES,
    versions={HIP_MAGIC: (_HIP_VERSION,), _KPACK_MAGIC: (_HIP_VERSION,)},
    container="bundle",
    containers="bundles",
    wrong="FP3001",
    leads="FP3003",
    unregistered="FP3002",
)


def check_hip_records(
    view: View, host: str, tables: Sequence[CodeSection], bundles: Collection[int], emptied: Collection[int] = ()
) -> Iterator[Finding]:
    """Yield findings about the records of a host.

    ``bundles`` are the absolute offsets of its bundles, ``emptied`` those of containers without device images. Nothing
    for a host without records: its bundles may be registered in another way.
    """
    registrations = ContainerRegistrations(view, HIP_MODEL, bundles, lambda position: _may_start(view, position))
    first = None
    is_kpack = False
    for segment in find_record_sections(view, host, tables, HIP_MODEL):
        if isinstance(segment, Finding):
            yield segment
            continue
        first = first or segment.site
        kpacks = [record for record in segment.records if record.magic == _KPACK_MAGIC]
        is_kpack = is_kpack or bool(kpacks)
        if kpacks:
            text = f"{len(kpacks)} of its records say that the device code was moved to a separate archive (kpack)"
            yield finding("FP3004", kpacks[0].span, f"{segment.site.section}: {text}")
            from fatpack.registration import kpack_marker

            yield from (item for item in kpack_marker.read_markers(view, segment) if isinstance(item, Finding))
        for record in segment.records:
            if record.magic != _KPACK_MAGIC:
                yield from registrations.follow(record.pointer, record.span, record.title)
    if first is not None and not is_kpack:
        yield from registrations.missing(first, registrations.unregistered)
        yield from registrations.without_images(emptied)


def kpack_markers(view: View, host: str) -> Iterator[KpackMarker | Finding]:
    """Yield the references of a host's records to code objects in kpack archives, and findings about these records.

    Nothing for a program whose records point to bundles. Raises FormatError if its sections cannot be located.
    """
    if host not in HOSTS:
        return
    places = binary.get_host(host).locate(view)
    tables = [site for site in places if not isinstance(site, Finding) and site.content == binary.TABLE]
    for segment in find_record_sections(view, host, tables, HIP_MODEL):
        if isinstance(segment, Finding):
            yield segment
        else:
            from fatpack.registration import kpack_marker

            yield from kpack_marker.read_markers(view, segment)


def _may_start(view: View, position: int) -> bool:
    """Return whether the target of a record may be a bundle; a damaged bundle was reported already.

    The runtime also loads code objects without a bundle.
    """
    head = view.head(position, 24)
    return bool(formats.format_by_magic(head)) or head.startswith(magic_numbers.ELF)


CUDA_NAMES = with_cut(CUDA_RECORDS, CUDA_TILE_RECORDS)

CUDA_MAGIC = int.from_bytes(magic_numbers.CUDA_WRAPPER, "little")
_CUDA_VERSION, LINKED_VERSION = 1, 2

_FATBIN = "cuda-fatbin"

#: st_info: types of symbols for sections and files
_OF_THE_FILE = (3, 4)

#: LIMIT: lists of prelinked fat binaries in a section of records, and pointers of each. Programs have one, in memory.
_MOST_LISTS = 256
_PRELINKED = 256


#: The properties of CUDA's records.
CUDA_MODEL = RecordModel(
    names=CUDA_NAMES,
    versions={CUDA_MAGIC: (_CUDA_VERSION, LINKED_VERSION)},
    container="fat binary",
    containers="fat binaries",
    wrong="FP3031",
    leads="FP3033",
    unregistered="FP3032",
)


def check_cuda_records(
    view: View,
    host: str,
    tables: Sequence[CodeSection],
    fatbins: Collection[int],
    searched_ranges: Sequence[tuple[int, int]],
    emptied: Collection[int] = (),
) -> Iterator[CodeSection | Finding]:
    """Yield findings about the records of a host, and the locations of fat binaries outside the usual sections.

    ``fatbins`` are the absolute offsets of the fat binaries that were found, ``searched_ranges`` the ranges of the view
    that were searched for them, ``emptied`` the offsets of containers without images. Nothing for a host without
    records.
    """
    registrations = ContainerRegistrations(view, CUDA_MODEL, fatbins, lambda position: _starts_fatbin(view, position))
    first = None
    for segment in find_record_sections(view, host, tables, CUDA_MODEL):
        if isinstance(segment, Finding):
            yield segment
            continue
        first = first or segment.site
        for record in segment.records:
            yield from registrations.follow(record.pointer, record.span, record.title)
        for item in prelinked_pointers(segment):
            if isinstance(item, Finding):
                yield item
                continue
            _, pointer, record = item
            yield from registrations.follow(pointer, record.span, f"a prelinked fat binary of {record.title}")
    if first is not None:
        yield from _elsewhere(view, host, registrations, sorted(searched_ranges))
        yield from registrations.missing(
            first, {start for start in registrations.unregistered if not registers_nothing(view, start)}
        )
        yield from registrations.without_images(emptied)


def _starts_fatbin(view: View, position: int) -> bool:
    return formats.format_by_magic(view.head(position, 24)) == _FATBIN or _is_cubin(view, position)


def _is_cubin(view: View, position: int) -> bool:
    """Return whether the target is a device image instead of a fat binary."""
    if view.head(position, 4) != magic_numbers.ELF:
        return False
    return images.identify_image(view.slice(position, len(view) - position)).form == "cubin"


def _elsewhere(
    view: View, host: str, registrations: ContainerRegistrations, searched_ranges: Sequence[tuple[int, int]]
) -> Iterator[CodeSection | Finding]:
    """Yield the fat binaries outside the searched ranges, in the order of their bytes; none overlaps another.

    One inside of them is damaged, which was reported.
    """
    places = [
        (position, *place)
        for position, place in sorted(registrations.elsewhere.items())
        if not _is_in(position, searched_ranges, len(view))
    ]
    rows = binary.sections(host, view) if places else []
    names = {number: name for _, _, name, number in rows}
    reached = 0
    for position, pointer, span, title in places:
        if position < reached:
            yield finding("FP3033", span, f"{title} points into a fat binary")
            continue
        if _is_cubin(view, position):
            yield from _cubin(view, position, pointer, span, title, names.get(pointer.section or 0) or None)
            continue
        here = view.slice(position, pointer.room)
        # A truncated one may have intact entries up to the end of the section.
        size = formats.get_format(_FATBIN).extent(here, 0) or pointer.room
        reached = position + size
        name = names.get(pointer.section or 0) or None
        yield CodeSection(view.slice(position, size, name or ""), name, pointer.section)


def _cubin(
    view: View, position: int, pointer: Pointer, span: Span, title: str, section: str | None
) -> Iterator[CodeSection | Finding]:
    """Yield the location of a cubin that a record registers like a fat binary."""
    size = images.identify_image(view.slice(position, pointer.room)).size
    yield finding("FP3034", span, f"{title} points to a cubin without a fat binary around it")
    yield CodeSection(
        view.slice(position, min(size or pointer.room, pointer.room)), section, pointer.section, content=IMAGE
    )


def _is_in(position: int, ranges: Sequence[tuple[int, int]], size: int) -> bool:
    """Return whether a position lies in one of the ranges, which are sorted."""
    from bisect import bisect_right

    number = bisect_right(ranges, (position, size)) - 1
    return number >= 0 and position < ranges[number][1]


def registers_nothing(view: View, start: int) -> bool:
    """Return whether the fat binary at an absolute offset has no kernel or variable to register, in cubins only."""
    found = formats.get_format(_FATBIN).parse(view, start - view.start).images
    return bool(found) and not any(
        image.form != "cubin" or image.compression or _has_symbols(image.data) for image in found
    )


def _has_symbols(cubin: View) -> bool:
    """Return whether a cubin defines anything except sections and files; True if its symbol table is damaged."""
    try:
        return any(
            section and info & 15 not in _OF_THE_FILE for _, info, _, section in ElfSymbolTable(cubin, (SYMTAB,))
        )
    except (FormatError, LimitExceeded):
        return True


def prelinked_pointers(segment: RecordSection) -> Iterator[tuple[int, Pointer, RegistrationRecord] | Finding]:
    """Yield the pointers to prelinked fat binaries that a program's file has, each with its address and its record."""
    reader = segment.reader
    linked = [record for record in segment.records if record.version == LINKED_VERSION]
    if not linked or not reader.is_linked:
        return
    word = reader.word
    starts = reader.pointers(segment.site, [record.at + 8 + word for record in linked])
    lists = [(record, start) for record, start in zip(linked, starts, strict=True) if start.kind == INSIDE]
    if len(lists) > _MOST_LISTS:
        text = f"{len(lists)} lists of prelinked fat binaries; only the first {_MOST_LISTS} are followed"
        yield finding("FP1005", lists[_MOST_LISTS][0].span, text)
        del lists[_MOST_LISTS:]
    places = [
        (start.address + at, record)
        for record, start in lists
        for at in range(0, min(start.room // word, _PRELINKED) * word, word)
    ]
    ended: set[int] = set()
    for (place, record), pointer in zip(places, reader.values_at([place for place, _ in places]), strict=True):
        if pointer.kind in (NULL, UNKNOWN):
            ended.add(record.at)
        elif record.at not in ended:
            yield place, pointer, record
