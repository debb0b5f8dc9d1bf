"""Text → model: the container of a file, its modules as images, and everything that is wrong with it."""

from __future__ import annotations

from itertools import chain

from fatpack.errors import BadValue
from fatpack.findings import FindingTally, finding
from fatpack.formats.cir.agreement import module_contradictions
from fatpack.formats.cir.files.split import SplitFiles, module_image
from fatpack.formats.cir.gpu_binary import unregistered_binary_findings
from fatpack.formats.cir.misplaced import misplaced_in_text
from fatpack.formats.cir.modules.attributes import find_containers
from fatpack.formats.cir.modules.facts import module_target, read_module_facts
from fatpack.formats.cir.modules.kernels import kernels_launched_in_text
from fatpack.formats.cir.modules.model import TextContainer, TextModuleRecord
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.text.faults import LineIndex, damage_finding, syntax_error
from fatpack.formats.cir.verify import ContainerFacts, RuleBreach, check_rules
from fatpack.formats.cir.vocabulary import CIR_FORMAT, CONTAINER, CURRENT
from fatpack.model import Container, Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.formats.cir.modules.facts import ModuleFacts
    from fatpack.formats.cir.modules.model import FileOutline, LaunchedKernels, TextModule
    from fatpack.io.source import View
    from fatpack.model import Finding

#: LIMIT: findings of one code that are listed of a container; a hostile file could have one for every few bytes.
MAX_FINDINGS = 100

_ANOTHER = "another container; cir-offload-merge takes files with exactly one"


def parse_text(view: View, *, strict: bool) -> Container:
    """Return the container that a text holds. Raises BadValue for a text without one or damaged before its modules.

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
    """Return AMD's device modules inside a host module, or raise for a file that is no container at all."""
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
        if tally.keeps(item):  # lines are counted for these alone
            notes.append(item.replace(message=f"{lines.place(breach.at)}: {item.message}"))
    return notes + tally.rest()


def _refuse(view: View, outline: FileOutline, found: Sequence[tuple[TextModule, str]], facts: ContainerFacts) -> None:
    """Raise for the first thing that makes a container unusable: what the findings of severity error say."""
    if len(found) > 1:
        raise syntax_error(
            view, found[1][0].start, "another container", hint="cir-offload-merge takes exactly one in a file"
        )
    for breach in chain(check_rules(facts), misplaced_in_text(outline)):
        if breach.is_fatal:
            raise syntax_error(view, breach.at, breach.text, hint=breach.hint)
