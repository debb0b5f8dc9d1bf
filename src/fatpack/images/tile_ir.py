"""CUDA Tile IR bytecode: kernels over tiles, which tileiras or the driver compiles for one SM.

::

    0x00  magic 0x7f "TileIR" 0   0x08  u8 major, u8 minor   0x0a  u16 tag: 0, with bit 0 for previews
    0x0c  sections, each of a kind once, in any order; the last is the byte 0
          u8 kind, bit 7 if it is aligned; varint size; if aligned: varint alignment, bytes 0xcb up to there
          1 strings, 2 functions, 3 debug information, 4 constants, 5 types, 6 globals, 7 producer
    strings    varint count, padding to 4, u32 offset of each, their bytes without ends
    functions  varint count; for each
               varint name, varint type, u8 flags (1 private, 2 kernel, 4 hints), varint location,
               hints if the flags say so, varint size of the body, body
    hints      u8 kind, value: a dictionary of dictionaries of numbers
    producer   varint string

Varints have seven bits in a byte, the lowest first, and alignments count from the magic.

Sources: ``lib/Bytecode/Reader/BytecodeReader.cpp`` and ``BytecodeEnums.h`` of NVIDIA/cuda-tile, release 13.3, and
``cuda/tile/_bytecode`` of the Python package cuda-tile 1.7.0. tileirdisasm 13.5 names the same kernels in output of
that package for the versions 13.1 to 13.4. Version 13.5, in which entries always have hints and all functions are
followed by a list of attributes of their arguments, is known only from its writer, which marks it as not released.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.binary.elf.quick_header import decode_name
from fatpack.errors import BadMagic, BadValue, LimitExceeded, Truncated, pluralize
from fatpack.images.identification import UNKNOWN, ImageInfo
from fatpack.images.kernel import KernelInfo, KernelNeeds, check_count
from fatpack.magic_numbers import TILE_IR

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View

FORMAT = "tile-ir"

#: bytes of the magic and the version
_HEADER = 12

#: kinds of sections
_END, _STRINGS, _FUNCTIONS, _PRODUCER = 0, 1, 2, 7
_NAMES = ("end", "strings", "functions", "debug information", "constants", "types", "globals", "producer")

_ALIGNED = 0x80

#: flags of a function
_KERNEL, _HINTS = 2, 4

#: the first version in which hints are always present, followed by attributes of arguments
_ARGUMENTS = (13, 5)

#: kinds of attributes: integer with its type, boolean, type, string; array, dictionary and hints are nested
_INTEGER, _BOOL, _TYPE, _STRING, _ARRAY, _DIVISIBLE, _DICTIONARY, _OPTIMIZATION, _BOUNDED = 1, 3, 4, 5, 6, 8, 10, 11, 12

#: LIMIT: nesting depth of attributes. Hints are dictionaries of dictionaries of numbers.
_NESTING = 16

#: LIMIT: bytes of a varint of 64 bits
_VARINT = 10

#: Bytes per read.
_BLOCK = 4096


def identify(view: View, head: bytes) -> ImageInfo:
    """Identify a module; ``head`` are its first bytes. Its size is the end of its sections."""
    if not head.startswith(TILE_IR):
        return UNKNOWN
    detail = "CUDA Tile IR bytecode"
    if len(head) >= _HEADER:
        tag = int.from_bytes(head[10:12], "little")
        detail += f" {head[8]}.{head[9]}" + (f".{tag >> 1}" if tag >> 1 else "") + (", preview" if tag & 1 else "")
    return ImageInfo("tileir", triple="nvptx64-nvidia-cuda", size=extent(view), detail=detail)


def extent(view: View) -> int | None:
    """Return the size of the module at the start of a view; None if its sections are damaged. Never raises for that."""
    try:
        *_, (_, _, end) = _sections(view)
    except (BadMagic, BadValue, Truncated):
        return None
    return end


def kernels(view: View) -> tuple[str, ...]:
    """Return the names of the kernels. Raises FormatError if a section is damaged."""
    return tuple(kernel.name for kernel in facts(view).kernels)


def facts(view: View) -> KernelInfo:
    """Return the kernels, which have no properties before they are compiled, and the module's producer."""
    sections = {kind: (start, end) for kind, start, end in _sections(view)}
    strings = _Strings(view, *sections.get(_STRINGS, (0, 0)))
    made_by: tuple[str, ...] = ()
    if _PRODUCER in sections:
        made_by = (strings.at(_Cursor(view, *sections[_PRODUCER], _NAMES[_PRODUCER]).varint()),)
    if _FUNCTIONS not in sections:
        return KernelInfo((), made_by)
    names = dict.fromkeys(strings.at(number) for number in _kernels(view, *sections[_FUNCTIONS]))
    return KernelInfo(tuple(map(KernelNeeds, names)), made_by)


def _sections(view: View) -> Iterator[tuple[int, int, int]]:
    """Yield (kind, start, end) of the sections, and finally the module's end as kind 0. Raises FormatError."""
    magic = view.head(0, len(TILE_IR))
    if magic != TILE_IR:
        raise BadMagic(
            "this is no Tile IR", format=FORMAT, offset=view.offset(0), found=magic.hex(" "), chain=view.chain
        )
    cursor = _Cursor(view, _HEADER, len(view), "section")
    seen: set[int] = set()
    while True:
        at = cursor.at
        stored = cursor.byte()
        kind = stored & ~_ALIGNED
        if stored == _END:
            yield _END, at, cursor.at
            return
        if kind == _END or kind >= len(_NAMES) or kind in seen:
            problem = f"a second section of {_NAMES[kind]}" if kind in seen else f"kind {stored:#x} is unknown"
            raise cursor.error(problem, at)
        seen.add(kind)
        cursor.field = f"section of {_NAMES[kind]}"
        size = cursor.varint()
        if stored & _ALIGNED:
            alignment = cursor.varint()
            if not alignment or alignment & (alignment - 1):
                raise cursor.error(f"alignment {alignment} is not a power of two", at)
            cursor.skip(-cursor.at % alignment)
        start = cursor.at
        cursor.skip(size)
        yield kind, start, cursor.at


