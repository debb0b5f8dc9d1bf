"""Properties of the kernels of a cubin: attributes in ``.nv.info``, and the sizes of sections that belong to each.

A kernel NAME is a symbol in ``.text.NAME``; the sections that belong to it have its number in ``sh_info``:

=========================  ===================================================================================
``.nv.info.NAME``          its attributes
``.nv.constant0.NAME``     a constant bank, by number; bank 0 holds the parameters
``.nv.shared.NAME``        static shared memory, with what the system reserves since sm_90
``.nv.local.NAME``         local memory beside the stack (code before there was an ABI)
``.nv.info``               attributes of all functions, each with the number of its symbol
=========================  ===================================================================================

An attribute is u8 format, u8 attribute and a value: in format 1 nothing, 2 a byte, 3 a u16, each stored in two bytes;
in format 4 a u16 size and that many bytes.

Sources: ``cuobjdump -elf`` names the attributes; ``cuobjdump -res-usage`` shows the same numbers for all fixtures, for
ptxas 13.0 and each of its SMs, and for cubins of public libraries. Barriers equal those of ``ptxas -v``, and in the old
ABI those of ``cuobjdump -elf``. Parameters and launch bounds agree with the source. Of the code only that of kernels
with a few instructions is read.
"""

from __future__ import annotations

from struct import Struct

from fatpack.binary.elf.device_elf import DeviceElfSections, check_program_headers
from fatpack.binary.elf.layout import SYMTAB
from fatpack.binary.elf.quick_header import decode_name, decode_names
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.errors import BadValue
from fatpack.images.cubin import ENTRY, FUNC, identify_elf
from fatpack.images.hollow import STUB, cubin_body
from fatpack.images.kernel import KernelInfo, KernelNeeds, and_others_words, check_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator
    from typing import TypeAlias

    from fatpack.io.source import View

    _Sizes: TypeAlias = tuple[int, int, int] | None

    #: shared and local memory, size of parameters, (bank, size) of constants, required and maximum threads, cluster,
    #: barriers
    _Needs: TypeAlias = tuple[int, int, int | None, tuple[tuple[int, int], ...], _Sizes, _Sizes, _Sizes, int | None]

_OLD_OSABI = 0x33

#: sh_type of ``.nv.info``: SHT_LOPROC
INFO = 0x70000000

#: attributes of functions, with a symbol number …
_MIN_STACK_SIZE, _REGCOUNT = 0x12, 0x2F
#: … and of one kernel
_MAX_THREADS, _REQNTID, _CBANK_PARAM_SIZE, _CTA_PER_CLUSTER, _NUM_BARRIERS = 0x05, 0x10, 0x19, 0x3D, 0x4C

#: the stack size of a kernel that may call itself, as nvlink writes it
UNKNOWN_STACK = 0xFFFFFFFF

_OF_FUNCTIONS = frozenset((_MIN_STACK_SIZE, _REGCOUNT))
_OF_A_KERNEL = frozenset((_MAX_THREADS, _REQNTID, _CBANK_PARAM_SIZE, _CTA_PER_CLUSTER, _NUM_BARRIERS))

#: formats of attributes with a size, and sizes of the other formats
_SIZED, _LENGTHS = 4, {1: 0, 2: 1, 3: 2}

#: prefixes of the names of sections that belong to one function
_OWN_INFO, _OWN_CONSTANTS, _OWN_SHARED = b".nv.info.", b".nv.constant", b".nv.shared."
_OWN = (_OWN_INFO, _OWN_CONSTANTS, _OWN_SHARED, b".nv.local.")

#: first reserved st_shndx
_RESERVED = 0xFF00

#: owner and type of the note of a tool with its options
_TOOL = (b"NVIDIA Corp", 2000)

#: that note: u32 version, offsets (after these) of object, tool, version, branch and options; then the strings
_TOOL_HEADER = 24

#: LIMIT: bytes of such a note that are read; a command line may be long.
_NOTE_SIZE = 64 << 10


