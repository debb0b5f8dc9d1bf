"""The first page leads to all that people look for, and explanation pages quote the source as it is."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from fatpack.testing import formats

DOCS = Path(__file__).parents[2] / "docs"


def test_the_first_page_leads_to_every_page_but_those_of_single_tools() -> None:
    page = (DOCS / "index.md").read_text(encoding="utf-8")
    links = {(DOCS / link).resolve() for link in re.findall(r"\]\(([^)#]+)\)", page)}
    pages = {path for path in DOCS.rglob("*.md") if path.parent.name != "tools" and path.name != "index.md"}
    assert sorted(pages - links) == []


def test_the_law_that_is_read_line_by_line_is_the_one_that_runs() -> None:
    page = (DOCS / "design" / "laws.md").read_text(encoding="utf-8")
    (quoted,) = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert quoted == inspect.getsource(formats.assert_intact_container_found)


def test_the_readme_leads_to_all_pages_and_stays_short() -> None:
    lines = (DOCS.parent / "README.md").read_text(encoding="utf-8").splitlines()
    assert any("(docs/index.md)" in line for line in lines)
    assert len(lines) < 100
