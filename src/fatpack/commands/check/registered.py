"""Whether programs register what they launch: the verdict of :mod:`fatpack.scanner.registration_verdict` on each
library."""

from __future__ import annotations

from fatpack.commands.check.model import UNJUDGED, Violation
from fatpack.commands.check.reopening import map_package_files, reopen
from fatpack.errors import FatpackError
from fatpack.exit_codes import error_message, exit_code
from fatpack.scanner.registration_verdict import NO_VERDICT, NOT_JUDGED, judge_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.budget import Budget
    from fatpack.commands.check.rule_context import FileImageSets
    from fatpack.inputs.files import InputFile
    from fatpack.io.source import View

#: what is only a warning of a listing fails a check
_SEVERITIES = {"error": "error", "warning": "error", "note": "note"}

_HOSTS = ("elf", "pe", "coff", "archive", "macho", "bitcode", "wasm")


def registration_violations(
    found: Iterable[FileImageSets], budget: Budget, *, deep: bool, strict: bool
) -> Iterator[Violation]:
    """Yield what is wrong with the registration of files, and what of it was not judged: errors if that is ``strict``.

    Device code that programs load by themselves is registered by none; if there is nothing else, nothing was judged.
    """
    hosts: list[str] = []
    loose: list[str] = []
    for item in found:
        last = item.last
        if last.host in _HOSTS and last.error is None:
            hosts.append(last.path)
        elif item.units:
            loose.append(last.path)
    severity = "error" if strict else "note"
    packed = map_package_files(hosts, _of_leaf, budget, deep=deep)
    is_any = False
    for path in hosts:
        verdicts = packed.get(path)
        registers, made = _file_registration_violations(path, budget) if verdicts is None else verdicts
        is_any = is_any or registers
        yield from (each.replace(severity=severity) if each.code == UNJUDGED else each for each in made)
    for path in () if is_any else loose:
        text = f"{NOT_JUDGED}: nothing in it registers its device code: it is no program, library or object"
        yield Violation(UNJUDGED, severity, path, "registration", text, "name the program that registers it")


def _of_leaf(leaf: InputFile) -> tuple[bool, list[Violation]] | None:
    """Return whether a file in a package has to do with a runtime, and the verdict on it.

    None for one that has to be opened to say what is wrong with it.
    """
    try:
        return None if leaf.view is None else _judged(leaf.view, leaf.path)
    except (FatpackError, OSError):
        return None


def _file_registration_violations(path: str, budget: Budget) -> tuple[bool, list[Violation]]:
    try:
        with reopen(path, budget) as source:
            return _judged(source.view(), path)
    except (FatpackError, OSError) as error:
        return True, [Violation("FP3301", "error", path, "registration", error_message(error), unread=exit_code(error))]


def _judged(view: View, path: str) -> tuple[bool, list[Violation]]:
    verdict = judge_file(view)
    seen: dict[tuple[str, str], Violation] = {}
    for item in verdict.findings:
        made = Violation(item.code, _SEVERITIES[item.severity], path, "registration", item.message, item.hint)
        seen.setdefault((item.code, item.message), made)
    if verdict.word == NOT_JUDGED:
        seen[UNJUDGED, ""] = Violation(UNJUDGED, "note", path, "registration", verdict.text)
    return verdict.word != NO_VERDICT, list(seen.values())