def _kernels(view: View, start: int, end: int) -> Iterator[int]:
    """Yield the string number of each kernel's name, in the order of the functions. Raises FormatError."""
    has_arguments = tuple(view.read(8, 2)) >= _ARGUMENTS
    cursor = _Cursor(view, start, end, "section of functions")
    found = 0
    for _ in range(cursor.count(5)):
        name, _type, flags, _location = cursor.varint(), cursor.varint(), cursor.byte(), cursor.varint()
        is_kernel = bool(flags & _KERNEL)
        if is_kernel and (flags & _HINTS or has_arguments):
            _pass_attribute(cursor, _NESTING)
        if has_arguments:
            _pass_attribute(cursor, _NESTING)
        cursor.skip(cursor.varint())
        if is_kernel:
            found += 1
            check_count(view, found)
            yield name


def _pass_attribute(cursor: _Cursor, depth: int) -> None:
    """Skip an attribute and its kind. Raises BadValue for kinds that hints do not have."""
    at, kind = cursor.at, cursor.byte()
    if kind in (_ARRAY, _DICTIONARY, _OPTIMIZATION):
        if not depth:
            raise cursor.error(f"attributes are inside each other {_NESTING} times", at)
        for _ in range(cursor.count(1)):
            if kind != _ARRAY:
                cursor.varint()
            _pass_attribute(cursor, depth - 1)
    elif kind == _BOOL:
        cursor.byte()
    elif kind in (_TYPE, _STRING):
        cursor.varint()
    elif kind == _INTEGER:
        cursor.varint()
        cursor.varint()
    elif kind in (_DIVISIBLE, _BOUNDED):
        if kind == _DIVISIBLE:
            cursor.varint()
        for _ in range((cursor.byte() & 3).bit_count()):
            cursor.varint()
    else:
        raise cursor.error(f"a hint has an attribute of unknown kind {kind}", at)


class _Strings:
    """The section of strings; the size of all returned strings is limited, since functions may share one long name."""

    def __init__(self, view: View, start: int, end: int) -> None:
        self._cursor = cursor = _Cursor(view, start, end, "section of strings")
        self._count = cursor.count(4) if start < end else 0
        cursor.skip(-(cursor.at - start) % 4 if self._count else 0)
        self._table = cursor.at
        cursor.skip(4 * self._count)
        self._data, self._end = cursor.at, end
        self._budget = max(limits.STRING_FLOOR, limits.STRING_RATIO * len(view))

    def at(self, number: int) -> str:
        """Return a string by its number. Raises BadValue, LimitExceeded."""
        if number >= self._count:
            raise self._cursor.error(f"number {number} is requested, but there are {self._count}", self._table)
        view, place = self._cursor.view, self._table + 4 * number
        is_last = number + 1 == self._count
        row = view.read(place, 4 if is_last else 8)
        start = self._data + int.from_bytes(row[:4], "little")
        end = self._end if is_last else self._data + int.from_bytes(row[4:], "little")
        if not start <= end <= self._end:
            raise self._cursor.error(f"string {number} lies outside", place)
        self._budget -= end - start
        if self._budget < 0:
            raise LimitExceeded(
                "names are far longer than the module",
                format=FORMAT,
                offset=view.offset(place),
                field=self._cursor.field,
                hint=limits.advice("STRING_RATIO"),
                chain=view.chain,
            )
        return decode_name(view.read(start, end - start))


class _Cursor:
    """A position in a section of a module; ``field`` is the section's name in errors."""

    def __init__(self, view: View, start: int, end: int, field: str) -> None:
        self.view, self.at, self.field = view, start, field
        self._end = end
        self._block, self._start = b"", start

    def byte(self) -> int:
        """Return the next byte. Raises Truncated."""
        place = self.at - self._start
        if not 0 <= place < len(self._block):
            self._block, self._start, place = self.view.head(self.at, min(_BLOCK, self._end - self.at)), self.at, 0
            if not self._block:
                raise self._truncated(1)
        self.at += 1
        return self._block[place]

    def varint(self) -> int:
        """Return the next varint. Raises Truncated, and BadValue for one of more than 64 bits."""
        at, number = self.at, 0
        for place in range(_VARINT):
            byte = self.byte()
            number |= (byte & 0x7F) << 7 * place
            if byte < 0x80:
                if number >> 64:
                    raise self.error("a number of more than 64 bits", at)
                return number
        raise self.error("a number does not end", at)

    def count(self, least: int) -> int:
        """Return a count of items of at least ``size`` bytes. Raises BadValue if they do not fit."""
        at = self.at
        count = self.varint()
        if count * least > self._end - self.at:
            raise self.error(f"there is no room for {pluralize(count, 'row')}", at)
        return count

    def skip(self, size: int) -> None:
        """Skip bytes. Raises Truncated."""
        if size > self._end - self.at:
            raise self._truncated(size)
        self.at += size

    def error(self, problem: str, at: int) -> BadValue:
        """Return the error for a problem at a position of the view."""
        view = self.view
        return BadValue(problem, format=FORMAT, offset=view.offset(at), field=self.field, chain=view.chain)

    def _truncated(self, needed: int) -> Truncated:
        return Truncated(
            needed=needed,
            left=self._end - self.at,
            format=FORMAT,
            offset=self.view.offset(self.at),
            field=self.field,
            chain=self.view.chain,
        )
