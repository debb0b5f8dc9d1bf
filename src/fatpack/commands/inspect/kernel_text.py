"""What kernels need, as a table: one line per kernel, and only the columns in which something is known.

::

    registers  shared  local  params  constant  threads  barriers  code  kernel
           12     512      0      20       372       64         1   640  _Z5scaleIdEvPT_S0_i
            8       0      0      12       364        -         0   256  add_one

Names come last, so that the numbers stay aligned however long a mangled name is. Sizes are exact, in bytes.
"""

from __future__ import annotations

from fatpack.record import Record
from fatpack.text.text import align_columns
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

#: field → heading; for code objects the words of their own tools
_HEADINGS = {
    "registers": ("registers", "VGPRs"),
    "sgprs": ("SGPRs", "SGPRs"),
    "agprs": ("AGPRs", "AGPRs"),
    "vgpr_spills": ("VGPR spills", "VGPR spills"),
    "sgpr_spills": ("SGPR spills", "SGPR spills"),
    "shared": ("shared", "LDS"),
    "local": ("local", "scratch"),
    "params": ("params", "kernarg"),
    "constants": ("constant", "constant"),
    "max_threads": ("threads", "work-group"),
    "min_blocks": ("min. blocks", "min. blocks"),
    "cluster": ("cluster", "cluster"),
    "wavefront": ("wave", "wave"),
    "barriers": ("barriers", "barriers"),
    "size": ("code", "code"),
}


#: fields whose cells are made of more than one number
_OF_SEVERAL = ("local", "constants", "max_threads", "cluster")


class KernelTable(Record):
    """The table for the kernels of an image, made before: it takes a fifth of the memory of what it shows."""

    text: str


def with_kernel_tables(container: dict[str, Any]) -> dict[str, Any]:
    """Return the record of a container in which tables stand for what is known of kernels, and for their names."""
    for image in container["images"]:
        if image.get("kernel_facts"):
            lines = kernel_table(image["kernel_facts"], image["form"], "")
            image |= {"kernels": [], "kernel_facts": KernelTable("\n".join(lines))}
        for inner in image["containers"]:
            with_kernel_tables(inner)
    return container


def kernel_table(kernels: Sequence[dict[str, Any]] | KernelTable, form: str, indent: str) -> Iterator[str]:
    """Yield the table for the kernels of one image, as its record holds them; nothing for no kernels."""
    if isinstance(kernels, KernelTable):
        yield from (indent + line for line in kernels.text.split("\n"))
        return
    cells = {field: _column(kernels, field) for field in _HEADINGS}
    known = [field for field, column in cells.items() if column]
    names = [printable(kernel["name"]) for kernel in kernels]
    if not known:
        yield from (f"{indent}kernel {name}" for name in names)
        return
    heading = [_HEADINGS[field][form == "code-object"] for field in known]
    rows = [[*heading, "kernel"], *zip(*(cells[field] for field in known), names, strict=True)]
    yield from align_columns(rows, right=range(len(known)), indent=indent)


def _column(kernels: Sequence[dict[str, Any]], field: str) -> list[str]:
    """Return the cells of a field, none if nothing is known of it: a library has a hundred thousand kernels."""
    if field in _OF_SEVERAL:
        column = [_cell(kernel, field) for kernel in kernels]
        return column if column.count("-") < len(column) else []
    values = [kernel[field] for kernel in kernels]
    if values.count(None) == len(values):
        return []
    return ["-" if value is None else str(value) for value in values]


def _cell(kernel: dict[str, Any], field: str) -> str:
    value = kernel[field]
    if field == "local" and kernel["has_dynamic_stack"]:
        return "dynamic" if value is None else f"{value}+"
    if field == "max_threads" and kernel["required_threads"]:
        value = kernel["required_threads"]
    if value is None or value == {}:
        return "-"
    if isinstance(value, list):
        return "x".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(str(size) if bank == "0" else f"[{bank}] {size}" for bank, size in value.items())
    return str(value)
