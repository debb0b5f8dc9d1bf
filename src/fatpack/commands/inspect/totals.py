"""What device code adds up to: by architecture, by kernel, by file, or by several of them; from ``inspect``'s records.

::

    images   stored  inflated  arch    form
        12  1.21 MB    3.4 MB  sm_80   cubin
         4   210 kB    1.1 MB  compute_90  ptx
        16  1.42 MB    4.5 MB  total

Images count wherever they are: in containers, as members of archives, as files of their own. One that holds containers
is not counted itself, what is in it is, unless it would have to be inflated for that: ``fatpack inspect`` does so for
the sums by kernel alone. An entry that only stands for the host is no image. ``stored`` are bytes of the file; of a
container that is compressed as a whole each image gets its part by inflated size. A kernel's own size is that of its
code.
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.model import arch_name
from fatpack.printable import format_size, printable
from fatpack.text.style import PLAIN, is_fat_object, table_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from fatpack.text.style import Style

#: what ``--by`` takes
KEYS = ("arch", "form", "kernel", "file")

#: key → the columns of its values
_COLUMNS = {"arch": ("arch", "form"), "form": ("form",), "kernel": ("kernel",), "file": ("file",)}

_ZERO = {"images": 0, "stored_size": 0, "size": 0}

SCHEMA = "fatpack.sums/1"


def compute_totals(files: Iterable[dict[str, Any]], by: Sequence[str]) -> dict[str, Any]:
    """Return the sums over the images of several files as one record of plain data: rows, largest first, and a total.

    A row has the values that it is for (``arch`` with the ``form`` of its images, ``kernel``, ``file``), ``images``,
    ``stored_size`` and ``size`` in bytes; by kernel ``code_size`` too, where the sizes of the images are counted for
    each kernel in them.
    """
    found = Totals(by)
    for record in files:
        found.add(record)
    return found.record()


def _columns(by: Iterable[str]) -> list[str]:
    """Return the columns of some keys, each once: an architecture has the forms of its images beside it."""
    return list(dict.fromkeys(column for key in by for column in _COLUMNS[key]))


class Totals:
    """Sums in the making: of records, and of other sums by the same keys."""

    def __init__(self, by: Sequence[str]) -> None:
        self._by = by
        self._columns = _columns(by)
        self._rows: dict[tuple[str, ...], dict[str, Any]] = {}
        self._total = dict(_ZERO)
        self._zero = {"code_size": 0, **_ZERO} if "kernel" in by else _ZERO

    def _row(self, values: tuple[str, ...]) -> dict[str, Any]:
        row = self._rows.get(values)
        if row is None:
            row = self._rows[values] = {**dict(zip(self._columns, values, strict=True)), **self._zero}
        return row

    def add(self, record: dict[str, Any]) -> None:
        """Add the images of a file."""
        for image, stored in _everything(record):
            _add(self._total, image, stored)
            for values, code in _rows_of(image, record["path"], self._columns):
                row = self._row(values)
                _add(row, image, stored)
                if "kernel" in self._by:
                    row["code_size"] += code

    def add_sums(self, other: dict[str, Any]) -> None:
        """Add other sums by the same keys, as :meth:`record` has them."""
        for source in other["rows"]:
            row = self._row(tuple(source[column] for column in self._columns))
            for key in self._zero:
                row[key] += source[key]
        for key in _ZERO:
            self._total[key] += other["total"][key]

    def record(self) -> dict[str, Any]:
        """Return the sums as plain data."""
        weight = "code_size" if "kernel" in self._by else "stored_size"
        ordered = [row for _, row in sorted(self._rows.items(), key=lambda pair: (-pair[1][weight], pair[0]))]
        return {"schema": SCHEMA, "by": list(self._by), "rows": ordered, "total": self._total}


def _add(row: dict[str, Any], image: dict[str, Any], stored: int) -> None:
    row["images"] += 1
    row["stored_size"] += stored
    row["size"] += image["size"]


def _rows_of(image: dict[str, Any], path: str, columns: Sequence[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the values of the rows that an image belongs to, with the size of its code there: one row per kernel."""
    arch = arch_name(image["arch"], image["form"] or "") or image["triple"] or "-"
    values = {"arch": arch, "form": image["form"] or "-", "file": path}
    if "kernel" not in columns:
        yield tuple(values[column] for column in columns), 0
        return
    codes = image.get("kernel_facts", {})
    for kernel in image["kernels"]:
        yield tuple(kernel if column == "kernel" else values[column] for column in columns), codes.get(kernel) or 0


