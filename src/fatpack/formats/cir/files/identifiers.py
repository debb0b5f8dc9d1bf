"""Resources, aliases and records of a file: their definitions and their uses.

Resources are file metadata by section, group and key. They are read without their values.

::

    {-#
      dialect_resources: {
        builtin: {
          key: "0x…"
        }
      }
    #-}

Keys are shared by the whole file. If two blocks define one, MLIR uses the last everywhere.
"""

from __future__ import annotations

from array import array

from fatpack import limits
from fatpack.formats.cir.text.definitions import read_definitions
from fatpack.formats.cir.text.header import expect, find_item_end
from fatpack.formats.cir.text.lexer import BARE_ID, MARGIN, STRING, Comments, Lexer
from fatpack.formats.cir.text.strings import escape_string, line_and_column, syntax_error, unescape
from fatpack.formats.cir.vocabulary import LazyExpression
from fatpack.io.source import BytesSource
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TypeAlias

    from fatpack.errors import FormatError
    from fatpack.formats.cir.modules.model import FileOutline
    from fatpack.io.source import Piece, View

    IdentifierUse: TypeAlias = tuple[str, int, int, bytes, bytes]
    """A use: what is used, start and end of the name, the name as spelled, a record's kind. Files have millions."""


DIALECT_RESOURCES = b"dialect_resources"
#: The group whose keys are used as ``dense_resource<key>``; other dialects have a syntax of their own.
BUILTIN = b"builtin"


class ResourceEntry(Record):
    """A resource: its section, group and key, and the bytes of its value as written."""

    section: bytes
    group: bytes
    key: bytes
    value: View

    @property
    def is_builtin(self) -> bool:
        """True if the uses of this resource can be found."""
        return self.section == DIALECT_RESOURCES and self.group == BUILTIN

    def is_same(self, other: ResourceEntry) -> bool:
        """Return whether both have the same value; compares in bounded pieces."""
        if len(self.value) != len(other.value):
            return False
        return all(
            self.value.head(at, limits.CHUNK) == other.value.head(at, limits.CHUNK)
            for at in range(0, len(self.value), limits.CHUNK)
        )


def read_resources(outline: FileOutline) -> list[ResourceEntry]:
    """Return the resources of a file; of two with one key in one group, the last, as MLIR does."""
    found: dict[tuple[bytes, bytes, bytes], ResourceEntry] = {}
    text = Lexer(outline.text)
    for start, end in outline.metadata:
        for entry in _block(text, start, end):
            found[entry.section, entry.group, entry.key] = entry
    return list(found.values())


def _block(text: Lexer, start: int, end: int) -> Iterator[ResourceEntry]:
    at = start + 3
    for section, section_at in _items(text, at, b"#-}"):
        inside = expect(text, section_at, b"{", "file metadata")
        for group, group_at in _items(text, inside, b"}"):
            keys_at = expect(text, group_at, b"{", "file metadata")
            for key, value_at in _items(text, keys_at, b"}"):
                value = text.view.slice(value_at, find_item_end(text, value_at) - value_at)
                yield ResourceEntry(section, group, key, value)


def _items(text: Lexer, at: int, closer: bytes) -> Iterator[tuple[bytes, int]]:
    """Yield key and value position of the items of a dictionary up to its closer."""
    at = text.space_end(at)
    while text.peek(at, len(closer)) != closer:
        if text.peek(at) == b'"':
            end = text.string_end(at)
            key = unescape(text.view.read(at + 1, end - at - 2))
        else:
            found = text.match(BARE_ID, at)
            if not found:
                raise syntax_error(text.view, at, "wrong file metadata", expected=f"a key or {closer.decode()!r}")
            key, end = found[0], text.end(found)
        value = text.space_end(expect(text, end, b":", "file metadata"))
        yield key, value
        at = text.space_end(text.balanced_end(value) if text.peek(value) == b"{" else find_item_end(text, value))
        if text.peek(at) == b",":
            at = text.space_end(at + 1)
        elif text.peek(at, len(closer)) != closer:
            raise syntax_error(text.view, at, "wrong file metadata", expected=f"',' or {closer.decode()!r}")


def used_resources(found: Iterable[ResourceEntry], keys: frozenset[bytes]) -> list[ResourceEntry]:
    """Return the resources that a module with those keys needs; this includes all whose uses cannot be found."""
    return [entry for entry in found if not entry.is_builtin or entry.key in keys]


def spell_key(key: bytes) -> bytes:
    """Return a key as MLIR prints it."""
    return key if BARE_ID.fullmatch(key) else escape_string(key)


def write_resources(found: Iterable[ResourceEntry], most: int | None = None) -> Iterator[Piece]:
    """Yield a metadata block with these resources, nothing for none; sections and groups in alphabetical order.

    The order of groups does not depend on the modules that use them, or splitting and combining would reverse it.
    The block is laid out as MLIR prints it; without blanks if it would have more than ``most`` bytes.
    """
    sections: dict[bytes, dict[bytes, list[ResourceEntry]]] = {}
    for entry in found:
        sections.setdefault(entry.section, {}).setdefault(entry.group, []).append(entry)
    if not sections:
        return
    pieces = list(_block_of(sections, b"\n", b"  "))
    yield from pieces if most is None or sum(map(len, pieces)) <= most else _block_of(sections, b"", b"")
    yield b"\n"


