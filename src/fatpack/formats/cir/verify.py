"""The rules of a container, in the words of the CIR dialect's verifier and of cir-offload-merge.

Source of the sentences: ``CIRDialect::verifyOperationAttribute`` in clang/lib/CIR/Dialect/IR/CIRDialect.cpp
(llvm-project#206576) and clang/tools/cir-offload-merge/cir-offload-merge.cpp of its author. Upstream stops at the first
broken rule; all of them are listed here.
"""

from __future__ import annotations

from fatpack.errors import cli_or_api
from fatpack.formats.cir import bundle_id
from fatpack.formats.cir.vocabulary import ROLES
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.cir.modules.facts import ModuleFacts

#: Codes of what makes a container unusable; the others are worth knowing.
_FATAL = frozenset(("FP1502", "FP1504", "FP1506", "FP1515"))


class ContainerFacts(Record):
    """What the rules ask about a container.

    ``wrong_marker`` is where a marker stands that is no unit attribute, ``first`` and ``stray`` where the first
    operation of any kind and the first that is no module do.
    """

    start: int
    is_op: bool
    form: str
    wrong_marker: int | None
    first: int | None
    stray: int | None
    modules: tuple[ModuleFacts, ...]


class RuleBreach(Record):
    """A broken rule: the finding's code, where, the sentence, and advice."""

    code: str
    at: int
    text: str
    hint: str = ""

    @property
    def is_fatal(self) -> bool:
        """Whether the container cannot be used because of it."""
        return self.code in _FATAL


def check_rules(facts: ContainerFacts) -> Iterator[RuleBreach]:
    """Yield what is wrong with a container: its structure first, then names and bundle IDs."""
    yield from _structure(facts)
    yield from _names(facts.modules)
    yield from _ids(facts.modules)


def _structure(facts: ContainerFacts) -> Iterator[RuleBreach]:
    prefix = "'cir.offload.container' op " if facts.is_op else "'builtin.module' op "
    modules = facts.modules
    if facts.wrong_marker is not None:
        yield RuleBreach("FP1502", facts.wrong_marker, "expects 'cir.offload.container' to be a unit attribute")
    if not modules or facts.first != modules[0].start:
        at = facts.start if facts.first is None else facts.first
        yield RuleBreach("FP1502", at, f"{prefix}expects host module as the first nested op")
    found = [breach for number, module in enumerate(modules) for breach in _role(module, number, facts.form)]
    if modules and facts.stray is not None and facts.stray > modules[0].start:
        sentence = "nested module operations" if facts.form == "op-string" else "nested builtin.module ops"
        found.append(RuleBreach("FP1502", facts.stray, f"{prefix}expects only {sentence}"))
    if len(modules) == 1 and not found:
        found.append(RuleBreach("FP1502", facts.start, f"{prefix}expects at least one device module"))
    yield from sorted(found, key=lambda breach: breach.at)


def _role(module: ModuleFacts, number: int, form: str) -> Iterator[RuleBreach]:
    wanted = ROLES[min(number, 1)]
    own = f"module {number}{module_words(module)}: 'builtin.module' op "
    if module.style not in _styles(form):
        what = "string attribute" if form == "op-string" else "offload kind attribute"
        code, hint = ("FP1515", "converting the container rewrites it") if module.kind == wanted else ("FP1502", "")
        yield RuleBreach(code, module.start, f"{own}expects 'cir.offload.kind' {what}", hint)
    elif module.kind != wanted:
        other = f", found {module.kind!r}" if module.kind not in ROLES else ""
        yield RuleBreach("FP1502", module.start, f"{own}expects 'cir.offload.kind' value '{wanted}'{other}")


def _styles(form: str) -> tuple[str, ...]:
    """Return the styles of kinds that a form has; names stand for kinds in the very first prototype."""
    if form in ("op-string", "prototype"):
        return ("string", "name")
    return ("draft",) if form == "op" else ("enum",)


def module_words(module: ModuleFacts) -> str:
    """Return the name of a module in words, "" for none."""
    return f" @{module.name.decode('utf-8', 'backslashreplace')}" if module.name is not None else ""


def _names(modules: Sequence[ModuleFacts]) -> Iterator[RuleBreach]:
    names: set[bytes] = set()
    for module in modules:
        if module.name is not None and module.name in names:
            name = module.name.decode("utf-8", "backslashreplace")
            hint = "every module of a container needs a name of its own"
            yield RuleBreach("FP1506", module.start, f"redefinition of symbol named '{name}'", hint)
        names.add(module.name or b"")


def _ids(modules: Sequence[ModuleFacts]) -> Iterator[RuleBreach]:
    without = [module for module in modules if module.id is None]
    if without:
        text = f"nested module{module_words(without[0])} is missing 'cir.offload.bundle_id'"
        more = len(without) - 1
        text += f", and so {'is' if more == 1 else 'are'} {more} more" if more else ""
        convert = cli_or_api("fatpack convert --format=cir --cir-ids=ID,ID,...", "CirOptions(ids=[…])")
        advice = f"it cannot be split off by its target; give IDs: {convert}"
        yield RuleBreach("FP1503", without[0].start, text, advice)
    ids: set[str] = set()
    for module in modules:
        if module.id is None:
            continue
        shown = module.id.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        if module.id in ids:
            hint = "every module needs an ID of its own, or they cannot be distinguished"
            yield RuleBreach("FP1504", module.start, f"duplicate module bundle ID '{shown}'", hint)
        ids.add(module.id)
        wrong = bundle_id.refusal_reason(module.id)
        if wrong:
            yield RuleBreach("FP1505", module.start, f"invalid module bundle ID '{shown}': {wrong}")
        elif module.parts is not None and module.parts.is_misplaced:
            text = f"the processor of '{shown}' stands in the place of the environment"
            yield RuleBreach("FP1511", module.start, text, "cir-offload-merge sees none; write two dashes before it")
