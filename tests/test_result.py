"""Results of answers: plain data, JSON text, and tables in notebooks that obey nothing in a file."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.record import Record
from fatpack.result import Result, to_html_table, to_plain_data


class Inner(Record):
    name: str
    sizes: tuple[int, ...] = ()


class Outer(Result):
    path: str
    rows: tuple[Inner, ...] = ()
    missing: str | None = None


class Tags(HTMLParser):
    """Collects the tags of a text, and fails on what is not closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self._open: list[str] = []
        self.words = ""
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, _attributes: Any) -> None:
        self.seen.append(tag)
        self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


def test_plain_data_and_json_say_the_same() -> None:
    found = Outer("x.so", (Inner("a", (1, 2)), Inner("b")))
    assert found.to_dict() == {
        "path": "x.so",
        "rows": [{"name": "a", "sizes": [1, 2]}, {"name": "b", "sizes": []}],
        "missing": None,
    }
    assert json.loads(found.to_json()) == found.to_dict()
    assert to_plain_data((Inner("c"), None, 3)) == [{"name": "c", "sizes": []}, None, 3]


def test_names_from_files_are_letters_not_tags() -> None:
    evil = "<script>alert(1)</script>\"'&\x1b[31m"
    page = Outer(evil, (Inner(evil),))._repr_html_()
    tags = Tags(page)
    assert set(tags.seen) == {"table", "caption", "tr", "th", "td", "details", "summary"}
    assert "<script>" in tags.words
    assert "\x1b" not in page
    assert Tags(to_html_table(evil, {evil: {evil: [evil, {evil: evil}]}})).seen


def test_long_lists_and_texts_are_cut_short() -> None:
    many = Outer("x" * 1000, tuple(Inner(str(number)) for number in range(10_000)))
    page = many._repr_html_()
    assert len(page) < 4000
    assert "9,980 more" in page
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"inside": deep}
    assert to_html_table("deep", deep).count("<table>") < 5


@pytest.mark.parametrize("path", ["cuda_fatbin/v135_concat_tiny.fatbin", "fuzz/inspect/container-in-no-member.a"])
def test_files_and_diagnoses_show_themselves_in_notebooks(path: str) -> None:
    with fatpack.open(FIXTURES / path) as file:
        shown = Tags(file._repr_html_())
        assert all(image.target.arch in shown.words for image in file.images())
        assert all(item.code in shown.words for item in file.findings)
    found = fatpack.doctor(FIXTURES / path)
    assert found.verdict in Tags(found._repr_html_()).words


def answers_of(path: Path, folder: Path) -> list[Result]:
    """Return one of each answer about a path."""
    return [
        fatpack.check(path, require="sm_90"),
        fatpack.doctor(path),
        fatpack.explain(path, "sm_90"),
        fatpack.diff(path, path),
        fatpack.write_report(path, folder / f"{path.name}.html"),
    ]


@pytest.mark.parametrize("name", ["cuda_fatbin/v135_concat_tiny.fatbin", "there/is/no.such"])
def test_every_answer_has_a_verdict_and_is_true_if_its_exit_code_is_0(tmp_path: Path, name: str) -> None:
    path = FIXTURES / name
    for answer in answers_of(path, tmp_path):
        document = answer.to_dict()
        assert answer.exit_code == document["exit_code"]
        if isinstance(answer, fatpack.DiffResult):
            assert answer.differs is document["differs"]
        else:
            assert bool(answer) is (answer.exit_code == 0)
        assert path.exists() or answer.exit_code > 1, "nothing is raised for a file that is not there"
        assert document["schema"].startswith("fatpack.")
        first = str(answer).splitlines()[0]
        assert first.startswith(f"{answer.verdict}: ")
        assert repr(answer) == f"<fatpack.{type(answer).__name__} {first}>" or len(first) > 200
        page = answer._repr_html_()
        assert page.startswith(f"<table><caption>{answer.verdict}: ") and page.endswith("</details>")


def test_an_answer_that_fails_says_why_in_few_words() -> None:
    path = FIXTURES / "cuda_fatbin" / "v135_concat_tiny.fatbin"
    checked = fatpack.check(path, require=["sm_50", "gfx942"], names_kernels=True)
    assert not checked
    assert repr(checked) == "<fatpack.CheckResult failed: no device code for AMD devices; lacks sm_50>"
    assert "lacks sm_50 [FP3303]" in str(checked)
    assert not fatpack.explain(path, "sm_50")


def test_answers_take_a_path_or_several(tmp_path: Path) -> None:
    path = str(FIXTURES / "cuda_fatbin" / "v135_concat_tiny.fatbin")
    for given in (path, Path(path), [path], (path, Path(path))):
        answers = [fatpack.check(given, require="sm_90"), fatpack.explain(given, "sm_90"), fatpack.doctor(given)]
        answers.append(fatpack.write_report(given, tmp_path / "r.html", overwrite=True))
        assert all(answer.exit_code < 2 for answer in answers)
    for call in (fatpack.doctor, lambda given: fatpack.check(given, require="sm_90")):
        with pytest.raises(fatpack.UsageError, match="no path given"):
            call([])
        with pytest.raises(TypeError, match="must be a path, or several in a list"):
            call([3])


def test_what_the_answers_return_is_a_result() -> None:
    for kind in (
        fatpack.CheckResult,
        fatpack.DoctorResult,
        fatpack.DiffResult,
        fatpack.ExplainResult,
        fatpack.ReportResult,
    ):
        assert issubclass(kind, Result), f"{kind.__name__}: let it derive from fatpack.result.Result"


def test_all_answers_are_alike() -> None:
    """They are alike: frozen, plain data, JSON text, a table in notebooks."""
    path = FIXTURES / "cuda_fatbin" / "v135_concat_tiny.fatbin"
    answers = [fatpack.doctor(path), fatpack.diff(path, path), fatpack.explain(path, "sm_90")]
    for answer in answers:
        assert isinstance(answer, Result)
        assert json.loads(answer.to_json()) == answer.to_dict()
        assert Tags(answer._repr_html_()).seen
        assert answer.to_dict()["schema"].startswith("fatpack.")
        with pytest.raises(AttributeError):
            answer.exit_code = 7
