"""Attributes of modules: the container of a file and its form, the role, target and kernels of each module."""

from __future__ import annotations

from functools import lru_cache

from fatpack.errors import FormatError
from fatpack.formats.cir.bundle_id import parse_bundle_id
from fatpack.formats.cir.bytecode.sections import is_bytecode
from fatpack.formats.cir.modules.contents import list_functions, sorted_op_counts
from fatpack.formats.cir.modules.model import BytecodeModuleRecord, LaunchedKernels, TextModuleRecord
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.text.header import LONGEST, read_short_text
from fatpack.formats.cir.text.lexer import SIGIL_ID, Lexer
from fatpack.formats.cir.text.strings import unescape
from fatpack.formats.cir.vocabulary import (
    BUNDLE_ID,
    CONTAINER,
    KIND,
    LANGUAGE_OPTIONS,
    PROTOTYPE,
    PROTOTYPE_KIND,
    ROLES,
    TRIPLE,
    LazyExpression,
)
from fatpack.io.inflated import PicklableCall
from fatpack.model import Target
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.formats.cir.bundle_id import CirBundleId
    from fatpack.formats.cir.bytecode.operations import ModuleFunctions, OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.modules.model import FileOutline, TextModule
    from fatpack.formats.cir.text.header import TextAttribute
    from fatpack.io.source import View


_KIND = LazyExpression(
    rb'#cir\.offload<[ \t\r\n]*(\w+)[ \t\r\n]*>|#cir\.offload_kind<[ \t\r\n]*(\w+)[ \t\r\n]*>|"(\w*)"'
)
_STYLES = ("", "enum", "draft", "string")


class ModuleRole(Record):
    """The role that a module states: ``kind`` as spelled, and its ``style``: enum, draft, string, name, or ""."""

    kind: str
    style: str


def find_containers(outline: FileOutline) -> list[tuple[TextModule, str]]:
    """Return the containers of a file, each with its form; the file's own module, or what lies directly in it.

    The upstream tool takes the file's module if that is a container, else the containers directly in it.
    """
    is_module = len(outline.modules) == 1 and not outline.others and not outline.modules[0].is_op
    found: list[tuple[TextModule, str]] = []
    for module in outline.modules:
        form = _form(module)
        if form:
            found.append((module, form if is_module or form.startswith("op") else "nested"))
        elif is_module:
            for inner in module.modules:
                form = _form(inner)
                if form:
                    found.append((inner, form if form.startswith("op") else "nested"))
    return found


def _form(module: TextModule) -> str:
    """Return the form of a container by its marker and the roles of its modules; "" for no container."""
    if module.is_op:
        styles = {read_role(inner).style for inner in module.modules}
        return "op" if "draft" in styles or "enum" in styles else "op-string"
    if module.attr(CONTAINER):
        return "attribute"
    return "prototype" if module.attr(PROTOTYPE) else ""


def read_role(module: TextModule, outline: FileOutline | None = None) -> ModuleRole:
    """Return the role of a module in a container; ``outline`` resolves an alias in the attribute."""
    attr = module.attr(KIND) or module.attr(PROTOTYPE_KIND)
    if attr:
        return parse_kind(resolve_aliases(module, attr, outline))
    return parse_kind(None, (module.name or b"").decode("utf-8", "backslashreplace"))


@lru_cache(maxsize=256)
def parse_kind(value: bytes | None, name: str = "") -> ModuleRole:
    """Return the role in the text of an attribute; without one, the role that the module's name implies."""
    if value is None:
        return ModuleRole(name, "name") if name in ROLES else ModuleRole("", "")
    found = _KIND.fullmatch(value.strip())
    if found is None or found.lastindex is None:
        return ModuleRole(value[:60].decode("utf-8", "backslashreplace"), "other")
    return ModuleRole(found[found.lastindex].decode("utf-8", "backslashreplace"), _STYLES[found.lastindex])


def string_attribute(module: TextModule, name: bytes, outline: FileOutline | None = None) -> str | None:
    """Return the value of an attribute that is a string; None if it is missing or not a string."""
    attr = module.attr(name)
    value = resolve_aliases(module, attr, outline).strip() if attr else b""
    if len(value) < 2 or len(value) == LONGEST or not value.startswith(b'"') or not value.endswith(b'"'):
        return None
    return unescape(value[1:-1]).decode("utf-8", "surrogateescape")


def resolve_aliases(module: TextModule, attr: TextAttribute, outline: FileOutline | None) -> bytes:
    """Return the text of a value; an alias is looked up, and aliases of aliases."""
    value = attr.literal if attr.literal is not None else read_short_text(Lexer(module.text), attr.value)
    if outline is None or value[:1] != b"#" or b"." in value or not SIGIL_ID.fullmatch(value):
        return value
    found = outline.aliases.value(value)
    return value if found is None else found


# Facts that modules state in their attributes, for text and bytecode alike.

_NO_FLAGS: Mapping[str, bool] = {}
_FLAG = LazyExpression(rb"\b(\w+) = (true|false)\b")


