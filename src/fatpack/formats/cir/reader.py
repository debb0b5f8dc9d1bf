"""Reader: the container of a file, text or bytecode, and its modules as images."""

from __future__ import annotations

from itertools import chain

from fatpack import limits
from fatpack.errors import BadValue, FormatError
from fatpack.findings import FindingTally, finding
from fatpack.formats.cir.bytecode.operations import IrWalker, OperationNode, outermost_operation
from fatpack.formats.cir.bytecode.sections import (
    DIALECTS,
    NEWEST,
    STRINGS,
    BytecodeFile,
    bytecode_error,
    is_bytecode,
    read_header,
    read_sections,
)
from fatpack.formats.cir.files.split import SplitFiles, module_image
from fatpack.formats.cir.gpu_binary import unregistered_binary_findings
from fatpack.formats.cir.modules.attributes import (
    find_containers,
    kernels_launched_in_bytecode,
    kernels_launched_in_text,
    make_bytecode_module,
    module_target,
    read_bytecode_facts,
    read_module_facts,
)
from fatpack.formats.cir.modules.model import BytecodeContainer, TextContainer, TextModuleRecord
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.text.lexer import MARGIN
from fatpack.formats.cir.text.strings import LineIndex, damage_finding, syntax_error
from fatpack.formats.cir.verify import (
    ContainerFacts,
    RuleBreach,
    check_rules,
    misplaced_in_bytecode,
    misplaced_in_text,
    module_contradictions,
)
from fatpack.formats.cir.vocabulary import (
    CIR_FORMAT,
    CONTAINER,
    CURRENT,
    OFFLOAD_MODULE,
    OFFLOAD_SYMBOL,
    PROTOTYPE,
    ROLES,
    LazyExpression,
)
from fatpack.formats.diagnostics import FindingCollector
from fatpack.model import Container, Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.cir.modules.attributes import ModuleFacts
    from fatpack.formats.cir.modules.model import FileOutline, LaunchedKernels, TextModule
    from fatpack.io.source import View
    from fatpack.model import Finding


# Detection of a container in text: by the lexer, not by a search, and mostly from the first bytes.

#: Bytes examined first. The rest is read only if they may be MLIR and the file contains a word of containers.
_WINDOW = 64 << 10

#: Words of which every container, or AMD's other representation of one, contains one.
_WORDS = (CONTAINER, PROTOTYPE, OFFLOAD_MODULE, OFFLOAD_SYMBOL.encode())

_DEFINITION = LazyExpression(rb"[#!][\w$.-]+[ \t]*=(?!=)|\{-#")

#: Possible first bytes of textual MLIR, after blanks and comments.
_STARTS = frozenset(b'#!"{%') | frozenset(range(65, 91)) | frozenset(range(97, 123)) | {95}


_COMMENTS = LazyExpression(rb"(?:[ \t\r\n]++|//[^\r\n]*+)*+")


class _ContainerFound(Exception):
    """Ends the search; not an error."""


class _Detector(Outliner):
    def on_container(self) -> None:
        raise _ContainerFound


def is_text_container(view: View) -> bool:
    """Return whether a text is a container, or AMD's other representation of one."""
    head = view.head(0, _WINDOW)
    if not _may_be_mlir(head):
        return False
    if len(view) <= _WINDOW:
        return _is_marked(view)
    detector = _Detector(view.slice(0, _WINDOW))
    try:
        damage = detector.outline().damage
    except _ContainerFound:
        return True
    # After the end of the window anything may follow; damage before it remains damage.
    is_cut = damage is None or damage.offset is None or damage.offset - view.offset(0) > _WINDOW - MARGIN
    if not is_cut and not _begins(head):
        return False
    return any(view.find(word) >= 0 for word in _WORDS) and _is_marked(view)


def _is_marked(view: View) -> bool:
    """Return whether a whole text has a container at a valid place."""
    detector = _Detector(view)
    try:
        damage = detector.outline().damage
    except _ContainerFound:
        return True
    # Damage before the first operation hides the rest: the parser reports it.
    hides = damage is not None and detector.first_operation is None and _begins(view.head(0, _WINDOW))
    return hides and view.find(CONTAINER) >= 0


def _may_be_mlir(head: bytes) -> bool:
    if b"\0" in head[:256]:
        return False
    text = _skip_comments(head)
    if text in (b"", b"/"):  # only comments so far
        return head.lstrip(b" \t\r\n\0").startswith(b"//")
    return text[0] in _STARTS


