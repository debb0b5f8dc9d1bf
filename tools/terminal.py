"""Pictures of a terminal for README and the pages: ``python -m tools.terminal [--check]``.

Each shows the output of a command with ``--color=always`` in a terminal of 120 columns, as SVG by rich. ``--check``
writes nothing and exits 1 if a picture shows other words than its command prints now; a new version of rich draws
differently, which makes no picture stale.
"""

from __future__ import annotations

import html
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
LIBRARY = ROOT / "tests" / "fixtures" / "cuda_fatbin" / "hosts" / "libtwo.so"

#: Width of terminals.
COLUMNS = 120

#: picture → the command that it shows
SHOTS = {
    "terminal-inspect": "fatpack inspect libkernels.so --by arch,form",
    "terminal-check": "fatpack check libkernels.so --require sm_75,sm_90",
    "terminal-explain": "fatpack explain libkernels.so --device T4",
    "terminal-slim": "fatpack slim libkernels.so --for sm_90 --dry-run",
}


def printed(command: str) -> str:
    """Return the output of a command on a terminal, in a folder with the library that all of them name."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(LIBRARY, Path(folder) / "libkernels.so")
        return ran([sys.executable, "-m", *shlex.split(command), "--color=always"], Path(folder))


def ran(program: list[str], folder: Path) -> str:
    """Return the output of a program in a folder, on a terminal of that width, with its messages."""
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "PYTHONUTF8": "1"}
    done = subprocess.run(
        program, cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    return done.stdout


def drawn(name: str, command: str, output: str) -> str:
    """Return the picture of a command and its output. It loads nothing from elsewhere."""
    from rich.console import Console
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
    console.print(Text.from_ansi(output.rstrip("\n")), soft_wrap=False)
    picture = console.export_svg(title=" ".join(shlex.split(command)[:2]), unique_id=name)
    return re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL).rstrip() + "\n"


def words(picture: str) -> list[str]:
    """Return the words that a picture shows, in order."""
    texts = re.findall(r"<text[^>]*>(.*?)</text>", picture, re.DOTALL)
    return html.unescape(" ".join(texts)).replace("\xa0", " ").split()


def renewed(pictures: Mapping[Path, str], shown: Callable[[str], object], arguments: list[str]) -> int:
    """Write the pictures that differ from their files, or with ``--check`` name them; return the exit code.

    ``shown`` returns the part of a picture that is compared.
    """
    is_check = "--check" in arguments
    stale = 0
    for path, picture in pictures.items():
        if path.exists() and shown(path.read_text(encoding="utf-8")) == shown(picture):
            continue
        stale += 1
        if not is_check:
            path.write_text(picture, encoding="utf-8")
        print(f"{'stale' if is_check else 'wrote'} {path.relative_to(ROOT)}")
    return 1 if stale and is_check else 0


def main(arguments: list[str]) -> int:
    """Write the pictures, or list the stale ones; return the exit code."""
    pictures = {IMAGES / f"{name}.svg": drawn(name, command, printed(command)) for name, command in SHOTS.items()}
    return renewed(pictures, words, arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
