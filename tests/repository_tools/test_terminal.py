"""The pictures of a terminal show what their commands print, load nothing, and stand on a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import terminal

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("name", "command"), terminal.SHOTS.items(), ids=list(terminal.SHOTS))
def test_a_picture_shows_what_its_command_prints(name: str, command: str) -> None:
    kept = (terminal.IMAGES / f"{name}.svg").read_text(encoding="utf-8")
    drawn = terminal.drawn(name, command, terminal.printed(command))
    assert terminal.words(kept) == terminal.words(drawn), "run python -m tools.terminal"
    assert terminal.words(kept)[:3] == ["fatpack", command.split()[1], "$"]
    assert "url(http" not in kept
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert any(f"images/{name}.svg" in page.read_text(encoding="utf-8") for page in pages)


def test_another_word_is_another_picture() -> None:
    one, other = (
        terminal.drawn("shot", "fatpack check x", f"\x1b[1m{word}\x1b[0m: x") for word in ("passed", "failed")
    )
    assert terminal.words(one) != terminal.words(other)
    assert "passed" in " ".join(terminal.words(one))
