"""The page of benchmarks: tables and pictures say what was recorded, and the same."""

from __future__ import annotations

import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tools.bench import recording
from tools.bench.measure import Figure
from tools.docs import benchmarks, lines
from tools.docs.bars import Bar, render

DOCS = Path(__file__).parents[2] / "docs"
SVG = "{http://www.w3.org/2000/svg}"
RUNS = recording.read(recording.FIGURES)


def bars_of(picture: str) -> list[ElementTree.Element]:
    """Return the bars of a picture, without its ground."""
    return [item for item in ElementTree.fromstring(picture).iter(f"{SVG}rect") if item.get("class") != "ground"]


def test_a_bar_is_as_long_as_the_logarithm_of_its_ratio_and_begins_at_us() -> None:
    picture = render("t", [Bar("a", "p", 4.0), Bar("a", "q", 16.0), Bar("b", "p", 0.25)])
    four, sixteen, quarter = bars_of(picture)
    (ours,) = (item for item in ElementTree.fromstring(picture).iter(f"{SVG}line") if item.get("class") == "ours")
    start, width = float(four.get("x", "")), float(four.get("width", ""))
    assert start == float(sixteen.get("x", "")) == float(ours.get("x1", ""))
    assert float(sixteen.get("width", "")) == pytest.approx(2 * width, abs=0.2)
    assert float(quarter.get("width", "")) == pytest.approx(width, abs=0.2)
    assert float(quarter.get("x", "")) == pytest.approx(start - width, abs=0.2)
    assert [item.get("class") for item in (four, sixteen, quarter)] == ["slower", "slower", "faster"]


@pytest.mark.parametrize("ratios", [[0.001], [1.0], [5000.0], [0.01, 300.0]])
def test_all_of_a_picture_lies_in_it(ratios: list[float]) -> None:
    picture = ElementTree.fromstring(render("t", [Bar("a", "p", value) for value in ratios]))
    width, height = (float(picture.get(name, "")) for name in ("width", "height"))
    for item in picture.iter():
        for name, most in (("x", width), ("x1", width), ("y", height), ("y2", height)):
            assert 0 <= float(item.get(name, 0)) <= most
        assert float(item.get("x", 0)) + float(item.get("width", 0)) <= width
    marks = [item for item in picture.iter(f"{SVG}line") if item.get("class") == "mark"]
    assert 1 <= len(marks) <= 9


def test_growth_is_drawn_in_its_panels(tmp_path: Path) -> None:
    ours = ((1000, 0.0, 10**7), (10_000, 0.5, 2 * 10**7), (100_000, 5.0, 10**8))
    figures = [
        Figure("inspect: <files>", 1.0, "x", 1.15, points=(("fatpack", ours), ("peer", ours))),
        Figure("check: <files>", 1.0, "x", 1.15, points=(("fatpack", ours),)),
        Figure("sums: images", 1.0, "x", 1.15, points=(("fatpack", ours[1:]),)),
    ]
    panels = benchmarks.growth_panels(figures)
    assert [[line.name for line in panel.seconds] for panel in panels] == [["inspect", "peer", "check"], ["sums"]]
    root = ElementTree.fromstring(lines.render("growth", panels))
    width, height = (float(root.get(name, "")) for name in ("width", "height"))
    paths = [item.get("d", "") for item in root.iter(f"{SVG}path")]
    assert len(paths) == 8
    for x, y in (point.split(",") for path in paths for point in path.removeprefix("M").split(" L")):
        assert 0 <= float(x) <= width
        assert 0 <= float(y) <= height
    assert "<files>, inspect: 1,000 in 0.00 s, 10,000 in 0.50 s, 100,000 in 5.00 s." in (root[1].text or "")


def test_a_picture_says_in_words_what_it_shows_and_escapes_it() -> None:
    picture = render("<t> & u", [Bar("pack <a>", "cp & sync", 0.5)])
    root = ElementTree.fromstring(picture)
    assert root.get("role") == "img"
    named = {item.get("id"): item.text for item in root if item.get("id")}
    assert root.get("aria-labelledby", "").split() == list(named) == ["title", "desc"]
    assert named["title"] == "<t> & u"
    assert named["desc"] == "pack <a>: cp & sync takes 0.50 x as long as fatpack."
    assert "prefers-color-scheme: dark" in picture


def test_figures_with_a_peer_are_drawn_and_no_others() -> None:
    figures = [
        Figure("list", 0.2, "s", None),
        Figure("list: faster than", 4.0, "x", None, is_floor=True, peer="readobj"),
        Figure("list: per copy", 2.0, "x cp", None, peer="cp"),
        Figure("list: faster than", math.nan, "x", None, "objdump is not installed"),
    ]
    assert benchmarks.drawn(figures) == [Bar("list", "readobj", 4.0), Bar("list", "cp", 0.5)]


def test_a_page_has_the_table_and_the_picture_of_each_subject() -> None:
    made = benchmarks.rendered((DOCS / "benchmarks.md").read_text(), RUNS)
    page = made.pop("benchmarks.md")
    assert set(re.findall(r"\]\((benchmarks/\w+\.svg)\)", page)) == made.keys() > set()
    assert {f"benchmarks/{path.name}" for path in (DOCS / "benchmarks").glob("*.svg")} == made.keys()
    for subject, run in RUNS.items():
        shown = page.partition(f"<!-- figures of {subject}:")[2].partition("<!-- end")[0]
        assert f"{run.date}: {run.machine}." in shown
        assert shown.count("\n| ") == 1 + len(run.figures)
        for figure in run.figures:
            assert f"| {figure.what} | {figure.value:.2f} {figure.unit} |" in shown
        drawn = [figure for figure in run.figures if figure.peer]
        assert len(drawn) == len(bars_of(made[f"benchmarks/{subject}.svg"]) if drawn else [])


def test_a_subject_without_a_place_on_the_page_is_refused() -> None:
    with pytest.raises(ValueError, match="figures of new"):
        benchmarks.rendered("# Benchmarks\n", {"new": recording.Run("2026-01-01", "here", ())})
