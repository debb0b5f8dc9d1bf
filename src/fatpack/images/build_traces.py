"""Traces of a build beside the code of an image: tools and options, paths and times of sources, temporary names.

::

    tool: ptxas, Cuda compilation tools, release 13.0, V13.0.88     .note.nv.tkinfo, .comment, comments of PTX, SPIR-V
    options: -lineinfo -arch sm_80                                  .note.nv.tkinfo
    temporary name: tmpxft_00005dd4_00000000-6_k.ptx                .note.nv.tkinfo
    source: /home/a/k.cu                                            .debug_line, .file of PTX, OpString of SPIR-V
    time of a source: 2023-11-14 22:13:20 UTC                       .debug_line, .file of PTX
    unit name: _INTERNAL_2151e6ae_4_k_cu_                           names of symbols
    debug information: .debug_info 6f2c…                            sections for debuggers, by their SHA-256

The canonical digest (:mod:`fatpack.images.identity`) covers none of it. ``fatpack diff`` names what of it differs.

Sources: :mod:`fatpack.images.line_table`; cuobjdump -elf and readelf of cubins of ptxas 13 for the note: u32 version,
then five u32 offsets into the strings after them: name, tool, version, build, options.
"""

from __future__ import annotations

import re

from fatpack import images
from fatpack.binary.elf.device_elf import DeviceElfSections
from fatpack.binary.elf.layout import DYNSYM, SYMTAB
from fatpack.binary.elf.quick_header import decode_name
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.images.kernel import strip_unit_suffix
from fatpack.images.line_table import read_line_tables

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.binary.elf.device_elf import DeviceElfSection
    from fatpack.io.source import View

#: LIMIT: traces of one image, and characters of one text
_TRACES, _LETTERS = 1000, 300

#: the note's descriptor begins after its header of 12 bytes and the name "NVIDIA Corp"; its strings after 24 bytes
_NOTE_HEAD, _NOTE_STRINGS = 24, 24

_DEBUG = (".debug_", ".nv_debug", ".nv.merc.debug", ".nv.merc.nv_debug")
#: the name of a temporary file of nvcc: it begins with the number of the process
TEMPORARY = re.compile(rb"tmpxft_[0-9a-f]{8}_[0-9a-f]{8}-\d+_[\w.+-]*")
_UNIT = re.compile(
    r"_INTERNAL_[0-9a-f]{8}_\d{1,9}_\w{0,1024}?_(?:cu|cpp|cc|c|cxx)_[0-9a-f]{8}"
    r"|_INTERNAL_[0-9a-f]{8}_\d{1,9}_\w{1,1024}?_cu_?"
)
PTX_FILE = re.compile(rb'(?m)^[ \t]*\.file[ \t]+\d+[ \t]+"([^"\n]*)"(?:[ \t]*"([^"\n]*)")?(?:[ \t]*,[ \t]*(\d+))?')


def build_traces(view: View, form: str) -> tuple[str, ...]:
    """Return what a build left in an image, as ``what: value``, sorted, each once; () for forms without any known.

    Raises FormatError if tables are damaged.
    """
    reader = {"cubin": _elf, "code-object": _elf, "ptx": _ptx, "spirv": _spirv}.get(form)
    if reader is None:
        return ()
    return images.recall("traces", form, view, lambda: _read_traces(reader(view)))


