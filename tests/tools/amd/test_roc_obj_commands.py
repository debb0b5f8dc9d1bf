"""The stand-in for roc-obj: what it extracts and runs, next to the original, and where it is on its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests import reference
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

Fatpack = Callable[..., Ran]

OBJECT = FIXTURES / "elf" / "clang-22-hip.o"
NAMES = ["a.o:1.hipv4-amdgcn-amd-amdhsa--gfx1100", "a.o:1.hipv4-amdgcn-amd-amdhsa--gfx90a"]


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fatpack: Fatpack) -> Fatpack:
    monkeypatch.chdir(tmp_path)
    shutil.copy(OBJECT, "a.o")
    return lambda *arguments: fatpack("tool", "roc-obj", *arguments)


def taken() -> dict[str, bytes]:
    found = {str(path): path.read_bytes() for path in Path().rglob("*:*")}
    for path in found:
        Path(path).unlink()
    return found


@pytest.mark.reference
@pytest.mark.sweep(5)
@pytest.mark.parametrize(
    "words",
    [
        ["a.o"],
        ["-t", "gfx9", "a.o"],
        ["-tgfx9", "-oout", "a.o"],
        ["--target-id=gfx1.*0$", "--outdir", "out/deep", "a.o"],
        ["a.o", ":", ".count", "wc", "-c"],
        ["-i", "a.o", ":", ".n", "echo", "{}", "x{}", ";", "!", "cat"],
        ["-I@", "-t", "gfx1", "a.o", ":", ".n", "echo", "@"],
        ["-d", "a.o"],
    ],
    ids=" ".join,
)
def test_the_same_files_are_made(tool: Fatpack, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    if "-d" in words:
        monkeypatch.setenv("HIP_CLANG_PATH", str(Path(reference.tool("llvm-objdump")).parent))
    done = reference.run("roc-obj", *words, check=False)
    theirs = taken()
    ran = tool(*words)
    assert (ran.code, ran.out, ran.err) == (0, done.stdout.decode(), done.stderr.decode())
    assert theirs == taken() != {}


def test_the_help_names_every_option(tool: Fatpack) -> None:
    ran = tool("--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: roc-obj [-h]")


def test_compressed_bundles_are_extracted(tool: Fatpack) -> None:
    assert tool(FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle").code == 0
    assert len(taken()) >= 1


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 1, "no executables specified"),
        (["none"], 1, "no code object was extracted"),
        (["-t", "zzz", "a.o"], 1, "no code object was extracted"),
        (["-t", "(", "a.o"], 1, "-t (: "),
        (["-x", "a.o"], 1, "invalid option -- 'x'"),
        (["--bogus", "a.o"], 1, "unrecognized option '--bogus'"),
        (["-t"], 1, "option requires an argument -- 't'"),
        (["a.o", ":", "-"], 1, "no command after the suffix '-'"),
        (["a.o", ":", "-", "no-such-program"], 127, "no-such-program: No such file"),
        (["a.o", ":", "-", "sh", "-c", "exit 3"], 3, ""),
    ],
)
def test_what_cannot_be_done_is_reported(tool: Fatpack, words: list[str], code: int, message: str) -> None:
    ran = tool(*words)
    assert ran.code == code
    assert (f"error: {message}" if message else "") in ran.err


def test_output_of_commands_is_passed_through(tool: Fatpack) -> None:
    assert tool("--replace-string=@", "a.o", ":", "-", "echo", "<@>", ";", "!", "echo", "none") == (
        0,
        "".join(f"<{name}>\n" for name in NAMES),
        "",
    )


def test_an_id_chooses_no_folder(tool: Fatpack) -> None:
    data = OBJECT.read_bytes().replace(b"hipv4-amdgcn-amd-amdhsa--gfx90a", b"hipv4-amdgcn-amd-amdhsa--/../90")
    Path("a.o").write_bytes(data)
    tool("-o", "out", "a.o")
    assert {path.parent for path in Path().rglob("a.o:*")} == {Path("out")}
