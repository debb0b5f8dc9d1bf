"""Sections of device code in an ELF file: by section type as in LLVM, then by name.

LLVM 15 and newer use only the type (``llvm/lib/Object/OffloadBinary.cpp``, ``extractOffloadFiles``): a section of type
0x6FFF4C0B is found for any name. Names identify everything else: sections whose type GNU objcopy could not set,
bundles, and the sections of CUDA and HIP.

Other sections describe device code: ``.hipFatBinSegment`` points to HIP's bundles, ``.nvFatBinSegment`` to CUDA's fat
binaries, ``__nv_module_id`` names their units, ``.tgtimg`` points to SYCL's images, ``.tgtsym`` names their symbols,
``__CLANG_OFFLOAD_BUNDLE_SIZE__<ID>`` states sizes. ``.rocm_kpack_ref`` names the archives to which HIP's code was
moved; ``.hip_fatbin`` then has no bytes. ``.llvm.lto`` is not listed: it has the host's bitcode with a second copy of
the content of ``.llvm.offloading``.
"""

from __future__ import annotations

from fatpack.binary import CONTAINER, IMAGE, IMAGES, RECORDS, TABLE, CodeSection, section_names, without_overlaps
from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile, ElfSection
from fatpack.binary.section_names import (
    BUNDLE_PREFIX,
    FATBINS,
    GCC_OFFLOAD,
    HIP_FATBIN,
    KPACK_REFERENCE,
    OFFLOADING,
    OFFLOADING_RELOCATABLE,
    SIZES_PREFIX,
    SYCL_IMAGES,
)
from fatpack.errors import FormatError, cli_or_api
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.binary import SectionContent
    from fatpack.binary.host_sections import SectionSplit
    from fatpack.io.source import View
    from fatpack.model import Finding


# Section names are remembered. Every object of an archive is read; they come from one compiler, and most have the
# same sections, with equal bytes of the name table and name offsets. An object of a large C++ library has tens of
# thousands of sections of one kind, so only the names of a few are decoded.

#: LIMIT: size of a cached name table, and number of tables: 4 MB at most with their results.
_SIZE, _COUNT = 4096, 64

#: bytes of a name table that the fast path covers; names after them are looked up one by one
_NAMES_SIZE = 64 << 20

_WITHOUT_BYTES = (layout.NULL, layout.NOBITS)

#: First bytes of names that objects have tens of thousands of → their stem (:mod:`fatpack.binary.host_sections`).
_MANY = {
    b".text.": ".text",
    b".data.": ".data",
    b".rodat": ".rodata",
    b".rela.": ".rela",
    b".rel.t": ".rel",
    b".group": ".group",
    b".gcc_e": ".gcc_except_table",
    b".debug": ".debug",
    b".llvm_": ".llvm",
}


class _SectionNames:
    """The section names of an object: ``telling`` are those of device code, by their offsets.

    ``has_gcc``: a section may be one of GCC's own offloading.
    """

    __slots__ = ("_stems", "has_gcc", "telling")

    def __init__(self, elf: ElfFile, names_at: Sequence[int]) -> None:
        strings = elf.names_table()
        named = {at: elf.string(strings, at) for at in _hits(strings, set(names_at))}
        self.telling = {at: name for at, name in named.items() if is_device_name(name) or is_table_name(name)}
        self.has_gcc = strings.find(GCC_OFFLOAD.encode()) >= 0
        self._stems: list[str] | None = None

    def stems(self, elf: ElfFile, names_at: Sequence[int]) -> list[str]:
        """Return the stems of all section names, "" for unknown ones; of the same object, or one with equal names."""
        if self._stems is None:
            from fatpack.binary.host_sections import known_stem

            names = elf.names_table()
            table = names.head(0, _NAMES_SIZE)
            self._stems = [_MANY.get(table[at : at + 6]) or known_stem(elf.string(names, at)) for at in names_at]
        return self._stems


#: bytes of a name table with the offsets of names → what they say
_KNOWN: dict[tuple[bytes, tuple[int, ...]], _SectionNames] = {}


def _section_names(elf: ElfFile, names_at: Sequence[int]) -> _SectionNames:
    """Return what the section names of an object say. Raises BadValue if it has no table of names inside the file."""
    names = elf.names_table()
    if len(names) > _SIZE or len(names_at) > _SIZE // 8:
        return _SectionNames(elf, names_at)
    key = names.tobytes(), tuple(names_at)
    found = _KNOWN.get(key)
    if found is None:
        if len(_KNOWN) >= _COUNT:
            _KNOWN.clear()
        found = _KNOWN[key] = _SectionNames(elf, names_at)
    return found


#: The sections of LLVM's offload binaries.
OFFLOADING_NAMES = (OFFLOADING, OFFLOADING_RELOCATABLE)

#: Names of sections with device code, for any section type.
DEVICE_SECTION_NAMES = (*OFFLOADING_NAMES, *FATBINS, SYCL_IMAGES)