def _begins(head: bytes) -> bool:
    """Return whether a text begins like MLIR alone does: with an alias definition, valid or not, or with metadata."""
    return _DEFINITION.match(_skip_comments(head)) is not None


def _skip_comments(head: bytes) -> bytes:
    found = _COMMENTS.match(head)
    return head[found.end() :] if found else head


# Text → model: the container of a file, its modules as images, and all findings.

#: LIMIT: findings of one code that are listed for a container; a hostile file could have one for every few bytes.
MAX_FINDINGS = 100

_ANOTHER = "another container; cir-offload-merge takes files with exactly one"


def parse_text(view: View, *, strict: bool) -> Container:
    """Return the container that a text holds. Raises BadValue for a text without one or with damage before its modules.

    Damage further on, several containers and broken rules become findings; ``strict`` raises for the first of them.
    """
    outline = Outliner(view).outline()
    if strict and outline.damage:
        raise outline.damage
    found = find_containers(outline)
    if not found:
        return _without_container(view, outline)
    container, form = found[0]
    facts = _facts(outline, container, form)
    modules = _modules(container)
    if outline.damage and not modules:
        raise outline.damage
    launched = kernels_launched_in_text(modules)
    files = SplitFiles(outline)
    images = tuple(
        _text_image(files, module, stated, launched) for module, stated in zip(modules, facts.modules, strict=True)
    )
    if strict:
        _refuse(view, outline, found, facts)
    notes = _text_notes(view, outline, found, facts)
    attrs = {"form": form}
    stored = TextContainer(outline, container, form, images, attrs)
    return Container(CIR_FORMAT, 0, images, view.span(), attrs=attrs, findings=tuple(notes), record=stored)


def _modules(container: TextModule) -> list[TextModule]:
    return [module for module in container.modules if not module.is_op]


def _facts(outline: FileOutline, container: TextModule, form: str) -> ContainerFacts:
    marker = container.attr(CONTAINER)
    wrong = marker.key[0] if marker and marker.value is not None else None
    modules = tuple(read_module_facts(module, outline) for module in _modules(container))
    return ContainerFacts(container.start, container.is_op, form, wrong, container.first, container.stray, modules)


def _text_image(files: SplitFiles, module: TextModule, facts: ModuleFacts, launched: LaunchedKernels) -> Image:
    stored = module.text.slice(module.start, module.end - module.start)
    attrs = {} if facts.id is None else {"id": facts.id}
    return module_image(
        module_target(facts), TextModuleRecord(files.outline, module, facts.kind, launched), stored, attrs, files
    )


def _without_container(view: View, outline: FileOutline) -> Container:
    """Return AMD's device modules inside a host module, or raise for a file that is not a container."""
    modules = [item for host in outline.modules for item in host.contents.offload_modules]
    modules += outline.contents.offload_modules
    if not modules:
        raise outline.damage or _no_container(view, outline)
    images = []
    for item in modules:
        data = view.slice(item.start, item.end - item.start)
        offload = "hip" if item.target.startswith("gfx") else "cuda" if item.target.startswith("sm_") else "none"
        target = Target("", item.target, offload)
        images.append(Image(target, "cir", data, len(data), len(data), data.span(), record=item))
    attrs = {"form": "offload-module"}
    text = "AMD's offload.module representation, not an offload container: it is listed, not split"
    notes = [finding("FP1509", images[0].span, text)]
    if outline.damage:
        notes.insert(0, damage_finding(view, outline.damage))
    stored = TextContainer(outline, None, "offload-module", tuple(images), attrs)
    return Container(CIR_FORMAT, 0, tuple(images), view.span(), attrs=attrs, findings=tuple(notes), record=stored)


def _no_container(view: View, outline: FileOutline) -> BadValue:
    breach = next((breach for breach in misplaced_in_text(outline) if breach.is_fatal), None)
    if breach is not None:
        return syntax_error(view, breach.at, breach.text)
    at = outline.modules[0].start if outline.modules else 0
    expected = "a module with the attribute cir.offload.container"
    found = "a CIR or MLIR module that is none" if outline.modules else "no module"
    return syntax_error(view, at, "not an offload container", expected=expected, found=found)


