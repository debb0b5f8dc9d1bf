"""Host and device modules → one container, in the order and with the names that cir-offload-merge gives them.

Theory of operation:

1. All decisions and all checks are made before the first byte is yielded.
2. The host comes first and keeps its names. Each device is compared with everything combined so far.
3. Records first (:mod:`~fatpack.formats.cir.combine.rename`), since a renamed record changes the value of its aliases;
then resource keys; then aliases, in the order of their definitions. As a definition uses only
   earlier ones, one pass reaches the fixed point: an alias is shared when name and value, after renaming, are equal.
4. Bodies are copied with changed names replaced; only headers are written anew.

Unlike the upstream tool nothing is optimised, locations stay, and no alias is expanded.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import UsageError
from fatpack.findings import finding
from fatpack.formats.cir import bundle_id
from fatpack.formats.cir.bundle_id import parse_bundle_id
from fatpack.formats.cir.combine.rename import (
    Interner,
    Renames,
    plan_record_renames,
    record_definitions,
    rewrite_layouts,
    rewrite_text,
    rewrite_value,
)
from fatpack.formats.cir.files import identifiers
from fatpack.formats.cir.files.identifiers import LONGEST, AliasTable, find_needs
from fatpack.formats.cir.modules.attributes import read_module_facts
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.formats.cir.text.strings import escape_string, unescape
from fatpack.formats.cir.verify import CHECK_IDS, container_contradictions, role_contradictions
from fatpack.formats.cir.vocabulary import (
    BUNDLE_ID,
    CONTAINER,
    FORMS,
    KIND,
    PROTOTYPE,
    PROTOTYPE_KIND,
    PROTOTYPE_MAP,
    RECORD_LAYOUTS,
    ROLES,
)
from fatpack.io.source import Span
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.formats.cir.combine.rename import Key
    from fatpack.formats.cir.files.identifiers import ModuleNeeds
    from fatpack.formats.cir.modules.model import FileOutline, TextModule
    from fatpack.formats.cir.text.header import TextAttribute
    from fatpack.formats.cir.vocabulary import CirContainerForm
    from fatpack.io.source import Piece
    from fatpack.model import Container, Finding, Image

    _Item: TypeAlias = tuple[bytes, bytes, Iterator[Piece] | None]
    """An attribute: its name, how the name is spelled, and the pieces of its value."""


# A module to combine: its origin, its new header, and the names replaced in it.

#: Attributes that combining sets, and attributes of other forms.
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
        #: attributes of the operations around the modules of a container that is written anew; they are kept
        self.around: tuple[TextAttribute, ...] = ()
        self.alias_names: list[bytes] = []

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The spans of the module's text: one, or several between alias definitions."""
        if self.module is not None:
            return [(self.module.start, self.module.end), *(attr.value for attr in self.around if attr.value)]
        modules = [(module.start, module.end) for module in self.outline.modules]
        return sorted([*modules, *self.outline.others])

    def take(self, table: AliasTable, needed: ModuleNeeds) -> None:
        """Record the file's definitions, and the definitions that the module needs."""
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
        """Yield the module as text of a container."""
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
        """Yield the attributes of the outermost module, with the attributes that mark a container."""
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


#: form → the attributes that mark the outermost module as a container
_MARKERS: Mapping[str, Mapping[bytes, bytes | None]] = {
    "attribute": {CONTAINER: None},
    "prototype": {PROTOTYPE: b"{device = @device, host = @host}", PROTOTYPE_MAP: b"[]"},
}
#: form → text that opens and closes the container inside that module
_INSIDE = {
    "nested": (b"  module attributes {cir.offload.container} {\n", b"  }\n"),
    "op": (b"  cir.offload.container {\n", b"  }\n"),
    "op-string": (b"  cir.offload.container {\n", b"  }\n"),
}


class RecordRename(Record):
    """A record of a device module that cannot keep its name: its kind, both names, and the reason."""

    kind: str
    old: str
    new: str
    reason: str


class PartReport(Record):
    """The changes to one module: its new name, its ID, and the names replaced in it."""

    name: str
    id: str
    source: str
    aliases: Mapping[str, str]
    records: tuple[RecordRename, ...]
    resources: Mapping[str, str]


