"""The files of a survey's folder: rows of some files each, in Parquet or JSON Lines."""

from __future__ import annotations

import os

from fatpack.io.atomic_write import write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from fatpack.tabular.columns import AnyRow, Row

#: What parts are written as.
FORMATS = ("parquet", "jsonl")

#: What the name of every part begins with, and how many digits of a digest follow.
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
    pieces: Iterable[bytes] = payloads
    if format == "parquet":
        import pickle

        from fatpack.tabular.parquet import parquet_from_values

        pieces = parquet_from_values((row for payload in payloads for row in pickle.loads(payload)), kind)
    write_file(os.path.join(folder, name), pieces, force=True)


def rewrite_part(folder: str, old: str, new: str, paths: Collection[str], kind: type[Row], format: str) -> None:
    """Write a part anew, under another name, without the rows of some files. Raises FormatError if it is damaged."""
    path = os.path.join(folder, old)
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
