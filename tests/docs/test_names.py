"""Names of Python in the documents: each `fatpack.x.y` can be imported."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import fatpack

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]

#: a program, and a key of metadata in Parquet files
_OTHERS = {"fatpack.exe", "fatpack.schema"}


def _names(text: str) -> set[str]:
    return set(re.findall(r"`(fatpack(?:\.[A-Za-z_]\w*)+)(?![\w/])", text)) - _OTHERS


def _exists(name: str) -> bool:
    found: object = fatpack
    path = "fatpack"
    for part in name.split(".")[1:]:
        path += f".{part}"
        if not hasattr(found, part):
            try:
                found = importlib.import_module(path)
            except ModuleNotFoundError:
                return False
        else:
            found = getattr(found, part)
    return True


def test_names_of_python_exist() -> None:
    used = {(page.name, name) for page in PAGES for name in _names(page.read_text(encoding="utf-8"))}
    assert len(used) > 20
    assert {(page, name) for page, name in used if not _exists(name)} == set()


def test_a_name_that_is_gone_is_found() -> None:
    assert _names("`fatpack.binary.new_file.MOST_FILLER` and `fatpack.exe`") == {"fatpack.binary.new_file.MOST_FILLER"}
    assert not _exists("fatpack.binary.new_file.MOST_FILLER")
    assert not _exists("fatpack.targets.explain_name")
