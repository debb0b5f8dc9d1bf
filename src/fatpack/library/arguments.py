"""Arguments of public functions: an error about a wrong one names it."""

from __future__ import annotations

import errno
import os

from fatpack.edit import editor
from fatpack.errors import UsageError
from fatpack.inputs.files import walk_open_file, walk_tree
from fatpack.io.atomic_write import write_file
from fatpack.io.open import is_tree, open_source, resolve_url
from fatpack.limits import Budget, current_budget, output_budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import BinaryIO, TypeAlias, TypeVar

    from fatpack.commands.pack.formats import PackedContainers
    from fatpack.inputs.files import Filter, InputFile, PendingFile, SkipCounts
    from fatpack.io.open import Input
    from fatpack.io.source import Piece, Source, View
    from fatpack.selectors.select import Selector
    from fatpack.writer_options import Options

    Value = TypeVar("Value")

    Output: TypeAlias = str | os.PathLike[str] | BinaryIO
    """A path, or a binary file open for writing."""


_NUMBER = (int, "a whole number")
_TEXT = (str, "a text")
_SWITCH = (bool, "True or False")
_TEXTS = ((list, tuple), "several texts in a list")

#: field of a record of options → its types, and the words for them; a field that is None by default can be None
OPTION_FIELDS: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "version": _NUMBER,
    "level": _NUMBER,
    "align": _NUMBER,
    "type": _TEXT,
    "compression": _TEXT,
    "form": _TEXT,
    "ids": _TEXTS,
    "producer": _TEXT,
    "compress_mode": _TEXT,
    "compress_all": _SWITCH,
    "concat": _SWITCH,
    "minify_ptx": _SWITCH,
    "include_ptx": _TEXT,
    "group": _TEXT,
    "family": _TEXT,
    "state": _TEXT,
}


def check_type(argument: str, value: object, kind: type[Value], wanted: str) -> Value:
    """Return a value that is of a kind. Raises TypeError, with the argument's name, for any other."""
    if not isinstance(value, kind):
        raise TypeError(f"{argument} must be {wanted}, got {type(value).__name__}")
    return value


def as_patterns(exclude: object) -> tuple[str, ...]:
    """Return patterns of files that are left out. Raises TypeError for one text: its letters would be patterns."""
    if isinstance(exclude, (str, type)) or not hasattr(exclude, "__iter__"):
        raise TypeError(f"exclude must be several patterns in a list, got {type(exclude).__name__}")
    return tuple(check_type("a pattern in exclude", item, str, "a text") for item in exclude)


def as_paths(argument: str, given: object) -> list[str]:
    """Return one path, or several in a sequence, as texts. Raises TypeError for anything else, UsageError for none."""
    paths = [given] if isinstance(given, (str, os.PathLike)) else given
    if isinstance(paths, (bytes, bytearray, memoryview)) or not hasattr(paths, "__iter__"):
        raise TypeError(f"{argument} must be a path, or several in a list, got {type(given).__name__}")
    found = [_path(argument, path, "a path, or several in a list") for path in paths]
    if not found:
        raise UsageError(f"{argument}: no path given", hint="name files, folders or packages")
    return found


def as_inputs(argument: str, value: Input | Iterable[Input]) -> list[Input]:
    """Return one input, or several from a list or an iterator. Raises UsageError if there is none.

    Buffers and binary files are iterable too, and are one input each.
    """
    is_iterator = hasattr(value, "__next__") and not hasattr(value, "read")
    if not is_iterator and not isinstance(value, (list, tuple, set, frozenset)):
        return [value]  # type: ignore[list-item]
    found: list[Input] = list(value)  # type: ignore[arg-type]
    if not found:
        raise UsageError(f"{argument}: no path given", hint="name files, folders or packages")
    return found


def as_path(argument: str, given: object) -> str:
    """Return one path as a text. Raises TypeError for anything else, UsageError for what is no path of a system."""
    return _path(argument, given, "a path")


def _path(argument: str, given: object, wanted: str) -> str:
    path = os.fspath(check_type(argument, given, (str, os.PathLike), wanted))  # type: ignore[arg-type]
    if "\0" in check_type(argument, path, str, wanted):
        raise UsageError(f"{argument}: a path cannot contain a NUL character")
    return path


def as_strings(argument: str, given: object) -> tuple[str, ...]:
    """Return one text, or several in a sequence. Raises TypeError for anything else."""
    texts = (given,) if isinstance(given, str) else given
    if isinstance(texts, (bytes, bytearray, memoryview, type)) or not hasattr(texts, "__iter__"):
        raise TypeError(f"{argument} must be a text, or several in a list, got {type(given).__name__}")
    return tuple(check_type(argument, text, str, "a text, or several in a list") for text in texts)


def check_bools(**given: object) -> None:
    """Raise TypeError for the first of some switches that is neither True nor False."""
    for name, value in given.items():
        check_type(name, value, bool, "True or False")


def make_budget(max_inflated: int | None = None, max_output: int | None = None) -> Budget:
    """Return the budget of one call: the bytes that it may inflate and write; None is the default limit.

    Inside :func:`fatpack.limits.sources_with_budget` the call shares the budget given there, unless it has limits of
    its own.
    """
    for name, value in (("max_inflated", max_inflated), ("max_output", max_output)):
        if value is not None and check_type(name, value, int, "a number of bytes") < 1:
            raise UsageError(f"{name} is {value}", hint="give the number of bytes, 1 at least")
    if max_inflated is None and max_output is None:
        return current_budget()
    return Budget(max_inflated, max_output)


