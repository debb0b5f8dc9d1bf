"""Link lines: what counts for what, which file a library is, and what is passed by."""

from __future__ import annotations

from pathlib import Path

import pytest

from fatpack.commands.link_inputs.link_line import LinkWord, find_link_file, parse_link_line
from fatpack.errors import UsageError


def test_whole_archive_counts_for_what_follows_it() -> None:
    line = parse_link_line(["a.a", "--whole-archive", "b.a", "-lc", "-no-whole-archive", "d.a"])
    assert [(word.text, word.is_library, word.is_whole) for word in line.words] == [
        ("a.a", False, False),
        ("b.a", False, True),
        ("c", True, True),
        ("d.a", False, False),
    ]


def test_whole_archive_of_the_command_counts_for_the_words_of_a_linker() -> None:
    assert parse_link_line(["--whole-archive"], ["a.a"]).words == (LinkWord("a.a", False, True, is_required=False),)


@pytest.mark.parametrize("words", [["-Lx"], ["-L", "x"], ["--library-path=x"], ["-libpath:x"]])
def test_a_folder_has_several_spellings(words: list[str]) -> None:
    assert parse_link_line(words).folders == ("x",)


def test_other_options_are_refused_in_front_of_the_words_of_a_linker_and_passed_by_among_them() -> None:
    with pytest.raises(UsageError, match=r"-z is no option of a link line; .*--whole-archive"):
        parse_link_line(["-z"])
    line = parse_link_line([], ["-z", "relro", "-o", "a.out", "--library=m", "a.o"])
    assert line.ignored_words == ("-z", "-o", "a.out", "--library=m")
    assert [word.text for word in line.words] == ["relro", "a.o"]


@pytest.mark.parametrize("word", ["-L", "-l", "-o"])
def test_a_line_does_not_end_with_half_an_option(word: str) -> None:
    with pytest.raises(UsageError, match=f"{word} is the last word of the line"):
        parse_link_line([], ["a.o", word])


def _library(name: str) -> LinkWord:
    return parse_link_line([f"-l{name}"]).words[0]


def test_a_library_is_the_shared_one_of_the_first_folder_that_has_any(tmp_path: Path) -> None:
    for name in ("one/libx.a", "two/libx.so", "two/libx.a", "two/y.lib", "two/z.o"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    both = parse_link_line([f"-L{tmp_path}/none", f"-L{tmp_path}/one", f"-L{tmp_path}/two"])
    assert find_link_file(_library("x"), both) == f"{tmp_path}/one/libx.a"
    second = parse_link_line([f"-L{tmp_path}/two"])
    assert find_link_file(_library("x"), second) == f"{tmp_path}/two/libx.so"
    assert find_link_file(_library("y.lib"), second) == f"{tmp_path}/two/y.lib"
    assert find_link_file(_library(":z.o"), second) == f"{tmp_path}/two/z.o"
    below = parse_link_line(["-L=/two"]).replace(root=str(tmp_path))
    assert find_link_file(_library("x"), below) == f"{tmp_path}/two/libx.so"


def test_a_library_that_is_nowhere_is_an_error_that_says_what_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"-lx: no libx.so and no libx.a in .*; add -L FOLDER"):
        find_link_file(_library("x"), parse_link_line([f"-L{tmp_path}"]))
    with pytest.raises(UsageError, match=r"-l:x\.a: no x\.a and no -L says where libraries are"):
        find_link_file(_library(":x.a"), parse_link_line([]))


def test_the_folders_of_the_system_are_looked_at_behind_those_of_the_line(tmp_path: Path) -> None:
    for name in ("usr/lib/any-linux-gnu/libm.a", "usr/lib/libm.a", "lib64/libother.so", "own/libother.a"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    line = parse_link_line([], ["-L=/own", f"--sysroot={tmp_path}"])
    assert find_link_file(_library("m"), line) == f"{tmp_path}/usr/lib/any-linux-gnu/libm.a"
    assert find_link_file(_library("other"), line) == f"{tmp_path}/own/libother.a"
    assert find_link_file(_library("other"), line.replace(folders=())) == f"{tmp_path}/lib64/libother.so"
    with pytest.raises(UsageError, match=r"-lnone: .* in =/own, nor in the system's folders \(.*/usr/lib\)"):
        find_link_file(_library("none"), line)