class Combination:
    """A container that is ready to be written: :attr:`report` lists the changes, :meth:`pieces` yields its bytes."""

    def __init__(self, parts: Sequence[InputModule], form: str, *, rename_records: bool = True) -> None:
        if form not in FORMS:
            raise UsageError(
                f"CIR containers are not written in the form {form!r}", hint=f"choose from {', '.join(FORMS)}"
            )
        if form == "prototype" and len(parts) > 2:
            raise UsageError(
                f"a CIR container of the form 'prototype' has no place for {len(parts) - 1} device modules",
                hint="it names one module @device; choose another form, or one device",
            )
        self.parts = tuple(parts)
        if form == "prototype":
            self.parts[1].name = "device"
        self.form = form
        self._why: list[tuple[RecordRename, ...]] = []
        self._owned: list[list[int]] = []
        self._resources: list[identifiers.ResourceEntry] = []
        # Parts of one text share its outline, and so one table; to compare outlines would be to compare their texts.
        tables: dict[int, AliasTable] = {}
        for part in self.parts:
            table = tables.get(id(part.outline)) or tables.setdefault(id(part.outline), AliasTable(part.outline))
            part.take(table, find_needs(table, part.spans))
        self._rename_records(rename_records)
        self._merge_resources()
        self._merge_aliases()

    def _rename_records(self, allowed: bool) -> None:
        self._why = [()] * len(self.parts)
        if not any(part.needs.records for part in self.parts):
            return
        interner = Interner()
        combined: dict[Key, int] = {}
        for number, part in enumerate(self.parts):
            found = record_definitions(part.table, part.alias_names, part.needs, interner, {})
            if number:
                part.renames.records, different = plan_record_renames(found, combined, part.name.encode())
                self._why[number] = _reasons(part.renames.records, different)
                if part.renames.records and not allowed:
                    raise _conflict(part, self._why[number])
                if part.renames.records:
                    found = record_definitions(part.table, part.alias_names, part.needs, interner, part.renames.records)
            for (kind, name), definition in found.items():
                combined.setdefault((kind, part.renames.records.get((kind, name), name)), definition.number)

    def _merge_resources(self) -> None:
        merged: dict[tuple[bytes, bytes, bytes], identifiers.ResourceEntry] = {}
        for part in self.parts:
            for entry in identifiers.used_resources(identifiers.read_resources(part.outline), part.needs.resources):
                place = (entry.section, entry.group, entry.key)
                other = merged.setdefault(place, entry)
                if other is entry or entry.is_same(other):
                    continue
                if not entry.is_builtin:
                    if entry.section == identifiers.DIALECT_RESOURCES:
                        key = entry.key.decode("utf-8", "backslashreplace")
                        raise UsageError(
                            f"two modules have different resources {key!r} of the dialect {entry.group.decode()}",
                            hint="rename one of them in its file; its uses cannot be found without that dialect",
                        )
                    continue  # settings of tools, which belong to no module: the first one is used
                number = 1
                while (entry.section, entry.group, new := b"%s_%d" % (entry.key, number)) in merged:
                    number += 1
                part.renames.resources[entry.key] = new
                merged[entry.section, entry.group, new] = entry.replace(key=new)
        self._resources = list(merged.values())

    def _merge_aliases(self) -> None:
        owner: dict[bytes, int] = {}  # emitted name → number of the part and of the definition, in one integer
        for number, part in enumerate(self.parts):
            owned = []
            names = part.alias_names
            for index in part.needs.aliases:
                name = names[index]
                other = owner.get(name)
                if other is not None:
                    if part.final_value(index) == self.parts[other >> 40].final_value(other & (1 << 40) - 1):
                        continue
                    name = self._unused(name, number, owner)
                    part.renames.aliases[names[index]] = name
                owner[name] = number << 40 | index
                owned.append(index)
            self._owned.append(owned)

    def _unused(self, name: bytes, number: int, owner: Mapping[bytes, int]) -> bytes:
        prefix = b"%sd%d_" % (name[:1], number)
        new, again = prefix + name[1:], 0
        while new in owner or any(new in part.table.numbers for part in self.parts):
            again += 1
            new = b"%s%d_%s" % (prefix, again, name[1:])
        return new

    @property
    def report(self) -> tuple[PartReport, ...]:
        """The changes to each module, in the order of the container."""
        return tuple(
            PartReport(
                part.name,
                part.id or "",
                part.outline.text.chain[0] if part.outline.text.chain else "",
                {_text(old): _text(new) for old, new in part.renames.aliases.items()},
                why,
                {_text(old): _text(new) for old, new in part.renames.resources.items()},
            )
            for part, why in zip(self.parts, self._why, strict=True)
        )

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Contradictions between the modules' own statements and their roles, and between modules."""
        stated = [read_module_facts(part.module, part.outline) if part.module else None for part in self.parts]
        found = []
        for number, (part, module) in enumerate(zip(self.parts, stated, strict=True)):
            if part.module and module:
                span = part.outline.text.span(part.module.start, 0)
                given = None if part.id is None else parse_bundle_id(part.id)
                for text in role_contradictions(module, ROLES[min(number, 1)], given):
                    found.append(finding("FP1516", span, f"{part.name}: {text}", CHECK_IDS))
        modules = [module for module in stated if module]
        found += [finding(item.code, Span(0, 0), item.text, item.hint) for item in container_contradictions(modules)]
        return tuple(found)

    def pieces(self) -> Iterator[Piece]:
        """Yield the bytes of the container."""
        yield from self._definitions()
        form = FORMS[self.form]
        opener, closer = _INSIDE.get(self.form, (b"", b""))
        yield b"module"
        yield from self.parts[0].around_pieces(_MARKERS.get(self.form, {}))
        yield b" {\n" + opener
        for number, part in enumerate(self.parts):
            yield from part.pieces(form, "device" if number else "host")
        yield closer + b"}\n\n"
        yield from identifiers.write_resources(self._resources)

    def _definitions(self) -> Iterator[Piece]:
        lines: list[bytes] = []
        size = 0
        for part, owned in zip(self.parts, self._owned, strict=True):
            for index in owned:
                name = part.alias_names[index]
                lines.append(b"%s = " % part.renames.aliases.get(name, name))
                start, end = part.table.value(index)
                if end - start < LONGEST:
                    lines += (part.final_value(index), b"\n")
                    size += end - start
                    if size < limits.CHUNK:
                        continue
                yield b"".join(lines)
                lines, size = [], 0
                if end - start >= LONGEST:
                    yield from part.long_value(index)
                    lines = [b"\n"]
        yield b"".join(lines)


