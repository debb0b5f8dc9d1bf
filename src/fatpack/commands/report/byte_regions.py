"""The bytes of a file as regions: its labels, or for a large file what many labels in a row have in common.

Labels come in the order of the file, and their names are paths: ``contents[11] .nv_fatbin/container[2].entry[0].kind``.
Each level leaves out more of the end of the path; the finest that is short enough is the one that is shown.
"""

from __future__ import annotations

from fatpack.commands.inspect.bytes import file_labels
from fatpack.commands.report.pictures import format_count
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.io.source import View
    from fatpack.model import Label

#: LIMIT: regions of a level; beyond, the next coarser level is shown. A page is to stay readable.
MAX_REGIONS = 1200

#: LIMIT: the same for the cells of a picture, which has some 5,000 at most.
_MOST_CELLS = 10_000

#: LIMIT: labels that are read of a file; the rest is one region.
_MOST_LABELS = 2_000_000

_LEVELS = ("fields", "records", "containers", "sections")


class ByteRegion(Record):
    """Bytes of a file that belong together: ``kind`` is that of most of its bytes, ``labels`` how many fields it has.

    ``arch`` and ``family`` are those of the image of which most of it is; empty where it is of none.
    """

    start: int
    size: int
    name: str
    value: str
    doc: str
    kind: str
    labels: int = 1
    arch: str = ""
    family: str = ""


class FileRegions(Record):
    """The regions of a file, which cover each byte once, and what they are: ``fields``, ``records``, ….

    ``cells`` are more and smaller regions: a picture shows as many of them as it has room for.
    """

    path: str
    size: int
    level: str
    regions: tuple[ByteRegion, ...]
    labels: int
    cells: tuple[ByteRegion, ...]


def file_regions(view: View, images: Mapping[int, tuple[str, str]]) -> FileRegions:
    """Return the regions of a file. ``images`` are the label and the family of each image, by its offset.

    Raises what reading the file raises.
    """
    levels = [_Level(depth) for depth in range(len(_LEVELS))]
    growing = levels
    count = 0
    for label in file_labels(view):
        count += 1
        if count > _MOST_LABELS:
            break
        for level in growing:
            if not level.add(label, images):  # it is full: the next coarser one is shown
                growing = [other for other in growing if other is not level]
    rows, cells = _finest(levels, MAX_REGIONS), _finest(levels, _MOST_CELLS)
    path = view.chain[0] if view.chain else ""
    listed, drawn = _whole(rows, view, MAX_REGIONS), _whole(cells, view, _MOST_CELLS)
    return FileRegions(path, len(view), _LEVELS[rows.depth], listed, count, drawn)


def _finest(levels: list[_Level], most: int) -> _Level:
    return next((level for level in levels if len(level.runs) <= most), levels[-1])


def _whole(level: _Level, view: View, most: int) -> tuple[ByteRegion, ...]:
    """Return the regions of a level, up to ``most``, and one for what it has no room for."""
    regions = [run.region() for run in level.runs[:most]]
    reached = regions[-1].start + regions[-1].size if regions else view.start
    if reached < view.end:
        left = f"{view.end - reached:,} bytes"
        regions.append(ByteRegion(reached, view.end - reached, "more", left, "not listed one by one", "data", 0))
    return tuple(regions)


def _key(name: str, kind: str, depth: int) -> str:
    """Return what a label's name has in common with its neighbours' at a depth: less and less of the path."""
    if not depth:
        return name
    head, slash, tail = name.rpartition("/")
    if slash and tail.startswith("container["):
        if depth == 3:
            return head
        words = tail.split(".")
        return f"{head}/{'.'.join(words[: 2 if depth == 1 else 1])}"
    if name.startswith("container["):
        words = name.split(".")
        return ".".join(words[: 2 if depth == 1 else 1])
    if kind == "field":
        head = name.rpartition(".")[0] or name
        return head if depth == 1 else head.partition("[")[0]
    return name


class _Level:
    """Runs of labels that have in common what is left of their names at a depth; one more than is ever shown."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.runs: list[_Run] = []

    def add(self, label: Label, images: Mapping[int, tuple[str, str]]) -> bool:
        """Take the next label; return whether there was room for it."""
        key = _key(label.name, label.kind, self.depth)
        runs = self.runs
        if runs and runs[-1].key == key and self.depth:
            runs[-1].add(label, images)
            return True
        runs.append(_Run(key, label, images))
        return len(runs) <= _MOST_CELLS


class _Run:
    """Labels in a row with one key."""

    __slots__ = ("archs", "count", "end", "first", "key", "kinds", "start")

    def __init__(self, key: str, label: Label, images: Mapping[int, tuple[str, str]]) -> None:
        self.key, self.first = key, label
        self.start = self.end = label.span.start
        self.count = 0
        self.kinds: dict[str, int] = {}
        self.archs: dict[tuple[str, str], int] = {}
        self.add(label, images)

    def add(self, label: Label, images: Mapping[int, tuple[str, str]]) -> None:
        size = label.span.size
        self.end = label.span.end
        self.count += 1
        self.kinds[label.kind] = self.kinds.get(label.kind, 0) + size
        if label.kind == "data" and (arch := images.get(label.span.start)) is not None:
            self.archs[arch] = self.archs.get(arch, 0) + size

    def region(self) -> ByteRegion:
        size = self.end - self.start
        kind = max(self.kinds, key=lambda kind: self.kinds[kind])
        arch, family = max(self.archs, key=lambda arch: self.archs[arch]) if self.archs else ("", "")
        if len(self.archs) > 1:
            arch = f"{arch} and {format_count(len(self.archs) - 1, 'other')}"
        if self.count == 1:
            value, doc = self.first.value, self.first.doc
        else:
            value, doc = f"{size:,} bytes in {format_count(self.count, 'field')}", ""
        name = self.key if self.count > 1 else self.first.name
        return ByteRegion(self.start, size, name, value, doc, kind, self.count, arch, family)
