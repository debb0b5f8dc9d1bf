"""What a command may load: start-up time is a feature, and every module has to be worth its milliseconds."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.builders import kpack_site

from fatpack.cli.commands import COMMANDS

FIXTURES = Path(__file__).parents[1] / "fixtures"
SOURCE = Path(__file__).parents[2] / "src" / "fatpack"
HOST = str(FIXTURES / "demo" / "host.o")
FAT = str(FIXTURES / "elf" / "clang-22-openmp-gfx90a.o")
CONTAINER = str(FIXTURES / "offload_binary" / "llvm-22-four.bin")

FATBIN = str(FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin")
OBJECT = str(FIXTURES / "cuda_fatbin" / "hosts" / "single.o")
CUBIN = str(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin")

BUNDLER = ["tool", "clang-offload-bundler", "-type=o"]
BUNDLER += ["-targets=host-x86_64-unknown-linux-gnu,hipv4-amdgcn-amd-amdhsa--gfx90a"]

#: Never loaded by a command whose arguments are plain.
HEAVY = {
    "click",
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
    "asyncio",
    "pyarrow",
    "distributed",
    "ray",
    "fsspec",
    "aiohttp",
    "fatpack.io.sources.file_object",
    "fatpack.io.sources.ranged",
    "fatpack.io.sources.remote",
    "fatpack.io.sources.url",
}
#: What a command is made of: a vocabulary that people read and write, processes.
NEEDED = {
    "slim": {"tomllib"},
    "targets": {"tomllib"},
    "explain": {"tomllib"},
    "check": {"tomllib"},
    "doctor": {"tomllib"},
    "survey": {"subprocess", "tempfile"},
    "map": {"subprocess", "tempfile"},
}
#: Not loaded either by what is called in loops.
TOOL_HEAVY = {"click", "re", "typing", "inspect", "json", "argparse", "shutil", "random", "hashlib"}


def _loaded(*arguments: str, cwd: Path) -> set[str]:
    program = (
        "import sys\n"
        "before = set(sys.modules)\n"
        "from fatpack.cli import main\n"
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
    "inspect": ["inspect", "-v", "--kernels", CONTAINER],
    "extract": ["extract", CONTAINER, "--arch", "sm_*,gfx*", "-d", "out", "-q", "--max-inflated=1G"],
    "pack": ["pack", f"--image=file={CUBIN}", "--format=fatbin", "--compress-mode=none", "-fqo", "x.fatbin"],
    "wrap": ["wrap", FATBIN, "--kind=cuda", "--host-triple", "aarch64-linux-gnu", "-fqo", "x.o", "--as=23"],
    "convert": ["convert", CONTAINER, "--format", "bundle", "--lossy", "-qox.bin", "--limit", "nesting=9"],
    "embed": ["embed", HOST, CONTAINER, "--output=fat.o", "--quiet"],
    "remove": ["remove", FAT, "--container", "0", "-o", "-", "--dry-run"],
    "replace": ["replace", FAT, CONTAINER, "-f", "-o", "fat.o"],
    "map": ["map", CONTAINER, "--arch=sm_*", "--replace", "-qo", "x.bin", "--", "/bin/cp", "{in}", "{out}"],
    "slim": ["slim", FATBIN, "--for", "sm_90", "--allow-empty", "-o", "slim.fatbin", "-qf"],
    "link-inputs": ["link-inputs", FAT, "-L", "lib", "--whole-archive", FAT, "-qd", "out", "--llvm=22"],
    "explain": ["explain", FATBIN, "--device", "sm_90", "--cuda", "13.0", "-v"],
    "targets": ["targets", "sm_90a", "--runs-on"],
    "check": ["check", "--kpack", "installed", "--device", "gfx90a:xnack-", "-v"],
    "doctor": ["doctor", FATBIN, "-v"],
    "diff": ["diff", CONTAINER, CONTAINER, "--kernels", "-v"],
    "report": ["report", CONTAINER, "-o", "report.html", "--exclude=*.py", "-q"],
    "survey": ["survey", CONTAINER, "-o", "out", "--format=jsonl", "--workers=1", "-q"],
    "tool": ["tool", "llvm-offload-binary", CONTAINER, "--image=file=x"],
    "help": ["help", "inspect"],
}


def test_every_command_has_a_plain_use() -> None:
    assert PLAIN.keys() == COMMANDS.keys(), "PLAIN lists a use of every command, so that none loads click for it"


@pytest.mark.parametrize("arguments", [*PLAIN.values(), *([name, "--help"] for name in PLAIN)], ids=" ".join)
def test_commands_load_no_heavy_module(arguments: list[str], tmp_path: Path) -> None:
    if arguments[0] == "check":
        kpack_site.sound(tmp_path / "installed")
    heavy = _loaded(*arguments, cwd=tmp_path) & (HEAVY - NEEDED.get(arguments[0], set()))
    assert not heavy, _advice(arguments, heavy)


def _advice(arguments: Sequence[str], loaded: set[str]) -> str:
    return (
        f"fatpack {' '.join(arguments[:2])} loads {sorted(loaded)}, which costs more than this command does: import it "
        f"in the function that needs it. python -X importtime shows who imports it; docs/design/start-up.md says why."
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["inspect", CONTAINER],
        ["inspect", "-v", CONTAINER],
        ["extract", CONTAINER, "-d", "out"],
        ["tool", "llvm-offload-binary", CONTAINER, "--image=file=x"],
        ["tool", "llvm-offload-binary", "-o", "y", f"--image=file={CONTAINER},triple=t"],
        ["tool", "clang-offload-bundler", "--version"],
        ["tool", "clang-offload-bundler", "-type=o", "-list", f"-input={CONTAINER}"],
        [*BUNDLER, "-input=/dev/null", f"-input={CONTAINER}", "-output=y", "-bundle-align=4096"],
        [*BUNDLER, "-unbundle", f"-input={CONTAINER}", "-output=y", "-output=z", "-allow-missing-bundles"],
        ["tool", "cuobjdump", "-lelf", OBJECT],
        ["tool", "cuobjdump", "-res-usage", "-symbols", FATBIN],
    ],
    ids=[
        "version",
        "inspect",
        "inspect-more",
        "extract",
        "tool-extract",
        "tool-pack",
        "tool-version",
        "tool-list",
        "tool-bundle",
        "tool-unbundle",
        "tool-list-fatbin",
        "tool-dump-fatbin",
    ],
)
def test_what_builds_call_in_loops_loads_next_to_nothing(arguments: list[str], tmp_path: Path) -> None:
    heavy = _loaded(*arguments, cwd=tmp_path) & (HEAVY | TOOL_HEAVY)
    assert not heavy, _advice(arguments, heavy)


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
        more = standard - {"__future__", "struct", "_struct", "errno"}
        more |= files & {*readers, "fatpack.codec", "fatpack.parallel", "fatpack.hosts.coff"}
        assert not more, _advice(BUNDLER, more)
        code = {name for name in files if not _is_only_a_folder(name)}
        assert len(code) <= 58, f"{len(code)} modules for a fat object, at most 58 are allowed: {sorted(code)}"


def _is_only_a_folder(name: str) -> bool:
    """Return whether a module is a folder that only says what is in it: it costs a file's opening and no work."""
    path = SOURCE.joinpath(*name.split(".")[1:], "__init__.py")
    return name.startswith("fatpack.") and path.exists() and len(ast.parse(path.read_text()).body) == 1


def test_importing_the_package_loads_only_the_package() -> None:
    program = "import sys; before = set(sys.modules); import fatpack; print(*sorted(set(sys.modules) - before))"
    command = [sys.executable, "-I", "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["__future__", "fatpack"], (
        "import fatpack must load nothing else: src/fatpack/__init__.py imports each public name when it is first used"
    )
