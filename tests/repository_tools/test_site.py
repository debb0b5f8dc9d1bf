"""The site has every page, each once; that its links lead somewhere is what building it finds out."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tools.site import contents

ROOT = Path(__file__).parents[2]


def test_every_page_is_in_one_part_of_the_site() -> None:
    listed = Counter(name for pages in contents.PARTS.values() for page in pages for name in contents.names(page, ROOT))
    files = {str(path.relative_to(ROOT).with_suffix("")) for path in (ROOT / "docs").rglob("*.md")}
    assert listed.keys() == {*files, *contents.TOP} - {contents.START}
    assert {name for name, count in listed.items() if count > 1} == set()


def test_the_order_of_pages_is_a_directive_for_each_part() -> None:
    text = contents.trees(ROOT)
    assert text.count("```{toctree}") == len(contents.PARTS)
    assert "\n/docs/tools/cuobjdump\n" in text


@pytest.mark.slow
def test_a_link_that_leads_nowhere_fails_the_site(tmp_path: Path) -> None:
    for name in ("docs", "tools/site", "examples/toybox"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for page in ROOT.glob("*.md"):
        shutil.copy(page, tmp_path / page.name)
    first = tmp_path / "docs" / "index.md"
    first.write_text(first.read_text(encoding="utf-8") + "\n[file](no-page.md) [heading](install.md#no-heading)\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT / 'src'}"}
    words = [sys.executable, "-m", "tools.site", "out"]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    assert done.stderr.count("WARNING") == 2, done.stderr
    assert "no-page.md" in done.stderr and "no-heading" in done.stderr
