"""The C file of ``--embedded-fatbin``: the fat binary as assembly or as an array, and the wrapper that points at it.

The compiler of the host's code includes it behind ``fatbinary_section.h`` of the toolkit. Byte for byte fatbinary's.
"""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.model import Piece

#: Numbers in a row, and rows that are written at a time.
_ROW, _ROWS = 4, 2048

_START = """\
#ifndef __SKIP_INTERNAL_FATBINARY_HEADERS
#include "fatbinary_section.h"
#endif
#define __CUDAFATBINSECTION  ".nvFatBinSegment"
#define __CUDAFATBINDATASECTION  "%s"
"""

_ASSEMBLY = """\
asm(
".section %s, \\"a\\"\\n"
".align 8\\n"
"fatbinData:\\n"
"""

_ASSEMBLY_END = """\
".text\\n");
#ifdef __cplusplus
extern "C" {
#endif
extern const unsigned long long fatbinData[%d];
#ifdef __cplusplus
}
#endif
"""

_ARRAY = """\
#ifdef __cplusplus
extern "C" {
#endif

static const unsigned long long fatbinData[] __attribute__ ((section (__CUDAFATBINDATASECTION)))= {"""

_ARRAY_END = """
};

#ifdef __cplusplus
}
#endif

"""

_NAME = """\
#undef __FATIDNAME_CORE
#undef __FATIDNAME
#define __FATIDNAME_CORE(x) __fatbinwrap##x
#define __FATIDNAME(x) __FATIDNAME_CORE(x)
extern const __fatBinC_Wrapper_t __FATIDNAME(__NV_MODULE_ID)"""

_WRAPPER = """\
#ifdef __cplusplus
extern "C" {
#endif
%s __attribute__ ((aligned (8))) __attribute__ ((section (__CUDAFATBINSECTION)))= 
\t{ 0x466243b1, %d, fatbinData, %s };
#ifdef __cplusplus
}
#endif
"""  # noqa: W291


def c_file(pieces: Sequence[Piece], *, relocatable: bool, linked: bool, as_array: bool) -> Iterator[bytes]:
    """Yield the C file for a fat binary. ``relocatable`` code has a section and a wrapper of its own."""
    section = "__nv_relfatbin" if relocatable else ".nv_fatbin"
    yield (_START % section).encode()
    if as_array:
        yield _ARRAY.encode()
        yield from _numbers(pieces, "0x%016xull,0x%016xull,0x%016xull,0x%016xull,\n", "0x%016xull", ",", "")
        yield _ARRAY_END.encode()
    else:
        yield (_ASSEMBLY % section).encode()
        row = '".quad 0x%016x,0x%016x,0x%016x,0x%016x\\n"\n'
        yield from _numbers(pieces, row, "0x%016x", ", ", '".quad %s\\n"\n')
        yield (_ASSEMBLY_END % (sum(map(len, pieces)) // 8)).encode()
    name = _NAME if relocatable else "static const __fatBinC_Wrapper_t __fatDeviceText"
    version, more = (2, "(void**)__cudaPrelinkedFatbins") if linked else (1, "0")
    yield (_WRAPPER % (name, version, more)).encode()


def _numbers(pieces: Sequence[Piece], row: str, number: str, separator: str, last: str) -> Iterator[bytes]:
    """Yield the bytes as numbers of 64 bits, in rows; the last row, if it is shorter, looks different."""
    size = 8 * _ROW * _ROWS
    buffer = bytearray()
    for part in _parts(pieces):
        buffer += part
        whole = len(buffer) - len(buffer) % (8 * _ROW)
        for at in range(0, whole, size):
            values = struct.unpack_from(f"<{min(size, whole - at) // 8}Q", buffer, at)
            yield ((row * (len(values) // _ROW)) % values).encode()
        del buffer[:whole]
    if buffer:
        values = struct.unpack(f"<{len(buffer) // 8}Q", buffer)
        text = separator.join(number % value for value in values)
        yield (last % text if last else text).encode()


def _parts(pieces: Iterable[Piece]) -> Iterator[bytes | bytearray | memoryview]:
    for piece in pieces:
        if isinstance(piece, (bytes, bytearray, memoryview)):
            yield piece
        else:
            yield from piece.pieces()
