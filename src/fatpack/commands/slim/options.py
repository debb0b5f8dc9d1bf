"""What became of a file that was to be slimmed, and what that is in numbers."""

from __future__ import annotations

import re
from collections import Counter

from fatpack.commands.slim.rows import arch_label, is_host
from fatpack.exit_codes import FINDINGS, FINE, MALFORMED, exit_code, worst_exit_code
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.commands.slim.plan import SlimPlan
    from fatpack.commands.slim.rows import SlimImage
    from fatpack.errors import FatpackError
    from fatpack.io.source import Piece
    from fatpack.targets.devices import Device


class SlimOutcome(Record):
    """A file that was named or met: ``before`` and ``after`` are its sizes in bytes.

    ``output`` is the file that was written, "" for none. ``plan`` is None for one that failed, and ``error`` says why;
    ``is_told`` if the user was told that already.
    ``deflated`` are both sizes as they would be inside a wheel, None where nobody asked.
    """

    path: str
    before: int
    after: int
    output: str = ""
    plan: SlimPlan | None = None
    error: FatpackError | OSError | None = None
    deflated: tuple[int, int] | None = None
    is_told: bool = False

    @property
    def has_device_code(self) -> bool:
        """Whether the file has device code, or something that was not read."""
        plan = self.plan
        return plan is not None and bool(plan.kept or plan.dropped or plan.damaged or plan.unseen)


class UnsupportedDevice(Record):
    """A device that was asked for and that nothing in a run is for: it was not served before, either.

    ``paths`` are the files that have code for devices of its vendor, none where no file has.
    """

    device: Device
    paths: tuple[str, ...]


def find_unsupported_devices(
    outcomes: Sequence[SlimOutcome], devices: Sequence[Device]
) -> tuple[UnsupportedDevice, ...]:
    """Return the devices that no file of a run has anything for.

    None are returned where a file failed or is damaged, which may hold what serves them, and where no file has device
    code.
    """
    plans = [(item.path, item.plan) for item in outcomes if item.plan is not None]
    if len(plans) < len(outcomes) or any(plan.damaged for _, plan in plans) or not any(p.vendors for _, p in plans):
        return ()
    found = []
    for device in devices:
        about = [(path, plan) for path, plan in plans if device.vendor in plan.vendors]
        if all(device in plan.unserved for _, plan in about):
            found.append(UnsupportedDevice(device, tuple(path for path, _ in about)))
    return tuple(found)


def exit_code_for(outcomes: Sequence[SlimOutcome], devices: Sequence[Device]) -> int:
    """Return the exit code of a run: 0 if all that was asked for is done."""
    damaged = any(item.plan is not None and item.plan.damaged for item in outcomes)
    codes = [FINE, *(exit_code(item.error) for item in outcomes if item.error), *([MALFORMED] if damaged else [])]
    if find_unsupported_devices(outcomes, devices) or any(
        item.plan is not None and item.plan.undone for item in outcomes
    ):
        codes.append(FINDINGS)
    return worst_exit_code(codes)


def count_by_arch(rows: Iterable[SlimImage]) -> dict[str, int]:
    """Return how many images there are for each architecture, as patterns name it; hosts are not counted."""
    counts = Counter(arch_label(row.image) for row in rows if not is_host(row.image))
    return {name: counts[name] for name in sorted(counts, key=arch_sort_key)}


#: the number of an architecture: gfx90c has hexadecimal digits, sm_90a a letter behind decimal ones
_NUMBER = re.compile(r"gfx([0-9a-f]+)|[a-z]+_(\d+)")


def arch_sort_key(name: str) -> tuple[str, int, str]:
    """Return what architectures are sorted by: sm_90 comes before sm_100, gfx90c before gfx942."""
    match = _NUMBER.match(name)
    if match is None:
        return name, 0, name
    digits, base = (match[1], 16) if match[1] else (match[2], 10)
    return name[: match.start(match.lastindex or 0)], int(digits, base), name


def deflated_size(pieces: Sequence[Piece]) -> int:
    """Return how many bytes pieces take in a wheel: deflated as ``zip`` does it. Reads all of them."""
    import zlib

    packer = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    size = 0
    for piece in pieces:
        for part in [piece] if isinstance(piece, (bytes, bytearray, memoryview)) else piece.once():
            size += len(packer.compress(part))
    return size + len(packer.flush())
