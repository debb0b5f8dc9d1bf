"""The code of the kernels of a cubin, as digests: :mod:`fatpack.images.code` says what they cover.

A function has the section ``.text.NAME``; functions that were inlined into a kernel's section are part of it. Which
functions a section calls beside that is in ``.nv.callgraph``, pairs of u32 numbers of symbols (caller, callee; numbers
outside the table stand for unknown callees), and in its relocations.

How we know: ``cuobjdump -elf`` shows both tables, for cubins of ptxas and of nvlink 13.
"""

from __future__ import annotations

from struct import Struct

from fatpack.elf.header import SYMTAB, text
from fatpack.elf.relocations import Relocations
from fatpack.elf.sections import Sections
from fatpack.elf.symbols import Symbols
from fatpack.images.code import digest, with_calls, without_unit
from fatpack.images.nvidia.cubin import ENTRY, FUNC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: sh_type of ``.nv.callgraph``: SHT_LOPROC + 1
_CALLGRAPH = 0x70000001

_CONSTANTS, _PARAMETERS, _INITIAL = b".nv.constant", b".nv.constant0", b".nv.global.init"

#: st_info of the symbols of sections, which have no names
_SECTION = 3

#: st_shndx from here on means something else than a section
_RESERVED = 0xFF00


def codes(view: View) -> tuple[dict[str, bytes], bytes]:
    """Return the digest of each kernel's code, by its name, and that of the variables.

    Raises FormatError when a table is damaged.
    """
    cubin = _Cubin(view)
    return cubin.codes(), cubin.variables()


class _Cubin:
    def __init__(self, view: View) -> None:
        self._sections = Sections(view)
        self._relocations = Relocations(self._sections)
        symbols = Symbols(view, (SYMTAB,))
        self._symbols = list(symbols)
        self._stored_names = symbols.names([row[0] for row in self._symbols])
        most = min(len(self._sections.headers), _RESERVED)
        #: number of a section → number of the symbol of its function; an entry before functions that it holds
        self._functions: dict[int, int] = {}
        for index, (_, info, other, number) in enumerate(self._symbols):
            is_first = number not in self._functions or other & ENTRY
            if info & 15 == FUNC and 0 < number < most and is_first:
                self._functions[number] = index
        #: number of a section of code → those of its constant banks
        self._banks: dict[int, list[int]] = {}
        #: numbers of sections with variables that functions share
        self._shared: list[int] = []
        for index, (name, row) in enumerate(zip(self._sections.names, self._sections.headers, strict=True)):
            if name.startswith(_CONSTANTS) and not name.startswith(_PARAMETERS + b"."):
                if row[7] in self._functions:
                    self._banks.setdefault(row[7], []).append(index)
                else:
                    self._shared.append(index)
            elif name.startswith(_INITIAL):
                self._shared.append(index)

    def codes(self) -> dict[str, bytes]:
        """Return the digest of each kernel's code."""
        calls: dict[str, list[str]] = {}
        own = {}
        for number, symbol in self._functions.items():
            name = self._name(symbol)
            own[name] = self._own(number, calls.setdefault(name, []))
        for caller, callee in self._graph():
            if caller in calls:
                calls[caller].append(callee)
        kernels = [
            self._name(index)
            for index, (_, info, other, number) in enumerate(self._symbols)
            if other & ENTRY and info & 15 == FUNC and number
        ]
        return with_calls(own, calls, kernels)

    def variables(self) -> bytes:
        """Return the digest of the variables that functions share: their initial values, and what these point at."""
        parts: list[bytes] = []
        for index in self._shared:
            parts += self._sections.names[index], self._sections.bytes_of(index)
            parts += (
                f"{at} {self._meant(symbol)} {more}".encode() for at, _, symbol, more in self._relocations.of(index)
            )
        return digest(parts)

    def _own(self, number: int, calls: list[str]) -> bytes:
        """Return the digest of a section of code with its constants; functions that it names go into ``calls``."""
        parts: list[bytes] = []
        for index in (number, *self._banks.get(number, ())):
            bank = b"" if index == number else self._sections.names[index].split(b".")[2]
            parts += bank, self._sections.bytes_of(index)
            for offset, kind, symbol, addend in self._relocations.of(index):
                parts.append(f"{offset} {kind} {self._meant(symbol)} {addend}".encode())
                if symbol < len(self._symbols) and self._symbols[symbol][1] & 15 == FUNC:
                    calls.append(self._name(symbol))
        return digest(parts)

    def _graph(self) -> list[tuple[str, str]]:
        """Return (caller, callee) of all calls between functions that are known."""
        pairs = Struct("<II" if self._sections.order == "little" else ">II")
        most = len(self._symbols)
        found: list[tuple[str, str]] = []
        for index, row in enumerate(self._sections.headers):
            if row[1] != _CALLGRAPH:
                continue
            stored = self._sections.bytes_of(index)
            for caller, callee in pairs.iter_unpack(stored[: len(stored) - len(stored) % pairs.size]):
                if 0 < caller < most and 0 < callee < most:
                    found.append((self._name(caller), self._name(callee)))
        return found

    def _name(self, symbol: int) -> str:
        return text(self._stored_names[symbol])

    def _meant(self, symbol: int) -> str:
        """Return what a relocation names: a symbol, or the section that one stands for."""
        if symbol >= len(self._symbols):
            return ""
        _, info, _, number = self._symbols[symbol]
        if info & 15 == _SECTION and number < len(self._sections.names):
            return text(self._sections.names[number])
        return without_unit(self._name(symbol))
