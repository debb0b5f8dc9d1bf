"""Machine code as a listing: the bytes of each instruction beside its assembly, and what is filled in.

One line of a listing is one of these::

    unregister:                             a function, if it is one of FUNCTIONS; else a place to jump to
    48 8d 3d <pc32 wrapper>                 lea rdi, [rip + wrapper]
                                            .cfi_def_cfa_offset 16

The left column is what the object holds, the right one is its documentation: a test assembles it with llvm-mc and
compares every byte. ``<…>`` is a place that is filled in: with a number that is known now
(:data:`_VALUES`), with the distance to a place in the listing (:data:`_LOCAL`), or by the linker
(:data:`RELOCATED`: kind of relocation → bytes that the listing leaves to it). Places of AArch64 are bits inside the
instruction that they follow.
"""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    class ProcessorListings(Protocol):
        """The module of a processor, which documents each listing."""

        BEGIN: str
        END: str
        CALL_DESCRIPTOR: str
        CALL_BINARY: str
        AT_EXIT: str
        REGISTER_FATBIN: str
        FATBIN_END: str
        REGISTER_FATBIN_END: str
        UNREGISTER_FATBIN: str
        GLOBALS: str
        OF_KIND: str
        ENTRY: str
        MANAGED: str
        SURFACES: str
        GLOBALS_END: str


#: Labels that are functions. Their names in the object are the caller's.
FUNCTIONS = ("register", "unregister", "globals")

#: what the linker fills in → bytes left to it; 0 where the bits are in the instruction before
RELOCATED = {"pc32": 4, "call32": 4, "page21": 0, "low12": 0, "low12x8": 0, "call26": 0}

#: number that is known → bytes; or the bits of an instruction that hold it: first bit, bits, shift of the number
_VALUES = {"byte": 1, "u32": 4}
_BITS = {
    "imm12": (10, 12, 0),
    # Offsets of 8 and of 4 bytes, in a pair and alone, are counted in these.
    "imm12x8": (10, 12, 3),
    "imm12x4": (10, 12, 2),
    "imm7x8": (15, 7, 3),
    "imm16": (5, 16, 0),
    "imm16high": (5, 16, 16),
}

#: distance to a label → bytes, or (first bit, bits) of an instruction, in words
_LOCAL = {"local32": 4}
_BRANCHES = {"branch19": (5, 19), "branch26": (0, 26)}

#: The least position of the right column: the left one ends two blanks before it.
_GAP = "  "


class LinkerFixup(Record):
    """A place that the linker fills in: the kind of relocation, the symbol, and what is added to its address."""

    offset: int
    kind: str
    symbol: str
    addend: int = 0


class UnwindDirective(Record):
    """A directive for unwinding, and the number of bytes of its function before it."""

    after: int
    name: str
    operands: tuple[str, ...]


class CodeFunction(Record):
    """A function of a listing: one of :data:`FUNCTIONS`, where it starts, its size in bytes, and how it unwinds."""

    name: str
    offset: int
    size: int
    directives: tuple[UnwindDirective, ...]


class MachineCode(Record):
    """The result of a listing: bytes, relocations in the order of their offsets, and functions."""

    data: bytes
    fixups: tuple[LinkerFixup, ...]
    functions: tuple[CodeFunction, ...]


def assemble(listing: str, values: Mapping[str, int], *, align: int, padding: bytes) -> MachineCode:
    """Return the code of a listing, with functions at multiples of ``align`` bytes and ``padding`` between them.

    ``values`` are the numbers that it names. Raises ValueError for a line that is none of a listing, KeyError for a
    number or label that is not there: both are mistakes in the listing, never in what a user gave.
    """
    code = _Assembly(values)
    for line in listing.splitlines():
        left, _, right = line.strip().partition(_GAP)
        if left.endswith(":"):
            code.label(left[:-1], align, padding)
        elif left.startswith("."):
            code.directive(left)
        elif left:
            code.instruction(left)
            if not right:
                raise ValueError(f"{left}: an instruction without its assembly")
    return code.finished()