class ModuleFacts(Record):
    """A module: where it starts, its name, its role as spelled and its style (:class:`ModuleRole`), its bundle ID and
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
        """The programming model in the language options; "none" if they have none."""
        return next((name for name in ("hip", "cuda", "openmp") if self.options.get(name)), "none")


def read_module_facts(module: TextModule, outline: FileOutline) -> ModuleFacts:
    """Return the stated facts of a module of a text."""
    found = read_role(module, outline)
    attr = module.attr(LANGUAGE_OPTIONS)
    options = resolve_aliases(module, attr, outline) if attr else b""
    id, triple = string_attribute(module, BUNDLE_ID, outline), string_attribute(module, TRIPLE, outline)
    parts = None if id is None else parse_bundle_id(id)
    flags = _flags(options) if options else _NO_FLAGS
    return ModuleFacts(module.start, module.name, found.kind, found.style, id, triple or "", flags, parts)


def read_bytecode_facts(file: BytecodeFile, node: OperationNode) -> ModuleFacts:
    """Return the stated facts of a module in bytecode. Raises BadValue for damage."""
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
    parts, flags = None if id is None else parse_bundle_id(id), _flags(options or b"")
    return ModuleFacts(node.start, symbol, found.kind, found.style, id, triple or "", flags, parts)


def module_target(facts: ModuleFacts) -> Target:
    """Return the target of a module, from its bundle ID, else from its triple and its language options."""
    if facts.parts is not None:
        return facts.parts.target
    return Target(facts.triple, "", "host" if facts.kind == ROLES[0] else facts.model)


def _string(file: BytecodeFile, attrs: Mapping[bytes, int], key: bytes) -> str | None:
    value = file.attribute(attrs[key]).string() if key in attrs else None
    return None if value is None else value.decode("utf-8", "surrogateescape")


def _flags(options: bytes) -> dict[str, bool]:
    return {name.decode(): value == b"true" for name, value in _FLAG.findall(options)}


# The kernels of modules, by name: functions with a body and a kernel's calling convention, and functions launched by a
# stub of the same file. Files of 2025 and hand-written ones do not always state the convention.


def kernels_launched_in_text(modules: Sequence[TextModule]) -> LaunchedKernels:
    """Return the kernels that modules of a text launch."""
    return LaunchedKernels(PicklableCall(_in_texts, modules))


def _in_texts(modules: Sequence[TextModule]) -> Iterator[str]:
    return (stub.kernel for module in modules for stub in module.contents.stubs)


def kernels_launched_in_bytecode(file: BytecodeFile, nodes: Sequence[OperationNode]) -> LaunchedKernels:
    """Return the kernels that modules in bytecode launch."""
    return LaunchedKernels(PicklableCall(_launches_in_bytecode, file, nodes))


def _launches_in_bytecode(file: BytecodeFile, nodes: Sequence[OperationNode]) -> Iterator[str]:
    from fatpack.formats.cir.bytecode.operations import read_functions

    for node in nodes:
        yield from (kernel for _, kernel in read_functions(file, node).launches)


def module_kernels(record: TextModuleRecord | BytecodeModuleRecord) -> tuple[str, ...] | None:
    """Return the kernels of a module, each once; None if they cannot be decoded."""
    if isinstance(record, BytecodeModuleRecord):
        from fatpack.formats.cir.bytecode.operations import read_functions

        return bytecode_kernels(record, read_functions(record.file, record.node))
    named = record.module.contents.kernels
    missing = () if record.role == "host" else record.launched.names.difference(named)
    if not missing:
        return named
    try:
        defined = list_functions(record.module)
    except FormatError:  # a body without an end is damage, which the container's findings report
        return named
    return (*named, *(name for name in defined if name in missing))


def bytecode_kernels(record: BytecodeModuleRecord, read: ModuleFunctions) -> tuple[str, ...] | None:
    """Return the same as :func:`module_kernels`, for a module in bytecode whose functions were read.

    If functions are registered operations, only their dialect could decode them: the result is None, not "no kernels".
    """
    if not read.has_all:
        return None
    missing = () if record.role == "host" else record.launched.names.difference(read.kernels)
    return (*read.kernels, *(name for name in read.defined if name in missing))


# Modules at file level, in any file, read like modules of a container.


def plain_modules(view: View) -> tuple[tuple[TextModuleRecord | BytecodeModuleRecord, ModuleFacts], ...]:
    """Return the modules at file level, with their stated facts. Raises FormatError for damaged bytecode.

    Of damaged text the modules before the damage are returned; their outline has the error.
    """
    return tuple(_modules_in_bytecode(view) if is_bytecode(view) else modules_in_text(Outliner(view).outline()))


def modules_in_text(outline: FileOutline) -> Iterator[tuple[TextModuleRecord, ModuleFacts]]:
    """Yield the modules at file level of a text, with their stated facts."""
    modules = [module for module in outline.modules if not module.is_op]
    launched = kernels_launched_in_text(modules)
    for module in modules:
        facts = read_module_facts(module, outline)
        yield TextModuleRecord(outline, module, facts.kind, launched), facts


def _modules_in_bytecode(view: View) -> Iterator[tuple[BytecodeModuleRecord, ModuleFacts]]:
    from fatpack.formats.cir.bytecode.operations import IrWalker
    from fatpack.formats.cir.bytecode.sections import BytecodeFile

    file = BytecodeFile(view)
    nodes = [node for node in IrWalker(file).walk().modules if not node.is_op]
    launched = kernels_launched_in_bytecode(file, nodes)
    for node in nodes:
        facts = read_bytecode_facts(file, node)
        yield make_bytecode_module(file, node, facts, launched), facts


def make_bytecode_module(
    file: BytecodeFile, node: OperationNode, facts: ModuleFacts, launched: LaunchedKernels
) -> BytecodeModuleRecord:
    """Return the record of a module in bytecode."""
    counts = sorted_op_counts({file.names[number]: count for number, count in node.counts.items()})
    return BytecodeModuleRecord(file, node, facts.name, facts.kind, counts, launched)
