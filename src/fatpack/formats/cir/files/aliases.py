"""The alias definitions of a file by name, what they use in turn, and which of them a module needs.

An alias is just a name for a value: only its name and, after renaming, its value decide whether two modules can share
one. Definitions are looked up by number in the order of the file, in which each may use only what stands before it.
"""

from __future__ import annotations

from array import array

from fatpack.formats.cir.files.uses import ALIAS, RECORD_BODY, RESOURCE, find_uses, find_uses_in_value
from fatpack.formats.cir.text.comments import Comments
from fatpack.formats.cir.text.definitions import read_definitions
from fatpack.formats.cir.text.faults import line_and_column, syntax_error
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.errors import FormatError
    from fatpack.formats.cir.files.uses import IdentifierUse
    from fatpack.formats.cir.modules.model import FileOutline


#: Values up to this size are looked at as a whole.
LONGEST = 1 << 16


class AliasTable:
    """The definitions of one file. Arrays, since files have hundreds of thousands of locations.

    Raises BadValue for an alias that is defined twice.
    """

    def __init__(self, outline: FileOutline) -> None:
        self.view = outline.text
        self.numbers: dict[bytes, int] = {}
        self._starts, self._values, self._ends = array("Q"), array("Q"), array("Q")
        text = Lexer(self.view)
        for start, end in outline.definitions:
            for definition in read_definitions(text, start, end):
                number = self.numbers.setdefault(definition.name, len(self._starts))
                if number != len(self._starts):
                    first = line_and_column(self.view, self._starts[number])
                    name = definition.name.decode()
                    raise syntax_error(self.view, definition.start, f"alias {name} is defined twice, first at {first}")
                self._starts.append(definition.start)
                self._values.append(definition.value)
                self._ends.append(definition.end)

    def __len__(self) -> int:
        return len(self._starts)

    def span(self, number: int) -> tuple[int, int]:
        """Return where a definition stands, its name included."""
        return self._starts[number], self._ends[number]

    def value(self, number: int) -> tuple[int, int]:
        """Return where the value of a definition stands."""
        return self._values[number], self._ends[number]


class ModuleNeeds(Record):
    """What a module uses: definitions by number, records with where they stand, resources.

    A record is a kind with a name as printed, and stands where it is defined if it is; a resource is a key without
    quotes.
    """

    aliases: array[int]
    records: dict[tuple[bytes, bytes], int]
    resources: frozenset[bytes]


def find_needs(table: AliasTable, spans: Iterable[tuple[int, int]]) -> ModuleNeeds:
    """Return what the text in some spans uses, and what the definitions used there use in turn.

    Raises BadValue for an alias that is not defined, or used by a definition before its own.
    """
    found = _NeedsCollector(table)
    for start, end in spans:
        found.add(find_uses(table.view, start, end), start, 0, len(table))
    for number in range(len(table) - 1, -1, -1):
        if found.wanted[number]:
            start, end = table.value(number)
            if end - start < LONGEST:
                found.add(find_uses_in_value(table.view.read(start, end - start)), start, start, number)
            else:
                found.add(find_uses(table.view, start, end), start, 0, number)
    aliases = array("Q", (number for number, flag in enumerate(found.wanted) if flag))
    return ModuleNeeds(aliases, found.records, frozenset(found.resources))


class _NeedsCollector:
    """What was found so far; ``wanted`` has a byte for every definition."""

    def __init__(self, table: AliasTable) -> None:
        self.wanted = bytearray(len(table))
        self.records: dict[tuple[bytes, bytes], int] = {}
        self.resources: set[bytes] = set()
        self._defined: set[tuple[bytes, bytes]] = set()
        self._table = table

    def add(self, found: Iterable[IdentifierUse], start: int, base: int, before: int) -> None:
        """Take note of uses that are legal for definitions before a number; positions count from ``base``."""
        table = self._table
        numbers, wanted = table.numbers, self.wanted
        for what, at, _, name, kind in found:
            if what == ALIAS:
                number = numbers.get(name, -1)
                if 0 <= number < before:
                    wanted[number] = 1
                elif _is_certain(table, start, base + at):
                    raise _undefined(table, base + at, name, number)
            elif what == RESOURCE:
                self.resources.add(name.strip(b'"'))
            elif what == RECORD_BODY and (kind, name) not in self._defined:
                self._defined.add((kind, name))
                self.records[kind, name] = base + at
            else:
                self.records.setdefault((kind, name), base + at)


def _undefined(table: AliasTable, at: int, name: bytes, number: int) -> FormatError:
    if number < 0:
        return syntax_error(table.view, at, f"alias {name.decode()} is used but not defined")
    where = line_and_column(table.view, table.span(number)[0])
    return syntax_error(table.view, at, f"alias {name.decode()} is used before its definition at {where}")


def _is_certain(table: AliasTable, start: int, at: int) -> bool:
    """Return whether a use is one for MLIR too: text in the body of a dialect that it does not know means nothing."""
    return Comments(Lexer(table.view), start).is_outside(at)
