"""The mutations of a module, as cosmic-ray makes them: ``a < b`` becomes ``a <= b``, ``5`` becomes ``6``."""

from __future__ import annotations

import ast
import difflib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import cosmic_ray.ast
import cosmic_ray.plugins
from cosmic_ray.mutating import mutate_code

ROOT = Path(__file__).resolve().parents[2]

#: Operators that are not used: decorators are caches and properties; the last two need names of variables.
UNUSED = {"RemoveDecorator", "VariableReplacer", "VariableInserter"}


@dataclass(frozen=True)
class Mutation:
    """A change of one place of a module: the operator of cosmic-ray, its n-th place in the file, and the first line."""

    path: Path
    operator: str
    occurrence: int
    line: int

    def apply(self, source: str) -> str:
        """Return the source with this change."""
        changed = mutate_code(source, _operator(self.operator), self.occurrence)
        assert isinstance(changed, str)
        return changed

    @cached_property
    def lines(self) -> tuple[str, str]:
        """The changed lines before and after, without the white space around them."""
        before = self.path.read_text().splitlines()
        diff = list(difflib.unified_diff(before, self.apply("\n".join(before) + "\n").splitlines(), n=0, lineterm=""))[
            2:
        ]
        old, new = (" ".join(line[1:].strip() for line in diff if line[0] == sign) for sign in "-+")
        return old, new

    def __str__(self) -> str:
        """Return the place, and what was there and is there instead, as in a diff."""
        old, new = self.lines
        return f"{self.path.relative_to(ROOT)}:{self.line}\n  -{old}\n  +{new}"


def draw(paths: list[Path], number: int, seed: int) -> list[Mutation]:
    """Return a sample of the mutations of some modules: each place with the same chance, then one of its changes.

    Without this order an operator with ten replacements would be drawn ten times as often as one with a single one.
    """
    places = [found for path in paths for found in _places(path)]
    chosen = random.Random(seed)
    return [chosen.choice(place) for place in chosen.sample(places, min(number, len(places)))]


def _places(path: Path) -> list[list[Mutation]]:
    source = path.read_text()
    tree, lines = ast.parse(source), source.splitlines()
    harmless = _harmless_lines(tree)
    nodes = list(cosmic_ray.ast.ast_nodes(cosmic_ray.ast.get_ast(source)))
    places: dict[tuple[str, object], list[Mutation]] = {}
    for name in sorted(cosmic_ray.plugins.operator_names()):
        family = name.partition("/")[2].partition("_")[0]
        # ``is`` for ``==`` is the same for what Python keeps once: small numbers, names and singletons.
        if family in UNUSED or name.endswith(("_Is", "_IsNot")):
            continue
        operator = _operator(name)
        found = (position for node in nodes for position in operator.mutation_positions(node))
        for occurrence, (start, stop) in enumerate(found):
            # cosmic-ray replaces plain names of exceptions, and fails at ``zipfile.BadZipFile``.
            if family == "ExceptionReplacer" and "." in lines[start[0] - 1][start[1] : stop[1]]:
                continue
            if not any(first <= start and stop <= last for first, last in harmless):
                places.setdefault((family, start), []).append(Mutation(path, name, occurrence, start[0]))
    return list(places.values())


@cache
def _operator(name: str) -> cosmic_ray.operators.operator.Operator:
    return cosmic_ray.plugins.get_operator(name)()


Position = tuple[int, int]


def _harmless_lines(tree: ast.Module) -> list[tuple[Position, Position]]:
    """Return where a change has no meaning: annotations, which nothing evaluates, and imports for type checkers."""
    return [
        ((node.lineno, node.col_offset), (node.end_lineno or node.lineno, node.end_col_offset or 0))
        for node in _harmless_nodes(tree)
    ]


def _harmless_nodes(tree: ast.Module) -> Iterator[ast.stmt | ast.expr]:
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign | ast.arg) and node.annotation:
            yield node.annotation
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns:
            yield node.returns
        elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield node
