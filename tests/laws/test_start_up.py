"""The modules that a command may load: every module has to be worth its milliseconds."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import copyfile

import click
import pytest
from tests.builders import kpack_site, wheels
from tests.builders.sycl import Stored, program, spirv
from tests.reference import tool

import fatpack
from fatpack.commands import COMMANDS
from fatpack.tools import TOOLS

FIXTURES = Path(__file__).parents[1] / "fixtures"
HOST = str(FIXTURES / "demo" / "host.o")
FAT = str(FIXTURES / "elf" / "clang-22-openmp-gfx90a.o")
CONTAINER = str(FIXTURES / "offload_binary" / "llvm-22-four.bin")

FATBIN = str(FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin")
OBJECT = str(FIXTURES / "cuda_fatbin" / "hosts" / "single.o")
CUBIN = str(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin")

#: An object of HIP in the folder of a test: llvm-objdump writes beside its input.
HIP = "hip.o"

#: A program of SYCL, and a library, in the folder of a test.
SYCL, LIBRARY = "sycl.out", "libm.so"

#: A wheel in the folder of a test.
WHEEL = "demo-1.5-py3-none-any.whl"

CIR = str(FIXTURES / "cir" / "samples" / "container_attr_min.mlir")
CIR_DEFINITIONS = str(FIXTURES / "cir" / "samples" / "container_attr_2026.cir")

TABLE = str(FIXTURES / "file_table" / "images.table")

BUNDLER = ["tool", "clang-offload-bundler", "-type=o"]
BUNDLER += ["-targets=host-x86_64-unknown-linux-gnu,hipv4-amdgcn-amd-amdhsa--gfx90a"]

#: Never loaded by a command on a small file. Modules that click itself loads are no concern of ours.
HEAVY = {
    "lief",
    "elftools",
    "construct",
    "zstandard",
    "lz4",
    "logging",
    "importlib.metadata",
    "dataclasses",
    "tomllib",
    "tempfile",
    "pathlib",
    "subprocess",
    "argparse",
    "asyncio",
    "pyarrow",
    "distributed",
    "ray",
    "fsspec",
    "aiohttp",
    "fatpack.io.ranges",
    "fatpack.io.remote",
    "fatpack.io.url",
}
#: Modules that a command needs: for a vocabulary that people read and write, for processes.
NEEDED = {
    "slim": {"tomllib"},
    # packaging's tags load logging and subprocess, for the names of wheels; the library of the test has zstd.
    "split": {
        *("tomllib", "tempfile", "logging", "pathlib", "subprocess", "zstandard"),
        *("fatpack.io.ranges", "fatpack.io.url"),
    },
    "targets": {"tomllib"},
    "explain": {"tomllib"},
    "check": {"tomllib"},
    "check-stages": {"zstandard"},
    "check-kpack": {"tomllib"},
    "doctor": {"tomllib"},
    "report": {"tomllib"},
    "survey": {"subprocess", "tempfile"},
    "map": {"subprocess", "tempfile"},
}
#: Modules that commands called in loops do not load either.
TOOL_HEAVY = {"click", "re", "typing", "inspect", "json", "argparse", "shutil", "random", "hashlib"}
TOOL_HEAVY |= {"functools", "collections", "importlib", "array", "fnmatch", "math", "heapq", "threading"}
#: Modules that a stand-in needs: the text of MLIR is read by regular expressions, and windows over it.
TOOL_NEEDED = {"cir-offload-merge": {"re", "functools", "collections", "array"}}


def _loaded(*arguments: str, cwd: Path) -> set[str]:
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "from fatpack.main import main\n"
        "code = main(sys.argv[1:])\n"
        "sys.stderr.write('\\n'.join(sorted(set(sys.modules) - before)))\n"
        "sys.exit(code)\n"
    )
    command = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.splitlines())


#: For each command, a use of it with many of its options.
PLAIN = {
    "inspect": ["inspect", "-v", "--kernels", FATBIN],
    "extract": ["extract", CONTAINER, "--arch", "sm_*,gfx*", "-d", "out", "-q", "--max-inflated=1G"],
    "pack": ["pack", f"--image=file={CUBIN}", "--format=fatbin", "--compress-mode=none", "-fqo", "x.fatbin"],
    "wrap": ["wrap", FATBIN, "--kind=cuda", "--host-triple", "aarch64-linux-gnu", "-fqo", "x.o", "--as=23"],
    "convert": ["convert", CONTAINER, "--format", "bundle", "--lossy", "-qox.bin", "--limit", "nesting=9"],
    "embed": ["embed", HOST, CONTAINER, "--output=fat.o", "--quiet"],
    "remove": ["remove", FAT, "--container", "0", "-o", "-", "--dry-run"],
    "replace": ["replace", FAT, CONTAINER, "-f", "-o", "fat.o"],
    "normalize": ["normalize", FAT, "--dry-run", "-q"],
    "map": ["map", CONTAINER, "--arch=sm_*", "--replace", "-qo", "x.bin", "--", "/bin/cp", "{in}", "{out}"],
    "slim": ["slim", FATBIN, "--for", "sm_90", "--allow-empty", "-o", "slim.fatbin", "-qf"],
    "split": ["split", WHEEL, "--by", "sm_80,hopper=sm_90", "--dry-run"],
    "link-inputs": ["link-inputs", FAT, "-L", "lib", "--whole-archive", FAT, "-qd", "out", "--llvm=22"],
    "explain": ["explain", FATBIN, "--device", "sm_90", "--cuda", "13.0", "-v"],
    "targets": ["targets", "sm_90a", "--runs-on"],
    "check": ["check", FATBIN, "--require", "sm_80", "--per", "library", "-v"],
    "check-stages": ["check-stages", "k.fatbin", OBJECT, "-v"],
    "check-kpack": ["check-kpack", "installed", "--device", "gfx90a:xnack-", "-v"],
    "doctor": ["doctor", FATBIN, "-v"],
    "diff": ["diff", CONTAINER, CONTAINER, "--kernels", "-v"],
    "report": ["report", FATBIN, "-o", "report.html", "--exclude=*.py", "-q"],
    "survey": ["survey", CONTAINER, "-o", "out", "--format=jsonl", "--workers=1", "-q"],
    "tool": ["tool", "llvm-offload-binary", CONTAINER, "--image=file=x"],
    "completion": ["completion", "zsh"],
    "help": ["help", "inspect"],
}


def test_every_command_has_a_plain_use() -> None:
    assert PLAIN.keys() == COMMANDS.keys(), "PLAIN lists a use of every command"


@pytest.mark.parametrize("arguments", [*PLAIN.values(), *([name, "--help"] for name in PLAIN)], ids=" ".join)
def test_commands_load_no_heavy_module(arguments: list[str], tmp_path: Path) -> None:
    if arguments[0] == "check-kpack":
        kpack_site.sound(tmp_path / "installed")
    if arguments[0] == "split":
        library = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()
        (tmp_path / WHEEL).write_bytes(wheels.wheel({"demo/libtwo.so": library}))
    with fatpack.open(OBJECT) as file:
        (tmp_path / "k.fatbin").write_bytes(file.containers[0].view.tobytes())
    heavy = _loaded(*arguments, cwd=tmp_path) & (HEAVY - NEEDED.get(arguments[0], set()))
    assert not heavy, _advice(arguments, heavy)


def _advice(arguments: Sequence[str], loaded: set[str]) -> str:
    return (
        f"fatpack {' '.join(arguments[:2])} loads {sorted(loaded)}, which costs more than this command does: import it "
        f"in the function that needs it. python -X importtime shows who imports it; docs/design/start-up.md says why."
    )


#: Commands that builds call in loops: one or more uses of each stand-in, by a name for the test.
LOOPED = {
    "version": ["--version"],
    "tool-extract": ["tool", "llvm-offload-binary", CONTAINER, "--image=file=x"],
    "tool-pack": ["tool", "llvm-offload-binary", "-o", "y", f"--image=file={CONTAINER},triple=t"],
    "tool-pack-old": ["tool", "clang-offload-packager", "-o", "y", f"--image=file={CONTAINER},triple=t"],
    "tool-version": ["tool", "clang-offload-bundler", "--version"],
    "tool-list": ["tool", "clang-offload-bundler", "-type=o", "-list", f"-input={CONTAINER}"],
    "tool-bundle": [*BUNDLER, "-input=/dev/null", f"-input={CONTAINER}", "-output=y", "-bundle-align=4096"],
    "tool-unbundle": [
        *(*BUNDLER, "-unbundle", f"-input={CONTAINER}", "-output=y", "-output=z", "-allow-missing-bundles"),
    ],
    "tool-objdump": ["tool", "llvm-objdump", "--offloading", FAT],
    "tool-readobj": ["tool", "llvm-readobj", "--offloading", FAT],
    "tool-objdump-hip": ["tool", "llvm-objdump", "--offloading", HIP],
    "tool-readobj-hip": ["tool", "llvm-readobj", "--offloading", HIP],
    "tool-list-hip": ["tool", "roc-obj-ls", HIP],
    "tool-extract-hip": ["tool", "roc-obj-extract", "-o", ".", f"file://{HIP}#offset=0&size=64"],
    "tool-extract-all-hip": ["tool", "roc-obj", "-o", "out", HIP],
    "tool-prune": ["tool", "nvprune", "-arch", "sm_80", "-o", "y", OBJECT],
    "tool-wrap": ["tool", "llvm-offload-wrapper", "--kind=cuda", "-o", "y", FATBIN],
    "tool-wrap-old": ["tool", "clang-offload-wrapper", "-target=x86_64", "-o", "y", CUBIN],
    "tool-wrap-dpcpp": ["tool", "clang-offload-wrapper", "-kind=sycl", "-host=x86_64", "-o", "y", CUBIN],
    "tool-link": ["tool", "clang-linker-wrapper", "--dry-run", "--linker-path=ld", FAT, "-L.", "-lm", "-o", "y"],
    "tool-extract-sycl": ["tool", "clang-offload-extract", SYCL],
    "tool-split": [
        *("tool", "cir-offload-merge", "-split", f"-input={CIR}", "-output=y", "-output=z"),
        "-targets=host-x86_64-unknown-linux-gnu,cuda-nvptx64-nvidia-cuda--sm_80",
    ],
    "tool-write-fatbin": ["tool", "fatbinary", "--create=y", f"--image3=kind=elf,sm=80,file={CUBIN}"],
    "tool-list-fatbin": ["tool", "cuobjdump", "-lelf", OBJECT],
    "tool-dump-fatbin": ["tool", "cuobjdump", "-res-usage", "-symbols", FATBIN],
    "tool-table": ["tool", "file-table-tform", "-extract=Code", "-o", "y", TABLE],
    "tool-foreach": [
        *("tool", "llvm-foreach", f"--in-file-list={TABLE}", "--in-replace={}", "--out-file-list=y", "--"),
        *("true", "{}"),
    ],
    "tool-deps": ["tool", "clang-offload-deps", "-targets=sycl-spir64", "-outputs=y", FAT],
}


def test_every_stand_in_has_a_plain_use() -> None:
    used = {words[1] for words in LOOPED.values() if words[0] == "tool"}
    assert used == TOOLS.keys(), "LOOPED lists a use of every stand-in: builds call each of them in loops"


def _inputs_of_stand_ins(folder: Path) -> None:
    copyfile(FIXTURES / "elf" / "clang-22-hip.o", folder / HIP)
    (folder / SYCL).write_bytes(program([Stored(spirv(20, 1)), Stored(spirv(33, 2))]))
    (folder / LIBRARY).touch()


@pytest.mark.parametrize("arguments", LOOPED.values(), ids=LOOPED)
def test_what_builds_call_in_loops_loads_next_to_nothing(arguments: list[str], tmp_path: Path) -> None:
    _inputs_of_stand_ins(tmp_path)
    needed = TOOL_NEEDED.get(arguments[1], set()) if arguments[0] == "tool" else set()
    heavy = _loaded(*arguments, cwd=tmp_path) & ((HEAVY | TOOL_HEAVY) - needed)
    assert not heavy, _advice(arguments, heavy)


#: What people type, on a small file: the whole command takes 6 bare starts at most, of which click takes 4.6.
TYPED = {
    "inspect": ["inspect", CONTAINER],
    "inspect an object": ["inspect", FAT],
    "extract": ["extract", CONTAINER, "--directory", "out", "--force"],
    "embed": ["embed", HOST, CONTAINER, "-o", "fat.o", "--force"],
    "pack": ["pack", f"--image=file={CUBIN},arch=sm_80,kind=cuda", "-o", "x.bin", "--force"],
    "convert": ["convert", CONTAINER, "--format=bundle", "--lossy", "-o", "x.bundle", "--force"],
    "remove": ["remove", FAT, "--container", "0", "--dry-run"],
    "remove and write": ["remove", FAT, "--container", "0", "-o", "less.o", "--force"],
    "replace": ["replace", FAT, CONTAINER, "-o", "other.o", "--force"],
    "extract from an object": ["extract", FAT, "-d", "out", "--force"],
    "targets": ["targets", "sm_90a"],
    "help": ["--help"],
}
MOST_TYPED = 6

#: 6.03: it reads two files, one of them by its code, and writes a third. The rest is for a module or two.
MORE_TYPED = {"replace": 6.1}

#: Stand-ins take 2.1 bare starts at most, except two: docs/design/start-up.md says what takes the rest.
MOST_LOOPED = 2.1
MORE_LOOPED = {"tool-prune": 3.2, "tool-split": 3.3}


def _instructions(*words: str, cwd: Path) -> int:
    command = [tool("valgrind"), "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable, "-I", *words]
    environment = {"PATH": "/usr/bin:/bin", "PYTHONHASHSEED": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=cwd)
    assert done.returncode in (0, 1), done.stderr
    return int(re.findall(r"Collected : ([0-9]+)", done.stderr)[-1])


@pytest.fixture(scope="module")
def bare_start(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The instructions of a bare interpreter."""
    return _instructions("-c", "pass", cwd=tmp_path_factory.mktemp("bare"))


