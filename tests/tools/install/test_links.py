"""Stand-ins in place: made, called by other programs, told apart, taken away. Windows is simulated."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import tool

from fatpack.errors import UsageError
from fatpack.main import _called_as
from fatpack.tools import TOOLS
from fatpack.tools.install import links
from fatpack.tools.install.messages import ToolCallers

CONTAINER = FIXTURES / "offload_binary" / "llvm-22-four.bin"


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A command `fatpack` as packaging tools make it, in a folder with a blank in its name."""
    path = tmp_path / "a venv" / "fatpack"
    path.parent.mkdir()
    path.write_text(
        f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\nfrom "
        "fatpack.main import main\nsys.exit(main())\n"
    )
    path.chmod(0o755)
    return path


def ran(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, env={**os.environ, **environment})


def test_all_stand_ins_are_placed_and_taken_away(program: Path, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "my place"
    done = ran(program, "tool", "--install", folder)
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == f"{len(TOOLS)} stand-ins in {folder}: links to {program}"
    assert done.stdout.split("made: ")[1].split() == list(TOOLS)
    assert f"clang -B '{folder}' …" in done.stderr
    assert f"export PATH='{folder}':$PATH" in done.stderr
    assert " DIR" not in done.stderr
    assert {path.name for path in folder.iterdir()} == TOOLS.keys()
    (folder / "notes.txt").write_text("mine")
    assert ran(program, "tool", f"--uninstall={folder}").returncode == 0
    assert [path.name for path in folder.iterdir()] == ["notes.txt"]
    assert ran(program, "tool", "--uninstall", folder).returncode == 1, "nothing was left to remove"


@pytest.mark.parametrize("name", TOOLS)
def test_a_link_is_the_tool_of_its_name(program: Path, tmp_path: Path, name: str) -> None:
    links.place_stand_ins(str(tmp_path / "in"), [name], str(program))
    placed, asked = ran(tmp_path / "in" / name, "--version"), ran(program, "tool", name, "--version")
    assert placed.returncode == asked.returncode
    # roc-obj has no such option; the refusal is its own, in words that name nobody
    assert name in placed.stdout + placed.stderr or placed.stderr == "error: unrecognized option '--version'\n"
    assert placed.stdout == asked.stdout.replace(f" {name}:", f" {tmp_path / 'in' / name}:")


def test_a_name_may_end_in_a_version(program: Path, tmp_path: Path) -> None:
    links.place_stand_ins(str(tmp_path / "in"), ["llvm-offload-binary-22", "llvm-offload-binary-23"], str(program))
    for version in ("22", "23"):
        done = ran(tmp_path / "in" / f"llvm-offload-binary-{version}", "--version", FATPACK_LLVM="22")
        assert done.stdout.endswith(f"of LLVM {version}\n")


@pytest.mark.reference
@pytest.mark.parametrize("name", ["clang-offload-bundler", "fatbinary"])
def test_clang_finds_a_link_in_its_folder(program: Path, tmp_path: Path, name: str) -> None:
    links.place_stand_ins(str(tmp_path / "in"), [], str(program))
    done = ran(tool("clang"), "-B", tmp_path / "in", f"-print-prog-name={name}")
    assert done.stdout.strip() == str(tmp_path / "in" / name)


@pytest.mark.parametrize("names", [[], ["fatbinary", "cuobjdump"]], ids=["all", "named"])
def test_files_of_others_stay_and_nothing_is_placed(program: Path, tmp_path: Path, names: list[str]) -> None:
    (tmp_path / "cuobjdump").write_text("#!/bin/sh\necho original\n")
    before = sorted(tmp_path.iterdir())
    done = ran(program, "tool", "--install", tmp_path, *names)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"{tmp_path / 'cuobjdump'}: is there, and is not fatpack; nothing was placed" in done.stderr
    assert sorted(tmp_path.iterdir()) == before
    done = ran(program, "tool", "--uninstall", tmp_path, "cuobjdump")
    assert done.returncode == 2
    assert (tmp_path / "cuobjdump").read_text().endswith("original\n")


def test_scripts_that_call_fatpack_are_their_authors(program: Path, tmp_path: Path) -> None:
    script = tmp_path / "fatbinary"
    script.write_text("#!/usr/bin/env python3\nfrom fatpack.main import main  # mine, with settings\n")
    with pytest.raises(UsageError, match="is not fatpack"):
        links.place_stand_ins(str(tmp_path), ["fatbinary"], str(program))
    with pytest.raises(UsageError, match="fatbinary: not placed by fatpack"):
        links.remove_stand_ins(str(tmp_path), ["fatbinary"])
    assert links.remove_stand_ins(str(tmp_path), []) == []
    assert "mine" in script.read_text()


@pytest.mark.parametrize("option", ["--install", "--uninstall"])
@pytest.mark.parametrize(("name", "said"), [("", "folder is empty"), ("file", "file: is no folder")])
def test_what_is_no_folder_is_reported(program: Path, tmp_path: Path, option: str, name: str, said: str) -> None:
    (tmp_path / "file").touch()
    command = [str(program), "tool", option, name]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, said in done.stderr, "--force" in done.stderr) == (2, True, False)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a venv", "file"]


