"""Skipped inputs are counted once, in one record, and reported in words."""

from __future__ import annotations

import html
import json
import os
import shutil
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.findings import CODES, finding
from fatpack.inputs.files import SkipCounts
from fatpack.io.source import Span
from fatpack.main import main
from fatpack.tabular.columns import FindingSummary, ImageRow, RowOptions
from fatpack.tabular.read_many import read_paths
from fatpack.tabular.skipped import NOT_READ, REASONS, CompletenessCheck, Skipped

FAT = FIXTURES / "elf" / "clang-22-openmp-gfx90a.o"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one file that is read, and something of each kind that is not."""
    root = tmp_path / "root"
    (root / "inner").mkdir(parents=True)
    shutil.copy(FAT, root / "fat.o")
    (root / "fat.py").write_bytes(FAT.read_bytes())
    (root / "left.o").write_bytes(FAT.read_bytes())
    (root / "inner" / "link.o").symlink_to(root / "fat.o")
    os.mkfifo(root / "inner" / "pipe")
    return root


def test_each_reason_is_counted(folder: Path) -> None:
    rows = read_paths([folder], RowOptions(), exclude=["left.o"])
    assert [row.path for row in rows if row.row == "file"] == [str(folder / "fat.o")]
    assert rows.unlooked == Skipped(links=1, special=1, excluded=1, passed=1)
    assert not rows.unlooked.is_asked


def test_what_must_not_be_read_and_what_vanished_are_rows_too(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fatpack.inputs import files

    def refusing(path: str, **_: object) -> object:
        raise (
            PermissionError(13, "Permission denied", path) if path.endswith("fat.o") else FileNotFoundError(2, "", path)
        )

    monkeypatch.setattr(files, "open_source", refusing)
    rows = read_paths([folder], RowOptions())
    found = list(rows)
    end = CompletenessCheck()
    assert [bool(end.missed(row)) for row in found] == [True, True]
    assert rows.unlooked == Skipped(links=1, special=1, passed=1, denied=1, vanished=1)


def test_all_is_reported_with_its_reason() -> None:
    full = Skipped(**dict.fromkeys(REASONS, 2))
    assert {*REASONS, "not_read"} == set(Skipped._fields)
    assert len(list(full.reasons())) == len(REASONS)
    assert all(
        word in full.sentence() for word in ("2 links", "without permission", "gone", "by name (no device code)")
    )
    assert next(Skipped(links=1).reasons()) == (1, "link", "links in folders are not followed")
    assert not Skipped()
    assert Skipped().sentence() == ""
    assert Skipped(passed=9, excluded=1).is_asked


def test_counts_of_several_walks_add_up(folder: Path) -> None:
    counts = SkipCounts()
    for _ in range(2):
        list(read_paths([folder], RowOptions(), counts=counts))
    assert (counts.links, counts.passed, counts.special) == (2, 2, 2)


@pytest.mark.parametrize(
    ("row", "unread"),
    [
        (ImageRow("file", "x", exit_code=0), False),
        (ImageRow("file", "x", exit_code=1, findings=("FP1101",)), False),
        (ImageRow("file", "x", error="x: gone", exit_code=5), True),
        (ImageRow("file", "x", exit_code=3, findings=("FP1001",)), True),
        (ImageRow("file", "x", exit_code=1, findings=("FP1006",)), True),
        (ImageRow("file", "x", exit_code=1, findings=("FP1002",)), True),
    ],
)
def test_one_question_says_what_was_not_read(row: ImageRow, unread: bool) -> None:
    assert bool(CompletenessCheck().missed(row)) is unread
    assert set(NOT_READ) <= set(CODES)


def test_what_an_image_says_counts_for_its_file_alone() -> None:
    end = CompletenessCheck()
    assert end.missed(ImageRow("image", "x", findings=("FP1006",))) is None
    missed = end.missed(ImageRow("file", "x", exit_code=4))
    assert missed is not None
    assert (missed.exit_code, "FP1006" in missed.problem) == (4, True)
    assert end.missed(ImageRow("file", "y", exit_code=1)) is None


def test_a_report_and_an_explanation_say_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    overview = fatpack.write_report(folder, folder.parent / "x.html")
    assert overview.notes[-1] == "Skipped: 1 link, 1 no plain file, 1 by name (no device code)."
    main(["explain", str(folder), "--device", "gfx90a"])
    assert "skipped: 1 link, 1 no plain file, 1 by name (no device code)" in capsys.readouterr().err
    main(["explain", str(folder), "--device", "gfx90a", "--exclude", "left.o", "--json"])
    counts = {"links": 1, "special": 1, "excluded": 1, "passed": 1, "denied": 0, "vanished": 0, "not_read": []}
    assert json.loads(capsys.readouterr().out)["unlooked"] == counts
    explained = fatpack.explain(folder, "gfx90a")
    assert explained.unlooked == Skipped(links=1, special=1, passed=1)
    assert explained.lines()[-1] == explained.unlooked.sentence()
    main(["explain", str(folder / "fat.o"), "--device", "gfx90a"])
    assert capsys.readouterr().err == ""


def cut(source: Path, size: int, target: Path) -> Path:
    target.write_bytes(source.read_bytes()[:size])
    return target


@pytest.mark.parametrize(
    ("fixture", "size", "lines"),
    [
        (
            "cuda_fatbin/v124_all_ident.fatbin",
            1500,
            [
                "FP1402 at 0x0: entries_size: needs 2072 bytes, 1500 left; the file looks cut short",
                "FP1401 at 0x18: entry[0].padded_size: it is 0x588, with 0x584 bytes left",
            ],
        ),
        (
            "elf/clang-22-openmp-gfx90a.o",
            3000,
            [
                "FP1001 at 0x1e40: elf: section table: needs 1216 bytes, 0 left",
                "FP1001 at 0x1d0: llvm-offload-binary: size: 0x1818 is past the end (expected at most 0x9e8)",
            ],
        ),
    ],
)
def test_what_is_damaged_is_reported_in_the_words_of_its_finding(
    fixture: str, size: int, lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = cut(FIXTURES / fixture, size, tmp_path / "cut")

    def printed(*arguments: str) -> str:
        main([*arguments, str(path)])
        return capsys.readouterr().out

    assert all(f"error {line}" in printed("inspect") for line in lines)
    for output in ("text", "json", "github", "junit", "sarif"):
        text = html.unescape(printed("check", "--no-config", "--require=sm_90", f"--output={output}"))
        assert all(line in text for line in lines), output
    assert all(line in printed("explain", "--device=sm_90") for line in lines)
    assert all(line in printed("explain", "--device=sm_90", "--json") for line in lines)
    assert all(line in printed("diff", str(FAT)) for line in lines)
    markdown = printed("report", "--markdown", "-o", "-").replace("\\", "")
    assert lines[0] in markdown
    main(["report", str(path), "-o", str(tmp_path / "x.html")])
    assert lines[0] in html.unescape((tmp_path / "x.html").read_text())
    assert "the message says" not in printed("check", "--no-config", "--require=sm_90")


def test_of_many_findings_of_a_kind_the_first_are_reported_and_all_are_counted() -> None:
    texts = tuple(f"FP1104 at {number:#x}: cut" for number in range(9))
    end = CompletenessCheck()
    for text in texts:
        assert end.missed(ImageRow("image", "x", findings=("FP1104",), messages=(text,))) is None
    missed = end.missed(ImageRow("file", "x", exit_code=3))
    assert missed is not None
    assert missed.problem == f"not all of it can be read: {'; '.join(texts[:4])}; 5 more with FP1104"


def test_a_row_has_few_of_many_findings_and_counts_the_others() -> None:
    span = Span(0, 1, ("x.a(m.o)", ".text"))
    noted = FindingSummary(
        "x.a", [finding("FP1001", span.replace(start=8 * number), f"no {number}") for number in range(9)]
    )
    place = "(m.o → .text)"
    assert noted.codes == ("FP1001",)
    said = tuple(f"FP1001 at {8 * number:#x} {place}: no {number}" for number in range(3))
    assert noted.messages == (*said, "FP1001: 6 more")
    whole = FindingSummary("x.a")
    whole.update(noted)
    assert whole.messages == noted.messages