def _text_notes(
    view: View, outline: FileOutline, found: Sequence[tuple[TextModule, str]], facts: ContainerFacts
) -> list[Finding]:
    notes = [damage_finding(view, outline.damage)] if outline.damage else []
    lines = LineIndex(view)
    form = facts.form
    if form not in (CURRENT, "nested"):
        text = f"the container has the form {form!r} of an older producer"
        notes.append(finding("FP1507", view.span(facts.start, 0), text, f"current clang wants the form {CURRENT!r}"))
    hosts = (
        module for module, stated in zip(_modules(found[0][0]), facts.modules, strict=True) if stated.kind == "host"
    )
    registrations = chain.from_iterable(map(unregistered_binary_findings, hosts))
    found_wrong = chain(
        check_rules(facts), module_contradictions(facts.modules), misplaced_in_text(outline), registrations
    )
    others = (RuleBreach("FP1508", other.start, _ANOTHER, "only the first is listed") for other, _ in found[1:])
    tally = FindingTally(MAX_FINDINGS)
    for breach in chain(found_wrong, others):
        item = finding(breach.code, view.span(breach.at, 0), breach.text, breach.hint)
        if tally.keeps(item):  # lines are counted only for these
            notes.append(item.replace(message=f"{lines.place(breach.at)}: {item.message}"))
    return notes + tally.rest()


def _refuse(view: View, outline: FileOutline, found: Sequence[tuple[TextModule, str]], facts: ContainerFacts) -> None:
    """Raise for the first finding of severity error, which makes a container unusable."""
    if len(found) > 1:
        raise syntax_error(
            view, found[1][0].start, "another container", hint="cir-offload-merge takes exactly one in a file"
        )
    for breach in chain(check_rules(facts), misplaced_in_text(outline)):
        if breach.is_fatal:
            raise syntax_error(view, breach.at, breach.text, hint=breach.hint)


# Interface functions for text and bytecode.


def detect(view: View, at: int = 0) -> bool:
    """Return whether a container starts at ``at``: a module whose first operations mark it as one.

    Reads the first 64 KiB; more only after alias definitions, and in bytecode and generic text that contains the words
    of a container.
    """
    stored = view.slice(at, len(view) - at)
    try:
        if is_bytecode(stored):
            return is_bytecode_container(stored)

        return is_text_container(stored)
    except FormatError:
        return False


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the container at ``at`` takes: all that follow, since a file holds nothing else."""
    return len(view) - at if at <= len(view) and detect(view, at) else None


def parse(view: View, at: int = 0, *, strict: bool = False) -> Container:
    """Return the container that starts at ``at``. Images are the modules' spans of the view; nothing is copied.

    :func:`~fatpack.formats.cir.files.split.split_image` makes a file of an image, with everything that the module
    needs. Damage after the first module, broken rules, duplicate and missing bundle IDs are findings; ``strict`` raises
    for the first that makes a container unusable. Raises BadValue, with line and column, if there is no container, and
    LimitExceeded.
    """
    stored = view.slice(at, len(view) - at)
    if is_bytecode(stored):
        return parse_bytecode(stored, strict=strict)

    return parse_text(stored, strict=strict)


def check_syntax(view: View) -> None:
    """Raise FormatError if the syntax of a file of MLIR, container or not, shows damage."""
    if is_bytecode(view):
        from fatpack.formats.cir.bytecode.operations import IrWalker
        from fatpack.formats.cir.bytecode.sections import BytecodeFile

        walker = IrWalker(BytecodeFile(view))
        walker.walk()
        damage = walker.damage
    else:
        from fatpack.formats.cir.modules.outline import Outliner

        damage = Outliner(view).outline().damage
    if damage:
        raise damage


_ATTRIBUTES = frozenset((CONTAINER, PROTOTYPE))
#: Words in the strings of a container; operations are stored without the name of their dialect.
_MARKERS = (b"offload.container\0", PROTOTYPE + b"\0")


def is_bytecode_container(view: View) -> bool:
    """Return whether bytecode is a container, even a damaged one."""
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
    """Return whether a module is marked at a valid place; true for damage, which the parser reports."""
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
    """Return the container in bytecode. Raises BadValue if there is none or the tables are damaged.

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
        faults.add_warning(breach.code, view.span(breach.at, 0), breach.text, breach.hint)
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
    """Yield findings about the registration of hosts that were lowered."""
    from fatpack.formats.cir.gpu_binary import check_registration, is_lowered, read_host_facts

    if is_lowered(file):
        for node, stated in zip(modules, facts.modules, strict=True):
            shown = read_host_facts(file, node) if stated.kind == ROLES[0] else None
            if shown:
                yield from check_registration(shown)


def _containers(file: BytecodeFile, root: OperationNode) -> list[tuple[OperationNode, str]]:
    """Return the containers: the file's module, or those directly in it."""
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
