"""The page that says where things are decided: each name is defined in one of the modules beside it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "fatpack"


def _rows(page: str) -> list[tuple[list[str], list[str]]]:
    """Return the names and the modules of each row of the tables."""
    cells = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ")]
    return [(re.findall(r"`(\w+)`", names), re.findall(r"`([\w/]+\.py)`", modules)) for _, names, modules in cells[0:]]


def _defined(name: str, text: str) -> bool:
    return (
        re.search(rf"^(?:def|class) {name}\b|^(?:\w+, )*{name}\b(?:, \w+)*(?:: .+?)? = ", text, re.MULTILINE)
        is not None
    )


def _undefined(page: str) -> set[str]:
    wrong = set()
    for names, modules in _rows(page):
        texts = [(SOURCE / module).read_text(encoding="utf-8") for module in modules]
        wrong |= {name for name in names if not any(_defined(name, text) for text in texts)}
        wrong |= {
            module
            for module, text in zip(modules, texts, strict=True)
            if not any(_defined(name, text) for name in names)
        }
    return wrong


def test_each_name_is_defined_in_a_module_beside_it() -> None:
    page = (ROOT / "docs" / "design" / "where.md").read_text(encoding="utf-8")
    assert len(_rows(page)) > 30
    assert _undefined(page) == set()


def test_a_name_that_moved_is_found() -> None:
    row = "| exit codes | `worst_exit_code`, `gone` | `exit_codes.py`; `limits.py` |"
    assert _undefined(row) == {"gone", "limits.py"}
