"""GCC's own offloading (``-fopenmp``, ``-fopenacc`` for nvptx-none and amdgcn-amdhsa): what an ELF file has of it.

=======================  =============================================================================================
object, archive member   bytecode for any accelerator (GIMPLE) in ``.gnu.offload_lto_*``; the target is chosen when it
                         is linked, so there is no image yet
program, library         ``.gnu.offload_funcs``, a pointer for each target region, and an image for each accelerator
                         that a constructor registers with ``GOMP_offload_register_ver``: a code object in ``.data``,
                         or PTX texts in ``.rodata``, the program's own and those of libraries
=======================  =============================================================================================

A link without GCC's plug-in leaves the pointers and registers nothing: all regions run on the host, and nothing is
printed. The names of these sections survive ``strip``.

How we know: ``gcc/config/gcn/mkoffload.cc``, ``gcc/config/nvptx/mkoffload.cc`` and ``lto-plugin/lto-plugin.c`` of GCC;
measured with files of GCC 12.2 and 14.2. The records are read by :mod:`fatpack.registration.gcc_records`.
"""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.relocations import section_relocations
from fatpack.binary.elf.symbols import read_symbol_tables, read_symbols, symbol_table_strings
from fatpack.binary.section_names import GCC_OFFLOAD
from fatpack.errors import FormatError, format_hex, pluralize
from fatpack.findings import finding
from fatpack.registration.analysis.findings import name_list
from fatpack.registration.gcc_container import make_gcc_container
from fatpack.registration.gcc_records import DEVICES, GCN, NEWEST, OWN_KERNELS, read_gcc_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.binary.elf.file import ElfSection
    from fatpack.io.source import View
    from fatpack.model import Container, Finding, Label
    from fatpack.registration.gcc_records import GccRecord

#: the section by which GCC's linker plug-in recognises an object, and the tables of regions and of variables
_OPTIONS, _FUNCTIONS, _VARIABLES = ".gnu.offload_lto_.opts", ".gnu.offload_funcs", ".gnu.offload_vars"

#: functions of libgomp: the one that registers images, and those that start a region
_REGISTER = b"GOMP_offload_register"
_OPENACC = b"GOACC_parallel_keyed"
_LAUNCH = (b"GOMP_target_ext", _OPENACC)

#: LIMIT: bytes of the options that are read, and kernels of an object that are named
_MOST_OPTIONS, _MOST_KERNELS = 1 << 16, 1 << 14

#: STT_FUNC
_FUNCTION = 2

#: the processor that GCC 12 compiles for without -march
_OLD_DEFAULT = "gfx803"


def find_gcc_offload(view: View) -> Iterator[tuple[Container, View] | Finding]:
    """Yield what a file has of GCC's offloading: a container with its bytes for each record, and findings.

    Nothing for other ELF files. Damage of the file itself was reported by the scan.
    """
    try:
        elf = ElfFile(view)
        own = {name: section for section in elf.sections() if (name := elf.name(section)).startswith(GCC_OFFLOAD)}
        if elf.is_linked:
            yield from _linked(view, elf, own)
        elif _OPTIONS in own:
            yield _bytecode(elf, own)
    except FormatError:
        return


def label_gcc_records(view: View) -> Iterator[Label]:
    """Yield the fields of the records that a program registers with libgomp; nothing for other and damaged files."""
    try:
        elf = ElfFile(view)
        if not elf.is_linked or elf.names_table().find(GCC_OFFLOAD.encode()) < 0:
            return
        records = {record.at: record for record in read_gcc_records(elf)}
        for number, (at, record) in enumerate(sorted(records.items())):
            yield from record.layout.labels(view, at, f"gcc_record[{number}]")
    except FormatError:
        return


# Objects


