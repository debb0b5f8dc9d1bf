"""Records of GCC's offloading: what a program or library passes to ``GOMP_offload_register_ver`` when it starts.

::

    constructor ─► GOMP_offload_register_ver(version u32, table, device u32, record)     one call per accelerator
    table        pointers: begin and end of the host's functions, begin and end of its variables, each with its size
    record       [word mask of "requires"           library version 2 and newer]
    gcn          pointer image ─► size word, pointer    kernels u32, padding    pointer kernels
                 [u32 indirect functions            library version 3 and newer]    u32 variables
    nvptx        pointer texts ─► (pointer, size word with the NUL)…    count u32, padding
                 pointer names of variables             variables u32, padding
                 pointer functions                      functions u32
                 [u32 indirect functions            library version 3 and newer]

``version`` is the library's version, shifted by 16, and the plug-in's: 0x10001 and 0x10002 of GCC 12, 0x30001 and
0x30003 of GCC 14. The parts are told apart by the library's version, never by GCC's. Functions of the host and kernels
of a record are paired by their positions; of gcn the first two kernels run constructors and destructors.

mkoffload compiles the constructor without optimisation, and the calls are read from its instructions. Where they cannot
be read, records are found from their images: nothing but a record leads to a code object by two pointers, or to PTX
texts by a table.

How we know: ``gcc/config/gcn/mkoffload.cc``, ``gcc/config/nvptx/mkoffload.cc``, ``libgomp/target.c`` and
``libgomp/plugin/plugin-nvptx.c`` of GCC; measured with files of GCC 12.2 and 14.2 for x86-64. Other hosts (AArch64,
i386) were read from files made by hand.
"""

from __future__ import annotations

from itertools import islice

from fatpack import magic_numbers
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.layout import AMDGPU
from fatpack.binary.elf.pointers import ElfPointers
from fatpack.binary.pointers import INSIDE, NULL
from fatpack.errors import format_hex, pluralize
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fatpack.binary.pointers import Pointer
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder
    from fatpack.registration.analysis.registers import LinkedProgram

FORMAT = "gcc-offload"

NVPTX, GCN = 5, 8

#: device types (``include/gomp-constants.h``) → name; 6 and 7 were removed in GCC 13
DEVICES = {2: "host", 4: "not host", NVPTX: "nvptx", 6: "Intel MIC", 7: "HSA", GCN: "gcn"}

#: bits of the mask of "requires" → name
REQUIREMENTS = {
    0x10: "unified_address",
    0x20: "unified_shared_memory",
    0x40: "dynamic_allocators",
    0x80: "reverse_offload",
    0x200: "target used",
}

#: library versions: the first whose records begin with a mask, the first with a count of indirect functions, and the
#: newest of which files were read
WITH_MASK, WITH_INDIRECT, NEWEST = 2, 3, 3

#: kernels of gcn before those of the host's functions
OWN_KERNELS = ("_init_array", "_fini_array")

#: LIMIT: kernels, texts and variables of one record; calls and records of one program; constructors that are read, and
#: bytes of one; bytes of a name
_MOST, _MOST_RECORDS, _CONSTRUCTORS, _LONGEST_CODE, _LONGEST = 1 << 16, 64, 1 << 12, 512, 8192

#: LIMIT: bytes of tables and names that are read, in multiples of the file: records may share them, and two layouts of
#: one may be tried
_TIMES = 4

#: what every text for nvptx begins with, up to its version
PTX_START = b"// BEGIN PREAMBLE"


def _pointer_type(word: int) -> str:
    return f"u{8 * word}"


def gcn_layout(word: int, order: ByteOrder, library: int) -> Layout:
    """Return the layout of a record for gcn, of a library version."""
    pointer = _pointer_type(word)
    fields = [
        *_mask(pointer, library),
        Field("image", pointer, "address of the image's descriptor: its size, and the address of its bytes"),
        Field("kernel_count", "u32", "kernels: two of its own, then one for each function of the host"),
        *_padding("padding", word),
        Field("kernels", pointer, "address of the kernels' descriptors"),
        *_indirect(library),
        Field("variable_count", "u32", "variables of the host that the image has"),
    ]
    return Layout(FORMAT, f"record for gcn, library version {library}", fields, order)


