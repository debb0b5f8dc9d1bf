"""Public names on their way out work, and say what takes their place."""

from __future__ import annotations

import pytest

import fatpack


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
