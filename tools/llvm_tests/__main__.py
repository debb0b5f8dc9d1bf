"""Run LLVM's own tests of tools with stand-ins: ``python -m tools.llvm_tests SOURCE --llvm 22 --tools DIR``.

SOURCE is a source tree of llvm-project of that version, of which clang/test, llvm/test and llvm/utils/lit are used. On
Debian, ``apt-get source --download-only llvm-toolchain-22`` with a deb-src line fetches it. The tests are copied to a
scratch folder, which is removed afterwards, and never to this repository. DIR has the tools of that version: the bin
folder of ``tools/reference/get_llvm23.sh``, or for LLVM 22 ``/usr/lib/llvm-22/bin``. FileCheck, not, count and
split-file, which Debian's llvm-22 lacks, come from a second ``--tools``, possibly of another version.

Each test runs twice: with the originals, and with the stand-ins before them on PATH. A table of both results is
printed; the exit code is 1 if a test passes with the originals and not with the stand-ins.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

STAND_INS = ("clang-offload-bundler", "llvm-offload-binary", "clang-offload-packager")

#: Folders of LLVM's tests of command-line tools.
FOLDERS = ("clang/test/Driver", "llvm/test/tools", "llvm/test/Object", "llvm/test/ObjectYAML")

_RUN = re.compile(rf"RUN:.*\b({'|'.join(STAND_INS)})\b")

#: Features that the tests require of the machine, and that Debian's builds have.
FEATURES = (
    "x86-registered-target",
    "nvptx-registered-target",
    "amdgpu-registered-target",
    "spirv-registered-target",
    "lld",
    "system-linux",
    "shell",
    "zlib",
    "zstd",
)

_SCRIPT = """\
#!{python}
import sys
sys.path.insert(0, {sources!r})
from fatpack.main import main
sys.exit(main(["tool", "--as={version}", *sys.argv]))
"""

_CONFIG = """\
import lit.formats
config.name = "stand-ins"
config.test_format = lit.formats.ShTest(execute_external=False)
config.excludes = ["Inputs"]
config.target_triple = {triple!r}
config.suffixes = {suffixes!r}
config.test_source_root = {source!r}
config.test_exec_root = {output!r}
config.available_features.update({features!r})
config.environment["PATH"] = {path!r}
config.environment.update({environment!r})
config.substitutions += [
    ("%clang_cc1", "clang -cc1"),
    ("%clangxx", "clang --driver-mode=g++"),
    ("%clang", "clang"),
    ("%itanium_abi_triple", {triple!r}),
    ("%errc_ENOENT", "'No such file or directory'"),
]
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tests that the command line selects; return the exit code."""
    summary, _, _ = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(prog="python -m tools.llvm_tests", description=summary)
    parser.add_argument("source", type=Path, help="a source tree of llvm-project")
    parser.add_argument("--llvm", choices=["22", "23"], required=True, help="the version that the stand-ins follow")
    parser.add_argument(
        "--tools", type=Path, required=True, action="append", help="a folder of LLVM's tools; repeatable"
    )
    given = parser.parse_args(arguments)
    tests = sorted(find(given.source))
    if not tests:
        parser.error(f"no test below {given.source} runs {', '.join(STAND_INS)}")
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        _install(scratch / "bin", given.llvm)
        originals = _run(given.source, tests, scratch / "originals", given.tools)
        ours = _run(given.source, tests, scratch / "ours", [scratch / "bin", *given.tools])
    return report([str(test.relative_to(given.source)) for test in tests], originals, ours)


def find(source: Path) -> Iterator[Path]:
    """Yield the tests whose commands run one of the tools."""
    for folder in FOLDERS:
        for path in (source / folder).rglob("*"):
            if path.is_file() and "Inputs" not in path.parts and _RUN.search(path.read_text(errors="replace")):
                yield path


def _install(folder: Path, version: str) -> None:
    """Write scripts of the tools' names that run the stand-ins."""
    folder.mkdir()
    root = Path(__file__).resolve().parents[2]
    for name in STAND_INS:
        script = folder / name
        script.write_text(_SCRIPT.format(python=sys.executable, sources=str(root / "src"), version=version))
        script.chmod(0o755)


def _run(source: Path, tests: Sequence[Path], scratch: Path, path: Sequence[Path]) -> dict[str, str]:
    """Run tests with lit, with these folders before PATH; return the results by path below the source."""
    suite, output = scratch / "suite", scratch / "output"
    for test in tests:
        copy = suite / test.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(test, copy)
        inputs = copy.parent / "Inputs"
        if not inputs.is_symlink():
            inputs.symlink_to(test.parent.resolve() / "Inputs")
    environment = {**os.environ, "PATH": os.pathsep.join([*map(str, path), os.environ.get("PATH", "")])}
    command = ["clang", "-print-target-triple"]
    triple = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    config = _CONFIG.format(
        suffixes=sorted({test.suffix for test in tests}),
        source=str(suite),
        output=str(output),
        features=set(FEATURES),
        path=environment["PATH"],
        environment={"LC_ALL": "C", "HOME": str(scratch)},
        triple=triple,
    )
    (suite / "lit.cfg").write_text(config)
    results = scratch / "results.json"
    lit = [sys.executable, str(source / "llvm/utils/lit/lit.py"), "-v", f"--output={results}", str(suite)]
    done = subprocess.run(lit, capture_output=True, text=True, check=False)
    if not results.exists():
        raise SystemExit(f"lit failed:\n{done.stdout}{done.stderr}")
    if done.returncode:
        sys.stderr.write(done.stdout)
    rows = json.loads(results.read_text())["tests"]
    return {row["name"].partition(" :: ")[2]: row["code"] for row in rows}


def report(tests: Sequence[str], originals: dict[str, str], ours: dict[str, str]) -> int:
    """Print the table of both results; return 1 if a test passes with the originals only."""
    print("| test | originals | stand-ins |\n|---|---|---|")
    for test in tests:
        print(f"| `{test}` | {originals[test]} | {ours[test]} |")
    return int(any(originals[test] == "PASS" != ours[test] for test in tests))


if __name__ == "__main__":
    sys.exit(main())
