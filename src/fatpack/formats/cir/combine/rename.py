"""Named records (structs and unions) of modules that are combined into one file.

All modules of a file live in one MLIR context, where a named record is identified by kind and name, and where a second
definition of a name silently yields the first. Host and device often disagree: anonymous records are numbered per
module, layouts depend on the target. So before a device module is added, its records whose definition differs from
those combined so far are renamed, and so is every record whose body refers to a renamed one.

Source of the rule and of the names: ``CombinedRecords`` in clang/tools/cir-offload-merge/cir-offload-merge.cpp.
Definitions are compared as token lists in which aliases are replaced by their values, records by their names and
bracketed text by a number, so that nothing is expanded twice.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.formats.cir.files.identifiers import (
    ALIAS,
    RESOURCE,
    find_uses,
    find_uses_in_value,
    record_kind,
    spell_key,
    spell_literal,
)
from fatpack.formats.cir.text.header import read_dictionary
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.formats.cir.text.strings import escape_string, unescape
from fatpack.formats.cir.vocabulary import LazyExpression
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.formats.cir.files.identifiers import AliasTable, ModuleNeeds
    from fatpack.io.source import Piece, View

    Key: TypeAlias = tuple[bytes, bytes]
    """Kind and name of a record, the name as its string literal."""


#: LIMIT: bytes of one definition that are compared token by token; longer ones are compared as text. The largest record
#: we know has about a thousand members.
_LONGEST = 1 << 20

_TOKEN = LazyExpression(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[#!][A-Za-z0-9$._-]+|->|[\w$.]+|\S')
_RECORD_TYPES = {b"!cir." + name: name for name in (b"struct", b"union", b"class", b"record")}
_CLOSERS = {b">": b"<", b")": b"(", b"]": b"[", b"}": b"{"}
_OPENERS = frozenset(_CLOSERS.values())
#: LIMIT: tokens of an alias's value; above it two spellings of the same value may count as different.
_MOST_TOKENS = 200


class RecordDefinition(Record):
    """Definition of a record: a number that is equal for equal definitions, and the records that it refers to."""

    number: int
    refers: frozenset[Key]


class Interner:
    """Numbers for token lists, equal for equal ones."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[bytes, ...], int] = {}

    def number(self, tokens: tuple[bytes, ...]) -> int:
        """Return the number of a token list."""
        return self._numbers.setdefault(tokens, len(self._numbers))


def record_definitions(
    table: AliasTable, names: Sequence[bytes], needed: ModuleNeeds, interner: Interner, renamed: Mapping[Key, bytes]
) -> dict[Key, RecordDefinition]:
    """Return the named records that a module uses, by their names before renaming.

    ``names`` are those of the aliases by number, ``renamed`` the new names to compare with.
    """
    reader = _TypeReader(interner, renamed)
    view = table.view
    for number in needed.aliases:
        start, end = table.value(number)
        if view.read(start, min(4, end - start)) == b"loc(":
            continue
        reader.alias(names[number], view.read(start, min(end - start, _LONGEST)))
    for key, at in needed.records.items():
        if key in reader.bodies:
            continue
        # A record without an alias is spelled out at its first use.
        before = view.read(max(at - 256, 0), min(at, 256))
        start = at - len(before) + before.rfind(b"!cir.")
        text = Lexer(view)
        end = text.balanced_end(start + view.read(start, 16).index(b"<"))
        reader.read(view.read(start, min(end - start, _LONGEST)))
    unknown = RecordDefinition(interner.number((b"incomplete",)), frozenset())
    return {key: reader.bodies.get(key, unknown) for key in {**dict.fromkeys(needed.records), **reader.bodies}}


