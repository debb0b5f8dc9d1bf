"""The stand-in against what the tests of intel/llvm and its source say; the page names the revision."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fatpack.concurrency.threads import core_count
from fatpack.main import main

NAME = "llvm-foreach"
EACH = ["--in-replace={}", "--in-file-list=list"]
MANY = 2 + core_count()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "1.tgt").write_text("Content of first file\n")
    (tmp_path / "2.tgt").write_text("Content of second file\n")
    (tmp_path / "list").write_text("1.tgt\n\n2.tgt\r\n")
    (tmp_path / "other").write_text("3.tgt\n4.tgt\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _printed(capfd: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> list[str]:
    assert main(["tool", NAME, *arguments]) == code
    return capfd.readouterr().out.splitlines()


def test_a_command_runs_for_each_line_in_order(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert _printed(capfd, *EACH, "--", "echo", "-x={}.o", "{}") == ["-x=1.tgt.o 1.tgt", "-x=2.tgt.o 2.tgt"]
    assert _printed(capfd, "--jobs=1", *EACH, "echo", "a b\\{}") == ["a b\\1.tgt", "a b\\2.tgt"]
    Path("list").write_text("")
    assert _printed(capfd, *EACH, "--", "echo", "{}") == []


def test_several_lists_and_names_that_count_up(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    two = [*EACH, "--in-replace=inrep", "--in-file-list=other", "--out-increment=_out.prj"]
    command = ["echo", "-a={}.out", "-b=inrep.out", "-c=x_out.prj"]
    expected = ["-a=1.tgt.out -b=3.tgt.out -c=x_out.prj", "-a=2.tgt.out -b=4.tgt.out -c=x_out.prj_1"]
    assert _printed(capfd, *two, "--", *command) == expected
    assert sorted(_printed(capfd, "--jobs=2", *two, "--", *command)) == expected
    # Each keeps its place where several are in one argument.
    assert _printed(capfd, *two, "--", "echo", "{}+inrep=_out.prj") == [
        "1.tgt+3.tgt=_out.prj",
        "2.tgt+4.tgt=_out.prj_1",
    ]


@pytest.mark.parametrize("options", [["--out-dir=made"], ["--out-dir=made", "-j", "2"], []])
def test_outputs_get_new_names_which_are_listed(
    options: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "made").mkdir()
    monkeypatch.setenv("TMPDIR", str(folder / "made"))
    outputs = ["--out-replace=x/t.o.d", "--out-ext=bc", "--out-file-list=outs", *options]
    assert main(["tool", NAME, *EACH, *outputs, "--", "cp", "{}", "x/t.o.d"]) == 0
    names = Path("outs").read_text().splitlines()
    assert [Path(name).read_text() for name in names] == [Path(name).read_text() for name in ("1.tgt", "2.tgt")]
    assert [Path(name).name[:4] + Path(name).name[-3:] for name in names] == ["t.o-.bc"] * 2
    assert sorted(os.listdir("made")) == sorted(Path(name).name for name in names)


def test_the_list_of_outputs_can_be_standard_output(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ["--out-replace=o", "--out-dir=.", "--out-file-list=-"]
    names = _printed(capfd, *EACH, *options, "--", "cp", "{}", "o")
    assert [Path(name).read_text()[:10] for name in names] == ["Content of"] * 2


def test_the_code_of_the_last_command_that_failed_is_kept(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "run.sh").write_text('#!/bin/sh\ncat "$1"\ncase $1 in 1*) exit 21;; esac\n')
    (folder / "run.sh").chmod(0o777)
    assert main(["tool", NAME, *EACH, "--", "./run.sh", "{}"]) == 21
    said = capfd.readouterr()
    assert said.out == "Content of first file\nContent of second file\n"
    assert said.err == ('llvm-foreach: command failed with error code: 21\nllvm-foreach: command: "./run.sh" "1.tgt"\n')


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("exit 127", 255, "command failed with error code: -1: No such file or directory"),
        ("exit 126", 255, "command failed with error code: -1: Program could not be executed"),
        ("kill -TERM $$", 254, "command failed with error code: -2: Terminated"),
    ],
)
def test_other_ends_are_reported_as_llvm_tells_them(
    script: str, code: int, said: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["tool", NAME, *EACH, "-j2", "--", "sh", "-c", script]) == 1  # -j2 is no option
    capfd.readouterr()
    assert main(["tool", NAME, *EACH, "-j", "2", "--", "sh", "-c", script]) == code
    lines = capfd.readouterr().err.splitlines()
    assert lines[0] == f"llvm-foreach: {said}"
    assert lines[1] == 'llvm-foreach: command: "sh" "-c" "' + script.replace("$", "\\$") + '"'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--in-replace={}", *EACH, "--", "echo"], "Number of input file lists and input path replaces don't match."),
        (["--in-replace={}", "--in-file-list=no", "--", "echo"], "llvm-foreach: 'no': No such file or directory"),
        ([*EACH, "--out-replace=x", "--", "no"], "Couldn't find replace string for output in the command."),
        ([*EACH, "--", "no/program"], "command failed: posix_spawn failed: No such file or directory"),
        ([*EACH, "--", "no-program", "{}"], 'command failed: No such file or directory\nllvm-foreach: command: "no-'),
        (
            [*EACH, "--in-replace=@", "--in-file-list=1.tgt", "--", "echo"],
            "All input file lists must have same number of lines!",
        ),
        ([*EACH, "--jobs=0", "--", "echo"], "Number of parallel threads should be a positive integer"),
        ([*EACH, "--jobs=x", "--", "echo"], "for the --jobs option: 'x' value invalid for uint argument!"),
        ([*EACH, "--out-file-list=no/x", "--", "echo"], "error opening the file 'no/x': No such file or directory"),
        (
            [*EACH, "--out-dir=no", "--out-replace=o", "--", "echo", "o"],
            "Could not create a file for command output.: No such file or directory",
        ),
        (EACH, "Not enough positional command line arguments specified!"),
        (["--in-replace={}", "--", "echo"], "for the --in-file-list option: must be specified at least once!"),
    ],
)
def test_what_is_wrong_is_reported(
    arguments: list[str], said: str, folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["tool", NAME, *arguments]) == 1
    streams = capfd.readouterr()
    assert said in streams.err
    assert streams.out == ""


def test_no_more_run_than_there_are_cores(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said = f"llvm-foreach: adjusted number of threads to {core_count()} (max safe available)."
    assert sorted(_printed(capfd, "-j", str(MANY), *EACH, "--", "echo", "{}")) == ["1.tgt", "2.tgt", said]


def test_a_mark_that_is_nowhere_is_reported(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", NAME, *EACH, "--out-increment=o.prj", "--", "echo", "{}"]) == 0
    streams = capfd.readouterr()
    assert streams.out == "1.tgt\n2.tgt\n"
    assert streams.err == (
        "llvm-foreach: warning: no argument of the command has 'o.prj', which --out-increment names\n"
    )


def test_a_list_with_a_nul_is_refused(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    Path("list").write_bytes(b"1.tgt\n2\0.tgt\n")
    assert main(["tool", NAME, *EACH, "--", "echo", "{}"]) == 1
    assert "at 0x7: a NUL at line 2" in capfd.readouterr().err


def test_commands_have_the_signals_that_python_ignores(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    ignored = int(_printed(capfd, *EACH, "--", "grep", "SigIgn", "/proc/self/status")[0].split()[1], 16)
    assert not ignored & 1 << 12  # SIGPIPE


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", NAME, "-h"]) == 0
    assert "USAGE: llvm-foreach [options] <command>" in capsys.readouterr().out
    assert main(["tool", NAME, "--version"]) == 0
    assert "standing in for llvm-foreach of DPC++" in capsys.readouterr().out
