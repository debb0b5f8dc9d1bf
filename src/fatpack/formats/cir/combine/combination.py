"""Host and device modules → one container, in the order and with the names that cir-offload-merge gives them.

Theory of operation:

1. Everything is decided, and everything that can be wrong is found, before the first byte is yielded.
2. The host comes first and keeps its names. Each device is compared with all that is combined so far.
3. Records first (:mod:`~fatpack.formats.cir.combine.rename`), since a renamed record changes the value of the aliases
   that stand for it; then resource keys; then aliases, in the order of their definitions. As a definition uses only
   earlier ones, one pass reaches the fixed point: an alias is shared when name and value, after renaming, are equal.
4. Bodies are passed on as they are but for names that change; only headers are written anew.

Unlike the upstream tool nothing is optimised, locations stay, and no alias is expanded.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import UsageError
from fatpack.findings import finding
from fatpack.formats.cir.agreement import CHECK_IDS, container_contradictions, role_contradictions
from fatpack.formats.cir.bundle_id import parse_id
from fatpack.formats.cir.combine.parts import InputModule
from fatpack.formats.cir.combine.rename import Interner, plan_record_renames, record_definitions
from fatpack.formats.cir.files import identifiers
from fatpack.formats.cir.files.aliases import LONGEST, AliasTable, find_needs
from fatpack.formats.cir.modules.facts import read_module_facts
from fatpack.formats.cir.text.strings import unescape
from fatpack.formats.cir.vocabulary import CONTAINER, FORMS, PROTOTYPE, PROTOTYPE_MAP, ROLES
from fatpack.io.source import Span
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.formats.cir.combine.rename import Key
    from fatpack.io.source import Piece
    from fatpack.model import Finding


#: form → the attributes that mark the outermost module as a container
_MARKERS: Mapping[str, Mapping[bytes, bytes | None]] = {
    "attribute": {CONTAINER: None},
    "prototype": {PROTOTYPE: b"{device = @device, host = @host}", PROTOTYPE_MAP: b"[]"},
}
#: form → what opens and closes the container where it lies in that module
_INSIDE = {
    "nested": (b"  module attributes {cir.offload.container} {\n", b"  }\n"),
    "op": (b"  cir.offload.container {\n", b"  }\n"),
    "op-string": (b"  cir.offload.container {\n", b"  }\n"),
}


class RecordRename(Record):
    """A record of a device module that cannot keep its name: its kind, both names, and why."""

    kind: str
    old: str
    new: str
    reason: str


class PartReport(Record):
    """What happened to one module: the name it gets, its ID, and what was renamed in it."""

    name: str
    id: str
    source: str
    aliases: Mapping[str, str]
    records: tuple[RecordRename, ...]
    resources: Mapping[str, str]


class Combination:
    """A container that is ready to be written: :attr:`report` says what was decided, :meth:`pieces` are its bytes."""

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
                    continue  # settings of tools, which belong to no module: the first wins
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
        """What happened to each module, in the order of the container."""
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
        """What the modules state of themselves that contradicts the places they get, and each other."""
        stated = [read_module_facts(part.module, part.outline) if part.module else None for part in self.parts]
        found = []
        for number, (part, module) in enumerate(zip(self.parts, stated, strict=True)):
            if part.module and module:
                span = part.outline.text.span(part.module.start, 0)
                given = None if part.id is None else parse_id(part.id)
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
