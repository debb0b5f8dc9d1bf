"""The stand-in against llvm-objdump 22 and 23: what ``--offloading`` prints and writes, and what is handed over."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, run

from fatpack.main import main

NAME = "llvm-objdump"
VERSIONS = ["22", "23"]

FILES = {
    "omp.o": "elf/clang-22-openmp-gfx90a.o",
    "arm.o": "elf/clang-22-openmp-gfx90a-aarch64.o",
    "hip.o": "elf/clang-22-hip.o",
    "rdc.o": "elf/clang-22-hip-rdc-bundler.o",
    "lib.so": "elf/lld-22-sycl.so",
    "plain.o": "cuda_fatbin/hosts/single.o",
    "win.obj": "coff/clang-22-x86_64.obj",
    "four.bin": "offload_binary/llvm-22-four.bin",
    "nested.bin": "offload_binary/llvm-23-nested.bin",
    "lib.a": "archive/llvm-22-gnu.a",
    "bsd.a": "archive/llvm-22-bsd.a",
    "win.lib": "archive/llvm-22-coff.lib",
    "mac.o": "macho/llvm-22-offload-i386.o",
    "arm64.o": "macho/clang-23-hip-arm64.o",
    "hip.bundle": "clang_bundle/llvm-22-hip.bundle",
    "module.bc": "bitcode/clang-22.bc",
}

LINES = [
    ["--offloading", *(name for name in FILES if name not in ("nested.bin", "hip.bundle", "module.bc"))],
    ["--offloading", "wasm.o"],
    ["--offloading", "mixed.a"],
    ["--offloading", "--offloading", "./omp.o"],
    ["--offloading", "folder/hip.o"],
    ["--offloading", "packed.o", "twice.o"],
    ["--offloading", "missing", "omp.o"],
    ["--offloading", "omp.o", "", "hip.o"],
    ["@response"],
    ["--offloading", "@nowhere", "omp.o"],
    ["omp.o", "missing", "--offloading"],
    ["--offloading", "."],
    ["--offloading", "empty"],
    ["--offloading", "text"],
    ["--offloading", "hip.bundle"],
    ["--offloading", "module.bc"],
    ["--offloading", "cut.bin"],
    ["--offloading"],
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, fixture in FILES.items():
        shutil.copy(FIXTURES / fixture, folder / name)
    (folder / "empty").write_bytes(b"")
    (folder / "response").write_text("--offloading 'omp.o' hip.o")
    (folder / "text").write_bytes(b"no object at all")
    (folder / "cut.bin").write_bytes((folder / "four.bin").read_bytes()[:40])
    (folder / "folder").mkdir()
    shutil.copy(folder / "hip.o", folder / "folder")
    run("llvm-ar", "rc", "mixed.a", "text", "omp.o", "hip.o", "plain.o", cwd=folder)
    bundles = FIXTURES / "clang_bundle"
    plain = (bundles / "llvm-22-hip.bundle").read_bytes()
    (folder / "two").write_bytes(plain + plain)
    (folder / "wasm.o").write_bytes(b"\0asm\1\0\0\0")
    packed = bundles / "llvm-22-v2-zstd.bundle"
    run("llvm-objcopy", f"--add-section=.hip_fatbin={packed}", "plain.o", "packed.o", cwd=folder)
    run("llvm-objcopy", "--add-section=.hip_fatbin=two", "plain.o", "twice.o", cwd=folder)
    return folder


def _made(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_offloading_prints_and_writes_what_llvm_does(
    version: str,
    line: list[str],
    files: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    theirs, ours = shutil.copytree(files, tmp_path / "theirs"), shutil.copytree(files, tmp_path / "ours")
    real = llvm_tool(NAME, version)
    done = subprocess.run([real, *line], cwd=theirs, capture_output=True, stdin=subprocess.DEVNULL)
    monkeypatch.chdir(ours)
    code = main(["tool", f"--as={version}", real, *line])
    streams = capfd.readouterr()
    assert (code, streams.err, streams.out) == (done.returncode, done.stderr.decode(), done.stdout.decode())
    made, expected = _made(ours), _made(theirs)
    if version == "22":  # which writes bytes of the object in the place of those that it inflated
        assert made.keys() == expected.keys()
        inflated = [name for name in made if name.startswith("packed.o.")]
        made, expected = ({k: v for k, v in found.items() if k not in inflated} for found in (made, expected))
    assert made == expected


@pytest.mark.reference
def test_nested_images_are_listed_as_llvm_23_does(capsys: pytest.CaptureFixture[str]) -> None:
    nested = str(FIXTURES / "offload_binary" / "llvm-23-nested.bin")
    done = subprocess.run([llvm_tool(NAME, "23"), "--offloading", nested], capture_output=True, text=True, check=True)
    assert main(["tool", "--as=23", NAME, "--offloading", nested]) == 0
    assert capsys.readouterr().out == done.stdout
    assert "OFFLOADING IMAGE [0.0]" in done.stdout


def test_arch_name_chooses_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """LLVM leaves out what matches, and writes the others."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(FIXTURES / "elf" / "clang-22-hip.o", "hip.o")
    assert main(["tool", NAME, "--offloading", "--arch-name=gfx90a", "hip.o"]) == 0
    assert [path.name for path in tmp_path.glob("hip.o.*")] == ["hip.o.0.hipv4-amdgcn-amd-amdhsa--gfx90a"]