class _Assembly:
    def __init__(self, values: Mapping[str, int]) -> None:
        self._values = values
        self._data = bytearray()
        self._fixups: list[LinkerFixup] = []
        self._labels: dict[str, int] = {}
        self._starts: list[tuple[str, int, list[UnwindDirective]]] = []
        self._ends: list[int] = []
        self._jumps: list[tuple[int, str, str]] = []

    def label(self, name: str, align: int, padding: bytes) -> None:
        if name in FUNCTIONS:
            self._ends.append(len(self._data))
            self._data += padding * (-len(self._data) % align // len(padding))
            self._starts.append((name, len(self._data), []))
        self._labels[name] = len(self._data)

    def directive(self, text: str) -> None:
        name, _, operands = text.partition(" ")
        _, start, directives = self._starts[-1]
        words = tuple(filter(None, operands.replace(",", " ").split()))
        directives.append(UnwindDirective(len(self._data) - start, name, words))

    def instruction(self, left: str) -> None:
        text, _, place = left.partition("<")
        self._data += bytes.fromhex(text)
        if place:
            kind, symbol = place.rstrip(">").split()
            self._place(kind, symbol)

    def _place(self, kind: str, name: str) -> None:
        at = len(self._data)
        if kind in _VALUES:
            self._data += self._values[name].to_bytes(_VALUES[kind], "little")
        elif kind in _BITS:
            first, count, shift = _BITS[kind]
            self._fill(at - 4, (self._values[name] >> shift) & ((1 << count) - 1), first)
        elif kind in _LOCAL or kind in _BRANCHES:
            self._data += bytes(_LOCAL.get(kind, 0))
            self._jumps.append((at if kind in _LOCAL else at - 4, kind, name))
        else:
            size = RELOCATED[kind]
            self._data += bytes(size)
            self._fixups.append(LinkerFixup(at if size else at - 4, kind, name))

    def _fill(self, at: int, bits: int, first: int) -> None:
        word = int.from_bytes(self._data[at : at + 4], "little") | bits << first
        self._data[at : at + 4] = word.to_bytes(4, "little")

    def finished(self) -> MachineCode:
        for at, kind, name in self._jumps:
            distance = self._labels[name] - at
            if kind in _LOCAL:
                # Counted from the end of the instruction, whose last bytes these are.
                self._data[at : at + 4] = (distance - 4).to_bytes(4, "little", signed=True)
            else:
                first, count = _BRANCHES[kind]
                self._fill(at, distance // 4 & ((1 << count) - 1), first)
        ends = [*self._ends[1:], len(self._data)]
        functions = [
            CodeFunction(name, start, end - start, tuple(directives))
            for (name, start, directives), end in zip(self._starts, ends, strict=True)
        ]
        return MachineCode(bytes(self._data), tuple(self._fixups), tuple(functions))


# Functions that register images, made from the listings of a processor.
#
# ===============  ====================================================================================================
# ``register``     what runs when the program starts: the runtime gets the images, and ``unregister`` for its end
# ``unregister``   what gives the images back
# ``globals``      CUDA and HIP: a loop over the offload entries between ``start`` and ``stop``, which registers kernels
#                  and variables by name
# ===============  ====================================================================================================
#
# The calls and their arguments are those of clang-linker-wrapper (``llvm/lib/Frontend/Offloading/OffloadWrapper.cpp``),
# read from the LLVM IR that LLVM 22 and 23 print, and compared with what that does when it runs.

#: processor and way of calling → module of its listings, alignment of functions, the bytes between them
_PROCESSORS = {
    "x86_64": ("x86_64", 16, b"\x90"),
    "x86_64-windows": ("x86_64_windows", 16, b"\x90"),
    "aarch64": ("aarch64", 4, b"\0"),
}


class RegistrationCode(Record):
    """A function that registers images: its listing, and the numbers that it names."""

    listing: str
    values: Mapping[str, int]

    def code(self, processor: str) -> MachineCode:
        """Return the machine code, for the processor whose listing it is."""
        _, align, padding = _PROCESSORS[processor]
        return assemble(self.listing, self.values, align=align, padding=padding)


def _listings(processor: str) -> ProcessorListings:
    found: ProcessorListings = __import__(f"fatpack.commands.wrap.code.{_PROCESSORS[processor][0]}", fromlist=["BEGIN"])
    return found


def fatbin_program(processor: str, runtime: str, fields: Mapping[str, int]) -> RegistrationCode:
    """Return what registers the fat binary of CUDA or HIP: ``runtime`` is cuda or hip.

    ``fields`` say where the fields of an entry are, and its size (``pitch``). With ``kind``, entries of other kinds are
    passed over, and with ``auxiliary`` managed variables are registered. Surfaces and textures are with HIP alone, as
    LLVM does it.
    """
    own = _listings(processor)
    register = own.REGISTER_FATBIN + (own.FATBIN_END if runtime == "cuda" else "") + own.AT_EXIT
    of_kind = own.OF_KIND if "kind" in fields else ""
    managed = own.MANAGED if "auxiliary" in fields else ""
    surfaces = own.SURFACES if runtime == "hip" else ""
    listing = (
        f"register:\n{register}{own.REGISTER_FATBIN_END}"
        f"unregister:\n{own.BEGIN}{own.UNREGISTER_FATBIN}{own.END}"
        f"globals:\n{own.GLOBALS}{of_kind}{own.ENTRY}"
        f"managed:\n{managed}surface:\n{surfaces}{own.GLOBALS_END}"
    )
    return RegistrationCode(listing.format(runtime=runtime, **fields), fields)


def descriptor_program(processor: str, prefix: str, *, at_exit: bool) -> RegistrationCode:
    """Return code that passes a descriptor to ``{prefix}_register_lib``, and later to ``{prefix}_unregister_lib``.

    ``at_exit`` registers the second function with ``atexit``; without, the object has to name it as a destructor.
    """
    own = _listings(processor)
    return _pair(own, own.CALL_DESCRIPTOR, prefix, own.AT_EXIT if at_exit else "", {})


def binary_program(processor: str, prefix: str, size: int) -> RegistrationCode:
    """Return what hands the address and the size of an offload binary to such functions."""
    own = _listings(processor)
    return _pair(own, own.CALL_BINARY, prefix, "", {"size": size})


def _pair(own: ProcessorListings, call: str, prefix: str, at_exit: str, values: Mapping[str, int]) -> RegistrationCode:
    register, unregister = (call.format(function=f"{prefix}_{verb}_lib", **values) for verb in _VERBS)
    listing = f"register:\n{own.BEGIN}{register}{at_exit}{own.END}unregister:\n{own.BEGIN}{unregister}{own.END}"
    return RegistrationCode(listing, values)


_VERBS = ("register", "unregister")
