"""Universal files of macOS (fat Mach-O): the same program, library or archive for several processors in one file.

Only the table is read, not the content of the slices.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary import MEMBER, CodeSection
from fatpack.errors import BadValue, FormatError, HostError, LimitExceeded, Truncated
from fatpack.findings import code_for_error, finding
from fatpack.io.source import View
from fatpack.layout import Field, FormatInfo, Layout
from fatpack.magic_numbers import UNIVERSAL_MACH_O
from fatpack.model import Label, fill_gaps
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import Piece
    from fatpack.layout import ByteOrder
    from fatpack.model import Finding


# Names of processors in Mach-O files and in the table of a universal file: numbers from ``mach/machine.h``, names from
# ``lipo`` and the option ``-arch`` (llvm/lib/Object/MachOObjectFile.cpp, LLVM 22.1).

#: cputype → its name, cpusubtype without capabilities → the architecture, as spelled by lipo and ``-arch``
_MACHINES: Mapping[int, tuple[str, Mapping[int, str]]] = {
    0x00000006: ("m68k", {}),
    0x00000007: ("i386", {}),
    0x0000000C: (
        "arm",
        {
            5: "armv4t",
            6: "armv6",
            7: "armv5e",
            9: "armv7",
            11: "armv7s",
            12: "armv7k",
            14: "armv6m",
            15: "armv7m",
            16: "armv7em",
        },
    ),
    0x00000012: ("ppc", {100: "ppc970"}),
    0x00000018: ("riscv32", {}),
    0x01000007: ("x86_64", {8: "x86_64h"}),
    0x0100000C: ("arm64", {2: "arm64e"}),
    0x01000012: ("ppc64", {}),
    0x0200000C: ("arm64_32", {}),
    0x01000017: ("air64", {}),
}
#: native code of Apple's GPUs: the subtype is the GPU, whose names only Apple's tools know
_APPLE_GPU = 0x01000013
_CAPABILITIES = 0xFF000000


def architecture_name(machine: int, variant: int) -> str:
    """Return lipo's name of a processor: ``arm64``; ``cpu_0x63_0x1`` if it has none."""
    variant &= ~_CAPABILITIES
    if machine == _APPLE_GPU:
        return f"applegpu_{variant:#x}"
    name, variants = _MACHINES.get(machine, ("", {}))
    return variants.get(variant, name) or f"cpu_{machine:#x}_{variant:#x}"


def machine_name(machine: int) -> str:
    """Return a cputype as text."""
    name = "applegpu" if machine == _APPLE_GPU else _MACHINES.get(machine, ("unknown", {}))[0]
    return f"{name} ({machine:#x})"


# Byte layouts: big-endian, with offsets of 32 or 64 bits. Files of Metal have magics of their own, and offsets of 32
# bits; readers disagree about their byte order, so that it is the one in which the magic was written.

FORMAT = "universal"

_HEADER_FIELDS = (
    Field(
        "magic", "bytes[4]", "magic: CA FE BA BE, or BF as the last byte for offsets of 64 bits; CB FE BA BE of Metal"
    ),
    Field("slice_count", "u32", "nfat_arch: records after this header"),
)
HEADER = Layout(FORMAT, "header", _HEADER_FIELDS, "big")
LITTLE_HEADER = Layout(FORMAT, "header of Metal, little-endian", _HEADER_FIELDS)


def _slice(bits: int, order: ByteOrder = "big") -> Layout:
    word = f"u{bits}"
    reserved = (Field("reserved", "u32", "reserved: 0"),) if bits == 64 else ()
    return Layout(
        FORMAT,
        f"slice, {bits} bits" if order == "big" else "slice of Metal, little-endian",
        (
            Field("machine", "u32", "cputype: the instruction set", machine_name),
            Field("variant", "u32", "cpusubtype: a variant of it, and capabilities in the highest byte"),
            Field("offset", word, "offset: offset of the slice in the file"),
            Field("size", word, "size: its bytes"),
            Field("align", "u32", "align: the alignment of the offset, as a power of two"),
            *reserved,
        ),
        order,
    )


_BIG_METAL, _LITTLE_METAL = magic_numbers.UNIVERSAL_METAL
_SLICE_32 = _slice(32)

#: magic → the layout of a slice's record
SLICES: Mapping[bytes, Layout] = {
    magic_numbers.UNIVERSAL_MACH_O: _SLICE_32,
    magic_numbers.UNIVERSAL_MACH_O_64: _slice(64),
    _BIG_METAL: _SLICE_32,
    _LITTLE_METAL: _slice(32, "little"),
}