def _bare_starts(words: list[str], bare_start: int, cwd: Path) -> float:
    """Return the instructions of a command in bare starts, in an environment of fatpack and click alone.

    In a large one more takes the search for plug-ins: a twentieth of a bare start for a hundred packages.
    """
    _loaded(*words, cwd=cwd)  # modules are compiled once
    packages = cwd / "packages"
    packages.mkdir()
    for module in (click, fatpack):
        (packages / module.__name__).symlink_to(module.__path__[0], target_is_directory=True)
    standard = [path for path in sys.path if path.startswith(sys.base_prefix) and "site-packages" not in path]
    program = (
        f"import sys; sys.path[:] = {[str(packages), *standard]!r}; from fatpack.main import main; sys.exit(main())"
    )
    return _instructions("-c", program, *words, cwd=cwd) / bare_start


@pytest.mark.reference
@pytest.mark.parametrize("name", TYPED)
def test_commands_start_within_their_budget(name: str, bare_start: int, tmp_path: Path) -> None:
    taken = _bare_starts(TYPED[name], bare_start, tmp_path)
    most = MORE_TYPED.get(name, MOST_TYPED)
    assert taken <= most, f"fatpack {name}: {taken:.2f} bare starts, at most {most} are allowed"


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("name", [name for name, words in LOOPED.items() if words[0] == "tool"])
def test_stand_ins_start_within_their_budget(name: str, bare_start: int, tmp_path: Path) -> None:
    _inputs_of_stand_ins(tmp_path)
    most = MORE_LOOPED.get(name, MOST_LOOPED)
    taken = _bare_starts(LOOPED[name], bare_start, tmp_path)
    assert taken <= most, f"{' '.join(LOOPED[name][:2])}: {taken:.2f} bare starts, at most {most} are allowed"


