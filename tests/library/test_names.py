"""The public names are those of the stub: what type checkers and editors see is what there is."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

import fatpack


@pytest.mark.parametrize("name", fatpack.__all__)
def test_a_public_name_is_what_the_module_that_the_stub_names_defines(name: str) -> None:
    home = import_module(fatpack._homes()[name])
    assert getattr(fatpack, name) is getattr(home, name)


def test_a_name_that_never_was_is_an_error() -> None:
    with pytest.raises(AttributeError, match=r"module 'fatpack' has no attribute 'serch'"):
        fatpack.serch  # type: ignore[attr-defined]  # noqa: B018


def test_all_names_are_listed_and_none_is_imported_before_it_is_used() -> None:
    program = "import fatpack, sys; print(len(fatpack.__all__), [n for n in sys.modules if n.startswith('fatpack.')])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == f"{len(fatpack.__all__)} []\n"
    assert dir(fatpack) == sorted([*fatpack.__all__, "__version__"])
    assert {"scan", "File", "FatpackError"} < set(fatpack.__all__)
