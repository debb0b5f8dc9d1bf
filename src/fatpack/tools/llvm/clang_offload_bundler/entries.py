"""The entries of a bundle in the order in which the original walks them, by the reader that ``-type`` names.

Binary bundles are walked in the order of LLVM's hash map, where of equal IDs the last counts; text and object bundles
in file order, where the first counts. A file that is no bundle of the type has no entries, and that is no error.
Bundles that follow each other, as ``cat`` leaves them, are walked one after the other.
"""

from __future__ import annotations

import sys

from fatpack import magic_numbers
from fatpack.errors import FatpackError, FormatError, LimitExceeded, Unsupported
from fatpack.formats.clang_bundle.layout import COMMENTS, COMPRESSED_HEADERS, COMPRESSED_MAGIC, MAGIC, METHODS
from fatpack.record import Record
from fatpack.tools.llvm.clang_offload_bundler.arguments import ArgumentError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from typing_extensions import TypeIs

    from fatpack.binary.coff.reader import CoffObject
    from fatpack.formats.clang_bundle.compressed import InflatedBundle
    from fatpack.formats.clang_bundle.fat_object import FatObjectImage
    from fatpack.io.source import Piece, View
    from fatpack.literals import BundleType
    from fatpack.model import Finding
    from fatpack.tools.llvm.clang_offload_bundler.arguments import BundlerSettings


# Object files as bundles: which files take part, their sections of bundles, and the host's object without them.

#: Prefix of the bundle ID in the name of a section.
PREFIX = "__CLANG_OFFLOAD_BUNDLE__"

#: First bytes of object files that LLVM reads and its objcopy cannot add bundles to → the word for them.
_OTHERS = {
    magic_numbers.MACH_O_32: "Mach-O",
    magic_numbers.MACH_O_64: "Mach-O",
    magic_numbers.BIG_MACH_O_32: "Mach-O",
    magic_numbers.BIG_MACH_O_64: "Mach-O",
    magic_numbers.WASM: "WebAssembly",
    magic_numbers.XCOFF_32 + b"\0": "XCOFF",
    magic_numbers.XCOFF_64 + b"\0": "XCOFF",
    magic_numbers.DXIL: "DXContainer",
}


def object_format(view: View) -> str:
    """Return ``elf``, ``coff``, ``pe`` or the word for another object file; "" for what is none, or is damaged."""
    head = view.head(0, 4)
    if head == magic_numbers.ELF:
        return "elf" if _is_elf(view) else ""
    if head[:2] == magic_numbers.DOS:
        return "pe" if _is_image(view) else ""
    if head[1:2] in _COFF_MACHINES or head == magic_numbers.ANONYMOUS_COFF:
        from fatpack.binary.coff.reader import coff_kind

        if coff_kind(view) in ("classic", "big"):
            return "coff"
    return next((word for magic, word in _OTHERS.items() if head.startswith(magic)), "")


def _is_elf(view: View) -> bool:
    from fatpack.binary.elf.file import ElfFile

    try:
        ElfFile(view)
    except FormatError:
        return False
    return True


def _is_image(view: View) -> bool:
    from fatpack.binary.coff.objcopy.writer import PeImage

    try:
        return PeImage(view).table_end <= len(view)
    except FormatError:
        return False


#: Carriers that :mod:`fatpack.binary.coff.objcopy` takes: objects, and linked images of Windows.
_COFF = ("coff", "pe")

#: High bytes of the machine numbers of COFF objects: most files that are none need no further look.
_COFF_MACHINES = (b"\x86", b"\xaa", b"\xa6", b"\x01", b"\x02", b"\x0e", b"\x50", b"\x51", b"\x62", b"\x90")


def bundle_sections(view: View, carrier: str) -> tuple[list[FatObjectImage], list[Finding]]:
    """Return the sections of bundles in the order of the section table, and what is wrong with the object.

    Raises FormatError for a damaged object.
    """
    if carrier == "elf":
        return _in_elf(view)
    return (_in_coff(view, carrier), []) if carrier in _COFF else ([], [])


def _in_elf(view: View) -> tuple[list[FatObjectImage], list[Finding]]:
    from fatpack.binary import CodeSection
    from fatpack.binary.elf import locate
    from fatpack.formats.clang_bundle.fat_object import FatObjectImage

    found, findings = [], []
    for site in locate(view):
        if not isinstance(site, CodeSection):
            findings.append(site)
        elif site.section and site.section.startswith(PREFIX):
            found.append(FatObjectImage(site.section.removeprefix(PREFIX), site.data, site.index or 0))
    return sorted(found, key=lambda part: part.section), findings