#: In a program: the compiled modules, and their total size.
_COMPILED = (
    "import re, sys\n"
    "from fatpack.main import main\n"
    "compiled, compile = [], re.compile\n"
    "re.compile = lambda text, *flags: compiled.append(text) or compile(text, *flags)\n"
    "code = main(sys.argv[1:])\n"
    "print(len(compiled), sum(map(len, compiled)))\n"
    "sys.exit(code)\n"
)


@pytest.mark.parametrize(("path", "most"), [(CIR, 2000), (CIR_DEFINITIONS, 6000)], ids=["modules", "definitions"])
def test_a_small_file_of_mlir_takes_few_expressions(path: str, most: int, tmp_path: Path) -> None:
    """Compiling a thousand characters takes eleven million instructions, a quarter of a bare start."""
    arguments = ["tool", "cir-offload-merge", "-split", f"-input={path}", "-output=y", "-output=z"]
    arguments.append("-targets=host-x86_64-unknown-linux-gnu,cuda-nvptx64-nvidia-cuda--sm_80")
    command = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{_COMPILED}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=True)
    count, size = map(int, done.stdout.split())
    assert count > 10, "this test no longer sees what is compiled"
    assert size <= most, f"{count} expressions of {size} characters in all are compiled for {path}"


@pytest.mark.parametrize(
    "arguments",
    [
        ["tool", "cuobjdump", "-lelf", FATBIN],
        ["tool", "cuobjdump", FATBIN],
        ["tool", "cuobjdump", "-lelf", OBJECT],
        ["tool", "cuobjdump", "-xelf", "all", CUBIN],
        ["tool", "fatbinary", "--create=y", f"--image3=kind=elf,sm=80,file={CUBIN}"],
    ],
    ids=["list", "dump", "list-object", "extract", "write"],
)
def test_the_stand_ins_for_nvidia_load_next_to_nothing_of_the_standard_library(
    arguments: list[str], tmp_path: Path
) -> None:
    loaded = {name.partition(".")[0] for name in _loaded(*arguments, cwd=tmp_path)}
    more = loaded - {"__future__", "fatpack", "struct", "_struct", "errno", "gc", "importlib", "itertools", "warnings"}
    more -= {"io"}  # Python loads it before any program up to 3.13, and for the first one that opens a file since
    assert not more, _advice(arguments, more)


