"""The stand-in against what the tests of intel/llvm and its source say; the page names the revision."""

from __future__ import annotations

from pathlib import Path

import pytest

from fatpack.main import main

NAME = "file-table-tform"
TABLE = "[A|B|C|D]\n1|2|3|4\n5|6|7|8\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "a.txt").write_text(TABLE)
    (tmp_path / "n.txt").write_text("[11|12]\n00|11\n22|33\n")
    (tmp_path / "m.txt").write_text("[11|12]\n44|55\n66|77\n")
    (tmp_path / "one.txt").write_text("[X]\nfirst\n")
    (tmp_path / "list.txt").write_text("[One|Two]\n0|n.txt\n1|m.txt\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _made(*arguments: str) -> str:
    assert main(["tool", NAME, *arguments, "-o", "out"]) == 0
    return Path("out").read_text()


def test_columns_are_taken_out_renamed_and_replaced(folder: Path) -> None:
    assert _made("--extract=C,A", "a.txt") == "[A|C]\n1|3\n5|7\n"
    assert _made("--rename=A,AA", "a.txt") == TABLE.replace("A", "AA")
    assert _made("-replace=B,11", "a.txt", "n.txt") == "[A|B|C|D]\n1|00|3|4\n5|22|7|8\n"
    assert _made("-extract=D", "-drop_titles", "a.txt") == "4\n8\n"


def test_steps_are_taken_in_the_order_of_the_command_line(folder: Path) -> None:
    steps = ["-extract=A,B", "-rename=A,Z", "-replace=Z,12"]
    assert _made(*steps, "a.txt", "n.txt") == "[Z|B]\n11|2\n33|6\n"
    assert main(["tool", NAME, "-rename=A,Z", "-extract=A,B", "a.txt", "-o", "never"]) == 1
    assert not Path("never").exists()


def test_every_step_takes_a_file_of_its_own(folder: Path) -> None:
    assert _made("-replace=A,11", "-replace=B,11", "a.txt", "n.txt", "m.txt") == "[A|B|C|D]\n00|44|3|4\n22|66|7|8\n"


def test_a_cell_is_filled_and_its_file_copied(folder: Path) -> None:
    made = _made("--replace_cell=X,0", "one.txt", "n.txt")
    assert made == "[X]\nn.txt\n"
    Path("cell.txt").write_text(made)
    assert _made("--copy_single_file=X,0", "cell.txt") == Path("n.txt").read_text()


def test_tables_are_merged(folder: Path) -> None:
    assert _made("--merge=Two", "list.txt") == "[11|12]\n00|11\n22|33\n44|55\n66|77\n"
    Path("list.txt").write_text("one.txt\none.txt\n")
    assert _made("--merge=0", "list.txt") == "first\nfirst\n"  # an only column loses its title


def test_standard_output(folder: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["tool", NAME, "--extract=A", "a.txt", "-o", "-"]) == 0
    assert capfdbinary.readouterr().out == b"[A]\n1\n5\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], f"*** {NAME} usage ERROR: no inputs"),
        (["-replace=", "a.txt"], "usage ERROR: empty argument in replace"),
        (["-replace=A", "a.txt"], "usage ERROR: invalid argument in replace"),
        (["-replace_cell=A,0,1", "a.txt"], "usage ERROR: invalid argument in replace_cell"),
        (["-extract=", "a.txt"], "usage ERROR: empty argument in rename"),
        (["-extract=A,,B", "a.txt"], "usage ERROR: empty name in rename"),
        (["-rename=,B", "a.txt"], "usage ERROR: invalid argument in rename"),
        (["-merge=", "a.txt"], "usage ERROR: empty argument in merge"),
        # Arguments are checked before the order of the steps, kind by kind.
        (["-merge=", "-rename=A", "-extract=A", "a.txt"], "usage ERROR: invalid argument in rename"),
        (["-replace=A,B", "a.txt"], "usage ERROR: no input for 'replace' command"),
        (["-replace=A,B", "a.txt", "no"], f"*** {NAME} SYSTEM ERROR: file not found: no"),
        (["-merge=A", "-extract=A", "a.txt"], "merge must be the last transformation"),
        (["-copy_single_file=A,0", "-extract=A", "no"], "copy_single_file must be the last transformation"),
        (["-extract=A", "no"], "error: 'can't read no': No such file or directory"),
        (["-extract=X", "a.txt"], "error: column not found X; the table has A, B, C, D"),
        (["-copy_single_file=A,2", "a.txt"], "usage ERROR: row index is out of bounds"),
        (["-copy_single_file=A,-1", "a.txt"], "usage ERROR: row index is out of bounds"),
        (["-copy_single_file=X,0", "a.txt"], "usage ERROR: no file found in specified column"),
        (["-copy_single_file=A,x", "a.txt"], "usage ERROR: 'x' is no row index"),
        (["-copy_single_file=A,0", "a.txt"], "'can't read 1': No such file or directory"),
        (["-replace_cell=A,2", "a.txt", "n.txt"], "error: row index out of bounds"),
        (["-merge=A", "a.txt"], "usage ERROR: first file not found"),
        (["-merge=Three", "list.txt"], "Column not found: Three"),
        (["-unknown", "a.txt"], "Unknown command line argument '-unknown'"),
    ],
)
def test_what_is_wrong_is_reported_and_nothing_written(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["tool", NAME, "-o", "out", *arguments]) == 1
    assert said in capsys.readouterr().err
    assert not Path("out").exists()


def test_an_output_is_needed_and_must_be_writable(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", NAME, "-extract=A", "a.txt"]) == 1
    assert "for the -o option: must be specified at least once!" in capsys.readouterr().err
    assert main(["tool", NAME, "-extract=A", "a.txt", "-o", "no/out"]) == 1
    assert "error: 'no/out': No such file or directory" in capsys.readouterr().err


def test_files_that_nothing_takes_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _made("-extract=A", "a.txt", "n.txt") == "[A]\n1\n5\n"
    assert capsys.readouterr().err == "warning: no transformation takes 'n.txt'\n"


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", NAME, "-h"]) == 0
    assert "USAGE: file-table-tform [options] <input filenames>" in capsys.readouterr().out
    assert main(["tool", NAME, "--version"]) == 0
    assert "standing in for file-table-tform of DPC++" in capsys.readouterr().out
