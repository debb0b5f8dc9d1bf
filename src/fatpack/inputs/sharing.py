"""Leaves shared out to all cores: what is made of each comes back, in the order of the leaves."""

from __future__ import annotations

from fatpack.budget import current_budget
from fatpack.concurrency.processes import map_in_processes
from fatpack.inputs.files import PackageFindings, SkipCounts
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, TypeVar

    from fatpack.budget import Budget
    from fatpack.inputs.files import Filter, InputFile, PendingFile
    from fatpack.model import Finding

    T = TypeVar("T")


class _MappedBatch(Record):
    """What was made of the leaves of a node in another process, what was met there, and what was inflated.

    ``said`` is what is wrong with how the node is stored.
    """

    made: list[Any]
    counts: SkipCounts
    drawn: int
    said: list[Finding]


def map_files(
    batches: Iterable[list[PendingFile]],
    make: Callable[[InputFile], T],
    rules: Filter,
    counts: SkipCounts,
    *,
    is_local: bool = True,
    budget: Budget | None = None,
) -> Iterator[T]:
    """Yield what ``make`` makes of every leaf, in order; most of it is made in forks of this process.

    What is made must be such that it can be pickled, and ``make`` keeps nothing. Connections to servers stay here: of
    what is not local, all is made in this process. ``budget`` is that of the nodes' sources, by default the command's.
    """
    budget = current_budget() if budget is None else budget

    def work(node: PendingFile) -> _MappedBatch:
        own, before, said = SkipCounts(), budget.drawn, PackageFindings()
        # What stands for the package itself says what was met before it; of any other node, what is new goes back.
        asked = node if node.open is None else node.replace(said=said)
        made = [make(leaf) for leaf in asked.leaves(rules, own)]
        return _MappedBatch(made, own, budget.drawn - before, said.findings())

    def cost(node: PendingFile) -> int:
        return node.size if is_local and node.is_lasting else 0

    for batch in batches:
        shared = map_in_processes(batch, work, cost)
        try:
            for node, there in shared:
                done: _MappedBatch | None = None if there is None else there.value
                if done is not None and budget.inflate(done.drawn):
                    counts.add(done.counts)
                    if node.said is not None:
                        node.said.take(done.said)
                    yield from done.made
                else:
                    for leaf in node.leaves(rules, counts):
                        yield make(leaf)
        finally:
            shared.close()
