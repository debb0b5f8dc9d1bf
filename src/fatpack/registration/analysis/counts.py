"""Numbers of registered kernels and variables of an object or a program: the line in ``inspect`` without findings.

For objects they come from relocations. For programs only tables are counted: the kernels that their code registers are
known only after following the code (``inspect --runtime``).
"""

from __future__ import annotations

from fatpack.binary.elf.layout import ALLOC
from fatpack.record import Record
from fatpack.registration.analysis import entries
from fatpack.registration.analysis.model import count_wrappers, section_model

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.elf.file import ElfFile, ElfSection
    from fatpack.registration.analysis.model import RegistrationEvidence

NVCC, CLANG, WRAPPER, CALLS = "nvcc calls", "clang calls", "the linker wrapper", "calls"
NEW_ENTRIES, OLD_ENTRIES = "clang ≥ 21 entries", "clang ≤ 20 entries"

#: names of the registering constructor in nvcc, clang and the linker wrapper
_NVCC, _CLANG = "__sti____cudaRegisterAll", ("__cuda_module_ctor", "__hip_module_ctor")
_WRAPPER = (".omp_offloading.descriptor_reg", ".cuda.fatbin_reg", ".hip.fatbin_reg", "sycl.descriptor_reg")

#: undefined containers that are listed: objects have one
_AWAITED = 4

#: LIMIT: bytes of tables that are counted in a program, and sections of one that are looked at. The largest tables
#: known to us have some hundred thousand bytes; programs have some dozen sections.
_COUNTED, _SECTIONS = 1 << 23, 1 << 12


class RegistrationCounts(Record):
    """The registrations of a file: numbers of kernels and variables, None if only its code would show them.

    ``models``: the programming models. ``records``: the number of records and descriptors that point to containers.
    ``by``: the producer of the registering code, by names and layouts. ``member``, ``numbers``: its name in an archive,
    and the member numbers.
    """

    models: tuple[str, ...]
    kernels: int | None
    variables: int | None
    records: int
    by: str
    member: str | None = None
    numbers: tuple[int, ...] = ()


def count_registrations(evidence: RegistrationEvidence) -> RegistrationCounts | None:
    """Count the registrations in the evidence of a file; None if it registers nothing."""
    kernels, variables = kernel_count(evidence), variable_count(evidence)
    models = {each.model for each in evidence.registered} | {each.model for each in evidence.wrappers}
    models |= {each.model for each in evidence.binaries}
    models |= {entry.kind for entry in evidence.entries if entry.name}
    records = len(evidence.wrappers) + len(evidence.descriptors)
    if not (kernels or variables or evidence.binaries or records):
        return None
    known, by = tuple(model for model in entries.KINDS.values() if model in models), likely_producer(evidence)
    if by == WRAPPER and not kernels and not variables:
        return RegistrationCounts(known, None, None, max(records, len(evidence.binaries)), by)
    return RegistrationCounts(known, kernels, variables, records, by)


def kernel_count(evidence: RegistrationEvidence) -> int:
    """Return the number of kernels that a file registers, by calls and by entries."""
    calls = sum(each.is_kernel and each.is_read for each in evidence.registered)
    return calls + sum(entry.is_kernel for entry in evidence.entries)


def variable_count(evidence: RegistrationEvidence) -> int:
    """Return the number of variables that a file registers, by calls and by entries."""
    calls = sum(not each.is_kernel and each.is_read for each in evidence.registered)
    return calls + sum(bool(entry.size and entry.name) for entry in evidence.entries)


def likely_producer(evidence: RegistrationEvidence) -> str:
    """Return the probable producer of the registering code, by its names and layout; or ""."""
    if evidence.entries:
        return NEW_ENTRIES if evidence.entries[0].layout in entries.NEW else OLD_ENTRIES
    if not (evidence.registered or evidence.binaries or evidence.links or evidence.wrappers or evidence.descriptors):
        return ""
    names = _names(evidence)
    if any(_NVCC in name for name in names):
        return NVCC
    if not names.isdisjoint(_CLANG):
        return CLANG
    if not names.isdisjoint(_WRAPPER):
        return WRAPPER
    return NVCC if evidence.links else CALLS


