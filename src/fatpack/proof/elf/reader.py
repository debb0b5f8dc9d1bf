"""ELF files, read with pyelftools, which only this module imports.

Only its structures are used, one record at a time. Its objects for sections and segments read more than a proof needs,
and look names up in tables that a damaged file does not have.
"""

from __future__ import annotations

import io

from fatpack.errors import BadValue, LimitExceeded, Truncated, Unsupported
from fatpack.io.ranges import ViewFile
from fatpack.proof.memory import LoadedRange, ProgramMemory
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Literal

    from fatpack.io.source import View

FORMAT = "elf"

#: LIMIT: bytes of a section's name that are read; real ones have a few dozen.
_LONGEST_NAME = 256

#: LIMIT: entries of a dynamic section that are read; linkers write thirty.
_MOST_DYNAMIC = 1 << 16


class ProofElfSegment(Record):
    """A program header with the field names of the gABI; ``type`` is pyelftools' name (``PT_LOAD``), or a number."""

    type: str
    flags: int
    offset: int
    vaddr: int
    paddr: int
    filesz: int
    memsz: int
    align: int

    @property
    def end(self) -> int:
        """The address after the segment."""
        return self.vaddr + self.memsz


class ProofElfSection(Record):
    """A section header with the field names of the gABI."""

    number: int
    name: str
    name_offset: int
    type: str
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entsize: int


class ProofElfFile(Record):
    """An ELF file: its header with pyelftools' names, its tables, and its memory image.

    ``dynamic`` are the entries of the dynamic section: tag, value, and the address of the entry. ``structs`` are
    pyelftools' structures for this word size and byte order.
    """

    view: View
    header: Mapping[str, Any]
    segments: Sequence[ProofElfSegment]
    sections: Sequence[ProofElfSection]
    memory: ProgramMemory
    dynamic: Sequence[tuple[str, int, int]]
    structs: Any

    @property
    def header_size(self) -> int:
        """Bytes of the file header."""
        return 64 if self.memory.word == 8 else 52

    @property
    def segment_size(self) -> int:
        """Bytes of a program header."""
        return 56 if self.memory.word == 8 else 32

    @property
    def section_size(self) -> int:
        """Bytes of a section header."""
        return 64 if self.memory.word == 8 else 40

    def tag(self, name: str) -> int | None:
        """Return the value of the first entry of the dynamic section with a tag, None if there is none."""
        return next((value for tag, value, _ in self.dynamic if tag == name), None)


def read_elf(view: View) -> ProofElfFile:
    """Return a linked ELF file as a proof needs it.

    Raises FormatError for a damaged one, and Unsupported for objects and core dumps.
    """
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        return _read(view, ELFFile(io.BufferedReader(ViewFile(view), 1 << 16)))
    except ELFError as error:
        raise BadValue(str(error), format=FORMAT, offset=view.offset(0), chain=view.chain) from error


def _read(view: View, elf: Any) -> ProofElfFile:
    from elftools.common.utils import struct_parse

    def records(struct: Any, start: int, count: int, step: int, what: str) -> list[Any]:
        size = struct.sizeof()
        if count and (step < size or start + count * step > len(view)):
            raise Truncated(
                needed=count * step, left=len(view) - start, format=FORMAT, offset=view.offset(start), field=what,
                chain=view.chain,
            )  # fmt: skip
        return [struct_parse(struct, elf.stream, start + number * step) for number in range(count)]

    header, structs = elf.header, elf.structs
    if header["e_type"] not in ("ET_DYN", "ET_EXEC"):
        hint = "compare the output of fatpack inspect for both"
        raise Unsupported(f"an ELF file of type {header['e_type']} is not linked", hint=hint, chain=view.chain)
    word: Literal[8, 4] = 8 if elf.elfclass == 64 else 4
    order: Literal["little", "big"] = "little" if elf.little_endian else "big"
    programs = records(structs.Elf_Phdr, header["e_phoff"], elf.num_segments(), header["e_phentsize"], "e_phnum")
    tables = records(structs.Elf_Shdr, header["e_shoff"], elf.num_sections(), header["e_shentsize"], "e_shnum")
    segments = [_segment(each) for each in programs]
    memory = ProgramMemory(
        view, _loaded_ranges(view, segments), word=word, order=order, is_fixed=header["e_type"] == "ET_EXEC"
    )
    sections = _sections(view, tables, elf.get_shstrndx() if tables else 0)
    dynamic = next((each for each in segments if each.type == "PT_DYNAMIC"), None)
    entries = [] if dynamic is None else _dynamic(memory, dynamic, structs)
    return ProofElfFile(view, dict(header), segments, sections, memory, entries, structs)


