"""A registration as the parts of an object: images, the records that lead to them, and the code that registers them.

Records and names are those of clang-linker-wrapper; ``llvm-dis`` shows them in what ``llvm-offload-wrapper`` writes.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.section_names import (
    CUDA_FATBIN,
    CUDA_RECORDS,
    HIP_FATBIN,
    HIP_RECORDS,
    OFFLOADING,
    OFFLOADING_RELOCATABLE,
)
from fatpack.commands.wrap.code.template import LinkerFixup, binary_program, descriptor_program, fatbin_program
from fatpack.commands.wrap.code.unwinding import eh_frame, windows_unwind
from fatpack.commands.wrap.registration import (
    KINDS,
    FatbinRegistration,
    OpenmpDescriptor,
    SyclBinary,
    UniqueNames,
    entry_layout,
)
from fatpack.errors import UsageError, cli_or_api
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Literal, TypeAlias

    from fatpack.commands.wrap.code.template import RegistrationCode
    from fatpack.commands.wrap.registration import (
        EntryLayout,
        RegisteredContent,
        Registration,
        SyclDescriptor,
        SyclImage,
    )
    from fatpack.commands.wrap.run import WrapHost
    from fatpack.io.source import Piece

    SectionRole: TypeAlias = Literal[
        "code", "tables", "image", "offloading", "wrapper", "zeros", "run", "frames", "group"
    ]


# Section names in the objects of each kind of host, as LLVM 22 and 23 write them.

#: Suffixes of the entries' section on COFF hosts, by which linkers sort: the start of all entries, the entries of an
#: object, and their end.
COFF_START, COFF_ENTRIES, COFF_STOP = "$OA", "$OE", "$OZ"

CODE_SECTIONS = ".text.startup"
ENTRY_NAMES = ".llvm.rodata.offloading"


class FatbinNames(Record):
    """The sections of a fat binary and of its wrapper, and the alignment of the former.

    clang aligns bundles to pages where it embeds them itself, so that a runtime can map code objects out of the file.
    """

    image: str
    wrapper: str
    align: int


FATBIN_NAMES = {
    "cuda": FatbinNames(CUDA_FATBIN, CUDA_RECORDS, 16),
    "hip": FatbinNames(HIP_FATBIN, HIP_RECORDS, 4096),
}


def table_section(host: WrapHost) -> str:
    """Return the section of records with pointers that a program does not write."""
    return ".rdata" if host.file == "coff" else ".data.rel.ro"


def run_section(host: WrapHost, priority: int, *, at_end: bool) -> str:
    """Return the section of functions that run at the start or end of a program, by priority: low ones come first.

    MinGW's linkers sort names of ``.ctors`` downwards, and those of ``.CRT$XC`` are sorted as text.
    """
    if host.file == "elf":
        return f".{'fini' if at_end else 'init'}_array.{priority}"
    if host.is_gnu:
        return f".{'dtors' if at_end else 'ctors'}.{65535 - priority:05}"
    return f".CRT$X{'T' if at_end else 'C'}A{priority:05}"


# The parts of a relocatable object, before anyone says how a file stores them.


class ObjectSection(Record):
    """A section: its name, what it is for, its alignment, its bytes, and the places that the linker fills in.

    ======== =================================================================================
    role      what it holds
    ======== =================================================================================
    code      instructions
    tables    records with pointers, read-only after relocation
    image     read-only bytes
    offloading the same, in a section that LLVM's tools look for
    wrapper   records that lead to the image
    zeros     ``reserved`` bytes of 0 that programs write
    run       addresses of functions that run at start or end
    frames    how functions unwind
    group     bytes of which a linker keeps one copy, by the name of the symbol defined in them
    ======== =================================================================================
    """

    name: str
    role: SectionRole
    align: int
    pieces: tuple[Piece, ...] = ()
    fixups: tuple[LinkerFixup, ...] = ()
    reserved: int = 0

    @property
    def size(self) -> int:
        """The number of bytes, in memory."""
        return self.reserved + sum(map(len, self.pieces))


class ObjectSymbol(Record):
    """A name: ``section`` is the section that defines it, "" if another file does.

    ``scope`` is local, global (seen by other objects), hidden (of the same program), or weak (others may have it too).
    """

    name: str
    section: str = ""
    offset: int = 0
    size: int = 0
    is_function: bool = False
    scope: Literal["local", "global", "hidden", "weak"] = "local"


class ObjectParts(Record):
    """An object: sections in their order, and symbols, also undefined ones."""

    sections: tuple[ObjectSection, ...]
    symbols: tuple[ObjectSymbol, ...]


_POINTER = 8
#: Constructors run by priority: this one before those of the program's own, that of SYCL before all others.
_PRIORITY, _SYCL_PRIORITY = 101, 1
#: alignment of offload binaries, and of what LLVM leaves to its default for arrays
_BINARY_ALIGN, _ARRAY_ALIGN = 8, 16

#: The largest size of a binary that the code can pass.
_LARGEST = 0xFFFFFFFF

#: LLVM 22 writes the entries of SYCL kernels in the wrapper.
_SYCL_ENTRIES = entry_layout("sycl", 22)


def build_object(registration: Registration, host: WrapHost) -> ObjectParts:
    """Return the parts of an object for a host that has code for them. Raises UsageError for images too large."""
    parts = _ObjectBuilder(host)
    if isinstance(registration, FatbinRegistration):
        _fatbin(registration, parts)
    elif isinstance(registration, OpenmpDescriptor):
        _openmp(registration, parts)
    elif isinstance(registration, SyclBinary):
        _sycl_binary(registration, parts)
    else:
        _sycl_images(registration, parts)
    return parts.finished()


def _fatbin(registration: FatbinRegistration, parts: _ObjectBuilder) -> None:
    runtime = registration.runtime
    names = FATBIN_NAMES[runtime]
    entries = registration.entries
    magic = int.from_bytes(magic_numbers.CUDA_WRAPPER if runtime == "cuda" else magic_numbers.HIP_WRAPPER, "little")
    parts.bounds(entries)
    parts.image(".fatbin_image", names.image, "image", names.align, registration.content)
    wrapper = _RecordBuilder().number(magic, 4).number(1, 4).pointer(".fatbin_image").number(0, _POINTER)
    parts.record(".fatbin_wrapper", names.wrapper, "wrapper", wrapper)
    handle = f".{runtime}.binary_handle"
    parts.add(ObjectSection(".bss", "zeros", _POINTER, reserved=_POINTER), ObjectSymbol(handle, ".bss", 0, _POINTER))
    functions = {role: f".{runtime}.{name}" for role, name in _FATBIN_FUNCTIONS.items()}
    places = {"wrapper": ".fatbin_wrapper", "handle": handle, "start": entries.start, "stop": entries.stop}
    parts.code(fatbin_program(parts.host.calling, runtime, entries.fields), functions, places)
    parts.run(functions["register"], _PRIORITY)


_FATBIN_FUNCTIONS = {"register": "fatbin_reg", "unregister": "fatbin_unreg", "globals": "globals_reg"}


def _openmp(registration: OpenmpDescriptor, parts: _ObjectBuilder) -> None:
    section = OFFLOADING_RELOCATABLE if registration.is_relocatable else OFFLOADING
    entries = registration.entries
    parts.bounds(entries)
    images = _RecordBuilder()
    for content in registration.contents:
        name = parts.fresh(".omp_offloading.device_image")
        parts.image(name, section, "offloading", _BINARY_ALIGN, content)
        for begin, end in content.images:
            images.pointer(name, begin).pointer(name, end).pointer(entries.start).pointer(entries.stop)
    parts.record(".omp_offloading.device_images", table_section(parts.host), "tables", images)
    count = sum(len(content.images) for content in registration.contents)
    descriptor = _RecordBuilder().number(count, 4).number(0, 4).pointer(".omp_offloading.device_images")
    descriptor.pointer(entries.start).pointer(entries.stop)
    parts.record(".omp_offloading.descriptor", table_section(parts.host), "tables", descriptor)
    functions = {role: f".omp_offloading.descriptor_{role[:-5]}" for role in ("register", "unregister")}
    program = descriptor_program(parts.host.calling, "__tgt", at_exit=True)
    parts.code(program, functions, {"descriptor": ".omp_offloading.descriptor"})
    parts.run(functions["register"], _PRIORITY)


def _sycl_binary(registration: SyclBinary, parts: _ObjectBuilder) -> None:
    content = registration.content
    if content.size > _LARGEST:
        hint = f"wrap some of the images, or as LLVM 22 has it: {cli_or_api('--as=22', 'llvm=22')}"
        raise UsageError(f"an offload binary of {content.size} bytes, whose size the code states in 32 bits", hint=hint)
    parts.image(".sycl_offloading.binary", OFFLOADING, "offloading", _ARRAY_ALIGN, content)
    _sycl_code(binary_program(parts.host.calling, "__sycl", content.size), "binary", ".sycl_offloading.binary", parts)


def _sycl_images(registration: SyclDescriptor, parts: _ObjectBuilder) -> None:
    where = table_section(parts.host)
    records = _RecordBuilder()
    for number, image in enumerate(registration.images):
        strings = ((f"target.{number}", image.triple), (f"opts.compile.{number}", ""), (f"opts.link.{number}", ""))
        records.number(3, 2).number(KINDS["sycl"], 1).number(image.image_kind, 1).number(0, 4)
        for word, text in strings:
            name = f".sycl_offloading.{word}"
            parts.record(
                name, ".rdata" if parts.host.file == "coff" else ".rodata", "image", _RecordBuilder().text(text)
            )
            records.pointer(name)
        data = f".sycl_offloading.{number}.data"
        parts.image(data, OFFLOADING, "offloading", _ARRAY_ALIGN, image.content)
        records.pointer(data).pointer(data, image.content.size)
        entries, size = _sycl_entries(image, parts)
        records.pointer(entries).pointer(entries, size).number(0, 2 * _POINTER)
    parts.record(".sycl_offloading.device_images", where, "tables", records)
    descriptor = _RecordBuilder().number(1, 2).number(len(registration.images), 2).number(0, 4)
    descriptor.pointer(".sycl_offloading.device_images").number(0, 2 * _POINTER)
    parts.record(".sycl_offloading.descriptor", where, "tables", descriptor)
    program = descriptor_program(parts.host.calling, "__sycl", at_exit=False)
    _sycl_code(program, "descriptor", ".sycl_offloading.descriptor", parts)


def _sycl_entries(image: SyclImage, parts: _ObjectBuilder) -> tuple[str, int]:
    """Add the entries of an image, which name its kernels; return what they are called, and their size in bytes."""
    entries = _RecordBuilder()
    for kernel in image.kernels:
        text = parts.fresh(".offloading.entry_name")
        parts.record(text, ENTRY_NAMES, "image", _RecordBuilder().text(kernel))
        _add_entry(entries, text)
        parts.entry(kernel, _add_entry(_RecordBuilder(), text))
    name = parts.fresh(".sycl_offloading.entries_arr")
    parts.record(name, table_section(parts.host), "tables", entries)
    return name, entries.size


def _add_entry(record: _RecordBuilder, name: str) -> _RecordBuilder:
    """Add an offload entry that says nothing but a kernel's name."""
    record.number(0, 8).number(1, 2).number(KINDS["sycl"], 2).number(0, 4).number(0, _POINTER)
    return record.pointer(name).number(0, 8).number(0, 8).number(0, _POINTER)


