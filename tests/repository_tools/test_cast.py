"""The cast shows the output of the tutorial's commands, one after another; it loads nothing and can be paused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.reference import package, tool

from tools import cast, terminal

ROOT = Path(__file__).parents[2]
KEPT = cast.CAST.read_text(encoding="utf-8")


@pytest.mark.reference
def test_the_cast_shows_what_the_commands_of_the_tutorial_print() -> None:
    tool("gcc")
    package("wheel")
    scenes = cast.recorded()
    assert [scene.title for scene in scenes] == list(cast.SCENES)
    assert [len(scene.commands) for scene in scenes] == [1, 5, 3]
    assert cast.masked(KEPT) == cast.masked(cast.drawn(scenes)), "run python -m tools.cast"


def test_the_cast_loads_nothing_and_is_on_pages() -> None:
    assert "http" not in KEPT.replace("http://www.w3.org/2000/svg", "")
    assert len(KEPT) < 20_000
    for page in (ROOT / "README.md", cast.PAGE):
        assert "images/cast-tutorial.svg" in page.read_text(encoding="utf-8")


def test_every_command_is_shown_before_its_output_and_leaves_with_its_scene() -> None:
    two = [cast.Scene("One", [("a", "x\ny"), ("b", "")]), cast.Scene("Two", [("c", "\x1b[1mz\x1b[0m")])]
    picture = cast.drawn(two)
    moments = re.findall(r"@keyframes cast-(\S+) \{ (.*) \}", picture)
    shown = {
        name: [float(at) for at, opacity in re.findall(r"([\d.]+)% \{ opacity: ([01]) \}", frames) if opacity == "1"]
        for name, frames in moments
    }
    gone = {name: frames.rpartition("% { opacity: 0 } 100.00%")[0].rpartition(" ")[2] for name, frames in moments}
    assert shown["0-0c"] < shown["0-0o"] < shown["0-1c"] < shown["1"] == shown["1-0c"] < shown["1-0o"]
    assert gone["0"] == gone["0-0c"] == gone["0-1c"] == f"{shown['1'][0]:.2f}"
    assert terminal.words(picture) == ["One", "$", "a", "x", "y", "$", "b", "Two", "$", "c", "z"]


def test_readers_who_want_no_motion_see_the_last_scene() -> None:
    assert re.search(r"prefers-reduced-motion\) \{ g g \{ animation: none !important \} \.cast-2, ", KEPT)
