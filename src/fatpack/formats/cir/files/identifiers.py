"""File metadata: resources by section, group and key, read without their bulk and written as MLIR prints them.

::

    {-#
      dialect_resources: {
        builtin: {
          key: "0x…"
        }
      }
    #-}

Keys are shared by the whole file. Where two blocks define one, MLIR takes the last for everybody.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.formats.cir.text.faults import syntax_error
from fatpack.formats.cir.text.header import expect, find_item_end
from fatpack.formats.cir.text.lexer import BARE_ID, Lexer
from fatpack.formats.cir.text.strings import escape_string, unescape
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.formats.cir.modules.model import FileOutline
    from fatpack.io.source import Piece, View

DIALECT_RESOURCES = b"dialect_resources"
#: The group whose keys are used as ``dense_resource<key>``; how other dialects use theirs is their own syntax.
BUILTIN = b"builtin"


class ResourceEntry(Record):
    """A resource: its section, group and key, and the bytes of its value as written."""

    section: bytes
    group: bytes
    key: bytes
    value: View

    @property
    def is_builtin(self) -> bool:
        """Whether its uses can be found."""
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
    """Return the resources that a module with those keys needs; all of those whose uses cannot be found."""
    return [entry for entry in found if not entry.is_builtin or entry.key in keys]


def spell_key(key: bytes) -> bytes:
    """Return a key as MLIR prints it."""
    return key if BARE_ID.fullmatch(key) else escape_string(key)


def write_resources(found: Iterable[ResourceEntry], most: int | None = None) -> Iterator[Piece]:
    """Yield a metadata block with these resources, nothing for none; sections and groups in alphabetical order.

    Which group comes first must not depend on the modules that use it: splitting and combining would turn them round.
    The block is laid out as MLIR prints it; without a blank where it would have more than ``most`` bytes.
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
    """Yield a metadata block with ``line`` where lines end, and ``indent`` for each level before them."""
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
