"""Bytecode → model: the container of a file and its modules as images."""

from __future__ import annotations

from itertools import chain

from fatpack import limits
from fatpack.errors import FormatError
from fatpack.findings import finding
from fatpack.formats.cir.agreement import module_contradictions
from fatpack.formats.cir.bytecode.operations import IrWalker, OperationNode, outermost_operation
from fatpack.formats.cir.bytecode.sections import DIALECTS, NEWEST, STRINGS, BytecodeFile, read_header, read_sections
from fatpack.formats.cir.bytecode.stream import bytecode_error
from fatpack.formats.cir.files.split import module_image
from fatpack.formats.cir.misplaced_bytecode import misplaced_in_bytecode
from fatpack.formats.cir.modules.alone import make_bytecode_module
from fatpack.formats.cir.modules.facts import module_target, read_bytecode_facts
from fatpack.formats.cir.modules.kernels import kernels_launched_in_bytecode
from fatpack.formats.cir.modules.model import BytecodeContainer
from fatpack.formats.cir.verify import ContainerFacts, check_rules
from fatpack.formats.cir.vocabulary import CIR_FORMAT, CONTAINER, CURRENT, PROTOTYPE, ROLES
from fatpack.formats.diagnostics import FindingCollector
from fatpack.model import Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.cir.modules.facts import ModuleFacts
    from fatpack.formats.cir.modules.model import LaunchedKernels
    from fatpack.formats.cir.verify import RuleBreach
    from fatpack.io.source import View
    from fatpack.model import Finding, Image

_ATTRIBUTES = frozenset((CONTAINER, PROTOTYPE))
#: What the strings of a container hold; operations are stored without the name of their dialect.
_MARKERS = (b"offload.container\0", PROTOTYPE + b"\0")


def is_bytecode_container(view: View) -> bool:
    """Return whether bytecode is a container, or would be if it were not damaged."""
    try:
        sections = read_sections(view, read_header(view).end)
    except FormatError:
        tail = view.head(max(len(view) - limits.CHUNK, 0), limits.CHUNK)
        return any(marker in tail for marker in _MARKERS)
    strings = next((section for section in sections if section.id == STRINGS), None)
    if strings is None:
        return False
    part = view.slice(strings.data, strings.end - strings.data)
    return any(part.find(marker) >= 0 for marker in _MARKERS) and _has_container(view)


def _has_container(view: View) -> bool:
    """Return whether a module is marked where that counts; true for damage, which the parser is to report."""
    try:
        file = BytecodeFile(view)
        attributes = outermost_operation(file).attributes
        if attributes is not None and not _ATTRIBUTES.isdisjoint(file.attribute(attributes).dictionary()):
            return True
        walker = IrWalker(file)
        return any(form for _, form in _containers(file, walker.walk())) or walker.damage is not None
    except FormatError:
        return True


def parse_bytecode(view: View, *, strict: bool) -> Container:
    """Return the container that bytecode holds. Raises BadValue where there is none or the tables are damaged.

    Damage further on and broken rules become findings; ``strict`` raises for the first of them.
    """
    file = BytecodeFile(view)
    walker = IrWalker(file)
    root = walker.walk()
    if strict and walker.damage:
        raise walker.damage
    found = [(node, form) for node, form in _containers(file, root) if form]
    if not found:
        raise walker.damage or bytecode_error(
            view,
            file.section(DIALECTS).start,
            "IR",
            "not an offload container",
            expected="a module with the attribute cir.offload.container",
            found="a module that is none",
        )
    node, form = found[0]
    facts = ContainerFacts(
        node.start,
        node.is_op,
        form,
        _wrong_marker(file, node),
        node.first,
        node.stray,
        tuple(read_bytecode_facts(file, inner) for inner in node.modules if not inner.is_op),
    )
    modules = [inner for inner in node.modules if not inner.is_op]
    if walker.damage and not modules:
        raise walker.damage
    launched = kernels_launched_in_bytecode(file, modules)
    images = tuple(
        _bytecode_image(file, inner, stated, launched) for inner, stated in zip(modules, facts.modules, strict=True)
    )
    notes = _bytecode_notes(view, file, walker, found)
    found_wrong = chain(
        check_rules(facts),
        module_contradictions(facts.modules),
        misplaced_in_bytecode(file, root),
        _registrations(file, modules, facts),
    )
    faults = FindingCollector()
    for breach in found_wrong:
        if strict and breach.is_fatal:
            raise bytecode_error(view, breach.at, "IR", breach.text)
        faults.unexpected(breach.code, view.span(breach.at, 0), breach.text, breach.hint)
    notes += faults.findings
    attrs = {"form": form, "flavour": "bytecode", "producer": file.header.producer}
    return Container(
        CIR_FORMAT,
        file.version,
        images,
        view.span(),
        attrs=attrs,
        findings=tuple(notes),
        record=BytecodeContainer(view, images, attrs, file),
    )


