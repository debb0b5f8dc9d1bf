"""Lists of cubins, PTX texts and functions, and what of them is extracted: numbers, names and lines."""

from __future__ import annotations

import os

from fatpack.binary.elf.device_elf import DeviceElfSections
from fatpack.binary.elf.layout import SYMTAB
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.errors import BadValue, FormatError, Unsupported, UsageError
from fatpack.images.cubin_kernels import UNKNOWN_STACK, function_resources
from fatpack.limits import output_budget
from fatpack.record import Record
from fatpack.tools.nvidia.cuobjdump import entries
from fatpack.tools.nvidia.cuobjdump.entries import arch_variant, decode_text, has_options, is_elf, is_ptx
from fatpack.tools.nvidia.cuobjdump.options import ExitTool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.binary.elf.device_elf import DeviceElfSection
    from fatpack.formats.cuda_fatbin.layout import CudaEntry, CudaGroup
    from fatpack.io.source import View
    from fatpack.tools.nvidia.cuobjdump.entries import CubinFile
    from fatpack.tools.nvidia.cuobjdump.options import CuobjdumpRequest, ToolOutput


# Extraction: files in the current directory, under the names of the lists.
#
# An older file of the name is replaced, as the original does. QUIRK(cuobjdump 13): of two images with one name, which
# identifiers easily give, it leaves the last one only. Here the second gets a number: ``k1.2.sm_80.cubin``.


class ExtractedFile(Record):
    """A file to write, and the line that says so, before and after its name; or only a line (no ``data``)."""

    name: str
    data: View | None
    prefix: str
    suffix: str = ""


def write_extractions(
    extractions: Sequence[ExtractedFile], file: View, used: dict[str, int], output: ToolOutput
) -> None:
    """Write everything, and print what was written.

    ``used`` holds the names of files that were written before, with how many of them share each.
    Raises ExitTool for the first file that cannot be written.
    """
    from fatpack.io.atomic_write import NewFile, write_files
    from fatpack.io.write import written_size

    given = {extraction.name for extraction in extractions}
    new = [(_free(each.name, given, used), each.data) for each in extractions if each.data is not None]
    files = [NewFile(_path(name), (data,)) for name, data in new]
    names = (name for name, _ in new)
    output_budget().check_output(written_size(data for _, data in new))
    with write_files(files, force=True, inputs=[file]) as sizes:
        for extraction in extractions:
            if extraction.data is None:
                output.line(extraction.prefix)
                continue
            name = next(names)
            try:
                next(iter(sizes))
            except (OSError, UsageError):
                output.fatal(f"File '{name}' could not be opened")
                raise ExitTool from None
            except Unsupported:
                output.obfuscated()
            except FormatError as error:
                output.damage(str(error), "Uncompress failed")
            else:
                output.line(f"{extraction.prefix}{name}{extraction.suffix}")


def _path(name: str) -> str:
    """Return a name, which is bytes read as UTF-8, as the path of a file with these bytes in any locale."""
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))


def _free(name: str, given: set[str], used: dict[str, int]) -> str:
    """Return an unused name: if a name is used already, with a number before the architecture."""
    if name not in used:
        used[name] = 1
        return name
    start, marker, end = name.rpartition(".sm_")
    numbered = name
    while numbered in used or numbered in given:
        used[name] += 1
        numbered = f"{start}.{used[name]}{marker}{end}"
    used[numbered] = 1
    return numbered


# The names that cuobjdump gives to what it lists and extracts: from an identifier, or the path of the file.
#
# A text is split at blanks; every word loses its folders and what follows its last dot; what is left is joined by
# dashes. So no name chooses a folder.
#
# QUIRK(cuobjdump 13): after its first use, a path with blanks in it is cut at the first of them: ``my dir/x.so`` gives
# ``my-x.1.sm_80.cubin`` and ``my.2.sm_90.cubin``. Here all names start like the first.

#: QUIRK(cuobjdump 13): path and function together may have this many bytes before both are cut.
_LONGEST, _CUT = 240, 8

