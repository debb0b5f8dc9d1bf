"""What shells offer on TAB: asked as their completion scripts ask, and by the shells themselves."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from fatpack.cli.commands import COMMANDS
from fatpack.cli.tools import TOOLS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files and a folder, and a `fatpack` to run in ``bin``."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "fatpack"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom fatpack.cli import main\nsys.exit(main())\n")
    program.chmod(0o755)
    for name in ("one.o", "one.a", "two words.o"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "images").mkdir()
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = [str(folder / "bin"), "/usr/bin", "/bin"]
    return {"PATH": ":".join(path), "PYTHONPATH": ":".join(filter(None, sys.path)), "HOME": str(folder), **more}


def answer(folder: Path, *words: str) -> list[str]:
    """Return what a completion script is answered for the last word of a command line."""
    request = {"COMP_WORDS": "\n".join(("fatpack", *words)), "COMP_CWORD": str(len(words))}
    done = subprocess.run(
        ["fatpack"],
        cwd=folder,
        env=environment(folder, _FATPACK_COMPLETE="bash_complete", **request),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_are_offered(folder: Path) -> None:
    assert answer(folder, "") == [f"plain,{name}" for name in COMMANDS]
    assert answer(folder, "in") == ["plain,inspect"]


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    "words",
    [
        ("inspect", ""),
        ("inspect", "one.o", "two"),
        ("extract", ""),
        ("extract", "one.o", "-o", ""),
        ("convert", "o"),
        ("convert", "one.o", "--output", ""),
        ("embed", ""),
        ("embed", "one.o", ""),
        ("replace", "one.o", ""),
        ("remove", ""),
        ("remove", "one.o", "-o", ""),
        ("pack", "--host", ""),
        ("tool", "cuobjdump", ""),
        ("tool", "cuobjdump", "-lelf", "one"),
    ],
    ids=" ".join,
)
def test_files_are_left_to_the_shell(folder: Path, words: tuple[str, ...]) -> None:
    assert answer(folder, *words) == [f"file,{words[-1]}".rstrip()]


def test_what_is_a_folder_is_completed_as_one(folder: Path) -> None:
    assert answer(folder, "extract", "one.o", "-d", "") == ["dir,"]


def test_stand_ins_are_offered(folder: Path) -> None:
    assert answer(folder, "tool", "") == [f"plain,{name}" for name in TOOLS]
    assert answer(folder, "tool", "cu") == ["plain,cuobjdump"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("targets", "sm_90"), ["sm_90", "sm_90a"]),
        (("extract", "one.o", "--arch", "sm_80,sm_90"), ["sm_80,sm_90", "sm_80,sm_90a"]),
        (("extract", "one.o", "--form", "cub"), ["cubin"]),
        (("remove", "one.o", "--offload", "o"), ["openmp"]),
        (("inspect", "--by", ""), ["arch", "form", "kernel", "file"]),
    ],
    ids=" ".join,
)
def test_known_words_are_offered(folder: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert answer(folder, *words) == [f"plain,{word}" for word in expected]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("inspect", "--by", "=", "a"), ["arch"]),
        (("inspect", "--by", "="), ["arch", "form", "kernel", "file"]),
        (("inspect", "--by=a"), ["--by=arch"]),
        (("pack", "--format", "=", "fat"), ["fatbin"]),
        (("extract", "one.o", "--arch", "=", "sm_80,sm_90"), ["sm_80,sm_90", "sm_80,sm_90a"]),
        (("tool", "--as", "=", "23", "llvm-offload-b"), ["llvm-offload-binary"]),
    ],
    ids=" ".join,
)
def test_values_behind_an_equals_sign_are_offered(folder: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert answer(folder, *words) == [f"plain,{word}" for word in expected]


def test_a_file_behind_an_equals_sign_is_left_to_the_shell(folder: Path) -> None:
    assert answer(folder, "pack", "--host", "=", "on") == ["file,on"]


@pytest.mark.parametrize(
    "words", [("bogus", ""), ("inspect", "--bogus", ""), ("inspect", "--at", "x", "")], ids=" ".join
)
def test_a_mistake_in_the_line_prints_nothing(folder: Path, words: tuple[str, ...]) -> None:
    answer(folder, *words)


#: What follows is typed into a shell that has read its script; it prints what it would offer.
SHELLS = {
    "bash": """
eval "$(_FATPACK_COMPLETE=bash_source fatpack)"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()
compopt() {{ echo "files: $2"; }}
_fatpack_completion fatpack; printf '%s\\n' "${{COMPREPLY[@]}}"
""",
    "zsh": """
compdef() {{ :; }}; _path_files() {{ echo files: default; }}; compadd() {{ print -l -- ${{(P)@[-1]}}; }}
eval "$(_FATPACK_COMPLETE=zsh_source fatpack)"
words=({words}); CURRENT=${{#words}}
_fatpack_completion
""",
    "fish": """
_FATPACK_COMPLETE=fish_source fatpack | source
complete --do-complete {line}
""",
}


@pytest.mark.reference
@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("fatpack", "inspect", "one"), {"bash": "files: default", "zsh": "files: default", "fish": "one.a"}),
        (("fatpack", "tool", "cu"), dict.fromkeys(SHELLS, "cuobjdump")),
    ],
    ids=["files", "tool"],
)
def test_shells_complete_without_a_word_on_stderr(
    folder: Path, shell: str, words: tuple[str, ...], expected: dict[str, str]
) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    script = SHELLS[shell].format(words=" ".join(words), line=f"'{' '.join(words)}'")
    done = subprocess.run(
        [shell, *(["-f"] if shell == "zsh" else []), "-c", script],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    assert expected[shell] in done.stdout.splitlines()
