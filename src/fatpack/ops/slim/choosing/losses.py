"""What would be lost: containers left with nothing, or with nothing for the devices that they serve now."""

from __future__ import annotations

from fatpack.errors import FormatError, Unsupported
from fatpack.ops.slim.choosing import serving
from fatpack.ops.slim.choosing.rows import SIDE_BY_SIDE, form_of, is_host, matches, unit_of
from fatpack.ops.slim.choosing.selection import Unserved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.ops.slim.choosing.rows import Row, Taken
    from fatpack.ops.slim.wishes import Wishes
    from fatpack.scanner import Found

#: kernels that are named of one container, and containers whose kernels are read for that
_NAMED, _READ = 5, 16


def idle(served: Sequence[Taken]) -> frozenset[object]:
    """Return the keys of the units that no device has anything of, while others of the file serve one of their vendor.

    Nothing is lost with their code: a program that runs on the devices does not use it. A program of a kpack archive
    may run on a device with the code of another archive, and counts by itself.
    """
    busy = {unit_of(one.first) for one in served if one.rows}
    vendors = {serving.vendor_of(one.first.image.target) for one in served if one.rows}
    return frozenset(
        unit_of(one.first)
        for one in served
        if unit_of(one.first) not in busy
        and one.first.found.format != "rocm-kpack"
        and serving.vendor_of(one.first.image.target) in vendors
    )


def freed(rows: Sequence[Row], stays: Collection[int], idle: Collection[object], wishes: Wishes) -> Iterator[Row]:
    """Yield the images that stay for later devices alone in containers of which no device has anything.

    PTX stays where all of it was asked for, and so does all in a container with code for linkers, or that is named.
    """
    if wishes.ptx == "all":
        return
    kept: dict[object, list[Row]] = {}
    for row in rows:
        if id(row.image) in stays and not is_host(row.image):
            kept.setdefault(_together(row), []).append(row)
    for left in kept.values():
        if all(unit_of(row) in idle for row in left) and not _is_wanted(left, wishes):
            yield from left


def _is_wanted(left: Sequence[Row], wishes: Wishes) -> bool:
    return any(matches(row.image, wishes.keep) or form_of(row.image) in serving.LINKED for row in left)


def emptied(
    rows: Sequence[Row], stays: Collection[int], served: Sequence[Taken], idle: Collection[object] = ()
) -> Iterator[Unserved]:
    """Yield the containers that lose all device code, with the devices that nothing in them is for.

    What lies beside one that loses all may have code for the same runtime: then nothing is lost, and neither is it with
    the code of ``idle`` units.
    """
    count = 0
    devices: dict[int, dict[str, bool]] = {}
    for one in served:
        of_container = devices.setdefault(one.first.number, {})
        of_container[one.device] = not one.rows and of_container.get(one.device, True)
    alive = {unit_of(row) for row in rows if row.found.format in SIDE_BY_SIDE and id(row.image) in stays}
    by_container: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        if not is_host(row.image):
            # A kpack archive has the code of several programs, of which each is chosen from alone.
            program = row.image.attrs.get("binary", "") if row.found.format == "rocm-kpack" else ""
            by_container.setdefault((row.number, program), []).append(row)
    for (number, _), inside in by_container.items():
        if any(id(row.image) in stays for row in inside) or all(unit_of(row) in alive for row in inside):
            continue
        if all(unit_of(row) in idle for row in inside):
            continue
        if not _is_leftover(inside[0].found):
            count += 1
            named = [device for device, is_unserved in devices.get(number, {}).items() if is_unserved]
            yield _unserved(inside, number, ", ".join(named), names_kernels=count <= _READ)


def lost(served: Sequence[Taken], stays: Collection[int]) -> Iterator[Unserved]:
    """Yield the containers that serve a device now, and would not then."""
    count = 0
    for one in served:
        if one.rows and not any(id(row.image) in stays for row in one.rows):
            count += 1
            yield _unserved(one.rows, one.first.number, one.device, names_kernels=count <= _READ)


def useless(
    rows: Sequence[Row],
    stays: Collection[int],
    served: Sequence[Taken],
    wishes: Wishes,
    idle: Collection[object] = (),
) -> Iterator[Unserved]:
    """Yield the containers that keep code, and none for any of the devices, which have nothing of them now either.

    Code that stays in ``idle`` units is what was asked for, or what others of the program need.
    """
    unserved: dict[object, dict[str, bool]] = {}
    for one in served:
        states = unserved.setdefault(_together(one.first), {})
        states[one.device] = not one.rows and states.get(one.device, True)
    kept: dict[object, list[Row]] = {}
    for row in rows:
        if id(row.image) in stays and not is_host(row.image):
            kept.setdefault(_together(row), []).append(row)
    count = 0
    for key, states in unserved.items():
        devices = [device if is_unserved else "" for device, is_unserved in states.items()]
        left = kept.get(key, [])
        is_idle = all(unit_of(row) in idle for row in left)
        if left and all(devices) and not is_idle and not _is_wanted(left, wishes) and not _is_leftover(left[0].found):
            count += 1
            yield _unserved(left, left[0].number, ", ".join(devices), names_kernels=count <= _READ)


def _together(row: Row) -> object:
    """Return the key of what must be of use to one of the devices: a container, or what lies side by side."""
    return unit_of(row) if row.found.format in SIDE_BY_SIDE else row.number


def _is_leftover(found: Found) -> bool:
    """Return whether a container is what a device link left in a program that had nothing to link."""
    if found.section is None:
        return False
    from fatpack.runtime.registration import cuda

    try:
        return found.format == "cuda-fatbin" and cuda.has_nothing(found.view, found.view.start)
    except (FormatError, Unsupported):
        return False


def _unserved(rows: Sequence[Row], number: int, device: str, *, names_kernels: bool) -> Unserved:
    names: dict[str, None] = {}
    for row in rows if names_kernels else ():
        try:
            names |= dict.fromkeys(row.image.kernel_names)
        except (FormatError, Unsupported):  # its kernels cannot be read, and cannot be named
            continue
        if names:
            break
    return Unserved(rows[0].found, number, device, tuple(list(names)[:_NAMED]), len(names))