#: Replaces the path in names of functions if an entry has no identifier.
NO_IDENTIFIER = "x"


def identifier_stem(text: str) -> str:
    """Return what a name starts with: ``p-r-s`` of ``p q/r s.cu``."""
    name = ""
    for word in filter(None, text.split(" ")):
        name = f"{name}-" if name else ""
        name += _without_extension(word.rpartition("/")[2])
    return name


def _without_extension(word: str) -> str:
    start, dot, _ = word.rpartition(".")
    return start if dot else word


def function_stem(text: str, function: str, number: int) -> str:
    """Return what the name of a function's code starts with; ``number`` counts them.

    ``text`` is the identifier, the path of a cubin, or NO_IDENTIFIER. C++ has long names: they are cut, and numbered.
    """
    first, second = text.encode("utf-8", "surrogateescape"), function.encode("utf-8", "surrogateescape")
    if len(first) + len(second) <= _LONGEST:
        return identifier_stem(f"{text} {function}")
    first, second = first[:_CUT], second[:_CUT]
    return identifier_stem(f"{(first + b' ' + second).decode('utf-8', 'surrogateescape')}-{number}")


def matches_name(name: str, wanted: tuple[str, ...] | None) -> bool:
    """Return whether a name is selected: one of the words is in it, or ``all`` is the only word."""
    return wanted is not None and (wanted == ("all",) or any(word in name for word in wanted))


#: LIMIT: entries that are held until their architectures are known, and files until they are written.
_BATCH = 4096


