"""``registered``: objects that launch what nothing registers fail, whole ones pass; clang makes both."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import registration

import fatpack

pytestmark = pytest.mark.reference

TARGET = "x86_64-linux-gnu"


@pytest.mark.parametrize("model", ["cuda", "hip"])
def test_objects_whole_and_broken(tmp_path: Path, model: str) -> None:
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, TARGET, embedded=embedded)
    whole = registration.compiled(tmp_path, text, TARGET, "whole")
    made = fatpack.check(whole, registered=True)
    assert made, made.violations
    assert made.rules == ("launched kernels are registered",)
    assert [library.units for library in made.libraries] == [1]
    for name in ("no constructor", "one dropped", "wrong name"):
        damage, code = registration.BROKEN[name]
        broken = registration.compiled(tmp_path, damage(text), TARGET, "broken")
        made = fatpack.check(broken, registered=True)
        (found,) = (item for item in made.violations if item.is_broken)
        assert (made.exit_code, found.code, found.path, found.subject) == (1, code, str(broken), "registration"), name
