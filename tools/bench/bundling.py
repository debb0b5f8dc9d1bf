"""Bundling and unbundling 0.9 GB, plain and compressed, against clang-offload-bundler, cp and zstd."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench import bundle_inputs
from tools.bench.measure import Command, Figure, against, command, fatpack, measure, memory, milliseconds, need, peer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from tools.bench.measure import Sample

ROUNDS = 3
SIZE = 128_000_000
BUNDLER = "clang-offload-bundler"

#: bundles that are compressed at once, and bytes of an image in them
SEVERAL, SMALLER = 16, 4_000_000


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    objects = bundle_inputs.code_objects(scratch, 113)
    padding = bundle_inputs.Padding(b"".join(objects.values()))
    files = []
    for arch, content in objects.items():
        files.append(scratch / f"{arch}.hsaco")
        with files[-1].open("wb") as file:
            file.write(content)
            for size in _steps(SIZE - len(content), 1 << 20):
                file.write(padding.take(size))
    targets = [f"hipv4-amdgcn-amd-amdhsa--{arch}" for arch in objects]
    packed = scratch / "plain.hipfb"
    yield from _bundle(scratch, files, targets, packed)
    yield from _unbundle(scratch, files, targets, packed)
    packed.unlink()
    yield from _compressed(scratch, files, targets)
    for path in files:
        path.unlink()
    yield from _several(scratch, objects)


def _steps(size: int, step: int) -> Iterator[int]:
    while size > 0:
        yield min(size, step)
        size -= step


def _words(files: Sequence[Path], targets: Sequence[str]) -> list[str]:
    names = ",".join(["host-x86_64-unknown-linux-gnu", *targets])
    return ["-type=o", "-bundle-align=4096", f"-targets={names}", "-input=/dev/null", *(f"-input={f}" for f in files)]


def _both(*words: str, outputs: Sequence[Path]) -> dict[str, Command]:
    """Return our command, and clang's if it is installed."""
    commands = {"fatpack": fatpack("tool", BUNDLER, *words, outputs=outputs, is_bulk=True)}
    path = peer(BUNDLER)
    return commands | ({"clang": command(path, *words, outputs=outputs, is_bulk=True)} if path else {})


def _bundle(scratch: Path, files: Sequence[Path], targets: Sequence[str], packed: Path) -> Iterator[Figure]:
    copy = scratch / "copy"
    commands = _both(*_words(files, targets), f"-output={packed}", outputs=[packed])
    # The last command of a round leaves the bundle for what follows.
    commands = {"cp": command("sh", "-c", 'cat "$@" > "$0"', copy, *files, outputs=[copy], is_bulk=True), **commands}
    samples = measure(commands, ROUNDS)
    copy.unlink()
    yield from _figures("bundle 0.9 GB", samples, "cat", at_least=3)


def _unbundle(scratch: Path, files: Sequence[Path], targets: Sequence[str], packed: Path) -> Iterator[Figure]:
    outputs = [scratch / f"{path.name}.out" for path in files]
    words = ["-type=o", "-unbundle", f"-input={packed}", f"-targets={','.join(targets)}"]
    commands = _both(*words, *(f"-output={path}" for path in outputs), outputs=outputs)
    copies = scratch / "copies"
    copies.mkdir()
    commands["cp"] = command("cp", "-t", copies, *files, outputs=[copies / path.name for path in files], is_bulk=True)
    samples = measure(commands, ROUNDS)
    for path in [*outputs, *copies.iterdir()]:
        path.unlink(missing_ok=True)
    yield from _figures("unbundle 0.9 GB", samples, "cp", at_least=3)


def _figures(what: str, samples: Mapping[str, Sample], copy: str, at_least: float | None) -> Iterator[Figure]:
    ours = samples["fatpack"]
    facts = f"{milliseconds(ours)}; {copy} {milliseconds(samples['cp'])}"
    yield Figure(what, ours.seconds / samples["cp"].seconds, f"x {copy}", None, facts, peer=copy)
    yield memory(f"{what}: peak", ours)
    yield against(f"{what}: faster than", ours, samples.get("clang"), BUNDLER, at_least=at_least)


def _compressed(scratch: Path, files: Sequence[Path], targets: Sequence[str]) -> Iterator[Figure]:
    packed = scratch / "compressed.hipfb"
    samples = measure(_both(*_words(files, targets), "-compress", f"-output={packed}", outputs=[packed]), 1)
    ours = samples["fatpack"]
    yield Figure("bundle and compress 0.9 GB", ours.seconds, "s", None, milliseconds(ours))
    yield memory("bundle and compress 0.9 GB: peak", ours, None)
    yield against("bundle and compress 0.9 GB: faster than", ours, samples.get("clang"), BUNDLER, at_least=1)

    outputs = [scratch / f"{path.name}.out" for path in files]
    words = ["-type=o", "-unbundle", f"-input={packed}", f"-targets={','.join(targets)}"]
    commands = _both(*words, *(f"-output={path}" for path in outputs), outputs=outputs)
    stream, inflated = bundle_inputs.stream(scratch / "stream.zst", packed), scratch / "inflated"
    commands["zstd"] = command(need("zstd"), "-d", "-q", stream, "-o", inflated, outputs=[inflated], is_bulk=True)
    samples = measure(commands, ROUNDS)
    for path in [*outputs, stream, inflated, packed]:
        path.unlink(missing_ok=True)
    ours, zstd = samples["fatpack"], samples["zstd"]
    facts = f"{milliseconds(ours)}; zstd -d {milliseconds(zstd)}, {zstd.peak / 1e6:.0f} MB"
    ratio = ours.seconds / zstd.seconds
    yield Figure("inflate and unbundle 0.9 GB", ratio, "x zstd -d", 1.3, facts, peer="zstd -d")
    yield memory("inflate and unbundle 0.9 GB: peak", ours, None)
    yield against("inflate and unbundle 0.9 GB: faster than", ours, samples.get("clang"), BUNDLER, at_least=1)


def _several(scratch: Path, objects: Mapping[str, bytes]) -> Iterator[Figure]:
    bundles = (bundle_inputs.bundle(bundle_inputs.images(scratch, objects, SMALLER, seed)) for seed in range(SEVERAL))
    library, out = bundle_inputs.library(scratch / "several.so", bundles), scratch / "several.hipfb"
    options = ("--format=bundle", "--bundle-align=4096", "--compress")
    convert = fatpack("convert", "-q", library, *options, "-o", out, outputs=[out], is_bulk=True)
    ours = measure({"fatpack": convert}, ROUNDS)["fatpack"]
    facts = f"{milliseconds(ours)}, {ours.peak / 1e6:.0f} MB"
    yield Figure(
        f"compress {SEVERAL} bundles of 28 MB: cores used", ours.processor / ours.seconds, "cores", None, facts
    )
