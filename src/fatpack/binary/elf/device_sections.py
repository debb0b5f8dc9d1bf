"""Where device code may lie in an ELF file: by section type as LLVM does it, then by name.

LLVM 15 and newer look at the type only (``llvm/lib/Object/OffloadBinary.cpp``, ``extractOffloadFiles``): a section
of type 0x6FFF4C0B is found whatever its name. Names are what is left for everything else: sections whose type GNU
objcopy could not set, bundles, and the sections of CUDA and HIP.

Beside them lie sections that say something about device code and hold none: ``.hipFatBinSegment`` points to HIP's
bundles, ``.nvFatBinSegment`` to CUDA's fat binaries, ``__nv_module_id`` names their units, ``.tgtimg`` points to SYCL's
images, ``.tgtsym`` names their symbols, ``__CLANG_OFFLOAD_BUNDLE_SIZE__<ID>`` sizes. ``.rocm_kpack_ref`` names the
archives to which HIP's code was moved: what is left of ``.hip_fatbin`` has no bytes then. Not listed: ``.llvm.lto``,
which holds the host's bitcode with a second copy of what ``.llvm.offloading`` has.
"""

from __future__ import annotations

from fatpack.binary import CONTAINER, IMAGE, IMAGES, RECORDS, TABLE, CodeSection, without_overlaps
from fatpack.binary.elf import constants
from fatpack.binary.elf.file import ElfFile, ElfSection
from fatpack.binary.elf.names import remember, section_names_key, split_elf_sections
from fatpack.errors import FormatError, cli_or_api
from fatpack.findings import finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.binary import SectionContent
    from fatpack.binary.known_sections import SectionSplit
    from fatpack.io.source import View
    from fatpack.model import Finding

#: The section of LLVM's offload binaries, and what ``clang -r --offload-link`` calls it afterwards.
OFFLOADING_NAMES = (".llvm.offloading", ".llvm.offloading.relocatable")

#: What newer DPC++ calls the section of all device images of a program.
IMAGES_NAME = "OFFLOAD_DEVICE_CODE"

_HIP = ".hip_fatbin"

#: Names that mean device code whatever the section's type.
DEVICE_SECTION_NAMES = (*OFFLOADING_NAMES, _HIP, ".nv_fatbin", "__nv_relfatbin", IMAGES_NAME)

#: clang-offload-bundler makes one section per target, ``<prefix><bundle ID>``.
BUNDLE_PREFIX = "__CLANG_OFFLOAD_BUNDLE__"

#: Sections that say where device code is, how much of it, or what is in it. DPC++ of 2019 and 2020 made one of sizes
#: per target, named ``<prefix><bundle ID>``.
KPACK_NAME = ".rocm_kpack_ref"
TABLES = (
    ".hipFatBinSegment",
    ".nvFatBinSegment",
    ".nvFatBinSegmentAlt",
    "__nv_module_id",
    ".tgtimg",
    ".tgtsym",
    KPACK_NAME,
)
SIZES_PREFIX = "__CLANG_OFFLOAD_BUNDLE_SIZE__"

#: QUIRK(LLVM 14, -fopenmp-new-driver): one section per image, ``.llvm.offloading.<triple>.<arch>.<extension>``, which
#: holds the image without a container.
RAW_IMAGE_PREFIX = ".llvm.offloading."

#: Any of the names contains one of these; searched in the table of names instead of building 70,000 of them.
_NEEDLES = (
    b".llvm.offloading",
    b"__CLANG_OFFLOAD_BUNDLE_",
    b".hip_fatbin\0",
    b".nv_fatbin\0",
    b"__nv_relfatbin\0",
    b"OFFLOAD_DEVICE_CODE\0",
    b".hipFatBinSegment\0",
    b".nvFatBinSegment\0",
    b".nvFatBinSegmentAlt\0",
    b"__nv_module_id\0",
    b".tgt",
    b".rocm_kpack_ref\0",
)
_LONGEST = max(map(len, _NEEDLES))

_BLOCK = 1 << 20

#: LIMIT: writable segments that are looked through. Linkers make one to three.
_MOST_SEGMENTS = 64


def is_device_name(name: str) -> bool:
    """Return whether a section of this name is expected to hold device code."""
    return name in DEVICE_SECTION_NAMES or name.startswith((BUNDLE_PREFIX, RAW_IMAGE_PREFIX))


def is_table_name(name: str) -> bool:
    """Return whether a section of this name says something about device code elsewhere."""
    return name in TABLES or name.startswith(SIZES_PREFIX)


