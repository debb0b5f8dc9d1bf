"""SPIR-V: a stream of 32-bit words, in the byte order of the machine that wrote it.

::

    0x00  magic 0x07230203   0x04  version 0x00MMmm00   0x08  generator   0x0c  bound of the IDs   0x10  0
    0x14  instructions: count of words << 16 | opcode, operands
          OpCapability …, OpExtension …, OpExtInstImport …, OpMemoryModel, OpEntryPoint …

Khronos "SPIR-V Specification", 2.3 (header) and 2.4 (order of instructions). A module does not state its size: among
other bytes it ends with the last function and the instructions that may follow it (2.4, 13; SPV_KHR_non_semantic_info).
"""

from __future__ import annotations

from array import array
from sys import byteorder

from fatpack import limits
from fatpack.errors import BadMagic, BadValue
from fatpack.images.identification import ImageInfo
from fatpack.magic_numbers import SPIRV

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.images.hollow import Body
    from fatpack.images.kernel import KernelInfo
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder

_HEADER = 20

_MEMORY_MODEL, _ENTRY_POINT = 14, 15

#: instructions that end a body of which they are all → the word for it: OpReturn, OpUnreachable
_BODIES: dict[int, Body] = {253: "returns", 255: "unreachable"}

#: what a body without effect may have besides: OpFunctionParameter, OpLabel, OpLine, OpNoLine
_IN_EMPTY = frozenset((8, 55, 248, 317))

#: LIMIT: bytes of a module whose bodies are read; those of libraries have some hundred kilobytes.
_LONGEST_READ = 64 << 20

_LINE, _EXT_INST, _FUNCTION, _FUNCTION_END, _NO_LINE = 8, 12, 54, 56, 317

#: words of OpFunction, OpLine and OpNoLine; lines and OpExtInst may be between functions
_WORDS = {_FUNCTION: 5, _LINE: 4, _NO_LINE: 1}

#: Instructions before the entry points: OpExtension, OpExtInstImport, OpMemoryModel, OpCapability, and Intel's
#: conditional forms of extension and capability (SPV_INTEL_function_variants).
_PREAMBLE = frozenset((10, 11, _MEMORY_MODEL, 17, 6248, 6250))

#: execution model of OpenCL and SYCL kernels
_KERNEL = 6

#: addressing model → triple
_TRIPLES = {1: "spirv32", 2: "spirv64"}

#: LIMIT: the largest bound of IDs and opcode of bytes that may be a module. The universal limit of IDs is 4,194,303
#: (2.17); extensions have opcodes up to 6,500.
_MOST_IDS, _MOST_OPCODE = 1 << 22, 1 << 13

#: LIMIT: instructions before the memory model; real modules have some tens.
_INSTRUCTIONS = 1024


def identify(view: View, head: bytes) -> ImageInfo:
    """Identify a SPIR-V module; ``head`` are its first bytes."""
    order: ByteOrder = "little" if head.startswith(SPIRV) else "big"
    triple = ""
    for count, (opcode, at, _) in enumerate(_instructions(view, order)):
        if opcode == _MEMORY_MODEL:
            triple = _TRIPLES.get(int.from_bytes(view.head(at + 4, 4), order), "")
        if opcode not in _PREAMBLE or opcode == _MEMORY_MODEL or count == _INSTRUCTIONS:
            break
    version = int.from_bytes(head[4:8], order)
    detail = f"SPIR-V {version >> 16 & 0xFF}.{version >> 8 & 0xFF}{', big-endian' if order == 'big' else ''}"
    return ImageInfo("spirv", triple=triple, detail=detail)


def kernels(view: View) -> tuple[str, ...]:
    """Return the names of the entry points that are kernels. Raises FormatError if one is truncated."""
    magic = view.head(0, 4)
    if magic not in (SPIRV, SPIRV[::-1]):
        raise BadMagic(
            "this is no SPIR-V", format="spirv", offset=view.offset(0), found=magic.hex(" "), chain=view.chain
        )
    order: ByteOrder = "little" if magic == SPIRV else "big"
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


