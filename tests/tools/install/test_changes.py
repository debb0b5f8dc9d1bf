"""A change that fails or is stopped leaves everything as it was, and says so: midway, at the end, going back."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Ran, fatpack

from fatpack.errors import UsageError
from fatpack.tools import TOOLS
from fatpack.tools.install import links
from fatpack.tools.install.links import FolderTransaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["fatpack"]  # a fixture

NAMES = ["clang-offload-bundler", "cuobjdump", "fatbinary", "nvprune"]


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "bin" / "fatpack"
    path.parent.mkdir()
    path.touch()
    return str(path)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a file of a user, a link to a fatpack that is gone, and one that is as it shall be."""
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    (folder / "cuobjdump").symlink_to(tmp_path / "gone" / "fatpack")
    (folder / "fatbinary").symlink_to(tmp_path / "bin" / "fatpack")
    return folder


def state(folder: Path) -> dict[str, str]:
    """Return what is in a folder: where each link leads, what each file holds."""
    return {
        path.name: os.readlink(path) if path.is_symlink() else path.read_text() if path.is_file() else "folder"
        for path in folder.rglob("*")
    }


def failing(monkeypatch: pytest.MonkeyPatch, call: str, at: int, error: BaseException) -> None:
    """Let the n-th call of a function of ``os`` fail."""
    real, calls = getattr(os, call), [0]

    def run(*arguments: str) -> object:
        calls[0] += 1
        if calls[0] == at:
            raise error
        return real(*arguments)

    monkeypatch.setattr(os, call, run)


ERRORS = {
    "disk full": (lambda: OSError(28, "No space left on device", "x"), OSError, "No space left on device"),
    "permission": (lambda: PermissionError(13, "Permission denied", "x"), PermissionError, "Permission denied"),
    "file in the way": (
        lambda: FileExistsError(17, "File exists", "a", None, "in/x"),
        UsageError,
        "in/x: came meanwhile",
    ),
    "Ctrl-C": (KeyboardInterrupt, KeyboardInterrupt, "stopped"),
}


@pytest.mark.parametrize("why", ERRORS)
@pytest.mark.parametrize(("call", "most"), [("symlink", 4), ("replace", 1)])
def test_an_installation_that_fails_anywhere_leaves_nothing(
    program: str, place: Path, monkeypatch: pytest.MonkeyPatch, why: str, call: str, most: int
) -> None:
    make, kind, words = ERRORS[why]
    before = state(place)
    for at in range(1, most + 1):
        with monkeypatch.context() as patch:
            failing(patch, call, at, make())
            with pytest.raises(kind, match=f"(?s){words}.*nothing was placed"):
                links.place_stand_ins(str(place), NAMES, program)
        assert state(place) == before, at
    assert [each.done for each in links.place_stand_ins(str(place), NAMES, program)] == [
        "made",
        "changed",
        "kept",
        "made",
    ]
    assert {os.readlink(place / name) for name in NAMES} == {program}
    assert state(place).keys() == {*NAMES, "notes.txt"}, "nothing is left beside them"


@pytest.mark.parametrize("why", ERRORS)
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_removal_that_fails_leaves_all(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, at: int
) -> None:
    make, kind, words = ERRORS[why]
    links.place_stand_ins(str(tmp_path / "in"), NAMES, program)
    before = state(tmp_path / "in")
    with monkeypatch.context() as patch:
        failing(patch, "rename", at, make())
        with pytest.raises(kind, match=f"(?s){words}.*nothing was removed"):
            links.remove_stand_ins(str(tmp_path / "in"), [])
    assert state(tmp_path / "in") == before
    assert len(links.remove_stand_ins(str(tmp_path / "in"), [])) == len(NAMES)
    assert state(tmp_path / "in") == {}


def test_folders_that_were_made_go_too(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "symlink", 3, OSError(28, "No space left on device", "x"))
    with pytest.raises(OSError, match="nothing was placed"):
        links.place_stand_ins(str(tmp_path / "a" / "b" / "c"), [], program)
    assert not (tmp_path / "a").exists()


