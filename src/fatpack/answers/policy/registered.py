"""Whether programs register what they launch: the verdicts of :mod:`fatpack.runtime.evidence` on each library."""

from __future__ import annotations

from fatpack.answers.policy.kernels import opened
from fatpack.answers.policy.outcome import Violation
from fatpack.answers.stages.facts import OBJECTS, PROGRAMS
from fatpack.answers.stages.reading import read
from fatpack.errors import FatpackError
from fatpack.findings import CODES
from fatpack.outcomes import message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.answers.policy.units import Library
    from fatpack.io.budget import Budget

#: beginning of the codes of what programs register and launch
_VERDICTS = "FP30"

#: what is only a warning of a listing fails a check
_SEVERITIES = {"error": "error", "warning": "error", "note": "note"}

_HOSTS = ("elf", "pe", "coff", "archive", "macho", "bitcode")


def violations(found: Iterable[Library], budget: Budget) -> Iterator[Violation]:
    """Yield what is wrong with the registration of files that have device code, or were seen to launch some.

    Device code that programs load by themselves is registered by none; if there is nothing else, nothing was checked.
    """
    loose: list[str] = []
    is_checked = False
    for item in found:
        last = item.last
        is_told = any(code.startswith(_VERDICTS) for code in last.findings)
        if last.host in _HOSTS and last.error is None and (item.units or is_told):
            is_checked = True
            yield from _of(last.path, budget)
        elif item.units:
            loose.append(last.path)
    for path in () if is_checked else loose:
        text = "nothing in it registers its device code: it is no program, library or object"
        yield Violation("FP3301", "error", path, "registration", text, "name the program that registers it")


def _of(path: str, budget: Budget) -> Iterator[Violation]:
    try:
        with opened(path, budget) as source:
            given = read(source.view(), path)
    except (FatpackError, OSError) as error:
        yield Violation("FP3301", "error", path, "registration", message(error))
        return
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
