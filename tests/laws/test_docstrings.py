"""The law of references: what a docstring or a comment refers to can be found, by the name that stands there.

A module that moves leaves its old name behind in prose, where nobody who follows it finds anything.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.laws import house

EVERY = sorted(house.ROOT.rglob("*.py"))
ROLE = re.compile(r":(?:mod|func|class|meth|data|attr):`~?([\w.]+)`")
DOTTED = re.compile(r"``(fatpack(?:\.\w+)+)``")


@pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(house.ROOT)))
def test_what_prose_refers_to_can_be_found(path: Path) -> None:
    module = ".".join(("fatpack", *path.relative_to(house.ROOT).with_suffix("").parts)).removesuffix(".__init__")
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    gone = sorted({name for name, owner in _references(tree, text) if not _can_be_found(name, module, owner)})
    assert not gone, f"{path.name} refers to {', '.join(gone)}: nothing has that name; write where it is now"


def test_a_name_of_nothing_is_not_found() -> None:
    assert _can_be_found("fatpack.model.Image", "fatpack.errors", "")
    assert _can_be_found("data", "fatpack.model", "Image")
    assert not _can_be_found("fatpack.model.Imago", "fatpack.model", "")
    assert not _can_be_found("fatpack.scanner.nowhere", "fatpack.scanner", "")
    assert not _can_be_found("Imago", "fatpack.model", "Image")


def _references(tree: ast.Module, text: str) -> Iterator[tuple[str, str]]:
    """Yield every name that docstrings and comments refer to, with the class around it or ""."""
    for node, owner in _documented(tree, ""):
        prose = ast.get_docstring(node) or ""
        yield from ((name, owner) for name in (*ROLE.findall(prose), *DOTTED.findall(prose)))
    for line in text.splitlines():
        comment = line.partition("#")[2]
        yield from ((name, "") for name in (*ROLE.findall(comment), *DOTTED.findall(comment)))


def _documented(
    node: ast.Module | ast.ClassDef | ast.FunctionDef, owner: str
) -> Iterator[tuple[ast.Module | ast.ClassDef | ast.FunctionDef, str]]:
    """Yield modules, classes and functions with the class that they belong to, a class with itself."""
    yield node, owner
    for inner in ast.walk(node) if isinstance(node, ast.FunctionDef) else node.body:
        if inner is not node and isinstance(inner, ast.ClassDef):
            yield from _documented(inner, f"{owner}.{inner.name}".lstrip("."))
        elif inner is not node and isinstance(inner, ast.FunctionDef) and not isinstance(node, ast.FunctionDef):
            yield from _documented(inner, owner)


def _can_be_found(name: str, module: str, owner: str) -> bool:
    """Return whether a name means something: as it stands, in its class or module, or in what the library offers."""
    if name.startswith("fatpack."):
        return _exists(name)
    return any(_exists(f"{place}.{name}") for place in (f"{module}.{owner}" if owner else module, module, "fatpack"))


def _exists(dotted: str) -> bool:
    """Return whether a dotted name is a module, or something in one; a field counts that has no default."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            if part in getattr(found, "__annotations__", {}) and not hasattr(found, part):
                return part == parts[-1]
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False
