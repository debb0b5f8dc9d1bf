"""Public names and options on their way out work, and say what takes their place."""

from __future__ import annotations

import pytest

import fatpack
from fatpack.cli.grammar.declared import option, takes
from fatpack.cli.grammar.plain import parsed
from fatpack.deprecations import Deprecated

OLD = Deprecated(instead="scan", since="0.2", until="0.4")


def test_a_name_that_goes_is_the_new_one_and_warns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fatpack._OLD, "search", ("scan", "0.2", "0.4"))
    with pytest.warns(
        DeprecationWarning, match=r"^fatpack\.search is deprecated since 0\.2 and goes in 0\.4; use scan$"
    ) as told:
        assert fatpack.search is fatpack.scan  # type: ignore[attr-defined]
    assert told[0].filename == __file__


def test_a_name_that_never_was_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'fatpack' has no attribute 'serch'"):
        fatpack.serch  # type: ignore[attr-defined]  # noqa: B018


def test_what_takes_the_place_of_a_name_is_public() -> None:
    assert not set(fatpack._OLD) & set(fatpack.__all__)
    assert {instead for instead, _, _ in fatpack._OLD.values()} <= set(fatpack.__all__)


@pytest.mark.parametrize(
    ("given", "said"), [([], ""), (["--old", "x"], "--old is deprecated since 0.2 and goes in 0.4; use --new")]
)
def test_an_option_that_goes_is_told_on_stderr(given: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    @takes(option("--old", deprecated=OLD.replace(instead="--new"), help="Old."))
    def command(old: str | None) -> int:
        """Test."""
        return 0 if old == (given[-1] if given else None) else 9

    assert command(parsed(command, given)) == 0
    assert capsys.readouterr().err.strip() == (f"fatpack: warning: {said}" if said else "")
