"""The law of jobs: what commands say and write does not depend on how many processes and threads share the work.

With ``--jobs 1`` there is one process and one thread. A signal ends all of them at once.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.builders import offered, releases
from tests.builders.fat_conda import fat_package
from tests.builders.fatbin import ptx
from tests.builders.releases import NAME
from tests.laws.rooms import FIXTURES

from fatpack import BundleOptions, ImageFile, pack
from fatpack.exit_codes import USAGE

#: Runs command lines in an interpreter without threads of its own, each in an empty folder. All work is worth sharing
#: out, and small streams count as inflated too. Prints exit code, stdout, stderr and the written files of each, and the
#: numbers of its forks and threads.
PROGRAM = """
import contextlib, hashlib, io, json, os, pathlib, shutil, sys, threading
from fatpack import limits
limits.INFLATED_AT_ONCE = 1 << 10
from fatpack.concurrency import processes
processes.MIN_BYTES_FOR_WORKERS = 0
from fatpack.io import atomic_write
atomic_write._LEAST = 0
forks, threads = [], []
def counted(function, calls):
    def call(*arguments, **more):
        calls.append(1)
        return function(*arguments, **more)
    return call
os.fork = counted(os.fork, forks)
threading.Thread.start = counted(threading.Thread.start, threads)
from fatpack.main import main
answers = []
for line in json.load(sys.stdin):
    os.mkdir("out"); os.chdir("out")
    forks.clear(); threads.clear()
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(line)
        out.flush()
    made = {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() + oct(path.stat().st_mode)
        for path in sorted(pathlib.Path().rglob("*")) if path.is_file()
    }
    os.chdir(".."); shutil.rmtree("out")
    said = hashlib.sha256(out.buffer.getvalue()).hexdigest()
    answers.append([[code, said, err.getvalue(), made], [len(forks), len(threads)]])
json.dump(answers, sys.stdout)
"""

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "SOURCE_DATE_EPOCH": "1000000000"}

#: The lines of each heavy verb; True if three jobs share the work of these inputs among processes or threads.
LINES = {
    "inspect {many}": False,
    "inspect --kernels -v {many}": True,
    "inspect --kernels --json {trees}": True,
    "inspect --kernels --json {bundles}": True,
    "inspect --kernels --json {hosted}": True,
    "inspect --rows csv --digests {hosted}": True,
    "inspect --verify --json {bundle}": False,
    "inspect --by arch {trees}": True,
    "inspect --rows csv --digests {trees}": True,
    "inspect --rows jsonl --rows-of kernels {many}": True,
    "inspect --rows csv --digests {bundles}": True,
    "report --markdown {many}": True,
    "report -o report.html {wheel}": True,
    "report -o - {trees}": True,
    "doctor --json {many}": True,
    "doctor {trees}": True,
    "doctor --json {bundles}": True,
    "doctor --json {hosted}": True,
    "doctor --json {hosts}": True,
    "check --require sm_80 {trees}": True,
    "check --json --registered --require sm_100,gfx942 {trees}": True,
    "explain --device sm_90 {wheel}": True,
    "explain --json --device gfx90a {trees}": True,
    "diff {wheel} {newer}": True,
    "diff --json --kernels {many} {fewer}": True,
    "slim {wheel} --for sm_80 --recompress zstd -d .": True,
    "slim {many} --for sm_80 -o slim.fatbin": True,
    "slim {trees} --for sm_80,gfx90a -d . --json": True,
    "slim {packed} --drop sm_75 -o slim.so": False,
    "split {wheel} -d .": True,
    "split {conda} -d .": True,
    "extract {whole} -d .": True,
    "extract {trees} -d .": True,
    "convert {whole} --format bundle --compress --lossy -o new": True,
    "convert {packed} --container 0 --format fatbin --compress-all --lossy -o new": True,
    "pack {pair} --format fatbin --compress-all -o new": True,
    "remove {packed} --arch sm_75 -o new": False,
    "replace {bundle} {ptx} --container 0 --index 1 --force -o new": False,
    "normalize {packed} -o new": True,
    "map {packed} --form cubin -d . -- cp {{in}} {{out}}": True,
}

COMPRESSED = ("fatpack-v1-zlib", "fatpack-v3-zlib", "llvm-22-v2-zstd", "llvm-22-v3-zstd")

#: lines that read images, up to some number of bytes: what is left out depends on the number of processes as little
LIMITED = (
    "inspect --kernels --json {input}",
    "inspect --rows csv --digests {input}",
    "inspect --runtime --json {input}",
    "report --markdown {input}",
    "doctor --json {input}",
    "check --json --registered {input}",
    "diff --json {input} {fewer}",
)

#: A command whose workers say that they are there, and then take longer than any test.
STUCK = """
import os, sys, time
from fatpack.concurrency import processes
processes.MIN_BYTES_FOR_WORKERS = 0
fork = os.fork
def stuck():
    process = fork()
    if not process:
        os.write(1, b"+")
        time.sleep(600)
    return process
