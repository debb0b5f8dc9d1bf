"""The table of rules: every name that an answer can have is in it, with a source."""

from __future__ import annotations

import re
from pathlib import Path

import fatpack.targets.selection
from fatpack.targets.selection import cuda
from fatpack.targets.selection.rules import MARKS, all_failures, all_rules, failure_with_code, rule_named

#: a name of a rule in the code; K1 to K3 and the like are in comments alone
_NAMED = re.compile(r'"([CHKMY]\d{1,2})"')


def test_every_rule_that_the_code_names_is_in_the_table() -> None:
    folder = Path(fatpack.targets.selection.__file__).parent
    named = {name for path in folder.glob("*.py") for name in _NAMED.findall(path.read_text(encoding="utf-8"))}
    assert len(named) > 20
    assert named <= {one.name for one in all_rules()}


def test_every_rule_has_words_a_mark_and_a_source() -> None:
    for one in all_rules():
        assert one.says.endswith(".")
        assert one.mark in MARKS
        assert len(one.source) > 10
        assert rule_named(one.name) is one


def test_errors_are_those_that_the_choosers_answer_with() -> None:
    for code, text in cuda.ERRORS.items():
        assert failure_with_code("cuda", code).text == text
    assert all(one.names and one.source for one in all_failures())
