"""Names of skipped files, and patterns that exclude."""

from __future__ import annotations

import time

import pytest

from fatpack.images import EXTENSIONS
from fatpack.inputs.walk import SUFFIXES, ExcludePatterns, is_skipped, path_matches


@pytest.mark.parametrize("name", ["x.py", "X.PYI", "a/b.hpp", "tables.json", "k.cu", "README.md"])
def test_source_code_and_texts_are_passed(name: str) -> None:
    assert is_skipped(name)


@pytest.mark.parametrize(
    "name", ["libx.so", "libx.so.1", "x", "x.o", "k.cubin", "k.ptx", "k.s", "a.mlir", "x.zst", "py", "x.hip", "x.bin"]
)
def test_what_may_hold_device_code_is_not(name: str) -> None:
    assert not is_skipped(name)


def test_no_form_of_images_has_a_suffix_that_is_passed() -> None:
    assert not SUFFIXES & set(EXTENSIONS.values())


@pytest.mark.parametrize(
    ("pattern", "path", "is_excluded"),
    [
        ("*.so", "a/b/x.so", True),
        ("tests", "a/tests", True),
        ("tests", "a/tests.so", False),
        ("tests/", "a/tests", True),
        ("/tests", "tests", True),
        ("/tests", "a/tests", False),
        ("/tests/", "a/tests", False),
        ("a/*.so", "a/x.so", True),
        ("a/*.so", "b/a/x.so", False),
        ("**/a/*.so", "b/a/x.so", True),
        ("a/**", "a/b/c.so", True),
        ("a/**/c.so", "a/c.so", True),
        ("X.so", "x.so", False),
    ],
)
def test_a_pattern_is_for_names_or_for_paths(pattern: str, path: str, is_excluded: bool) -> None:
    assert ExcludePatterns([pattern]).has(path.split("/")) is is_excluded


def test_an_excluded_folder_takes_all_in_it_along() -> None:
    excluded = ExcludePatterns(["tests", "lib/old"])
    assert excluded.has_any(["a", "tests", "deep", "x.so"])
    assert excluded.has_any(["lib", "old", "x.so"])
    assert not excluded.has_any(["lib", "new", "x.so"])
    assert not ExcludePatterns([]).has_any(["x"])


def test_patterns_that_excluded_something_are_known() -> None:
    used: set[str] = set()
    excluded = ExcludePatterns(["*.so", "lib/*", "*.dll"], used)
    assert excluded.has(["lib", "x.so"])
    assert used == {"*.so", "lib/*"}


def test_no_pattern_takes_long() -> None:
    started = time.process_time()
    assert not path_matches(["**", "a"] * 20 + ["b"], ["a"] * 60)
    assert time.process_time() - started < 5, "trying all ways would take days"
