"""What cubins say of their kernels: attributes in ``.nv.info``, and the sizes of the sections that belong to each.

A kernel NAME is a symbol in ``.text.NAME``; sections of its own name that one in ``sh_info``:

=========================  ===================================================================================
``.nv.info.NAME``          its attributes
``.nv.constant0.NAME``     a constant bank, by number; bank 0 holds the parameters
``.nv.shared.NAME``        static shared memory, with what the system reserves since sm_90
``.nv.local.NAME``         local memory beside the stack (code before there was an ABI)
``.nv.info``               attributes of all functions, each with the number of its symbol
=========================  ===================================================================================

An attribute is u8 format, u8 attribute and a value: format 1 nothing, 2 a byte, 3 a u16, each in two bytes; 4 u16
size and so many bytes.

How we know: ``cuobjdump -elf`` names the attributes, ``cuobjdump -res-usage`` shows the same numbers for all
fixtures, for what ptxas 13.0 compiles for every SM it knows, and for the cubins of public libraries; barriers are
those of ``ptxas -v``, and in the old ABI of ``cuobjdump -elf``. Parameters and launch bounds agree with the source.
Nothing but the metadata of ptxas is read: what the code does is not looked at.
"""

from __future__ import annotations

from fatpack.elf.header import SYMTAB, text
from fatpack.elf.sections import Sections
from fatpack.elf.symbols import Symbols
from fatpack.errors import BadValue
from fatpack.images.kernel import Facts, Kernel, and_others, check_count
from fatpack.images.nvidia.cubin import is_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.elf.sections import Section
    from fatpack.io.source import View

_OLD_OSABI = 0x33

#: sh_type of ``.nv.info``: SHT_LOPROC
_INFO = 0x70000000

#: attributes of functions, by their symbol …
_MIN_STACK_SIZE, _REGCOUNT = 0x12, 0x2F
#: … and of one kernel
_MAX_THREADS, _REQNTID, _CBANK_PARAM_SIZE, _CTA_PER_CLUSTER, _NUM_BARRIERS = 0x05, 0x10, 0x19, 0x3D, 0x4C

#: the stack of a kernel that may call itself, as nvlink writes it
UNKNOWN_STACK = 0xFFFFFFFF

#: formats of attributes
_NOTHING, _BYTE, _SHORT, _SIZED = 1, 2, 3, 4

#: st_shndx from here on means something else than a section
_RESERVED = 0xFF00

#: owner and type of the note that says which tool took part, and with which options
_TOOL = (b"NVIDIA Corp", 2000)

#: that note: u32 version, offsets behind these of object, tool, version, branch and options; then the strings
_TOOL_HEADER = 24

#: LIMIT: bytes of such a note that are looked at; a command line may be long.
_NOTE_SIZE = 64 << 10


def facts(view: View) -> Facts:
    """Return the kernels of a cubin with what they need. Raises FormatError when a table is damaged."""
    sections = Sections(view)
    registers, stacks = of_functions(sections)
    owned = _owned(sections)
    symbols = Symbols(view, (SYMTAB,))
    kernels: dict[str, Kernel] = {}
    fewer: list[str] = []
    for index, (at, info, other, number) in enumerate(symbols):
        if not is_kernel(info, other, number):
            continue
        name = text(symbols.name(at))
        if name in kernels:
            continue
        kernel = Kernel(name, registers=registers.get(index), size=symbols.place(index)[1])
        if number < min(len(sections.rows), _RESERVED):
            kernel = _with_sections(kernel, sections, owned.get(number, ()), stacks.get(index))
            if sections.elf.osabi == _OLD_OSABI:
                code = sections.rows[number]
                # Up to sm_8x, the registers are in the row of the code as well.
                registers_of_code = code.info >> 24
                if kernel.registers is None:
                    kernel = kernel.replace(registers=registers_of_code or None)
                elif kernel.registers < registers_of_code:
                    # More is none: nvlink raises them in .nv.info to those of the functions that a kernel calls, and
                    # leaves the row as it was.
                    fewer.append(name)
                kernel = kernel.replace(barriers=code.flags >> 20 & 0x7F)
        kernels[name] = kernel
        check_count(view, len(kernels))
    contradictions = (
        [f"kernel {fewer[0]} {and_others(fewer)}has fewer registers in .nv.info than with its code"] if fewer else []
    )
    return Facts(tuple(kernels.values()), tuple(_made_by(sections)), tuple(contradictions))


def _owned(sections: Sections) -> dict[int, list[Section]]:
    """Return the sections that belong to one function, by the number of its code's section."""
    owned: dict[int, list[Section]] = {}
    for section in sections.rows:
        if section.info and section.name.startswith((".nv.info.", ".nv.constant", ".nv.shared.", ".nv.local.")):
            owned.setdefault(section.info, []).append(section)
    return owned