def _sycl_code(program: RegistrationCode, role: str, symbol: str, parts: _ObjectBuilder) -> None:
    functions = {"register": "sycl.descriptor_reg", "unregister": "sycl.descriptor_unreg"}
    parts.code(program, functions, {role: symbol})
    parts.run(functions["register"], _SYCL_PRIORITY)
    parts.run(functions["unregister"], _SYCL_PRIORITY, at_end=True)


class _RecordBuilder:
    """The bytes of a record under way, and its pointers."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.fixups: list[LinkerFixup] = []

    @property
    def data(self) -> bytes:
        return bytes(self._data)

    @property
    def size(self) -> int:
        return len(self._data)

    def number(self, value: int, size: int) -> _RecordBuilder:
        self._data += value.to_bytes(size, "little")
        return self

    def text(self, value: str) -> _RecordBuilder:
        self._data += value.encode("utf-8", "surrogateescape") + b"\0"
        return self

    def pointer(self, symbol: str, addend: int = 0) -> _RecordBuilder:
        self.fixups.append(LinkerFixup(len(self._data), "address", symbol, addend))
        self._data += bytes(_POINTER)
        return self


class _SectionBuilder:
    """A section under way: what is in it so far, and how much."""

    def __init__(self, section: ObjectSection) -> None:
        self._section = section
        self._align = 1
        self._pieces: list[Piece] = []
        self._fixups: list[LinkerFixup] = []
        self._size = 0

    def add(self, section: ObjectSection) -> int:
        """Add the contents of a section, at its alignment; return their offset."""
        padding = -self._size % section.align
        if padding:
            self._pieces.append(bytes(padding))
        at = self._size + padding
        self._align = max(self._align, section.align)
        self._pieces.extend(section.pieces)
        self._fixups.extend(fixup.replace(offset=fixup.offset + at) for fixup in section.fixups)
        self._size = at + section.size
        return at

    def finished(self) -> ObjectSection:
        """Return the section with all that was added."""
        return self._section.replace(align=self._align, pieces=tuple(self._pieces), fixups=tuple(self._fixups))


class _ObjectBuilder:
    """The parts of an object under way. Sections of one name are one section, whose parts follow each other."""

    def __init__(self, host: WrapHost) -> None:
        self.host = host
        self._sections: dict[str, _SectionBuilder] = {}
        self._symbols: dict[str, ObjectSymbol] = {}
        self.fresh = UniqueNames()

    def add(self, section: ObjectSection, symbol: ObjectSymbol | None = None) -> None:
        """Add what a section holds, at its alignment; the symbol's offset counts from there."""
        if section.name not in self._sections:
            self._sections[section.name] = _SectionBuilder(section)
        at = self._sections[section.name].add(section)
        if symbol is not None:
            self._symbols[symbol.name] = symbol.replace(offset=symbol.offset + at)

    def image(self, name: str, section: str, role: str, align: int, content: RegisteredContent) -> None:
        """Add an image under a name of its own."""
        self.add(ObjectSection(section, role, align, content.pieces), ObjectSymbol(name, section, 0, content.size))  # type: ignore[arg-type]

    def record(self, name: str, section: str, role: str, record: _RecordBuilder) -> None:
        """Add a record under a name of its own; one with pointers, or a text."""
        align = _POINTER if record.fixups or role == "tables" else 1
        made = ObjectSection(section, role, align, (record.data,), tuple(record.fixups))  # type: ignore[arg-type]
        self.add(made, ObjectSymbol(name, section, 0, record.size))

    def entry(self, kernel: str, record: _RecordBuilder) -> None:
        """Add an offload entry of a kernel; where several objects have the same one, its symbol means the first."""
        section = _SYCL_ENTRIES.section + (COFF_ENTRIES if self.host.file == "coff" else "")
        symbol = ObjectSymbol(self.fresh(f".offloading.entry.{kernel}"), section, 0, record.size, scope="weak")
        self.add(ObjectSection(section, "image", _POINTER, (record.data,), tuple(record.fixups)), symbol)

    def bounds(self, entries: EntryLayout) -> None:
        """Add the bounds of all offload entries: ELF linkers make them, on COFF hosts they are in two sections."""
        if self.host.file == "elf":
            # The empty section makes the linker define its bounds even if no object has entries.
            empty = ObjectSection(entries.section, "image", _POINTER)
            self.add(empty, ObjectSymbol(f"__dummy.{entries.section}", entries.section))
            for name in (entries.start, entries.stop):
                self._symbols[name] = ObjectSymbol(name, scope="hidden")
            return
        # QUIRK(llvm-offload-wrapper 22, 23): both sections are empty there, and where no object has entries lld-link
        # drops them and leaves bounds that point past the program, which crashes. LLVM's main has an entry of zeros in
        # each (llvm#215390). So have ours, outside of the bounds: nothing sees them.
        for name, suffix, at in (
            (entries.start, COFF_START, entries.pitch),
            (entries.stop, COFF_STOP, 0),
        ):
            section = ObjectSection(entries.section + suffix, "group", _POINTER, (bytes(entries.pitch),))
            self.add(section, ObjectSymbol(name, section.name, at, scope="weak"))

    def code(self, program: RegistrationCode, functions: Mapping[str, str], places: Mapping[str, str]) -> None:
        """Add the code of a program, how it unwinds, and the symbols that it needs.

        ``functions`` are the names of its functions, ``places`` those of what its listing refers to by a word.
        """
        code = program.code(self.host.calling)
        names = {**functions, **places}
        fixups = tuple(fixup.replace(symbol=names.get(fixup.symbol, fixup.symbol)) for fixup in code.fixups)
        self.add(ObjectSection(CODE_SECTIONS, "code", 16, (code.data,), fixups))
        for function in code.functions:
            name = functions[function.name]
            self._symbols[name] = ObjectSymbol(name, CODE_SECTIONS, function.offset, function.size, is_function=True)
        if self.host.file == "coff":
            table, table_fixups, records = windows_unwind(code)
            self.add(
                ObjectSection(
                    ".pdata",
                    "frames",
                    4,
                    (table,),
                    _in(table_fixups, {"code": CODE_SECTIONS, "unwind": ".xdata"}),
                )
            )
            self.add(ObjectSection(".xdata", "frames", 4, (records,)))
        else:
            frames, frame_fixups = eh_frame(code, self.host.processor)
            self.add(ObjectSection(".eh_frame", "frames", 8, (frames,), _in(frame_fixups, {"code": CODE_SECTIONS})))

    def run(self, function: str, priority: int, *, at_end: bool = False) -> None:
        """Let a function run when the program starts, or at its end."""
        name = run_section(self.host, priority, at_end=at_end)
        address = _RecordBuilder().pointer(function)
        self.add(ObjectSection(name, "run", _POINTER, (address.data,), tuple(address.fixups)))

    def finished(self) -> ObjectParts:
        """Return the parts, with the symbols that other objects define."""
        sections = tuple(known.finished() for known in self._sections.values())
        for section in sections:
            for fixup in section.fixups:
                if fixup.symbol not in self._sections:
                    self._symbols.setdefault(fixup.symbol, ObjectSymbol(fixup.symbol, scope="global"))
        return ObjectParts(sections, tuple(self._symbols.values()))


def _in(fixups: Sequence[LinkerFixup], sections: Mapping[str, str]) -> tuple[LinkerFixup, ...]:
    """Return places for the linker with sections in the place of words."""
    return tuple(fixup.replace(symbol=sections[fixup.symbol]) for fixup in fixups)
