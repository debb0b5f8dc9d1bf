"""File tables: the operations on columns and rows, and refused operations."""

from __future__ import annotations

from pathlib import Path

import pytest

from fatpack.commands.wrap.file_table import FileTable, read_names, read_table
from fatpack.errors import BadValue, UsageError
from fatpack.io.open import open_source

TEXT = b"[Code|Symbols|Properties]\na_0.bc|a_0.sym|a_0.props\na_1.bc|a_1.sym|a_1.props\n"


def _table(text: bytes = TEXT) -> FileTable:
    return read_table(open_source(text, name="t.table").view())


def test_what_is_read_is_written() -> None:
    assert _table().text() == TEXT
    assert _table(TEXT.replace(b"\n", b"\r\n\n")).text() == TEXT
    assert _table(b"\xff|b").text(with_titles=False) == b"\xff|b\n"


def test_columns_without_titles_are_numbered() -> None:
    assert _table(b"a|b\n").text() == b"[0|1]\na|b\n"
    assert _table(b"").text() == b"[]\n"


def test_operations_of_a_build_one_after_the_other() -> None:
    table = _table()
    table.replace_column("Code", _table(b"a_0.spv\na_1.spv\n"), "")
    table.replace_cell("Properties", 1, "a_2.props")
    table.keep_columns(["Properties", "Code"])
    table.rename_column("Code", "SPIR-V")
    table.append(_table(b"[SPIR-V|Properties]\nb.spv|b.props\n"))
    assert table.text() == b"[SPIR-V|Properties]\na_0.spv|a_0.props\na_1.spv|a_2.props\nb.spv|b.props\n"
    assert table.column("SPIR-V") == ["a_0.spv", "a_1.spv", "b.spv"]
    table.rename_column("SPIR-V", "Code")
    assert table.column("Code")[0] == "a_0.spv"


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        (b"[A|B\n", 0, "malformed title line"),
        (b"[\n", 0, "malformed title line"),
        (b"\n[A|B|A]\n", 1, "column already exists A"),
        (b"[A|B]\n\n1|2\n3\n", 11, "row size mismatch at line 4"),
        (b"a\n[B|C]\n", 2, "row size mismatch at line 2"),
        (b"a\nb\0c\n", 3, "a NUL at line 2"),
    ],
)
def test_damage_is_named_with_its_place(text: bytes, line: int, said: str) -> None:
    with pytest.raises(BadValue, match=said) as caught:
        _table(text)
    assert (caught.value.offset, caught.value.chain) == (line, ("t.table",))


def test_names_are_the_lines_that_are_not_empty() -> None:
    assert read_names(open_source(b"\na b\r\n\nc").view()) == ["a b", "c"]


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        (lambda table: table.replace_column("Code", _table(b"x\n"), "y"), "column length mismatch for 'Code' and 'y'"),
        (lambda table: table.replace_column("X", _table(), "Code"), "Column not found: X"),
        (lambda table: table.replace_column("Code", _table(), "X"), "Column not found: X"),
        (lambda table: FileTable().replace_column("A", FileTable(), "A"), "empty table"),
        (lambda table: FileTable().replace_cell("A", 0, "x"), "empty table"),
        (lambda table: table.replace_cell("Code", 2, "x"), "row index out of bounds"),
        (lambda table: table.replace_cell("Code", -1, "x"), "row index out of bounds"),
        (lambda table: table.replace_cell("X", 0, "x"), "Column not found: X"),
        (lambda table: table.rename_column("X", "Y"), "column not found: X"),
        (lambda table: table.rename_column("Code", "Symbols"), "column already exists Symbols"),
        (lambda table: table.keep_columns(["Code", "Code"]), "duplicated column names"),
        (lambda table: table.keep_columns(["Code", "X"]), "column not found X"),
        (lambda table: table.append(FileTable(["A"])), "different number of columns"),
        (lambda table: table.append(FileTable(["A", "B", "C"])), "different column names"),
    ],
)
def test_what_cannot_be_done_leaves_the_table_as_it_was(operation: object, said: str) -> None:
    table = _table()
    assert callable(operation)
    with pytest.raises(UsageError, match=said):
        operation(table)
    assert table.text() == TEXT


def test_names_of_a_long_list_are_those_of_its_lines(tmp_path: Path) -> None:
    names = [f"folder/{number:07}.bc" for number in range(200_000)]
    for end in ("\n", "\r\n"):
        path = tmp_path / "list"
        path.write_text(end.join(names), newline="")
        with open_source(path) as source:
            assert read_names(source.view()) == names


@pytest.mark.parametrize("text", [b"a\n\0", b"a\nb\0c\n", b"a\n" + b"b" * 100 + b"\0"])
def test_a_nul_is_named_with_its_line_and_place(text: bytes) -> None:
    with pytest.raises(BadValue, match="a NUL at line 2") as caught:
        read_names(open_source(text, name="list").view())
    assert caught.value.offset == text.index(b"\0")


def test_a_line_that_no_name_can_be_is_refused() -> None:
    with pytest.raises(BadValue, match="line 2 is too long"):
        read_names(open_source(b"a\n" + b"b" * (3 << 20), name="list").view())
