"""Each rule of the proof rejects a forgery that no other rule rejects: without it the forgery would be proved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.proof import elf_forgeries, pe_forgeries
from tests.proof.packages import forgeries as package_forgeries
from tests.proof.packages import image_forgeries
from tests.proof.rules import Rule, all_rules, image_rejected_by, package_rejected_by, rejected_by

#: Rules that never reject alone, with the rules that reject the same: they say more clearly what differs.
IMPLIED = {
    "ledger: compare_memory: 'rights of what is loaded'": "flags of segments, and the bytes of section headers",
    "pe/parts: compare_headers: 'headers'": "the bytes of the file header in memory",
    "packages/wheels: compare: f'{now.filename}: {field}'": "entries of the directory",
    "packages/conda: _compare_zips: f'{now.filename}: {field}'": "entries of the directory",
}

PROGRAMS = elf_forgeries.FORGERIES | {f"DLL: {name}": make for name, make in pe_forgeries.FORGERIES.items()}


def test_each_rule_rejects_a_forgery_alone() -> None:
    rejecting = [rejected_by(*make()) for make in PROGRAMS.values()]
    rejecting += [package_rejected_by(*make()) for make in package_forgeries.FORGERIES.values()]
    rejecting += [image_rejected_by(*make()) for make in image_forgeries.FORGERIES.values()]
    alone = {rule for rules in rejecting if len(rules) == 1 for rule in rules}
    missing = {rule.label for rules in all_rules().values() for rule in rules if rule not in alone}
    assert missing == IMPLIED.keys()


def test_rules_that_say_more_clearly_what_differs_do_so() -> None:
    found: set[Rule] = set()
    for make in pe_forgeries.OTHERS.values():
        found |= rejected_by(*make())
    for make in package_forgeries.OTHERS.values():
        found |= package_rejected_by(*make())
    assert {rule.label for rule in found} >= IMPLIED.keys()


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_forged_program_is_rejected_by_one_rule(name: str) -> None:
    assert len(_labels(rejected_by, PROGRAMS[name])) == 1


@pytest.mark.parametrize("name", package_forgeries.FORGERIES)
def test_a_forged_package_is_rejected_by_one_rule(name: str) -> None:
    assert len(_labels(package_rejected_by, package_forgeries.FORGERIES[name])) == 1


@pytest.mark.parametrize("name", image_forgeries.FORGERIES)
def test_a_forged_image_is_rejected_by_one_rule(name: str) -> None:
    assert len(_labels(image_rejected_by, image_forgeries.FORGERIES[name])) == 1


def test_an_image_that_was_slimmed_is_rejected_by_none() -> None:
    assert not image_rejected_by(*image_forgeries.slim_and())


def _labels(rejected: Callable[..., set[Rule]], make: Callable[[], tuple[object, object]]) -> list[str]:
    return [rule.label for rule in rejected(*make())]
