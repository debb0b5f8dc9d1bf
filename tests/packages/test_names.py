"""Names of files through links that lead out, and the memory for such links."""

from __future__ import annotations

from fatpack.io.source import Span
from fatpack.packages.names import NameChecker
from fatpack.testing.helpers import TracedMemory

NOWHERE = Span(0, 0, ())


def codes(names: NameChecker, name: str) -> list[str]:
    return [finding.code for finding in names.check(name, NOWHERE)]


def test_links_that_lead_out_take_little_memory_whatever_their_number() -> None:
    names = NameChecker()
    with TracedMemory() as memory:
        for number in range(1000):
            names.link(f"{number}/" + "a/" * 250 + "l", "/etc", NOWHERE)
    assert memory.peak < 48 << 20
    assert codes(names, "0/" + "a/" * 250 + "l/x") == ["FP1708"]
    assert codes(names, "999/" + "a/" * 250 + "l/x") == []


def test_a_link_in_more_folders_than_real_ones_is_not_remembered() -> None:
    names = NameChecker()
    names.link("a/" * 300 + "l", "/etc", NOWHERE)
    names.link("b/l", "/etc", NOWHERE)
    assert codes(names, "a/" * 300 + "l/x") == []
    assert codes(names, "b/l/x") == ["FP1708"]