#: Sections with the location, size or description of device code.
TABLES = (*section_names.TABLES, KPACK_REFERENCE)

#: QUIRK(LLVM 14, -fopenmp-new-driver): one section per image, ``.llvm.offloading.<triple>.<arch>.<extension>``, which
#: contains the image without a container.
RAW_IMAGE_PREFIX = ".llvm.offloading."

#: Every name above contains one of these; they are searched in the name table, instead of decoding 70,000 names.
_PREFIXES = (OFFLOADING, BUNDLE_PREFIX[:-1])
_NEEDLES = (
    *(prefix.encode() for prefix in _PREFIXES),
    *(f"{name}\0".encode() for name in (*DEVICE_SECTION_NAMES, *TABLES) if not name.startswith(_PREFIXES)),
)
_LONGEST = max(map(len, _NEEDLES))

_BLOCK = 1 << 20

#: LIMIT: writable segments that are searched. Linkers make one to three.
_MOST_SEGMENTS = 64


def is_device_name(name: str) -> bool:
    """Return whether a section of this name should contain device code."""
    return name in DEVICE_SECTION_NAMES or name.startswith((BUNDLE_PREFIX, RAW_IMAGE_PREFIX))


def is_table_name(name: str) -> bool:
    """Return whether a section of this name describes device code elsewhere."""
    return name in TABLES or name.startswith(SIZES_PREFIX)


class DeviceSections:
    """An iterator over the sections of device code in an ELF file, in the order of their bytes.

    Sections do not overlap: of several with the same bytes the first is yielded, the others become findings. A section
    that is outside the file, or cannot be read, is a finding too. For a program without a section table, its writable
    segments are yielded, which contain the records that point to device code.

    Iterating raises FormatError for a damaged header or section table, and for damaged section names after everything
    that could be found without them.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        #: the tables of the file, None before they are read and if they are damaged
        self.elf: ElfFile | None = None
        self._names: _SectionNames | None = None
        self._places = self._locate()

    def __iter__(self) -> Iterator[CodeSection | Finding]:
        return self

    def __next__(self) -> CodeSection | Finding:
        return next(self._places)

    @property
    def may_have_gcc_code(self) -> bool:
        """True if a section may be one of GCC's own offloading; not for damaged files, and not before iterating."""
        return self._names is not None and self._names.has_gcc

    def division(self) -> SectionSplit:
        """Return the sections with bytes, split into known ones of compilers and linkers, and others.

        Bytes after the ELF image are one of the others: AppImages and installers have a file system there. Of a damaged
        file, returns the readable sections.
        """
        from fatpack.binary.host_sections import split_by_stem

        return split_by_stem(self._sections_with_stems())

    def _sections_with_stems(self) -> Iterator[tuple[int, int, str, str]]:
        try:
            elf = self.elf or ElfFile(self._view)
            reached, present = max(elf.table_end, *[end for _, end in elf.segment_ranges()], 0), len(self._view)
            names_at, types, starts, sizes = elf.columns("name_offset", "type", "offset", "size")
            stems = (self._names or _section_names(elf, names_at)).stems(elf, names_at)
            for stem, type, start, size in zip(stems, types, starts, sizes, strict=True):
                end = start + size
                if not size or type in _WITHOUT_BYTES or end > present:
                    continue
                reached = max(reached, end)
                yield start, end, stem, stem
            if reached < present:
                yield reached, present, "", ""
        except FormatError:
            pass  # iterating reports it

    def _locate(self) -> Iterator[CodeSection | Finding]:
        view = self._view
        try:
            elf = self.elf = ElfFile(view)
        except FormatError:
            yield from _segments(ElfFile(view, sections=False))
            raise
        if not elf.section_count:
            text = "the file has no section table, by which device code is found"
            # Device code may be in places to which no record of CUDA or HIP points.
            deeper = f"{cli_or_api('--deep', 'deep=True')} looks for device code in all of the file"
            yield finding("FP1006", view.span(0, elf.layouts.header.size), text, deeper)
            yield from _segments(elf)
            return
        chosen, names_error = self._choose(elf)
        if chosen:
            is_fat = any(name.startswith(f"{BUNDLE_PREFIX}host-") for _, name in chosen)
            is_moved = any(name == KPACK_REFERENCE and section.stored_size for section, name in chosen)
            # Removing leaves an empty section. An image of a fat object may really be empty.
            places = [
                _site(elf, section, name, _expects(section, name, is_fat))
                for section, name in chosen
                if section.stored_size
                or name.startswith(BUNDLE_PREFIX)
                or (section.type == layout.NOBITS and not is_table_name(name) and not (is_moved and name == HIP_FATBIN))
            ]
            yield from without_overlaps(sorted(places, key=_position)) if len(places) > 1 else places
        if names_error is not None:
            raise names_error

    def _choose(self, elf: ElfFile) -> tuple[list[tuple[ElfSection, str]], FormatError | None]:
        """Return the sections of device code with their names, and the error of the name table."""
        name_offsets, types = elf.columns("name_offset", "type")
        error = None
        names: dict[int, str] = {}
        strings = None
        try:
            strings = elf.names_table()
            self._names = _section_names(elf, name_offsets)
            names = self._names.telling
        except FormatError as broken:
            error = broken
        chosen = []
        for index in _marked(name_offsets, types, names):
            section = elf.section(index)
            name = names.get(section.name_offset)
            if name is None:
                name = elf.string(strings, section.name_offset) if strings is not None else ""
            chosen.append((section, name))
        return chosen, error


