"""The names of stand-ins: one that is misspelt is guessed."""

from __future__ import annotations

import pytest

from fatpack.errors import UsageError
from fatpack.tools import run_stand_in


@pytest.mark.parametrize(
    ("name", "hint"),
    [("llvm-offload-bnary", "did you mean llvm-offload-binary?"), ("x", "choose from clang-offload-bundler, ")],
)
def test_an_unknown_name_is_refused_with_a_hint(name: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        run_stand_in([name])
    assert caught.value.hint.startswith(hint)