def _in_coff(view: View, carrier: str) -> list[FatObjectImage]:
    from fatpack.formats.clang_bundle.fat_object import FatObjectImage

    coff: CoffObject
    if carrier == "pe":
        from fatpack.binary.coff.objcopy.writer import PeImage

        coff = PeImage(view)
    else:
        from fatpack.binary.coff.reader import CoffObject

        coff = CoffObject(view)
    strings = coff.strings()
    found = []
    for section in coff.sections():
        name = coff.name(section.stored_name, strings) if section.stored_name.startswith(b"/") else b""
        if name.startswith(PREFIX.encode()):
            # Of images, what lies after the size in memory is padding.
            size = min(section.raw_size, section.virtual_size) if carrier == "pe" else section.raw_size
            data = view.slice(section.raw_offset if size else 0, size)
            spelling = name.decode("utf-8", "surrogateescape").removeprefix(PREFIX)
            found.append(FatObjectImage(spelling, data, section.number))
    return found


def with_sections(host: View, carrier: str, additions: Sequence[tuple[str, Sequence[Piece]]]) -> Iterable[Piece]:
    """Return a host object with sections added, as llvm-objcopy makes it. Raises ArgumentError if it cannot."""
    try:
        if carrier == "elf":
            from fatpack.binary.elf.objcopy import add_sections as add_to_elf

            return add_to_elf(host, additions)
        if carrier in _COFF:
            from fatpack.binary.coff.objcopy import add_sections as add_to_coff

            return add_to_coff(host, additions)
    except FatpackError as error:
        raise ArgumentError(f"cannot add sections to the host object: {error}") from error
    raise ArgumentError(
        f"cannot add sections to the host object: llvm-objcopy adds none to {carrier} files; use -type=bc"
    )


def without_sections(host: View, carrier: str) -> Iterable[Piece]:
    """Return a fat object without its sections of bundles, as llvm-objcopy makes it. Raises ArgumentError."""
    try:
        if carrier == "elf":
            from fatpack.binary.elf.objcopy import remove_sections as remove_from_elf

            return remove_from_elf(host, PREFIX)
        from fatpack.binary.coff.objcopy import remove_sections as remove_from_coff

        return remove_from_coff(host, PREFIX)
    except FatpackError as error:
        raise ArgumentError(f"cannot take the sections of bundles out of the object: {error}") from error


#: type → comment token of its text bundles
TEXT = {type: comment for comment, types in COMMENTS.items() for type in types}

#: Types whose bundles are binary whatever is in them, and those where that depends on what the input is.
BINARY, OBJECT = ("bc", "gch", "ast"), ("o", "a")


class BundlerEntry(Record):
    """An entry: its ID and image.

    ``merged_count`` is not 0 for a mark that the object itself is the host's image; ``is_cut`` says that the end of the
    image is not known.
    """

    id: str
    data: View
    merged_count: int = 0
    is_cut: bool = False


class BundlerEntries(Record):
    """The entries of one bundle in the original's order; ``damage`` is what could not be read.

    ``carrier`` is the format of the object, "" for none (:func:`object_format`).
    """

    entries: tuple[BundlerEntry, ...]
    damage: tuple[Finding, ...] = ()
    carrier: str = ""

    @property
    def merged_count(self) -> int:
        """The number of fat objects that ``ld -r`` merged into this one, 1 for any other bundle."""
        return max([1, *(entry.merged_count for entry in self.entries)])


def is_known_type(type: str) -> TypeIs[BundleType]:
    """Return whether the original knows a type."""
    return type in TEXT or type in BINARY or type in OBJECT


def read_inflated(view: View, settings: BundlerSettings, what: str) -> tuple[View, BundlerEntries]:
    """Return what a file holds once it is inflated, and the entries of its bundles; ``what`` names it in errors.

    Of a file with several bundles, the view is the first bundle. Raises ArgumentError for an unknown type, or damage.
    """
    first, reached = _inflated(view, settings, what)
    found = read_bundler_entries(first, settings)
    if settings.type in TEXT or found.carrier:
        return first, found
    bundles = [found]
    # LLVM 23 finds the first bundle after anything, such as the headers of an archive.
    is_bundle = reached is not None or view.head(0, len(MAGIC)) == MAGIC
    is_walked = is_bundle or settings.llvm == "23"
    at = _next_bundle(view, _end(view, reached), compressed=reached is not None) if is_walked else None
    while at is not None:
        rest = view.slice(at, len(view) - at)
        inner, reached = _inflated(rest, settings, what)
        bundle = read_bundler_entries(inner, settings)
        if bundle.entries or reached is not None:  # else the magic is part of something else, such as a marker line
            bundles.append(bundle)
        at = _next_bundle(view, at + max(_end(rest, reached), len(MAGIC)), compressed=reached is not None)
    return first, BundlerEntries(
        tuple(entry for bundle in bundles for entry in bundle.entries),
        tuple(item for bundle in bundles for item in bundle.damage),
    )


