"""Check, verify and report wheels that are no GPU packages, and print a row of a table for each.

``python tools/corpus/other_kinds.py FOLDER``: the folder has wheels that pip downloaded. The exit code is 1 if a wheel
has a finding, or if a command ends with another code than 1 (no device code) or, of a wheel with images, 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path


def run(*arguments: str) -> tuple[int, str]:
    """Run fatpack; return its exit code and output."""
    done = subprocess.run([sys.executable, "-m", "fatpack", *arguments], capture_output=True, text=True, check=False)
    return done.returncode, done.stdout


def row(wheel: Path, folder: Path) -> tuple[str, bool]:
    """Return the row of a wheel, and whether it has no finding and the exit codes are right."""
    checked, doctored = run("check", str(wheel), "--require", "sm_80"), run("doctor", str(wheel))
    reported = run("report", str(wheel), "-o", str(folder / f"{wheel.name}.html"))
    listed = run("inspect", "--rows", "jsonl", "--digests", str(wheel))
    rows = [json.loads(line) for line in listed[1].splitlines()]
    images = [item for item in rows if item["row"] == "image"]
    codes = sorted({code for item in rows for code in item["findings"]})
    name, version = wheel.name.split("-")[:2]
    kinds = sorted({f"{item['form']} {item['arch'] or ''}".strip() for item in images})
    size = f"{wheel.stat().st_size / 1e6:.1f} MB"
    files = sum(item["row"] == "file" and item["path"] != str(wheel) for item in rows)
    said = f"{len(images)}: {', '.join(kinds)}" if images else "none"
    exits = f"{checked[0]}, {doctored[0]}, {reported[0]}"
    # Without device code nothing was checked, verified or reported.
    right = not codes and {checked[0], doctored[0], reported[0]} == {0 if images else 1}
    return f"| {name} {version} | {size} | {files} | {said} | {', '.join(codes) or 'none'} | {exits} |", right


def main(folder: str) -> int:
    """Print the table for the wheels of a folder."""
    print("| wheel | size | files read | images | findings | exit codes of check, doctor, report |")
    print("|---|---|---|---|---|---|")
    wrong = 0
    with tempfile.TemporaryDirectory() as made:
        for wheel in sorted(Path(folder).glob("*.whl")):
            text, right = row(wheel, Path(made))
            print(text, flush=True)
            wrong += not right
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