def registers_entries(evidence: RegistrationEvidence) -> bool:
    """Return whether kernels are registered by the linker wrapper's loop over the offload entries."""
    if evidence.walked is not None:
        return bool(evidence.walked)
    loops = {each.caller for each in evidence.registered if each.is_kernel and not each.is_read}
    return bool(loops) and any(
        each.name.startswith("__start_") and entries.entry_kind(each.name[len("__start_") :]) is not None
        for each in evidence.memory.symbols
    )


def _names(evidence: RegistrationEvidence) -> set[str]:
    """Return the names of the functions in the evidence; in a program, only of functions that register."""
    memory = evidence.memory
    if not evidence.is_linked:
        return {each.name for each in memory.symbols} | {each.name for each in memory.functions}
    starts = {each.caller for each in evidence.binaries} | {each.function for each in evidence.constructors}
    return {function.name for function in map(memory.function_at, starts) if function is not None}


def link_step_additions(evidence: RegistrationEvidence) -> list[str]:
    """Return the parts of an object that the link adds, in words; nothing for programs."""
    if evidence.memory.is_linked:
        return []
    calling = {each.model for each in evidence.binaries}
    kinds = {entry.kind for entry in evidence.entries if entry.name} - calling
    found = ["clang-linker-wrapper registers its entries"] if kinds else []
    if evidence.links:
        found.append("nvcc's device link registers its device code")
    symbols = sorted({each.symbol for each in evidence.wrappers if each.symbol})
    return [*found, *(f"the device link makes {symbol}" for symbol in symbols[:_AWAITED])]


def count_from_tables(elf: ElfFile) -> RegistrationCounts | None:
    """Count the registrations in a program's tables; None if it has none. Raises FormatError."""
    records: dict[str, int] = {}
    kernels: dict[str, int] = {}
    variables, by, left = 0, "", _COUNTED
    for section in elf.sections() if elf.section_count <= _SECTIONS else ():
        if not section.flags & ALLOC or not section.size or section.end > len(elf.view):
            continue
        name = elf.name(section)
        model = section_model(name)
        if model and section.size <= left:
            left -= section.size
            count = count_wrappers(elf.contents(section).tobytes(), elf.layouts.word)
            if count:
                records[model] = records.get(model, 0) + count
        kind = entries.entry_kind(name)
        if kind is not None and section.size <= left:
            left -= section.size
            found, more, layout = _counted(elf, section, kind)
            for title, count in found.items():
                kernels[title] = kernels.get(title, 0) + count
            variables += more
            by = by or (NEW_ENTRIES if layout in entries.NEW else OLD_ENTRIES if layout else "")
    models = tuple(model for model in entries.KINDS.values() if model in records or model in kernels)
    if not models:
        return None
    if not kernels:
        return RegistrationCounts(models, None, None, sum(records.values()), CALLS)
    return RegistrationCounts(models, sum(kernels.values()), variables, sum(records.values()), by)


def _counted(elf: ElfFile, section: ElfSection, kind: int) -> tuple[dict[str, int], int, int]:
    """Return the number of kernels of each kind in a table, of variables, and the size of its first entry.

    Sizes, flags and kinds are stored in the file; only the addresses beside them depend on relocations.
    """
    data, word = elf.contents(section).tobytes(), elf.layouts.word
    new, old = entries.NEW[word != 8], entries.OLD[word != 8]
    kernels: dict[str, int] = {}
    variables, layout, at = 0, 0, 0
    while len(data) - at >= old:
        size = new if data[at + 8 : at + 10] == b"\1\0" and not any(data[at : at + 8]) else old
        if size != old and len(data) - at < size:
            break
        if size == old and not kind:
            at += word  # zeros: bounds and padding
            continue
        layout = layout or size
        title, flags, stored = _fields(data, at, size, word, kind)
        if stored:
            variables += 1
        elif not flags & entries.VARIABLE:
            kernels[title] = kernels.get(title, 0) + 1
        at += size
    return kernels, variables, layout


def _fields(data: bytes, at: int, size: int, word: int, kind: int) -> tuple[str, int, int]:
    """Return kind, flags and size of an entry."""

    def number(place: int, width: int) -> int:
        return int.from_bytes(data[at + place : at + place + width], "little")

    if size in entries.NEW:
        stored = number(10, 2)
        return entries.KINDS.get(stored, str(stored)), number(12, 4), number(16 + 2 * word, 8)
    return entries.KINDS.get(kind, ""), number(3 * word, 4), number(2 * word, word)
