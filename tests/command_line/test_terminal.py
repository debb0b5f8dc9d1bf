"""Colour and widths on a terminal, in files and in pipes, and the options that decide."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fatpack.commands import COMMANDS
from fatpack.main import main

FIXTURES = Path(__file__).parents[1] / "fixtures"
MAIN = "import sys; from fatpack.main import main; sys.exit(main())"
FAT = str(FIXTURES / "elf" / "clang-22-hip.o")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return {**kept, "TERM": "xterm", **more}


def piped(*arguments: str, program: str = MAIN, **variables: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment(**variables), capture_output=True, text=True).stdout


def on_terminal(*arguments: str, program: str = MAIN, **variables: str) -> str:
    """Return what a command writes to a terminal; its lines end as those of a file."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", program, *arguments]
    process = subprocess.Popen(command, env=environment(**variables), stdout=theirs, stderr=theirs, stdin=theirs)
    os.close(theirs)
    data = b""
    while True:
        try:
            block = os.read(ours, 1 << 16)
        except OSError:  # how Linux ends a terminal that nobody has any more
            break
        if not block:
            break
        data += block
    os.close(ours)
    process.wait()
    return data.decode().replace("\r\n", "\n")


def test_a_terminal_gets_colour_and_a_pipe_none() -> None:
    plain = piped("inspect", FAT)
    assert "\x1b" not in plain
    shown = on_terminal("inspect", FAT, COLUMNS="200")
    assert shown.startswith(f"\x1b[1m{FAT}\x1b[0m: ELF")
    assert shown.replace("\x1b[1m", "").replace("\x1b[0m", "") == plain


@pytest.mark.parametrize(
    ("arguments", "variables", "is_coloured"),
    [
        ([], {}, False),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": ""}, False),
        (["--color=always"], {}, True),
        (["--color=always"], {"NO_COLOR": "1"}, True),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        (["--color=auto"], {"FORCE_COLOR": "1"}, True),
    ],
    ids=str,
)
def test_who_decides_on_colour_in_a_pipe(arguments: list[str], variables: dict[str, str], is_coloured: bool) -> None:
    assert ("\x1b[" in piped("inspect", *arguments, FAT, **variables)) == is_coloured


@pytest.mark.parametrize(
    ("arguments", "variables"), [(["--color=never"], {}), ([], {"NO_COLOR": "1"}), ([], {"TERM": "dumb"})], ids=str
)
def test_a_terminal_can_have_plain_text(arguments: list[str], variables: dict[str, str]) -> None:
    assert "\x1b" not in on_terminal("inspect", *arguments, FAT, **variables)


def test_json_has_no_colour() -> None:
    text = on_terminal("inspect", "--json", "--color=always", FAT)
    assert json.loads(text)["files"]
    assert "\x1b" not in text


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", "--by", "arch,file", FAT],
        ["inspect", "--runtime", FAT],
        ["diff", FAT, FAT.replace("hip.o", "hip-rdc-bundler.o")],
        ["doctor", FAT],
        ["explain", FAT, "--device", "gfx90a"],
        ["link-inputs", FAT.replace("hip.o", "openmp-gfx90a.o")],
        ["targets", "sm_90"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_colour_changes_no_word(arguments: list[str]) -> None:
    name, *words = arguments
    coloured = piped(name, "--color=always", *words)
    plain = re.sub(r"\x1b\[\d*m", "", coloured)
    # A table of plain text has cells of any width that push their own line; one with colour aligns all.
    assert plain.split() == piped(name, "--color=never", *words).split()
    assert plain.split()


@pytest.mark.parametrize("name", sorted(COMMANDS.keys() - {"tool", "help", "completion"}))
def test_every_command_that_prints_for_people_lets_colour_be_chosen(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """``tool`` has the options of the program that it stands in for, and the others print help and scripts."""
    assert main([name, "--help"]) == 0
    assert "--color" in capsys.readouterr().out


@pytest.mark.parametrize(
    "command", [["slim", "x.fatbin", "--drop", "sm_80", "--dry-run"], ["check", "x.fatbin", "--require", "gfx90a"]]
)
def test_slim_and_check_have_the_colours_of_other_commands(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copy(FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin", tmp_path / "x.fatbin")
    monkeypatch.chdir(tmp_path)
    printed = {}
    for choice in ("always", "never"):
        main([*command, "--color", choice])
        printed[choice] = capsys.readouterr().out
    assert "\x1b[" in printed["always"]
    assert re.sub(r"\x1b\[\d*m", "", printed["always"]) == printed["never"]
