"""Growth: time and memory over the amount of work, in steps of ten, for each way in which files can be large.

A figure is the exponent of the last step: time above the start-up grows as work to that power, so 1 is linear. Beside
it stand the peer's times on the same files where one reads them.
"""

from __future__ import annotations

import math
import subprocess
import zipfile
from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import MB, Command, Figure, Sample, command, fatpack, measure, need, peer

from fatpack import ImageFile, pack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

#: Amounts of work; the largest number of images is that of ten files.
STEPS = (1_000, 10_000, 100_000)

#: Rounds of each command; the files were just written, so that nothing has to be warmed.
ROUNDS = 1

#: The highest exponent of the last step.
LINEAR = 1.15


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    for what, make, operations in (
        ("files in a folder", _folder, ("inspect", "check", "rows")),
        ("files in a wheel", _wheel, ("inspect", "check")),
        ("containers in a file", _containers, ("inspect", "doctor", "rows")),
        ("images in a fat binary", _images, ("inspect", "check", "report", "doctor")),
        ("members of an archive", _archive, ("inspect", "check")),
    ):
        paths = {}
        for step in STEPS:
            folder = scratch / f"{step}"
            folder.mkdir()
            paths[step] = make(folder, step)
        for operation in operations:
            yield _grown(what, operation, paths)
        subprocess.run(["rm", "-rf", *(scratch / f"{step}" for step in STEPS)], check=True)
    yield from _many(scratch)


def _grown(what: str, operation: str, paths: Mapping[int, Path]) -> Figure:
    """Return the figure of one command on files of one kind."""
    start = measure({"": OPERATIONS[operation](inputs.SMALL_CONTAINER)}, ROUNDS, is_warm=True)[""]
    ours = {step: measure({"": OPERATIONS[operation](path)}, ROUNDS, is_warm=True)[""] for step, path in paths.items()}
    lines = [("fatpack", _points(ours, start))]
    peers = _PEERS.get((what, operation))
    tool = None if peers is None else peer(peers[0])
    if peers is not None and tool is not None:
        theirs = {
            step: measure({"": command(tool, *peers[1:], path)}, ROUNDS, is_warm=True)[""]
            for step, path in paths.items()
        }
        lines.append((peers[0], _points(theirs, None)))
    (_, seconds, _), (_, most, _) = lines[0][1][-2:]
    exponent = math.log10(max(most, 1e-3) / max(seconds, 1e-3))
    facts = "; ".join(f"{name} {', '.join(_words(point) for point in points)}" for name, points in lines)
    return Figure(f"{operation}: {what}", exponent, "is the exponent", LINEAR, facts, points=tuple(lines))


def _points(samples: Mapping[int, Sample], start: Sample | None) -> tuple[tuple[int, float, int], ...]:
    """Return amount of work, seconds of processor time above the start-up, and the peak in bytes."""
    before = 0.0 if start is None else start.processor
    return tuple((step, max(sample.processor - before, 0.0), sample.peak) for step, sample in samples.items())


def _words(point: tuple[int, float, int]) -> str:
    step, seconds, peak = point
    return f"{step:,} in {seconds:.2f} s and {peak / MB:.0f} MB"


def _many(scratch: Path) -> Iterator[Figure]:
    """Yield the figure of a million images in ten files."""
    one = _images(scratch, STEPS[-1])
    few, many = scratch / "few", scratch / "many"
    for folder, count in ((few, 1), (many, 10)):
        folder.mkdir()
        for number in range(count):
            (folder / f"{number}.fatbin").hardlink_to(one)
    paths = {STEPS[-1]: few, 10 * STEPS[-1]: many}
    yield _grown("images in the fat binaries of a folder", "sums", paths)


#: name → the command on a path; exit code 1 is a finding, of which these files have some
OPERATIONS: dict[str, Callable[[Path], Command]] = {
    "inspect": lambda path: fatpack("inspect", path, codes=(0, 1, 3)),
    "sums": lambda path: fatpack("inspect", "--by", "arch", path, codes=(0, 1, 3)),
    "rows": lambda path: fatpack("inspect", "--rows", "jsonl", path, codes=(0, 1, 3)),
    "check": lambda path: fatpack("check", "--require", "sm_80", path, codes=(0, 1, 3)),
    "doctor": lambda path: fatpack("doctor", path, codes=(0, 1, 3)),
    "report": lambda path: fatpack("report", "--markdown", path, codes=(0, 1, 3)),
}

#: kind of files and operation → the peer, with its options
_PEERS = {
    ("members of an archive", "inspect"): ("llvm-objdump", "--offloading"),
    ("files in a wheel", "inspect"): ("unzip", "-l"),
    ("images in a fat binary", "inspect"): ("cuobjdump", "-lptx"),
}


def _folder(folder: Path, count: int) -> Path:
    """Make a folder of small containers, a hundred to a folder inside it."""
    content, made = inputs.ONE_CONTAINER.read_bytes(), folder / "files"
    for number in range(count):
        if number % 100 == 0:
            inside = made / f"{number // 100:05}"
            inside.mkdir(parents=True)
        (inside / f"{number:06}.bin").write_bytes(content)
    return made


def _wheel(folder: Path, count: int) -> Path:
    """Write a wheel of small containers, compressed as wheels are."""
    content, path = inputs.ONE_CONTAINER.read_bytes(), folder / "demo-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for number in range(count):
            made.writestr(f"demo/{number:06}.bin", content)
    return path


def _containers(folder: Path, count: int) -> Path:
    path = folder / "containers.bin"
    path.write_bytes(inputs.ONE_CONTAINER.read_bytes() * count)
    return path


def _images(folder: Path, count: int) -> Path:
    """Write a fat binary with PTX of a few bytes for each image."""
    source, path = folder / "k.ptx", folder / "images.fatbin"
    source.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n")
    few = folder / "few.fatbin"
    pack([ImageFile(source, arch="sm_80", offload="cuda")], few, format="fatbin")
    data = few.read_bytes()
    # The header is 16 bytes and states the size of what follows: entries, of which one is repeated.
    entries = data[16:] * count
    path.write_bytes(data[:8] + len(entries).to_bytes(8, "little") + entries)
    return path


def _archive(folder: Path, count: int) -> Path:
    """Return an archive of objects with a container each."""
    source, made = folder / "member.s", folder / "member.o"
    source.write_text(
        f'.section .llvm.offloading,"e",@{inputs.OFFLOADING}\n.balign 8\n.incbin "{inputs.ONE_CONTAINER}"\n'
    )
    subprocess.run([need("as"), source, "-o", made], check=True)
    content = made.read_bytes()
    head = b"%-16s%-12d%-6d%-6d%-8s%-10d`\n"
    path = folder / "library.a"
    with path.open("wb") as file:
        file.write(b"!<arch>\n")
        for number in range(count):
            file.write(head % (b"m%d.o/" % number, 0, 0, 0, b"644", len(content)))
            file.write(content + b"\n" * (len(content) % 2))
    return path
