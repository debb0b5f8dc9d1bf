"""The symbols of a bitcode module, from the records of its functions, variables, aliases and ifuncs.

The way for modules without LLVM's own table of symbols. Which of them count is ``ModuleSymbolTable::getSymbolFlags``,
how their names are spelled in an object ``Mangler::getNameWithPrefix`` of LLVM 22.1.

LIMIT: symbols of inline assembly are not known, functions of i386 Windows that take their arguments off the stack
(stdcall, fastcall, vectorcall) come without the marks of that, and modules older than LLVM 5, which keep names
elsewhere, list nothing.
"""

from __future__ import annotations

from fatpack.codecs.bitstream import BitReader
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.codecs.bitstream import Abbreviation, ArrayRun
    from fatpack.io.source import View

#: Record codes
_VERSION, _DATA_LAYOUT, _SECTION_NAME, _VARIABLE, _FUNCTION, _ALIAS, _IFUNC = 1, 3, 5, 7, 8, 14, 15

#: From this version of a module on, records start with the place and size of their name.
_VERSION_WITH_NAMES = 2

#: Record code → where, behind the name, it says that there is a body or an initialiser, and which value denies it
_BODIES = {_FUNCTION: (2, 1), _VARIABLE: (2, 0)}
_LINKAGE = 3

#: Numbers of linkages: none of these makes a definition that others see
_LOCAL = frozenset((3, 9, 13, 14))
_AVAILABLE_EXTERNALLY = 12

#: A variable's section, and the one whose variables LLVM leaves out
_SECTION, _METADATA = 5, b"llvm.metadata"

#: LIMIT: characters of a data layout and of a section's name.
_LONGEST_TEXT = 1024

#: Ways of mangling, as data layouts name them, that put an underscore before every name
_UNDERSCORED = ("o", "x")
#: … and that leave C++ names of Microsoft's as they are
_MICROSOFT = ("w", "x")


class BitcodeModule(Record):
    """A module of a ``stream``: its content is from bit ``at`` to ``end``, its names are in ``strings``.

    ``width`` is that of the IDs of its abbreviations.
    """

    stream: View
    at: int
    end: int
    width: int
    strings: View


def module_symbols(module: BitcodeModule) -> Iterator[bytes]:
    """Yield the symbols of a module that count. Raises FormatError."""
    reader = _ModuleSymbolReader(module)
    reader.read()
    for code in (_FUNCTION, _VARIABLE, _ALIAS, _IFUNC):
        for values in reader.found[code]:
            name = module.strings.read(*values[:2])
            if not name.startswith(b"llvm."):
                yield reader.mangled(name)


class _ModuleSymbolReader:
    """Reads the records of one module. ``found`` are the values of those that may count, by record code."""

    def __init__(self, module: BitcodeModule) -> None:
        self._module = module
        self._bits = BitReader(module.stream)
        self._bits.at, self._bits.end = module.at, module.end
        self._version = 0
        self._mangling = ""
        self._sections: list[bytes] = []
        self._unnamed = 0
        self.found: dict[int, list[list[int]]] = {_FUNCTION: [], _VARIABLE: [], _ALIAS: [], _IFUNC: []}

    def read(self) -> None:
        for abbreviation in self._bits.records(self._module.width):
            self._record(abbreviation)

    def _record(self, abbreviation: Abbreviation | None) -> None:
        bits = self._bits
        code = bits.code(abbreviation)
        if code in self.found:
            values, _ = bits.values(abbreviation)
            if self._version >= _VERSION_WITH_NAMES and self._counts(code, values[2:]):
                self.found[code].append(values)
        elif code == _VERSION:
            self._version = (bits.values(abbreviation)[0] or [0])[0]
        elif code in (_DATA_LAYOUT, _SECTION_NAME):
            text = self._text(bits.skip(abbreviation))
            if code == _SECTION_NAME:
                self._sections.append(text)
            else:
                self._mangling = next((part[2:] for part in text.decode("latin-1").split("-") if part[:2] == "m:"), "")
        else:
            bits.skip(abbreviation)

    def _counts(self, code: int, values: list[int]) -> bool:
        if len(values) <= _LINKAGE or values[_LINKAGE] in _LOCAL or values[_LINKAGE] == _AVAILABLE_EXTERNALLY:
            return False
        place, missing = _BODIES.get(code, (0, -1))
        if values[place] == missing:
            return False
        section = values[_SECTION] if code == _VARIABLE and len(values) > _SECTION else 0
        return not 0 < section <= len(self._sections) or self._sections[section - 1] != _METADATA

    def _text(self, run: ArrayRun | None) -> bytes:
        if run is None:
            return b""
        short = run.replace(count=min(run.count, _LONGEST_TEXT))
        return bytes(value & 0xFF for value in BitReader(self._module.stream).elements(short))

    def mangled(self, name: bytes) -> bytes:
        """Return a name as an object spells it."""
        if not name:
            self._unnamed += 1
            name = b"__unnamed_%d" % self._unnamed
        if name.startswith(b"\1"):
            return name[1:]
        is_microsoft = self._mangling in _MICROSOFT and name.startswith(b"?")
        return b"_" + name if self._mangling in _UNDERSCORED and not is_microsoft else name
