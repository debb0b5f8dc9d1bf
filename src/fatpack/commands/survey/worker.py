"""Workers of a survey: each turns one file into rows, as bytes that are ready to be written."""

from __future__ import annotations

import os

from fatpack import limits
from fatpack.errors import FatpackError
from fatpack.exit_codes import INPUT_OUTPUT, worst_exit_code
from fatpack.record import Record
from fatpack.tabular.columns import RowOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from fatpack.tabular.columns import AnyRow, Row


# The files of a survey's folder: rows of some files each, in Parquet or JSON Lines.

#: File formats of parts.
FORMATS = ("parquet", "jsonl")

#: Every part is named PREFIX and this number of digits of a digest.
PREFIX = "part-"
_DIGITS = 32

_HEXADECIMAL = frozenset("0123456789abcdef")


def encode_rows(rows: Iterable[AnyRow], format: str) -> bytes:
    """Return rows as bytes that :func:`write_part` takes.

    For Parquet these are plain values: making columns of a single row takes ten times as long as reading a file.
    """
    if format == "parquet":
        import pickle

        return pickle.dumps([row.values() for row in rows], protocol=5)
    from fatpack.tabular.text import json_lines

    return "".join(json_lines(rows)).encode()


def is_part(name: str) -> bool:
    """Return whether a name is one that :func:`part_name` makes."""
    stem, _, format = name.removeprefix(PREFIX).partition(".")
    return name.startswith(PREFIX) and format in FORMATS and len(stem) == _DIGITS and _HEXADECIMAL.issuperset(stem)


def part_name(words: Iterable[str], format: str) -> str:
    """Return the name of a part for what is in it: the same tasks make a part of the same name."""
    from hashlib import sha256

    digest = sha256("\0".join(words).encode("utf-8", "surrogateescape")).hexdigest()
    return f"{PREFIX}{digest[:_DIGITS]}.{format}"


def write_part(folder: str, name: str, payloads: Sequence[bytes], kind: type[Row], format: str) -> None:
    """Write a part whole or not at all; one of this name has the same rows."""
    from fatpack.io.atomic_write import write_file

    pieces: Iterable[bytes] = payloads
    if format == "parquet":
        import pickle

        from fatpack.tabular.parquet import parquet_from_values

        pieces = parquet_from_values((row for payload in payloads for row in pickle.loads(payload)), kind)
    write_file(os.path.join(folder, name), pieces, force=True)


def rewrite_part(folder: str, old: str, new: str, paths: Collection[str], kind: type[Row], format: str) -> None:
    """Write a part anew, under another name, without the rows of some files. Raises FormatError if it is damaged."""
    from fatpack.errors import FormatError
    from fatpack.io.atomic_write import write_file

    path = os.path.join(folder, old)
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe would be waited for
        raise FormatError("this is no part of a survey: it is no regular file", format=format, chain=(path,))
    if format == "parquet":
        from fatpack.tabular.parquet import parquet_without

        pieces: Iterator[bytes] = parquet_without(path, paths, kind)
    else:
        pieces = _lines_without(path, paths)
    write_file(os.path.join(folder, new), pieces, force=True)


def _lines_without(path: str, paths: Collection[str]) -> Iterator[bytes]:
    import json

    from fatpack.errors import FormatError
    from fatpack.tabular.text import belongs_to_files, to_utf8

    dropped = set(map(to_utf8, paths))
    with open(path, "rb") as lines:
        for line in lines:
            try:
                name = json.loads(line)["path"]
            except (ValueError, KeyError, TypeError) as error:
                problem = "this is no part of a survey that can be read"
                raise FormatError(problem, format="jsonl", chain=(path,)) from error
            if not belongs_to_files(name, dropped):
                yield line


class SurveyTask(Record):
    """A file to be read: its number in the plan, its path, and what tells whether it is the same as before.

    ``known`` is what it was when it was read the last time, "" if it never was. A URL is ``given`` whole; its path is
    what may be shown of it, and what it is only opening tells.
    """

    number: int
    path: str
    identity: str = ""
    known: str = ""
    given: str = ""


class TaskOptions(Record):
    """Options for all files of a survey: kind and format of rows, and the limits of the driver's process."""

    rows: RowOptions = RowOptions()
    format: str = "parquet"
    inflated: int | None = None
    limits: tuple[tuple[str, int], ...] = ()


class TaskResult(Record):
    """The result of a task: its rows as bytes, their number without the row of the file, and the file's exit code.

    There are no bytes if the file is what it was when it was read the last time.
    """

    number: int
    path: str
    identity: str
    payload: bytes
    count: int
    exit_code: int
    has_error: bool


def run_task(task: SurveyTask, options: TaskOptions) -> TaskResult:
    """Return the rows of one file, of a package those of all files in it.

    Raises nothing for the file: what cannot be read has a row that says so.
    """
    from fatpack.io.open import open_source, resolve_url
    from fatpack.limits import Budget
    from fatpack.tabular.read_file import error_row
    from fatpack.tabular.read_many import read_open_file_rows

    try:
        source = open_source(resolve_url(task.given) if task.given else task.path, budget=Budget(options.inflated))
    except (FatpackError, OSError) as error:
        return _result(task, options, [error_row(task.path, error, options.rows.of)])
    with source:
        if task.given:
            task = task.replace(identity=source.identity)
            if task.known and task.known == task.identity:
                return TaskResult(task.number, task.path, task.identity, b"", 0, 0, has_error=False)
        return _result(task, options, read_open_file_rows(source.view(), task.path, options.rows))


def run_in_worker(task: SurveyTask, options: TaskOptions) -> TaskResult:
    """Call :func:`run_task` in a process of its own, with the limits of the driver."""
    for name, value in options.limits:
        setattr(limits, name, value)
    return run_task(task, options)


def failed_task_row(task: SurveyTask, options: TaskOptions, problem: str) -> TaskResult:
    """Return the result of a task that no worker could finish: a row with the reason."""
    from fatpack.tabular.read_file import unreadable_row

    row = unreadable_row(task.path, f"{task.path}: {problem}", INPUT_OUTPUT, options.rows.of)
    return _result(task, options, [row])


def _result(task: SurveyTask, options: TaskOptions, rows: Iterable[AnyRow]) -> TaskResult:
    files: list[tuple[int, int, bool]] = []

    def watched() -> Iterator[AnyRow]:
        for row in rows:
            if row.row == "file":
                files.append((row.count or 0, row.exit_code or 0, row.error is not None))
            yield row

    payload = encode_rows(watched(), options.format)
    count = sum(number for number, _, _ in files)
    exit_code = worst_exit_code((0, *(code for _, code, _ in files)))
    return TaskResult(
        task.number, task.path, task.identity, payload, count, exit_code, any(has_error for _, _, has_error in files)
    )