def _registrations(file: BytecodeFile, modules: Sequence[OperationNode], facts: ContainerFacts) -> Iterator[RuleBreach]:
    """Yield what is wrong with the registration of hosts that were lowered."""
    from fatpack.formats.cir.gpu_binary import check_registration
    from fatpack.formats.cir.registration_bytecode import is_lowered, read_host_facts

    if is_lowered(file):
        for node, stated in zip(modules, facts.modules, strict=True):
            shown = read_host_facts(file, node) if stated.kind == ROLES[0] else None
            if shown:
                yield from check_registration(shown)


def _containers(file: BytecodeFile, root: OperationNode) -> list[tuple[OperationNode, str]]:
    """Return the containers: the file's module, or what lies directly in it."""
    found = []
    for module in root.modules:
        form = _form(file, module)
        if form:
            found.append((module, form))
        else:
            inner = [(node, _form(file, node)) for node in module.modules]
            found += [(node, form if form.startswith("op") or not form else "nested") for node, form in inner]
    return found


def _form(file: BytecodeFile, node: OperationNode) -> str:
    if node.is_op:
        styles = {read_bytecode_facts(file, inner).style for inner in node.modules if not inner.is_op}
        return "op" if styles & {"draft", "enum"} else "op-string"
    attrs = node.attrs(file)
    if CONTAINER in attrs:
        return "attribute"
    return "prototype" if PROTOTYPE in attrs else ""


def _wrong_marker(file: BytecodeFile, node: OperationNode) -> int | None:
    number = node.attrs(file).get(CONTAINER)
    return None if number is None or file.attribute(number).is_unit() else node.start


def _bytecode_image(file: BytecodeFile, node: OperationNode, facts: ModuleFacts, launched: LaunchedKernels) -> Image:
    stored = file.view.slice(node.start, node.end - node.start)
    attrs = {} if facts.id is None else {"id": facts.id}
    return module_image(module_target(facts), make_bytecode_module(file, node, facts, launched), stored, attrs)


def _bytecode_notes(
    view: View, file: BytecodeFile, walker: IrWalker, found: list[tuple[OperationNode, str]]
) -> list[Finding]:
    notes = []
    if walker.damage:
        offset = walker.damage.offset or view.offset(0)
        span = view.span(offset - view.offset(0), 0)
        notes.append(finding("FP1501", span, walker.damage.describe(), walker.damage.hint))
    if file.version > NEWEST:
        text = f"MLIR bytecode version {file.version} of {file.header.producer}; {NEWEST} is the newest known"
        notes.append(finding("FP1510", view.span(0, 0), text))
    for node, _ in found[1:]:
        text = "another container; cir-offload-merge takes files with exactly one"
        notes.append(finding("FP1508", view.span(node.start, 0), text, "only the first is listed"))
    if found[0][1] not in (CURRENT, "nested"):
        text = f"the container has the form {found[0][1]!r} of an older producer"
        hint = f"current clang wants the form {CURRENT!r}"
        notes.append(finding("FP1507", view.span(found[0][0].start, 0), text, hint))
    return notes