def _segments(elf: ElfFile) -> Iterator[CodeSection | Finding]:
    """Yield the segments of a program without sections that contain the records of CUDA and HIP."""
    from fatpack.binary.elf import segments

    writable = [segment for segment in segments.loaded_segments(elf) if segment.is_writable]
    if len(writable) > _MOST_SEGMENTS:
        text = f"{len(writable)} writable segments; only the first {_MOST_SEGMENTS} are searched for records"
        yield finding("FP1005", elf.view.span(0, elf.layouts.header.size), text)
        del writable[_MOST_SEGMENTS:]
    reached = 0
    for segment in sorted(writable, key=lambda segment: segment.offset):
        if segment.offset >= reached:
            reached = segment.offset + segment.size
            yield CodeSection(elf.view.slice(segment.offset, segment.size), content=RECORDS)


def list_sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, index) of every section with bytes; if tables are damaged, of the readable ones."""
    rows = []
    try:
        elf = ElfFile(view)
        strings = elf.contents(elf.names_section())
        for section in elf.sections():
            if section.stored_size and section.end <= len(view):
                rows.append((section.offset, section.end, elf.string(strings, section.name_offset), section.index))
    except FormatError:
        pass  # device code is found without names
    return rows


def _marked(name_offsets: Sequence[int], types: Sequence[int], names: Collection[int]) -> list[int]:
    """Return the indices of the sections with the type, or with one of the names."""
    if not names and layout.OFFLOADING not in types:
        return []
    return [
        index
        for index, (name_offset, type) in enumerate(zip(name_offsets, types, strict=True))
        if type == layout.OFFLOADING or (name_offset in names and type != layout.NULL)
    ]


def _hits(strings: View, used: set[int]) -> Iterator[int]:
    """Yield the offsets in a name table at which a name starts with one of the needles, in bounded memory."""
    for start in range(0, len(strings), _BLOCK):
        block = strings.head(start, _BLOCK + _LONGEST - 1)
        for needle in _NEEDLES:
            at = block.find(needle)
            while at >= 0:
                if start + at in used:
                    yield start + at
                at = block.find(needle, at + 1)


def _position(place: CodeSection | Finding) -> int:
    return place.data.start if isinstance(place, CodeSection) else place.span.start


def _expects(section: ElfSection, name: str, is_fat: bool) -> SectionContent:
    """Return the content of a section; ``is_fat``: another section represents the host, as in fat objects."""
    if is_table_name(name):
        return TABLE
    if name == SYCL_IMAGES:
        return IMAGES
    if not name.startswith(BUNDLE_PREFIX):
        return CONTAINER
    # In a program the names are alike, but the sections are loaded. DPC++'s bundler of 2019 and 2020 made loaded
    # sections too; its fat objects have a section for the host.
    return IMAGES if section.flags & layout.ALLOC and not is_fat else IMAGE


def _site(elf: ElfFile, section: ElfSection, name: str, expects: SectionContent) -> CodeSection | Finding:
    view = elf.view
    span = view.span(section.offset, section.stored_size)
    title = f"section {section.index} ({name})" if name else f"section {section.index}"
    if section.type == layout.NOBITS:
        return finding(
            "FP2003",
            span,
            f"{title} has a size but no bytes in the file",
            "this looks like a file of debug information; read the file it was made from",
        )
    if section.end > len(view):
        return finding(
            "FP2002",
            span,
            f"{title} ends at {section.end:#x}, the file at {len(view):#x}",
            "the file looks cut short",
        )
    if section.flags & layout.COMPRESSED:
        return finding(
            "FP1006",
            span,
            f"{title} is compressed by its section flags, which no producer of device code does",
        )
    findings: list[Finding] = []
    if section.type != layout.OFFLOADING and name.startswith(OFFLOADING_NAMES[0]):
        raw = name not in OFFLOADING_NAMES
        findings.append(
            finding(
                "FP2001",
                span,
                f"{title} has type {layout.section_type_word(section.type)}: LLVM tools do not see it",
                "this is how LLVM 14 embedded images; rebuild with LLVM 15 or newer"
                if raw
                else f"llvm-objcopy --set-section-type {name}={layout.OFFLOADING:#x} mends it",
            )
        )
    data = view.slice(section.offset, section.size, name or f"section {section.index}")
    return CodeSection(data, name, section.index, content=expects, findings=tuple(findings))