def _block_of(sections: dict[bytes, dict[bytes, list[ResourceEntry]]], line: bytes, indent: bytes) -> Iterator[Piece]:
    """Yield a metadata block with ``line`` as line ends, and ``indent`` for each level."""
    blank = indent[:1]
    opener = b":" + blank + b"{"
    before = b"{-#"
    for section, groups in sorted(sections.items()):
        yield before + line + indent + spell_key(section) + opener
        comma = b""
        for group, items in sorted(groups.items()):
            yield comma + line + 2 * indent + spell_key(group) + opener
            for number, entry in enumerate(items):
                yield (b"," if number else b"") + line + 3 * indent + spell_key(entry.key) + b":" + blank
                yield entry.value
            comma = line + 2 * indent + b"},"
        yield line + 2 * indent + b"}" + line + indent + b"}"
        before = b","
    yield line + b"#-}"


# Uses of aliases, named records and resources in text: the one expression that finds and renames them.
#
# ``%0#1`` is the second result of ``%0`` and uses no alias, ``#cir`` of ``#cir<…>`` and anything with a dot name a
# dialect; strings and comments use nothing. A record is named by the first string after ``!cir.struct<`` (``union``,
# ``class``, ``record``), with words such as ``struct`` before it; if a brace comes first, the record has no name.

#: A named record, and the end of one that is only referred to.
RECORD = LazyExpression(
    rb"!cir\.(struct|union|class|record)<[ \t\r\n]*((?:[a-z]\w*[ \t\r\n]+)*)"
    rb'("[^"\\\n]*(?:\\.[^"\\\n]*)*")(?=([ \t\r\n]*>)?)'
)
_USE = LazyExpression(
    rb'"[^"\\\n\v\f]*"|"|//|([#!](?:[0-9]+|[A-Za-z$_-][A-Za-z0-9$_-]*))(?![\w$.<-])'
    rb"|" + RECORD.pattern + rb'|\bdense_resource<[ \t\r\n]*([\w$.]+|"[^"\\\n]*")'
)
_RESOURCE_GROUP = 6
_RESULT = LazyExpression(rb"%[\w$.-]+\Z")
_KINDS = (b"struct", b"union", b"class")

#: The same without groups, for lines in which each ``//`` begins a comment: names of aliases; strings, comments and
#: results, in which there are none; and what needs the other expression. Every alternative begins with another byte
#: than most of a text has, which makes the search fast.
_NAMES = LazyExpression(
    STRING + rb'|"|//[^\r\n]*+|%[\w$.-]++#[0-9]++'
    rb"|#(?:[0-9]++|[A-Za-z$_-][A-Za-z0-9$_-]*+)(?![\w$.<-])|!(?:[0-9]++|[A-Za-z$_-][A-Za-z0-9$_-]*+)(?![\w$.<-])"
    rb"|!cir\.(?:struct|union|class|record)<|dense_resource<"
)
_WITHOUT_NAME = (b'"'[0], b"/"[0], b"%"[0])

#: Letters for the kinds of uses: an alias, a record with its body, a reference to a record, a resource.
ALIAS, RECORD_BODY, RECORD_NAME, RESOURCE = "alias", "record body", "record name", "resource"


def find_uses(view: View, start: int, end: int) -> Iterator[IdentifierUse]:
    """Yield every use of an alias, a named record or a resource between two positions, in order."""
    text = Lexer(view.slice(0, end))
    yield from _find_uses(text, Comments(text, start), start)


def _find_uses(text: Lexer, comments: Comments, at: int) -> Iterator[IdentifierUse]:
    """Yield every use from a position to the end of a text, in order."""
    while at < text.size:
        index = text.seek(at, 2 * MARGIN)
        window, base = text.window, text.base
        limit = len(window) if text.is_last else len(window) - MARGIN
        at = base + limit
        for found in _USE.finditer(window, index):
            begin = found.start()
            if begin >= limit:
                at = base + begin
                break
            group = found.lastindex
            if group is None:
                token = found[0]
                if token == b'"':
                    at = text.string_end(base + begin)
                    break
                if token == b"//":
                    at = comments.end(base + begin)
                    break
            elif group == 1:
                name = found[1]
                if name[0] == 35 and 47 < name[1] < 58 and is_result(window, begin):
                    continue
                yield ALIAS, base + begin, base + found.end(), name, b""
            elif group == _RESOURCE_GROUP:
                yield RESOURCE, base + found.start(group), base + found.end(group), found[group], b""
            else:
                what = RECORD_BODY if found[5] is None else RECORD_NAME
                kind = record_kind(found[2], found[3])
                yield what, base + found.start(4), base + found.end(4), spell_literal(found[4]), kind


