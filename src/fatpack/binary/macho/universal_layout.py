"""The records of universal files: always big-endian, with offsets of 32 or 64 bits."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.macho.macho_machines import machine_name
from fatpack.layout import Field, Layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "universal"

HEADER = Layout(
    FORMAT,
    "header",
    (
        Field("magic", "bytes[4]", "magic: CA FE BA BE, or BF as the last byte for offsets of 64 bits"),
        Field("slice_count", "u32", "nfat_arch: records behind this header"),
    ),
    "big",
)


def _slice(bits: int) -> Layout:
    word = f"u{bits}"
    reserved = (Field("reserved", "u32", "reserved: 0"),) if bits == 64 else ()
    return Layout(
        FORMAT,
        f"slice, {bits} bits",
        (
            Field("machine", "u32", "cputype: the instruction set", machine_name),
            Field("variant", "u32", "cpusubtype: a variant of it, and capabilities in the highest byte"),
            Field("offset", word, "offset: where the slice starts in the file"),
            Field("size", word, "size: its bytes"),
            Field("align", "u32", "align: the alignment of the offset, as a power of two"),
            *reserved,
        ),
        "big",
    )


#: magic → the layout of a slice's record
SLICES: Mapping[bytes, Layout] = {
    magic_numbers.UNIVERSAL_MACH_O: _slice(32),
    magic_numbers.UNIVERSAL_MACH_O_64: _slice(64),
}

#: Java's classes start with the magic of 32 bits too; their version, at the count's place, is above 44.
MAX_SLICES = 44