def of_functions(sections: Sections) -> tuple[dict[int, int], dict[int, int]]:
    """Return registers and bytes of stack of functions, by the numbers of their symbols."""
    registers: dict[int, int] = {}
    stacks: dict[int, int] = {}
    for section in sections.rows:
        if section.type == _INFO and section.name == ".nv.info":
            for attribute, value in _attributes(sections, section):
                if attribute in (_REGCOUNT, _MIN_STACK_SIZE) and len(value) == 8:
                    found = registers if attribute == _REGCOUNT else stacks
                    found[sections.number(value[:4])] = sections.number(value[4:])
                    check_count(sections.view, len(found))
    return registers, stacks


def _with_sections(kernel: Kernel, sections: Sections, owned: Sequence[Section], stack: int | None) -> Kernel:
    """Return a kernel with what its own sections say, and its stack."""
    shared = local = 0
    constants: dict[int, int] = {}
    attributes: dict[int, bytes] = {}
    has_info = False
    for section in owned:
        kind = section.name.split(".", 3)[2]
        if kind == "shared":
            shared += section.size
        elif kind == "local":
            local += section.size
        elif kind == "info" and section.type == _INFO:
            has_info = True
            attributes.update(_attributes(sections, section))
        elif kind.startswith("constant") and kind[8:].isdecimal() and len(kind) < 12:
            constants[int(kind[8:])] = section.size
    required = _sizes(sections, attributes.get(_REQNTID))
    x, y, z = required or _sizes(sections, attributes.get(_MAX_THREADS)) or (0, 0, 0)
    is_known = stack is not None and stack != UNKNOWN_STACK
    return kernel.replace(
        shared=shared,
        local=local + (stack or 0) if is_known else None,
        has_dynamic_stack=None if stack is None else not is_known,
        # A kernel without parameters has no such attribute.
        params=sections.number(attributes.get(_CBANK_PARAM_SIZE, b"")) if has_info else None,
        constants=tuple(sorted(constants.items())),
        max_threads=x * y * z or None,
        required_threads=required,
        cluster=_sizes(sections, attributes.get(_CTA_PER_CLUSTER)),
        barriers=sections.number(attributes.get(_NUM_BARRIERS, b"")) if has_info else None,
    )


def _sizes(sections: Sections, value: bytes | None) -> tuple[int, int, int] | None:
    """Return an attribute of three u32; None for one that is missing, or of another size."""
    if value is None or len(value) != 12:
        return None
    return sections.number(value[:4]), sections.number(value[4:8]), sections.number(value[8:])


def _attributes(sections: Sections, section: Section) -> Iterator[tuple[int, bytes]]:
    """Yield (attribute, value) of a section of attributes. Raises FormatError when one is damaged."""
    data = sections.read(section)
    at, size = 0, len(data)
    while at + 4 <= size:
        form, attribute, length = data[at], data[at + 1], 0
        if form == _SIZED:
            length = sections.number(data[at + 2 : at + 4])
            value = data[at + 4 : at + 4 + length]
        elif form == _SHORT:
            value = data[at + 2 : at + 4]
        elif form == _BYTE:
            value = data[at + 2 : at + 3]
        elif form == _NOTHING:
            value = b""
        else:
            raise _bad(sections, section, at, f"has an attribute of format {form}")
        at += 4 + length
        yield attribute, value
    if at != size:
        raise _bad(sections, section, size, f"ends within an attribute, after {size} bytes")


def _bad(sections: Sections, section: Section, at: int, problem: str) -> BadValue:
    view = sections.view
    return BadValue(
        problem, format="cubin", offset=view.offset(section.offset + at), field=section.name, chain=view.chain
    )


def _made_by(sections: Sections) -> Iterator[str]:
    """Yield the tools that the notes name, each once: ``ptxas -arch sm_90 -m 64 (… release 13.0, V13.0.88, …)``."""
    seen: dict[str, None] = {}
    for owner, kind, view in sections.notes():
        if (owner, kind) != _TOOL or len(view) < _TOOL_HEADER:
            continue
        note = view.head(0, _NOTE_SIZE)
        starts = [_TOOL_HEADER + sections.number(note[at : at + 4]) for at in range(4, _TOOL_HEADER, 4)]
        _, tool, version, branch, options = (text(note[at:].partition(b"\0")[0]).strip() for at in starts)
        details = ", ".join(word for word in (version, branch) if word)
        words = (tool, options, f"({details})" if details else "")
        seen[" ".join(word for word in words if word)] = None
    yield from seen
