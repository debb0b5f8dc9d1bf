r"""Containers in the text of compilers: LLVM IR (``.ll``), assembly (``.s``), and nvcc's C file with a fat binary.

::

    @0 = private constant [9 x i8] c"P\EDU\BA\01\00…", section ".nv_fatbin"     LLVM IR: \ and two hexadecimal digits
    .section .hip_fatbin,"a"  .asciz "__CLANG_OFFLOAD_BUNDLE__\002…"            assembly: \ and octal digits, numbers
    ".quad 0x00100001ba55ed50,0x0000000000000c80\n"                             .fatbin.c: assembly in strings of C

A string or a run of directives that begins as a container does is decoded, and read as what a compiler makes of it.
Numbers are little endian, as on all hosts of CUDA and HIP.

How we know: ``printEscapedString`` in ``llvm/lib/Support/StringExtras.cpp`` and ``MCAsmStreamer::PrintQuotedString`` in
``llvm/lib/MC/MCAsmStreamer.cpp`` (LLVM 22); what clang 22 and nvcc 13.0 write is compared with their objects.
"""

from __future__ import annotations

import re

from fatpack import magic_numbers
from fatpack.io.source import BytesSource, View, VirtualName
from fatpack.record import Record
from fatpack.scanner.unsupported_files import ASSEMBLY_START

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

#: LIMIT: bytes of a text that is decoded; it is read into memory. Five bytes of text are about one of device code.
MAX_TEXT = 32 << 20

#: first bytes of the containers that compilers write into text
_STARTS = (
    magic_numbers.FATBIN,
    magic_numbers.BUNDLE,
    magic_numbers.COMPRESSED_BUNDLE,
    magic_numbers.OFFLOAD_BINARY,
)

#: Characters of an operand that tell its first bytes.
_PROBE = 128

#: A constant of LLVM IR: its name, its string, which has no quotation mark inside, and its section.
_CONSTANT = re.compile(
    rb'^@("[^"\n]*"|[-\w.$]+) = [^"\n]*(?:constant|global) \[\d+ x i8\] c"([^"]*)"(?:, section "([^"\n]*)")?',
    re.MULTILINE,
)

#: The beginning of a line of assembly with data, alone or in a string of C, and what may follow its operand.
_DIRECTIVE = re.compile(
    rb'[ \t]*(?:"[ \t]*)?(?:[-\w.$]+:[ \t]*)?'
    rb"\.(ascii|asciz|string|quad|8byte|xword|long|4byte|word|int|"
    rb"short|2byte|value|hword|byte|zero|skip)[ \t]+"
)
_NUMBERS = re.compile(rb"[-\w, \t]+")
_TAIL = re.compile(rb'[ \t]*(?:\\n"[ \t]*)?(?:(?:#|//)[^\n]*)?\r?(?:\n|\Z)')
#: Lines without data: blank ones, comments and labels, alone or in strings of C.
_PASSED = re.compile(
    rb'(?:[ \t]*(?:"[ \t]*)?(?:[-\w.$]+:[ \t]*)?(?:\\n"[ \t]*)?(?:(?:#|//)[^\n]*|/\*[^\n]*?\*/[ \t]*)?\r?\n){1,1024}'
)
#: The line with which a container begins. One search over the text finds it: a text may have millions of lines.
_FIRST = re.compile(rb'^[ \t]*(?:"[ \t]*)?(?:[-\w.$]+:[ \t]*)?' + ASSEMBLY_START, re.MULTILINE)
#: Signs that ``.word`` has 4 bytes, as on AArch64: a directive that x86 lacks, or a number of more than 2 bytes.
_WIDE_WORDS = re.compile(
    rb'^[ \t]*(?:"[ \t]*)?\.(?:xword\b|word[ \t][^\n]*?\b(?:0[xX]0*[1-9a-fA-F][0-9a-fA-F]{4}|[1-9]\d{5}))', re.MULTILINE
)
_SECTION = re.compile(rb'\.section[ \t]+\\?"?([-\w.$]+)')

#: LIMIT: characters of numbers in one directive. Compilers write four numbers or one.
_MOST_NUMBERS = 1 << 16
#: Bytes of a string that are decoded at once.
_STEP = 1 << 16

_STRINGS = (b"ascii", b"asciz", b"string")
_SIZES = {b"quad": 8, b"8byte": 8, b"xword": 8, b"long": 4, b"4byte": 4, b"int": 4, b"word": 4, b"value": 2}
_SIZES |= {b"short": 2, b"2byte": 2, b"hword": 2, b"byte": 1}
#: Escapes of strings: of a hexadecimal one, GNU as takes all digits, and the last eight bits of their number.
_OCTAL = re.compile(rb'\\([0-7]{1,3}|[bfnrt"]|[xX][0-9a-fA-F]{1,64})')
_ESCAPES = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b'"': b'"'}
_ESCAPES |= {f"{number:0{width}o}".encode(): bytes((number,)) for width in (1, 2, 3) for number in range(256)}
_HEXADECIMAL = {f"{number:{style}}".encode(): bytes((number,)) for number in range(256) for style in ("02x", "02X")}


class TextContainer(Record):
    """The bytes of a container that a text spells: the section or the name of its constant, and its decoded bytes.

    ``labels`` has the offsets in ``data`` after a label where other data may begin.
    """

    holder: str
    data: View
    labels: list[int]


