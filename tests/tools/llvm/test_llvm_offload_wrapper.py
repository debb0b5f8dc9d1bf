"""The stand-in against llvm-offload-wrapper 22 and 23: same messages and exit codes, and the same modules."""

from __future__ import annotations

import io
import os
import random
import subprocess
from pathlib import Path

import pytest
from tests.effort import some
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool

import fatpack
from fatpack.main import main

NAME = "llvm-offload-wrapper"
VERSIONS = ["22", "23"]


def _binary(*images: bytes) -> bytes:
    """Return an offload binary for each image, one behind the other, as LLVM 22 packs them."""
    output = io.BytesIO()
    for image in images:
        fatpack.pack([fatpack.ImageFile(image, triple="spirv64", arch="a", offload="openmp", name="a.o")], output)
    return output.getvalue()


ONE, FOUR = _binary(b"first"), _binary(b"1", b"22", b"333", b"4444")

FILES = {
    "one.bin": ONE,
    "two.bin": _binary(b"second"),
    "fat.fatbin": (FIXTURES / "cuda_fatbin" / "v130_size.fatbin").read_bytes(),
    "hip.bundle": (FIXTURES / "clang_bundle" / "llvm-22-hip.bundle").read_bytes(),
    "rubbish": b'any "bytes"\\\n\0\xff',
    "empty": b"",
}
WORDS = [*FILES, *FILES, "missing", ".", "--", "-h", "--foo", "--kind", "--relocatable"]
OPTIONS = [
    *(f"--kind={kind}" for kind in ("openmp", "openmp", "cuda", "hip", "sycl", "bogus", "", "CUDA")),
    "-kind=cuda",
    "--kind=hip",
    "-o=out.bc",
    "--o=out.bc",
    "-oout.bc",
    "-o=nowhere/out.bc",
    "-o=",
    "-o=-",
    "--triple=x86_64-unknown-linux-gnu",
    "--triple=aarch64-unknown-linux-gnu",
    "--triple=x86_64-pc-windows-msvc",
    "--help-list",
    "--triple",
    "--knd=cuda",
    "@response",
]


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    made = tmp_path / "theirs", tmp_path / "ours"
    for folder in made:
        folder.mkdir()
        for name, content in FILES.items():
            (folder / name).write_bytes(content)
        (folder / "response").write_text("--kind=openmp -o out.bc")
    return made


def _line(source: random.Random) -> list[str]:
    """Return a command line; most say all that is needed."""
    line = [source.choice(OPTIONS) for _ in range(source.randrange(4))]
    line += [source.choice(WORDS) for _ in range(source.choice((1, 1, 1, 2, 3)))]
    if source.random() < 0.7:
        line += ["-o", "out.bc"]
    if source.random() < 0.7:
        line.insert(0, f"--kind={source.choice(('openmp', 'cuda', 'hip'))}")
    if source.random() < 0.9:  # by default it is that of the machine where the original was built
        line.insert(0, "--triple=x86_64-pc-linux-gnu")
    return line


def _printed(bitcode: Path, version: str) -> str:
    done = subprocess.run([llvm_tool("llvm-dis", version), bitcode, "-o", "-"], capture_output=True, check=True)
    return done.stdout.decode().partition("\n")[2]


def _assembled(text: bytes, folder: Path, version: str) -> str:
    made = folder.parent / "ours.bc"
    subprocess.run([llvm_tool("llvm-as", version), "-", "-o", made], input=text, check=True)
    return _printed(made, version)


def _without_doubts(text: str) -> str:
    """Return messages without what only the stand-in says: that a runtime cannot load a file."""
    return "".join(line for line in text.splitlines(keepends=True) if ": warning: " not in line)


def _compare(
    line: list[str], version: str, folders: tuple[Path, Path], capfd: pytest.CaptureFixture[str], skip_module: bool
) -> bool:
    """Compare both tools on a command line; return whether they wrote a module."""
    theirs, ours = folders
    real = llvm_tool(NAME, version)
    done = subprocess.run([real, *line], cwd=theirs, capture_output=True, stdin=subprocess.DEVNULL)
    os.chdir(ours)
    code = main(["tool", f"--as={version}", real, *line])
    streams = capfd.readouterr()
    assert (code, _without_doubts(streams.err)) == (done.returncode, done.stderr.decode()), line
    names = [{path.name for path in folder.iterdir()} for folder in folders]
    assert names[0] == names[1], line
    made = names[0] - FILES.keys() - {"response"}
    for name in made:
        if not skip_module:
            assert _assembled((ours / name).read_bytes(), ours, version) == _printed(theirs / name, version), line
        (ours / name).unlink()
        (theirs / name).unlink()
    if done.stdout[:2] == b"BC":
        (theirs.parent / "theirs.bc").write_bytes(done.stdout)
        assert _assembled(streams.out.encode(), ours, version) == _printed(theirs.parent / "theirs.bc", version)
    else:
        assert streams.out == done.stdout.decode(), line
    return bool(made)


def _sweep(count: int, version: str, folders: tuple[Path, Path], capfd: pytest.CaptureFixture[str]) -> None:
    source = random.Random(7)
    written = 0
    for _ in range(count):
        line = _line(source)
        written += _compare(line, version, folders, capfd, not any(word.startswith("--triple=") for word in line))
    assert written > count // 20


@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
def test_command_lines_are_answered_as_llvm_does(
    version: str, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folders[1])
    _sweep(len(some(range(60))), version, folders, capfd)


@pytest.mark.reference
@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_hundreds_of_command_lines_are_answered_as_llvm_does(
    version: str, folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folders[1])
    _sweep(200, version, folders, capfd)


@pytest.mark.reference
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("line", [["--help"], ["--help-list"], ["-h", "--kind=cuda", "x"], ["--foo", "--help"], []])
def test_the_help_is_that_of_llvm(version: str, line: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    real = llvm_tool(NAME, version)
    done = subprocess.run([real, *line], capture_output=True, text=True)
    assert main(["tool", f"--as={version}", real, *line]) == done.returncode
    assert capfd.readouterr() == (done.stdout, done.stderr)


def _ir(tmp_path: Path, *arguments: str | Path, version: str = "22") -> str:
    output = tmp_path / "out.ll"
    words = [f"--as={version}", NAME, "--triple=x86_64-unknown-linux-gnu", "-o", output, *arguments]
    assert main(["tool", *map(str, words)]) == 0
    return output.read_text()


def test_all_images_of_an_offload_binary_are_registered(tmp_path: Path) -> None:
    """LLVM registers the first."""
    (tmp_path / "four").write_bytes(FOUR)
    assert "[4 x %__tgt_device_image]" in _ir(tmp_path, "--kind=openmp", tmp_path / "four")


def test_an_image_for_another_runtime_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cuda = FIXTURES / "offload_binary" / "llvm-22-one.bin"
    assert main(["tool", NAME, "--kind=openmp", "-o", str(tmp_path / "out"), str(cuda)]) == 1
    assert "image 0 is for cuda, not for openmp" in capsys.readouterr().err


def test_what_a_runtime_cannot_load_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_bytes(b"hello")
    assert 'c"hello"' in _ir(tmp_path, "--kind=cuda", tmp_path / "x")
    assert "warning: " in (said := capsys.readouterr().err) and "is no cuda-fatbin, which cuda's runtime takes" in said


def test_a_damaged_offload_binary_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """LLVM reads what happens to be behind the file."""
    (tmp_path / "cut").write_bytes(ONE[:40])
    assert main(["tool", NAME, "--kind=openmp", "-o", str(tmp_path / "out"), str(tmp_path / "cut")]) == 1
    assert "at 0x8: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