class _TypeReader:
    """Reads types and records every named record in them.

    A type becomes a list of tokens in which every pair of brackets with its contents is one number, and every alias is
    its value: so a type gives the same tokens with or without aliases, and never more than a few.
    """

    def __init__(self, interner: Interner, renamed: Mapping[Key, bytes]) -> None:
        self.bodies: dict[Key, RecordDefinition] = {}
        self._interner = interner
        self._renamed = renamed
        self._aliases: dict[bytes, tuple[tuple[bytes, ...], frozenset[Key]]] = {}

    def alias(self, name: bytes, value: bytes) -> None:
        """Record the value of an alias."""
        tokens, refers = self.read(value)
        if len(tokens) > _MOST_TOKENS:
            tokens = (b"\0%d" % self._interner.number(tokens),)
        self._aliases[name] = tokens, refers

    def read(self, value: bytes) -> tuple[tuple[bytes, ...], frozenset[Key]]:
        """Return a type as comparable tokens, and the named records in it."""
        tokens = _TOKEN.findall(value)
        frames = [_Frame(b"")]
        size, at = len(tokens), 0
        while at < size:
            token = tokens[at]
            at += 1
            frame = frames[-1]
            meaning = self._aliases.get(token)
            if meaning:
                frame.tokens += meaning[0]
                frame.refers |= meaning[1]
            elif token in _CLOSERS:
                self._close(frames, token)
            elif token not in _OPENERS:
                frame.tokens.append(spell_literal(token) if token[:1] == b'"' else token)
                if token in _RECORD_TYPES and tokens[at : at + 1] == [b"<"]:
                    at = self._record(tokens, at, frames)
            else:
                frames.append(_Frame(token))
        while len(frames) > 1:
            self._fold(frames)
        return tuple(frames[0].tokens), frozenset(frames[0].refers)

    def _record(self, tokens: Sequence[bytes], at: int, frames: list[_Frame]) -> int:
        """Begin a named record after its type; return the position of its body, or ``at`` if it has no name."""
        words = at + 1
        while words < len(tokens) and tokens[words][:1].isalpha():
            words += 1
        if words == len(tokens) or tokens[words][:1] != b'"':
            return at
        outer = frames[-1]
        kind = record_kind(_RECORD_TYPES[outer.tokens.pop()], b" ".join(tokens[at + 1 : words]))
        key = (kind, spell_literal(tokens[words]))
        outer.tokens.append(b"\0%s %s" % (kind, self._renamed.get(key, key[1])))
        outer.refers.add(key)
        frames.append(_Frame(b"<", key))
        return words + 1

    def _close(self, frames: list[_Frame], closer: bytes) -> None:
        """End the innermost bracket; ``>`` ends only a ``<``, and any other closer discards open ones."""
        opener = _CLOSERS[closer]
        if closer == b">" and frames[-1].opener != opener:
            frames[-1].tokens.append(closer)
            return
        while len(frames) > 1 and frames[-1].opener != opener:
            self._fold(frames)
        if len(frames) == 1:
            return
        frame = frames.pop()
        tokens = tuple(frame.tokens)
        if frame.key is None:
            frames[-1].tokens.append(b"\0%s%d" % (opener, self._interner.number(tokens)))
            frames[-1].refers |= frame.refers
        elif tokens and frame.key not in self.bodies:  # else a reference without a body, or a repetition
            self.bodies[frame.key] = RecordDefinition(self._interner.number(tokens), frozenset(frame.refers))

    def _fold(self, frames: list[_Frame]) -> None:
        """Treat a bracket that is not closed as an ordinary character."""
        frame = frames.pop()
        frames[-1].tokens += (frame.opener, *frame.tokens)
        frames[-1].refers |= frame.refers


class _Frame:
    """A bracket that is not closed yet, possibly of a named record."""

    __slots__ = ("key", "opener", "refers", "tokens")

    def __init__(self, opener: bytes, key: Key | None = None) -> None:
        self.opener = opener
        self.key = key
        self.tokens: list[bytes] = []
        self.refers: set[Key] = set()


