"""One question of a shell, and what it is told."""

from __future__ import annotations

import sys

from fatpack.cli.completing import line
from fatpack.cli.grammar.completion_scripts import SCRIPTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def run(shell: str, arguments: Sequence[str]) -> int:
    """Print the answers for the last word of a command line, or with ``bash_source`` the script that asks.

    Of a question that is none, nothing is said: a word on stderr would stand in the middle of what is typed.
    """
    if shell.removesuffix("_source") not in SCRIPTS:
        return 1
    if shell.endswith("_source"):
        sys.stdout.write(SCRIPTS[shell.removesuffix("_source")])
        return 0
    from fatpack.cli.completing.answers import answers

    words = list(arguments)
    replaced = ""
    if shell == "bash":
        words, replaced = line.of_bash(words[0] if words else "", words[1:])
    if not words:
        return 0
    if shell == "fish":
        words[-1] = line.unquoted(words[-1])
    for answer in answers(words[:-1], words[-1], _held):
        value = answer.value
        if shell == "bash" and answer.kind == "plain":
            value = replaced + value[len(words[-1]) :]  # the quotes and backslashes that were typed stay
        sys.stdout.write(f"{answer.kind}\t{value}\t{answer.help}\n".encode("utf-8", "replace").decode())
    return 0


def _held(what: str, files: Sequence[str]) -> Iterable[str] | None:
    """Return what files hold; what reads them is loaded where that is asked alone."""
    from fatpack.cli.completing.contents import held

    return held(what, files)