def _segment(header: Any) -> ProofElfSegment:
    names = ("p_type", "p_flags", "p_offset", "p_vaddr", "p_paddr", "p_filesz", "p_memsz", "p_align")
    return ProofElfSegment(str(header["p_type"]), *(header[name] for name in names[1:]))


def _loaded_ranges(view: View, segments: Sequence[ProofElfSegment]) -> list[LoadedRange]:
    """Return the ranges that the loader maps. Raises BadValue for segments that overlap or are not in the file."""
    loaded_ranges: list[LoadedRange] = []
    for each in sorted((each for each in segments if each.type == "PT_LOAD"), key=lambda each: each.vaddr):
        if not each.memsz:
            continue
        is_inside = each.filesz <= each.memsz and each.offset + each.filesz <= len(view)
        if not is_inside or (loaded_ranges and each.vaddr < loaded_ranges[-1].end):
            raise BadValue(
                f"the segment at address {each.vaddr:#x} overlaps another or is not in the file",
                format=FORMAT,
                offset=view.offset(0),
                field="PT_LOAD",
                hint="the memory of such a program cannot be proved",
                chain=view.chain,
            )
        flags = "".join(letter if each.flags & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))
        if each.flags & ~7:
            flags += f" {each.flags:#x}"
        loaded_ranges.append(LoadedRange(each.vaddr, each.end, each.offset, each.vaddr + each.filesz, flags))
    return loaded_ranges


def _sections(view: View, headers: Sequence[Any], names: int) -> list[ProofElfSection]:
    table = headers[names] if names < len(headers) else None
    found = []
    for number, each in enumerate(headers):
        at = each["sh_name"]
        stored = b""
        if table is not None and at < table["sh_size"]:
            stored = view.head(table["sh_offset"] + at, min(_LONGEST_NAME, table["sh_size"] - at))
        numbers = ("sh_flags", "sh_addr", "sh_offset", "sh_size", "sh_link", "sh_info", "sh_addralign", "sh_entsize")
        name = stored.partition(b"\0")[0].decode("utf-8", "replace")
        found.append(ProofElfSection(number, name, at, str(each["sh_type"]), *(each[field] for field in numbers)))
    return found


def _dynamic(memory: ProgramMemory, segment: ProofElfSegment, structs: Any) -> list[tuple[str, int, int]]:
    """Return the entries of the dynamic section up to its end."""
    from elftools.common.utils import struct_parse

    size = structs.Elf_Dyn.sizeof()
    found: list[tuple[str, int, int]] = []
    for address in range(segment.vaddr, segment.end - size + 1, size):
        data = memory.read(address, size)
        if data is None:
            break
        entry = struct_parse(structs.Elf_Dyn, io.BytesIO(data), 0)
        found.append((str(entry["d_tag"]), entry["d_val"], address))
        if entry["d_tag"] == "DT_NULL":
            break
        if len(found) > _MOST_DYNAMIC:
            view = memory.view
            expected = f"at most {_MOST_DYNAMIC} entries"
            raise LimitExceeded(
                "the dynamic section is too long", format=FORMAT, offset=view.offset(segment.offset), expected=expected,
                chain=view.chain,
            )  # fmt: skip
    return found