class EntryListing:
    """Numbers entries and cubins as they come; prints their lines, or writes what is to be extracted.

    Entries wait for each other: what has to be inflated for their names is inflated on all cores. QUIRK(cuobjdump 13):
    functions are not listed where cubins are.
    """

    def __init__(self, request: CuobjdumpRequest, output: ToolOutput, file: View) -> None:
        self._elf_count = self._ptx_count = self._text_count = 0
        self._waiting: list[tuple[CudaEntry | None, Callable[[str], None]]] = []
        self._extractions: list[ExtractedFile] = []
        self._used: dict[str, int] = {}
        self._file = file
        self._request = request
        self._output = output
        self._stem = identifier_stem(output.path)
        is_extracting = request.extracts
        self._elf = request.extract_elf is not None if is_extracting else request.lists_elf
        self._text = request.extract_text is not None if is_extracting else request.lists_text
        self._ptx = request.extract_ptx is not None if is_extracting else request.lists_ptx

    def member(self, title: str) -> None:
        """Print the line of a member of an archive, in its place between those of what is extracted."""
        self._wait(None, lambda _: self._line(""))
        self._wait(None, lambda _: self._line(f"member {self._output.path}:{title}:"))

    def entry(self, entry: CudaEntry) -> None:
        """List or extract an entry."""
        identifier = decode_text(entry.area.identifier) if entry.area.identifier else ""
        if is_elf(entry):
            self._elf_count += 1
            count = self._elf_count
            if self._elf:
                start = identifier_stem(identifier) if identifier else f"{self._stem}.{count}"
                self._wait(entry, lambda target: self._list_elf(count, f"{start}.{target}.cubin", entry.data))
            elif self._text:
                text = identifier or NO_IDENTIFIER
                self._wait(entry, lambda target: self._list_texts(entry.data, text, target))
        elif is_ptx(entry):
            self._ptx_count += 1
            count = self._ptx_count
            if self._ptx:
                start = identifier_stem(identifier) if identifier else f"{self._stem}.{count}"
                name = f"{start}.sm_{entry.head.sm}{arch_variant(entry.head)}.ptx"
                self._wait(None, lambda _: self._list_ptx(count, name, entry))

    def group(self, group: CudaGroup) -> None:
        """A group has no line of its own."""

    def cubin(self, cubin: CubinFile) -> None:
        """List or extract a cubin that is a file of its own, or a member of an archive."""
        target = entries.cubin_arch(cubin.data)
        if not self._request.takes(target):
            return
        self._elf_count += 1
        count = self._elf_count
        if self._elf:
            start = f"{self._stem}.{count}" if cubin.is_member else self._stem
            self._wait(None, lambda _: self._list_elf(count, f"{start}.{target}.cubin", cubin.data))
        elif self._text:
            self._wait(None, lambda _: self._list_texts(cubin.data, self._output.path, target))

    def finish(self, found: bool) -> None:
        """Print the listings that are not printed yet, and say of which kinds the file has no image."""
        self._work()
        if not found:
            return
        for kind, is_listed, count in (("ELF", self._elf, self._elf_count), ("PTX", self._ptx, self._ptx_count)):
            if is_listed and not count:
                text = f"No {kind} file found to extract from '{self._output.path}'. You may try with -all option."
                self._output.info(text)

    def _wait(self, entry: CudaEntry | None, then: Callable[[str], None]) -> None:
        """Call ``then`` in its turn, with the architecture of the entry's cubin."""
        self._waiting.append((entry, then))
        if len(self._waiting) >= _BATCH:
            self._work()

    def _work(self) -> None:
        targets = entries.entry_archs([entry for entry, _ in self._waiting])
        for (_, then), target in zip(self._waiting, targets, strict=True):
            then(target)
        self._waiting.clear()
        if self._extractions:
            write_extractions(self._extractions, self._file, self._used, self._output)
            self._extractions.clear()

    def _line(self, line: str) -> None:
        if self._request.extracts:
            self._extract("", None, line)
        else:
            self._output.line(line)

    def _extract(self, name: str, data: View | None, prefix: str, suffix: str = "") -> None:

        self._extractions.append(ExtractedFile(name, data, prefix, suffix))

    def _list_elf(self, count: int, name: str, data: View) -> None:
        line = f"ELF file {count:4}: "
        if not self._request.extracts:
            self._output.line(line + name)
        elif matches_name(name, self._request.extract_elf):
            self._extract(name, data, f"Extracting {line}")

    def _list_ptx(self, count: int, name: str, entry: CudaEntry) -> None:
        if not self._request.extracts:
            self._output.line(f"PTX file {count:4}: {name}")
        elif matches_name(name, self._request.extract_ptx):
            prefix = f"Extracting PTX file and ptxas options {count:4}: "
            options = f" -arch=sm_{entry.head.sm}{arch_variant(entry.head)}"
            if has_options(entry):
                options += f" {decode_text(entry.area.options)}"
            self._extract(name, entry.data, prefix, options)

    def _list_texts(self, data: View, text: str, target: str) -> None:
        try:
            for _, function, code in function_code(data):
                self._text_count += 1
                name = f"{function_stem(text, function, self._text_count)}.{target}.elf.bin"
                line = f"SASS text section {self._text_count} : "
                if not self._request.extracts:
                    self._output.line(line + name)
                elif matches_name(name, self._request.extract_text):
                    self._extract(name, code, f"Extracting {line}")
        except Unsupported:
            self._output.obfuscated()
        except FormatError as error:
            self._output.damage(str(error), f"Invalid ELF in '{self._output.path}'")


def function_code(data: View) -> Iterator[tuple[int, str, View]]:
    """Yield the functions of a cubin: number of the section, name, code. Raises FormatError for a damaged table.

    Code that overlaps is damage, too: a small file could be made to fill a disk.
    """
    from fatpack.binary.elf.device_elf import DeviceElfSections

    sections = DeviceElfSections(data)
    left = len(data)
    for number, name in function_names(sections).items():
        code = sections.content(sections.rows[number])
        left -= len(code)
        if left < 0:
            raise BadValue("overlaps that of other functions", format="elf", offset=code.offset(0), field=name)
        yield number, name, code