def open_input(
    argument: str, data: Input, *, name: str = "", may_close: bool = False, budget: Budget | None = None
) -> Source:
    """Return a source, as :func:`~fatpack.io.open.open_source` does; TypeErrors name the argument."""
    if isinstance(data, str):
        data = resolve_url(data)
    try:
        return open_source(data, name=name, may_close=may_close, budget=budget)
    except TypeError as error:
        raise TypeError(f"{argument} must be {error}") from None


def check_selector(selector: Selector | None) -> Selector:
    """Return a selector, one that means all images for None. Raises TypeError for anything else."""
    from fatpack.selectors.select import Selector

    return Selector() if selector is None else check_type("selector", selector, Selector, "a fatpack.Selector")


def warn_about_spelling(selector: Selector) -> None:
    """Give a Python warning for each architecture of a selector that matches nothing and is misspelled: ``sm80``."""
    from warnings import warn

    from fatpack.selectors.no_match import spelling_hints

    for text in spelling_hints(selector):
        warn(text, stacklevel=4)


def check_options(options: Options) -> None:
    """Raise TypeError, with the name of the field, for options with a value that its field cannot have."""
    kind = type(options)
    for field in kind._fields:
        value = getattr(options, field)
        kinds, wanted = OPTION_FIELDS[field]
        if not isinstance(value, kinds) and (value is not None or kind._defaults[field] is not None):
            raise TypeError(f"{field} must be {wanted}, got {type(value).__name__}")
        if isinstance(value, (list, tuple)):
            for number, item in enumerate(value):
                check_type(f"{field}[{number}]", item, str, "a text")


# Inputs down to leaves: what the functions that take many files go through.


def expand_inputs(
    paths: Iterable[Input], rules: Filter, counts: SkipCounts, unmatched: list[str], budget: Budget
) -> Iterator[InputFile]:
    """Yield the files in inputs, one after the other. Raises ``OSError`` and UsageError for an input.

    Patterns that match no file are added to ``unmatched``.
    """
    for data in paths:
        for batch in _batches(data, rules, counts, unmatched, budget):
            for node in batch:
                yield from node.leaves(rules, counts)


def _batches(
    data: Input, rules: Filter, counts: SkipCounts, unmatched: list[str], budget: Budget
) -> Iterator[list[PendingFile]]:
    name = tree_name(data)
    if name:
        yield from walk_tree(name, rules, counts, unmatched, budget=budget)
        return
    with open_input("paths", data, budget=budget) as source:
        yield from walk_open_file(source.view(), source.name, rules, counts)


def tree_name(data: Input) -> str:
    """Return the name of a folder or a pattern, "" for any other input."""
    if not isinstance(data, (str, os.PathLike)):
        return ""
    name = os.fspath(data)
    return name if is_tree(name) else ""


def refuse_tree(file: Input) -> None:
    """Raise UsageError for a folder or a pattern, if a function takes one file."""
    name = tree_name(file)
    if name:
        hint = f"write: for file in fatpack.files({name!r}): …"
        raise UsageError(f"{name} is {'a folder' if os.path.isdir(name) else 'a pattern'}, not one file", hint=hint)


# Writing a result: to a path, whole or not at all, or to an open file.


def issue_warnings(texts: Iterable[str]) -> None:
    """Issue each text as a Python warning at the call of a public function; the command line prints the same texts."""
    from warnings import warn

    for text in texts:
        warn(text, stacklevel=3)


def write_packed_to(
    output: Output, packed: PackedContainers, *, overwrite: bool, inputs: Sequence[View], budget: Budget
) -> int:
    """Write a container, or the copy of a host that it went into, and return the size in bytes.

    A path that exists is refused unless ``overwrite``, and in any case if it is one of the ``inputs``.
    """
    if not isinstance(output, (str, os.PathLike)):
        return _write_open(output, packed.pieces, budget)
    return write_file(
        output, packed.pieces, force=overwrite, inputs=inputs, verify=packed.verify, mode=packed.mode, budget=budget
    )


def write_pieces_to(output: Output, pieces: Iterable[Piece], *, overwrite: bool) -> int:
    """Write what was made of no single file, and return the size in bytes; a path that exists is refused."""
    if not isinstance(output, (str, os.PathLike)):
        return _write_open(output, pieces, output_budget())
    return write_file(output, pieces, force=overwrite)


def write_edited(
    host: View,
    pieces: Iterable[Piece],
    output: Output,
    *,
    overwrite: bool,
    inputs: Sequence[View] = (),
    check: editor.EditCheck | None = None,
) -> int:
    """Write an edited copy of a host and return the size in bytes; under a path's name it is verified before."""
    if not isinstance(output, (str, os.PathLike)):
        return _write_open(output, pieces, host.source.budget)
    return editor.write_edited(host, pieces, output, force=overwrite, inputs=inputs, check=check)


def _write_open(output: BinaryIO, pieces: Iterable[Piece], budget: Budget) -> int:
    if not hasattr(output, "write"):
        raise TypeError(f"output must be a path or a binary file open for writing, got {type(output).__name__}")
    total = 0
    if isinstance(pieces, (list, tuple)):
        budget.check_output(sum(map(len, pieces)))
    for piece in pieces:
        budget.write(len(piece))
        for part in [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.pieces():
            rest = memoryview(part)
            while rest:
                # An unbuffered file may take less than it is given (io.RawIOBase.write).
                taken = output.write(rest)
                if not taken:
                    raise BlockingIOError(errno.EAGAIN, "the output takes no more bytes")
                rest = rest[taken:]
        total += len(piece)
    return total
