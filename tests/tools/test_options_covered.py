"""Every option in the help of an original is in the table of its stand-in's page, with what becomes of it.

``options/NAME.txt`` holds the option names of the original's help, of all versions that are followed, so that the
tables are checked where the original is not to be had; where it is, its help is read anew. A page has a section
``## Options`` with a table: options in the first column, their state in the second. ``python -m
tests.tools.test_options_covered NAME…`` records the names again.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.reference import llvm_tool, tool

from fatpack.tools import TOOLS

RECORDED = Path(__file__).parent / "options"
PAGES = Path(__file__).parents[2] / "docs" / "tools"

#: How the second column of a table begins: as the original does it, by the original itself, not at all, accepted
#: without effect, in words of our own.
STATES = ("equal", "handed over", "refused", "ignored", "ours")

#: stand-in → the versions of LLVM whose help is read, none for tools that are looked up by their name alone. Those that
#: are not here have no binary to ask: their names are from the original's source.
ORIGINALS: dict[str, tuple[str, ...]] = {
    "llvm-offload-binary": ("22", "23"),
    "clang-offload-bundler": ("22", "23"),
    "llvm-offload-wrapper": ("22", "23"),
    "llvm-objdump": ("22", "23"),
    "clang-linker-wrapper": ("22", "23"),
    "llvm-readobj": ("22", "23"),
    "fatbinary": (),
    "cuobjdump": (),
    "nvprune": (),
    "roc-obj-ls": (),
    "roc-obj-extract": (),
    "roc-obj": (),
}

#: A line of a help text that begins with an option, and an option in what is not its explanation.
_LINE = re.compile(r"^ *(-.*?)(?: {2,}| - |$)(?:\((-[\w-]+)\) *$)?")
_OPTION = re.compile(r"(?<![^\s,])--?[A-Za-z0-9#][\w#-]*")


def options_of(text: str) -> set[str]:
    """Return the options that a help text lists, in all their spellings, as LLVM's and NVIDIA's tools lay it out."""
    found: set[str] = set()
    for line in text.splitlines():
        match = _LINE.match(line)
        if match:
            found |= {*_OPTION.findall(match[1]), *filter(None, match.groups()[1:])}
    return found


def _help(name: str) -> set[str]:
    versions = ORIGINALS[name]
    paths = [llvm_tool(name, version) for version in versions] or [tool(name)]
    texts = [subprocess.run([path, "--help"], capture_output=True, text=True, check=True).stdout for path in paths]
    return set().union(*map(options_of, texts))


def _recorded(name: str) -> set[str]:
    return set((RECORDED / f"{name}.txt").read_text().split())


def _table(page: Path) -> dict[str, str]:
    """Return what a page says of each option. Fails on a row without a state."""
    _, heading, section = page.read_text().partition("\n## Options\n")
    assert heading, f"{page.name} has no section ## Options"
    states: dict[str, str] = {}
    for line in section.partition("\n## ")[0].splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        options = [word for quoted in re.findall(r"`([^`]+)`", cells[0]) for word in _OPTION.findall(quoted)]
        if len(cells) < 2 or not options or not line.startswith("|"):
            continue
        assert cells[1].startswith(STATES), f"{page.name}: {cells[0]} has none of the states {', '.join(STATES)}"
        states |= dict.fromkeys(options, cells[1])
    return states


def _page(name: str) -> Path:
    """Return the page of a stand-in: its own, or that of the first name of the same module."""
    first = next(other for other, module in TOOLS.items() if module == TOOLS[name])
    own = PAGES / f"{name}.md"
    return own if own.exists() else PAGES / f"{first}.md"


@pytest.mark.parametrize("name", TOOLS)
def test_the_page_says_what_becomes_of_every_option(name: str) -> None:
    page = _page(name)
    missing = _recorded(page.stem) - _table(page).keys()
    assert not missing, f"docs/tools/{page.name} lacks {', '.join(sorted(missing))} in its table of options"


@pytest.mark.reference
@pytest.mark.parametrize("name", ORIGINALS)
def test_the_recorded_options_are_those_of_the_original(name: str) -> None:
    """Releases add options: all that the original's help names are recorded, so that the table has to have them."""
    missing = _help(name) - _recorded(name)
    assert not missing, f"record them: python -m tests.tools.test_options_covered {name}"


def test_help_texts_of_every_layout_are_read() -> None:
    assert options_of("  --a=<b c>   - Do --this\n  -o <file>  - Write\n    =c   -   no option\n") == {"--a", "-o"}
    assert options_of("  --a <x> <y>\n             says --b\n  -mllvm <arg>  Arguments\n") == {"--a", "-mllvm"}
    assert options_of("--list-elf <x>,...    (-lelf)   \n        List -all\n-h, --help  show\n") == {
        "--list-elf",
        "-lelf",
        "-h",
        "--help",
    }


if __name__ == "__main__":
    for tool_name in sys.argv[1:]:
        (RECORDED / f"{tool_name}.txt").write_text("\n".join(sorted(_help(tool_name))) + "\n")
