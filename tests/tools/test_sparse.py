"""Sparse inputs of 10 GB: stand-ins read what they need of them, in little memory, and end soon."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

SIZE = 10 << 30

#: Seconds of processor time, and bytes of address space, that a command may take.
SECONDS, MEMORY = 8, 1 << 30

ELF = FIXTURES / "elf" / "clang-22-hip.o"
BINARY = FIXTURES / "offload_binary" / "llvm-22-four.bin"
BUNDLE = FIXTURES / "clang_bundle" / "llvm-22-hip.bundle"
FATBIN = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
CUDA = FIXTURES / "cuda_fatbin" / "hosts" / "clang_min.o"
TABLE = FIXTURES / "file_table" / "images.table"
ARCHIVE, NOTHING = b"!<arch>\n", b""

_LINK = ["--dry-run", "--linker-path=/usr/bin/ld", "--host-triple=x86_64-unknown-linux-gnu", "in", "-o", "x"]

#: how the input begins, then a command line for it
COMMANDS: list[tuple[bytes | Path, list[str]]] = [
    (BINARY, ["llvm-offload-binary", "in", "--image=file=x,triple=t"]),
    (ELF, ["llvm-offload-binary", "in", "--image=file=x,triple=t"]),
    (ELF, ["clang-offload-bundler", "-type=o", "-list", "-input=in"]),
    (BUNDLE, ["clang-offload-bundler", "-type=bc", "-list", "-input=in"]),
    (ELF, ["llvm-objdump", "--offloading", "in"]),
    (ARCHIVE, ["llvm-objdump", "--offloading", "in"]),
    (ELF, ["llvm-readobj", "--offloading", "in"]),
    (ELF, ["clang-linker-wrapper", *_LINK]),
    (ARCHIVE, ["clang-linker-wrapper", *_LINK]),
    (ELF, ["clang-offload-extract", "in"]),
    (ELF, ["clang-offload-deps", "-targets=sycl-spir64", "-outputs=x", "in"]),
    (FATBIN, ["cuobjdump", "-lelf", "in"]),
    (CUDA, ["cuobjdump", "-lelf", "in"]),
    (NOTHING, ["cuobjdump", "-lelf", "in"]),
    (CUDA, ["nvprune", "-arch", "sm_80", "-o", "x", "in"]),
    (ELF, ["roc-obj-ls", "in"]),
    (BUNDLE, ["roc-obj-ls", "in"]),
    (ELF, ["roc-obj-extract", "-o", "-", "file://in#offset=0&size=64"]),
    (TABLE, ["file-table-tform", "-extract=Code", "-o", "x", "in"]),
    (TABLE, ["llvm-foreach", "--in-file-list=in", "--in-replace={}", "--", "true", "{}"]),
    (TABLE, ["clang-offload-wrapper", "-kind=sycl", "-batch", "-o", "x", "in"]),
    (b"[A]\n", ["clang-offload-wrapper", "-kind=sycl", "-properties=in", "-o", "x", "small"]),
    (NOTHING, ["clang-offload-wrapper", "-kind=sycl", "-entries=in", "-o", "x", "small"]),
]


@pytest.mark.parametrize(
    ("head", "words"), COMMANDS, ids=[f"{words[0]} {number}" for number, (_, words) in enumerate(COMMANDS)]
)
def test_a_stand_in_reads_what_it_needs(head: bytes | Path, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / "in"
    path.write_bytes(head if isinstance(head, bytes) else head.read_bytes())
    (tmp_path / "small").write_text("small")
    os.truncate(path, SIZE)
    if path.stat().st_blocks > 1 << 20:
        pytest.skip("the file system has no sparse files")
    done = subprocess.run(
        [sys.executable, "-m", "fatpack", "tool", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        preexec_fn=_limit,
    )
    assert done.returncode in (0, 1, 255), done.stderr
    assert "not enough memory" not in done.stderr


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
