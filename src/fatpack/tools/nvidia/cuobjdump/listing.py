"""Lists of cubins, PTX texts and functions, and what of them is extracted: numbers, names and lines."""

from __future__ import annotations

from fatpack.errors import BadValue, FormatError, Unsupported
from fatpack.tools.nvidia.cuobjdump import arch
from fatpack.tools.nvidia.cuobjdump.entries import is_elf, is_ptx
from fatpack.tools.nvidia.cuobjdump.headings import arch_variant, decode_text, has_options
from fatpack.tools.nvidia.cuobjdump.names import NO_IDENTIFIER, function_stem, identifier_stem, matches_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from fatpack.formats.cuda_fatbin.stored import CudaEntry, CudaGroup
    from fatpack.io.source import View
    from fatpack.tools.nvidia.cuobjdump.entries import CubinFile
    from fatpack.tools.nvidia.cuobjdump.extracting import ExtractedFile
    from fatpack.tools.nvidia.cuobjdump.options import CuobjdumpRequest
    from fatpack.tools.nvidia.cuobjdump.output import ToolOutput


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
        target = arch.cubin_arch(cubin.data)
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
        """Do what waits, and say which kinds there are none of."""
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
        targets = arch.entry_archs([entry for entry, _ in self._waiting])
        for (_, then), target in zip(self._waiting, targets, strict=True):
            then(target)
        self._waiting.clear()
        if self._extractions:
            from fatpack.tools.nvidia.cuobjdump.extracting import write_extractions

            write_extractions(self._extractions, self._file, self._used, self._output)
            self._extractions.clear()

    def _line(self, line: str) -> None:
        if self._request.extracts:
            self._extract("", None, line)
        else:
            self._output.line(line)

    def _extract(self, name: str, data: View | None, before: str, behind: str = "") -> None:
        from fatpack.tools.nvidia.cuobjdump.extracting import ExtractedFile

        self._extractions.append(ExtractedFile(name, data, before, behind))

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
            before = f"Extracting PTX file and ptxas options {count:4}: "
            options = f" -arch=sm_{entry.head.sm}{arch_variant(entry.head)}"
            if has_options(entry):
                options += f" {decode_text(entry.area.options)}"
            self._extract(name, entry.data, before, options)

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
    from fatpack.tools.nvidia.cuobjdump.resources import function_names

    sections = DeviceElfSections(data)
    left = len(data)
    for number, name in function_names(sections).items():
        code = sections.content(sections.rows[number])
        left -= len(code)
        if left < 0:
            raise BadValue("overlaps that of other functions", format="elf", offset=code.offset(0), field=name)
        yield number, name, code
