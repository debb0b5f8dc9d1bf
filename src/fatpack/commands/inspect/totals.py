"""Sums over images by architecture, kernel, file, or several of them, made from the records of ``inspect``.

::

    images   stored  inflated  arch    form
        12  1.21 MB    3.4 MB  sm_80   cubin
         4   210 kB    1.1 MB  compute_90  ptx
        16  1.42 MB    4.5 MB  total

Images count wherever they are: in containers, as members of archives, as files of their own. One that holds containers
is not counted itself, what is in it is, unless it would have to be inflated for that: ``fatpack inspect`` does so for
the sums by kernel alone. A placeholder for the host is no image. ``stored`` are bytes of the file; of a
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

    from fatpack.commands.inspect.listing import AnyImage, ContainerRecord, FileRecord, ImageRecord
    from fatpack.text.style import Style

#: key → the columns of its values
_COLUMNS = {"arch": ("arch", "form"), "form": ("form",), "kernel": ("kernel",), "file": ("file",)}

_ZERO = {"images": 0, "stored_size": 0, "size": 0}

SCHEMA = "fatpack.sums/1"


def compute_totals(files: Iterable[FileRecord], by: Sequence[str]) -> Totals:
    """Return the sums over the images of several files."""
    found = Totals(by)
    for record in files:
        found.add(record)
    return found


def _columns(by: Iterable[str]) -> list[str]:
    """Return the columns of some keys, each once: an architecture has the forms of its images beside it."""
    return list(dict.fromkeys(column for key in by for column in _COLUMNS[key]))


class Totals:
    """Sums over the images of files. ``rows`` has the counts of each group by the values of its columns.

    The columns are those of the keys ``by``: ``arch`` with the ``form`` of its images, ``kernel``, ``file``. Counts are
    ``images``, ``stored_size`` and ``size`` in bytes; by kernel ``code_size`` too, where the sizes of an image count
    for each kernel in it.
    """

    def __init__(self, by: Sequence[str]) -> None:
        self.by = tuple(by)
        self.columns = _columns(by)
        self.rows: dict[tuple[str, ...], dict[str, int]] = {}
        self.total = dict(_ZERO)
        #: the count by which rows are ordered
        self.weight = "code_size" if "kernel" in by else "stored_size"
        self._zero = {"code_size": 0, **_ZERO} if "kernel" in by else _ZERO

    def _row(self, values: tuple[str, ...]) -> dict[str, int]:
        row = self.rows.get(values)
        if row is None:
            row = self.rows[values] = dict(self._zero)
        return row

    def add(self, record: FileRecord) -> None:
        """Add the images of a file."""
        for image, size, stored in _file_images(record):
            _add(self.total, size, stored)
            for values, code in _groups_of(image, record["path"], self.columns):
                row = self._row(values)
                _add(row, size, stored)
                if "kernel" in self.by:
                    row["code_size"] += code

    def merge(self, other: Totals) -> None:
        """Add other sums by the same keys."""
        for values, counts in other.rows.items():
            row = self._row(values)
            for key in self._zero:
                row[key] += counts[key]
        for key in _ZERO:
            self.total[key] += other.total[key]

    def ordered(self) -> list[tuple[dict[str, str], dict[str, int]]]:
        """Return the values and the counts of each row, the largest first."""
        rows = sorted(self.rows.items(), key=lambda pair: (-pair[1][self.weight], pair[0]))
        return [(dict(zip(self.columns, values, strict=True)), counts) for values, counts in rows]

    def record(self) -> dict[str, object]:
        """Return the sums as plain data for JSON: rows, largest first, and a total."""
        rows = [{**values, **counts} for values, counts in self.ordered()]
        return {"schema": SCHEMA, "by": list(self.by), "rows": rows, "total": self.total}


def _add(row: dict[str, int], size: int, stored: int) -> None:
    row["images"] += 1
    row["stored_size"] += stored
    row["size"] += size


def _groups_of(image: AnyImage, path: str, columns: Sequence[str]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the values of the rows that an image belongs to, with the size of its code there: one row per kernel."""
    arch = arch_name(image["arch"], image["form"] or "") or image["triple"] or "-"
    values = {"arch": arch, "form": image["form"] or "-", "file": path}
    if "kernel" not in columns:
        yield tuple(values[column] for column in columns), 0
        return
    facts = image.get("kernel_facts", {})
    sizes = facts if isinstance(facts, dict) else {}
    for kernel in image["kernels"]:
        yield tuple(kernel if column == "kernel" else values[column] for column in columns), sizes.get(kernel) or 0


