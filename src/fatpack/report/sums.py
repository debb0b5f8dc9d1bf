"""What device code adds up to: by architecture, by kernel, by file; made from the records of ``inspect``.

::

    images   stored  inflated  arch
        12  1.21 MB    3.4 MB  sm_80
         4   210 kB    1.1 MB  sm_90
        16  1.42 MB    4.5 MB  total

An image that holds containers is not counted itself, what is in it is, unless it would have to be inflated for that:
``fatpack inspect`` does so for the sums by kernel alone. ``stored`` are bytes of the file; of a container that is
compressed as a whole each image gets its part by inflated size. A kernel's own size is that of its code.
"""

from __future__ import annotations

from fatpack.report.text import columns, printable, size_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

#: what ``--by`` takes
KEYS = ("arch", "kernel", "file")

SCHEMA = "fatpack.sums/1"


def sums(files: Sequence[dict[str, Any]], by: str) -> dict[str, Any]:
    """Return the sums over the images of several files as one record of plain data: rows, largest first, and a total.

    Every row has ``key``, ``images``, ``stored_size`` and ``size`` in bytes; by kernel ``code_size`` too, where the
    sizes of the images are counted for each kernel in them.
    """
    rows: dict[str, dict[str, Any]] = {}
    total = {"key": "total", "images": 0, "stored_size": 0, "size": 0}
    for record in files:
        for key, image, stored in _images(record["containers"], record["path"], by):
            _add(total, image, stored)
            names = image["kernels"] if by == "kernel" else [key]
            codes = {fact["name"]: fact["size"] for fact in image.get("kernel_facts", ())}
            for name in names:
                row = rows.setdefault(name, {"key": name, "images": 0, "stored_size": 0, "size": 0})
                _add(row, image, stored)
                if by == "kernel":
                    row["code_size"] = row.get("code_size", 0) + (codes.get(name) or 0)
    weight = "code_size" if by == "kernel" else "stored_size"
    ordered = sorted(rows.values(), key=lambda row: (-row[weight], row["key"]))
    return {"schema": SCHEMA, "by": by, "rows": ordered, "total": total}


def _add(row: dict[str, Any], image: dict[str, Any], stored: int) -> None:
    row["images"] += 1
    row["stored_size"] += stored
    row["size"] += image["size"]


def _images(
    containers: Sequence[dict[str, Any]], path: str, by: str, budget: int | None = None
) -> Iterator[tuple[str, dict[str, Any], int]]:
    """Yield (key, image, stored bytes) of every image that holds no container.

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
                yield from _images(image["containers"], path, by, stored if is_packed else None)
            else:
                yield (image["arch"] or image["triple"] or "-") if by == "arch" else path, image, stored


def _part(whole: int, size: int, total: int) -> int:
    return whole * size // total if total else 0


def table(record: dict[str, Any]) -> Iterator[str]:
    """Yield the sums as an aligned table with its total as the last line."""
    by = record["by"]
    fields: list[tuple[str, str, Callable[[int], str]]] = [("images", "images", str)]
    if by == "kernel":
        fields.append(("code_size", "code", size_words))
    fields += [("stored_size", "stored", size_words), ("size", "inflated", size_words)]
    rows = [[*(heading for _, heading, _ in fields), by]]
    for row in record["rows"]:
        rows.append([*(words(row[field]) for field, _, words in fields), printable(row["key"])])
    if by != "kernel":
        rows.append([*(words(record["total"][field]) for field, _, words in fields), "total"])
    yield from columns(rows, right=range(len(fields)))