def _header(view: View) -> Layout:
    """Return the layout of a file's header, by its magic."""
    return LITTLE_HEADER if view.head(0, 4) == _LITTLE_METAL else HEADER


#: Java classes start with the 32-bit magic too; their version, in the place of the count, is above 44.
MAX_SLICES = 44


#: LIMIT: slices. There are fewer than 20 architectures.
_MOST = 4096


class Slice(Record):
    """A record of the table: its ``number`` from 0 on, the architecture's name, and the slice's range."""

    number: int
    title: str
    offset: int
    size: int


def read_slices(view: View) -> Iterator[Slice]:
    """Yield the records of the table in order.

    Raises FormatError if the table ends before its count, or is empty; LimitExceeded if it has too many records.
    """
    layout, count = SLICES[view.head(0, 4)], _header(view).read(view, 0)[1]
    present = min(count, (len(view) - HEADER.size) // layout.size, _MOST)
    for number, row in enumerate(layout.struct.iter_unpack(view.read(HEADER.size, present * layout.size))):
        yield Slice(number, architecture_name(row[0], row[1]), row[2], row[3])
    if present == _MOST < count:
        at = view.offset(HEADER.field_offset("slice_count"))
        text = f"more than {_MOST} slices; the rest is not listed"
        raise LimitExceeded(text, format=FORMAT, offset=at, field="nfat_arch", found=str(count), chain=view.chain)
    if present < count:
        at = HEADER.size + present * layout.size
        raise Truncated(
            needed=(count - present) * layout.size,
            left=len(view) - at,
            format=FORMAT,
            offset=view.offset(at),
            field="table of slices",
            chain=view.chain,
        )
    if not count:
        raise BadValue(
            "a universal file without slices",
            format=FORMAT,
            offset=view.offset(HEADER.field_offset("slice_count")),
            field="nfat_arch",
            expected="1 or more",
            found="0",
            chain=view.chain,
        )


def locate(view: View) -> Iterator[CodeSection | Finding]:
    """Yield every slice as a file of its own, named by its architecture; ``index`` counts them from 0.

    A slice that ends after the file is yielded up to the end of the file, with a finding; one that overlaps the table
    or an earlier slice is only a finding, so that no byte is read twice.
    """
    found: list[Slice] = []
    problem: FormatError | None = None
    try:
        for item in read_slices(view):
            found.append(item)
    except FormatError as error:
        problem = error
    layout = SLICES.get(view.head(0, 4))
    reached = HEADER.size + len(found) * (layout.size if layout else 0)
    owner, owners = "the table", dict[int, str]()
    for item in sorted(found, key=lambda item: item.offset):
        if item.size and item.offset < reached:
            owners[item.number] = owner
        elif item.size:
            reached, owner = item.offset + item.size, f"slice {item.number}"
    for item in found:
        yield from _place(view, item, owners.get(item.number, ""))
    if problem is not None:
        at = 0 if problem.offset is None else min(problem.offset - view.start, len(view))
        text = problem.describe()
        yield finding(code_for_error("FP2512", problem), view.span(at), text, problem.hint, field=problem.field)


def _place(view: View, item: Slice, owner: str) -> Iterator[CodeSection | Finding]:
    title = f"slice {item.number} ({item.title})"
    start, end = min(item.offset, len(view)), item.offset + item.size
    if owner:
        yield finding("FP2513", view.span(start, 0), f"{title} overlaps {owner}: not read")
        return
    if end > len(view):
        text = f"{title} ends at {end:#x}, the file at {len(view):#x}"
        yield finding("FP2511", view.span(start), text, "the file looks cut short")
    if start < min(end, len(view)):
        outside = view.chain[-1] if view.chain else ""
        chain = (*view.chain[:-1], f"{outside}({item.title})")
        data = View(view.source, view.start + start, min(view.start + end, view.end), chain)
        yield CodeSection(data, None, item.number, item.title, MEMBER)
        if _is_unread(view, item):
            text = (
                f"{title} of a universal Metal file, {item.size} bytes: no Metal library, this version does not read it"
            )
            yield finding("FP1006", data.span(), text)


def _is_unread(view: View, item: Slice) -> bool:
    """Return whether a slice of a universal Metal file is no Metal library: native code, or AIR in Mach-O."""
    magic = magic_numbers.METALLIB
    return view.head(0, 4) in magic_numbers.UNIVERSAL_METAL and view.head(item.offset, len(magic)) != magic


def has_unread_slices(view: View) -> bool:
    """Return whether a file is a universal one of Metal with slices that are not read."""
    try:
        return any(item.size and _is_unread(view, item) for item in read_slices(view))
    except FormatError:
        return False  # its scan has the finding


# Byte map


def label_universal(view: View) -> Iterator[Label]:
    """Yield a label for every byte: the fields of the table, and slices as a whole."""
    layout = SLICES.get(view.head(0, 4))
    if layout is None or len(view) < HEADER.size:
        yield from fill_gaps(view, [])
        return
    yield from _header(view).labels(view, 0, "header")
    found: list[Label] = []
    try:
        for item in read_slices(view):
            yield from layout.labels(view, HEADER.size + item.number * layout.size, f"slice[{item.number}]")
            span, text = view.span(item.offset, item.size), f"{item.title}, {item.size} bytes"
            found.append(Label(span, f"slice[{item.number}].data", text, "the slice's bytes", "data"))
    except FormatError:
        pass  # the intact records are labelled
    yield from fill_gaps(view, found, HEADER.size + len(found) * layout.size)


# Universal files of macOS (fat Mach-O): the same program, library or archive for several processors in one file.
#
# ::
#
#     0x00  CA FE BA BE (offsets of 32 bits) or CA FE BA BF (64), nfat_arch u32, all numbers big-endian
#     0x08  per slice: cputype u32, cpusubtype u32, offset, size, align u32; 64 bits: reserved u32
#     Metal: CB FE BA BE, or BE BA FE CB with little-endian numbers; offsets of 32 bits
#     ....  slices, each at a multiple of its alignment: a Mach-O file, an archive of such, or bitcode
#
# A slice is a file of its own, and is named as a member of an archive is, by the architecture: ``libx.dylib(arm64)``,
# ``libx.a(arm64(a.o))``. Offsets count in the whole file.
#
# Sources: ``mach-o/fat.h`` of Apple's cctools; what llvm-lipo 22 writes, with offsets of 32 and 64 bits, is
# compared with LIEF, llvm-lipo and llvm-objdump in the reference tests. Java's classes start with the magic of 32 bits
# too: they have a version of 45 or more where a universal file has the number of its slices
# (``llvm/lib/BinaryFormat/Magic.cpp``).

__all__ = ["DOC", "LAYOUTS", "REFUSAL", "detect", "labels", "locate", "rewrite"]

DOC = FormatInfo(
    name=FORMAT,
    title="universal Mach-O file",
    description=(
        "Programs, libraries, objects and archives of macOS for several processors in one file. Written by lipo, "
        "llvm-lipo, libtool and rustc. Each slice is listed as a file of its own, named by its architecture. Those of "
        "Metal (CB FE BA BE), written by metal-tt and metal-lipo, have Metal libraries and native code for GPUs."
    ),
    references=(
        "mach-o/fat.h of Apple's cctools 1010",
        "llvm/lib/Object/MachOUniversal.cpp and llvm/lib/BinaryFormat/Magic.cpp, LLVM 22.1",
    ),
    reads="tables of 32 and 64 bits; slices that are Mach-O files, archives, bitcode or anything else",
    writes="nothing",
    limitations=(
        "Universal files are never edited: lipo -thin takes a slice out, and lipo -create puts slices together.",
        "A slice that the count leaves out (an arm64 one that lipo was told to hide) is not listed.",
        "A file of more than 44 slices with offsets of 32 bits counts as a class of Java.",
        "In universal Metal files, Metal libraries alone are read. Native code for Apple's GPUs and AIR in Mach-O are "
        "named (FP1006), and `check` fails for them unless `--allow-unread metal-universal` accepts it. Tried with "
        "files made by hand, in both byte orders: none of Apple's tools was at hand.",
    ),
)

LAYOUTS = (HEADER, LITTLE_HEADER, *dict.fromkeys(SLICES.values()))

#: Why such a file is not edited, and what would work.
REFUSAL = (
    "universal Mach-O files are not edited: slices depend on where they lie, and each has a signature of its own",
    "take it apart with lipo -thin, and put it together with lipo -create",
)


def detect(view: View) -> bool:
    """Return whether the bytes start as a universal file does, and not as a class of Java."""
    head = view.head(0, HEADER.size)
    if head[:4] not in SLICES or len(head) < HEADER.size:
        return False
    return head[:4] != UNIVERSAL_MACH_O or int.from_bytes(head[4:], "big") <= MAX_SLICES


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: the table field by field, slices whole."""

    return label_universal(view)


def rewrite(view: View, contents: Mapping[int, Sequence[Piece]]) -> Sequence[Piece]:
    """Refuse what archives do: exchange the contents of members. Raises HostError with what would work."""
    problem, hint = REFUSAL
    raise HostError(problem, hint=hint, chain=view.chain)
