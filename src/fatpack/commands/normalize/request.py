"""The library function ``normalize``, and the plan that it shares with the command: fields, pieces, and the proof.

The result differs from the file in the free fields alone (:mod:`fatpack.commands.normalize.fields`). That is proved
before it gets its name: every other byte is the same, the canonical digest of each image is the same, what a build
leaves in an image is the same but for times and temporary names, and to normalize it again changes nothing.
"""

from __future__ import annotations

import os

from fatpack.commands.inspect.digests import digest_of_rows
from fatpack.commands.normalize.fields import FreeField, find_fields
from fatpack.errors import FormatError, HostError, UsageError, pluralize
from fatpack.exit_codes import FINDINGS, FINE
from fatpack.findings import finding
from fatpack.library.arguments import check_bools, make_budget, open_input, refuse_tree, write_edited
from fatpack.record import Record
from fatpack.result import Result, to_plain_data
from fatpack.scanner import scan
from fatpack.tabular.columns import ImageRow, RowOptions
from fatpack.tabular.read_file import read_rows

__all__ = ["FreeField", "NormalizeResult", "normalize"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any, TypeAlias

    from fatpack.io.open import Input
    from fatpack.io.source import Piece, View
    from fatpack.library.arguments import Output
    from fatpack.model import Finding
    from fatpack.tabular.columns import AnyRow

    ImageContent: TypeAlias = tuple[object, ...]

#: The version of :meth:`NormalizeResult.to_dict`.
SCHEMA = "fatpack.normalize/1"

#: kinds of hosts in which all names of temporary files are looked for
_SEARCHED = frozenset(("elf", "archive", "raw"))

#: columns that normalizing changes: bytes, traces of times and names, and digests of sections with them
_CHANGED = ("time of a source: ", "temporary name: ", "debug information: ")

#: bytes of a file that are compared at once
_BLOCK = 1 << 20


class NormalizeResult(Result):
    """The free fields that were changed, what was left, the canonical digest (before and after), and the size.

    ``left`` are findings as texts; with any of the severity warning the ``exit_code`` is 1.
    """

    fields: tuple[FreeField, ...]
    left: tuple[str, ...]
    is_complete: bool
    digest: str | None
    size: int

    @property
    def exit_code(self) -> int:
        """1 if a free field was left as it is."""
        return FINE if self.is_complete else FINDINGS

    @property
    def verdict(self) -> str:
        """``normalized``, ``unchanged``, or ``incomplete`` if a free field was left as it is."""
        return "incomplete" if not self.is_complete else "normalized" if self.fields else "unchanged"

    def lines(self) -> Sequence[str]:
        """Return a line for each kind of field in each place, and for each that was left."""
        counts: dict[tuple[str, str], int] = {}
        for field in self.fields:
            key = field.kind, field.where
            counts[key] = counts.get(key, 0) + 1
        found = [f"{kind} in {where}: {pluralize(count, 'field')}" for (kind, where), count in counts.items()]
        return [*(found or ["no free field is to be changed"]), *self.left]

    def to_dict(self) -> dict[str, Any]:
        """Return all of it as plain data; the bytes of fields in hexadecimal."""
        data = to_plain_data(self)
        for field, line in zip(self.fields, data["fields"], strict=True):
            line["before"], line["after"] = field.before.hex(), field.after.hex()
        return {"schema": SCHEMA, **data, "verdict": self.verdict, "exit_code": self.exit_code}


class NormalizePlan(Record):
    """The pieces of a normalized file, and the result that will be told of it.

    ``contents`` is what must stay of its images, ``left`` are the findings about fields that stay.
    """

    pieces: tuple[Piece, ...]
    result: NormalizeResult
    left: tuple[Finding, ...]
    contents: tuple[ImageContent, ...]

    def check(self, before: View, after: View) -> None:
        """Raise HostError unless ``after`` is ``before`` with these fields changed, and nothing else."""
        _check_bytes(before, after, self.result.fields)
        now = _contents(_rows(after))
        if self.contents != now:
            lost = sorted(set(self.contents) ^ set(now), key=str)[0]
            problem = f"the device code of the result is not that of the file: {lost}"
            raise HostError(problem, hint="nothing was written; please report this", chain=after.chain)
        again, _ = find_fields(after, scan(after))
        if again:
            problem = f"the result has {pluralize(len(again), 'free field')} left"
            raise HostError(problem, hint="nothing was written; please report this", chain=after.chain)


def plan_normalize(view: View) -> NormalizePlan:
    """Return how a file is normalized. Raises FormatError if it cannot be read completely, UsageError for a package."""
    from fatpack.scanner.context import detect_host, detect_package
    from fatpack.selectors.no_match import refuse_empty

    refuse_empty(view)
    if detect_package(view):
        raise UsageError("this is a package, and files are normalized before they are packed", hint="name its files")
    view.source.check()
    rows = _rows(view)
    made = digest_of_rows(view.chain[-1] if view.chain else "", rows)
    if made is not None and made.digest is None:
        hint = "fatpack doctor FILE says more; nothing was written"
        raise FormatError(f"without all of it nothing is proved: {made.problem}", hint=hint, chain=view.chain)
    fields, left = find_fields(view, scan(view))
    host = detect_host(view)
    if host not in _SEARCHED:
        left.append(finding("FP3352", view.span(), f"names in the symbols of {host} are not looked for"))
    texts = tuple(item.text for item in left)
    digest = None if made is None else made.digest
    is_complete = not any(item.severity == "warning" for item in left)
    result = NormalizeResult(tuple(fields), texts, is_complete, digest, len(view))
    return NormalizePlan(tuple(_pieces(view, fields)), result, tuple(left), _contents(rows))


def normalize(
    file: Input,
    output: Output,
    *,
    overwrite: bool = False,
    max_inflated: int | None = None,
    max_output: int | None = None,
) -> NormalizeResult:
    """Write a copy of a file in which free fields are the same for all builds; return what was changed.

    Free are the times of sources in debug information and PTX, and the numbers of processes in the names of temporary
    files: no runtime, linker or debugger needs them. The file is an object, a program, an archive, a container or a
    device image. Fields of compressed images stay as they are, and ``exit_code`` is 1 then. The result has the same
    canonical digest and, apart from the fields, the same bytes: that is proved before it gets its name. ``overwrite``
    and the limits are those of :func:`fatpack.extract`. Raises UsageError for a package, FormatError for a file that
    cannot be read completely, HostError if the proof fails, ``OSError``.
    """
    check_bools(overwrite=overwrite)
    refuse_tree(file)
    with open_input("file", file, budget=make_budget(max_inflated, max_output)) as source:
        view = source.view()
        plan = plan_normalize(view)
        if not isinstance(output, (str, os.PathLike)):
            from fatpack.io.source import PiecesSource

            plan.check(view, PiecesSource(plan.pieces).view())  # a path is checked when it is written
        write_edited(view, plan.pieces, output, overwrite=overwrite, check=plan.check)
        return plan.result


def _pieces(view: View, fields: Sequence[FreeField]) -> list[Piece]:
    pieces: list[Piece] = []
    at = 0
    for field in fields:
        start = field.offset - view.offset(0)
        if start > at:
            pieces.append(view.slice(at, start - at))
        pieces.append(field.after)
        at = start + len(field.after)
    if at < len(view):
        pieces.append(view.slice(at, len(view) - at))
    return pieces


def _check_bytes(before: View, after: View, fields: Sequence[FreeField]) -> None:
    """Raise HostError unless two files differ in the fields alone, by comparing all of their bytes."""
    if len(before) != len(after):
        raise HostError("the result has another size", hint="nothing was written", chain=after.chain)
    at = 0
    for field in fields:
        start = field.offset - before.offset(0)
        _check_same(before, after, at, start)
        at = start + len(field.after)
        if after.read(start, len(field.after)) != field.after:
            raise _wrong_bytes(after, start)
    _check_same(before, after, at, len(before))


def _check_same(before: View, after: View, start: int, end: int) -> None:
    for at in range(start, end, _BLOCK):
        size = min(_BLOCK, end - at)
        if before.read(at, size) != after.read(at, size):
            raise _wrong_bytes(after, at)


def _wrong_bytes(after: View, at: int) -> HostError:
    problem = f"a byte after {at:#x} changed that is no free field"
    return HostError(problem, hint="nothing was written; please report this", chain=after.chain)


def _rows(view: View) -> list[AnyRow]:
    return list(read_rows(view, RowOptions(identity=True)))


def _contents(rows: Iterable[AnyRow]) -> tuple[ImageContent, ...]:
    """Return what must stay of each image: position, target, size, digest, and what a build left beside the code."""
    return tuple(
        (
            *(row.position, row.member, row.label, row.form, row.size, row.stored_size, row.digest),
            tuple(text for text in row.build or () if not text.startswith(_CHANGED)),
        )
        for row in rows
        if isinstance(row, ImageRow)
    )