class DeviceSections:
    """The sections of an ELF file that hold containers, in the order of their bytes: an iterator.

    The sites do not overlap: of sections that claim the same bytes the first is listed, the others are findings. A
    section that lies outside the file, or that cannot be read as it is, is a finding too. Of a program without a
    section table the writable segments are listed, somewhere in which are the records that lead to device code.

    Iterating raises FormatError for a damaged header or section table, and, after everything that could be found
    without them, for damaged section names.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._elf: ElfFile | None = None
        self._places = self._locate()

    def __iter__(self) -> Iterator[CodeSection | Finding]:
        return self

    def __next__(self) -> CodeSection | Finding:
        return next(self._places)

    def division(self) -> SectionSplit:
        """Return all sections that have bytes in two kinds; see :func:`fatpack.binary.elf.names.split_elf_sections`."""
        return split_elf_sections(self._view, self._elf)

    def _locate(self) -> Iterator[CodeSection | Finding]:
        view = self._view
        try:
            elf = self._elf = ElfFile(view)
        except FormatError:
            yield from _segments(ElfFile(view, sections=False))
            raise
        if not elf.section_count:
            text = "the file has no section table, by which device code is found"
            # Device code may be where no record of CUDA or HIP leads to.
            deeper = f"{cli_or_api('--deep', 'deep=True')} looks for device code in all of the file"
            yield finding("FP1006", view.span(0, elf.layouts.header.size), text, deeper)
            yield from _segments(elf)
            return
        chosen, names_error = _choose(elf)
        if chosen:
            is_fat = any(name.startswith(f"{BUNDLE_PREFIX}host-") for _, name in chosen)
            is_moved = any(name == KPACK_NAME and section.stored_size for section, name in chosen)
            # An empty section is what removing leaves behind, but for an image of a fat object, which may be empty.
            places = [
                _site(elf, section, name, _expects(section, name, is_fat))
                for section, name in chosen
                if section.stored_size
                or name.startswith(BUNDLE_PREFIX)
                or (section.type == constants.NOBITS and not is_table_name(name) and not (is_moved and name == _HIP))
            ]
            yield from without_overlaps(sorted(places, key=_position)) if len(places) > 1 else places
        if names_error is not None:
            raise names_error


def _segments(elf: ElfFile) -> Iterator[CodeSection | Finding]:
    """Yield the parts of a program that have the records of CUDA and HIP in them, for lack of sections."""
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
            yield CodeSection(elf.view.slice(segment.offset, segment.size), expects=RECORDS)


def list_sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, index) of every section that has bytes, as far as the tables can be read."""
    rows = []
    try:
        elf = ElfFile(view)
        strings = elf.contents(elf.names_section())
        for section in elf.sections():
            if section.stored_size and section.end <= len(view):
                rows.append((section.offset, section.end, elf.string(strings, section.name_offset), section.index))
    except FormatError:
        pass  # where device code lies is known all the same; what the place is called is not
    return rows


def _choose(elf: ElfFile) -> tuple[list[tuple[ElfSection, str]], FormatError | None]:
    """Return the sections of device code with their names, and what was wrong with the table of names."""
    name_offsets, types = elf.columns("name_offset", "type")
    error = None
    names: dict[int, str] = {}
    strings = None
    try:
        strings = elf.names_table()
        names = _telling(elf, name_offsets)
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


#: names of sections and where each starts → where those start that tell of device code, and the names
_TELLING: dict[tuple[bytes, tuple[int, ...]], dict[int, str]] = {}


def _telling(elf: ElfFile, name_offsets: Sequence[int]) -> dict[int, str]:
    """Return the names that tell of device code by where they start in the table. Raises FormatError."""
    key = section_names_key(elf, name_offsets)
    found = _TELLING.get(key) if key else None
    if found is None:
        strings = elf.names_table()
        named = {at: elf.string(strings, at) for at in _hits(strings, set(name_offsets))}
        found = {at: name for at, name in named.items() if is_device_name(name) or is_table_name(name)}
        if key:
            remember(_TELLING, key, found)
    return found


def _marked(name_offsets: Sequence[int], types: Sequence[int], names: Collection[int]) -> list[int]:
    """Return the indices of the sections that have the type, or one of the names."""
    if not names and constants.OFFLOADING not in types:
        return []
    return [
        index
        for index, (name_offset, type) in enumerate(zip(name_offsets, types, strict=True))
        if type == constants.OFFLOADING or (name_offset in names and type != constants.NULL)
    ]


def _hits(strings: View, used: set[int]) -> Iterator[int]:
    """Yield where in a table of names a section's name starts with one of the needles; memory stays bounded."""
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
    """Return what a section holds; ``is_fat``: one of its neighbours stands for the host, as fat objects have it."""
    if is_table_name(name):
        return TABLE
    if name == IMAGES_NAME:
        return IMAGES
    if not name.startswith(BUNDLE_PREFIX):
        return CONTAINER
    # Of a program's section the names are alike, but it is loaded. The bundler of DPC++ of 2019 and 2020 made loaded
    # sections too; what it made has a section for the host.
    return IMAGES if section.flags & constants.ALLOC and not is_fat else IMAGE


def _site(elf: ElfFile, section: ElfSection, name: str, expects: SectionContent) -> CodeSection | Finding:
    view = elf.view
    span = view.span(section.offset, section.stored_size)
    title = f"section {section.index} ({name})" if name else f"section {section.index}"
    if section.type == constants.NOBITS:
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
    if section.flags & constants.COMPRESSED:
        return finding(
            "FP1006",
            span,
            f"{title} is compressed by its section flags, which no producer of device code does",
        )
    findings: list[Finding] = []
    if section.type != constants.OFFLOADING and name.startswith(OFFLOADING_NAMES[0]):
        raw = name not in OFFLOADING_NAMES
        findings.append(
            finding(
                "FP2001",
                span,
                f"{title} has type {constants.section_type_word(section.type)}: LLVM tools do not see it",
                "this is how LLVM 14 embedded images; rebuild with LLVM 15 or newer"
                if raw
                else f"llvm-objcopy --set-section-type {name}={constants.OFFLOADING:#x} mends it",
            )
        )
    data = view.slice(section.offset, section.size, name or f"section {section.index}")
    return CodeSection(data, name, section.index, expects=expects, findings=tuple(findings))