def _end(view: View, reached: int | None) -> int:
    """Return where the bundle at the start of a view ends, 0 for none; ``reached`` is where a compressed one does."""
    if reached is not None:
        return reached
    if view.head(0, len(MAGIC)) != MAGIC:
        return 0
    from fatpack.formats.clang_bundle.reader import binary_extent

    try:
        return binary_extent(view, 0)
    except FormatError:
        return len(view)


def _next_bundle(view: View, at: int, *, compressed: bool) -> int | None:
    """Return where the next bundle starts: after zeros, or one of the same kind after anything. None for no more."""
    at = view.skip_zeros(at, len(view))
    if view.head(at, len(MAGIC)) == MAGIC:
        return at
    magic = COMPRESSED_MAGIC if compressed else MAGIC
    found = view.find(magic, at)
    # Four letters are met by chance too.
    while compressed and found >= 0 and not _is_header(view.head(found, 8)):
        found = view.find(magic, found + 1)
    return found if found >= 0 else None


def _is_header(head: bytes) -> bool:
    version, method = (int.from_bytes(head[at : at + 2], "little") for at in (4, 6))
    return version in COMPRESSED_HEADERS and method in METHODS


def read_bundler_entries(view: View, settings: BundlerSettings) -> BundlerEntries:
    """Return the entries of an uncompressed bundle. Raises ArgumentError for an unknown type or a damaged file."""
    type = settings.type
    if not is_known_type(type):
        raise ArgumentError(f"'{type}': invalid file type specified")
    try:
        if type in TEXT:
            return _text(view, TEXT[type])
        carrier = object_format(view) if type in OBJECT else ""
        return _sections(view, carrier) if carrier else _binary(view, settings.llvm)
    except FormatError as error:
        raise ArgumentError(str(error)) from error


def _text(view: View, comment: str) -> BundlerEntries:
    from fatpack.formats.clang_bundle.text_reader import read_text_entries as text_entries
    from fatpack.formats.diagnostics import FindingCollector

    faults = FindingCollector()
    found = [
        BundlerEntry(_text_of(entry.id), view.slice(entry.offset, end - entry.offset), is_cut=entry.end == end)
        for entry, end in text_entries(view, comment, faults)
    ]
    return BundlerEntries(tuple(found), _damage(faults.findings))


def _binary(view: View, llvm: str) -> BundlerEntries:
    if view.head(0, len(MAGIC)) != MAGIC:
        return BundlerEntries(())
    from fatpack.formats.clang_bundle.reader import parse_binary
    from fatpack.formats.clang_bundle.text_reader import positions_in_llvm_order
    from fatpack.formats.diagnostics import FindingCollector

    container = parse_binary(view, 0, FindingCollector(), is_inflated=view.source.is_streamed)
    found = [BundlerEntry(image.attrs["id"], image.data) for image in container.images]
    order = positions_in_llvm_order([entry.id.encode("utf-8", "surrogateescape") for entry in found], llvm)
    return BundlerEntries(tuple(found[at] for at in order), _damage(container.findings))


def _sections(view: View, carrier: str) -> BundlerEntries:
    parts, findings = bundle_sections(view, carrier)
    entries = tuple(BundlerEntry(part.id, part.data, part.merged_count) for part in parts)
    return BundlerEntries(entries, _damage(findings), carrier)