def nvptx_layout(word: int, order: ByteOrder, library: int) -> Layout:
    """Return the layout of a record for nvptx, of a library version."""
    pointer = _pointer_type(word)
    fields = [
        *_mask(pointer, library),
        Field("texts", pointer, "address of the texts' descriptors"),
        Field("text_count", "u32", "PTX texts: the program's own, then those of libraries for the device"),
        *_padding("padding", word),
        Field("variables", pointer, "address of pointers to the names of variables"),
        Field("variable_count", "u32", "variables"),
        *_padding("padding2", word),
        Field("kernels", pointer, "address of the kernels' descriptors"),
        Field("kernel_count", "u32", "kernels: one for each function of the host"),
        *_indirect(library),
    ]
    return Layout(FORMAT, f"record for nvptx, library version {library}", fields, order)


def _mask(pointer: str, library: int) -> list[Field]:
    return [Field("requires", pointer, "mask of OpenMP's requires", format_hex)] if library >= WITH_MASK else []


def _padding(name: str, word: int) -> list[Field]:
    return [Field(name, "u32", "0")] if word == 8 else []


def _indirect(library: int) -> list[Field]:
    return [Field("indirect_count", "u32", "indirect functions")] if library >= WITH_INDIRECT else []


def blob_layout(word: int, order: ByteOrder, device: int) -> Layout:
    """Return the layout of the descriptor of a code object, or of a PTX text."""
    size = Field("size", _pointer_type(word), "bytes, of a text with its NUL")
    address = Field("address", _pointer_type(word), "address of the bytes")
    if device == GCN:
        return Layout(FORMAT, "image descriptor", [size, address], order)
    return Layout(FORMAT, "text descriptor", [address, size], order)


def kernel_layout(word: int, order: ByteOrder, device: int) -> Layout:
    """Return the layout of a kernel's descriptor. The dimensions are gang, worker and vector; 0 is decided later."""
    name = Field("name", _pointer_type(word), "address of its name")
    if device == GCN:
        dims = [Field(what, "i32", f"OpenACC's {what}, 0 if it is decided at run time") for what in _DIMS]
        registers = [Field("sgprs", "i32", "scalar registers"), Field("vgprs", "i32", "vector registers")]
        return Layout(FORMAT, "kernel for gcn", [name, *dims, *registers, *_padding("padding", word)], order)
    dims = [Field(what, "u16", f"OpenACC's {what}, 0 if it is decided at run time") for what in _DIMS]
    return Layout(FORMAT, "kernel for nvptx", [name, *dims, Field("padding", "u16", "0")], order)


_DIMS = ("gang", "worker", "vector")


def table_layout(word: int, order: ByteOrder) -> Layout:
    """Return the layout of the table of the host's functions and variables (``__OFFLOAD_TABLE__``)."""
    names = ("functions_begin", "functions_end", "variables_begin", "variables_end")
    docs = ("the first pointer to a function", "their end", "the first variable: its address and its size", "their end")
    rows = zip(names, docs, strict=True)
    return Layout(FORMAT, "host table", [Field(name, _pointer_type(word), doc) for name, doc in rows], order)


class GccCall(Record):
    """A call that registers a record: all four arguments."""

    version: int
    table: int
    device: int
    record: int


class GccKernel(Record):
    """A kernel of a record: its name, and OpenACC's gang, worker and vector."""

    name: str
    dims: tuple[int, int, int]


class GccRecord(Record):
    """A record of a program.

    ``version`` is that of the call, None if no call was read; ``device`` its type. ``at`` is its position in the view,
    ``layout`` the fields there. ``images`` are the code object, or the PTX texts without their NUL. ``kernels`` have
    the record's order, those of gcn's own included. ``requires`` is the mask, None without one. ``expected`` are the
    numbers of functions and variables of the host's table, None if it was not read. ``problem`` says what is wrong with
    a record that could not be read, with its ``field``; it has no images then.
    """

    version: int | None
    device: int
    at: int
    layout: Layout
    images: tuple[View, ...] = ()
    kernels: tuple[GccKernel, ...] = ()
    variable_count: int = 0
    variables: tuple[str, ...] = ()
    indirect: int = 0
    requires: int | None = None
    expected: tuple[int, int] | None = None
    problem: str = ""
    field: str = ""

    @property
    def library(self) -> int:
        """The library's version, the high half of that of the call; 0 if no call was read."""
        return (self.version or 0) >> 16

    @property
    def function_count(self) -> int:
        """The number of kernels that functions of the host are paired with."""
        return len(self.kernels) - (len(OWN_KERNELS) if self.device == GCN else 0)


def read_gcc_records(elf: ElfFile) -> list[GccRecord]:
    """Return the records of a linked file, in the order of its calls. Raises FormatError for damaged tables."""
    reader = _Reader(elf)
    calls = find_register_calls(elf)
    if calls:
        return [reader.called(call) for call in calls if call.device in (NVPTX, GCN)]
    return list(reader.found())


# Calls in constructors


