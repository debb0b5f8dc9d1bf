"""The documents are true: their examples run, and their generated parts are current."""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tools.docs import pages

ROOT = Path(__file__).parents[2]
CUBINS = ROOT / "tests" / "fixtures" / "cuda" / "cubin"


def _blocks(text: str) -> list[tuple[str, str]]:
    """Return (language, text) of every fenced block, in order."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_library_page_run_and_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for arch in ("sm_80", "sm_90"):
        shutil.copy(CUBINS / f"k1.cuda13.0.{arch}.cubin", f"k1.{arch}.cubin")
    shutil.copy(ROOT / "tests" / "fixtures" / "demo" / "host.o", "host.o")
    printed = ""
    names: dict[str, object] = {}
    compared = 0
    for language, text in _blocks((ROOT / "docs" / "library.md").read_text()):
        if language == "python":
            output = io.StringIO()
            with contextlib.redirect_stdout(output):
                exec(compile(text, "docs/library.md", "exec"), names)
            printed = output.getvalue()
        else:
            assert printed == text
            compared += 1
    assert compared == 22


def test_the_readme_shows_what_the_demo_prints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = [sys.executable, str(ROOT / "tools" / "demo" / "run.py"), str(tmp_path)]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    shown = next(text for _, text in _blocks((ROOT / "README.md").read_text()) if text.startswith("$ fatpack inspect"))
    assert shown in done.stdout


@pytest.mark.parametrize(("name", "text"), pages.render_all().items(), ids=list(pages.render_all()))
def test_generated_pages_are_current(name: str, text: str) -> None:
    assert (ROOT / "docs" / name).read_text(encoding="utf-8") == text, "run `make docs`"


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in link:
            assert (page.parent / link).exists(), link
