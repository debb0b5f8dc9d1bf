"""SPIR-V: a stream of 32-bit words, in the byte order of the machine that wrote it.

::

    0x00  magic 0x07230203   0x04  version 0x00MMmm00   0x08  generator   0x0c  bound of the IDs   0x10  0
    0x14  instructions: count of words << 16 | opcode, operands
          OpCapability …, OpExtension …, OpExtInstImport …, OpMemoryModel, OpEntryPoint …

Khronos "SPIR-V Specification", 2.3 (header) and 2.4 (order of instructions). A module does not say how long it is.
"""

from __future__ import annotations

from fatpack.errors import BadMagic, BadValue
from fatpack.images.recognised import Recognised
from fatpack.magics import SPIRV

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.layout import Order

_HEADER = 20

_MEMORY_MODEL, _ENTRY_POINT = 14, 15

#: What may stand before the entry points: OpExtension, OpExtInstImport, OpMemoryModel, OpCapability, and Intel's
#: conditional forms of extension and capability (SPV_INTEL_function_variants).
_PREAMBLE = frozenset((10, 11, _MEMORY_MODEL, 17, 6248, 6250))

#: execution model of OpenCL and SYCL kernels
_KERNEL = 6

#: addressing model → triple
_TRIPLES = {1: "spirv32", 2: "spirv64"}

#: LIMIT: instructions that are passed before the memory model; real modules have some tens.
_INSTRUCTIONS = 1024


def recognise(view: View, head: bytes) -> Recognised:
    """Return what a SPIR-V module is; ``head`` are its first bytes."""
    order: Order = "little" if head.startswith(SPIRV) else "big"
    triple = ""
    for count, (opcode, at, _) in enumerate(_instructions(view, order)):
        if opcode == _MEMORY_MODEL:
            triple = _TRIPLES.get(_word(view.head(at + 4, 4), order), "")
        if opcode not in _PREAMBLE or opcode == _MEMORY_MODEL or count == _INSTRUCTIONS:
            break
    version = _word(head[4:8], order)
    detail = f"SPIR-V {version >> 16 & 0xFF}.{version >> 8 & 0xFF}{', big-endian' if order == 'big' else ''}"
    return Recognised("spirv", triple=triple, detail=detail)


def kernels(view: View) -> tuple[str, ...]:
    """Return the names of the entry points that are kernels. Raises FormatError when one is cut short."""
    magic = view.head(0, 4)
    if magic not in (SPIRV, SPIRV[::-1]):
        raise BadMagic(
            "this is no SPIR-V", format="spirv", offset=view.offset(0), found=magic.hex(" "), chain=view.chain
        )
    order: Order = "little" if magic == SPIRV else "big"
    names: dict[str, None] = {}
    for opcode, at, size in _instructions(view, order):
        if opcode == _ENTRY_POINT:
            words = view.read(at, size) if at + size <= len(view) else b""
            if order == "big":
                words = b"".join(words[word : word + 4][::-1] for word in range(0, len(words), 4))
            name, end, _ = words[12:].partition(b"\0")
            if not end:
                raise BadValue(
                    "the name of an entry point does not end",
                    format="spirv",
                    offset=view.offset(at),
                    field="OpEntryPoint",
                    chain=view.chain,
                )
            if int.from_bytes(words[4:8], "little") == _KERNEL:
                names[name.decode("utf-8", "backslashreplace")] = None
        elif opcode not in _PREAMBLE:
            break
    return tuple(names)


def _word(data: bytes, order: Order) -> int:
    return int.from_bytes(data, order)


def _instructions(view: View, order: Order) -> Iterator[tuple[int, int, int]]:
    """Yield (opcode, position, size in bytes) of the instructions, as far as they make sense."""
    at = _HEADER
    while len(first := view.head(at, 4)) == 4:
        word = _word(first, order)
        size = (word >> 16) * 4
        if not size:
            return
        yield word & 0xFFFF, at, size
        at += size
