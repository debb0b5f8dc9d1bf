"""Whether programs register what they launch: the verdicts of :mod:`fatpack.runtime.evidence` on each library."""

from __future__ import annotations

from fatpack.answers.policy.outcome import Violation
from fatpack.answers.policy.reopening import of_packages, opened
from fatpack.answers.stages.facts import OBJECTS, PROGRAMS
from fatpack.answers.stages.reading import read
from fatpack.errors import FatpackError
from fatpack.findings import CODES
from fatpack.outcomes import message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.answers.policy.units import FileUnits
    from fatpack.facts.columns import AnyRow
    from fatpack.io.budget import Budget
    from fatpack.io.source import View
    from fatpack.trees.leaves import Leaf

#: beginning of the codes of what programs register and launch
_VERDICTS = "FP30"

#: beginning of the codes of records that lead to no device code
_RECORDS = "FP303"

#: what is only a warning of a listing fails a check
_SEVERITIES = {"error": "error", "warning": "error", "note": "note"}

_HOSTS = ("elf", "pe", "coff", "archive", "macho", "bitcode")


def violations(found: Iterable[FileUnits], budget: Budget, *, deep: bool) -> Iterator[Violation]:
    """Yield what is wrong with the registration of files that have device code, or were seen to launch some.

    Device code that programs load by themselves is registered by none; if there is nothing else, nothing was checked.
    """
    asked: list[AnyRow] = []
    loose: list[str] = []
    for item in found:
        last = item.last
        is_told = any(code.startswith(_VERDICTS) for code in last.findings)
        if last.host in _HOSTS and last.error is None and (item.units or is_told):
            asked.append(last)
        elif item.units:
            loose.append(last.path)
    packed = of_packages((last.path for last in asked), _of_leaf, budget, deep=deep)
    for last in asked:
        yield from _stated(last)
        verdicts = packed.get(last.path)
        yield from _of(last.path, budget) if verdicts is None else verdicts
    for path in () if asked else loose:
        text = "nothing in it registers its device code: it is no program, library or object"
        yield Violation("FP3301", "error", path, "registration", text, "name the program that registers it")


def _stated(last: AnyRow) -> Iterator[Violation]:
    """Yield what reading the records of a file showed to be wrong with them, and following its code does not tell."""
    for code in last.findings:
        if code.startswith(_RECORDS) and CODES[code][0] != "note":
            said = "; ".join(text for text in last.messages if text.startswith(code))
            yield Violation(code, "error", last.path, "registration", said, f"fatpack inspect {last.path} says more")


def _of_leaf(leaf: Leaf) -> list[Violation] | None:
    """Return the verdicts on a file in a package; None for one that has to be opened to say what is wrong with it."""
    try:
        return None if leaf.view is None else list(_judged(leaf.view, leaf.path))
    except (FatpackError, OSError):
        return None


def _of(path: str, budget: Budget) -> list[Violation]:
    try:
        with opened(path, budget) as source:
            return list(_judged(source.view(), path))
    except (FatpackError, OSError) as error:
        return [Violation("FP3301", "error", path, "registration", message(error))]


def _judged(view: View, path: str) -> Iterator[Violation]:
    given = read(view, path)
    seen: dict[tuple[str, str], None] = {}
    for item in given.findings:
        if item.code.startswith(_VERDICTS) and (item.code, item.message) not in seen:
            seen[item.code, item.message] = None
            yield Violation(item.code, _SEVERITIES[item.severity], path, "registration", item.message, item.hint)
    host = given.host
    if host is None or given.kind not in (OBJECTS, PROGRAMS) or not host.why_not:
        return
    code = "FP3301" if host.registered is None else "FP3310"
    yield Violation(code, CODES[code][0], path, "registration", f"what it registers is not known: {host.why_not}")
