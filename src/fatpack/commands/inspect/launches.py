"""Which kernels the host of a CIR container launches, and which device modules have them, as a table of stubs.

::

    launched              sm_80  sm_90
    _Z5scalePff           yes    missing
"""

from __future__ import annotations

from fatpack.tabular.cir_launches import cir_launches
from fatpack.text.text import align_columns
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any


def launch_table(container: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield the table of stubs and device modules; nothing if the host launches nothing."""
    wanted, devices = cir_launches(container)
    if not wanted or not devices:
        return
    rows: list[Sequence[str]] = [["launched", *map(printable, devices)]]
    for kernel in wanted:
        rows.append([printable(kernel), *(_presence(kernel, kernels) for kernels in devices.values())])
    yield from align_columns(rows, indent=indent)


def _presence(kernel: str, kernels: set[str] | None) -> str:
    if kernels is None:
        return "not decodable"
    return "yes" if kernel in kernels else "missing"
