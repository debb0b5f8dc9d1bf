"""Every magic is in one place: ``fatpack.magic_numbers``."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fatpack import magic_numbers

ROOT = Path(__file__).parents[2] / "src" / "fatpack"
MODULES = sorted(path for path in ROOT.rglob("*.py") if path.name != "magic_numbers.py")
MAGICS = {value: name for name, value in vars(magic_numbers).items() if isinstance(value, bytes)}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_module_writes_a_magic(path: Path) -> None:
    written = {
        node.value: node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, bytes)
    }
    for value in written.keys() & MAGICS.keys():
        pytest.fail(f"{path.relative_to(ROOT)}:{written[value]}: write magic_numbers.{MAGICS[value]}, not {value!r}")