def _text_of(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def _damage(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(item for item in findings if item.severity == "error")


def _inflated(view: View, settings: BundlerSettings, what: str) -> tuple[View, int | None]:
    """Return what is in the compressed bundle at the start of a view and where that ends; or the view itself, and None.

    Raises ArgumentError, where ``what`` names the file.
    """
    head = view.head(0, 8)
    if len(head) < 8:
        return view, None
    if not head.startswith(COMPRESSED_MAGIC):
        if settings.is_verbose:
            print_not_compressed(settings.llvm)
        return view, None
    version, method = (int.from_bytes(head[at : at + 2], "little") for at in (4, 6))
    if version not in COMPRESSED_HEADERS or len(view) < COMPRESSED_HEADERS[version].size:
        raise ArgumentError(_not_inflated(settings, what, "Compressed bundle header size too small"))
    if method not in METHODS:
        raise ArgumentError(_not_inflated(settings, what, "Unknown compressing method"))
    try:
        found = _inflate(view, settings)
    except (FormatError, Unsupported) as error:
        raise ArgumentError(inflation_error(settings, what, error)) from error
    return found.body, len(found.stored)


def inflation_error(settings: BundlerSettings, what: str, error: FormatError | Unsupported) -> str:
    """Return what the original says of a stream that is damaged; ``what`` names it."""
    reason = error.describe() if isinstance(error, FormatError) else str(error)
    hint = f"; {error.hint}" if isinstance(error, LimitExceeded) else ""
    return _not_inflated(settings, what, f"Could not decompress embedded file contents: {reason}{hint}")


def _not_inflated(settings: BundlerSettings, what: str, reason: str) -> str:
    if settings.llvm == "23":  # whose messages start small
        reason = reason[0].lower() + reason[1:]
    return f"Failed to decompress {what}: {reason}"


def _inflate(view: View, settings: BundlerSettings) -> InflatedBundle:
    from time import perf_counter

    from fatpack.formats.clang_bundle.compressed import inflate_bundle
    from fatpack.formats.diagnostics import FindingCollector

    start = perf_counter()
    found = inflate_bundle(view, FindingCollector())
    seconds = perf_counter() - start
    if settings.is_verbose:
        from fatpack.formats.clang_bundle.compressed import HASH_SIZE, new_digest

        digest = new_digest(len(found.body))
        for piece in found.body.pieces():
            digest.update(piece)
        measures = CompressionMeasures(
            found.version, found.method, found.size, len(found.stream), found.inflated_size, found.hash, seconds
        )
        print_inflated(measures, digest.digest()[:HASH_SIZE])
    return found


# The output of ``-verbose`` about compression, on stderr. Only the speed differs from run to run.


class CompressionMeasures(Record):
    """Numbers of one compression or decompression; ``stream_size`` are the compressed bytes without the header."""

    version: int
    method: str
    size: int | None
    stream_size: int
    inflated_size: int
    hash: bytes
    seconds: float


def print_compressed(measures: CompressionMeasures, level: int) -> None:
    """Say what was compressed."""
    _write(
        [
            f"Compressed bundle format version: {measures.version}",
            f"Total file size (including headers): {measures.size:,} bytes",
            f"Compression method used: {measures.method}",
            f"Compression level: {level}",
            f"Binary size before compression: {measures.inflated_size:,} bytes",
            f"Binary size after compression: {measures.stream_size:,} bytes",
            *_rates(measures, "Compression"),
            f"Truncated MD5 hash: {_hash(measures.hash)}",
        ]
    )


def print_inflated(measures: CompressionMeasures, recalculated: bytes) -> None:
    """Say what was inflated; ``recalculated`` is the hash of what came out."""
    total = [] if measures.size is None else [f"Total file size (from header): {measures.size:,} bytes"]
    _write(
        [
            f"Compressed bundle format version: {measures.version}",
            *total,
            f"Decompression method: {measures.method}",
            f"Size before decompression: {measures.stream_size:,} bytes",
            f"Size after decompression: {measures.inflated_size:,} bytes",
            *_rates(measures, "Decompression"),
            f"Stored hash: {_hash(measures.hash)}",
            f"Recalculated hash: {_hash(recalculated)}",
            f"Hashes match: {'Yes' if measures.hash == recalculated else 'No'}",
        ]
    )


def print_not_compressed(llvm: str) -> None:
    """Say that the input was no compressed bundle."""
    _write(["Uncompressed bundle." if llvm == "22" else "Uncompressed bundle"])


def _rates(measures: CompressionMeasures, what: str) -> list[str]:
    rate = measures.inflated_size / measures.stream_size if measures.stream_size else float("inf")
    ratio = 100 / rate if rate else float("inf")
    speed = measures.inflated_size / (1 << 20) / max(measures.seconds, 1e-9)
    return [f"Compression rate: {rate:.2f}", f"Compression ratio: {ratio:.2f}%", f"{what} speed: {speed:.2f} MB/s"]


def _hash(stored: bytes) -> str:
    return f"0x{int.from_bytes(stored, 'little'):014x}"


def _write(lines: Sequence[str]) -> None:
    sys.stderr.write("".join(f"{line}\n" for line in lines))
