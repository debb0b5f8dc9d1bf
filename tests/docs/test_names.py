"""Names in the documents: each `fatpack.x.y` can be imported, and each path of a source file is there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import fatpack

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]

#: a program, and a key of metadata in Parquet files
_OTHERS = {"fatpack.exe", "fatpack.schema"}


#: folders that hold no source of this repository
_UNTRACKED = (".venv", ".reference", ".git", "shared")


def _paths(text: str) -> set[str]:
    """Return the paths of Python, TOML and shell files in a page, if they name a folder too."""
    return set(re.findall(r"`((?:[\w.-]+/)+[\w.-]+\.(?:py|toml|sh))`", text))


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


def test_paths_of_source_files_exist() -> None:
    """A path may be short: `elf/layout.py`. Pages about the CI of other projects name their files."""
    pages = [ROOT / "CONTRIBUTING.md", *(page for page in PAGES if page.parent.name != "gates")]
    files = [
        path.relative_to(ROOT).as_posix()
        for folder in ROOT.iterdir()
        if folder.is_dir() and folder.name not in _UNTRACKED
        for path in folder.rglob("*")
        if path.suffix in (".py", ".toml", ".sh")
    ]
    used = {(page.name, name) for page in pages for name in _paths(page.read_text(encoding="utf-8"))}
    assert len(used) > 50
    gone = {(page, name) for page, name in used if not any(f"/{path}".endswith(f"/{name}") for path in files)}
    assert gone == set()


def test_a_name_that_is_gone_is_found() -> None:
    assert _names("`fatpack.binary.new_file.MOST_FILLER` and `fatpack.exe`") == {"fatpack.binary.new_file.MOST_FILLER"}
    assert not _exists("fatpack.binary.new_file.MOST_FILLER")
    assert not _exists("fatpack.targets.explain_name")