os.fork = stuck
from fatpack.main import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return files, a folder and packages with device code in many places, some of it damaged."""
    folder = tmp_path_factory.mktemp("inputs")
    parts = [path.read_bytes() for path in sorted((FIXTURES / "cuda_fatbin" / "recorded").glob("v1*.fatbin"))]
    damaged = bytearray(parts[0])
    damaged[-200:-100] = b"\xff" * 100
    made = {
        "many": "many.fatbin",
        "fewer": "fewer.fatbin",
        "packed": "packed.so",
        "bundles": "bundles.hipfb",
        "hosted": "hosted.hipfb",
        "ptx": "k.ptx",
        "whole": "whole.fatbin",
    }
    bundle = FIXTURES / "clang_bundle" / "fatpack-v1-zstd.bundle"
    made |= {"bundle": bundle.name, "newer": f"newer/{NAME}.whl", "trees": "trees", "wheel": f"{NAME}.whl"}
    (folder / "newer").mkdir()
    (folder / made["whole"]).write_bytes(offered.cuda("75 80 90 p90 zstd"))
    (folder / made["bundles"]).write_bytes(_bundles(folder / made["whole"]))
    (folder / made["hosted"]).write_bytes(_with_host(FIXTURES / "elf" / "clang-22-hip.o") * 5)
    (folder / made["many"]).write_bytes(b"".join([*parts, bytes(damaged), *parts]))
    (folder / made["fewer"]).write_bytes(b"".join(parts[1:]))
    (folder / made["packed"]).write_bytes(releases.library("75 80 90 zstd", "75 80 p90 lz4", "75 80 p90"))
    (folder / made["ptx"]).write_bytes(ptx(".visible .entry k() { ret; }\n" + "// more\n" * 5000, "8.0", "sm_80"))
    libraries = {"demo/a.so": releases.library("75 80 90 p90"), "demo/b.so": releases.library("75 80 zstd", "80 p90")}
    (folder / made["wheel"]).write_bytes(releases.wheel("75 80 90 p90", "80 90", more=libraries))
    (folder / made["newer"]).write_bytes(
        releases.wheel("80 90 100", "80 90", more={"demo/a.so": libraries["demo/b.so"]})
    )
    conda = fat_package(folder, "75 80 90 p90", more={"lib/libmore.so": libraries["demo/b.so"]})
    shutil.copy(bundle, folder)
    for room in ("elf", "clang_bundle", "archive"):
        shutil.copytree(FIXTURES / room, folder / "trees" / room)
    shutil.copy(folder / made["many"], folder / "trees")
    shutil.copy(folder / made["wheel"], folder / "trees")
    pair = " ".join(f"--image=file={folder / made['ptx']},check=no,arch=compute_{arch}" for arch in (80, 90))
    paths = {name: str(folder / path) for name, path in made.items()}
    return {**paths, "conda": str(conda), "pair": pair, "hosts": str(FIXTURES / "cuda_fatbin" / "hosts")}


def _bundles(fat: Path) -> bytes:
    """Return compressed bundles one after the other: one is damaged, one has a fat binary among its images."""
    into = io.BytesIO()
    item = ImageFile(fat, triple="amdgcn-amd-amdhsa", arch="gfx90a", offload="hip")
    with pytest.warns(UserWarning, match="the image is a fat binary"):
        pack([item], into, options=BundleOptions(compression="zstd"))
    found = [(FIXTURES / "clang_bundle" / f"{name}.bundle").read_bytes() for name in COMPRESSED]
    damaged = bytearray(found[0])
    damaged[-40:-30] = b"\xff" * 10
    parts = [*found, bytes(damaged), into.getvalue(), *found]
    return b"".join(part + bytes(-len(part) % 4096) for part in parts)


def _with_host(path: Path) -> bytes:
    """Return a compressed bundle with an object for the host, parts of which are not searched."""
    into = io.BytesIO()
    host = ImageFile(path, triple="x86_64-unknown-linux-gnu", offload="host")
    device = ImageFile(offered.code_object("gfx90a"), triple="amdgcn-amd-amdhsa", arch="gfx90a", offload="hip")
    pack([host, device], into, options=BundleOptions(compression="zstd"))
    return into.getvalue() + bytes(-len(into.getvalue()) % 4096)


def answers(lines: list[list[str]], jobs: int, folder: Path) -> list[Any]:
    """Return what lines say and write with a number of jobs, and how many forks and threads each took."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps([[words[0], "--jobs", str(jobs), *words[1:]] for words in lines]),
        cwd=folder,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("most", [1000, 30_000, 100_000, 300_000])