def facts(view: View) -> KernelInfo:
    """Return the kernels, with the word for each whose body only returns or is never reached. Raises as `kernels`."""
    from fatpack.images.kernel import KernelInfo, KernelNeeds

    names = kernels(view)
    bodies = _bodies(view) if names and len(view) <= _LONGEST_READ else {}
    return KernelInfo(tuple(KernelNeeds(name, body=bodies.get(name)) for name in names))


def _bodies(view: View) -> dict[str, Body | None]:
    """Return the words for the bodies of entry points, by name; a name of several functions gets none."""
    words = array("I", view.tobytes()[: len(view) & ~3])
    if (view.head(0, 4) == SPIRV) != (byteorder == "little"):
        words.byteswap()
    found: dict[int, Body | None] = {}
    names: dict[int, str] = {}
    at, function, body = _HEADER // 4, 0, None
    is_empty = False
    while at < len(words) and (size := words[at] >> 16):
        opcode = words[at] & 0xFFFF
        if opcode == _ENTRY_POINT and size > 3 and words[at + 1 : at + 2].tolist() == [_KERNEL]:
            text = words[at + 3 : at + size]
            if byteorder == "big":
                text.byteswap()
            names[words[at + 2]] = text.tobytes().partition(b"\0")[0].decode("utf-8", "backslashreplace")
        elif opcode == _FUNCTION and at + 2 < len(words):
            function, is_empty, body = words[at + 2], True, None
        elif opcode == _FUNCTION_END:
            found[function] = body if is_empty else None
        elif opcode in _BODIES:
            is_empty &= body is None
            body = _BODIES[opcode]
        elif opcode not in _IN_EMPTY:
            is_empty = False
        at += size
    told: dict[str, Body | None] = {}
    for number, name in names.items():
        told[name] = found.get(number) if name not in told else None
    return told


def _instructions(view: View, order: ByteOrder) -> Iterator[tuple[int, int, int]]:
    """Yield (opcode, position, size in bytes) of the instructions up to the first invalid one."""
    at = _HEADER
    while len(first := view.head(at, 4)) == 4:
        word = int.from_bytes(first, order)
        size = (word >> 16) * 4
        if not size:
            return
        yield word & 0xFFFF, at, size
        at += size


#: OpSourceContinued, OpSource, OpSourceExtension, OpName, OpMemberName, OpString, OpLine, OpNoLine, OpModuleProcessed
_FOR_DEBUGGERS = frozenset((2, 3, 4, 5, 6, 7, _LINE, _NO_LINE, 330))

_STRING = 7

#: OpExtInstImport, and the starts of names of sets without a meaning for the device
_IMPORT, _DEBUG_SETS = 11, (b"NonSemantic.", b"OpenCL.DebugInfo.", b"SPIRV.debug")


def code_digest(view: View) -> bytes:
    """Return the SHA-256 of a module's version and instructions without those for debuggers, as little-endian words.

    The generator and the bound of the IDs do not count; specification 2.4 lists the debug instructions. Bytes that are
    no whole instruction count as they are. Raises FormatError for a module without a header.
    """
    from hashlib import sha256

    order: ByteOrder = "little" if view.head(0, 4) == SPIRV else "big"
    head = view.head(0, _HEADER)
    if len(head) < _HEADER:
        raise BadValue(
            "the header of the module is cut short",
            format="spirv",
            offset=view.offset(0),
            field="header",
            expected=f"{_HEADER} bytes",
            found=f"{len(head)} bytes",
            chain=view.chain,
        )
    made = sha256(int.from_bytes(head[4:8], order).to_bytes(4, "little"))
    ignored: set[int] = set()
    for words in _whole_instructions(view, order):
        opcode = int.from_bytes(words[:2], "little")
        if opcode in _FOR_DEBUGGERS:
            continue
        if opcode == _IMPORT and words[8:].startswith(_DEBUG_SETS):
            ignored.add(int.from_bytes(words[4:8], "little"))
            continue
        if opcode == _EXT_INST and int.from_bytes(words[12:16], "little") in ignored:
            continue
        made.update(words)
    return made.digest()


