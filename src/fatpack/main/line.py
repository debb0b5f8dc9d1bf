"""A command line as its shell passes it, up to the cursor: its words in one piece, without quotes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def parse_bash_line(line: str, words: Sequence[str]) -> tuple[list[str], str]:
    """Return the words behind the program without quotes, and what of the last one, as it was typed, bash replaces.

    Bash breaks words at ``=``, ``:`` and ``@`` (COMP_WORDBREAKS), also into words of their own, and replaces the last
    one: of ``--arch=sm_9`` only ``sm_9``, but of ``=@a`` all of ``@a`` (rl_special_prefixes). Where no blank stands
    between two words in the line, they are one.
    """
    whole: list[str] = []
    kept = at = 0
    for each in words:
        word, start = each, line.find(each, at)
        if start < 0:  # the cursor is inside of this word
            word = line[at:].lstrip()
            start = len(line) - len(word)
        if whole and start == at and word:
            kept = len(whole[-1].removesuffix("@"))
            whole[-1] += word
            kept = len(whole[-1]) if word.strip("=:") == "" else kept
        else:
            kept = 0
            whole.append(word)
        at = start + len(word)
    return [unquote(word) for word in whole[1:]], whole[-1][kept:] if whole else ""


def unquote(word: str) -> str:
    """Return a word without the quotes and backslashes of the shell, also where a quote is still open at its end."""
    if not any(mark in word for mark in "\\\"'"):
        return word
    from shlex import split

    for end in ("", "\\", "'", '"'):
        try:
            return "".join(split(word + end))
        except ValueError:
            pass
    return word
