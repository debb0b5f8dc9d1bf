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
    new, gone = sorted(present - recorded), sorted(recorded - present)
    assert not new, f"{new}: say in tests/fixtures/PROVENANCE.toml where they come from and what they prove"
    assert not gone, f"{gone} stand in tests/fixtures/PROVENANCE.toml and are no files any more"


@pytest.mark.parametrize("entry", TABLE, ids=lambda entry: entry["file"])
def test_an_entry_is_complete(entry: dict[str, str]) -> None:
    for key in ("source", "licence", "proves"):
        assert entry.get(key), f"the entry of {entry['file']} in PROVENANCE.toml lacks {key}"
    is_source = Path(entry["file"]).suffix in {".c", ".cu", ".h", ".hip", ".s", ".ptx", ".ll"}
    made = entry.get("command") and entry.get("tool")
    assert is_source or made, f"the entry of {entry['file']} must say which command of which tool made the file"


def test_fixtures_are_small() -> None:
    files = [path for path in FIXTURES.rglob("*") if path.is_file() and path != FIXTURES / "PROVENANCE.toml"]
    large = [path.name for path in files if path.stat().st_size > 64_000]
    assert not large, f"{large}: a fixture has at most 64,000 bytes; make it from a smaller source"


def test_no_file_names_a_machine_path_or_a_folder_outside_the_clone() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    bad = re.compile(r"/work/|/root/|\.\./shared|/tmp/[a-z]")
    for name in filter(None, listed.split("\0")):
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".sh", ".json", ".yml"} and path != Path(__file__):
            found = bad.search(path.read_text(encoding="utf-8", errors="replace"))
            assert not found, f"{name} names {found.group()!r}: nothing may lead outside a clone of the project"