def test_links_to_a_command_that_is_gone_or_moved_are_made_anew(program: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "fatbinary").symlink_to(tmp_path / "gone" / "fatpack")
    placed = links.place_stand_ins(str(tmp_path / "in"), ["fatbinary", "cuobjdump"], str(program))
    assert [each.done for each in placed] == ["changed", "made"]
    assert [each.done for each in links.place_stand_ins(str(tmp_path / "in"), ["fatbinary"], str(program))] == ["kept"]
    assert (tmp_path / "in" / "fatbinary").readlink() == program


@pytest.mark.parametrize("name", ["nvcc", "../fatbinary", "/fatbinary", "fatbinary-12.0", ""])
def test_only_names_of_stand_ins_are_placed(program: Path, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="no stand-in"):
        links.place_stand_ins(str(tmp_path / "in"), [name], str(program))
    assert not (tmp_path / "in").exists()


def test_which_tells_what_path_finds(program: Path, tmp_path: Path) -> None:
    links.place_stand_ins(str(tmp_path / "in"), ["fatbinary"], str(program))
    script = tmp_path / "in" / "cuobjdump"
    script.write_text('#!/bin/sh\nexec fatpack tool cuobjdump "$@"\n')
    original = tmp_path / "in" / "cir-offload-merge"
    original.write_text("#!/bin/sh\n")
    for file in (script, original):
        file.chmod(0o755)
    (tmp_path / "in" / "roc-obj").symlink_to(tmp_path / "gone" / "fatpack")
    path = f"{tmp_path / 'in'}{os.pathsep}{Path(sys.executable).parent}"
    done = ran(program, "tool", "--which", PATH=path)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        f"of {len(TOOLS)} names, PATH finds fatpack for 2",
        f"  in {tmp_path / 'in'}",
        "  name       PATH",
        "  cuobjdump  fatpack",
        "  fatbinary  fatpack",
        "  roc-obj    broken",
        f"others: originals are found for 1, nothing for {len(TOOLS) - 4}; -v shows where",
        "broken: the link leads to a fatpack that is gone; fatpack tool --install mends it",
    ]
    lines = ran(program, "tool", "--which", "-v", PATH=path).stdout.splitlines()
    assert [" ".join(line.split()) for line in lines if str(tmp_path) in line or line.startswith("nvprune")] == [
        f"in {tmp_path / 'in'}",
        f"cir-offload-merge PATH original {original}",
        f"cuobjdump PATH fatpack {script}",
        f"fatbinary PATH fatpack {tmp_path / 'in' / 'fatbinary'} → {program}",
        "nvprune PATH nothing",
        f"roc-obj PATH broken {tmp_path / 'in' / 'roc-obj'} → {tmp_path / 'gone' / 'fatpack'}",
    ]
    assert ran(program, "tool", "--which", "fatbinary", PATH=path).returncode == 0
    assert ran(program, "tool", "--which", "fatbinary", "cir-offload-merge", PATH=path).returncode == 1


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes in folders")
def test_which_opens_no_pipe(program: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "cuobjdump", 0o755)
    done = subprocess.run(
        [str(program), "tool", "--which", "cuobjdump"],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": str(tmp_path)},
        timeout=30,
    )
    assert (done.returncode, done.stdout.split()) == (1, ["cuobjdump", "PATH", "original", str(tmp_path / "cuobjdump")])


def test_which_says_what_to_do_where_nothing_is_in_place(program: Path, tmp_path: Path) -> None:
    done = ran(program, "tool", "--which", PATH=str(tmp_path))
    assert done.stdout.splitlines() == [
        f"of {len(TOOLS)} names, none leads to fatpack: not by PATH",
        f"originals are found for 0, nothing for {len(TOOLS)}; -v shows where",
        "fatpack tool --install stand-ins    makes them in a folder, and says how programs come to call them",
    ]


