"""Libraries that are left out where they would need a compiler: what needs them says so."""

from __future__ import annotations

import pytest

from fatpack.main import ExitCode


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("lief", 4, "the library lief is not installed, and this needs it"),
        ("fatpack.gone", 5, "a part of the program cannot be loaded"),
    ],
)
def test_a_library_that_is_missing_is_named(
    name: str, code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitCode() as outcome:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)
    assert outcome.code == code
    assert words in capsys.readouterr().err
