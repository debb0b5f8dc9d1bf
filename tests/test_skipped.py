"""A run ends with the judges that were missing: tools and packages, each with the number of tests it skipped."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN = """\
import sys
import pytest
from tests.skipped import Judges
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-c", "/dev/null", sys.argv[1], *sys.argv[2:]], [Judges()]))
"""

TESTS = """\
import pytest
from tests import reference
@pytest.mark.parametrize("number", range(3))
def test_a_tool(number): reference.tool("nosuchtool")
def test_a_library(): reference.llvm_tool("nosuchreader", "23")
def test_a_package(): pytest.importorskip("nosuchpackage")
def test_passes(): pass
def test_of_another_machine(): pytest.skip("the file system has no holes")
"""

SKIPPED = "judges skipped: 5 (nosuchpackage 1, nosuchreader of LLVM 23 1, nosuchtool 3)\n"


@pytest.mark.parametrize("options", [[], ["-p", "xdist", "-n", "2"]])
def test_the_last_lines_count_the_judges_that_were_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    monkeypatch.delenv("FATPACK_REQUIRE_REFERENCE", raising=False)
    (tmp_path / "test_it.py").write_text(TESTS)
    assert SKIPPED in _run(tmp_path, *options)


def test_a_whole_module_that_was_skipped_counts(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import pytest\npytest.importorskip('nosuchpackage')\ndef test_it(): pass\n")
    assert "judges skipped: 1 (nosuchpackage 1)\n" in _run(tmp_path)


def test_none_that_was_missing_is_said_too(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_it(): pass\n")
    assert "judges skipped: 0\n" in _run(tmp_path)


def _run(folder: Path, *options: str) -> str:
    command = [sys.executable, "-c", RUN, str(folder), *options]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[1]).stdout