def facts(view: View) -> KernelInfo:
    """Return the kernels of a cubin with their properties. Raises FormatError if a table is damaged."""
    sections = DeviceElfSections(view)
    check_program_headers(sections.elf)
    registers, stacks = function_resources(sections)
    own = _FunctionSections(sections)
    symbols = ElfSymbolTable(view, (SYMTAB,))
    found = [
        (index, at, number)
        for index, (at, info, other, number) in enumerate(symbols)
        if other & ENTRY and info & 15 == FUNC and number
    ]
    names = decode_names(symbols.names([at for _, at, _ in found]))
    places = symbols.places([index for index, _, _ in found])
    kernels: dict[str, KernelNeeds] = {}
    fewer: list[str] = []
    count = min(len(sections.headers), _RESERVED)
    digits = "".join(filter(str.isdigit, identify_elf(sections.elf).arch))
    for (index, _, number), name, (start, size) in zip(found, names, places, strict=True):
        if name in kernels:
            continue
        used, stack = registers.get(index), stacks.get(index)
        if number >= count:
            kernels[name] = KernelNeeds(name, registers=used, size=size)
            continue
        shared, local, params, constants, required, most, cluster, barriers = own.needs(number)
        if sections.elf.osabi == _OLD_OSABI:
            _, _, flags, _, _, _, _, info = sections.headers[number]
            # Up to sm_8x, the section header of the code has the registers too.
            registers_of_code = info >> 24
            if used is None:
                used = registers_of_code or None
            elif used < registers_of_code:
                # More is not a contradiction: nvlink raises them in .nv.info to those of called functions, and does not
                # change the section header.
                fewer.append(name)
            barriers = flags >> 20 & 0x7F
        body = None
        if digits and size <= STUB:
            body = cubin_body(view.head(sections.headers[number][4] + start, size), int(digits))
        x, y, z = required or most or (0, 0, 0)
        is_known = stack is not None and stack != UNKNOWN_STACK
        kernels[name] = KernelNeeds(
            name,
            registers=used,
            shared=shared,
            local=local + (stack or 0) if is_known else None,
            has_dynamic_stack=None if stack is None else not is_known,
            params=params,
            constants=constants,
            max_threads=x * y * z or None,
            required_threads=required,
            cluster=cluster,
            barriers=barriers,
            size=size,
            body=body,
        )
        check_count(view, len(kernels))
    contradictions = (
        [f"kernel {fewer[0]} {and_others_words(fewer)}has fewer registers in .nv.info than with its code"]
        if fewer
        else []
    )
    return KernelInfo(tuple(kernels.values()), tuple(_made_by(sections)), tuple(contradictions))


def function_resources(sections: DeviceElfSections) -> tuple[dict[int, int], dict[int, int]]:
    """Return registers and stack size of functions, by symbol number."""
    registers: dict[int, int] = {}
    stacks: dict[int, int] = {}
    pair = Struct("<II" if sections.order == "little" else ">II")
    for index, name in enumerate(sections.names):
        if name == b".nv.info" and sections.headers[index][1] == INFO:
            for attribute, value in read_attributes(sections, index, _OF_FUNCTIONS):
                if len(value) == 8:
                    symbol, number = pair.unpack(value)
                    (registers if attribute == _REGCOUNT else stacks)[symbol] = number
            check_count(sections.view, max(len(registers), len(stacks)))
    return registers, stacks


