"""The shells themselves complete: keys are typed into bash and zsh on a terminal, and fish is asked."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

from fatpack.main.completion import SCRIPTS

pytestmark = pytest.mark.reference

#: What a shell reads before lines are typed: completion by our script, and a key that prints the line.
BEFORE = {
    "bash": """PS1=ready; bind 'set bell-style none'; bind -x '"\\C-g": printf "<%s>" "$READLINE_LINE"'
eval "$(fatpack completion bash)"
""",
    "zsh": """autoload -U compinit; compinit -u -D; PS1=ready; unsetopt prompt_cr prompt_sp zle_bracketed_paste
show() { print -rn -- "<$BUFFER>" }; zle -N show; bindkey '^G' show
eval "$(fatpack completion zsh)"
""",
}
START = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}

#: typed in front of TAB → what stands there then
LINES = {
    "fatpack insp": "fatpack inspect",
    "fatpack tool cuo": "fatpack tool cuobjdump",
    "fatpack extract --direc": "fatpack extract --directory",
    "fatpack inspect on": "fatpack inspect one.o",
    "fatpack inspect --by=ar": "fatpack inspect --by=arch",
    "fatpack pack --host=on": "fatpack pack --host=one.o",
    "fatpack extract one.o -d im": "fatpack extract one.o -d images/",
    "fatpack extract 'two words.bin' --arch=sm_8": "fatpack extract 'two words.bin' --arch=sm_80",
    "fatpack extract two\\ words.bin --arch sm_80,sm_9": "fatpack extract two\\ words.bin --arch sm_80,sm_90",
    "fatpack targets gfx90a:xnack": "fatpack targets gfx90a:xnack",
    "fatpack check 'two words.bin' --require=sm_80,sm_121": "fatpack check 'two words.bin' --require=sm_80,sm_121",
    "fatpack check 'two words.bin' --require @fb": "fatpack check 'two words.bin' --require @fbgemm-1.2-rocm",
    "fatpack check 'two words.bin' --require=@fb": "fatpack check 'two words.bin' --require=@fbgemm-1.2-rocm",
    "fatpack check one.o --require sm_80,@fb": "fatpack check one.o --require sm_80,@fbgemm-1.2-rocm",
    "fatpack tool --as=13.": "fatpack tool --as=13.",
    "fatpack tool --as=13.5 fat": "fatpack tool --as=13.5 fatbinary",
    "fatpack tool clang-offload-bundler --unb": "fatpack tool clang-offload-bundler --unbundle",
    "fatpack tool --install images nvp": "fatpack tool --install images nvprune",
    "fatpack help tool cuo": "fatpack help tool cuobjdump",
    "fatpack extract $HOME/two\\ words.bin --arch=sm_8": "fatpack extract $HOME/two\\ words.bin --arch=sm_80",
    "fatpack extract 'two words.bin' --arch \"sm_8": "fatpack extract 'two words.bin' --arch \"sm_80\"",
    "fatpack extract 'two words.bin' --arch '!sm_8": "fatpack extract 'two words.bin' --arch '!sm_80'",
    "fatpack extract größe.bin --arch \\$\\(x\\),sm_8": "fatpack extract größe.bin --arch \\$\\(x\\),sm_80",
    "fatpack pack --image=file=two\\ words.bin,tri": "fatpack pack --image=file=two\\ words.bin,triple=",
    "fatpack pack --image file=two\\ words.bin,kind=hi": "fatpack pack --image file=two\\ words.bin,kind=hip",
    "fatpack pack '--image=file=two words.bin,kind=hi": "fatpack pack '--image=file=two words.bin,kind=hip'",
    "fatpack pack --image=file=on": "fatpack pack --image=file=one.o",
    "fatpack pack --image file=on": "fatpack pack --image file=one.o",
    "fatpack pack --image tri": "fatpack pack --image triple=",
    "fatpack pack --image=kind=h": "fatpack pack --image=kind=h",
    "fatpack pack --image=kind=hi": "fatpack pack --image=kind=hip",
    "fatpack inspect --limit kpack-t": "fatpack inspect --limit kpack-toc=",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files and a folder, and a `fatpack` to run in ``bin``."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "fatpack"
    program.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\nfrom "
        "fatpack.main import main\nsys.exit(main())\n"
    )
    program.chmod(0o755)
    (tmp_path / "one.o").write_bytes(b"")
    shutil.copy(FIXTURES / "cuda_fatbin" / "recorded" / "v130_default.fatbin", tmp_path / "two words.bin")
    shutil.copy(tmp_path / "two words.bin", tmp_path / "größe.bin")
    (tmp_path / "images").mkdir()
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    return {"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder), "TERM": "dumb", "LC_ALL": "C.UTF-8"}


class Terminal:
    """A shell on a terminal."""

    def __init__(self, shell: str, folder: Path) -> None:
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(reference.tool(shell), [shell, *START[shell]], environment(folder))
        self.said = ""

    def type(self, keys: str) -> None:
        os.write(self.fd, keys.encode())

    def wait_for(self, pattern: str) -> re.Match[str]:
        """Read until something matches; the patience is that of a loaded machine."""
        while not (found := re.search(pattern, self.said, re.DOTALL)):
            assert select.select([self.fd], [], [], 60)[0], f"no answer: {self.said!r}"
            self.said += os.read(self.fd, 1 << 16).decode(errors="replace")
        self.said = self.said[found.end() :]
        return found

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)
        os.kill(self.pid, 9)
        os.waitpid(self.pid, 0)


@pytest.mark.parametrize("shell", BEFORE)
def test_keys_on_a_terminal(folder: Path, shell: str) -> None:
    reference.tool(shell)
    with Terminal(shell, folder) as terminal:
        terminal.type(BEFORE[shell] + "echo be''gin\n")
        terminal.wait_for("begin\r?\n")
        for typed, expected in LINES.items():
            terminal.type(f"{typed}\t\x07")
            shown = terminal.wait_for(r"<([^>]*)>")[1]
            assert shown.rstrip() == expected, (shell, typed)
            terminal.type("\x15")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("fatpack insp", ["inspect"]),
        ("fatpack tool cuo", ["cuobjdump"]),
        ("fatpack inspect on", ["one.o"]),
        ("fatpack inspect --by=ar", ["--by=arch"]),
        ("fatpack pack --host=on", ["--host=one.o"]),
        ("fatpack extract one.o -d im", ["images/"]),
        ("fatpack extract 'two words.bin' --arch=", ["--arch=sm_80", "--arch=sm_90"]),
        ("fatpack tool --as=13.", ["--as=13.0", "--as=13.5"]),
        ("fatpack tool clang-offload-bundler --unb", ["--unbundle"]),
        ("fatpack pack --image=file=on", ["--image=file=one.o"]),
        ("fatpack pack --image file=on", ["file=one.o"]),
        ("fatpack pack --image tri", ["triple="]),
        ("fatpack help tool cuo", ["cuobjdump"]),
        ("fatpack inspect 'two", ["two words.bin"]),
        ('fatpack extract größe.bin --arch "sm_8', ["sm_80"]),
        ("fatpack extract $HOME/größe.bin --arch '!sm_8", ["!sm_80"]),
        ("fatpack extract größe.bin --arch \\$\\(x\\),sm_8", ["$(x),sm_80"]),
        ("fatpack pack --output='tw", ["--output=two words.bin"]),
        (
            "fatpack pack --output=",
            [f"--output={name}" for name in ("bin/", "größe.bin", "images/", "one.o", "two words.bin")],
        ),
        ("fatpack pack --image=file=two\\ words.bin,tri", ["--image=file=two words.bin,triple="]),
        ("fatpack pack '--image=file=two words.bin,file=on", ["--image=file=two words.bin,file=one.o"]),
    ],
)
def test_fish_is_asked(folder: Path, line: str, expected: list[str]) -> None:
    script = "fatpack completion fish | source; complete -C $argv[1]"
    done = subprocess.run(
        [reference.tool("fish"), "--no-config", "-c", script, line],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert [answer.split("\t")[0] for answer in done.stdout.splitlines()] == expected


@pytest.mark.parametrize("shell", SCRIPTS)
def test_the_lines_of_older_start_up_files_still_work(folder: Path, shell: str) -> None:
    asked = {**environment(folder), "_FATPACK_COMPLETE": f"{shell}_source"}
    done = subprocess.run(["fatpack"], cwd=folder, env=asked, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (SCRIPTS[shell], "")