def _read_traces(traces: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    found: set[str] = set()
    for what, value in traces:
        if value and len(found) < _TRACES:
            found.add(f"{what}: {value[:_LETTERS]}")
    return tuple(sorted(found))


def _elf(view: View) -> Iterator[tuple[str, str]]:
    sections = DeviceElfSections(view)
    for section in sections.rows:
        if not section.size or not sections.has_bytes(section.index):
            continue
        if section.name == ".note.nv.tkinfo":
            yield from _tool_note(sections, section)
        elif section.name == ".comment":
            for line in dict.fromkeys(sections.content(section).head(0, 4096).split(b"\0")):
                yield "tool", decode_name(line)
        elif section.name == ".debug_line":
            yield from _line_tables(sections.content(section).tobytes(), sections)
        if section.name.startswith(_DEBUG):
            yield "debug information", f"{section.name} {_short_digest(sections.content(section))}"
    symbols = ElfSymbolTable(view, (SYMTAB, DYNSYM))
    for name in set(symbols.names([row[0] for row in symbols])):
        text = decode_name(name)
        if strip_unit_suffix(text) != text:
            found = _UNIT.search(text)
            yield "unit name", found[0] if found else text


def _tool_note(sections: DeviceElfSections, section: DeviceElfSection) -> Iterator[tuple[str, str]]:
    """Yield the texts of a note about the tool that made a cubin."""
    data = sections.content(section).head(0, 1 << 16)
    at = _NOTE_HEAD + 4
    if at + _NOTE_STRINGS - 4 <= len(data) and data[12:23] == b"NVIDIA Corp":
        start = _NOTE_HEAD + _NOTE_STRINGS
        offsets = [sections.number(data[at + 4 * place : at + 4 * place + 4]) for place in range(5)]
        texts = [data[start + offset :].split(b"\0", 1)[0] for offset in offsets]
        for temporary in TEMPORARY.findall(b" ".join(texts)):
            yield "temporary name", decode_name(temporary)
        name, tool, version, build, options = (decode_name(TEMPORARY.sub(b"", text)).strip() for text in texts)
        yield "tool", ", ".join(filter(None, (tool, version, build)))
        yield "options", " ".join(options.split())
        yield "name of the output", name


def _line_tables(data: bytes, sections: DeviceElfSections) -> Iterator[tuple[str, str]]:
    """Yield the paths and times in the headers of line programs."""

    def string(name: str, at: int) -> bytes:
        found = next((row for row in sections.rows if row.name == name and sections.has_bytes(row.index)), None)
        return sections.content(found).head(at, _LETTERS).split(b"\0", 1)[0] if found is not None else b""

    for entry in read_line_tables(data, sections.number, string):
        yield entry.kind, decode_name(entry.name)
        yield "time of a source", _time(entry.time)


def _time(seconds: int) -> str:
    """Return a time of Unix for people; "" for 0, which means that it is not known."""
    from time import gmtime, strftime

    if not 0 < seconds < 1 << 36:
        return str(seconds or "")
    return strftime("%Y-%m-%d %H:%M:%S UTC", gmtime(seconds))


#: bytes at the start of PTX in which compilers say who they are, and of a text that are looked at
_PTX_HEAD, _PTX_MOST = 4096, 64 << 20


def _ptx(view: View) -> Iterator[tuple[str, str]]:
    for line in view.head(0, _PTX_HEAD).split(b"\n"):
        comment = line.strip()
        if comment.startswith(b".version"):
            break
        if comment.startswith(b"//"):
            yield "tool", decode_name(comment.lstrip(b"/ ").strip())
    text = view.head(0, min(len(view), _PTX_MOST))
    for first, second, time in PTX_FILE.findall(text):
        yield "source", decode_name(b"/".join(filter(None, (first, second))))
        yield "time of a source", _time(int(time[:20] or b"0"))
    for unit in set(_UNIT.findall(text.decode("latin-1"))):
        yield "unit name", unit
    closed = text[: text.rfind(b"}") + 1]  # an open brace would be followed to the end, for each section anew
    for start in re.finditer(rb"(?m)^[ \t]*\.section[ \t]+(\.debug_\w+)\s*\{([^}]*)\}", closed):
        yield "debug information", f"{decode_name(start[1])} {_hash(start[2])}"
    lines = b"\n".join(re.findall(rb"(?m)^[ \t]*\.loc\b[^\n]*", text))
    if lines:
        yield "debug information", f".loc {_hash(lines)}"


def _spirv(view: View) -> Iterator[tuple[str, str]]:
    from fatpack.images.spirv import debug_texts

    generator, texts, digest = debug_texts(view)
    yield "tool", f"generator {generator:#x}"
    yield from (("debug text", text.split("\n")[0]) for text in texts)
    yield "debug information", digest[:16]


def _short_digest(content: View) -> str:
    from fatpack.io.source import sha256_of_pieces

    return sha256_of_pieces([content]).hex()[:16]


def _hash(content: bytes) -> str:
    from hashlib import sha256

    return sha256(content).hexdigest()[:16]
