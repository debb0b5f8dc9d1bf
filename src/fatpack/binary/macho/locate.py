"""Sections of device code in a Mach-O file, by their names."""

from __future__ import annotations

from fatpack.binary import CONTAINER, TABLE, CodeSection, section_names, without_overlaps
from fatpack.binary.macho.reader import MachOFile, MachOSection
from fatpack.errors import FormatError
from fatpack.findings import code_for_error, finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary import SectionContent
    from fatpack.binary.host_sections import SectionSplit
    from fatpack.io.source import View
    from fatpack.model import Finding


# Names of sections: device code as named by clang (clang/lib/CodeGen/CGCUDANV.cpp: CUDA in LLVM 22.1, HIP from LLVM
# 23.1 on); the others as in LLVM's and Apple's compilers and linkers (llvm/lib/MC/MCObjectFileInfo.cpp and
# lld/MachO/InputSection.h of LLVM 22.1). A name has at most 16 bytes.

#: Sections of device code, for any segment name: linkers rename segments.
_NAMES: dict[bytes, SectionContent] = {
    section_names.MACHO_CUDA_FATBIN.encode(): CONTAINER,
    section_names.CUDA_RELOCATABLE.encode(): CONTAINER,
    section_names.MACHO_HIP_FATBIN.encode(): CONTAINER,
    section_names.OFFLOADING.encode(): CONTAINER,
    section_names.CUDA_MODULE_IDS.encode(): TABLE,
}

#: A name that means device code in one segment only.
_OFFLOAD = (b"__LLVM", b"__offload")

#: Code and data of the host, which may contain anything.
_OPEN = frozenset(
    b"__text __const __data __cstring __ustring __StaticInit __textcoal_nt __const_coal __datacoal_nt __static_const"
    b" __static_data".split()
)

#: Those of them that are code.
_CODE = frozenset(b"__text __StaticInit __textcoal_nt".split())

#: Sections with a format of their own, which cannot contain containers.
_FORMED = frozenset(
    # data of the dynamic linker, start and end of programs
    b"__stubs __stub_helper __symbol_stub __symbol_stub1 __picsymbolstub1 __got __auth_got __auth_stubs __auth_ptr"
    b" __la_symbol_ptr __la_resolver __lazy_symbol __nl_symbol_ptr __pointers __jump_table __mod_init_func"
    b" __mod_term_func __init_offsets __constructor __destructor __chain_starts __interpose __dyld __program_vars"
    # constants of one size, zeros, thread-local variables
    b" __literal4 __literal8 __literal16 __bss __common __thread_vars __thread_ptrs __thread_data __thread_bss"
    b" __thread_init __thread_ptr __cfstring __ctf"
    # unwinding and exceptions
    b" __eh_frame __unwind_info __compact_unwind __gcc_except_tab"
    # intermediate code of the host; the records that register CUDA's and HIP's device code
    b" __bitcode __cmdline __swift_cmdline __asm __bundle __fatbin __info_plist __entitlements".split()
)

#: Prefixes of names: Objective-C, Swift, debugging, sanitizers, coverage, probes.
_BEGINNINGS = (
    b"__objc_",
    b"__swift",
    b"__debug_",
    b"__apple_",
    b"__llvm_",
    b"__sancov_",
    b"__asan_",
    b"__dof_",
    b"__unwind",
)


def expected_content(segment: bytes, name: bytes) -> SectionContent | None:
    """Return the content of a section of that name; None if the name does not mean device code."""
    return CONTAINER if (segment, name) == _OFFLOAD else _NAMES.get(name)


def may_hold_anything(name: bytes) -> bool:
    """Return whether sections of this name are code and data of the host, which may contain anything."""
    return name in _OPEN


def is_host_data_section(name: bytes) -> bool:
    """Return whether sections of this name are data of the host, in which libraries embed device code."""
    return name in _OPEN and name not in _CODE


def is_known_section(name: bytes) -> bool:
    """Return whether a section of this name is a known one without device code."""
    return name in _OPEN or name in _FORMED or name.startswith(_BEGINNINGS)


def locate(view: View) -> Iterator[CodeSection | Finding]:
    """Yield the sections that hold containers, in the order of the load commands; ``index`` counts them from 1.

    Sections do not overlap: of several with the same bytes the first is yielded, the others become findings.
    A section outside the file, and load commands that are damaged or cut, are findings too.
    """
    yield from without_overlaps(list(_places(view)))


def _places(view: View) -> Iterator[CodeSection | Finding]:
    try:
        file = MachOFile(view)
    except FormatError as error:
        yield _damage(view, error)
        return
    for section in file.sections():
        if isinstance(section, FormatError):
            yield _damage(view, section)
            continue
        expects = expected_content(section.segment, section.name)
        if expects is None or not section.size:
            continue
        title = f"section {section.number} ({section.title})"
        if not section.has_bytes:
            yield finding("FP2503", view.span(section.at, 0), f"{title} has a size but no bytes in the file")
        elif section.end > len(view):
            text = f"{title} ends at {section.end:#x}, the file at {len(view):#x}"
            yield finding("FP2501", view.span(min(section.offset, len(view))), text, "the file looks cut short")
        else:
            data = view.slice(section.offset, section.size, section.title)
            yield CodeSection(data, section.title, section.number, content=expects)


def _damage(view: View, error: FormatError) -> Finding:
    at = 0 if error.offset is None else min(error.offset - view.start, len(view))
    return finding(code_for_error("FP2502", error), view.span(at), error.describe(), error.hint, field=error.field)


def _whole_sections(view: View) -> Iterator[MachOSection]:
    """Yield the sections with bytes in the file; if tables are damaged, the readable ones."""
    try:
        file = MachOFile(view)
    except FormatError:
        return
    for section in file.sections():
        if isinstance(section, FormatError):
            continue
        if section.has_bytes and section.size and section.end <= len(view):
            yield section


def sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section with bytes; if tables are damaged, of the readable ones."""
    return [(section.offset, section.end, section.title, section.number) for section in _whole_sections(view)]


def divided_sections(view: View, _places: object = None) -> SectionSplit:
    """Return the sections with bytes, split into known ones of compilers and linkers, and others.

    Bytes after everything that load commands refer to are one of the others: installers have their contents there.
    """
    from fatpack.binary.host_sections import SectionSplit
    from fatpack.binary.macho.reader import list_ranges

    unusual: list[tuple[int, int]] = []
    opened: dict[str, tuple[int, int]] = {}
    data: dict[str, list[tuple[int, int]]] = {}
    for section in _whole_sections(view):
        if not is_known_section(section.name):
            unusual.append((section.offset, section.end))
        elif may_hold_anything(section.name):
            count, size = opened.get(section.title, (0, 0))
            opened[section.title] = count + 1, size + section.size
            if is_host_data_section(section.name):
                data.setdefault(section.title, []).append((section.offset, section.end))
    try:
        file = MachOFile(view)
    except FormatError:
        return SectionSplit(unusual, opened, data)
    reached = max((part.at + part.size for part in list_ranges(file)), default=file.commands_end)
    if max(reached, file.commands_end) < len(view):
        unusual.append((max(reached, file.commands_end), len(view)))
    return SectionSplit(unusual, opened, data)
