"""The worth of code: what can never run, what does nothing, and what each architecture costs and gives.

Collected while rows come, and told as tables of texts, which the page and Markdown draw.
"""

from __future__ import annotations

from fatpack.commands.report.model import DeadBytes, HollowCount, Worth
from fatpack.errors import pluralize
from fatpack.printable import format_size
from fatpack.record import Record
from fatpack.tabular.arch_costs import ArchCosts
from fatpack.tabular.columns import ImageRow
from fatpack.tabular.hollow import KernelCode, find_hollow
from fatpack.tabular.image_sets import ImageSet, read_image_sets
from fatpack.targets.selection.dead import REASONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.report.model import ReportResult
    from fatpack.tabular.arch_costs import ArchCost
    from fatpack.tabular.columns import AnyRow, KernelRow

#: LIMIT: kernels of one file whose bodies are compared; torch has 150,593.
_MOST_KERNELS = 1_000_000

#: LIMIT: hollow kernels that are listed; the others are counted.
_MOST_HOLLOW = 40

#: LIMIT: files whose architectures are listed one by one; the table of all has the others too.
_MOST_FILES = 60

#: form of images whose code :mod:`fatpack.images.hollow` reads
_READ = ("cubin", "ptx", "code-object", "spirv")


class WorthBuilder:
    """Takes the rows of all files."""

    def __init__(self) -> None:
        self._dead: dict[tuple[str, str], list[int]] = {}
        self._answers: dict[object, dict[str, dict[str, tuple[str, str]]]] = {}
        self._all = ArchCosts(self._answers)
        self._costs: list[ArchCost] = []
        self._hollow: list[HollowCount] = []
        self._certain = self._likely = self._files = self._not_compared = 0
        self._start()

    def _start(self) -> None:
        self._rows: list[ImageRow] = []
        self._codes: list[KernelCode] = []
        self._label = ""

    def image(self, row: ImageRow, label: str) -> None:
        """Take an image; its kernels come next."""
        self._rows.append(row)
        self._label = label if row.form in _READ else ""
        if row.dead:
            counts = self._dead.setdefault((row.dead, label), [0, 0, 0])
            counts[0] += 1
            counts[1] += row.stored_size or 0
            counts[2] += row.size or 0

    def kernel(self, row: KernelRow) -> None:
        """Take a kernel of that image."""
        if not self._label:
            return
        if len(self._codes) < _MOST_KERNELS:
            self._codes.append(KernelCode(row.kernel or "", self._label, row.code_size, row.body))
        else:
            self._not_compared += 1

    def file(self, row: AnyRow) -> None:
        """Take the row that ends a file."""
        if self._rows:
            self._files += 1
            self._take_costs(row.path)
            for found in find_hollow(self._codes):
                self._certain += found.is_certain
                self._likely += not found.is_certain
                if len(self._hollow) < _MOST_HOLLOW or found.is_certain:
                    self._hollow.append(HollowCount(row.path, found.name, found.label, found.verdict, found.other))
            self._hollow.sort(key=lambda item: not item.verdict.startswith("certain"))
            del self._hollow[_MOST_HOLLOW:]
        self._start()

    def _take_costs(self, path: str) -> None:
        own = ArchCosts(self._answers)
        for costs in (own, self._all):
            for row in self._rows:
                if row.offload != "host" and not row.containers:
                    costs.count(_label(row), row.stored_size, row.size or 0, row.kernel_count or 0)
        for unit in read_image_sets(self._rows):
            if isinstance(unit, ImageSet) and not unit.is_for_link:
                labels = [image.name for image in unit.images]
                for costs in (own, self._all):
                    costs.choose(unit.candidates, labels, unit.vendor)
        if len(self._costs) < _MOST_FILES * 20:
            self._costs += own.records(path)

    def worth(self, doubled: int) -> Worth:
        """Return what was collected; ``doubled`` are the bytes of copies in other files."""
        order = list(REASONS)
        dead = [DeadBytes(reason, label, *counts) for (reason, label), counts in self._dead.items()]
        dead.sort(key=lambda item: (order.index(item.reason), -item.stored, item.label))
        each = tuple(self._costs) if self._files > 1 else ()
        costs = (*self._all.records(), *each)
        return Worth(tuple(dead), costs, tuple(self._hollow), self._certain, self._likely, self._not_compared, doubled)


