"""What follows from facts: how sure it is, and at what cost."""

from __future__ import annotations

from collections.abc import Iterator

from fatpack.io.sources.memory import BytesSource
from fatpack.runtime.evidence import verdicts
from fatpack.runtime.evidence.facts import Evidence, Launch, Registered
from fatpack.runtime.evidence.memory import Memory, Section, Symbol


class Counted(list[Symbol]):
    """Symbols that count how often they are all looked at."""

    looks = 0

    def __iter__(self) -> Iterator[Symbol]:
        self.looks += 1
        return super().__iter__()


class Plain(Memory):
    def pointers(self, section: Section) -> dict[int, int]:
        return {}


def evidence(*handles: int, is_linked: bool) -> Evidence:
    """Return what a file shows that launches kernels with some handles, and registers another one twice."""
    view = BytesSource(bytes(64)).view()
    symbols = Counted(Symbol(f"k{at}", at, 0, is_function=True, is_defined=True, is_local=False) for at in handles)
    memory = Plain(view, "x86-64", 8, [Section(1, ".text", 0, 64, view, True)], symbols, is_windows=False)
    launches = tuple(Launch("cuda", 0, 0, at) for at in handles)
    registered = tuple(Registered("cuda", 0, 0, name, 63, True) for name in ("one", "two"))
    return Evidence(memory, is_linked, {}, {}, (), registered, launches, (), (), (), None, (), 0)


def test_symbols_are_looked_at_as_often_for_many_kernels_as_for_two() -> None:
    looks = []
    for count in (2, 40):
        facts = evidence(*range(count), is_linked=True)
        symbols = facts.memory.symbols
        assert isinstance(symbols, Counted)
        before = symbols.looks
        (missing, _) = verdicts.verdicts(facts)
        assert "k0, k1" in missing.message
        looks.append(symbols.looks - before)
    assert looks[0] == looks[1]


def test_what_was_followed_through_code_is_likely_and_what_relocations_say_is_certain() -> None:
    for is_linked, sure in ((True, "(likely)"), (False, "(certain)")):
        found = list(verdicts.verdicts(evidence(0, is_linked=is_linked)))
        assert [each.code for each in found] == ["FP3045", "FP3048"]
        assert all(each.message.endswith(sure) for each in found)