def test_a_stop_while_it_is_taken_back_changes_nothing_of_that(
    program: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state(place)
    failing(monkeypatch, "symlink", 4, OSError(28, "No space left on device", "x"))
    failing(monkeypatch, "unlink", 1, KeyboardInterrupt())
    with pytest.raises(OSError, match="No space left on device; nothing was placed"):
        links.place_stand_ins(str(place), NAMES, program)
    assert state(place) == before


def test_a_stop_when_all_is_done_undoes_nothing(program: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, "unlink", 1, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        links.remove_stand_ins(str(place), [])
    assert state(place) == {"notes.txt": "mine"}


def test_what_cannot_be_taken_back_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = str(tmp_path / "one"), str(tmp_path / "other")
    failing(monkeypatch, "unlink", 2, PermissionError(13, "Permission denied"))
    with (
        pytest.raises(OSError, match=f"No space left on device; this could not be taken back: {one}"),
        FolderTransaction("placed") as changes,
    ):
        for path in (one, other):
            changes.make(path, lambda to: Path(to).touch())
        raise OSError(28, "No space left on device", "third")
    assert sorted(os.listdir(tmp_path)) == ["one"]


def test_everything_is_checked_before_the_first_change(
    program: str, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("nvprune", "roc-obj", "roc-obj-ls", "llvm-foreach", "llvm-readobj"):
        (place / name).write_text("original")
    before = state(place)
    with pytest.raises(UsageError) as refused:
        links.place_stand_ins(str(place), [], program)
    assert "nvprune" in str(refused.value)
    assert "and 1 more: are there, and are not fatpack; nothing was placed" in str(refused.value)
    with pytest.raises(UsageError, match="nvprune: not placed by fatpack; nothing was removed"):
        links.remove_stand_ins(str(place), ["fatbinary", "nvprune"])
    with pytest.raises(UsageError, match="clang-offload-bundler: not there; nothing was removed"):
        links.remove_stand_ins(str(place), ["fatbinary", "clang-offload-bundler", "nvprune"])
    monkeypatch.setattr(os, "access", lambda *_: False)  # for root all is allowed
    for change in (
        lambda: links.place_stand_ins(str(place / "new" / "er"), [], program),
        lambda: links.remove_stand_ins(str(place), ["fatbinary"]),
    ):
        with pytest.raises(PermissionError, match="Permission denied; nothing was"):
            change()
    assert state(place) == before


def test_what_another_run_makes_meanwhile_is_kept(
    program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two runs at once: the other one is always a step ahead, and both succeed."""
    for call in ("mkdir", "symlink"):
        monkeypatch.setattr(os, call, _ahead(getattr(os, call)))
    folder = tmp_path / "new" / "in"
    assert {each.done for each in links.place_stand_ins(str(folder), NAMES, program)} == {"kept"}
    assert {path.name: os.readlink(path) for path in folder.iterdir()} == dict.fromkeys(NAMES, program)


def _ahead(call: Callable[..., None]) -> Callable[..., None]:
    """Return a function that somebody else calls first."""

    def run(*arguments: str) -> None:
        call(*arguments)
        call(*arguments)

    return run


STOPPED = """
import os, signal, sys
from fatpack.main import main
from fatpack.tools.install import links
real, calls = os.{call}, []
def run(*arguments):
    calls.append(arguments)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGINT)
    return real(*arguments)
os.{call} = run
links.program = lambda: {program!r}
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize(("option", "call"), [("--install", "symlink"), ("--uninstall", "rename")])
def test_ctrl_c_in_the_middle(program: str, tmp_path: Path, option: str, call: str) -> None:
    if option == "--uninstall":
        links.place_stand_ins(str(tmp_path / "in"), [], program)
    before = state(tmp_path)
    script = STOPPED.format(call=call, program=program)
    done = subprocess.run(
        [sys.executable, "-c", script, "tool", option, str(tmp_path / "in")], capture_output=True, text=True
    )
    verb = "placed" if option == "--install" else "removed"
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"fatpack: stopped; nothing was {verb}\n")
    assert state(tmp_path) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--install"], "Option '--install' requires an argument.\nTry 'fatpack tool --help', or as in: fatpack tool"),
        (
            ["--install", "fatbinary"],
            "fatpack tool --install stand-ins fatbinary; a folder of that name is ./fatbinary",
        ),
        (["--install", "--which"], "--which is in the place of the folder"),
        (["--install", "x", "fatbinry"], "no stand-in for 'fatbinry'; did you mean fatbinary?"),
        (["--install", "x", "clang-offload-bundler-99"], "clang-offload-bundler follows LLVM 22 and 23: clang-"),
        (["--which", "fatbinary-99"], "fatbinary follows CUDA 13.0 and 13.5: fatbinary-13.0 or fatbinary-13.5"),
        (["cuobjdump-13.0"], "cuobjdump follows one version of its original: leave -13.0 out"),
        (["--install", "x", "nvcc"], f"choose from {', '.join(TOOLS)}"),
    ],
    ids=" ".join,
)
def test_a_misspelled_word_gets_a_suggestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Callable[..., Ran], words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = fatpack("tool", *words)
    assert (ran.code, ran.out, list(tmp_path.iterdir())) == (2, "", [])
    assert said in ran.err