def _file_images(record: FileRecord) -> Iterator[tuple[AnyImage, int, int]]:
    """Yield every image of a file, its size, and its stored bytes: in containers, in archives, or the file itself."""
    for image, stored in stored_images(record["containers"]):
        yield image, image["size"], stored
    for member in record.get("member_images", ()):
        yield member, member["size"], member["size"]
    if record["image"]:
        size = record["size"] or 0
        yield record["image"], size, size


def stored_images(
    containers: Sequence[ContainerRecord], budget: int | None = None
) -> Iterator[tuple[ImageRecord, int]]:
    """Yield (image, stored bytes) of every image that holds no container.

    ``budget`` is the number of bytes that the containers take in the file if an image around them is compressed.
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
                yield from stored_images(image["containers"], stored if is_packed else None)
            elif image["offload"] != "host" or not _is_marker(container, image):
                yield image, stored


def _is_marker(container: ContainerRecord, image: ImageRecord) -> bool:
    """Return whether an entry for the host is a placeholder: it is empty, or a byte in a fat object."""
    return not image["size"] or is_fat_object(container)


def _part(whole: int, size: int, total: int) -> int:
    return whole * size // total if total else 0


def _grouped(totals: Totals) -> list[tuple[dict[str, str], dict[str, int]]]:
    """Return rows by several keys in groups by the first, the largest first; rows by one key as they are."""
    rows, by = totals.ordered(), totals.by
    if len(by) < 2:
        return rows
    sums: dict[str, int] = {}
    for values, counts in rows:
        sums[values[by[0]]] = sums.get(values[by[0]], 0) + counts[totals.weight]
    return sorted(rows, key=lambda row: (-sums[row[0][by[0]]], row[0][by[0]]))


def _prefix(paths: Sequence[str]) -> str:
    """Return what several paths begin with, up to the name of a package or folder; of one path, its package."""
    first, last = min(paths, default=""), max(paths, default="")
    if first == last:
        return first[: first.rfind("!") + 1]
    at = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[: max(first.rfind("!", 0, at), first.rfind("/", 0, at)) + 1]


def totals_table(totals: Totals, style: Style = PLAIN) -> Iterator[str]:
    """Yield the sums as an aligned table with its total as the last line.

    Sums by several keys are in groups by the first of them, largest first, and a file is named once in its group. What
    the paths of all files begin with, a package or folder, is printed above.
    """
    by, keys, total = totals.by, totals.columns, totals.total
    fields: list[tuple[str, str, Callable[[int], str]]] = [("images", "images", str)]
    if "kernel" in by:
        fields.append(("code_size", "code", format_size))
    fields += [("stored_size", "stored", format_size), ("size", "inflated", format_size)]
    rows = [[*(heading for _, heading, _ in fields), *keys]]
    ordered = _grouped(totals)
    prefix = _prefix([values["file"] for values, _ in ordered]) if "file" in by else ""
    if prefix:
        yield style.painted(f"in {printable(prefix)}", "heading")
    before = ""
    for values, counts in ordered:
        cells = [values[key].removeprefix(prefix if key == "file" else "") for key in keys]
        if by[0] == "file" and len(keys) > 1 and values["file"] == before:
            cells[0] = ""
        rows.append([*(text(counts[field]) for field, _, text in fields), *map(printable, cells)])
        before = values.get("file", "")
    if "kernel" not in by:
        rows.append([*(text(total[field]) for field, _, text in fields), "total", *[""] * (len(keys) - 1)])
    edges = (0, -1 if "kernel" in by else len(rows) - 1)
    names = [number for number, key in enumerate(keys, len(fields)) if key in ("kernel", "file")]
    role = lambda row, _: "heading" if row in edges else ""  # noqa: E731
    yield from table_lines(rows, style, right=range(len(fields)), names=names, role=role)
    if "kernel" in by:
        yield f"each image counts once for every kernel in it; there are {pluralize(total['images'], 'image')}, " + (
            f"{format_size(total['stored_size'])} stored, {format_size(total['size'])} inflated"
        )
