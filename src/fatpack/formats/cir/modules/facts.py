"""What modules state of themselves in their attributes, the same of text and of bytecode."""

from __future__ import annotations

from fatpack.formats.cir.bundle_id import parse_id
from fatpack.formats.cir.expressions import LazyExpression
from fatpack.formats.cir.modules.attributes import parse_kind, read_role, resolve_aliases, string_attribute
from fatpack.formats.cir.vocabulary import BUNDLE_ID, KIND, LANGUAGE_OPTIONS, PROTOTYPE_KIND, ROLES, TRIPLE
from fatpack.model import Target
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.formats.cir.bundle_id import CirBundleId
    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.modules.model import FileOutline, TextModule

_NO_FLAGS: Mapping[str, bool] = {}
_FLAG = LazyExpression(rb"\b(\w+) = (true|false)\b")


class ModuleFacts(Record):
    """A module: where it starts, its name, its role as spelled and in which style (see ``roles``), its bundle ID and
    triple, the flags of the language options that it was compiled with, and the parts of its ID.
    """

    start: int
    name: bytes | None
    kind: str
    style: str
    id: str | None
    triple: str
    options: Mapping[str, bool]
    parts: CirBundleId | None = None

    @property
    def model(self) -> str:
        """The programming model that the language options name; "none" for none."""
        return next((name for name in ("hip", "cuda", "openmp") if self.options.get(name)), "none")


def read_module_facts(module: TextModule, outline: FileOutline) -> ModuleFacts:
    """Return what a module of a text states of itself."""
    found = read_role(module, outline)
    attr = module.attr(LANGUAGE_OPTIONS)
    options = resolve_aliases(module, attr, outline) if attr else b""
    id, triple = string_attribute(module, BUNDLE_ID, outline), string_attribute(module, TRIPLE, outline)
    parts = None if id is None else parse_id(id)
    flags = _flags(options) if options else _NO_FLAGS
    return ModuleFacts(module.start, module.name, found.kind, found.style, id, triple or "", flags, parts)


def read_bytecode_facts(file: BytecodeFile, node: OperationNode) -> ModuleFacts:
    """Return what a module in bytecode states of itself. Raises BadValue for damage."""
    attrs = node.attrs(file)
    key = KIND if KIND in attrs else PROTOTYPE_KIND if PROTOTYPE_KIND in attrs else None
    symbol = node.symbol(file)
    if key is not None:
        attribute = file.attribute(attrs[key])
        text, plain = attribute.text(), attribute.string()
        found = parse_kind(text if text is not None else b'"%s"' % plain if plain is not None else b"")
    else:
        found = parse_kind(None, (symbol or b"").decode("utf-8", "backslashreplace"))
    options = file.attribute(attrs[LANGUAGE_OPTIONS]).text() if LANGUAGE_OPTIONS in attrs else None
    id, triple = _string(file, attrs, BUNDLE_ID), _string(file, attrs, TRIPLE)
    parts, flags = None if id is None else parse_id(id), _flags(options or b"")
    return ModuleFacts(node.start, symbol, found.kind, found.style, id, triple or "", flags, parts)


def module_target(facts: ModuleFacts) -> Target:
    """Return what a module was made for: its bundle ID says, else its triple and its language options."""
    if facts.parts is not None:
        return facts.parts.target
    return Target(facts.triple, "", "host" if facts.kind == ROLES[0] else facts.model)


def _string(file: BytecodeFile, attrs: Mapping[bytes, int], key: bytes) -> str | None:
    value = file.attribute(attrs[key]).string() if key in attrs else None
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _flags(options: bytes) -> dict[str, bool]:
    return {name.decode(): value == b"true" for name, value in _FLAG.findall(options)}