def _label(row: ImageRow) -> str:
    """Return what an image is for as its set calls it: ``sm_90``, ``compute_90``, else its triple or form."""
    return row.label or row.triple or row.form or ""


# The same as tables of texts.


class WorthTable(Record):
    """A table: ``heads`` begin with ``>`` for numbers, ``advice`` are sentences, ``command`` what to type."""

    name: str
    title: str
    lead: str
    heads: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    advice: tuple[str, ...] = ()
    command: str = ""


#: the command that takes dead code out
COMMAND = "fatpack slim FILE --lossless --drop-dead -d OUT"

#: LIMIT: sentences of advice
_MOST_ADVICE = 8


def worth_tables(overview: ReportResult) -> Iterator[WorthTable]:
    """Yield the tables that are worth showing, in their order."""
    worth = overview.worth
    if not overview.image_count:
        return
    yield _dead_table(overview)
    if worth.costs:
        yield _cost_table(worth.costs)
    if worth.hollow:
        yield _hollow_table(worth)


def _dead_table(overview: ReportResult) -> WorthTable:
    dead = overview.worth.dead
    more = ""
    if overview.worth.doubled:
        size = format_size(overview.worth.doubled)
        more = (
            f" Besides, {size} are copies of images of other files: each library registers its own, so no edit helps."
        )
    if not dead:
        return WorthTable("dead", "Code that can never run", f"None: some device takes each image.{more}")
    count, stored = sum(item.images for item in dead), sum(item.stored for item in dead)
    lead = f"{format_size(stored)} in {pluralize(count, 'image')}: no known device takes them with any driver.{more}"
    rows = tuple(
        (item.label, REASONS[item.reason], f"{item.images:,}", format_size(item.stored), format_size(item.inflated))
        for item in dead
    )
    heads = ("for", "why", ">images", ">stored", ">inflated")
    return WorthTable("dead", "Code that can never run", lead, heads, rows, command=COMMAND)


def _cost_table(costs: Sequence[ArchCost]) -> WorthTable:
    rows = []
    for one in costs:
        instead = "; ".join(f"{', '.join(each.devices)}: {each.words}" for each in one.instead)
        size = "–" if one.stored is None else format_size(one.stored)
        facts = size, format_size(one.inflated), f"{one.images:,}", f"{one.kernels:,}"
        name = one.path.rpartition("/")[2].rpartition("!")[2] or "all"
        rows.append((name, one.label, *facts, ", ".join(one.devices) or "–", instead or "–"))
    whole = [one for one in costs if not one.path]
    dearest = sorted(whole, key=lambda one: -(one.inflated if one.stored is None else one.stored))[:_MOST_ADVICE]
    heads = (
        "in",
        "for",
        ">stored",
        ">inflated",
        ">images",
        ">kernels",
        "devices that take it",
        "without it they would",
    )
    lead = "Bytes of each architecture, the known devices that take it, and what they would take if it were not there."
    return WorthTable("costs", "What an architecture costs", lead, heads, tuple(rows), tuple(x.advice for x in dearest))


def _hollow_table(worth: Worth) -> WorthTable:
    counts = f"{worth.certain:,} certain, {worth.likely:,} likely"
    lead = f"Kernels that do nothing on one architecture, and something on another one: {counts}. A launch succeeds."
    rows = tuple(
        (item.kernel, item.label, item.verdict, item.other, item.path.rpartition("/")[2]) for item in worth.hollow
    )
    return WorthTable("hollow", "Hollow kernels", lead, ("kernel", "on", "what it does", "works on", "in"), rows)