def _bytecode(elf: ElfFile, own: Mapping[str, ElfSection]) -> Finding:
    """Return what an object has: its model, kernels and variables."""
    options = elf.contents(own[_OPTIONS]).head(0, _MOST_OPTIONS)
    model = "OpenACC" if b"-fopenacc" in options else "OpenMP"
    functions, variables = _counts(elf, own)
    names = _kernels_of_object(elf, own[_FUNCTIONS]) if _FUNCTIONS in own else []
    counts = [pluralize(functions, "kernel"), *([pluralize(variables, "variable")] if variables else [])]
    if _FUNCTIONS not in own:
        bodies = [_body(name) for name in own if "._omp_fn." in name]
        counts = [f"at most {pluralize(len(bodies), 'kernel')} ({name_list(bodies)})"]
    elif names:
        counts[0] += f" ({name_list(names)})"
    size = sum(section.size for section in own.values())
    version = next((_lto_version(elf, section) for name, section in own.items() if name.startswith(_LTO)), "")
    text = f"GCC's bytecode for accelerators (GIMPLE{version}), {model}, {', '.join(counts)}, {size} bytes"
    hint = "the target is chosen when it is linked: gcc -foffload=amdgcn-amdhsa, or nvptx-none"
    return finding("FP2701", elf.contents(own[_OPTIONS]).span(), text, hint).replace(section=_OPTIONS)


_LTO = ".gnu.offload_lto_.lto."


def _lto_version(elf: ElfFile, section: ElfSection) -> str:
    """Return the version of the LTO format: its major one is GCC's."""
    head = elf.contents(section).head(0, 4)
    order = elf.layouts.order
    return f", LTO {int.from_bytes(head[:2], order)}.{int.from_bytes(head[2:4], order)}" if len(head) == 4 else ""


def _body(name: str) -> str:
    """Return the function of which a section has the body: the last two parts of the name are a number and an ID."""
    return name.removeprefix(".gnu.offload_lto_").rsplit(".", 2)[0]


def _kernels_of_object(elf: ElfFile, table: ElfSection) -> list[str]:
    """Return the names of the functions to which the table of regions has pointers; none after a strip.

    Relocations are against the section of the code and an addend, so a function is found by its place.
    """
    wanted: list[tuple[int, int]] = []
    symbols: list[tuple[int, int]] = []
    for relocations in elf.sections():
        if relocations.type not in (layout.RELA, layout.REL) or relocations.info != table.index:
            continue
        if not 0 < relocations.link < elf.section_count:
            continue
        symbols = symbols or [
            (index, value) for _, _, _, index, value, _ in read_symbols(elf, elf.section(relocations.link))
        ]
        for block in section_relocations(elf, relocations):
            for place, _, number, addend in block.rows():
                if number >= len(symbols) or len(wanted) == _MOST_KERNELS:
                    continue
                stored = elf.contents(table).head(place, elf.layouts.word) if addend is None else b""
                index, value = symbols[number]
                wanted.append((index, value + (int.from_bytes(stored, elf.layouts.order) if stored else addend or 0)))
    if not wanted:
        return []
    named: dict[tuple[int, int], str] = {}
    places = set(wanted)
    for symbol_table, strings in read_symbol_tables(elf, layout.SYMTAB):
        text = elf.contents(strings)
        for name, info, _, index, value, _ in read_symbols(elf, symbol_table):
            if info & 15 == _FUNCTION and (index, value) in places:
                named.setdefault((index, value), elf.string(text, name))
    return [named[place] for place in wanted if place in named]


# Programs and libraries


def _counts(elf: ElfFile, own: Mapping[str, ElfSection]) -> tuple[int, int]:
    """Return the numbers of target regions and of variables."""
    word = elf.layouts.word
    functions = own[_FUNCTIONS].size // word if _FUNCTIONS in own else 0
    return functions, own[_VARIABLES].size // (2 * word) if _VARIABLES in own else 0