def test_fat_objects_need_no_reader_and_little_of_the_standard_library(tmp_path: Path) -> None:
    """Each module costs about a hundredth of a bare interpreter's start, and builds call the bundler for every file."""
    made = _loaded(*BUNDLER, f"-input={OBJECT}", f"-input={CONTAINER}", "-output=fat.o", cwd=tmp_path)
    taken = _loaded(*BUNDLER, "-unbundle", "-input=fat.o", "-output=y", "-output=z", cwd=tmp_path)
    readers = {"plain.binary", "plain.table", "plain.text", "compressed.read", "stored"}
    readers = {f"fatpack.formats.clang_bundle.{name}" for name in readers}
    for loaded in (made, taken):
        files = loaded - {"gc"}  # a part of the interpreter
        standard = {name for name in files if not name.startswith("fatpack")}
        more = standard - {"__future__", "struct", "_struct", "errno", "io"}
        more |= files & {*readers, "fatpack.codecs", "fatpack.concurrency.threads", "fatpack.binary.coff"}
        assert not more, _advice(BUNDLER, more)


def test_importing_the_package_loads_only_the_package() -> None:
    program = "import sys; before = set(sys.modules); import fatpack; print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "fatpack"], (
        "import fatpack must load nothing else: src/fatpack/__init__.py imports each public name when it is first used"
    )
