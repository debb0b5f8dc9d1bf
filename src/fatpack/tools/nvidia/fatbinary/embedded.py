"""The C file of ``--embedded-fatbin``: the fat binary as assembly or as an array, and the wrapper that points at it.

The compiler of the host's code includes it behind ``fatbinary_section.h`` of the toolkit. Byte for byte fatbinary's.
"""

from __future__ import annotations

import struct

from fatpack.io.source import piece_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import Piece

#: Numbers in a row, and rows that are written at a time.
_ROW, _ROWS = 4, 2048

_START = """\
#ifndef __SKIP_INTERNAL_FATBINARY_HEADERS
#include "fatbinary_section.h"
#endif
#define __CUDAFATBINSECTION  ".nvFatBinSegment%s"
#define __CUDAFATBINDATASECTION  "%s"
"""

_ASSEMBLY = """\
asm(
".section %s, \\"a\\"\\n"
".align 8\\n"
"fatbinData%s:\\n"
"""

_ASSEMBLY_END = """\
".text\\n");
#ifdef __cplusplus
extern "C" {
#endif
extern const unsigned long long fatbinData%s[%d];
#ifdef __cplusplus
}
#endif
"""

_ARRAY = """\
#ifdef __cplusplus
extern "C" {
#endif

static const unsigned long long fatbinData%s[] __attribute__ ((section (__CUDAFATBINDATASECTION)))= {"""

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
\t{ 0x466243b1, %d, fatbinData%s, %s };
%s#ifdef __cplusplus
}
#endif
"""  # noqa: W291


#: Several in one file, with suffixes that tell them apart, need their own. How we know: fatbinary 13.5.
_UNDEFINED = """\
#undef __CUDAFATBINDATASECTION
#undef __CUDAFATBINSECTION
"""


def c_file(
    pieces: Sequence[Piece],
    *,
    relocatable: bool,
    linked: bool,
    as_array: bool,
    suffix: str = "",
    undefines: bool = False,
) -> Iterator[bytes]:
    """Yield the C file for a fat binary. ``relocatable`` code has a section and a wrapper of its own.

    ``suffix`` goes to the names of what is defined, the wrapper of relocatable code excepted, and to that of the
    wrapper's section. ``undefines`` takes the macros back behind the wrapper, as later versions do.
    """
    section = "__nv_relfatbin" if relocatable else ".nv_fatbin"
    yield _encoded(_START % (suffix, section))
    if as_array:
        yield _encoded(_ARRAY % suffix)
        yield from _numbers(pieces, "0x%016xull,0x%016xull,0x%016xull,0x%016xull,\n", "0x%016xull", ",", "")
        yield _ARRAY_END.encode()
    else:
        yield _encoded(_ASSEMBLY % (section, suffix))
        row = '".quad 0x%016x,0x%016x,0x%016x,0x%016x\\n"\n'
        yield from _numbers(pieces, row, "0x%016x", ", ", '".quad %s\\n"\n')
        yield _encoded(_ASSEMBLY_END % (suffix, sum(map(len, pieces)) // 8))
    name = _NAME if relocatable else f"static const __fatBinC_Wrapper_t __fatDeviceText{suffix}"
    version, more = (2, "(void**)__cudaPrelinkedFatbins") if linked else (1, "0")
    yield _encoded(_WRAPPER % (name, version, suffix, more, _UNDEFINED if undefines else ""))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _numbers(pieces: Sequence[Piece], row: str, number: str, separator: str, last: str) -> Iterator[bytes]:
    """Yield the bytes as numbers of 64 bits, in rows; the last row, if it is shorter, looks different."""
    size = 8 * _ROW * _ROWS
    buffer = bytearray()
    for part in piece_parts(pieces):
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