def test_images_of_linked_windows_files_are_found(capsys: pytest.CaptureFixture[str]) -> None:
    """LLVM finds none there: the linker cut the name of their section."""
    assert main(["tool", NAME, "--offloading", str(FIXTURES / "pe" / "lld-22-x86_64.dll")]) == 0
    assert "OFFLOADING IMAGE [0]:" in capsys.readouterr().out


def _call(*arguments: str, path: str) -> subprocess.CompletedProcess[str]:
    """Run the stand-in in a process of its own, which it may leave to the original."""
    program = f"import sys; sys.path[:0] = {sys.path!r}\nfrom fatpack.main import main\nsys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-I", "-c", program, "tool", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={"PATH": path})


@pytest.mark.reference
@pytest.mark.parametrize("line", [["-f"], ["--offloading", "-f"], ["--offloadin"], ["--help"], ["--offloading", "--"]])
def test_other_options_are_left_to_the_original(line: list[str]) -> None:
    real, file = llvm_tool(NAME, "22"), str(FIXTURES / FILES["omp.o"])
    done = subprocess.run([real, *line, file], capture_output=True, text=True)
    ours = _call(NAME, *line, file, path=str(Path(real).parent))
    assert (ours.returncode, ours.stdout, ours.stderr) == (done.returncode, done.stdout, done.stderr)


def test_without_the_original_one_sentence_says_where_to_get_it(tmp_path: Path) -> None:
    ours = _call("--as=23", NAME, "-f", "x", path=str(tmp_path))
    assert (ours.returncode, ours.stdout) == (1, "")
    assert ours.stderr.startswith("llvm-objdump: error: fatpack offers --offloading") and "llvm-23" in ours.stderr


def test_a_script_that_calls_us_is_not_the_original(tmp_path: Path) -> None:
    script = tmp_path / NAME
    script.write_text(f'#!/bin/sh\nexec fatpack tool {NAME} "$@"\n')
    script.chmod(0o755)
    assert "neither beside this program nor on PATH" in _call(NAME, "-f", "x", path=str(tmp_path)).stderr


def test_a_program_that_calls_us_back_ends_there(tmp_path: Path) -> None:
    """A script that looks like the original and calls fatpack does not start an endless loop."""
    script = tmp_path / NAME
    python = tmp_path / "start.py"
    lines = (
        "import sys",
        f"sys.path[:0] = {sys.path!r}",
        "from fatpack.main import main",
        "sys.exit(main(sys.argv[1:]))",
    )
    python.write_text("\n".join(lines))
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -I {python} tool {NAME} "$@"\n')
    script.chmod(0o755)
    ours = _call(NAME, "-f", "x", path=str(tmp_path))
    assert ours.returncode == 1
    assert "neither beside this program nor on PATH" in ours.stderr
