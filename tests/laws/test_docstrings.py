"""Laws of docstrings and comments: their references can be found, and their first word is not a question word.

If a module moves, its old name must not stay in prose. A sentence that begins with What or Whether has no subject
that a reader can name: write the noun or the verb ("Positions of …", "True if …", "Return …").
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
QUESTION = re.compile(r"(?:What|Whether|Who|Which|How|Where) (?!we know)")
COMMENT = re.compile(r" *#:? ")


@pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(house.ROOT)))
def test_what_prose_refers_to_can_be_found(path: Path) -> None:
    module = ".".join(("fatpack", *path.relative_to(house.ROOT).with_suffix("").parts)).removesuffix(".__init__")
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    gone = sorted({name for name, owner in _references(tree, text) if not _can_be_found(name, module, owner)})
    assert not gone, f"{path.name} refers to {', '.join(gone)}: nothing has that name; write where it is now"


@pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(house.ROOT)))
def test_prose_does_not_begin_with_a_question_word(path: Path) -> None:
    assert not list(_questions(path.read_text(encoding="utf-8"))), "write a noun, or a verb with its object"


def test_question_words_are_noticed() -> None:
    text = '"""What is there."""\n\n\nclass A:\n    """Whether it is."""\n\n    #: Which one\n    at: int\n'
    assert list(_questions(text)) == ["What is there.", "Whether it is.", "#: Which one"]
    assert not list(_questions('"""Whatever."""\n# and\n# Where that goes on\n# How we know: tests.\n'))


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


def _questions(text: str) -> Iterator[str]:
    """Yield the docstrings and the comments of whole lines that begin with a question word."""
    for node, _ in _documented(ast.parse(text), ""):
        prose = ast.get_docstring(node) or ""
        if QUESTION.match(prose):
            yield prose.partition("\n")[0]
    before = ""
    for line in text.splitlines():
        start = COMMENT.match(line)
        if start is not None and not COMMENT.match(before) and QUESTION.match(line, start.end()):
            yield line.strip()
        before = line


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
