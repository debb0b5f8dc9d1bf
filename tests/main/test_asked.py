"""Completions on TAB, requested as the scripts of shells request them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fatpack.commands import COMMANDS, load_command
from fatpack.main.click_app import click_group
from fatpack.main.completion import Zsh
from fatpack.tools import TOOLS
from fatpack.tools.versions import FOLLOWED


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files and a folder, and a `fatpack` to run in ``bin``."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "fatpack"
    program.write_text(f"#!{sys.executable}\nimport sys\nfrom fatpack.main import main\nsys.exit(main())\n")
    program.chmod(0o755)
    for name in ("one.o", "one.a", "two words.o"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "images").mkdir()
    (tmp_path / "place").mkdir()
    for name in ("cuobjdump", "fatbinary-13.5"):
        (tmp_path / "place" / name).symlink_to(program)
    (tmp_path / "place" / "fatbinary").touch()
    return tmp_path


def environment(folder: Path, **more: str) -> dict[str, str]:
    path = [str(folder / "bin"), "/usr/bin", "/bin"]
    return {"PATH": ":".join(path), "PYTHONPATH": ":".join(filter(None, sys.path)), "HOME": str(folder), **more}


def answer(folder: Path, *words: str) -> list[str]:
    """Return what a script is answered for the last word of a command line: kinds and values, without descriptions."""
    done = subprocess.run(
        ["fatpack", *words],
        cwd=folder,
        env=environment(folder, _FATPACK_COMPLETE="zsh_complete"),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [",".join(line.split("\t")[:2]) for line in done.stdout.splitlines()]


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
        (("check", "one.o", "--require", "sm_80,sm_90"), ["sm_80,sm_90", "sm_80,sm_90a"]),
        (("check", "one.o", "--require", "sm_80,@torch-2.1"), ["sm_80,@torch-2.12-cu129", "sm_80,@torch-2.13-cu129"]),
        (("check", "one.o", "--forbid", "sm_90"), ["sm_90", "sm_90a"]),
        (("inspect", "one.o", "--limit", "imag"), ["images=", "image-sections=", "image-section-size="]),
        (("explain", "one.o", "--env", "HSA_X"), ["HSA_XNACK="]),
        (("pack", "--image", ""), ["file=", "triple=", "arch=", "kind=", "id="]),
        (("pack", "--image", "file=a,ar"), ["file=a,arch="]),
        (("pack", "--image", "file=a,arch=sm_90"), ["file=a,arch=sm_90", "file=a,arch=sm_90a"]),
        (("wrap", "--host-triple", "aa"), ["aarch64-unknown-linux-gnu"]),
        (("convert", "one.o", "--include-ptx", "n"), ["none", "newest"]),
        (("explain", "one.o", "--device", "this"), ["this-machine"]),
        (("explain", "one.o", "--device", "compute_9"), []),
        (("slim", "one.o", "--for", "gfx9-"), []),
        (("explain", "one.o", "--device", "xe-b"), ["xe-bmg-g21"]),
        (("check", "one.o", "--require", "compute_90"), ["compute_90", "compute_90a"]),
        (("slim", "one.o", "--for=this"), ["--for=this-machine"]),
        (("map", "one.o", "--set-arch", "sm_90"), ["sm_90", "sm_90a"]),
        (("tool", "--as", ""), list(dict.fromkeys(word for each in FOLLOWED.values() for word in each.known))),
        (("tool", "--as=13.0", ""), [name for name, each in FOLLOWED.items() if "13.0" in each.known]),
        (("tool", "--as", "23", "llvm-off"), ["llvm-offload-binary", "llvm-offload-wrapper"]),
        (("tool", "clang-offload-bundler", "--un"), ["--unbundle"]),
        (("tool", "fatbinary-13.5", "--compress-m"), ["--compress-mode"]),
        (("tool", "/in/cuobjdump", "-le"), ["-lelf"]),
        (("tool", "--install", "in", "fat"), ["fatbinary", "fatbinary-13.0", "fatbinary-13.5"]),
        (("tool", "--uninstall", "place", ""), ["cuobjdump", "fatbinary-13.5"]),
        (("tool", "--uninstall", "nowhere", ""), []),
        (("help", "ins"), ["inspect"]),
        (("help", "tool", "nv"), ["nvprune"]),
        (("help", "inspect", "ins"), []),
    ],
    ids=" ".join,
)
def test_known_words_are_offered(folder: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert answer(folder, *words) == [f"plain,{word}" for word in expected]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("inspect", "--by=a"), ["--by=arch"]),
        (("inspect", "--by="), ["--by=arch", "--by=form", "--by=kernel", "--by=file"]),
        (("pack", "--format=fat"), ["--format=fatbin"]),
        (("extract", "one.o", "--arch=sm_80,sm_90"), ["--arch=sm_80,sm_90", "--arch=sm_80,sm_90a"]),
        (("tool", "--as=23", "llvm-offload-b"), ["llvm-offload-binary"]),
        (("tool", "--as=2"), ["--as=22", "--as=23"]),
        (("check", "--require=sm_90"), ["--require=sm_90", "--require=sm_90a"]),
        (("pack", "--image=kind=hi"), ["--image=kind=hip"]),
    ],
    ids=" ".join,
)
def test_values_after_an_equals_sign_are_offered(folder: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert answer(folder, *words) == [f"plain,{word}" for word in expected]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("clang-offload-bundler", "--type=h"), ["--type=hipi"]),
        (("clang-offload-bundler", "-type", "b"), ["bc"]),
        (("clang-offload-packager", "--image=file=x,ki"), ["--image=file=x,kind="]),
        (("llvm-offload-wrapper", "--kind", "s"), ["sycl"]),
        (("clang-offload-wrapper", "-format=ll"), ["-format=llvmbc"]),
        (("llvm-readobj", "--elf-output-style=J"), ["--elf-output-style=JSON"]),
        (("fatbinary-13.5", "--image3=kind=p"), ["--image3=kind=ptx"]),
        (("fatbinary", "--image3=kind=elf,sm=90"), ["--image3=kind=elf,sm=90", "--image3=kind=elf,sm=90a"]),
        (("fatbinary", "-compress-mode", "s"), ["speed", "size"]),
        (("nvprune", "-gencode", "arch=compute_90,code=sm_89"), ["arch=compute_90,code=sm_89"]),
        (("cuobjdump", "one.o", "-arch", "sm_121"), ["sm_121", "sm_121a", "sm_121f"]),
    ],
    ids=" ".join,
)
def test_values_of_stand_ins_are_offered(folder: Path, words: tuple[str, ...], expected: list[str]) -> None:
    assert answer(folder, "tool", *words) == [f"plain,{word}" for word in expected]


def test_other_values_of_stand_ins_are_files(folder: Path) -> None:
    assert answer(folder, "tool", "fatbinary", "--create=on") == ["file,on"]
    assert answer(folder, "tool", "fatbinary", "--image3=kind=elf,file=on") == ["file,on"]
    assert answer(folder, "tool", "clang-offload-bundler", "-input=on") == ["file,on"]
    assert answer(folder, "tool", "clang-offload-bundler", "--input", "on") == ["file,on"]


def test_a_file_after_an_equals_sign_is_left_to_the_shell(folder: Path) -> None:
    assert answer(folder, "pack", "--host=on") == ["file,on"]
    assert answer(folder, "pack", "--image=arch=sm_80,file=on") == ["file,on"]
    assert answer(folder, "pack", "--image", "file=on") == ["file,on"]


def test_options_are_offered_until_they_are_used(folder: Path) -> None:
    offered = answer(folder, "extract", "one.o", "--arch", "sm_90", "-f", "--")
    assert {"plain,--arch", "plain,--directory", "plain,--help"} <= set(offered), "--arch is repeatable"
    assert "plain,--force" not in offered
    assert answer(folder, "extract", "--", "--") == ["file,--"]


def test_placing_takes_a_folder_and_then_names(folder: Path) -> None:
    assert answer(folder, "tool", "--install", "") == ["dir,"]
    assert answer(folder, "tool", "--install", "in", "fatbinary", "cu") == ["plain,cuobjdump"]


def test_every_option_of_every_command_is_offered() -> None:
    for name in COMMANDS:
        offered = {item.value for item in Zsh(click_group, {}, "fatpack", "").get_completions([name], "-")}
        wanted = {each for option in load_command(name).options for each in option.opts if each.startswith("--")}
        assert wanted <= offered, name


@pytest.mark.parametrize(
    "words", [("bogus", ""), ("inspect", "--bogus", ""), ("inspect", "--at", "x", "")], ids=" ".join
)
def test_a_mistake_in_the_line_prints_nothing(folder: Path, words: tuple[str, ...]) -> None:
    answer(folder, *words)
