"""Every fixture says where it comes from, and nothing in the project leads outside a clone."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FIXTURES = ROOT / "tests" / "fixtures"
TABLE = tomllib.loads((FIXTURES / "PROVENANCE.toml").read_text())["fixture"]


def test_every_fixture_has_an_entry_and_every_entry_a_file() -> None:
    recorded = {entry["file"] for entry in TABLE}
    present = {
        path.relative_to(FIXTURES).as_posix()
        for path in FIXTURES.rglob("*")
        if path.is_file() and path.name != "PROVENANCE.toml" and not path.name.endswith(".inspect.json")
    }
    assert present - recorded == set()
    assert recorded - present == set()


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry["file"])
def test_an_entry_is_complete(entry: dict[str, str]) -> None:
    for key in ("source", "licence", "proves"):
        assert entry[key], key
    is_source = Path(entry["file"]).suffix in {".c", ".cu", ".h", ".hip", ".s", ".ptx", ".ll"}
    assert is_source or (entry["command"] and entry["tool"])


def test_fixtures_are_small() -> None:
    large = [path.name for path in FIXTURES.rglob("*") if path.is_file() and path.stat().st_size > 64_000]
    assert large == []


def test_no_file_names_a_machine_path_or_a_folder_outside_the_clone() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    bad = re.compile(r"/work/|/root/|\.\./shared|/tmp/[a-z]")
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".sh", ".json", ".yml"} and path != Path(__file__):
            found = bad.search(path.read_text(encoding="utf-8", errors="replace"))
            assert not found, f"{name}: {found.group()}"
