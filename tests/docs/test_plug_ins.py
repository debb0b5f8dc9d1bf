"""The page docs/plug-ins.md: its entry points install the example, and its class of laws runs over it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from tests.test_plugins import BOX, EXAMPLE, found, install

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "plug-ins.md").read_text(encoding="utf-8")


def _block(language: str) -> str:
    (block,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return block


def test_the_entry_points_and_the_laws_of_the_page_work(tmp_path: Path) -> None:
    groups = tomllib.loads(_block("toml"))["project"]["entry-points"]
    assert groups == tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
    points = {f"{group}:{name}": module for group, names in groups.items() for name, module in names.items()}
    folder = install(tmp_path / "installed", points, name="toybox")
    shutil.copytree(EXAMPLE / "src" / "toybox", folder / "toybox")
    assert found(folder, BOX) == [("toybox", 2)]
    shutil.copytree(EXAMPLE / "tests" / "fixtures", tmp_path / "tests" / "fixtures")
    (tmp_path / "tests" / "test_laws.py").write_text(_block("python"))
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), str(ROOT / "src")])}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "tests"]
    done = subprocess.run(words, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    assert int(passed) >= 8
    assert "skipped" not in done.stdout
