"""The rules of ``split`` and ``check --metadata`` for each trap of installers: ``python -m tools.mutation.traps``.

Each trap in ``traps.toml`` names a rule, a change of it, and tests that have to fail then. The changes are tried one at
a time in a copy of the sources. Exit code 1 if a change was not noticed. `make docs` puts them into docs/testing.md.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

from tools.mutation.trial import ROOT, tests_fail

from fatpack.record import Record

SOURCES = ROOT / "src/fatpack"

#: seconds after which tests that do not end have noticed a change
_SECONDS = 600


class Trap(Record):
    """A trap: ``says`` is the rule, ``old`` is it in ``function`` of ``file``, ``new`` breaks it, ``tests`` notice."""

    says: str
    file: str
    function: str
    old: str
    new: str
    tests: tuple[str, ...]

    def changed(self, text: str) -> str:
        """Return the source with the change. Raises ValueError unless the rule is there once."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.file} has {text.count(self.old)} times: {self.old}")
        return text.replace(self.old, self.new)


def read_traps() -> list[Trap]:
    """Return the traps, in the order of the specification."""
    found = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
    return [Trap(**{**one, "tests": tuple(one["tests"])}) for one in found["trap"]]


def rows() -> list[list[str]]:
    """Return the rows of a table: rule, its place, and the tests that fail without it."""
    found = []
    for trap in read_traps():
        tests = ", ".join(f"`{test.removeprefix('tests/').replace('::', ': ')}`" for test in trap.tests)
        found.append([trap.says, f"`{trap.function}` in `{trap.file}`", tests])
    return found


def is_noticed(trap: Trap, folder: Path, test: str) -> bool:
    """Return True if a test fails with a change; it must pass in the unchanged copy."""
    path = folder / "fatpack" / trap.file
    before = path.read_text()
    path.write_text(trap.changed(before))
    try:
        return tests_fail([test], folder, _SECONDS)
    finally:
        path.write_text(before)


def main() -> int:
    """Try all changes; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutation.traps", description=__doc__)
    parser.add_argument("words", nargs="*", help="only rules with one of these words")
    options = parser.parse_args()
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SOURCES, Path(folder) / SOURCES.name)
        for trap in read_traps():
            if options.words and not any(word in trap.says for word in options.words):
                continue
            for test in trap.tests:
                found = is_noticed(trap, Path(folder), test)
                missed += not found
                print(f"{'noticed' if found else 'MISSED'}: {trap.says} ({test})", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
