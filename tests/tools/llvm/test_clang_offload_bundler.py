"""The stand-in against clang-offload-bundler 22: same bytes, same messages, same exit codes, same files."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.effort import some
from tests.reference import llvm_tool
from tests.tools.llvm.bundler import NAME, arguments_of, make_inputs, patched, ran

from fatpack.main import main


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_inputs(tmp_path_factory.mktemp("inputs"))


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return contents and permissions of every file below a folder."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mode) for path in found}


def settled(text: str) -> str:
    """Return what a tool printed without speeds, times and names of temporary files, which differ from run to run."""
    text = re.sub(r"===-+===\n +Timer group for .*?\n\n.*?\n\n", "", text, flags=re.S)
    text = re.sub(r"speed: [0-9.]+ MB", "speed: N MB", text)
    return re.sub(r'[^="]*clang-offload-bundler-\w+\.tmp|<temporary file>', "TEMPORARY", text)


def same_behaviour(
    arguments: list[str],
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    version: str = "22",
) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    shutil.copytree(inputs, theirs)
    shutil.copytree(inputs, ours)
    real = llvm_tool(NAME, version)
    done = subprocess.run([real, *arguments], cwd=theirs, capture_output=True, stdin=subprocess.DEVNULL)
    monkeypatch.chdir(ours)
    code = main(["tool", f"--as={version}", real, *arguments])
    streams = capfdbinary.readouterr()
    assert settled(streams.err.decode()) == settled(done.stderr.decode())
    assert streams.out == done.stdout
    assert code == done.returncode
    if done.returncode:
        # An output that the original has opened before it failed is not ours to make.
        left = {name: content for name, content in files(theirs).items() if content[0] or (inputs / name).exists()}
        assert files(ours) == left
    else:
        assert files(ours) == files(theirs)


def command_lines() -> list[str]:
    text = (Path(__file__).parent / "clang_offload_bundler.lines").read_text()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


#: What LLVM 23 does otherwise: it names the entries of every bundle before again, and believes in versions to come.
DIFFERENT_IN_23 = {"-type=a -list -input=lib.a", "-type=o -list -input=lib.a", "-type=bc -list -input=version-9.bc"}


@pytest.mark.sweep(4)
@pytest.mark.reference
@pytest.mark.parametrize(
    ("version", "line"),
    [
        *(("22", line) for line in command_lines()),
        *(("23", line) for line in command_lines() if line not in DIFFERENT_IN_23),
    ],
)
def test_the_whole_behaviour_is_that_of_llvm(
    version: str,
    line: str,
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    same_behaviour(arguments_of(line), inputs, tmp_path, monkeypatch, capfdbinary, version)


#: environment → what is compared with it
ENVIRONMENTS = [
    {"OFFLOAD_BUNDLER_COMPRESS": "1"},
    {"OFFLOAD_BUNDLER_COMPRESS": "true"},
    {"OFFLOAD_BUNDLER_COMPRESS": "1", "OFFLOAD_BUNDLER_IGNORE_ENV_VAR": "1"},
    {"OFFLOAD_BUNDLER_COMPRESS": "1", "OFFLOAD_BUNDLER_IGNORE_ENV_VAR": "yes"},
    {"OFFLOAD_BUNDLER_COMPRESS": "1", "OFFLOAD_BUNDLER_VERBOSE": "1"},
    {"OFFLOAD_BUNDLER_VERBOSE": "0"},
    {"OFFLOAD_BUNDLER_COMPRESS": "1", "OFFLOAD_BUNDLER_VERBOSE": "1", "OFFLOAD_BUNDLER_COMPRESSION_LEVEL": "9"},
    {"OFFLOAD_BUNDLER_COMPRESSION_LEVEL": "high"},
    {"OFFLOAD_BUNDLER_COMPRESSION_LEVEL": "0x3"},
    {"OFFLOAD_BUNDLER_COMPRESSION_LEVEL": ""},
    {"OFFLOAD_BUNDLER_COMPRESSION_LEVEL": "99999999999"},
    {"OFFLOAD_BUNDLER_COMPRESS": "1", "COMPRESSED_BUNDLE_FORMAT_VERSION": "2"},
    {"OFFLOAD_BUNDLER_COMPRESS": "1", "COMPRESSED_BUNDLE_FORMAT_VERSION": "03"},
    {"COMPRESSED_BUNDLE_FORMAT_VERSION": "1"},
    {"COMPRESSED_BUNDLE_FORMAT_VERSION": "4"},
    {"COMPRESSED_BUNDLE_FORMAT_VERSION": "65535"},
    {"COMPRESSED_BUNDLE_FORMAT_VERSION": "65536"},
    {"COMPRESSED_BUNDLE_FORMAT_VERSION": "-2"},
    {"COMPRESSED_BUNDLE_FORMAT_VERSION": ""},
    {"COMPRESSED_BUNDLE_FORMAT_VERSION": "x", "OFFLOAD_BUNDLER_COMPRESSION_LEVEL": "y", "OFFLOAD_BUNDLER_VERBOSE": "1"},
]


@pytest.mark.sweep(4)
@pytest.mark.reference
@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=str)
@pytest.mark.parametrize(
    "line",
    [
        "-type=bc -output=x -targets=HOST,GFX906 -input=a -input=b",
        "-type=bc -output=x -targets=HOST,GFX906 -input=a -input=b -compress=0 -verbose=0 -compression-level=1",
        "-type=bc -inputs=a -input=b",
        "-type=bc -bundle-align=x",
    ],
)
def test_the_environment_is_heard_as_llvm_hears_it(
    line: str,
    environment: dict[str, str],
    inputs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    same_behaviour(arguments_of(line), inputs, tmp_path, monkeypatch, capfdbinary)


@pytest.mark.parametrize("name", ["four.bc", "text.ii", "packed.bc", "fat-elf.o", "fat-coff.o", "twice.a", "thin.a"])
@pytest.mark.reference
def test_damaged_files_are_refused_or_read(
    name: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Every cut and many flips: the exit code is 0 or 1, there is no traceback, and no output of a failure."""
    monkeypatch.chdir(tmp_path)
    data = (inputs / name).read_bytes()
    rng = random.Random(name)
    type = {"o": "o", "a": "a", "ii": "ii", "bc": "bc"}[name.rpartition(".")[2]]
    for _ in some(range(150)):
        if rng.random() < 0.3:
            damaged = data[: rng.randrange(len(data))]
        else:
            at = rng.choice([rng.randrange(len(data)), rng.randrange(min(len(data), 200))])
            damaged = patched(data, at, bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFF])]))
        Path("damaged").write_bytes(damaged)
        outputs = [Path("x"), Path("y"), Path("z")]
        lines = [
            f"-type={type} -list",
            f"-type={type} -unbundle -targets=GFX906,SM70,HOST -output=x -output=y -output=z",
        ]
        if type == "o":
            lines.append("-type=o -targets=HOST -output=x")
        for line in lines:
            code, _, error = ran(f"{line} -input=damaged", capfdbinary)
            assert code in (0, 1)
            assert "Traceback" not in error
            made = [path.exists() for path in outputs]
            assert sum(made) == (0 if code else line.count("-output"))
            for path in outputs:
                path.unlink(missing_ok=True)