def plan_record_renames(
    definitions: Mapping[Key, RecordDefinition], combined: Mapping[Key, int], module_name: bytes
) -> tuple[dict[Key, bytes], frozenset[Key]]:
    """Return the new names of the records that cannot keep theirs, and which of these differ in definition."""
    users: dict[Key, list[Key]] = {}
    for key, definition in definitions.items():
        for referred in definition.refers:
            users.setdefault(referred, []).append(key)
    different = [key for key, found in definitions.items() if combined.get(key, found.number) != found.number]
    new: dict[Key, bytes] = {}
    used = set(definitions)
    todo = list(different)
    while todo:
        key = todo.pop()
        if key in new:
            continue
        new[key] = _unused(key, module_name, combined, used)
        used.add((key[0], new[key]))
        todo += users.get(key, [])
    return new, frozenset(different)


def _unused(key: Key, module_name: bytes, combined: Mapping[Key, int], used: Iterable[Key]) -> bytes:
    base = b"%s.%s" % (unescape(key[1][1:-1]), module_name)
    name, number = escape_string(base), 0
    while (key[0], name) in combined or (key[0], name) in used:
        number += 1
        name = escape_string(b"%s.%d" % (base, number))
    return name


# Text with names replaced: aliases, named records, resource keys. Everything else is copied byte for byte.


class Renames:
    """New names for one module: aliases with their sigil, records as string literals, resource keys."""

    def __init__(self) -> None:
        self.aliases: dict[bytes, bytes] = {}
        self.records: dict[Key, bytes] = {}
        self.resources: dict[bytes, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self.aliases or self.records or self.resources)

    def new(self, what: str, name: bytes, kind: bytes) -> bytes | None:
        """Return the replacement of a name, None if it stays."""
        if what == ALIAS:
            return self.aliases.get(name)
        if what != RESOURCE:
            return self.records.get((kind, name))
        key = self.resources.get(name.strip(b'"'))
        return None if key is None else spell_key(key)

    def layout_key(self, key: bytes) -> bytes | None:
        """Return the new key of ``cir.record_layouts`` for a record, whose kind is not stated there."""
        for (_, old), new in self.records.items():
            if unescape(old[1:-1]) == key:
                return unescape(new[1:-1])
        return None


def rewrite_text(view: View, start: int, end: int, renames: Renames) -> Iterator[Piece]:
    """Yield the text between two positions with its names replaced, in pieces of bounded size."""
    if not renames:
        yield view.slice(start, end - start)
        return
    parts: list[bytes] = []
    size, at = 0, start
    for what, begin, stop, name, kind in find_uses(view, start, end):
        new = renames.new(what, name, kind)
        if new is None:
            continue
        gap = begin - at
        if size + gap > limits.CHUNK:
            yield b"".join(parts)
            parts, size = [], 0
        if gap > limits.CHUNK:
            yield view.slice(at, gap)
            gap = 0
            at = begin
        parts += (view.read(at, gap), new)
        size += gap + len(new)
        at = stop
    yield b"".join(parts)
    if at < end:
        yield view.slice(at, end - at)


def rewrite_value(value: bytes, renames: Renames) -> bytes:
    """Return a short text with its names replaced."""
    parts: list[bytes] = []
    at = 0
    for what, begin, stop, name, kind in find_uses_in_value(value):
        new = renames.new(what, name, kind)
        if new is not None:
            parts += (value[at:begin], new)
            at = stop
    return b"".join((*parts, value[at:])) if parts else value


def rewrite_layouts(view: View, span: tuple[int, int], renames: Renames) -> Iterator[Piece]:
    """Yield the value of ``cir.record_layouts``, whose keys are the names of records, with its names replaced."""
    start, end = span
    if not renames.records or view.read(start, 1) != b"{":
        yield from rewrite_text(view, start, end, renames)
        return
    attrs, _ = read_dictionary(Lexer(view), start)
    at = start
    for attr in attrs:
        new = renames.layout_key(attr.name)
        if new is not None:
            yield from rewrite_text(view, at, attr.key[0], renames)
            yield spell_key(new)
            at = attr.key[1]
    yield from rewrite_text(view, at, end, renames)
