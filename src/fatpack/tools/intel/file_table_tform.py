"""``fatpack tool file-table-tform``: file tables with columns taken out, replaced and renamed, as DPC++'s tool does it.

Source: ``llvm/tools/file-table-tform/file-table-tform.cpp`` of intel/llvm. ``docs/tools/file-table-tform.md`` lists
all differences.
"""

from __future__ import annotations

import os
import sys

from fatpack.commands.wrap.file_table import FileTable, read_table
from fatpack.errors import FatpackError
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.printable import printable
from fatpack.tools.llvm import cl_tool, command_line
from fatpack.tools.llvm.cl_tool import ToolError, strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import Piece, Source

_COLUMN, _CELL = "<<column name or ordinal>>", "<<column name or ordinal>,<row id ordinal>>"

_O = command_line.ClOption
_TOOL = cl_tool.ClTool(
    "file-table-tform",
    "DPC++",
    """\
File table transformation tool.
Inputs and output of this tool is a "file table" files containing
2D table of strings with optional row of column titles. Based on
transformation actions passed via the command line, the tool
transforms the first input file table and emits either a new file
table or a copy of a file in a cell of the input table.

Transformation actions are:
- replace a column
- replace a cell
- rename a column
- extract column(s)
- ouput a copy of a file in a cell""",
    "[options] <input filenames>",
    (
        cl_tool.COLOR,
        cl_tool.HELPING_H,
        *cl_tool.GENERIC,
        _O("copy_single_file", "list", "copy the file in a cell and make it the output", _CELL),
        _O("drop_titles", "flag", "drop column titles"),
        _O("extract", "list", "extract column(s) identified by names", "<<name1>,<name2>,...>"),
        _O("merge", "list", "merge all input tables", _COLUMN),
        _O("o", "string", "<output filename>", "<filename>", is_required=True),
        _O("rename", "list", "rename a column", "<<old_name>,<new_name>>"),
        _O("replace", "list", "replace a column", _COLUMN),
        _O("replace_cell", "list", "replace a cell", _CELL),
    ),
    groups=(("Generic Options", cl_tool.GENERIC_NAMES), ("file-table-tform Options", ())),
)

#: The steps in the order in which their arguments are checked, and how many words an argument has; 0 for any number.
_STEPS = {"replace": 2, "replace_cell": 2, "rename": 2, "extract": 0, "copy_single_file": 2, "merge": 1}

#: Steps that read a file of the command line beside the table, and steps that make the output themselves.
_WITH_FILE = ("replace", "replace_cell")
_LAST = ("copy_single_file", "merge")


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: 0 or 1."""
    given = cl_tool.parse_or_help(_TOOL, program, arguments)
    if isinstance(given, int):
        return given
    try:
        _TransformRun(program, given).run()
    except (ToolError, FatpackError) as error:
        sys.stderr.write(printable(f"error: {error}") + "\n")
        return 1
    return 0


class _TransformRun:
    """One command line: checked as a whole before any table is read."""

    def __init__(self, program: str, given: command_line.ClArguments) -> None:
        self._program = program
        self._output = given.last("o")
        self._has_titles = not given.last("drop_titles")
        for kind in _STEPS:
            for value in given.values.get(kind, []):
                self._words(kind, value)
        steps = [(kind, value) for kind, value in given.order if kind in _STEPS]
        if not given.positional:
            raise self._wrong("no inputs")
        for kind, _ in steps[:-1]:
            if kind in _LAST:
                raise self._wrong(f"{kind} must be the last transformation")
        files = iter(given.positional)
        self._input = next(files)
        self._steps = [(kind, self._words(kind, value), self._file(kind, files)) for kind, value in steps]
        self._unused = list(files)

    def run(self) -> None:
        """Take all steps and write the output. Raises ToolError, and FatpackError for tables."""
        for name in self._unused:
            sys.stderr.write(printable(f"warning: no transformation takes '{name}'") + "\n")
        table = _read(self._input)
        for kind, words, file in self._steps:
            if kind == "replace":
                table.replace_column(words[0], _read(file), words[1])
            elif kind == "replace_cell":
                table.replace_cell(words[0], self._row(words[1]), file)
            elif kind == "rename":
                table.rename_column(*words)
            elif kind == "extract":
                table.keep_columns(words)
            elif kind == "merge":
                self._merge(table.column(words[0]))
            else:
                self._copy(table, *words)
        if not self._steps or self._steps[-1][0] not in _LAST:
            self._write([table.text(with_titles=self._has_titles)])

    def _words(self, kind: str, value: str) -> list[str]:
        """Return the parts of an option's value."""
        # QUIRK(DPC++): it calls --extract rename.
        called = "rename" if kind == "extract" else kind
        if not value:
            raise self._wrong(f"empty argument in {called}")
        words = value.split(",", 1) if kind == "rename" else value.split(",")
        if not _STEPS[kind]:
            if "" in words:
                raise self._wrong(f"empty name in {called}")
        elif len(words) != _STEPS[kind] or "" in words:
            raise self._wrong(f"invalid argument in {called}")
        return words

    def _file(self, kind: str, files: Iterator[str]) -> str:
        """Return the file that a step takes of those on the command line, "" for a step that takes none."""
        if kind not in _WITH_FILE:
            return ""
        name = next(files, None)
        if name is None:
            raise self._wrong(f"no input for '{kind}' command")
        if not os.path.exists(name):
            raise ToolError(f"*** {self._program} SYSTEM ERROR: file not found: {name}")
        return name

    def _row(self, text: str) -> int:
        number = command_line.parse_integer(text, -(1 << 31), (1 << 31) - 1, 10)
        if number is None:
            raise self._wrong(f"'{text}' is no row index")
        return number

    def _copy(self, table: FileTable, column: str, row: str) -> None:
        number = self._row(row)
        if not 0 <= number < len(table.rows):
            raise self._wrong("row index is out of bounds")
        name = table.column(column)[number] if column in table.titles else ""
        if not name:
            raise self._wrong("no file found in specified column")
        with _opened(name) as source:
            self._write([source.view()])

    def _merge(self, names: Sequence[str]) -> None:
        """Write the rows of all tables that a column names."""
        if not names or not os.path.exists(names[0]):
            raise self._wrong("first file not found")
        merged = _read(names[0])
        for name in names[1:]:
            merged.append(_read(name))
        self._write([merged.text(with_titles=len(merged.titles) > 1)])

    def _write(self, pieces: Sequence[Piece]) -> None:
        try:
            if self._output == "-":
                from fatpack.io.write import write_pieces

                sys.stdout.flush()
                write_pieces(1, pieces)
            else:
                write_file(self._output, pieces, force=True)
        except OSError as error:
            raise ToolError(f"'{self._output}': {strerror(error)}") from error

    def _wrong(self, text: str) -> ToolError:
        return ToolError(f"*** {self._program} usage ERROR: {text}")


def _opened(name: str) -> Source:
    try:
        return open_source(name)
    except OSError as error:
        raise ToolError(f"'can't read {name}': {strerror(error)}") from error


def _read(name: str) -> FileTable:
    with _opened(name) as source:
        return read_table(source.view())