def _linked(view: View, elf: ElfFile, own: Mapping[str, ElfSection]) -> Iterator[tuple[Container, View] | Finding]:
    """Yield what a program or library registers, and what it does with its target regions."""
    functions, variables = _counts(elf, own)
    if not functions and not variables:
        return
    names = list(symbol_table_strings(elf, layout.DYNSYM, layout.SYMTAB))
    records = read_gcc_records(elf)
    for record in records:
        if record.images:
            yield make_gcc_container(view, record, _model(record, names))
    regions = pluralize(functions, "target region")
    if records:
        yield from _registered(
            view, records, f"{regions} and {pluralize(variables, 'variable')}" if variables else regions
        )
    elif any(_REGISTER in table for table in names):
        text = f"{regions}: it calls {_REGISTER.decode()}_ver, and the record that it registers was not found"
        yield finding("FP2708", view.span(), text, "report the file: which GCC linked it, and for which processor")
    elif functions and (not names or any(launch in table for table in names for launch in _LAUNCH)):
        text = f"{regions}, and no image is registered with libgomp: all of them run on the host, without a message"
        hint = "link with GCC's linker plug-in and mkoffload; expected if it was linked with -foffload=disable"
        yield finding("FP2702", view.span(), text, hint)


def _model(record: GccRecord, names: Sequence[bytes]) -> str:
    """Return the programming model: by the function that starts a region; OpenACC states dimensions of kernels."""
    if any(_OPENACC in table for table in names):
        return "OpenACC"
    if any(launch in table for table in names for launch in _LAUNCH):
        return "OpenMP"
    return "OpenACC" if any(any(kernel.dims) for kernel in record.kernels) else "OpenMP"


def _registered(view: View, records: Sequence[GccRecord], counts: str) -> Iterator[Finding]:
    """Yield that a program registers its regions, and what is wrong with its records."""
    devices = ", ".join(dict.fromkeys(_title(record) for record in records))
    yield finding("FP2703", view.span(), f"registers {counts} with libgomp (GCC's offloading) for {devices}")
    for record in records:
        span = view.span(record.at, record.layout.size)
        if record.problem:
            text = f"the record for {_title(record)}: {record.problem}"
            hint = "GCC's mkoffload writes no such record: the file is damaged, or of a GCC that was not tried"
            yield finding("FP2708", span, text, hint).replace(field=record.field)
            continue
        yield from _wrong_counts(record, view)
        if record.library > NEWEST:
            text = f"library version {record.library}: files with versions above {NEWEST} were not tried"
            hint = "a libgomp of an older GCC stops: Library too old for offload"
            yield finding("FP2707", span, text, hint)
        if record.device == GCN:
            from fatpack import images

            if images.identify_image(record.images[0]).arch.partition(":")[0] == _OLD_DEFAULT:
                text = f"compiled for {_OLD_DEFAULT} (fiji), as GCC 12 does without -march: current ROCm has no support"
                hint = "name the processor: -foffload-options=amdgcn-amdhsa=-march=gfx90a"
                yield finding("FP2706", record.images[0].span(), text, hint)
    found = {record.device: record for record in records if not record.problem}
    numbers = {record.function_count for record in found.values()}
    if len(numbers) > 1:
        each = ", ".join(f"{DEVICES[device]} {record.function_count}" for device, record in found.items())
        text = f"records of one program have different numbers of kernels for the host's functions: {each}"
        yield finding("FP2705", view.span(), text, "link all objects again, with one GCC")


def _wrong_counts(record: GccRecord, view: View) -> Iterator[Finding]:
    """Yield that a record maps other numbers of functions and variables than the host's table has."""
    if record.expected is None:
        return
    have, expected = record.function_count + record.variable_count, sum(record.expected)
    if (record.function_count, record.variable_count) == record.expected:
        return
    own = f", beside {' and '.join(OWN_KERNELS)}" if record.device == GCN else ""
    text = (
        f"the record for {_title(record)} has {pluralize(record.function_count, 'kernel')}{own} and "
        f"{pluralize(record.variable_count, 'variable')}, and the host's table "
        f"{pluralize(record.expected[0], 'function')} and {pluralize(record.expected[1], 'variable')}: libgomp stops "
        f"(expected {expected}, have {have})"
    )
    span = view.span(record.at + record.layout.field_offset("kernel_count"), 4)
    yield finding("FP2704", span, text, "link all objects again, with one GCC").replace(field="kernel_count")


def _title(record: GccRecord) -> str:
    """Return the accelerator of a record, with its version."""
    version = "" if record.version is None else f" (version {format_hex(record.version)})"
    return f"{DEVICES[record.device]}{version}"
