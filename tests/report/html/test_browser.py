"""The page in a browser: it loads nothing, hover and filters work, and it can be read without its script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack

pytestmark = [pytest.mark.slow, pytest.mark.reference]

FATBIN = FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin"

#: A name that is markup, and one that is a file's name all the same.
HOSTILE = "<img src=x onerror=alert(1)>'\"\u202e.fatbin"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Chromium of the system, without a window."""
    program = reference.tool("chromium")
    api = reference.package("playwright.sync_api")
    with api.sync_playwright() as playwright:
        # CI runs as root, which Chromium's sandbox refuses; the page is made by the test.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a fat binary, under a hostile name too, and of a file that is not there."""
    folder = tmp_path_factory.mktemp("report")
    (folder / HOSTILE).write_bytes(FATBIN.read_bytes())
    target = folder / "report.html"
    paths = [FATBIN, folder / HOSTILE, FIXTURES / "elf" / "clang-22-openmp-gfx90a.o", folder / "gone.so"]
    fatpack.write_report(paths, target)
    return target


class Opened:
    """The page in a tab, with what the browser said and asked for."""

    def __init__(self, browser: Any, file: Path, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1200, "height": 900}, **options)
        self.tab = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.tab.on("console", lambda message: self.said.append(message.text))
        self.tab.on("pageerror", lambda error: self.said.append(str(error)))
        self.tab.on("dialog", lambda dialog: self.said.append(dialog.message))
        self.tab.on("request", lambda request: self.asked.append(request.url))
        self.tab.goto(file.as_uri())

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, *_: object) -> None:
        self.context.close()


def test_it_loads_itself_and_says_nothing(chromium: Any, page_file: Path) -> None:
    with Opened(chromium, page_file) as opened:
        assert opened.said == []
        assert opened.asked == [page_file.as_uri()]
        assert "\\u202e" in opened.tab.text_content("#files"), "the hostile name is shown, its direction is not"
        assert "gone.so" in opened.tab.text_content("#findings")
        assert opened.tab.locator("img, iframe").count() == 0


def test_the_policy_stops_scripts_and_requests_that_are_not_its_own(
    chromium: Any, page_file: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "changed.html"
    more = "<script>document.title='taken over'</script><img src=http://example.invalid/x.png></body>"
    changed.write_text(page_file.read_text("utf-8").replace("</body>", more), "utf-8")
    with Opened(chromium, changed) as opened:
        assert opened.tab.title() != "taken over"
        assert len([text for text in opened.said if "Content Security Policy" in text]) == 2


def test_hover_shows_kernels_and_fields(chromium: Any, page_file: Path) -> None:
    with Opened(chromium, page_file) as opened:
        opened.tab.locator("#bytes .map:visible .part").first.hover()
        assert "inflated" in opened.tab.text_content("#tip")
        opened.tab.locator("#map").scroll_into_view_if_needed()
        opened.tab.locator("#map .b-field path").first.hover()
        assert "header.magic" in opened.tab.text_content("#tip")
        opened.tab.mouse.move(1, 1)
        assert not opened.tab.locator("#tip").is_visible()
        assert opened.said == []


def test_tables_are_filtered_and_sorted(chromium: Any, page_file: Path) -> None:
    with Opened(chromium, page_file) as opened:
        rows = opened.tab.locator("#t-images tbody tr:not([hidden])")
        every = rows.count()
        opened.tab.fill('input[data-for="t-images"]', "ptx")
        assert 0 < rows.count() < every
        assert all("ptx" in text for text in rows.all_text_contents())
        assert opened.tab.text_content('output[data-of="t-images"]') == f"{rows.count()} of {every}"
        opened.tab.fill('input[data-for="t-images"]', "")
        opened.tab.locator("#images").scroll_into_view_if_needed()
        opened.tab.click("#t-images th:has-text('inflated') button")
        sizes = opened.tab.eval_on_selector_all(
            "#t-images tbody tr", "rows => rows.map((row) => Number(row.querySelectorAll('td.n')[2].dataset.v))"
        )
        assert sizes == sorted(sizes, reverse=True)
        assert len(set(sizes)) > 1
        assert opened.said == []


def test_kernels_are_found_by_name(chromium: Any, page_file: Path) -> None:
    with Opened(chromium, page_file) as opened:
        rows = opened.tab.locator(".matrix tbody tr:not([hidden])")
        assert rows.count() > 0
        opened.tab.fill("input[data-names]", "no kernel has this name")
        opened.tab.get_by_text("0 of the kernels that are listed").wait_for()
        assert rows.count() == 0


def test_it_can_be_read_without_javascript(chromium: Any, page_file: Path) -> None:
    with Opened(chromium, page_file, java_script_enabled=False) as opened:
        assert opened.tab.locator("#t-images tbody tr").count() > 2
        assert not opened.tab.locator(".filter input").first.is_visible()
        opened.tab.locator("#bytes").scroll_into_view_if_needed()
        opened.tab.locator(".map-stored svg").wait_for()
        opened.tab.click("label[for=by-inflated]")
        opened.tab.locator(".map-inflated svg").wait_for()
        assert not opened.tab.locator(".map-stored svg").is_visible()
        opened.tab.click("details.regions summary")
        assert "header.magic" in opened.tab.text_content("#t-bytes")
        assert opened.tab.locator("#map svg title").first.text_content() is not None


def test_it_is_light_or_dark_as_the_reader_has_it_and_light_on_paper(chromium: Any, page_file: Path) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        with Opened(chromium, page_file, color_scheme=scheme) as opened:
            paper = "() => getComputedStyle(document.body).backgroundColor"
            shades[scheme] = opened.tab.evaluate(paper)
            opened.tab.emulate_media(media="print")
            assert opened.tab.evaluate(paper) == "rgb(255, 255, 255)"
            assert not opened.tab.locator("nav").is_visible()
            opened.tab.emulate_media(media="screen")
    assert shades["light"] == "rgb(255, 255, 255)" != shades["dark"]


def test_nothing_is_wider_than_the_window_of_a_phone(chromium: Any, page_file: Path) -> None:
    with Opened(chromium, page_file) as opened:
        opened.tab.set_viewport_size({"width": 390, "height": 800})
        assert opened.tab.evaluate("document.documentElement.scrollWidth") <= 390
