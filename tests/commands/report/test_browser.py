"""The page in a browser: it loads nothing, hover and filters work, and it can be read without its script."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import reference
from tests.commands.report.test_page import HOSTILE as HOSTILE_NAMES
from tests.commands.report.test_page import hostile_map, hostile_overview
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.commands.inspect.bytes import file_labels
from fatpack.commands.report.overview import build_overview
from fatpack.commands.report.page import render_page
from fatpack.io.open import open_source
from fatpack.tabular.columns import ImageRow, KernelRow

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


def figure(opened: Opened, selector: str) -> tuple[str, str]:
    """Return the title and what the tooltip shows of the same part of a picture, with the pointer above it."""
    part = opened.tab.locator(selector).first
    part.scroll_into_view_if_needed()
    title = part.evaluate("node => node.parentNode.querySelector('title').textContent")
    part.hover()
    opened.tab.locator("#tip:not([hidden])").wait_for()
    return title, opened.tab.inner_text("#tip")


@pytest.mark.parametrize("selector", ["#bytes .map:visible .part", "#map .b-field path", "svg.bar rect"])
def test_the_tooltip_says_what_the_title_of_the_part_does(chromium: Any, page_file: Path, selector: str) -> None:
    with Opened(chromium, page_file) as opened:
        title, shown = figure(opened, selector)
        assert title and shown.split("\n") == title.split("\n")
        assert opened.said == []


def test_the_byte_map_names_each_field_as_inspect_does(chromium: Any, page_file: Path) -> None:
    with open_source(str(FATBIN)) as source:
        names = [label.name for label in file_labels(source.view()) if label.kind == "field"]
    with Opened(chromium, page_file) as opened:
        shown = opened.tab.eval_on_selector_all(
            "#map .b-field title", "all => all.map((node) => node.textContent.split('\\n')[0])"
        )
    assert shown and set(shown) <= set(names)


def test_filters_show_the_rows_that_have_all_words(chromium: Any, page_file: Path) -> None:
    with Opened(chromium, page_file) as opened:
        for words in ("cubin", "PTX", "cubin sm_", "none of this"):
            texts = [text.lower() for text in opened.tab.locator("#t-images tbody tr").all_text_contents()]
            opened.tab.fill('input[data-for="t-images"]', words)
            left = [text.lower() for text in opened.tab.locator("#t-images tbody tr:not([hidden])").all_text_contents()]
            assert left == [text for text in texts if all(word in text for word in words.lower().split())]
            visible = opened.tab.locator("#t-images tbody tr:visible").count()
            assert visible == len(left), "what is filtered out takes no room"
        opened.tab.fill('input[data-for="t-images"]', "")
        assert opened.tab.locator("#t-images tbody tr:visible").count() == len(texts)
        assert opened.tab.text_content('output[data-of="t-images"]') == ""


def test_each_column_sorts_both_ways_by_keys_alone(chromium: Any, page_file: Path) -> None:
    """Numbers by their value, words by letters; the order is told to readers of screens."""
    with Opened(chromium, page_file) as opened:
        heads = opened.tab.locator("#t-images th")
        for column in range(heads.count()):
            head = heads.nth(column)
            seen = []
            for _ in range(2):
                head.locator("button").focus()
                opened.tab.keyboard.press("Enter")
                cells = opened.tab.eval_on_selector_all(
                    "#t-images tbody tr",
                    "(rows, column) => rows.map((row) => row.cells[column]).map((cell) => "
                    "cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v))",
                    column,
                )
                order = head.get_attribute("aria-sort")
                if all(isinstance(cell, (int, float)) for cell in cells):
                    assert cells == sorted(cells, reverse=order == "descending")
                seen.append((order, cells))
            assert {order for order, _ in seen} == {"ascending", "descending"}
            assert sorted(map(str, seen[0][1])) == sorted(map(str, seen[1][1])), "no row is lost"
            assert opened.tab.locator("#t-images th[aria-sort]").count() == 1
        assert opened.said == []


def test_the_matrix_shows_what_the_records_say(chromium: Any, page_file: Path, tmp_path: Path) -> None:
    rows: list[ImageRow | KernelRow] = []
    for arch, names in (("sm_80", ("both", "old")), ("sm_90", ("both",))):
        place = {"path": "lib.so", "arch": arch, "form": "cubin", "triple": "nvptx64-nvidia-cuda", "offload": "cuda"}
        rows.append(ImageRow(row="image", size=100, stored_size=10, containers=0, **place))
        rows += [KernelRow(row="kernel", kernel=name, code_size=10, **place) for name in names]
    rows.append(ImageRow(row="file", path="lib.so", exit_code=0, file_size=200, searched="places"))
    overview = build_overview(rows)
    (tmp_path / "matrix.html").write_text("".join(render_page(overview, ["lib.so"], None, "0")), "utf-8")
    with Opened(chromium, tmp_path / "matrix.html") as opened:
        heads = [text.strip() for text in opened.tab.locator(".matrix th.col").all_inner_texts()]
        assert heads == list(overview.coverage[0].columns)
        shown = opened.tab.eval_on_selector_all(
            ".matrix tbody tr",
            "rows => rows.map((row) => [row.cells[0].textContent, ...[...row.querySelectorAll('.cell')].map("
            "(cell) => cell.classList[1])])",
        )
        assert sorted(shown) == [["both", "own", "own"], ["old", "own", "none"]]
        assert opened.tab.locator("tr.holes").count() == 1
        assert opened.tab.inner_text(".runs").startswith("Runs on: sm_80, sm_86, sm_89; with some of the kernels only")
        opened.tab.fill("input[data-names]", "old")
        opened.tab.get_by_text("1 of the kernels that are listed").wait_for()
        assert opened.tab.locator(".matrix tbody tr:visible").all_inner_texts()[0].startswith("old")


def test_keys_reach_all_that_can_be_used(chromium: Any, page_file: Path) -> None:
    with Opened(chromium, page_file) as opened:
        reached = []
        for _ in range(60):
            opened.tab.keyboard.press("Tab")
            reached.append(
                opened.tab.evaluate(
                    "(at => at.getAttribute('href') || at.dataset.for || at.id || at.tagName)(document.activeElement)"
                )
            )
        assert {"#bytes", "#coverage", "#images", "t-images", "BUTTON", "SUMMARY"} <= {*reached}
        opened.tab.locator("details.regions summary").focus()
        opened.tab.keyboard.press("Enter")
        assert opened.tab.locator("details.regions").get_attribute("open") is not None
        opened.tab.locator("#by-stored").focus()
        opened.tab.keyboard.press("ArrowRight")
        opened.tab.locator(".map-inflated svg").wait_for()
        assert not opened.tab.locator(".map-stored svg").is_visible()


@pytest.mark.parametrize("options", [{}, {"color_scheme": "dark"}, {"java_script_enabled": False}])
def test_colours_of_the_legend_are_those_of_the_pictures(
    chromium: Any, page_file: Path, options: dict[str, Any]
) -> None:
    with Opened(chromium, page_file, **options) as opened:
        for media in ("screen", "print"):
            opened.tab.emulate_media(media=media)
            dots = opened.tab.locator(".legend .dot").evaluate_all(
                "all => all.map((node) => [node.classList[1], getComputedStyle(node).backgroundColor, "
                "getComputedStyle(node).printColorAdjust])"
            )
            bars = dict(
                opened.tab.locator("svg.bar g").evaluate_all(
                    "all => all.map((node) => [node.classList[0], getComputedStyle(node.querySelector('rect')).fill])"
                )
            )
            assert dots
            assert all(bars[family] == colour and adjust == "exact" for family, colour, adjust in dots)


def test_hostile_names_stay_names(chromium: Any, tmp_path: Path) -> None:
    (tmp_path / "hostile.html").write_text(
        "".join(render_page(hostile_overview(), HOSTILE_NAMES, hostile_map(), "0")), "utf-8"
    )
    with Opened(chromium, tmp_path / "hostile.html") as opened:
        assert opened.asked == [(tmp_path / "hostile.html").as_uri()]
        assert opened.tab.locator("script").count() == 1
        assert opened.tab.locator("img, iframe, object, embed, form, [onload], [onerror]").count() == 0
        assert opened.tab.evaluate("[...document.links].every((link) => link.getAttribute('href')[0] === '#')")
        shown = opened.tab.locator("main").text_content()
        assert "<script>alert(1)</script>" in shown and "\\u202egnp.exe" in shown
        assert not set("\u202e\u2066\x00\x1b") & set(opened.tab.content())
        opened.tab.fill('input[data-for="t-images"]', "<script>")
        opened.tab.locator("#bytes .map:visible .part").first.hover()
        assert opened.tab.locator("#tip *").count() == 1, "the tooltip has one element, its first line"
        assert opened.said == []