def _reasons(new: Mapping[Key, bytes], different: frozenset[Key]) -> tuple[RecordRename, ...]:
    return tuple(
        RecordRename(
            _text(kind),
            _text(unescape(name[1:-1])),
            _text(unescape(new[kind, name][1:-1])),
            "defined differently" if (kind, name) in different else "refers to a renamed record",
        )
        for kind, name in sorted(new)
    )


def _conflict(part: InputModule, why: Sequence[RecordRename]) -> UsageError:
    names = ", ".join(f"{item.kind} {item.old!r}" for item in why if item.reason == "defined differently")
    return UsageError(
        f"records that {part.id or part.name} defines differently: {names}",
        hint="let them be renamed, or the device gets the host's layouts without any error",
    )


def _text(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


# Assignment of modules to requested targets, with everything checked before anything is written.
#
# The rules and sentences are those of ``cir-offload-merge -split``
# (clang/tools/cir-offload-merge/cir-offload-merge.cpp), which writes before all is
# checked, so a failure leaves some files.


def assign_targets(
    container: Container,
    targets: Sequence[str],
    *,
    problem: Callable[[str], str] = bundle_id.refusal_reason,
    exact_first: bool = True,
) -> tuple[Image, ...]:
    """Return the image for each requested target. Modules that match no target are skipped.

    ``problem(id)`` returns the problem of an ID. With ``exact_first`` an ID that is spelled as requested beats those
    that only match; cir-offload-merge calls that ambiguous. Raises UsageError with the tool's message.
    """
    _check(targets, problem)
    chosen: dict[str, Image] = {}
    seen: set[str] = set()
    stored = {image.attrs.get("id", "") for image in container.images}
    for image in container.images:
        spelling = image.attrs.get("id")
        if spelling is None:
            raise _problem(
                "nested module is missing 'cir.offload.bundle_id'", image, "select it by its position instead"
            )
        if spelling in seen:
            raise _problem(f"duplicate module bundle ID '{spelling}'", image)
        seen.add(spelling)
        if problem(spelling):
            raise _problem(f"invalid module bundle ID '{spelling}'", image, problem(spelling))
        if exact_first and spelling in targets:
            matching = [spelling]
        else:
            matching = [
                target
                for target in targets
                if not (exact_first and target in stored) and bundle_id.fits(spelling, target)
            ]
        if len(matching) > 1:
            raise _problem(f"module bundle ID '{spelling}' matches multiple requested targets", image)
        for target in matching:
            if target in chosen:
                raise _problem(f"multiple modules match target '{target}'", image)
            chosen[target] = image
    for target in targets:
        if target not in chosen:
            stored_as = ", ".join(sorted(seen)) or "none"
            raise UsageError(
                f"can't find module for target '{target}'",
                hint=f"the file has {stored_as}",
                chain=container.span.source,
            )
    return tuple(chosen[target] for target in targets)


def _check(targets: Sequence[str], problem: Callable[[str], str]) -> None:
    seen: set[str] = set()
    for target in targets:
        if target in seen:
            raise UsageError(f"duplicate target '{target}'")
        seen.add(target)
        wrong = problem(target)
        if wrong:
            raise UsageError(f"invalid target '{target}'", hint=wrong)


def _problem(text: str, image: Image, hint: str = "") -> UsageError:
    return UsageError(text, hint=hint, chain=image.span.source)