def find_register_calls(elf: ElfFile) -> list[GccCall]:
    """Return the calls of a program's constructors that register records; none for other processors than two."""
    from fatpack.registration.analysis.elf_program import ElfCodeProgram

    program = ElfCodeProgram(elf)
    if program.machine not in _FOLLOWERS or program.word != 8:
        return []
    found: list[GccCall] = []
    for constructor in program.constructors()[:_CONSTRUCTORS]:
        function = program.function_at(constructor.function)
        section = None if function is None else program.section_at(function.start)
        if function is None or section is None:
            continue
        start = function.start - section.address
        code = section.data.head(start, min(function.end - function.start, _LONGEST_CODE))
        for version, table, device, record in _FOLLOWERS[program.machine](program, code, function.start):
            if device in DEVICES and version >> 16 < 1 << 8 and program.section_at(record) is not None:
                found.append(GccCall(version, table, device, record))
    return found[:_MOST_RECORDS]


def _x86_calls(program: LinkedProgram, code: bytes, start: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield the four arguments of the calls at the start of a function that moves constants and addresses only."""
    values: dict[int, int] = {}
    at = 0
    while at < len(code):
        rest = code[at : at + 10]
        step, register, value = _x86_step(rest, start + at, values)
        if not step:
            return
        if register == _CALL:
            arguments = [values.get(number) for number in (7, 6, 2, 1)]
            if None not in arguments:
                version, table, device, record = (number for number in arguments if number is not None)
                yield version, table, device, record
            values = {}
        elif register is not None:
            values[register] = value
        at += step


_CALL = -1

#: instructions without an effect on the arguments: endbr64, push and pop of rbp, mov rbp of rsp, nop, sub rsp
_NEUTRAL = {b"\xf3\x0f\x1e\xfa": 4, b"\x55": 1, b"\x5d": 1, b"\x48\x89\xe5": 3, b"\x90": 1, b"\x48\x83\xec": 4}

#: calls of an address, and of the pointer at one
_CALLS = {b"\xe8": 5, b"\xff\x15": 6}


def _x86_step(code: bytes, at: int, values: Mapping[int, int]) -> tuple[int, int | None, int]:
    """Return the size of an instruction, and the register that it sets to a value; 0 for any other instruction."""
    for start, size in _NEUTRAL.items():
        if code.startswith(start):
            return size, None, 0
    for start, size in _CALLS.items():
        if code.startswith(start):
            return size, _CALL, 0
    return _x86_value(code, at, values) if len(code) == 10 else (0, None, 0)


def _x86_value(code: bytes, at: int, values: Mapping[int, int]) -> tuple[int, int | None, int]:
    """Return the same for an instruction that sets a register."""
    prefix, number = code[0] == 0x48, int.from_bytes(code[3:7], "little")
    number -= number >> 31 << 32
    if code[:2] == b"\x48\x8d" and code[2] & 0xC7 == 5:  # lea register, [rip + number]
        return 7, code[2] >> 3 & 7, at + 7 + number & 0xFFFFFFFFFFFFFFFF
    if code[:2] == b"\x48\x89" and code[2] >= 0xC0 and code[2] >> 3 & 7 in values:  # mov register, register
        return 3, code[2] & 7, values[code[2] >> 3 & 7]
    if code[:2] == b"\x48\xc7" and code[2] & 0xF8 == 0xC0:  # mov register, number
        return 7, code[2] & 7, number & 0xFFFFFFFFFFFFFFFF
    if code[prefix] & 0xF8 == 0xB8:
        size = 10 if prefix else 5
        return size, code[prefix] & 7, int.from_bytes(code[1 + prefix : size], "little")
    return 0, None, 0


def _aarch64_calls(program: LinkedProgram, code: bytes, start: int) -> Iterator[tuple[int, int, int, int]]:
    from fatpack.registration.analysis.aarch64 import Aarch64Follower

    for call in Aarch64Follower(program).follow(code, start).calls:
        version, table, device, record = call.arguments[:4]
        if version is not None and table is not None and device is not None and record is not None:
            yield version, table, device, record


_FOLLOWERS = {"x86-64": _x86_calls, "aarch64": _aarch64_calls}


# Records and what they lead to


class _WrongRecordError(Exception):
    """A record is wrong: a problem in words, and its field."""


class _Reader:
    """Reads the records of one program."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._pointers = ElfPointers(elf.view)
        self._word, self._order = elf.layouts.word, elf.layouts.order
        self._left = _TIMES * len(elf.view)

    def called(self, call: GccCall) -> GccRecord:
        """Return the record that a call registers."""
        place = self._pointers.at(call.record)
        layout = self._layout(call.device, call.version >> 16)
        wrong = GccRecord(call.version, call.device, place.position, layout)
        try:
            record = self._read(call.record, call.device, call.version >> 16)
        except _WrongRecordError as error:
            record = wrong.replace(problem=str(error.args[0]), field=str(error.args[1]))
        return record.replace(version=call.version, expected=self._expected(call.table))

    def found(self) -> Iterator[GccRecord]:
        """Yield the records that lead to images, found from the images."""
        expected = self._sections_expect()
        for device, starts in ((NVPTX, self._texts()), (GCN, self._code_objects())):
            for address in self._leading_to(starts, 0 if device == NVPTX else self._word):
                record = self._fitting(address, device, expected)
                if record is not None:
                    yield record.replace(expected=expected)

    def _fitting(self, address: int, device: int, expected: tuple[int, int] | None) -> GccRecord | None:
        """Return the record whose first pointer is at an address, of the library version that the host's table fits.

        A mask before it looks like any other word, and the count of indirect functions at its end too: both are unknown
        without a call. In records for gcn that count comes before another, which must be the host's.
        """
        found: GccRecord | None = None
        for library in (1, WITH_INDIRECT) if device == GCN else (1,):
            try:
                record = self._read(address - (self._word if library >= WITH_MASK else 0), device, library)
            except _WrongRecordError:
                continue
            if expected is None or (record.function_count, record.variable_count) == expected:
                return record
            found = found or record
        return found

    def _layout(self, device: int, library: int) -> Layout:
        return (gcn_layout if device == GCN else nvptx_layout)(self._word, self._order, library)

    def _read(self, address: int, device: int, library: int) -> GccRecord:
        layout = self._layout(device, library)
        place = self._inside(address, layout.size, "record", layout.name)
        fields = layout.named(self._elf.view, place.position)
        wanted = [name for name in ("image", "texts", "variables", "kernels") if name in fields]
        targets = dict(zip(wanted, self._follow([address + layout.field_offset(name) for name in wanted]), strict=True))
        for name in ("padding", "padding2"):
            if fields.get(name):
                raise _WrongRecordError(f"{name} is {fields[name]:#x}, and should be 0", name)
        count, variables = fields["kernel_count"], fields["variable_count"]
        record = GccRecord(
            None,
            device,
            place.position,
            layout,
            tuple(self._images(targets["image" if device == GCN else "texts"], device, fields.get("text_count", 1))),
            tuple(self._kernels(targets["kernels"], device, count)),
            variables,
            tuple(self._names(targets["variables"], variables)) if device == NVPTX else (),
            fields.get("indirect_count", 0),
            fields.get("requires"),
        )
        if device == GCN and tuple(kernel.name for kernel in record.kernels[:2]) != OWN_KERNELS:
            raise _WrongRecordError(f"its first kernels are not {' and '.join(OWN_KERNELS)}", "kernels")
        return record

    def _images(self, table: Pointer, device: int, count: int) -> Iterator[View]:
        layout = blob_layout(self._word, self._order, device)
        what = "texts" if device == NVPTX else "image"
        rows = self._rows(table, layout, count, what)
        places = [table.address + number * layout.size + layout.field_offset("address") for number in range(count)]
        for number, (row, target) in enumerate(zip(rows, self._follow(places), strict=True)):
            size = row["size"]
            title = f"text {number}" if device == NVPTX else "the code object"
            if target.kind != INSIDE or size > target.room or size < 16:
                raise _WrongRecordError(
                    f"{title} of {size} bytes at {target.address:#x} does not lie in the file", what
                )
            data = self._elf.view.slice(target.position, size)
            if device == GCN:
                yield self._code_object(data)
            else:
                yield self._text(data, title)

    def _code_object(self, data: View) -> View:
        head = data.head(0, 20)
        if not head.startswith(magic_numbers.ELF) or int.from_bytes(head[18:20], "little") != AMDGPU:
            raise _WrongRecordError("the code object does not begin as an ELF file for AMD GPUs does", "image")
        return data

    def _text(self, data: View, title: str) -> View:
        if data.read(len(data) - 1, 1) != b"\0":
            raise _WrongRecordError(f"{title} does not end with a NUL", "texts")
        if b".version" not in data.head(0, 200):
            raise _WrongRecordError(f"{title} states no PTX version at its start", "texts")
        return data.slice(0, len(data) - 1)

    def _kernels(self, table: Pointer, device: int, count: int) -> Iterator[GccKernel]:
        layout = kernel_layout(self._word, self._order, device)
        rows = self._rows(table, layout, count, "kernels")
        targets = self._follow([table.address + number * layout.size for number in range(count)])
        for row, target in zip(rows, targets, strict=True):
            yield GccKernel(self._string(target, "kernels"), (row["gang"], row["worker"], row["vector"]))

    def _names(self, table: Pointer, count: int) -> Iterator[str]:
        self._rows(table, Layout(FORMAT, "name", [Field("name", _pointer_type(self._word), "")]), count, "variables")
        for target in self._follow([table.address + number * self._word for number in range(count)]):
            yield self._string(target, "variables").removeprefix('"').removesuffix('"')

    def _rows(self, table: Pointer, layout: Layout, count: int, field: str) -> list[dict[str, int]]:
        """Return the rows of a table that a field leads to."""
        if count > _MOST:
            raise _WrongRecordError(f"{count} {field} are more than {_MOST}", field)
        if not count:
            return []
        if table.kind != INSIDE or count * layout.size > table.room:
            raise _WrongRecordError(f"{pluralize(count, 'row')} at {table.address:#x} do not lie in the file", field)
        self._left -= count * layout.size
        if self._left < 0:
            raise _WrongRecordError(f"all tables take more than {_TIMES} times the file", field)
        return [layout.named(self._elf.view, table.position + number * layout.size) for number in range(count)]

    def _string(self, target: Pointer, field: str) -> str:
        if target.kind != INSIDE:
            raise _WrongRecordError(f"a name at {target.address:#x} does not lie in the file", field)
        text, end, _ = self._elf.view.head(target.position, min(_LONGEST, target.room)).partition(b"\0")
        self._left -= len(text)
        if not end or self._left < 0:
            raise _WrongRecordError("names do not end", field)
        return text.decode("utf-8", "backslashreplace")

    def _inside(self, address: int, size: int, field: str, title: str) -> Pointer:
        place = self._pointers.at(address)
        if place.kind != INSIDE or place.room < size:
            raise _WrongRecordError(f"the {title} at {address:#x} does not lie in the file", field)
        return place

    def _follow(self, places: Sequence[int]) -> list[Pointer]:
        return self._pointers.values_at(places) if places else []

    def _expected(self, table: int) -> tuple[int, int] | None:
        """Return the numbers of functions and variables between the pointers of the host's table."""
        layout = table_layout(self._word, self._order)
        place = self._pointers.at(table)
        if place.kind != INSIDE or place.room < layout.size:
            return None
        found = self._follow([table + number * self._word for number in range(4)])
        addresses = [pointer.address for pointer in found]
        if any(pointer.kind == NULL for pointer in found) or not addresses[0] or not addresses[2]:
            return self._sections_expect()
        functions, variables = addresses[1] - addresses[0], addresses[3] - addresses[2]
        if min(functions, variables) < 0 or functions % self._word or variables % (2 * self._word):
            return None
        return functions // self._word, variables // (2 * self._word)

    def _sections_expect(self) -> tuple[int, int] | None:
        """Return the numbers of functions and variables by the sections, whose names survive ``strip``."""
        sizes = {self._elf.name(section): section.size for section in self._elf.sections()}
        if ".gnu.offload_funcs" not in sizes:
            return None
        return sizes[".gnu.offload_funcs"] // self._word, sizes.get(".gnu.offload_vars", 0) // (2 * self._word)

    # Images, and the words that lead to them

    def _texts(self) -> list[int]:
        return [self._pointers.address_of(at) for at in self._positions(PTX_START)]

    def _code_objects(self) -> list[int]:
        machine = AMDGPU.to_bytes(2, "little")
        found = (at for at in self._positions(magic_numbers.ELF) if self._elf.view.head(at + 18, 2) == machine)
        return [self._pointers.address_of(at) for at in islice(found, _MOST_RECORDS)]

    def _positions(self, magic: bytes) -> Iterator[int]:
        at = self._elf.view.find(magic)
        for _ in range(_MOST):
            if at < 0:
                return
            yield at
            at = self._elf.view.find(magic, at + 1)

    def _leading_to(self, addresses: Iterable[int], offset: int) -> list[int]:
        """Return the places of the words that lead to a descriptor of an image at some addresses.

        ``offset`` is that of the image's address in its descriptor.
        """
        wanted = {address for address in addresses if address}
        if not wanted:
            return []
        search = self._pointers.values_in(min(wanted), max(wanted), everywhere=True).values
        descriptors = {place - offset for place, value in search.items() if value in wanted}
        if not descriptors:
            return []
        search = self._pointers.values_in(min(descriptors), max(descriptors), everywhere=True).values
        return sorted(place for place, value in search.items() if value in descriptors)[:_MOST_RECORDS]
