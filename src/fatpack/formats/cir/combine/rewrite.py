"""Text with names exchanged: aliases, named records, resource keys. Everything else is passed on byte for byte."""

from __future__ import annotations

from fatpack import limits
from fatpack.formats.cir.files.identifiers import spell_key
from fatpack.formats.cir.files.uses import ALIAS, RESOURCE, find_uses, find_uses_in_value
from fatpack.formats.cir.text.header import read_dictionary
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.formats.cir.text.strings import unescape

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.combine.rename import Key
    from fatpack.io.source import Piece, View


class Renames:
    """What one module's names become: aliases with their sigil, records as string literals, resource keys."""

    def __init__(self) -> None:
        self.aliases: dict[bytes, bytes] = {}
        self.records: dict[Key, bytes] = {}
        self.resources: dict[bytes, bytes] = {}

    def __bool__(self) -> bool:
        return bool(self.aliases or self.records or self.resources)

    def new(self, what: str, name: bytes, kind: bytes) -> bytes | None:
        """Return what stands in the place of a name, None if it stays."""
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
    """Yield the text between two positions with its names exchanged, in pieces of bounded size."""
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
    """Return a short text with its names exchanged."""
    parts: list[bytes] = []
    at = 0
    for what, begin, stop, name, kind in find_uses_in_value(value):
        new = renames.new(what, name, kind)
        if new is not None:
            parts += (value[at:begin], new)
            at = stop
    return b"".join((*parts, value[at:])) if parts else value


def rewrite_layouts(view: View, span: tuple[int, int], renames: Renames) -> Iterator[Piece]:
    """Yield the value of ``cir.record_layouts``, whose keys are the names of records, with its names exchanged."""
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