def find_uses_in_value(value: bytes) -> Iterator[IdentifierUse]:
    """Yield every use in a short text, such as the value of a definition."""
    if b"!" not in value and b"#" not in value and b"dense_resource" not in value:
        return
    if b"//" in value or b"\\" in value:
        yield from find_uses(BytesSource(value).view(), 0, len(value))
        return
    for found in _USE.finditer(value):
        group = found.lastindex
        if group == 1:
            name = found[1]
            if not (name[0] == 35 and 47 < name[1] < 58 and is_result(value, found.start())):
                yield ALIAS, found.start(), found.end(), name, b""
        elif group == _RESOURCE_GROUP:
            yield RESOURCE, found.start(group), found.end(group), found[group], b""
        elif group is not None:
            what = RECORD_BODY if found[5] is None else RECORD_NAME
            yield what, found.start(4), found.end(4), found[4], record_kind(found[2], found[3])


def is_result(window: bytes, at: int) -> bool:
    """Return whether a ``#1`` belongs to the value before it: ``%0#1``."""
    before = window[max(at - 256, 0) : at]
    return _RESULT.search(before) is not None


def spell_literal(literal: bytes) -> bytes:
    """Return a string literal as the printer spells it: ``"a\\22b"`` and ``"a\\"b"`` are one."""
    return escape_string(unescape(literal[1:-1])) if b"\\" in literal else literal


def record_kind(mnemonic: bytes, words: bytes) -> bytes:
    """Return the kind of a record: the word before its name, or the name of its type."""
    return next((word for word in reversed(words.split()) if word in _KINDS), mnemonic) if words else mnemonic


# The alias definitions of a file by name, their uses of others, and the definitions that a module needs.
#
# An alias is just a name for a value: only its name and, after renaming, its value decide whether two modules can share
# one. Definitions are looked up by number in the order of the file, in which each may use only earlier ones.

#: Values up to this size are read as a whole.
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
        """Return the span of a definition, its name included."""
        return self._starts[number], self._ends[number]

    def value(self, number: int) -> tuple[int, int]:
        """Return the span of a definition's value."""
        return self._values[number], self._ends[number]


class ModuleNeeds(Record):
    """The definitions (by number), records (with their positions) and resources that a module uses.

    A record is a kind with a name as printed; its position is that of its definition if there is one. A resource is a
    key without quotes.
    """

    aliases: array[int]
    records: dict[tuple[bytes, bytes], int]
    resources: frozenset[bytes]


def find_needs(table: AliasTable, spans: Iterable[tuple[int, int]]) -> ModuleNeeds:
    """Return everything that the text in ``spans`` uses, directly and through definitions.

    Raises BadValue for an alias that is not defined, or used by a definition before its own.
    """
    found = _NeedsCollector(table)
    for start, end in spans:
        found.add_text(start, end)
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
    """Collects the needs of a module; ``wanted`` has a byte for every definition."""

    def __init__(self, table: AliasTable) -> None:
        self.wanted = bytearray(len(table))
        self.records: dict[tuple[bytes, bytes], int] = {}
        self.resources: set[bytes] = set()
        self._defined: set[tuple[bytes, bytes]] = set()
        self._table = table

    def add_text(self, start: int, end: int) -> None:
        """Record the uses in a module, which may refer to all definitions.

        Most lines use aliases alone, whose names count once for all of their uses: such lines are read at once.
        """
        text = Lexer(self._table.view.slice(0, end))
        comments = Comments(text, start)
        at = start
        while at < end:
            index = text.seek(at, 2 * MARGIN)
            window, base = text.window, text.base
            limit = len(window) if text.is_last else len(window) - MARGIN
            limit, is_certain = comments.certain(window, index, limit, base)
            stop = limit if base + limit >= end else window.rfind(b"\n", index, limit) + 1
            if stop <= index:
                stop = limit
            elif is_certain and self._add_names(set(_NAMES.findall(window, index, stop))):
                at = base + stop
                continue
            for use in _find_uses(text, comments, at):
                self.add([use], start, 0, len(self._table))
                if use[2] >= base + stop:
                    at = use[2]
                    break
            else:
                at = end

    def _add_names(self, names: set[bytes]) -> bool:
        """Record uses of aliases by their names; return False, and record nothing, unless all of them are defined."""
        numbers = self._table.numbers
        used = [numbers.get(name, -1) for name in names if name == b'"' or name[0] not in _WITHOUT_NAME]
        if -1 in used:
            return False
        for number in used:
            self.wanted[number] = 1
        return True

    def add(self, found: Iterable[IdentifierUse], start: int, base: int, before: int) -> None:
        """Record uses, which may refer to definitions before number ``before``; positions count from ``base``."""
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
    """Return whether MLIR sees a use too: it does not parse the body of a dialect that it does not know."""
    return Comments(Lexer(table.view), start).is_outside(at)
