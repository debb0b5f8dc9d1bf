"""The cast of the tutorial that README and the site show: ``python -m tools.cast [--check]``.

All commands of ``docs/tutorial.md`` run in an empty folder, with colours; the scenes of the cast are sections of that
page. It is one animated SVG that loads nothing and reveals the terminal command by command. ``--check`` writes nothing
and exits 1 if the words differ from those that the commands print now, except addresses and sizes, which depend on the
linker.
"""

from __future__ import annotations

import re
import shlex
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tools import terminal

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "tutorial.md"
CAST = terminal.IMAGES / "cast-tutorial.svg"

#: section of the page → prefixes of its commands that are shown
SCENES = {
    "What is missing": "fatpack check",
    "The second build": "",
    "A smaller wheel": "fatpack slim",
}

#: Seconds: before a command's output, to read a line of it, and before the next scene.
_THINK, _READ, _REST = 0.9, 0.35, 2.0

#: The height of a line, and the position of the first one, as rich draws them.
_LINE, _TOP = 24.4, 20.0
_WIDE = 1482


class Scene(NamedTuple):
    """A section of the page: its title, and each command with its output."""

    title: str
    commands: list[tuple[str, str]]


def recorded() -> list[Scene]:
    """Return the scenes: every command of the page runs, in order, in a folder that is empty at first."""
    scenes = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "tests").symlink_to(ROOT / "tests")
        inner = Path(folder) / "tutorial"
        inner.mkdir()
        for title, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S):
            commands = re.findall(r"^\$ (.*)$", body, re.MULTILINE)
            ran = [(command, _printed(command, inner)) for command in commands]
            if title in SCENES:
                scenes.append(Scene(title, [item for item in ran if item[0].startswith(SCENES[title])]))
    return scenes


def _printed(command: str, folder: Path) -> str:
    program, *rest = shlex.split(command)
    words = ["bash", "-c", command]
    if program == "fatpack":
        words = [sys.executable, "-m", "fatpack", *rest, "--color=always"]
    elif program == "python":
        words = [sys.executable, *rest]
    return terminal.ran(words, folder)


def drawn(scenes: list[Scene]) -> str:
    """Return the cast: a terminal in which the scenes follow one another, in a loop."""
    parts, rules, at, tall = [], [], 0.0, 0
    times: list[tuple[str, float, float]] = []
    for number, scene in enumerate(scenes):
        name = f"cast-{number}"
        row, started = 0, len(times)
        parts.append(f'<g class="{name}"><text x="{_WIDE // 2}" y="-14" class="title">{scene.title}</text></g>\n')
        times.append((name, at, 0.0))
        for step, (command, output) in enumerate(scene.commands):
            picture = terminal.drawn(f"{name}-{step}", command, output)
            rules += re.findall(rf"^\s*(\.{name}-{step}-r\d+ .*)$", picture, re.MULTILINE)
            lines = _lines(picture)
            head = len(_lines(terminal.drawn(f"{name}-{step}", command, "")))
            for kind, shown in (("c", lines[:head]), ("o", lines[head:])):
                if shown:
                    texts = "".join(_moved(line, row + place) for place, line in enumerate(shown))
                    parts.append(f'<g class="{name}-{step}{kind}">{texts}</g>\n')
                    times.append((f"{name}-{step}{kind}", at, 0.0))
                    at += _THINK if kind == "c" else _READ * len(shown)
                    row += len(shown)
        at += _REST
        times[started:] = [(group, start, at) for group, start, _ in times[started:]]
        tall = max(tall, row)
    return _framed(parts, rules, times, at, tall)


def _lines(picture: str) -> list[list[str]]:
    """Return the texts of each line of a picture, from the top."""
    rows: dict[str, list[str]] = {}
    for element in re.findall(r'<text class="[^"]*-r\d+".*?</text>', picture, re.DOTALL):
        if element.partition(">")[2].partition("<")[0].strip():
            rows.setdefault(element.partition(' y="')[2].partition('"')[0], []).append(element)
    return [rows[place] for place in sorted(rows, key=float)]


def _moved(texts: list[str], row: int) -> str:
    """Return the texts of a line for another row, without the clips that rich puts around each line."""
    place = f"{_TOP + row * _LINE:.1f}"
    return "".join(re.sub(r' clip-path="[^"]*"', "", re.sub(r' y="[^"]*"', f' y="{place}"', text)) for text in texts)


def _framed(parts: list[str], rules: list[str], times: list[tuple[str, float, float]], total: float, tall: int) -> str:
    """Return the window around all groups, with the times at which each is shown."""
    high = _LINE * tall + 60
    style = [*dict.fromkeys(rules), "text { font-family: Fira Code, monospace; font-size: 20px }"]
    style += [
        ".title { fill: #c5c8c6; font-family: arial; font-weight: bold; text-anchor: middle }",
        "g g { opacity: 0 }",
    ]
    for group, start, end in times:
        first, last = 100 * start / total, 100 * end / total
        moments = {0.0: 0, first: 1, last: 0, 100.0: 0}
        frames = " ".join(f"{moment:.2f}% {{ opacity: {shown} }}" for moment, shown in moments.items())
        style.append(f"@keyframes {group} {{ {frames} }}")
        style.append(f".{group} {{ animation: {group} {total:.1f}s step-end infinite }}")
    still = ", ".join(f".{group}" for group, _, end in times if end == total)
    style.append(f"@media (prefers-reduced-motion) {{ g g {{ animation: none !important }} {still} {{ opacity: 1 }} }}")
    dots = "".join(
        f'<circle cx="{26 + 22 * number}" cy="22" r="7" fill="{colour}"/>'
        for number, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    return (
        f'<svg viewBox="0 0 {_WIDE} {high:.1f}" xmlns="http://www.w3.org/2000/svg">\n'
        f"<style>\n{chr(10).join(style)}\n</style>\n"
        f'<rect fill="#292929" stroke="rgba(255,255,255,0.35)" x="1" y="1" '
        f'width="{_WIDE - 2}" height="{high - 2:.1f}" rx="8"/>\n'
        f'{dots}\n<g transform="translate(9, 41)">\n{"".join(parts)}</g>\n</svg>\n'
    )


def masked(picture: str) -> str:
    """Return the words of a cast without addresses and sizes, which depend on a linker and a zlib."""
    text = " ".join(terminal.words(picture))
    return re.sub(r"0x[0-9a-f]+|-?\d+(?:\.\d+)? (?:[kM]?B|%)(?!\w)", "N", text)


def main(arguments: list[str]) -> int:
    """Write the cast, or say that it is stale; return the exit code."""
    return terminal.renewed({CAST: drawn(recorded())}, masked, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