# The output of ``-res-usage`` for a cubin: common memory, and the resources of every function.
#
# By the sections, as they are named: ``.text.NAME`` is a function; ``.nv.shared.…``, ``.nv.local.…`` and
# ``.nv.constantN.…`` belong to the function that their ``sh_info`` names; ``.nv.global…`` and ``.nv.constantN`` to all.
# Registers and stack of a kernel are in ``.nv.info``; code before sm_90 has registers in its row of the table, too.
#
# Textures, surfaces and samplers are always 0: the original counts none in code since sm_90, and fails on older code
# that has some.

_CODE, _GLOBAL, _SHARED, _LOCAL, _CONSTANT = ".text.", ".nv.global", ".nv.shared.", ".nv.local.", ".nv.constant"

_FUNC, _ENTRY = 2, 0x10


class _FunctionResources:
    """A function: the lines of its needs are made once all sections are known."""

    def __init__(self, name: str, registers: int) -> None:
        self.name = name
        self.registers = registers
        self.stack = 0
        self.shared = self.local = 0
        self.constants: dict[str, int] = {}

    def line(self) -> str:
        stack = "UNKNOWN" if self.stack == UNKNOWN_STACK else self.stack
        constants = "".join(f"CONSTANT[{bank}]:{size} " for bank, size in self.constants.items())
        return (
            f"  REG:{self.registers} STACK:{stack} SHARED:{self.shared} LOCAL:{self.local} {constants}"
            "TEXTURE:0 SURFACE:0 SAMPLER:0"
        )


def function_names(sections: DeviceElfSections) -> dict[int, str]:
    """Return the names of all functions by the numbers of their sections, in the order of these."""
    return {row.index: row.name[len(_CODE) :] for row in sections.rows if row.name.startswith(_CODE)}


def resource_lines(view: View, is_wanted: Callable[[int, str], bool], *, is_sorted: bool) -> Iterator[str]:
    """Yield the lines for a cubin; functions are selected by the numbers of their sections and their names.

    Raises FormatError when a table of it is damaged.
    """
    sections = DeviceElfSections(view)
    found = {
        number: _FunctionResources(name, sections.rows[number].info >> 24)
        for number, name in function_names(sections).items()
    }
    common: dict[str, int] = {}
    global_size = 0
    for row in sections.rows:
        if row.name.startswith(_GLOBAL):
            global_size += row.size
        elif row.name.startswith(_CONSTANT):
            bank, dot, _ = row.name[len(_CONSTANT) :].partition(".")
            if not dot:
                common[bank] = row.size
            elif row.info in found:
                found[row.info].constants[bank] = row.size
        elif row.info in found:
            _take(found[row.info], row)
    _add_kernels(sections, found)
    yield "Resource usage:"
    yield " Common:"
    yield "".join([f"  GLOBAL:{global_size}", *(f" CONSTANT[{bank}]:{size}" for bank, size in common.items())])
    rows = sorted(found.items(), key=lambda item: item[1].name) if is_sorted else found.items()
    for number, function in rows:
        if is_wanted(number, function.name):
            yield f" Function {function.name}:"
            yield function.line()


def _take(function: _FunctionResources, row: DeviceElfSection) -> None:
    if row.name.startswith(_SHARED):
        function.shared = row.size
    elif row.name.startswith(_LOCAL):
        function.local = row.size


def _add_kernels(sections: DeviceElfSections, found: dict[int, _FunctionResources]) -> None:
    """Add what the attributes of kernels say; other functions have attributes, too, which the original leaves out."""
    registers, stacks = function_resources(sections)
    for index, (_, _, other, number) in enumerate(ElfSymbolTable(sections.view, (SYMTAB,))):
        if other & _ENTRY and number in found:
            found[number].registers = registers.get(index, found[number].registers)
            found[number].stack = stacks.get(index, 0)


def section_of_function(view: View, index: int) -> int | None:
    """Return the number of the section of the function that a symbol is; None if it is no function.

    Raises IndexError for a symbol that is not there, FormatError when the table is damaged.
    """
    for number, (_, info, _, section) in enumerate(ElfSymbolTable(view, (SYMTAB,))):
        if number == index:
            return section if info & 15 == _FUNC else None
    raise IndexError(index)