def find_text_containers(view: View) -> Iterator[TextContainer]:
    """Yield the containers that a text spells, in order; nothing for a text beyond :data:`MAX_TEXT`."""
    if len(view) > MAX_TEXT:
        return
    text = view.tobytes()
    for at, holder, data, labels in (*_in_llvm_ir(text), *_in_assembly(text)):
        name = VirtualName(f"{holder} (text at {view.offset(at):#x})")
        source = BytesSource(data, name, present=len(view))
        source.budget = view.source.budget
        yield TextContainer(holder, View(source, 0, len(data), (*view.chain, name)), labels)


def _in_llvm_ir(text: bytes) -> Iterator[tuple[int, str, bytes, list[int]]]:
    for found in _CONSTANT.finditer(text):
        try:
            if not _from_llvm_ir(found[2][:_PROBE]).startswith(_STARTS):
                continue
            data = _from_llvm_ir(found[2])
        except KeyError:
            continue  # the scan has a finding for text that is not decoded
        yield found.start(), (found[3] or b"@" + found[1].strip(b'"')).decode("utf-8", "replace"), data, []


def _from_llvm_ir(text: bytes) -> bytes:
    r"""Return the bytes of a string of LLVM IR, without an unfinished escape at its end.

    Raises KeyError for ``\`` before other characters than hexadecimal digits.
    """
    data = bytearray()
    for step in _steps(text.replace(b"\\\\", b"\\5C")):
        first, *others = step.split(b"\\")
        data += first + b"".join([_HEXADECIMAL[part[:2]] + part[2:] for part in others if len(part) > 1])
    return bytes(data)


def _from_assembly(text: bytes) -> bytes:
    r"""Return the bytes of a string of assembly."""
    data = bytearray()
    for step in _steps(text.replace(b"\\\\", b"\\134")):
        data += _OCTAL.sub(_escaped, step)
    return bytes(data)


def _escaped(found: re.Match[bytes]) -> bytes:
    if found[1][:1] in b"xX":
        return bytes((int(found[1][1:], 16) & 0xFF,))
    return _ESCAPES.get(found[1], found[0])


def _steps(text: bytes) -> Iterator[bytes]:
    """Yield a string in parts that end before an escape; in ``text`` each backslash begins one."""
    at = 0
    while at < len(text):
        end = min(at + _STEP, len(text))
        slash = text.rfind(b"\\", max(at, end - 70), end)
        if slash > at and end < len(text):
            end = slash
        yield text[at:end]
        at = end


def _in_assembly(text: bytes) -> Iterator[tuple[int, str, bytes, list[int]]]:
    at, zeros, section, seen = 0, MAX_TEXT, "", 0
    word_size = 0
    while (found := _FIRST.search(text, at)) is not None:
        start = found.start()
        word_size = word_size or (4 if _WIDE_WORDS.search(text) else 2)
        data, at = bytearray(), start
        labels: list[int] = []
        while (line := _read_line(text, at)) is not None:
            begin, directive, operand, end = line
            value = _value(directive, operand, zeros, word_size)
            if value is None:
                break
            zeros -= len(value) if directive in (b"zero", b"skip") else 0
            if text.find(b":", at, begin) >= 0 and not value.startswith(_STARTS):
                labels.append(len(data))
            data += value
            at = end
        at = max(at, found.end())
        if not data.startswith(_STARTS):
            continue
        place = text.rfind(b".section", seen, start)
        named = _SECTION.match(text, place) if place >= 0 else None
        section, seen = named[1].decode() if named else section, start
        yield start, section, bytes(data), labels


def _read_line(text: bytes, at: int) -> tuple[int, bytes, bytes, int] | None:
    """Return the next line with data: its place, its directive, its operand without quotation marks, and its end.

    Blank lines, comments and labels are passed over. None if other text comes first, or follows the operand.
    """
    begin = _DIRECTIVE.match(text, at)
    while begin is None and (passed := _PASSED.match(text, at)):
        at = passed.end()
        begin = _DIRECTIVE.match(text, at)
    if begin is None:
        return None
    start = begin.end()
    if begin[1] in _STRINGS:
        start += 1
        end = _string_end(text, start) if text.startswith(b'"', start - 1) else -1
        rest = end + 1
    else:
        numbers = _NUMBERS.match(text, start, start + _MOST_NUMBERS)
        end = rest = numbers.end() if numbers else -1
    tail = _TAIL.match(text, rest) if end >= 0 else None
    return (begin.start(1), begin[1], text[start:end], tail.end()) if tail else None


def _string_end(text: bytes, at: int) -> int:
    """Return where the quotation mark is that ends a string; -1 if there is none."""
    end = text.find(b'"', at)
    while end >= 0:
        before = end
        while before > at and text[before - 1] == 0x5C:
            before -= 1
        if (end - before) % 2 == 0:
            return end
        end = text.find(b'"', end + 1)
    return -1


def _value(directive: bytes, operand: bytes, most: int, word_size: int) -> bytes | None:
    """Return the bytes of a directive; None for an operand that is no number, and for more than ``most`` zeros."""
    if directive in _STRINGS:
        return _from_assembly(operand) + bytes(directive != b"ascii")
    try:
        numbers = [_number(word.strip()) for word in operand.split(b",")]
    except ValueError:
        return None
    if directive in (b"zero", b"skip"):
        return bytes(numbers[0]) if len(numbers) == 1 and 0 <= numbers[0] <= most else None
    size = word_size if directive == b"word" else _SIZES[directive]
    return b"".join([(number % (1 << 8 * size)).to_bytes(size, "little") for number in numbers])


def _number(word: bytes) -> int:
    """Return a number of assembly: octal after a zero. Raises ValueError for what is none."""
    is_octal = word[:1] == b"0" and word.isdigit()
    return int(word, 8 if is_octal else 0)
