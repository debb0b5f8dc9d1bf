"""A policy's outcome for GitHub Actions: workflow commands on stdout, and a table for the summary of the step.

Format: docs.github.com, "Workflow commands for GitHub Actions" (``::error title=…::message``; ``%``, line breaks and,
in properties, ``:`` and ``,`` are escaped), and the Markdown that is appended to the file of ``GITHUB_STEP_SUMMARY``.
"""

from __future__ import annotations

from fatpack.commands.check.text import check_headline, kernel_words
from fatpack.printable import format_size
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.commands.check.model import CheckResult, Violation

_GITHUB_LEVELS = {"error": "error", "warning": "error", "note": "notice"}

#: LIMIT: annotations; GitHub shows ten of each level for a step, and fifty for a job
_MOST = 50

#: LIMIT: rows of the table; a summary of more than a mebibyte is refused
_ROWS = 500


def workflow_commands(checked: CheckResult) -> Iterator[str]:
    """Yield the workflow commands, and behind them the first line of the text."""
    for item in checked.violations[:_MOST]:
        title = _property(f"fatpack {item.code}")
        where = f"{item.path}: " if item.path else ""
        hint = f"; {item.hint}" if item.hint else ""
        reason = f" ({item.holes[0].reason})" if item.holes else ""
        yield f"::{_GITHUB_LEVELS[item.severity]} title={title}::{_data(f'{where}{item.message}{reason}{hint}')}"
    if len(checked.violations) > _MOST:
        yield f"::notice title=fatpack::{len(checked.violations) - _MOST} more are in the summary of the step"
    if not checked.unlooked.is_asked:
        yield f"::notice title=fatpack::{_data(checked.unlooked.sentence())}"
    # A line with ##[ anywhere in it is a command, too (ActionCommand.cs of actions/runner), unless it begins with ::
    yield check_headline(checked).replace("##[", "# #[")


def github_summary(checked: CheckResult) -> Iterator[str]:
    """Yield the lines of the summary, in GitHub's Markdown."""
    yield f"### fatpack check: {_cell(check_headline(checked))}"
    yield ""
    if checked.unlooked:
        yield _cell(checked.unlooked.sentence())
        yield ""
    if checked.violations:
        yield "| | file | what | units | kernels |"
        yield "|---|---|---|---|---|"
        yield from (_row(item) for item in checked.violations[:_ROWS])
        if len(checked.violations) > _ROWS:
            yield f"| | | {len(checked.violations) - _ROWS} more | | |"
        yield ""
    if checked.libraries:
        broken = {item.path for item in checked.violations if item.is_broken}
        yield "| library | | size | units | architectures |"
        yield "|---|---|---:|---:|---|"
        for library in checked.libraries[:_ROWS]:
            outcome = "failed" if library.path in broken else "ok" if library.is_asked else "not asked"
            cells = (library.path, outcome, format_size(library.size), str(library.units), ", ".join(library.archs))
            yield f"| {' | '.join(map(_cell, cells))} |"
        yield ""


def _row(item: Violation) -> str:
    names = dict.fromkeys(name for hole in item.holes for name in hole.kernels or ())
    units = f"{len(item.holes)} of {item.units}" if item.holes else ""
    kernels = kernel_words(tuple(names)) if names else ""
    cells = (item.code, item.path, item.message, units, kernels)
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    """Return text as a cell of a table: nothing in it is markup."""
    escaped = printable(text).replace("&", "&amp;")
    for char in "\\`*_[]<>|~":
        escaped = escaped.replace(char, f"\\{char}")
    return escaped


def _data(text: str) -> str:
    return printable(text).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
