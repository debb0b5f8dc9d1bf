"""Packing and extracting 16 images of 32 MB: as long as copying their bytes, in memory that does not grow with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import Command, Figure, Sample, against, command, fatpack, measure, memory, milliseconds, peer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ROUNDS = 7
COUNT, SIZE = 16, 32 << 20
TRIPLE = "triple=nvptx64-nvidia-cuda"


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    tiny = inputs.images(scratch, 1, 5000)[0][0].rename(scratch / "tiny.cubin")
    tiny_packed = inputs.container(scratch / "tiny.bin", [(tiny, "sm_80")])
    images = inputs.images(scratch, COUNT, SIZE)
    packed = inputs.container(scratch / "packed.bin", images)
    out, folder = scratch / "out.bin", scratch / "out"
    options = [f"--image=file={path},{TRIPLE},arch={arch},kind=cuda,n={n}" for n, (path, arch) in enumerate(images)]
    yield from _pack(out, options, tiny, packed)
    yield from _extract(folder, packed, tiny_packed, [path for path, _ in images], options)


def _pack(out: Path, options: Sequence[str], tiny: Path, packed: Path) -> Iterator[Figure]:
    commands = {
        "start": fatpack("pack", "-q", f"--image=file={tiny},{TRIPLE}", "-o", out, outputs=[out], is_bulk=True),
        "cp": command("cp", packed, out, outputs=[out], is_bulk=True),
        "fatpack": fatpack("pack", "-q", *options, "-o", out, outputs=[out], is_bulk=True),
    }
    commands |= _llvm("llvm", *options, "-o", out, outputs=[out])
    samples = measure(commands, ROUNDS)
    yield _copy_ratio("pack 16 x 32 MB", samples["fatpack"], samples["start"], samples["cp"])
    yield memory("pack: peak", samples["fatpack"])
    yield against("pack: faster than", samples["fatpack"], samples.get("llvm"), "llvm-offload-binary")


def _extract(
    folder: Path, packed: Path, tiny: Path, images: Sequence[Path], options: Sequence[str]
) -> Iterator[Figure]:
    out = folder.with_name("one.cubin")
    copies = folder.with_name("copies")
    wanted = [f"--image=file={folder.with_name('copy')}{n},n={n}" for n in range(len(options))]
    files = [folder.with_name(f"copy{n}") for n in range(len(options))]
    first = ("--index", "0")
    copies.mkdir()
    commands = {
        "start": fatpack("extract", "-q", tiny, "-d", folder, outputs=[folder], is_bulk=True),
        "cp": command("cp", "-t", copies, *images, outputs=[copies / path.name for path in images], is_bulk=True),
        "fatpack": fatpack("extract", "-q", packed, "-d", folder, outputs=[folder], is_bulk=True),
        "start one": fatpack("extract", "-q", tiny, "--container", "0", *first, "-o", out, outputs=[out], is_bulk=True),
        "cp one": command("cp", images[7], out, outputs=[out], is_bulk=True),
        "one": fatpack("extract", "-q", packed, "--container", "7", *first, "-o", out, outputs=[out], is_bulk=True),
    }
    commands |= _llvm("llvm", packed, *wanted, outputs=files)
    commands |= _llvm("llvm one", packed, f"--image=file={out},n=7", outputs=[out])
    samples = measure(commands, ROUNDS)
    yield _copy_ratio("extract 16 x 32 MB", samples["fatpack"], samples["start"], samples["cp"])
    yield memory("extract: peak", samples["fatpack"])
    yield against("extract: faster than", samples["fatpack"], samples.get("llvm"), "llvm-offload-binary")
    yield _both_ratio("extract 1 of 16", samples["one"], samples["start one"], samples["cp one"])
    yield memory("extract 1 of 16: peak", samples["one"])
    yield against("extract 1 of 16: faster than", samples["one"], samples.get("llvm one"), "llvm-offload-binary")


def _llvm(name: str, *words: str | Path, outputs: Sequence[Path]) -> dict[str, Command]:
    path = peer("llvm-offload-binary")
    return {name: command(path, *words, outputs=outputs, is_bulk=True)} if path else {}


def _copy_ratio(what: str, ours: Sample, start: Sample, copy: Sample) -> Figure:
    facts = f"{milliseconds(ours)}, of them start-up {milliseconds(start)}; cp {milliseconds(copy)}"
    ratio = (ours.seconds - start.seconds) / copy.seconds
    return Figure(what, ratio, "x cp + start-up", 1.3, facts, peer="cp, without start-up")


def _both_ratio(what: str, ours: Sample, start: Sample, copy: Sample) -> Figure:
    # The copy is shorter than the start-up varies: what is left after subtracting would be noise.
    facts = f"{milliseconds(ours)}; start-up {milliseconds(start)}, cp {milliseconds(copy)}"
    ratio = ours.seconds / (start.seconds + copy.seconds)
    return Figure(what, ratio, "x (cp + start-up)", 1.3, facts, peer="cp + start-up")