def test_which_tells_what_compilers_call(program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two programs that answer as clang and nvcc do: one has its own, the other looks in its own folder first."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    links.place_stand_ins(str(ours), ["fatbinary", "clang-offload-bundler"], str(program))
    theirs.mkdir()
    for name, text in (
        ("clang", f"echo {theirs}/clang-offload-bundler"),
        ("nvcc", f"echo '#$ _HERE_={theirs}' >&2; echo '#$ PATH={theirs}:{ours}' >&2"),
        ("clang-offload-bundler", ":"),
        ("fatbinary", ":"),
    ):
        (theirs / name).write_text(f"#!/bin/sh\n{text}\n")
        (theirs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{ours}:{theirs}")
    clients = ToolCallers()
    bundler = list(clients.found("clang-offload-bundler"))
    assert [(each.client, each.path, each.is_fatpack) for each in bundler] == [
        ("PATH", str(ours / "clang-offload-bundler"), True),
        ("clang", str(theirs / "clang-offload-bundler"), False),
    ]
    last = list(clients.found("fatbinary"))[-1]
    assert (last.client, last.path, last.is_fatpack) == ("nvcc", str(theirs / "fatbinary"), False)


def test_options_exclude_each_other(program: Path, tmp_path: Path) -> None:
    done = ran(program, "tool", "--install", tmp_path, "--which")
    assert (done.returncode, done.stdout) == (2, "")
    assert "exclude each other" in done.stderr


class TestWindows:
    """On Windows, stand-ins are copies of the launcher `fatpack.exe` instead of links."""

    @pytest.fixture
    def launcher(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A launcher as packaging tools make it: a program, `#!` and the interpreter, a zip archive with the call."""
        monkeypatch.setattr(links, "_IS_WINDOWS", True)
        path = tmp_path / "Scripts" / "fatpack.exe"
        path.parent.mkdir()
        path.write_bytes(b"MZ" + bytes(1000) + b"#!C:\\python.exe\r\nPK\x03\x04from fatpack.main import main\r\n")
        return path

    def test_launchers_are_copied_and_recognised(self, launcher: Path, tmp_path: Path) -> None:
        placed = links.place_stand_ins(str(tmp_path / "in"), ["fatbinary"], str(launcher))
        assert [Path(each.path).name for each in placed] == ["fatbinary.exe"]
        assert (tmp_path / "in" / "fatbinary.exe").read_bytes() == launcher.read_bytes()
        assert [each.done for each in links.place_stand_ins(str(tmp_path / "in"), ["fatbinary"], str(launcher))] == [
            "kept"
        ]
        launcher.write_bytes(launcher.read_bytes().replace(b"C:", b"D:"))
        assert [each.done for each in links.place_stand_ins(str(tmp_path / "in"), ["fatbinary"], str(launcher))] == [
            "changed"
        ]
        assert [each.done for each in links.remove_stand_ins(str(tmp_path / "in"), [])] == ["removed"]

    def test_another_program_stays(self, launcher: Path, tmp_path: Path) -> None:
        (tmp_path / "fatbinary.exe").write_bytes(b"MZ" + bytes(1000))
        with pytest.raises(UsageError, match="is not fatpack"):
            links.place_stand_ins(str(tmp_path), ["fatbinary"], str(launcher))

    @pytest.mark.parametrize("name", ["fatpack.exe", "fatpack", "FATPACK.EXE"])
    def test_the_launcher_is_found_by_any_spelling(
        self, launcher: Path, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(os.path, "isfile", lambda path: path.lower() == str(launcher).lower())
        assert links.fatpack_program(str(launcher.parent / name)).lower() == str(launcher).lower()


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/v/bin/fatpack", "inspect", "x"], ["inspect", "x"]),
        (["/in/fatbinary", "--create", "x"], ["tool", "/in/fatbinary", "--create", "x"]),
        (["fatbinary"], ["tool", "fatbinary"]),
        (["/in/fatbinary.exe", "x"], ["tool", "/in/fatbinary", "x"]),
        (["/in/llvm-offload-binary-23", "x"], ["tool", "/in/llvm-offload-binary-23", "x"]),
        (["/in/other", "x"], ["x"]),
        (["-c", "x"], ["x"]),
    ],
    ids=str,
)
def test_the_name_of_the_program_decides(argv: list[str], expected: list[str]) -> None:
    assert list(_called_as(argv)) == expected


def test_without_a_command_there_is_nothing_to_link_to(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    with pytest.raises(UsageError, match="there is no command fatpack to link to"):
        links.fatpack_program("-c")
