"""Columns of kernels: which an image has, and what each needs."""

from __future__ import annotations

from fatpack import images
from fatpack.scanner.results import kernel_names
from fatpack.tabular.columns import KernelRow, Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from fatpack.images.images_kernel import KernelNeeds
    from fatpack.io.source import View


def read_image_kernels(view: View, form: str, record: object) -> tuple[tuple[KernelNeeds, ...], tuple[str, ...]]:
    """Return the kernels of an image, and sentences about what contradicts itself in it."""
    if form == "cir":  # a module says of its kernels only their names
        from fatpack.images.images_kernel import KernelNeeds

        return tuple(map(KernelNeeds, kernel_names(view, form, record))), ()
    facts = images.facts(view, form)
    return facts.kernels, facts.contradictions


#: fields of kernels that are columns of the same name and value
_SAME = tuple(
    "registers sgprs agprs vgpr_spills sgpr_spills shared local has_dynamic_stack params max_threads min_blocks "
    "wavefront barriers".split()
)


#: columns that only rows of kernels have, behind those of all rows
KERNEL_COLUMNS = KernelRow._fields[len(Row._fields) :]


def kernel_columns(kernel: KernelNeeds) -> dict[str, Any]:
    """Return the columns of a kernel."""
    columns = {name: getattr(kernel, name) for name in _SAME}
    for name in ("required_threads", "cluster"):
        sizes = getattr(kernel, name)
        columns[name] = "x".join(map(str, sizes)) if sizes else None
    if kernel.constants is not None:
        columns["constants"] = ",".join(f"{bank}:{size}" for bank, size in kernel.constants)
    return {**columns, "kernel": kernel.name, "code_size": kernel.size}


def has_kernel(kernels: Iterable[KernelNeeds], form: str, pattern: str) -> bool | None:
    """Return whether a kernel has a name that a pattern is found in; None for forms that show no kernels."""
    from re import search

    if not kernels and form not in images.WITH_KERNELS:
        return None
    return any(search(pattern, kernel.name) for kernel in kernels)
