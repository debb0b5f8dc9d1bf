"""Words that bash breaks into pieces are joined again, and quotes are read."""

from __future__ import annotations

import pytest

from fatpack.main.completion import parse_bash_line, unquote


@pytest.mark.parametrize(
    ("line", "pieces", "words", "replaced"),
    [
        ("fatpack in", ["fatpack", "in"], ["in"], "in"),
        ("fatpack ", ["fatpack", ""], [""], ""),
        ("fatpack inspect --by=a", ["fatpack", "inspect", "--by", "=", "a"], ["inspect", "--by=a"], "a"),
        ("fatpack inspect --by=", ["fatpack", "inspect", "--by", "="], ["inspect", "--by="], ""),
        ("fatpack inspect --by=a", ["fatpack", "inspect", "--by=a"], ["inspect", "--by=a"], "--by=a"),
        ("fatpack inspect --by ", ["fatpack", "inspect", "--by", ""], ["inspect", "--by", ""], ""),
        ("fatpack x --id hip:gfx9", ["fatpack", "x", "--id", "hip", ":", "gfx9"], ["x", "--id", "hip:gfx9"], "gfx9"),
        ("fatpack x --a=b:c", ["fatpack", "x", "--a", "=", "b", ":", "c"], ["x", "--a=b:c"], "c"),
        ("fatpack x --r @fb", ["fatpack", "x", "--r", "@", "fb"], ["x", "--r", "@fb"], "@fb"),
        ("fatpack x --r=@fb", ["fatpack", "x", "--r", "=", "@", "fb"], ["x", "--r=@fb"], "@fb"),
        ("fatpack x --r a,@fb", ["fatpack", "x", "--r", "a,", "@", "fb"], ["x", "--r", "a,@fb"], "@fb"),
        ("fatpack x --i=f\\ g:b", ["fatpack", "x", "--i", "=", "f\\ g", ":", "b"], ["x", "--i=f g:b"], "b"),
        ("fatpack x --i=a\\ b", ["fatpack", "x", "--i", "=", "a\\ b"], ["x", "--i=a b"], "a\\ b"),
        ("fatpack   x   y", ["fatpack", "x", "y"], ["x", "y"], "y"),
        ("fatpack x 'two w", ["fatpack", "x", "'two w"], ["x", "two w"], "'two w"),
        ("fatpack x two\\ w y", ["fatpack", "x", "two\\ w", "y"], ["x", "two w", "y"], "y"),
        ("fatpack insp", ["fatpack", "inspect"], ["insp"], "insp"),
        ("fatpack a a a", ["fatpack", "a", "a", "a"], ["a", "a", "a"], "a"),
    ],
    ids=str,
)
def test_words_are_whole_and_the_last_piece_is_known(
    line: str, pieces: list[str], words: list[str], replaced: str
) -> None:
    assert parse_bash_line(line, pieces) == (words, replaced)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("a", "a"),
        ("'a b'", "a b"),
        ('"a b"c', "a bc"),
        ("a\\ b", "a b"),
        ("'op en", "op en"),
        ("a\"it's", "ait's"),
        ("a\\", "a\\"),
    ],
)
def test_quotes_of_the_shell_are_read(word: str, expected: str) -> None:
    assert unquote(word) == expected
