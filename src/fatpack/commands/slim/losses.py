"""What would be lost: containers left with nothing, or with nothing for the devices that they serve now."""

from __future__ import annotations

from fatpack.commands.slim import keep_for_device
from fatpack.commands.slim.rows import SIDE_BY_SIDE, image_form, image_set_key, is_host, matches_pattern
from fatpack.commands.slim.selection import UnsupportedContainer
from fatpack.errors import FormatError, Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.commands.slim.rows import ImageForDevice, SlimImage
    from fatpack.commands.slim.wishes import SlimOptions
    from fatpack.scanner import FoundContainer

#: kernels that are named of one container, and containers whose kernels are read for that
_MAX_KERNELS_NAMED, _READ = 5, 16


def find_idle_image_sets(served: Sequence[ImageForDevice]) -> frozenset[object]:
    """Return the keys of the units that no device has anything of, while others of the file serve one of their vendor.

    Nothing is lost with their code: a program that runs on the devices does not use it. A program of a kpack archive
    may run on a device with the code of another archive, and counts by itself.
    """
    busy = {image_set_key(one.first) for one in served if one.rows}
    vendors = {keep_for_device.target_vendor(one.first.image.target) for one in served if one.rows}
    return frozenset(
        image_set_key(one.first)
        for one in served
        if image_set_key(one.first) not in busy
        and one.first.found.format != "rocm-kpack"
        and keep_for_device.target_vendor(one.first.image.target) in vendors
    )


def find_removable_images(
    rows: Sequence[SlimImage], stays: Collection[int], idle: Collection[object], wishes: SlimOptions
) -> Iterator[SlimImage]:
    """Yield the images that stay for later devices alone in containers of which no device has anything.

    PTX stays where all of it was asked for, and so does all in a container with code for linkers, or that is named.
    """
    if wishes.ptx == "all":
        return
    kept: dict[object, list[SlimImage]] = {}
    for row in rows:
        if id(row.image) in stays and not is_host(row.image):
            kept.setdefault(_together(row), []).append(row)
    for left in kept.values():
        if all(image_set_key(row) in idle for row in left) and not _is_wanted(left, wishes):
            yield from left


def _is_wanted(left: Sequence[SlimImage], wishes: SlimOptions) -> bool:
    return any(
        matches_pattern(row.image, wishes.keep) or image_form(row.image) in keep_for_device.LINKED for row in left
    )


def find_emptied_containers(
    rows: Sequence[SlimImage], stays: Collection[int], served: Sequence[ImageForDevice], idle: Collection[object] = ()
) -> Iterator[UnsupportedContainer]:
    """Yield the containers that lose all device code, with the devices that nothing in them is for.

    What lies beside one that loses all may have code for the same runtime: then nothing is lost, and neither is it with
    the code of ``idle`` units.
    """
    count = 0
    devices: dict[int, dict[str, bool]] = {}
    for one in served:
        of_container = devices.setdefault(one.first.number, {})
        of_container[one.device] = not one.rows and of_container.get(one.device, True)
    alive = {image_set_key(row) for row in rows if row.found.format in SIDE_BY_SIDE and id(row.image) in stays}
    by_container: dict[tuple[int, str], list[SlimImage]] = {}
    for row in rows:
        if not is_host(row.image):
            # A kpack archive has the code of several programs, of which each is chosen from alone.
            program = row.image.attrs.get("binary", "") if row.found.format == "rocm-kpack" else ""
            by_container.setdefault((row.number, program), []).append(row)
    for (number, _), inside in by_container.items():
        if any(id(row.image) in stays for row in inside) or all(image_set_key(row) in alive for row in inside):
            continue
        if all(image_set_key(row) in idle for row in inside):
            continue
        if not _is_leftover(inside[0].found):
            count += 1
            named = [device for device, is_unserved in devices.get(number, {}).items() if is_unserved]
            yield _unserved(inside, number, ", ".join(named), names_kernels=count <= _READ)


def find_containers_losing_devices(
    served: Sequence[ImageForDevice], stays: Collection[int]
) -> Iterator[UnsupportedContainer]:
    """Yield the containers that serve a device now, and would not then."""
    count = 0
    for one in served:
        if one.rows and not any(id(row.image) in stays for row in one.rows):
            count += 1
            yield _unserved(one.rows, one.first.number, one.device, names_kernels=count <= _READ)


def find_useless_containers(
    rows: Sequence[SlimImage],
    stays: Collection[int],
    served: Sequence[ImageForDevice],
    wishes: SlimOptions,
    idle: Collection[object] = (),
) -> Iterator[UnsupportedContainer]:
    """Yield the containers that keep code, and none for any of the devices, which have nothing of them now either.

    Code that stays in ``idle`` units is what was asked for, or what others of the program need.
    """
    unserved: dict[object, dict[str, bool]] = {}
    for one in served:
        states = unserved.setdefault(_together(one.first), {})
        states[one.device] = not one.rows and states.get(one.device, True)
    kept: dict[object, list[SlimImage]] = {}
    for row in rows:
        if id(row.image) in stays and not is_host(row.image):
            kept.setdefault(_together(row), []).append(row)
    count = 0
    for key, states in unserved.items():
        devices = [device if is_unserved else "" for device, is_unserved in states.items()]
        left = kept.get(key, [])
        is_idle = all(image_set_key(row) in idle for row in left)
        if left and all(devices) and not is_idle and not _is_wanted(left, wishes) and not _is_leftover(left[0].found):
            count += 1
            yield _unserved(left, left[0].number, ", ".join(devices), names_kernels=count <= _READ)


def _together(row: SlimImage) -> object:
    """Return the key of what must be of use to one of the devices: a container, or what lies side by side."""
    return image_set_key(row) if row.found.format in SIDE_BY_SIDE else row.number


def _is_leftover(found: FoundContainer) -> bool:
    """Return whether a container is what a device link left in a program that had nothing to link."""
    if found.section is None:
        return False
    from fatpack.registration import records

    try:
        return found.format == "cuda-fatbin" and records.registers_nothing(found.view, found.view.start)
    except (FormatError, Unsupported):
        return False


def _unserved(rows: Sequence[SlimImage], number: int, device: str, *, names_kernels: bool) -> UnsupportedContainer:
    names: dict[str, None] = {}
    for row in rows if names_kernels else ():
        try:
            names |= dict.fromkeys(row.image.kernel_names)
        except (FormatError, Unsupported):  # its kernels cannot be read, and cannot be named
            continue
        if names:
            break
    return UnsupportedContainer(rows[0].found, number, device, tuple(list(names)[:_MAX_KERNELS_NAMED]), len(names))