def _everything(record: dict[str, Any]) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield every image of a file with the bytes it takes there: of containers, of archives, or the file itself."""
    yield from _images(record["containers"])
    for member in record.get("member_images", ()):
        yield member, member["size"]
    if record["image"]:
        yield {**record["image"], "size": record["size"]}, record["size"]


def _images(containers: Sequence[dict[str, Any]], budget: int | None = None) -> Iterator[tuple[dict[str, Any], int]]:
    """Yield (image, stored bytes) of every image that holds no container.

    ``budget`` are the bytes that the containers take in the file if something around them is compressed.
    """
    whole = sum(container["size"] for container in containers)
    for container in containers:
        size = container["size"] if budget is None else _part(budget, container["size"], whole)
        inflated = sum(image["size"] for image in container["images"])
        for image in container["images"]:
            stored = image["stored_size"]
            if stored is None or budget is not None:
                stored = _part(size, image["size"], inflated)
            if image["containers"]:
                is_packed = budget is not None or image["compression"] is not None
                yield from _images(image["containers"], stored if is_packed else None)
            elif image["offload"] != "host" or not _is_marker(container, image):
                yield image, stored


def _is_marker(container: dict[str, Any], image: dict[str, Any]) -> bool:
    """Return whether an entry for the host only stands for it: it is empty, or a byte in a fat object."""
    return not image["size"] or is_fat_object(container)


def _part(whole: int, size: int, total: int) -> int:
    return whole * size // total if total else 0


def _grouped(rows: Sequence[dict[str, Any]], by: Sequence[str], weight: str) -> Sequence[dict[str, Any]]:
    """Return rows by several keys in groups by the first, the largest first; rows by one key as they are."""
    if len(by) < 2:
        return rows
    totals: dict[str, int] = {}
    for row in rows:
        totals[row[by[0]]] = totals.get(row[by[0]], 0) + row[weight]
    return sorted(rows, key=lambda row: (-totals[row[by[0]]], row[by[0]]))


def _prefix(paths: Sequence[str]) -> str:
    """Return what several paths begin with, up to the name of a package or folder; of one path, its package."""
    first, last = min(paths, default=""), max(paths, default="")
    if first == last:
        return first[: first.rfind("!") + 1]
    at = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: max(first.rfind("!", 0, at), first.rfind("/", 0, at)) + 1]


def totals_table(record: dict[str, Any], style: Style = PLAIN) -> Iterator[str]:
    """Yield the sums as an aligned table with its total as the last line.

    Sums by several keys are in groups by the first of them, largest first, and a file is named once in its group. What
    the paths of all files begin with, a package or folder, stands above.
    """
    by = record["by"]
    keys = _columns(by)
    fields: list[tuple[str, str, Callable[[int], str]]] = [("images", "images", str)]
    if "kernel" in by:
        fields.append(("code_size", "code", format_size))
    fields += [("stored_size", "stored", format_size), ("size", "inflated", format_size)]
    rows = [[*(heading for _, heading, _ in fields), *keys]]
    prefix = _prefix([row["file"] for row in record["rows"]]) if "file" in by else ""
    if prefix:
        yield style.painted(f"in {printable(prefix)}", "heading")
    before: dict[str, Any] = {}
    for row in _grouped(record["rows"], by, "code_size" if "kernel" in by else "stored_size"):
        cells = [row[key].removeprefix(prefix if key == "file" else "") for key in keys]
        if by[0] == "file" and len(keys) > 1 and row["file"] == before.get("file"):
            cells[0] = ""
        rows.append([*(text(row[field]) for field, _, text in fields), *map(printable, cells)])
        before = row
    if "kernel" not in by:
        rows.append([*(text(record["total"][field]) for field, _, text in fields), "total", *[""] * (len(keys) - 1)])
    edges = (0, -1 if "kernel" in by else len(rows) - 1)
    names = [number for number, key in enumerate(keys, len(fields)) if key in ("kernel", "file")]
    role = lambda row, _: "heading" if row in edges else ""  # noqa: E731
    yield from table_lines(rows, style, right=range(len(fields)), names=names, role=role)
    if "kernel" in by:
        total = record["total"]
        yield f"each image counts once for every kernel in it; there are {pluralize(total['images'], 'image')}, " + (
            f"{format_size(total['stored_size'])} stored, {format_size(total['size'])} inflated"
        )
