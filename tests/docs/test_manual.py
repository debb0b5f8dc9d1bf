"""The manual pages: complete, and clean for the programs that show them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from tests import reference

from fatpack.command_line.examples import EXAMPLES
from fatpack.commands import COMMANDS, load_command
from fatpack.tools import TOOLS
from fatpack.tools.command import option_spellings
from fatpack.tools.versions import FOLLOWED

FOLDER = Path(__file__).parents[2] / "share" / "man" / "man1"
PAGES = sorted(FOLDER.glob("*.1"))


def test_every_command_and_stand_in_has_a_page() -> None:
    names = [*COMMANDS, *(f"tool-{name}" for name in TOOLS)]
    assert {path.name for path in PAGES} == {"fatpack.1", *(f"fatpack-{name}.1" for name in names)}


@pytest.mark.reference
@pytest.mark.parametrize("name", TOOLS)
def test_a_page_of_a_stand_in_has_its_options_and_versions(name: str) -> None:
    text = shown(FOLDER / f"fatpack-tool-{name}.1").replace("\u2010", "-")
    assert all(option in text for option in option_spellings(name))
    followed = FOLLOWED.get(name)
    if followed:
        assert f"It follows {followed.project} {', '.join(followed.known)}" in text


@pytest.mark.reference
def test_pages_have_no_mistakes() -> None:
    done = subprocess.run([reference.tool("mandoc"), "-Tlint", *PAGES], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for path in PAGES:
        done = subprocess.run(
            [reference.tool("groff"), "-ww", "-man", "-Tutf8", "-z", path], capture_output=True, text=True
        )
        assert (done.returncode, done.stderr) == (0, "")


def shown(path: Path, width: str = "1000") -> str:
    """Return a page as its reader sees it, each paragraph in one line."""
    command = [reference.tool("mandoc"), "-Tutf8", "-O", f"width={width}", path]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return " ".join(re.sub(".\b", "", text).split())  # bold is a letter over itself


@pytest.mark.reference
@pytest.mark.parametrize("name", COMMANDS)
def test_a_page_says_what_help_says(name: str) -> None:
    text = shown(FOLDER / f"fatpack-{name}.1")
    declared = load_command(name)
    assert " ".join((declared.help or "").split()) in text.replace("\u2010", "-")
    for option in declared.options:
        assert all(spelling in text for spelling in option.opts)
        assert " ".join((option.help or "").split()) in text, option.opts
    for words, _ in EXAMPLES[name]:
        assert f"fatpack {words}" in text


@pytest.mark.reference
def test_man_shows_a_page_without_a_warning() -> None:
    done = subprocess.run(
        [reference.tool("man"), "--warnings", "-l", FOLDER / "fatpack.1"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANPAGER": "cat"},
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "fatpack-inspect(1)" in done.stdout
