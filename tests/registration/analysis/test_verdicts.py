"""Verdicts that follow from facts, with their certainty and their cost."""

from __future__ import annotations

from collections.abc import Iterator

from fatpack.binary.memory import HostMemory, MemorySection, MemorySymbol
from fatpack.io.source import BytesSource
from fatpack.registration.analysis import findings
from fatpack.registration.analysis.model import LaunchCall, RegisterCall, RegistrationEvidence


class Counted(list[MemorySymbol]):
    """Symbols that count how often they are all looked at."""

    looks = 0

    def __iter__(self) -> Iterator[MemorySymbol]:
        self.looks += 1
        return super().__iter__()


class Plain(HostMemory):
    def pointers(self, section: MemorySection) -> dict[int, int]:
        return {}


def evidence(*handles: int, is_linked: bool) -> RegistrationEvidence:
    """Return the evidence of a file that launches kernels with some handles, and registers another one twice."""
    view = BytesSource(bytes(64)).view()
    symbols = Counted(
        MemorySymbol(f"k{at}", at, 0, is_function=True, is_defined=True, is_local=False) for at in handles
    )
    memory = Plain(view, "x86-64", 8, [MemorySection(1, ".text", 0, 64, view, True)], symbols, is_windows=False)
    launches = tuple(LaunchCall("cuda", 0, 0, at) for at in handles)
    registered = tuple(RegisterCall("cuda", 0, 0, name, 63, True) for name in ("one", "two"))
    return RegistrationEvidence(memory, is_linked, {}, {}, (), registered, launches, (), (), (), None, (), 0)


def test_symbols_are_looked_at_as_often_for_many_kernels_as_for_two() -> None:
    looks = []
    for count in (2, 40):
        facts = evidence(*range(count), is_linked=True)
        symbols = facts.memory.symbols
        assert isinstance(symbols, Counted)
        before = symbols.looks
        (missing, _) = findings.registration_problems(facts)
        assert "k0, k1" in missing.message
        looks.append(symbols.looks - before)
    assert looks[0] == looks[1]


def test_what_was_followed_through_code_is_likely_and_what_relocations_say_is_certain() -> None:
    for is_linked, sure in ((True, "(likely)"), (False, "(certain)")):
        found = list(findings.registration_problems(evidence(0, is_linked=is_linked)))
        assert [each.code for each in found] == ["FP3045", "FP3048"]
        assert all(each.message.endswith(sure) for each in found)