def test_limits_on_inflated_bytes_leave_out_the_same(most: int, inputs: dict[str, str], tmp_path: Path) -> None:
    names = ("many", "bundles", "hosted", "hosts", "packed")
    lines = [
        [*line.format(**{**inputs, "input": inputs[name]}).split(), "--max-inflated", str(most)]
        for line in LIMITED
        for name in names
    ]
    alone, shared = answers(lines, 1, tmp_path), answers(lines, 3, tmp_path)
    for line, (one, _), (three, _) in zip(lines, alone, shared, strict=True):
        assert three == one, line
        assert one[0] != USAGE, line


@pytest.mark.parametrize("verb", sorted({line.partition(" ")[0] for line in LINES}))
def test_any_number_of_jobs_says_and_writes_the_same(verb: str, inputs: dict[str, str], tmp_path: Path) -> None:
    lines = [line for line in LINES if line.partition(" ")[0] == verb]
    words = [line.format(**inputs).split() for line in lines]
    alone, shared = answers(words, 1, tmp_path), answers(words, 3, tmp_path)
    for line, (one, effort), (three, _) in zip(lines, alone, shared, strict=True):
        assert three == one, line
        assert one[0] != USAGE, line
        assert effort == [0, 0], line
    assert [any(more) for _, more in shared] == [LINES[line] for line in lines]


def _hear_signals() -> None:
    """Hear the signals that whoever runs the tests ignores."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(
    "line",
    [
        "report -o report.html {wheel}",
        "doctor {trees}",
        "check --require sm_80 {trees}",
        "explain --device sm_90 {wheel}",
        "diff {wheel} {newer}",
        "split {wheel} -d .",
        "split {conda} -d .",
        "normalize {packed} -o new",
    ],
    ids=lambda text: text.replace(" ", "_"),
)
def test_a_signal_ends_all_processes_and_leaves_no_file(
    line: str, name: str, inputs: dict[str, str], tmp_path: Path
) -> None:
    words = line.format(**inputs).split()
    number = getattr(signal, name)
    process = subprocess.Popen(
        [sys.executable, "-c", STUCK, words[0], "--jobs", "3", *words[1:]],
        cwd=tmp_path,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=_hear_signals,  # noqa: PLW1509  (it takes no lock)
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == b"+"
    process.send_signal(number)
    # The pipe ends when all its writers are gone: no worker is left.
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (128 + number, b"")
    assert list(tmp_path.rglob("*")) == []
