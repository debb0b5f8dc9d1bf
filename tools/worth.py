"""Measure dead, hollow and doubled bytes of real files, and confirm "certain" by disassembly of a sample.

    python -m tools.worth FILE... [--sample 50] [--seed 1]

Prints a table in Markdown: a line for each file, with the sums that ``fatpack report`` tells. Then as many of the
kernels that certainly do nothing, drawn with the seed of all files together, are disassembled by nvdisasm (found
beside ``FATPACK_REFERENCE_BIN``; PTX is compiled by ptxas first) or llvm-objdump 22, and read again by a reader of
their text that shares nothing with ``fatpack.images.hollow``. The exit code is 1 if one of them does something.

The tools of CUDA 13 know 7.5 and later architectures. ``FATPACK_REFERENCE_CUDA12`` names a folder with nvdisasm and
ptxas of CUDA 12, which know those from 5.0 on (the wheel of triton 3.4.0 has them, in ``triton/backends/nvidia/bin``);
without it, kernels for earlier architectures are not drawn.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from fatpack.commands.report.model import arch_label
from fatpack.printable import format_size
from fatpack.scanner import FoundContainer, scan
from fatpack.selectors.address import open_location
from fatpack.tabular.columns import ImageRow, KernelRow, RowOptions
from fatpack.tabular.hollow import KernelCode, find_hollow
from fatpack.tabular.read_many import read_paths

#: seconds that a disassembler may take for one kernel
_LONGEST = 120

#: the lowest compute capability that the tools of CUDA 13 know, and those of CUDA 12
_FIRST, _FIRST_OF_12 = 75, 50

#: the variable that names the folder with tools of CUDA 12
_CUDA12 = "FATPACK_REFERENCE_CUDA12"

_LLVM = "/usr/lib/llvm-22/bin"


class Kernel(NamedTuple):
    """A kernel that is called hollow with certainty: where it is, and the word for its body."""

    path: str
    position: str
    label: str
    form: str
    name: str
    body: str


class Sums(NamedTuple):
    """The numbers of one named file: bytes are stored ones, code is of hollow kernels."""

    stored: int
    dead_images: int
    dead: int
    certain: int
    likely: int
    kernels: int
    doubled: int


def measure(path: str) -> tuple[Sums, list[Kernel]]:
    """Return the sums of a file or package, and its certainly hollow kernels."""
    stored = dead = dead_images = certain = likely = kernels = 0
    found: list[Kernel] = []
    codes: list[KernelCode] = []
    by_place: dict[tuple[str, str], Kernel] = {}
    digests: dict[str, list[tuple[str, int]]] = {}
    image: ImageRow | None = None
    for row in read_paths([path], RowOptions(kernels=True, each_kernel=True, digests=True, dead=True)):
        if row.row == "file":
            for item in find_hollow(codes):
                certain, likely = certain + item.is_certain, likely + (not item.is_certain)
                if item.is_certain:
                    found.append(by_place[item.name, item.label])
            codes, by_place = [], {}
        elif isinstance(row, KernelRow):
            assert image is not None
            label = arch_label(image.arch, image.form, image.triple, image.offload)
            kernels += 1
            codes.append(KernelCode(row.kernel or "", label, row.code_size, row.body))
            if row.body is not None:
                here = Kernel(row.path, image.position or "", label, image.form or "", row.kernel or "", row.body)
                by_place[row.kernel or "", label] = here
        elif isinstance(row, ImageRow):
            image = row
            stored += row.stored_size or 0
            if row.sha256 and row.size:
                digests.setdefault(row.sha256, []).append((row.path, row.stored_size or 0))
            if row.dead:
                dead, dead_images = dead + (row.stored_size or 0), dead_images + 1
    doubled = 0
    for places in digests.values():
        if len({where for where, _ in places}) > 1:
            doubled += sum(size for _, size in places) - max(size for _, size in places)
    return Sums(stored, dead_images, dead, certain, likely, kernels, doubled), found


# The sample: each kernel is taken out and disassembled.


def image_bytes(path: str, positions: Collection[str]) -> dict[str, bytes]:
    """Return the bytes of some images of a file, by position."""
    found: dict[str, bytes] = {}
    source, place = open_location(path, ranges=True)
    with source:
        containers = [item for item in scan(place.view) if isinstance(item, FoundContainer)]
        for position in positions:
            container, _, index = position.partition(".")
            found[position] = bytes(containers[int(container)].images[int(index)].data.tobytes())
    return found


def tool(name: str, *, is_old: bool = False) -> str:
    """Return the path of a tool, of CUDA 12 if it ``is_old``. Raises SystemExit where there is none."""
    places = [os.environ.get("FATPACK_REFERENCE_BIN", ""), _LLVM, os.environ.get("PATH", "")]
    if is_old:
        places = [os.environ.get(_CUDA12, "")]
    found = shutil.which(name, path=os.pathsep.join(places))
    if found is None:
        raise SystemExit(f"{name} is missing: CONTRIBUTING.md says where it comes from")
    return found


def disassembled(kernel: Kernel, data: bytes, folder: Path) -> list[str]:
    """Return the instructions of a kernel as text, without addresses; a tool may raise CalledProcessError."""
    path = folder / "image"
    is_old = not is_known(kernel, _FIRST)
    path.write_bytes(data.rstrip(b"\0") if kernel.form == "ptx" else data)
    if kernel.form == "ptx":
        target = re.search(rb"\.target\s+sm_(\d+)(\w?)", data)
        assert target is not None
        # ptxas of CUDA 13 compiles for 7.5 and later, PTX for earlier ones too.
        arch = f"sm_{max(int(target[1]), _FIRST)}{target[2].decode()}"
        (folder / "image.ptx").write_bytes(data.rstrip(b"\0"))
        run(tool("ptxas"), f"-arch={arch}", "--entry", kernel.name, "-o", str(path), str(folder / "image.ptx"))
        is_old = False
    if kernel.form == "code-object":
        text = run(tool("llvm-objdump"), "-d", f"--disassemble-symbols={kernel.name}", str(path))
        lines = text.partition(f"<{kernel.name}>:")[2].splitlines()
        return [line.partition("//")[0].strip() for line in lines if line.strip()]
    symbols = run(tool("llvm-readelf"), "-sW", str(path))
    number = next(
        words[0].rstrip(":") for line in symbols.splitlines() if (words := line.split())[-1:] == [kernel.name]
    )
    text = run(tool("nvdisasm", is_old=is_old), "-c", "-fun", number, str(path))
    return list(with_loops(text))


def with_loops(text: str) -> Iterator[str]:
    """Yield the instructions that nvdisasm prints; a branch to itself, by the label before it, as ``BRA .``."""
    labels: set[str] = set()
    for label, code in re.findall(r"(?m)^(\.L_\w+):|/\*[0-9a-f]{4,}\*/\s+(.*?);", text):
        if label:
            labels.add(label)
            continue
        target = re.match(r"BRA `?\(?(\.L_\w+)\)?", code.strip())
        yield "BRA ." if target is not None and target[1] in labels else code.strip()
        labels = set()


def run(*command: str) -> str:
    """Return what a command prints."""
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_LONGEST)
    return done.stdout


#: instructions that have no effect that is seen: what sets the stack pointer, NOP, and what is never executed
_NOTHING = re.compile(r"(NOP|MOV R1, c\[.*|LDC R1, .*|IMAD\.MOV\.U32 R1, .*|@!PT .*|s_nop \d+|s_code_end)$")

#: what ends a kernel → the word for it
_ENDS = (
    (re.compile(r"EXIT$|s_endpgm$"), "returns"),
    (re.compile(r"BPT\.TRAP.*|s_trap 2$"), "traps"),
    (re.compile(r"BRA \.$"), "loops"),
)


def word_for(instructions: Sequence[str]) -> str:
    """Return ``returns``, ``traps`` or ``loops``, else the first instruction that does something."""
    for code in instructions:
        plain = code.replace("&req", "").strip()
        for pattern, word in _ENDS:
            if pattern.match(plain):
                return word
        if not _NOTHING.match(plain):
            return code
    return "nothing was printed"


def is_known(kernel: Kernel, first: int) -> bool:
    """Return whether tools that know the compute capabilities from ``first`` on read a kernel's machine code."""
    number = re.match(r"sm_(\d+)", kernel.label)
    return number is None or int(number[1]) >= first


