"""The stand-in against what the tests of intel/llvm and its source say; the page names the revision."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders.coff import Section, build

from fatpack.main import main

NAME = "clang-offload-deps"
NOTES = b"openmp-x86_64-pc-linux-gnu.bar\0openmp-x86_64-pc-linux-gnu.foo\0sycl-spir64.bar\0sycl-spir64.foo\0"
BOTH = ["-targets=openmp-x86_64-pc-linux-gnu,sycl-spir64", "-outputs=deps.x86_64,deps.spir64"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fat").write_bytes(build([Section(b".tgtsym", NOTES)]))
    (tmp_path / "host").write_bytes(build([Section(b".text", b"code")]))
    (tmp_path / "text").write_text("no object")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_each_target_gets_the_symbols_noted_for_it(folder: Path) -> None:
    assert main(["tool", NAME, *BOTH, "fat"]) == 0
    native, spirv = Path("deps.x86_64").read_text(), Path("deps.spir64").read_text()
    for text, triple in ((native, "x86_64-pc-linux-gnu"), (spirv, "spir64")):
        assert f'target triple = "{triple}"\n' in text
        assert "@bar = external global ptr\n@foo = external global ptr\n" in text
    assert "@offload.symbols = hidden local_unnamed_addr global [2 x ptr] [ptr @bar, ptr @foo]\n" in native
    assert '@llvm.used = appending global [2 x ptr] [ptr @bar, ptr @foo], section "llvm.metadata"\n' in spirv


def test_any_target_of_sycl_is_linked_as_ir(folder: Path) -> None:
    Path("fat").write_bytes(build([Section(b".tgtsym", b"sycl-nvptx64.f\0openmp-spir.f\0hip-amdgcn.f\0")]))
    assert main(["tool", NAME, "-targets=sycl-nvptx64,openmp-spir,hip-amdgcn", "-outputs=a,b,c", "fat"]) == 0
    assert ["llvm.used" in Path(name).read_text() for name in "abc"] == [True, True, False]


def test_a_file_without_symbols_makes_empty_modules(folder: Path) -> None:
    assert main(["tool", NAME, *BOTH, "host"]) == 0
    assert "target triple" in Path("deps.x86_64").read_text()
    assert "@" not in Path("deps.x86_64").read_text() + Path("deps.spir64").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-targets=sycl-spir64", "-outputs=a,b", "fat"], "error: number of output files and targets should match"),
        (["-targets=x-spir64", "-outputs=a", "no"], "invalid target 'x-spir64', unknown offloading kind 'x'"),
        (["-targets=sycl-x", "-outputs=a", "no"], "invalid target 'sycl-x', unknown target triple 'x'"),
        (
            ["-targets=x", "-outputs=a", "no"],
            f"{NAME}: error: invalid target 'x', unknown offloading kind 'x', unknown target triple ''\n",
        ),
        ([*BOTH, "no"], f"{NAME}: error: 'no': No such file or directory"),
        ([*BOTH, "text"], "The file was not recognized as a valid object file"),
        (["-targets=sycl-spir64,sycl-spir", "-outputs=a,no/b", "fat"], "error: 'no/b': No such file or directory"),
        (["-targets=sycl-spir64", "fat"], "for the --outputs option: must be specified at least once!"),
        (["-targets=sycl-spir64", "-outputs=a"], "Not enough positional command line arguments specified!"),
        (["-h"], "Not enough positional command line arguments specified!"),
    ],
)
def test_what_is_wrong_is_reported_and_nothing_written(
    arguments: list[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    assert main(["tool", NAME, *arguments]) == 1
    assert said in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tool", NAME, "--help"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("OVERVIEW: A tool for creating dependence bitcode files for offload targets. Takes\n")
    for line in (
        "USAGE: clang-offload-deps [options] <input file>\n",
        "  --outputs=<string> - [<output file>,...]\n",
        "  --targets=<string> - [<offload kind>-<target triple>,...]\n",
    ):
        assert line in printed
    assert main(["tool", NAME, "--version"]) == 0
    assert "standing in for clang-offload-deps of DPC++" in capsys.readouterr().out
