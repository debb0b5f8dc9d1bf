"""What bash asks on TAB, put together again: it breaks ``--by=a`` into ``--by``, ``=`` and ``a`` (COMP_WORDBREAKS).

Bash replaces the last of these words, so that the answer is the value alone; where its user took ``=`` out of
COMP_WORDBREAKS, the word is whole, and the answer too.
"""

from __future__ import annotations

from click.shell_completion import BashComplete, CompletionItem, add_completion_class

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


@add_completion_class
class Bash(BashComplete):
    """The completion for bash, which takes options with values behind ``=``."""

    _before = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """Return the words in front of the one at the cursor, and that one, none of them broken."""
        words, last = super().get_completion_args()
        if last.startswith("--") and "=" in last:
            self._before = last[: last.index("=") + 1]
        *words, last = joined([*words, last])
        return words, last

    def format_completion(self, item: CompletionItem[Any]) -> str:
        """Return an answer as the script of bash reads it."""
        value = f"{self._before}{item.value}" if item.type == "plain" else item.value
        return f"{item.type},{value}"


def joined(words: Iterable[str]) -> list[str]:
    """Return words with options that were broken at ``=`` in one piece."""
    whole: list[str] = []
    is_behind = False  # the word before is a ``=`` that was broken off
    for word in words:
        if whole and whole[-1].startswith("--") and (word == "=" or (is_behind and word)):
            whole[-1] += word
        else:
            whole.append(word)
        is_behind = word == "="
    return whole
