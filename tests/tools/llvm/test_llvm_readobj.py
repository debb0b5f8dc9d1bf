"""The stand-in against llvm-readobj 22 and 23: what ``--offloading`` lists, and what is handed over."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, run
from tests.tools.llvm.test_llvm_objdump import FILES

from fatpack.main import main

NAME = "llvm-readobj"
VERSIONS = ["22", "23"]

LINES = [
    ["--offloading", *(name for name in FILES if name not in ("four.bin", "nested.bin", "hip.bundle", "module.bc"))],
    ["--offloading", "mixed.a", "packed.o", "twice.o"],
    ["--offloading", "--elf-output-style=LLVM", "./hip.o"],
    ["--elf-output-style", "JSON", "omp.o", "lib.so", "--offloading"],
    ["--offloading", "--elf-output-style=JSON", "--pretty-print", "plain.o"],
    ["--offloading", "missing", "hip.o"],
    ["--offloading", "omp.o", "", "hip.o"],
    ["@response"],
    ["--offloading", "@nowhere", "omp.o"],
    ["--offloading", "hip.o", "missing"],
    ["--offloading", "."],
    ["--offloading", "empty"],
    ["--offloading", "text", "hip.o"],
    ["--offloading", "hip.bundle"],
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
    run("llvm-ar", "rc", "mixed.a", "text", "omp.o", "hip.o", "plain.o", cwd=folder)
    bundles = FIXTURES / "clang_bundle"
    plain = (bundles / "llvm-22-hip.bundle").read_bytes()
    (folder / "two").write_bytes(plain + plain)
    packed = bundles / "llvm-22-v2-zstd.bundle"
    run("llvm-objcopy", f"--add-section=.hip_fatbin={packed}", "plain.o", "packed.o", cwd=folder)
    run("llvm-objcopy", "--add-section=.hip_fatbin=two", "plain.o", "twice.o", cwd=folder)
    return folder


@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("line", LINES, ids=" ".join)
def test_offloading_lists_what_llvm_does(
    version: str, line: list[str], files: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(files)
    real = llvm_tool(NAME, version)
    done = subprocess.run([real, *line], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    code = main(["tool", f"--as={version}", real, *line])
    assert (code, *capfd.readouterr()) == (done.returncode, done.stdout, done.stderr)


@pytest.mark.reference
def test_the_name_of_a_library_is_read_as_llvm_does(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    library = str(tmp_path / "lib.so")
    subprocess.run(["cc", "-shared", "-Wl,-soname,libx.so.1", "-o", library, "-x", "c", "/dev/null"], check=True)
    done = run(NAME, "--offloading", library)
    assert main(["tool", NAME, "--offloading", library]) == 0
    assert capfd.readouterr().out == done.stdout.decode()
    assert b"LoadName: libx.so.1\n" in done.stdout


def test_json_holds_the_entries(capsys: pytest.CaptureFixture[str]) -> None:
    """LLVM prints them as text before the document, which is none then."""
    path = str(FIXTURES / "elf" / "clang-22-hip.o")
    assert main(["tool", NAME, "--offloading", "--elf-output-style=JSON", path]) == 0
    (document,) = json.loads(capsys.readouterr().out)
    assert document["FileSummary"]["Format"] == "elf64-x86-64"
    content = Path(path).read_bytes()
    for entry in document["Offloading"]:
        offset, size = (int(word.partition("=")[2]) for word in entry["URI"].partition("#")[2].split("&"))
        assert not size or content[offset : offset + 4] == b"\x7fELF", entry
    assert [entry["ID"] for entry in document["Offloading"]][1:] == [
        "hipv4-amdgcn-amd-amdhsa--gfx1100",
        "hipv4-amdgcn-amd-amdhsa--gfx90a",
    ]


def test_an_offload_binary_is_refused_with_what_lists_it(capsys: pytest.CaptureFixture[str]) -> None:
    """LLVM crashes."""
    assert main(["tool", NAME, "--offloading", str(FIXTURES / "offload_binary" / "llvm-22-four.bin")]) == 1
    assert "an offload binary, which llvm-objdump --offloading lists" in capsys.readouterr().err
