"""Command lines that are the original's: found on PATH behind whatever leads back to fatpack."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

Place: TypeAlias = Callable[[str, str, str], str]

#: What the stand-ins do not offer.
ARGUMENTS = ["--no-such-option", "a b"]

TOOLS = ("llvm-objdump", "llvm-readobj", "clang-linker-wrapper")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """Return what makes a folder with a script of a name, and gives its path."""

    def made(folder: str, name: str, text: str) -> str:
        path = tmp_path / folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{text}\n")
        path.chmod(0o755)
        return str(path.parent)

    return made


def _called(name: str, folders: list[str]) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([*folders, "/usr/bin", "/bin"])
    environment = {key: value for key, value in os.environ.items() if key != "FATPACK_HANDED_OVER"}
    environment |= {"PATH": path, "PYTHON": sys.executable}
    command = [os.path.join(folders[0], name), *ARGUMENTS]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)


#: Scripts that lead to the stand-in: two that say so, the first of which fails if it is called, and two that do not.
LAUNCHER = ': "from fatpack.main import main"; echo called; exit 7'
PLAIN = 'exec "$PYTHON" -m fatpack tool {name} "$@"'
HIDDEN = 'module=fat; "$PYTHON" -m "${{module}}pack" tool {name} "$@"; exit $?'
ONWARD = 'exec "$(dirname "$0")/../second/{name}" "$@"'
ORIGINAL = 'echo "original: $0 $*"'


@pytest.mark.parametrize("name", TOOLS)
@pytest.mark.parametrize(
    "scripts", [[PLAIN], [HIDDEN], [PLAIN, LAUNCHER], [PLAIN, HIDDEN], [HIDDEN, PLAIN], [ONWARD, HIDDEN, PLAIN]]
)
def test_the_original_is_found_after_what_leads_back(name: str, scripts: list[str], place: Place) -> None:
    order = ("first", "second", "third")
    folders = [place(folder, name, text.format(name=name)) for folder, text in zip(order, scripts, strict=False)]
    folders.append(place("last", name, ORIGINAL))
    done = _called(name, folders)
    assert (done.returncode, done.stdout) == (0, f"original: {folders[-1]}/{name} --no-such-option a b\n"), done.stderr


def test_an_original_with_its_version_in_the_name_is_found(place: Place) -> None:
    name = "llvm-objdump"
    folders = [place("first", name, HIDDEN.format(name=name)), place("last", f"{name}-22", ORIGINAL)]
    assert _called(name, folders).stdout.endswith("/llvm-objdump-22 --no-such-option a b\n")


def test_what_cannot_be_run_is_passed_over_and_reported(place: Place) -> None:
    name = "llvm-objdump"
    folders = [place("first", name, PLAIN.format(name=name)), place("wrong", name, ""), place("last", name, ORIGINAL)]
    Path(folders[1], name).write_bytes(b"\x7fELF of another machine")
    done = _called(name, folders)
    assert done.stdout.startswith("original: ")
    assert done.stderr == f"{name}: warning: {folders[1]}/{name} cannot be run: Exec format error\n"


def test_it_is_reported_where_there_is_no_original(place: Place) -> None:
    name = "llvm-objdump"
    folder = place("first", name, HIDDEN.format(name=name))
    code = (
        "import sys; from fatpack.tools.llvm.cl_tool import exec_original; "
        f"sys.exit(exec_original({name!r}, {name!r}, [], '22', offered='--offloading'))"
    )
    environment = {**os.environ, "PATH": folder, "FATPACK_HANDED_OVER": f"{folder}/{name}"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert (
        f"neither beside this program nor on PATH ({folder}/{name} leads back to fatpack): install LLVM" in done.stderr
    )
