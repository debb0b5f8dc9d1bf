"""The options of stand-ins, from the tables of their pages: for shells, and for manual pages."""

from __future__ import annotations

import re
from pathlib import Path

from fatpack.tools import TOOLS

PAGES = Path(__file__).parents[2] / "docs" / "tools"

#: Words in the table for options without an effect.
_OF_NO_USE = ("refused", "ignored")

_OPTION = re.compile(r"(?<![^\s,])--?[A-Za-z0-9#][\w#-]*")


def offered() -> str:
    """Return a line for each stand-in: its name, and its options in the order of its page."""
    return "".join(" ".join([name, *_of_use(name)]) + "\n" for name in TOOLS)


def rows(name: str) -> list[tuple[tuple[str, ...], str]]:
    """Return the rows of a stand-in's table of options: the spellings of the options, and their treatment."""
    text = _page(name).read_text(encoding="utf-8").partition("\n## Options\n")[2].partition("\n## ")[0]
    found = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        options = [word for quoted in re.findall(r"`([^`]+)`", cells[0]) for word in _OPTION.findall(quoted)]
        if line.startswith("|") and len(cells) > 1 and options:
            found.append((tuple(dict.fromkeys(options)), cells[1]))
    return found


def _of_use(name: str) -> dict[str, None]:
    return dict.fromkeys(
        option for options, state in rows(name) if not state.startswith(_OF_NO_USE) for option in options
    )


def _page(name: str) -> Path:
    """Return the page of a stand-in: its own, or that of the first name of the same module."""
    own = PAGES / f"{name}.md"
    first = next(other for other, module in TOOLS.items() if module == TOOLS[name])
    return own if own.exists() else PAGES / f"{first}.md"
