"""Instructions of stand-ins as multiples of a bare start: ``python -m tools.bench.instructions [NAME...]``.

Times of a few milliseconds say little on a busy machine; instructions, counted by valgrind, are the same on any. Each
command runs once before, so that its modules are compiled, and with a fixed seed of hashes.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tools.bench.inputs import SMALL_CONTAINER, SMALL_OBJECT
from tools.bench.measure import FATPACK, BenchError, command, environment, need
from tools.bench.start_up import CIR, CUBIN, FATBIN, HOST, stand_ins

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tools.bench.measure import Command

TARGETS = "host-x86_64-unknown-linux-gnu,hipv4-amdgcn-amd-amdhsa--gfx90a"


def _more(scratch: Path) -> dict[str, Command]:
    """Return more jobs of stand-ins that take several kinds of files, and other ways to start fatpack."""
    bundle, fat, made, other = (scratch / name for name in ("bundle", "fat.o", "made", "other"))
    bundler = (str(FATPACK), "tool", "clang-offload-bundler", f"-targets={TARGETS}")
    for kind, path, host in (("bc", bundle, CUBIN), ("o", fat, HOST)):
        words: list[str] = [*bundler, f"-type={kind}", f"-input={host}", f"-input={SMALL_CONTAINER}", f"-output={path}"]
        subprocess.run(words, check=True)
    outputs = (f"-output={made}", f"-output={other}")
    cuobjdump, container = (FATPACK, "tool", "cuobjdump"), CIR.with_name("container_attr_2026.cir")
    jobs: dict[str, tuple[str | Path, ...]] = {
        "clang-offload-bundler, a bundle": (
            *(*bundler, "-type=bc", f"-input={CUBIN}", f"-input={SMALL_CONTAINER}", f"-output={made}"),
        ),
        "clang-offload-bundler -unbundle, a bundle": (*bundler, "-type=bc", "-unbundle", f"-input={bundle}", *outputs),
        "clang-offload-bundler -unbundle": (*bundler, "-type=o", "-unbundle", f"-input={fat}", *outputs),
        "cir-offload-merge, with definitions": (
            *(FATPACK, "tool", "cir-offload-merge", "-split", f"-input={container}", *outputs),
            "-targets=host-x86_64-unknown-linux-gnu,cuda-nvptx64-nvidia-cuda--sm_80",
        ),
        "llvm-readobj, an offload binary": (FATPACK, "tool", "llvm-readobj", "--offloading", SMALL_OBJECT),
        "llvm-objdump, an offload binary": (FATPACK, "tool", "llvm-objdump", "--offloading", SMALL_OBJECT),
        "cuobjdump -res-usage": (*cuobjdump, "-res-usage", FATBIN),
        "cuobjdump -res-usage -symbols": (*cuobjdump, "-res-usage", "-symbols", FATBIN),
        "--version": (FATPACK, "--version"),
        "python -m fatpack --version": (sys.executable, "-m", "fatpack", "--version"),
    }
    return {name: command(*words, outputs=[made, other]) for name, words in jobs.items()}


def instructions(one: Command) -> int:
    """Return the number of instructions of a command. Raises BenchError if it fails."""
    said = ""
    for counted in ((), (need("valgrind"), "--tool=callgrind", "--callgrind-out-file=/dev/null")):
        one.remove_outputs()
        done = subprocess.run(
            [*counted, *one.words], capture_output=True, text=True, env={**environment(), "PYTHONHASHSEED": "0"}
        )
        said = done.stderr
        if done.returncode not in one.codes:
            raise BenchError(f"{' '.join(one.words[:3])} failed: {said.strip()}")
    return int(re.findall(r"Collected : ([0-9]+)", said)[-1])


def main(arguments: Sequence[str] | None = None) -> int:
    names = sys.argv[1:] if arguments is None else arguments
    with tempfile.TemporaryDirectory(prefix="fatpack-bench-") as scratch:
        jobs: Mapping[str, Command] = {**stand_ins(Path(scratch)), **_more(Path(scratch))}
        bare = instructions(command(sys.executable, "-I", "-c", "pass"))
        print(f"{bare / 1e6:7.1f} M  1.00  python -I -c pass", flush=True)
        for name, one in jobs.items():
            if not names or any(name.startswith(wanted) for wanted in names):
                count = instructions(one)
                print(f"{count / 1e6:7.1f} M  {count / bare:.2f}  {name}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
