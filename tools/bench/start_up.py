"""Start-up: the cost of a command before its own work, in bare interpreter starts."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tests.builders.sycl import Stored, program, spirv
from tools.bench.inputs import SMALL_CONTAINER, SMALL_OBJECT
from tools.bench.measure import FIXTURES, Command, Figure, command, fatpack, measure, milliseconds

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROUNDS = 40

HOST = FIXTURES / "demo" / "host.o"
CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"
FATBIN = FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin"
CUDA_OBJECT = FIXTURES / "cuda_fatbin" / "hosts" / "single.o"
HIP_OBJECT = FIXTURES / "elf" / "clang-22-hip.o"
TABLE = FIXTURES / "file_table" / "images.table"
CIR = FIXTURES / "cir" / "samples" / "container_attr_min.mlir"


def stand_ins(scratch: Path) -> dict[str, Command]:
    """Return a small ordinary job of each stand-in, once for a program with two names."""
    made, other, folder = scratch / "made", scratch / "other", scratch / "folder"
    hip = scratch / "hip.o"  # llvm-objdump writes beside its input
    hip.write_bytes(HIP_OBJECT.read_bytes())
    sycl = scratch / "sycl.out"
    sycl.write_bytes(program([Stored(spirv(20, 1)), Stored(spirv(33, 2))]))
    jobs: dict[str, tuple[str | Path, ...]] = {
        "llvm-offload-binary": (SMALL_CONTAINER, f"--image=file={made},arch=sm_80"),
        "clang-offload-bundler": (
            *("-type=o", "-targets=host-x86_64-unknown-linux-gnu,hipv4-amdgcn-amd-amdhsa--gfx90a"),
            *(f"-input={HOST}", f"-input={SMALL_CONTAINER}", f"-output={made}"),
        ),
        "cir-offload-merge": (
            *("-split", f"-input={CIR}", f"-output={made}", f"-output={other}"),
            "-targets=host-x86_64-unknown-linux-gnu,cuda-nvptx64-nvidia-cuda--sm_80",
        ),
        "llvm-offload-wrapper": ("--kind=cuda", "-o", made, FATBIN),
        "clang-offload-wrapper": ("-target=x86_64", "-o", made, CUBIN),
        "clang-linker-wrapper": ("--dry-run", "--linker-path=ld", SMALL_OBJECT, "-o", made),
        "clang-offload-extract": (f"--stem={made}", sycl),
        "llvm-readobj": ("--offloading", hip),
        "llvm-objdump": ("--offloading", hip),
        "clang-offload-deps": ("-targets=sycl-spir64", f"-outputs={made}", SMALL_OBJECT),
        "llvm-foreach": (f"--in-file-list={TABLE}", "--in-replace={}", f"--out-file-list={made}", "--", "true", "{}"),
        "file-table-tform": ("-extract=Code", "-o", made, TABLE),
        "cuobjdump": ("-lelf", CUDA_OBJECT),
        "fatbinary": (f"--create={made}", f"--image3=kind=elf,sm=80,file={CUBIN}"),
        "nvprune": ("-arch", "sm_80", "-o", made, CUDA_OBJECT),
        "roc-obj-ls": (hip,),
        "roc-obj-extract": ("-o", scratch, f"file://{hip}#offset=0&size=64"),
        "roc-obj": ("-o", folder, hip),
    }
    return {name: fatpack("tool", name, *words, outputs=[made, other, folder]) for name, words in jobs.items()}


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    made, jobs = scratch / "made", stand_ins(scratch)
    samples = measure(
        {
            "python": command(sys.executable, "-I", "-c", "pass"),
            "click": command(sys.executable, "-I", "-c", "import click"),
            "version": fatpack("--version"),
            "help": fatpack("--help"),
            "inspect": fatpack("inspect", SMALL_OBJECT),
            "extract": fatpack("extract", "-q", SMALL_OBJECT, "-o", made, outputs=[made]),
            "pack": fatpack("pack", "-q", f"--image=file={CUBIN},arch=sm_80,kind=cuda", "-o", made, outputs=[made]),
            "embed": fatpack("embed", "-q", HOST, SMALL_CONTAINER, "-o", made, outputs=[made]),
            "replace": fatpack("replace", "-q", SMALL_OBJECT, SMALL_CONTAINER, "-o", made, outputs=[made]),
            "remove": fatpack("remove", "-q", SMALL_OBJECT, "-o", made, outputs=[made]),
            "convert": fatpack(
                "convert", "-q", SMALL_CONTAINER, "--format=bundle", "--lossy", "-o", made, outputs=[made]
            ),
            "targets": fatpack("targets", "sm_90a"),
            **jobs,
        },
        ROUNDS,
    )
    bare = samples["python"]

    def ratio(what: str, name: str, limit: float | None) -> Figure:
        value, facts = samples[name].seconds / bare.seconds, milliseconds(samples[name])
        is_ours = what.startswith("fatpack")
        return Figure(what, value, "x python -c pass", limit, facts, peer="python -c pass" if is_ours else "")

    yield Figure("python -I -c pass", bare.seconds * 1e3, "ms", None, f"{bare.peak / 1e6:.0f} MB")
    yield ratio("fatpack --version", "version", 2)
    yield ratio("fatpack --help", "help", 6)
    for name in jobs:
        yield ratio(f"fatpack tool {name} SMALL", name, 2.1)
    yield ratio("fatpack inspect SMALL.o", "inspect", 6)
    yield ratio("fatpack extract SMALL.o", "extract", 6)
    yield ratio("fatpack pack SMALL", "pack", 6)
    yield ratio("fatpack embed HOST.o SMALL", "embed", 6)
    yield ratio("fatpack replace SMALL.o SMALL", "replace", 6)
    yield ratio("fatpack remove SMALL.o", "remove", 6)
    yield ratio("fatpack convert SMALL", "convert", 6)
    yield ratio("fatpack targets NAME", "targets", 6)
    yield ratio("python -I -c 'import click'", "click", None)
