"""Names to files: folders, patterns, links, and skipped files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fatpack.inputs.walk import TreeWalk


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("t/b.so", "t/a/x.so", "t/a/y.py", "t/a/c/z.o", "t/tests/x.so"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(name)
    Path("t/link").symlink_to("a")
    os.mkfifo("t/pipe")
    return tmp_path


def paths(*names: str, **options: object) -> tuple[list[str], TreeWalk]:
    walk = TreeWalk(names, as_named=True, **options)  # type: ignore[arg-type]
    return [place.path for place in walk], walk


def test_a_folder_is_walked_in_the_order_of_its_names_without_following_links(tree: Path) -> None:
    found, walk = paths("t")
    assert found == ["t/b.so", "t/a/x.so", "t/a/y.py", "t/a/c/z.o", "t/tests/x.so"]
    assert (walk.links, walk.special, walk.passed, walk.excluded, walk.unmatched) == (1, 1, 0, 0, [])


def test_names_and_patterns_leave_files_out_and_are_counted(tree: Path) -> None:
    found, walk = paths("t", passes=True, exclude=["tests", "a/c"])
    assert found == ["t/b.so", "t/a/x.so"]
    assert (walk.passed, walk.excluded) == (1, 2)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("t/*.so", ["t/b.so"]),
        ("*/*.so", ["t/b.so"]),
        ("t/**/*.so", ["t/b.so", "t/a/x.so", "t/tests/x.so"]),
        ("t/?/*", ["t/a/x.so", "t/a/y.py"]),
        ("t/[a]/c/*.o", ["t/a/c/z.o"]),
    ],
)
def test_a_pattern_means_files_by_their_paths(pattern: str, expected: list[str], tree: Path) -> None:
    assert paths(pattern)[0] == expected
    assert [place.path for place in TreeWalk([pattern])] == [str(tree / name) for name in expected]


@pytest.mark.parametrize("name", ["[v1]", "a*b", "what?"])
def test_the_folders_around_a_pattern_are_no_part_of_it(name: str, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "t").rename(tree / name)
    monkeypatch.chdir(tree / name)
    for pattern in ("a/*.so", "./*//./x.so", "*/x.so"):
        assert str(tree / name / "a" / "x.so") in [place.path for place in TreeWalk([pattern])]


def test_a_pattern_that_leads_up_again_has_no_files(tree: Path) -> None:
    found, walk = paths("t/*/..")
    assert (found, walk.unmatched) == ([], ["t/*/.."])
    walk = TreeWalk(["t/*/.."])
    assert ([*walk], walk.unmatched) == ([], ["t/*/.."])


def test_parts_lead_from_what_was_named(tree: Path) -> None:
    assert [place.parts for place in TreeWalk(["t/a"])] == [("x.so",), ("y.py",), ("c", "z.o")]
    assert [place.parts for place in TreeWalk(["t/*/x.so"])] == [("a", "x.so"), ("tests", "x.so")]
    assert [place.parts for place in TreeWalk(["t/b.so"])] == [()]


def test_a_pattern_without_files_is_remembered(tree: Path) -> None:
    found, walk = paths("t/*.dll", "t/*.py", passes=True)
    assert (found, walk.unmatched) == ([], ["t/*.dll", "t/*.py"])
    found, walk = paths("t/a/*.py", passes=True)
    assert (found, walk.unmatched, walk.passed) == ([], [], 1)


def test_a_file_of_that_very_name_comes_before_a_pattern(tree: Path) -> None:
    Path("t/[ab].so").write_text("")
    assert paths("t/[ab].so")[0] == ["t/[ab].so"]


def test_what_cannot_be_read_is_a_place_with_the_reason(tree: Path) -> None:
    (place,) = TreeWalk(["t/none"], as_named=True)
    assert (place.path, place.problem) == ("t/none", "No such file or directory")
    assert isinstance(place.error, FileNotFoundError)