class _FunctionSections:
    """The sections that belong to one function each, by the number of its section of code."""

    def __init__(self, sections: DeviceElfSections) -> None:
        self._sections = sections
        self._numbers = Struct("<III" if sections.order == "little" else ">III").unpack
        #: size of shared and of local memory, sizes of constant banks, and the sections of attributes
        self._shared: dict[int, int] = {}
        self._local: dict[int, int] = {}
        self._constants: dict[int, dict[int, int]] = {}
        self._infos: dict[int, list[int]] = {}
        owned = [
            (name, owner, size, kind, index)
            for index, (name, (_, kind, _, _, _, size, _, owner)) in enumerate(
                zip(sections.names, sections.headers, strict=True)
            )
            if owner and name.startswith(_OWN)
        ]
        for name, owner, size, kind, index in owned:
            if name.startswith(_OWN_CONSTANTS):
                bank = name[len(_OWN_CONSTANTS) :][:4].partition(b".")[0]
                if bank.isdigit() and len(bank) < 4:
                    self._constants.setdefault(owner, {})[int(bank)] = size
            elif name.startswith(_OWN_INFO):
                if kind == INFO:
                    self._infos.setdefault(owner, []).append(index)
            else:
                sizes = self._shared if name.startswith(_OWN_SHARED) else self._local
                sizes[owner] = sizes.get(owner, 0) + size
        sections.read_ahead([index for indexes in self._infos.values() for index in indexes])

    def needs(self, number: int) -> _Needs:
        """Return the properties in the sections of a function; the stack size is not in them."""
        infos, banks = self._infos.get(number), self._constants.get(number, {})
        constants = tuple(sorted(banks.items()) if len(banks) > 1 else banks.items())
        shared, local = self._shared.get(number, 0), self._local.get(number, 0)
        if infos is None:
            return shared, local, None, constants, None, None, None, None
        sections = self._sections
        of = dict([item for index in infos for item in read_attributes(sections, index, _OF_A_KERNEL)]).get
        return (
            shared,
            local,
            # A kernel without parameters has no such attribute.
            sections.number(of(_CBANK_PARAM_SIZE, b"")),
            constants,
            self._sizes(of(_REQNTID)),
            self._sizes(of(_MAX_THREADS)),
            self._sizes(of(_CTA_PER_CLUSTER)),
            sections.number(of(_NUM_BARRIERS, b"")),
        )

    def _sizes(self, value: bytes | None) -> _Sizes:
        """Return an attribute of three u32; None if it is missing or has another size."""
        if value is None or len(value) != 12:
            return None
        x, y, z = self._numbers(value)
        return x, y, z


def read_attributes(sections: DeviceElfSections, index: int, wanted: Container[int]) -> list[tuple[int, bytes]]:
    """Return (attribute, value) of the wanted attributes in a section.

    All attributes are parsed: raises FormatError if one is damaged.
    """
    return parse_attributes(sections, index, sections.bytes_of(index), wanted)


def parse_attributes(
    sections: DeviceElfSections, index: int, data: bytes, wanted: Container[int]
) -> list[tuple[int, bytes]]:
    """Return the result of :func:`read_attributes` from the bytes of the section."""
    low, high = (2, 3) if sections.order == "little" else (3, 2)
    found: list[tuple[int, bytes]] = []
    at, size = 0, len(data)
    last = size - 4
    while at <= last:
        form = data[at]
        if form == _SIZED:
            length = data[at + low] | data[at + high] << 8
            if data[at + 1] in wanted:
                found.append((data[at + 1], data[at + 4 : at + 4 + length]))
            at += 4 + length
        elif form in _LENGTHS:
            if data[at + 1] in wanted:
                found.append((data[at + 1], data[at + 2 : at + 2 + _LENGTHS[form]]))
            at += 4
        else:
            raise _bad(sections, index, at, f"has an attribute of format {form}")
    if at != size:
        raise _bad(sections, index, size, f"ends within an attribute, after {size} bytes")
    return found


def _bad(sections: DeviceElfSections, index: int, at: int, problem: str) -> BadValue:
    view, section = sections.view, sections.row(index)
    return BadValue(
        problem, format="cubin", offset=view.offset(section.offset + at), field=section.name, chain=view.chain
    )


def _made_by(sections: DeviceElfSections) -> Iterator[str]:
    """Yield the tools in the notes, each once: ``ptxas -arch sm_90 -m 64 (… release 13.0, V13.0.88, …)``."""
    seen: dict[str, None] = {}
    for owner, kind, view in sections.notes():
        if (owner, kind) != _TOOL or len(view) < _TOOL_HEADER:
            continue
        note = view.head(0, _NOTE_SIZE)
        starts = [_TOOL_HEADER + sections.number(note[at : at + 4]) for at in range(4, _TOOL_HEADER, 4)]
        _, tool, version, branch, options = (decode_name(note[at:].partition(b"\0")[0]).strip() for at in starts)
        details = ", ".join(word for word in (version, branch) if word)
        words = (tool, options, f"({details})" if details else "")
        seen[" ".join(word for word in words if word)] = None
    yield from seen
