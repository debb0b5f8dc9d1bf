"""Changes that nobody can notice, of ``equivalent.toml``: each with its reason, and named by the code of its line."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from tools.mutation.sites import ROOT, Mutation

#: The pattern of all modules.
EVERY = "**/*.py"

TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Equivalents:
    """The rows: module below ``src/fatpack``, changed line, and the line after the change, or "" for any change."""

    rows: frozenset[tuple[str, str, str]]

    @classmethod
    def read(cls) -> Equivalents:
        """Return the rows of the table.

        Raises:
            ValueError: a row has no reason, or its line is not in the module any more.
        """
        rows: set[tuple[str, str, str]] = set()
        for row in tomllib.loads(TABLE.read_text())["change"]:
            paths = (ROOT / "src/fatpack").glob(row["module"])
            if (
                not any(row["line"] in map(str.strip, path.read_text().splitlines()) for path in paths)
                or not row["why"]
            ):
                raise ValueError(f"{TABLE.name}: no line {row['line']!r} in {row['module']}, or no reason")
            rows |= {(row["module"], _bare(row["line"]), _bare(new)) for new in row.get("becomes", [""])}
        return cls(frozenset(rows))

    def __contains__(self, change: Mutation) -> bool:
        module = str(change.path.relative_to(ROOT / "src/fatpack"))
        old, new = map(_bare, change.lines)
        return any((each, old, becomes) in self.rows for each in (module, EVERY) for becomes in (new, ""))


def _bare(line: str) -> str:
    """Return a line without white space: the changed source is not formatted."""
    return "".join(line.split())
