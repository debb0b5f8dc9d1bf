"""The site in a browser, from a folder: search finds pages, nothing is fetched, and a phone shows all of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests import reference
from tools.site import contents

pytestmark = [pytest.mark.slow, pytest.mark.reference]

ROOT = Path(__file__).parents[2]

#: what people type → the page that they look for
SEARCHES = {
    "fatbin": "docs/formats/cuda-fatbin.html",
    "FP3303": "docs/findings.html",
    "--drop-ptx": "docs/how-to/slim-a-wheel.html",
    "hip_fatbin": "docs/formats/clang-offload-bundle.html",
    "no kernel image": "docs/how-to/no-kernel-image.html",
    "GitHub Actions": "docs/how-to/fail-a-build.html",
    "SyclbinOptions": "docs/reference.html",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built as ``make site`` builds it."""
    out = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, "-m", "tools.site", out], cwd=ROOT, check=True)
    return out


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium of the system, without a window."""
    program = reference.tool("chromium")
    with reference.package("playwright.sync_api").sync_playwright() as playwright:
        # CI runs as root, which Chromium's sandbox refuses; the pages are made by the test.
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def _found(tab: Any, site: Path, words: str) -> list[str]:
    """Return the pages that a search for some words leads to, relative to the site."""
    tab.goto(f"{(site / 'search.html').as_uri()}?q={quote(words)}")
    tab.wait_for_selector("text=Search finished")
    links = tab.eval_on_selector_all("#search-results li a", "links => links.map(link => link.getAttribute('href'))")
    return [link.partition("#")[0] for link in links]


def test_a_search_without_a_server_finds_the_page(site: Path, browser: Any) -> None:
    tab = browser.new_page()
    for words, page in SEARCHES.items():
        assert page in _found(tab, site, words), words
    tab.goto(f"{(site / 'search.html').as_uri()}?q=zyzzyva")
    tab.wait_for_selector("text=did not match any documents")
    tab.close()


def test_no_page_asks_for_anything_elsewhere_or_is_wider_than_a_phone(site: Path, browser: Any) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 800})
    asked: list[str] = []
    said: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("console", lambda message: said.append(message.text))
    tab.on("pageerror", lambda error: said.append(str(error)))
    pages = [name for part in contents.PARTS.values() for page in part for name in contents.names(page, ROOT)]
    for name in [contents.START, *pages]:
        tab.goto((site / f"{name}.html").as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth") == 390, name
    assert len(asked) > len(pages)
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert said == []
    tab.close()
