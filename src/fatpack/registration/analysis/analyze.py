"""Analyze a host file: findings about its registrations and launches, evidence for them, and counts."""

from __future__ import annotations

from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.elf.symbols import STRINGS, symbol_table_strings
from fatpack.binary.section_names import BUNDLE_PREFIX, CUDA_FATBIN, CUDA_RELOCATABLE, HIP_FATBIN, OFFLOADING
from fatpack.errors import FormatError, pluralize
from fatpack.registration.analysis.model import (
    DESCRIBED,
    HIP_IMAGE,
    MODELS,
    NAME_HINTS,
    NAME_PREFIXES,
    POP,
    REGISTER_BINARY,
    REGISTER_OPENMP,
    TARGET_KERNEL,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Set

    from fatpack.binary.memory import HostMemory, MemorySection
    from fatpack.io.source import View
    from fatpack.model import Finding, Label
    from fatpack.registration.analysis.counts import RegistrationCounts
    from fatpack.registration.analysis.findings import KernelsByArch
    from fatpack.registration.analysis.model import RegistrationEvidence
    from fatpack.registration.analysis.registers import LinkedProgram


#: e_machine of the processors whose code is read; objects for i386 may have entries
_ELF, _ENTRIES = (62, 183), 3

#: kinds of hosts
_OBJECT, _PROGRAM, _OTHER, NOT_READ, LTO, DAMAGED = "object", "program", "other", "not read", "lto", "damaged"

#: kind of a program whose code was not followed, because capstone is not installed
_NO_CAPSTONE = "no capstone"

#: bytes of a PE image that are searched at once for imported names
_PIECE = 1 << 22

#: types of sections with relocations in packed encodings, which are not read: pointers in them have no targets
_PACKED = (layout.CREL, layout.ANDROID_REL)

#: bytes of an address in programs whose code is read
_WORD = 8

#: bytes of the longest of the strings that are searched for
_WORDS = max(map(len, NAME_HINTS))


def registration_findings(
    view: View,
    host: str,
    kernels: Callable[[], KernelsByArch | None],
    variables: Callable[[], Set[str]] = frozenset,
    *,
    is_wrapped: bool = False,
    elf: ElfFile | None = None,
) -> Iterator[Finding | RegistrationCounts]:
    """Yield findings about registrations, or without any, the counts of registrations.

    ``kernels`` returns the names in all images by architecture, None if not all images can be read, and ``variables``
    the names of the variables in them.

    For files without names of runtime functions, only their tables of names are searched. For programs whose containers
    are registered by records (``is_wrapped``), names are ignored: they do not show which kernels are registered. The
    code of programs is not followed: registrations are counted in their tables. ``elf`` are the tables of an ELF file,
    if they were read already. Damage was reported by the scan.
    """
    try:
        kind, elf = _kind(view, host, elf)
        if kind == _PROGRAM and elf is not None:
            yield from _program_judged(elf, is_wrapped=is_wrapped)
        if kind != _OBJECT or not _may_launch(view, elf):
            return
        from fatpack.registration.analysis import counts, objects

        evidence = _whole(objects.object_evidence(objects.read_object(view, host)))
        names = kernels() if evidence.kernels else None
    except FormatError:
        return
    is_well = True
    for item in findings_from_evidence(evidence, names, variables):
        is_well = is_well and item.severity == "note"
        yield item
    unit = counts.count_registrations(evidence) if is_well else None
    if unit is not None:
        yield unit


def read_evidence(view: View, host: str) -> tuple[RegistrationEvidence | None, str]:
    """Return the evidence in a host file and its kind; None with the reason if there is none.

    The code of programs for x86-64 is followed with capstone; without it, some is not read. Damage was reported by the
    scan.
    """
    try:
        kind, elf = _kind(view, host)
        if kind == _PROGRAM and elf is not None:
            return _of_program(elf)
        if host == "pe":
            return _of_image(view)
        if kind != _OBJECT:
            return None, kind
        from fatpack.registration.analysis import objects

        return _whole(objects.object_evidence(objects.read_object(view, host))), "relocations"
    except FormatError:
        return None, DAMAGED


def may_register(view: View, host: str) -> bool:
    """Return whether a host file has names of runtime functions, or sections of records or entries.

    Only the string tables are searched: most files of a folder use no runtime.
    """
    try:
        _, elf = _kind(view, host)
        if elf is not None:
            tables = symbol_table_strings(elf, layout.DYNSYM, layout.SYMTAB)
            return any(map(_is_any_in, tables)) or any(_is_of_runtime(elf.name(each)) for each in elf.sections())
        if host == "coff":
            return _may_launch(view, None)
    except FormatError:
        return False
    return host == "pe" and any(
        _is_any_in(view.head(at, min(_PIECE + _WORDS, len(view) - at))) for at in range(0, len(view), _PIECE)
    )


def _is_of_runtime(section: str) -> bool:
    """Return whether a section has records, offload entries or images, by its name."""
    from fatpack.registration.analysis import entries, model

    return bool(model.section_model(section)) or entries.entry_kind(section) is not None


def has_own_kernels(evidence: RegistrationEvidence) -> bool:
    """Return whether a file has kernels of its own to register; false if it only calls a runtime for other files."""
    return bool(
        evidence.wrappers
        or evidence.entries
        or evidence.stubs
        or evidence.registered
        or evidence.descriptors
        or evidence.offload_binaries
        or evidence.launches
        or not POP.keys().isdisjoint(evidence.called)
    )


def not_judged_reason(evidence: RegistrationEvidence, way: str) -> str:
    """Return the reason in words that registrations of a file cannot be judged; "" if all of it was followed."""
    from fatpack.registration.analysis import counts

    if way == _NO_CAPSTONE:
        return "following its code needs capstone: pip install capstone (the extra fatpack[code])"
    if evidence.unread and not counts.registers_entries(evidence):
        calls = "1 call that registers" if evidence.unread == 1 else f"{evidence.unread} calls that register"
        return f"{calls} kernels could not be followed"
    if evidence.unfollowed:
        return f"{pluralize(evidence.unfollowed, 'function')} that may launch or register could not be followed"
    if evidence.reached is None:
        return "code for its processor is not read"
    return _unfollowed_program(evidence) if evidence.is_linked else ""


def _unfollowed_program(evidence: RegistrationEvidence) -> str:
    """Return the reason that parts of a program were not recognized, although its functions were followed; or ""."""
    is_complete = evidence.kernels or evidence.registered or evidence.links or evidence.skipped
    registering = {each.model for each in evidence.binaries}
    is_followed = {each.model for each in evidence.wrappers} <= registering
    if evidence.wrappers and not (is_complete and is_followed):
        return "the code that registers its kernels could not be followed"
    kinds = {each.kind for each in evidence.entries}
    models = {each.model for each in evidence.descriptors} | kinds
    if evidence.offload_binaries:
        models.add("sycl")
    if _registers_no_regions(evidence):
        models.discard("openmp")
    if not models.intersection(DESCRIBED) <= registering:
        return "the code that registers its images could not be followed"
    nameless = "the functions of the runtime in it have no names"
    if evidence.is_by_shape and registering.intersection(MODELS, kinds):
        return f"{nameless}, and the loop over its offload entries could not be recognized"
    if evidence.is_by_shape and "openmp" in registering - kinds:
        return f"{nameless}, and without offload entries the code that launches regions cannot be recognized"
    if evidence.is_by_shape and evidence.registered and not evidence.launches:
        return f"{nameless}, and the code that launches kernels could not be recognized"
    return ""


def _registers_no_regions(evidence: RegistrationEvidence) -> bool:
    """Return whether it is certain that a program registers no images of OpenMP, although it launches regions.

    It calls the runtime by name, and not the function that registers, and has no descriptor of images: FP3049. There is
    no code to follow then.
    """
    if TARGET_KERNEL not in evidence.called or REGISTER_OPENMP in evidence.called:
        return False
    return "openmp" not in {each.model for each in evidence.descriptors} | {each.model for each in evidence.binaries}


def registration_labels(view: View, host: str) -> Iterator[Label]:
    """Yield annotations of records, descriptors, entries and pointers to constructors, in the order of their bytes.

    Nothing for files that are not read, and for damaged ones.
    """
    from fatpack.registration.analysis import labels

    try:
        file = open_host_memory(view, host)
        if file is not None:
            yield from labels.label_records(file)
    except FormatError:
        return


def open_host_memory(view: View, host: str) -> HostMemory | None:
    """Return the memory image of a host file, None if its type is not read. Raises FormatError."""
    kind, elf = _kind(view, host)
    if kind == _PROGRAM and elf is not None:
        from fatpack.registration.analysis.elf_program import ElfCodeProgram

        return ElfCodeProgram(elf) if elf.layouts.word == _WORD else None
    if host == "pe":
        from fatpack.registration.analysis import pe_program

        program = pe_program.PeCodeProgram(view)
        return program if program.machine else None
    if kind != _OBJECT:
        return None
    from fatpack.registration.analysis import objects

    return objects.read_object(view, host)


def _kind(view: View, host: str, elf: ElfFile | None = None) -> tuple[str, ElfFile | None]:
    """Return the kind of a host, with the tables of an ELF file (``elf``, if they were read). Raises FormatError."""
    if host == "elf":
        elf = elf or ElfFile(view)
        is_object = not elf.is_linked and elf.header.machine == _ENTRIES
        if not (is_object or elf.header.machine in _ELF) or elf.layouts.order != "little":
            return _OTHER, None
        return _PROGRAM if elf.is_linked else _OBJECT, elf
    return {"coff": _OBJECT, "pe": NOT_READ, "bitcode": LTO}.get(host, _OTHER), None


def _of_program(elf: ElfFile) -> tuple[RegistrationEvidence | None, str]:
    from fatpack.registration.analysis.elf_program import ElfCodeProgram

    is_packed = any(each.type in _PACKED and each.flags & layout.ALLOC for each in elf.sections())
    return (None, NOT_READ) if elf.layouts.word != _WORD or is_packed else _followed(ElfCodeProgram(elf))


def _of_image(view: View) -> tuple[RegistrationEvidence | None, str]:
    from fatpack.registration.analysis import pe_program

    program = pe_program.PeCodeProgram(view)
    return _followed(program) if program.machine else (None, NOT_READ)


def _followed(program: LinkedProgram) -> tuple[RegistrationEvidence, str]:
    """Return the evidence in a program, and its kind, which shows if capstone is missing."""
    from fatpack.registration.analysis import programs

    evidence, can_follow = programs.program_evidence(program)
    is_part = not can_follow and (evidence.unfollowed or (evidence.wrappers and not evidence.binaries))
    evidence = _whole(evidence)
    program.release_content()  # the images are inflated next
    return evidence, _NO_CAPSTONE if is_part else "code"


def _whole(evidence: RegistrationEvidence) -> RegistrationEvidence:
    """Return evidence with the descriptors of OpenMP and SYCL, which are read if a call registers one."""
    models = {each.model for each in evidence.binaries} | {each.kind for each in evidence.entries}
    has_images = any(section.name.startswith(OFFLOADING) for section in evidence.memory.sections)
    if not has_images and models.isdisjoint(DESCRIBED):
        return evidence
    from fatpack.registration.analysis.descriptors import find_descriptors, find_sycl_binaries

    found = find_descriptors(evidence.memory, evidence.tables)
    return evidence.replace(descriptors=found, offload_binaries=find_sycl_binaries(evidence.memory))


def likely_registered(view: View, host: str, kernels: Collection[str]) -> list[str]:
    """Return the kernels of a program's images that it probably registers, if its code is not followed.

    These are the kernels whose names are in its data.
    """
    from fatpack.registration.analysis.elf_program import LinkedElfMemory

    try:
        return names_in_strings(LinkedElfMemory(ElfFile(view)), kernels) if host == "elf" else []
    except FormatError:
        return []


def findings_from_evidence(
    evidence: RegistrationEvidence, kernels: KernelsByArch | None, variables: Callable[[], Set[str]] = frozenset
) -> list[Finding]:
    """Return findings about the evidence; ``kernels`` and ``variables`` as for :func:`registration_findings`."""
    from fatpack.registration.analysis import findings

    found = [
        *findings.registration_problems(evidence),
        *findings.descriptor_findings(evidence),
        *findings.kernel_findings(evidence, kernels),
    ]
    if evidence.registered:
        found += findings.lost_variables(evidence, variables())
    # Further kernels in images are worth a note if all is well; otherwise they follow from the other findings.
    if any(item.severity != "note" for item in found):
        return [item for item in found if item.code != findings.UNREGISTERED_KERNELS]
    return found


def _program_judged(elf: ElfFile, *, is_wrapped: bool) -> Iterator[Finding | RegistrationCounts]:
    found = [] if is_wrapped else list(_linked(elf))
    yield from found
    if not found:
        from fatpack.registration.analysis import counts

        unit = counts.count_from_tables(elf)
        if unit is not None:
            yield unit


def _linked(elf: ElfFile) -> Iterator[Finding]:
    if not any(map(_is_any_in, symbol_table_strings(elf, layout.DYNSYM))):
        return
    if _is_settled(list(symbol_table_strings(elf, layout.DYNSYM, layout.SYMTAB))):
        return
    from fatpack.registration.analysis.elf_program import LinkedElfMemory
    from fatpack.registration.analysis.findings import program_findings

    yield from program_findings(LinkedElfMemory(elf))


def _is_settled(tables: list[bytes]) -> bool:
    """Return whether the names of a program show that no finding is possible: each launching model also registers.

    Reading all symbols of a large library takes as long as its listing; most are healthy, and this check is fast.
    """

    def has(word: str) -> bool:
        needle = b"\0" + word.encode()
        return any(needle in strings for strings in tables)

    # Each search of the names of a large library takes milliseconds: absent names are not searched twice.
    for model, beginnings in NAME_PREFIXES.items():
        is_used = any(map(has, beginnings))
        register = next(name for name, its in REGISTER_BINARY.items() if its == model)
        if is_used and (not has(f"{register}\0") or (model == "hip" and has(HIP_IMAGE))):
            return False
    return not has("__tgt_") or has(f"{REGISTER_OPENMP}\0")


def _may_launch(view: View, elf: ElfFile | None) -> bool:
    """Return whether an object has names of functions that launch or register. Raises FormatError."""
    if elf is not None:
        return any(map(_is_any_in, symbol_table_strings(elf, layout.SYMTAB)))
    from fatpack.binary.coff.reader import CoffObject

    strings = CoffObject(view).strings()
    return strings is not None and _is_any_in(strings.head(0, STRINGS))


def _is_any_in(strings: bytes) -> bool:
    return any(map(strings.__contains__, NAME_HINTS))  # asked for every object of an archive


# Names of kernels as strings in the data of a host file: weaker evidence, for programs whose code is not followed.
#
# Linkers let strings share their ends, so only the zero after a name is required. A program may contain the name of a
# kernel that it does not register.

#: sections of containers: names in them are those of the images
_CONTAINERS = (CUDA_FATBIN, CUDA_RELOCATABLE, HIP_FATBIN, OFFLOADING, BUNDLE_PREFIX)

#: LIMIT: bytes of data that are searched, and names that are searched one by one if no whole string matches
_SEARCHED, _MOST = 1 << 28, 1 << 10


def names_in_strings(file: HostMemory, names: Collection[str]) -> list[str]:
    """Return the names that are strings in the data of a file, in order."""
    missing = {name.encode() for name in names if name}
    found: set[bytes] = set()
    for data in _data(file):
        whole = missing.intersection(data.split(b"\0"))
        found |= whole
        missing -= whole
    for name in sorted(missing)[:_MOST]:
        if any(name + b"\0" in data for data in _data(file)):
            found.add(name)
    return sorted(name.decode() for name in found)


def _data(file: HostMemory) -> Iterator[bytes]:
    left = _SEARCHED
    for section in file.sections:
        if _may_name(section) and len(section.data) <= left:
            left -= len(section.data)
            yield file.content(section)


def _may_name(section: MemorySection) -> bool:
    return not section.is_code and bool(len(section.data)) and not section.name.startswith(_CONTAINERS)
