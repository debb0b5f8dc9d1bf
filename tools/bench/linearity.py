"""Linear time: twice the bytes take twice as long, on files made to be slow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench import inputs
from tools.bench.measure import Figure, fatpack, measure, memory, milliseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

ROUNDS = 3


def run(scratch: Path) -> Iterator[Figure]:
    """Yield the figures."""
    yield from _doublings("a container, then bytes without any magic", "MB", (256, 512, 1024), scratch, _no_magic, 64)
    # Every container found is in the report, so memory grows with their number: no target.
    yield from _doublings("containers with gaps of 16 zero bytes", "containers", (5000, 10_000, 20_000), scratch, _gaps)


def _no_magic(path: Path, size: int) -> None:
    inputs.filler(path, size << 20, head=inputs.SMALL_CONTAINER.read_bytes())


def _gaps(path: Path, count: int) -> None:
    path.write_bytes((inputs.ONE_CONTAINER.read_bytes() + bytes(16)) * count)


def _doublings(
    what: str,
    unit: str,
    sizes: Sequence[int],
    scratch: Path,
    make: Callable[[Path, int], None],
    peak_limit: float | None = None,
) -> Iterator[Figure]:
    paths = [scratch / f"{size}.bin" for size in sizes]
    for path, size in zip(paths, sizes, strict=True):
        make(path, size)
    commands = {path.name: fatpack("inspect", path, codes=(0, 1)) for path in paths}
    commands["start"] = fatpack("inspect", inputs.SMALL_CONTAINER)
    samples = measure(commands, ROUNDS)
    start = samples["start"].seconds
    for less, more, size in zip(paths, paths[1:], sizes[1:], strict=False):
        one, two = samples[less.name], samples[more.name]
        # A time that is not measurable above the start-up has no meaningful factor.
        ratio = (two.seconds - start) / max(one.seconds - start, 0.005)
        facts = f"{milliseconds(one)}, then {milliseconds(two)}"
        yield Figure(f"inspect {size} {unit}: {what}", ratio, "x half of it", 2.4, facts)
    yield memory(f"{what}: peak", samples[paths[-1].name], peak_limit)
    for path in paths:
        path.unlink()
