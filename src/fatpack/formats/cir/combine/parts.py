"""A module on its way into a container: where it comes from, its new header, and what is renamed in it."""

from __future__ import annotations

from fatpack.formats.cir.combine.rewrite import Renames, rewrite_layouts, rewrite_text, rewrite_value
from fatpack.formats.cir.files.aliases import LONGEST
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.formats.cir.text.strings import escape_string
from fatpack.formats.cir.vocabulary import BUNDLE_ID, KIND, PROTOTYPE_KIND, RECORD_LAYOUTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import TypeAlias

    from fatpack.formats.cir.files.aliases import AliasTable, ModuleNeeds
    from fatpack.formats.cir.modules.model import FileOutline, TextModule
    from fatpack.formats.cir.text.header import TextAttribute
    from fatpack.formats.cir.vocabulary import CirContainerForm
    from fatpack.io.source import Piece

    _Item: TypeAlias = tuple[bytes, bytes, Iterator[Piece] | None]
    """An attribute: its name, how the name is spelled, and the pieces of its value."""

#: Attributes that combining sets, or that belong to a form that is not written.
_REPLACED = frozenset((KIND, BUNDLE_ID, PROTOTYPE_KIND))


class InputModule:
    """One module to combine: ``module`` of a file, or the whole file (None), which MLIR wraps in a module."""

    table: AliasTable
    needs: ModuleNeeds

    def __init__(self, outline: FileOutline, module: TextModule | None, name: str, bundle_id: str | None) -> None:
        self.outline = outline
        self.module = module
        self.name = name
        self.id = bundle_id
        self.renames = Renames()
        #: attributes of what was around the modules of a container that is written anew: kept there
        self.around: tuple[TextAttribute, ...] = ()
        self.alias_names: list[bytes] = []

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where the module's text stands: in one piece, or in several between alias definitions."""
        if self.module is not None:
            return [(self.module.start, self.module.end), *(attr.value for attr in self.around if attr.value)]
        modules = [(module.start, module.end) for module in self.outline.modules]
        return sorted([*modules, *self.outline.others])

    def take(self, table: AliasTable, needed: ModuleNeeds) -> None:
        """Note the definitions of the file and what the module needs of them."""
        self.table, self.needs = table, needed
        self.alias_names = list(table.numbers)

    def final_value(self, number: int) -> bytes:
        """Return the value of a definition after renaming."""
        start, end = self.table.value(number)
        view = self.table.view
        if end - start < LONGEST:
            value = view.read(start, end - start)
            return rewrite_value(value, self.renames) if self.renames else value
        return b"".join(map(_as_bytes, rewrite_text(view, start, end, self.renames)))

    def long_value(self, number: int) -> Iterator[Piece]:
        """Yield the value of a definition after renaming, in pieces."""
        return rewrite_text(self.table.view, *self.table.value(number), self.renames)

    def pieces(self, form: CirContainerForm, role: str) -> Iterator[Piece]:
        """Yield the module as it stands in a container."""
        indent = b"    " if form.is_op or form.is_nested else b"  "
        keyword = b"builtin.module" if form.is_op else b"module"
        yield b"%s%s @%s attributes {" % (indent, keyword, self.name.encode())
        yield from self._attributes(form, role)
        yield b"} {"
        yield from self._body()
        yield b"\n%s}" % indent
        place = self.module.location if self.module else None
        if place:
            yield b" "
            yield from rewrite_text(self.outline.text, *place, self.renames)
        yield b"\n"

    def _attributes(self, form: CirContainerForm, role: str) -> Iterator[Piece]:
        """Yield the attributes in alphabetical order, as the printer has them."""
        items: list[_Item] = [(form.key, form.key, iter((form.kind.format(role).encode(),)))]
        if self.id is not None:
            items.append((BUNDLE_ID, BUNDLE_ID, iter((escape_string(self.id.encode("utf-8", "surrogateescape")),))))
        for attr in self.module.attrs if self.module else ():
            if attr.name not in _REPLACED:
                items.append(self._kept(attr))
        yield from attributes_in_order(items)

    def around_pieces(self, markers: Mapping[bytes, bytes | None]) -> Iterator[Piece]:
        """Yield the attributes of the module around all others, among them those that mark a container."""
        items = [self._kept(attr) for attr in self.around]
        items += [(key, key, None if value is None else iter((value,))) for key, value in markers.items()]
        if items:
            yield b" attributes {"
            yield from attributes_in_order(items)
            yield b"}"

    def _kept(self, attr: TextAttribute) -> _Item:
        view = self.outline.text
        key = view.read(attr.key[0], attr.key[1] - attr.key[0])
        if attr.value is None:
            return attr.name, key, None
        if attr.name == RECORD_LAYOUTS:
            return attr.name, key, rewrite_layouts(view, attr.value, self.renames)
        return attr.name, key, rewrite_text(view, *attr.value, self.renames)

    def _body(self) -> Iterator[Piece]:
        view, text = self.outline.text, Lexer(self.outline.text)
        if self.module is not None:
            start, end = self.module.body
            end = text.trimmed(end, start)
            if end > start:
                yield from rewrite_text(view, start, end, self.renames)
                yield view.read(end, 1).strip(b" \t\n\0}")  # of lines that end in CR LF the CR stays
            return
        for start, end in self.spans:
            yield b"\n"
            yield from rewrite_text(view, start, end, self.renames)


def attributes_in_order(items: Iterable[_Item]) -> Iterator[Piece]:
    """Yield attributes in alphabetical order, as the printer has them."""
    for number, (_, key, value) in enumerate(sorted(items, key=lambda item: item[0])):
        yield b"%s%s%s" % (b", " if number else b"", key, b"" if value is None else b" = ")
        if value is not None:
            yield from value


def _as_bytes(piece: Piece) -> bytes:
    return bytes(piece) if isinstance(piece, (bytes, bytearray, memoryview)) else piece.tobytes()