def debug_texts(view: View) -> tuple[int, list[str], str]:
    """Return the generator, the texts of OpString, and the SHA-256 of the instructions that only debuggers read."""
    from hashlib import sha256

    order: ByteOrder = "little" if view.head(0, 4) == SPIRV else "big"
    made, texts = sha256(), list[str]()
    for words in _whole_instructions(view, order):
        opcode = int.from_bytes(words[:2], "little")
        if opcode in _FOR_DEBUGGERS:
            made.update(words)
        if opcode == _STRING:
            texts.append(words[8:].split(b"\0", 1)[0].decode("utf-8", "backslashreplace"))
    return int.from_bytes(view.head(8, 4), order), texts, made.hexdigest()


def _whole_instructions(view: View, order: ByteOrder) -> Iterator[bytes]:
    """Yield the bytes of each instruction in little-endian words; what is left is marked by an opcode that none has."""
    block, start, at, total = b"", 0, _HEADER, len(view)
    while at + 4 <= total:
        if at + 4 > start + len(block):
            block, start = view.head(at, limits.CHUNK), at
        size = (int.from_bytes(block[at - start : at - start + 4], order) >> 16) * 4
        if not size or at + size > total:
            break
        if at + size > start + len(block):
            block, start = view.head(at, max(limits.CHUNK, size)), at
        words = block[at - start : at - start + size]
        if order == "big":
            words = b"".join(words[word : word + 4][::-1] for word in range(0, size, 4))
        yield words
        at += size
    for rest in view.slice(at, total - at).read_once() if at < total else ():
        yield b"\xff\xff" + bytes(rest)


def extent(view: View) -> tuple[int, int]:
    """Return the size of the module at the start of a view, and how many bytes were read to find it.

    The size is 0 if there is none: a module has a header, instructions in their order, and complete functions. Needs a
    block of memory, whatever the size.
    """
    order: ByteOrder = "little" if view.head(0, 4) == SPIRV else "big"
    if not _is_header(view.head(0, _HEADER), order):
        return 0, _HEADER
    bound = int.from_bytes(view.head(12, 4), order)
    has_model = is_inside = False
    at, end, total = _HEADER, 0, len(view)
    block, start = b"", 0
    while at + 4 <= total:
        if at + 16 > start + len(block) and start + len(block) < total:
            block, start = view.head(at, limits.CHUNK), at
        words = block[at - start : at - start + 16]
        first = int.from_bytes(words[:4], order)
        opcode, count = first & 0xFFFF, first >> 16
        if not count or at + 4 * count > total or opcode >= _MOST_OPCODE:
            break
        if at == _HEADER and opcode not in _PREAMBLE:
            break
        has_model = has_model or opcode == _MEMORY_MODEL
        if is_inside:
            if opcode == _FUNCTION:
                break
            if opcode == _FUNCTION_END:
                is_inside, end = False, at + 4
        elif opcode == _FUNCTION or end:
            if opcode == _EXT_INST and end:
                ids = [int.from_bytes(words[place : place + 4], order) for place in (4, 8, 12)]
                if count < 5 or not all(0 < id < bound for id in ids):
                    break
                end = at + 4 * count
            elif _WORDS.get(opcode) != count:
                break
            is_inside = opcode == _FUNCTION
        at += 4 * count
    return (end if has_model and not is_inside else 0), at


def _is_header(head: bytes, order: ByteOrder) -> bool:
    """Return whether a header is valid: version 1.0 to 1.9, a plausible bound of IDs, schema 0."""
    if len(head) < _HEADER:
        return False
    version, _, bound, schema = (int.from_bytes(head[at : at + 4], order) for at in range(4, _HEADER, 4))
    return (
        version >> 16 == 1 and version >> 8 & 0xFF < 10 and not version & 0xFF and 0 < bound <= _MOST_IDS and not schema
    )
