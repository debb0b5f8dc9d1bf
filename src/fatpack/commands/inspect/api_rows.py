"""A file as flat records: ``rows``."""

from __future__ import annotations

from fatpack.errors import FatpackError, UsageError
from fatpack.inputs.files import Filter, SkipCounts
from fatpack.io.open import resolve_url
from fatpack.library.arguments import check_type, make_budget, open_input
from fatpack.library.leaves import expand_inputs, tree_name
from fatpack.tabular.columns import TABLES
from fatpack.tabular.options import RowOptions
from fatpack.tabular.packages import read_file_rows, read_open_file_rows
from fatpack.tabular.read_file import error_row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal, overload

    from fatpack.io.open import Input
    from fatpack.tabular.columns import AnyRow, ImageRow, KernelRow
else:

    def overload(function):  # noqa: D103  (typing loads half the library; this is its decorator)
        return function


@overload
def rows(  # noqa: D103
    data: Input,
    *,
    of: Literal["images"] = "images",
    digests: bool = False,
    kernels: bool = False,
    inflate: bool = False,
    deep: bool = False,
    max_inflated: int | None = None,
) -> Iterator[ImageRow]: ...
@overload
def rows(  # noqa: D103, F811
    data: Input,
    *,
    of: Literal["kernels"],
    digests: bool = False,
    kernels: bool = False,
    inflate: bool = False,
    deep: bool = False,
    max_inflated: int | None = None,
) -> Iterator[KernelRow]: ...
def rows(  # noqa: F811
    data: Input,
    *,
    of: str = "images",
    digests: bool = False,
    kernels: bool = False,
    inflate: bool = False,
    deep: bool = False,
    max_inflated: int | None = None,
) -> Iterator[AnyRow]:
    """Return an iterator over flat records of a path, bytes or a binary file: its images, or ``of`` its kernels.

    The last row is that of the file itself (``row`` is ``file``): it says what was found and searched, and in
    ``error`` why a file could not be read, or not to its end; nothing is raised for that. ``docs/rows.md`` says what
    the columns mean, and ``to_dict()`` makes plain data of a row. Of a folder, a pattern or a package these are the
    rows of each file in it (:func:`fatpack.files`), and behind them one of the package.

    ``digests`` fills ``sha256``, ``kernels`` fills ``kernel_count`` and ``registers_max``: both read every image whole,
    as rows of kernels do. ``inflate`` looks into compressed images too. Else only what containers state is read.
    ``deep`` and ``max_inflated`` are as for :func:`fatpack.open`. Raises TypeError and UsageError for wrong arguments.
    """
    if check_type("of", of, str, "a text") not in TABLES:
        raise UsageError(f"there are no rows of {of!r}", hint=f"rows are of {' or '.join(TABLES)}")
    return rows_with_options(data, RowOptions(of, digests, kernels, inflate, deep), max_inflated)


def rows_with_options(data: Input, options: RowOptions, max_inflated: int | None) -> Iterator[AnyRow]:
    """Yield the rows of :func:`rows` for options that are known to be right."""
    budget = make_budget(max_inflated)
    if tree_name(data):
        unmatched: list[str] = []
        for leaf in expand_inputs([data], Filter(deep=options.deep), SkipCounts(), unmatched, budget):
            yield from read_file_rows(leaf, options)
        if unmatched:
            raise UsageError(f"no file matches {unmatched[0]}")
        return
    if isinstance(data, str):
        data = resolve_url(data)  # rows name a URL without what is secret
    try:
        source = open_input("data", data, budget=budget)
    except UsageError:
        raise
    except (FatpackError, OSError) as error:
        yield error_row(str(data), error, options.of)
        return
    with source:
        yield from read_open_file_rows(source.view(), source.name, options)