def verdicts(sample: Sequence[Kernel]) -> Iterator[tuple[Kernel, str]]:
    """Yield each kernel of a sample with what its disassembly says."""
    for path in dict.fromkeys(kernel.path for kernel in sample):
        own = [kernel for kernel in sample if kernel.path == path]
        images = image_bytes(path, {kernel.position for kernel in own})
        for kernel in own:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    yield kernel, word_for(disassembled(kernel, images[kernel.position], Path(folder)))
                except subprocess.SubprocessError as error:
                    yield kernel, f"not disassembled: {type(error).__name__}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and the outcome of the sample."""
    parser = argparse.ArgumentParser(prog="python -m tools.worth", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--sample", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args(arguments)
    hollow: list[Kernel] = []
    print("| file | stored | dead images | dead bytes | kernels | certain | likely | doubled |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for path in asked.files:
        sums, found = measure(path)
        hollow += found
        cells = (
            "-".join(os.path.basename(path).split("-")[:2]),
            format_size(sums.stored),
            f"{sums.dead_images:,}",
            format_size(sums.dead),
            f"{sums.kernels:,}",
            f"{sums.certain:,}",
            f"{sums.likely:,}",
            format_size(sums.doubled),
        )
        print(f"| {' | '.join(cells)} |", flush=True)
    first = _FIRST_OF_12 if os.environ.get(_CUDA12) else _FIRST
    readable = [kernel for kernel in hollow if is_known(kernel, first)]
    sample = random.Random(asked.seed).sample(readable, min(asked.sample, len(readable)))
    wrong = unread = 0
    for kernel, word in verdicts(sample):
        if word.startswith("not disassembled"):
            unread += 1
        elif word != kernel.body:
            wrong += 1
        if word != kernel.body:
            print(f"{kernel.path} {kernel.position} {kernel.label} {kernel.name}: said {kernel.body}, is: {word}")
    read = len(sample) - unread
    print(f"\n{len(readable):,} of {len(hollow):,} are of architectures that the disassemblers know")
    print(f"seed {asked.seed}: {read - wrong} of {read} disassembled kernels confirmed, {unread} not disassembled")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
