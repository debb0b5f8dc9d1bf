"""The choice of images that stay and go in every container of a file, by the options and the runtimes' rules."""

from __future__ import annotations

from fatpack import formats
from fatpack.binary.section_names import DEVICE_LINK_SECTIONS
from fatpack.commands.slim import SlimRefused, keep_for_device
from fatpack.commands.slim.keep_for_device import (
    SIDE_BY_SIDE,
    ImageForDevice,
    ImageSelection,
    SlimImage,
    UnsupportedContainer,
    arch_label,
    group_into_image_sets,
    image_form,
    image_set_key,
    is_host,
    matches_pattern,
)
from fatpack.errors import FormatError, Unsupported, UsageError, cli_or_api, pluralize
from fatpack.scanner import FoundContainer
from fatpack.targets.compatibility import HIP_SPIRV
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.selection.model import CandidateImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.commands.slim.options import SlimOptions
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.scanner import FoundImage
    from fatpack.targets.devices import Device
    from fatpack.targets.nvidia import NvidiaArch


# Losses: containers left without an image, or without one for the devices that they serve now.

#: kernels that are named of one container, and containers whose kernels are read for that
_MAX_KERNELS_NAMED, _READ = 5, 16


def find_idle_image_sets(device_images: Sequence[ImageForDevice], vendors: Collection[str]) -> frozenset[object]:
    """Return the keys of the image sets that no device loads from, if other sets of the file serve the same vendor.

    ``vendors`` are the vendors whose devices the file serves. Nothing is lost with the code of idle image sets: a
    program that runs on the devices does not use it. A program of a kpack archive may run on a device with the code of
    another archive, so it is never idle.
    """
    busy = {image_set_key(one.first) for one in device_images if one.rows}
    return frozenset(
        image_set_key(one.first)
        for one in device_images
        if image_set_key(one.first) not in busy
        and one.first.found.format != "rocm-kpack"
        and keep_for_device.target_vendor(one.first.image.target) in vendors
    )


def find_removable_images(
    rows: Sequence[SlimImage], kept_ids: Collection[int], idle_sets: Collection[object], options: SlimOptions
) -> Iterator[SlimImage]:
    """Yield the images of idle image sets that were kept only for later devices.

    They stay if all PTX is to be kept, if the set has code for linkers, or if ``keep`` matches one of its images.
    """
    if options.ptx == "all":
        return
    kept: dict[object, list[SlimImage]] = {}
    for row in rows:
        if id(row.image) in kept_ids and not is_host(row.image):
            kept.setdefault(_container_key(row), []).append(row)
    for images in kept.values():
        if all(image_set_key(row) in idle_sets for row in images) and not _is_requested(images, options):
            yield from images


def _is_requested(images: Sequence[SlimImage], options: SlimOptions) -> bool:
    return any(
        matches_pattern(row.image, options.keep) or image_form(row.image) in keep_for_device.LINKED for row in images
    )


def find_emptied_containers(
    rows: Sequence[SlimImage],
    kept_ids: Collection[int],
    device_images: Sequence[ImageForDevice],
    idle_sets: Collection[object] = (),
) -> Iterator[UnsupportedContainer]:
    """Yield the containers that lose all device code, with the devices that nothing in them is for.

    A container is not yielded if a container of the same section keeps code for the same runtime, nor if all its images
    are in ``idle_sets``.
    """
    count = 0
    devices: dict[int, dict[str, bool]] = {}
    for one in device_images:
        of_container = devices.setdefault(one.first.number, {})
        of_container[one.device] = not one.rows and of_container.get(one.device, True)
    alive = {image_set_key(row) for row in rows if row.found.format in SIDE_BY_SIDE and id(row.image) in kept_ids}
    by_container: dict[tuple[int, str], list[SlimImage]] = {}
    for row in rows:
        if not is_host(row.image):
            # A kpack archive has the code of several programs, of which each is chosen from alone.
            program = row.image.attrs.get("binary", "") if row.found.format == "rocm-kpack" else ""
            by_container.setdefault((row.number, program), []).append(row)
    for (number, _), inside in by_container.items():
        if any(id(row.image) in kept_ids for row in inside) or all(image_set_key(row) in alive for row in inside):
            continue
        if all(image_set_key(row) in idle_sets for row in inside):
            continue
        if not _is_leftover(inside[0].found):
            count += 1
            matched = [device for device, is_unserved in devices.get(number, {}).items() if is_unserved]
            yield _unserved(inside, number, ", ".join(matched), names_kernels=count <= _READ)


def find_containers_losing_devices(
    device_images: Sequence[ImageForDevice], kept_ids: Collection[int]
) -> Iterator[UnsupportedContainer]:
    """Yield the containers that serve a device now, and would not serve it afterwards."""
    count = 0
    for one in device_images:
        if one.rows and not any(id(row.image) in kept_ids for row in one.rows):
            count += 1
            yield _unserved(one.rows, one.first.number, one.device, names_kernels=count <= _READ)


def find_useless_containers(
    rows: Sequence[SlimImage],
    kept_ids: Collection[int],
    device_images: Sequence[ImageForDevice],
    options: SlimOptions,
    idle_sets: Collection[object] = (),
) -> Iterator[UnsupportedContainer]:
    """Yield the containers that keep code although no device loads from them, before or after.

    Code that stays in ``idle_sets`` was requested, or is needed by other image sets of the program.
    """
    unserved: dict[object, dict[str, bool]] = {}
    for one in device_images:
        states = unserved.setdefault(_container_key(one.first), {})
        states[one.device] = not one.rows and states.get(one.device, True)
    kept: dict[object, list[SlimImage]] = {}
    for row in rows:
        if id(row.image) in kept_ids and not is_host(row.image):
            kept.setdefault(_container_key(row), []).append(row)
    count = 0
    for key, states in unserved.items():
        devices = [device if is_unserved else "" for device, is_unserved in states.items()]
        images = kept.get(key, [])
        is_idle = all(image_set_key(row) in idle_sets for row in images)
        if (
            images
            and all(devices)
            and not is_idle
            and not _is_requested(images, options)
            and not _is_leftover(images[0].found)
        ):
            count += 1
            yield _unserved(images, images[0].number, ", ".join(devices), names_kernels=count <= _READ)


def _container_key(row: SlimImage) -> object:
    """Return the key of a container, or of the containers of one section if a runtime chooses from all of them."""
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


#: formats that are not looked into: what they hold is no code that a runtime chooses from
_ASIDE = ("cir-offload-container",)

#: formats of which the position of an image decides, and not what it is for
_BY_POSITION = ("cuda-fatbin",)


class _Notes:
    """The notes, each once, with the number of containers that it is about."""

    def __init__(self) -> None:
        self._about: dict[str, set[int]] = {}

    def take(self, text: str, number: int) -> None:
        self._about.setdefault(text, set()).add(number)

    def forget(self, numbers: Collection[int]) -> None:
        """Take back the messages about some containers."""
        for about in self._about.values():
            about.difference_update(numbers)

    def lines(self) -> tuple[str, ...]:
        return tuple(
            f"{text} ({pluralize(len(numbers), 'container')})" for text, numbers in self._about.items() if numbers
        )


def choose_images(
    items: Sequence[FoundContainer | Finding],
    options: SlimOptions,
    *,
    all_minors: bool = False,
    same_archs: Collection[int] = (),
    untouched: Collection[int] = (),
    removed_ids: Collection[int] = (),
    in_data: Collection[int] = (),
) -> ImageSelection:
    """Return the images to keep and to drop. Reads no image, except kernel names of containers that are refused.

    ``all_minors`` keeps all that fits an NVIDIA device, for libraries that ask for kernels by name. The containers of
    ``same_archs`` keep the same architectures; those of ``untouched`` keep all images. A program's own code chooses
    from the containers of ``in_data``: they keep all that fits a device, and PTX for later ones. The images of
    ``removed_ids`` are dropped, like the images that ``options.drop`` matches. All four are sets of ``id()``, like the
    keys of ``ImageChanges``.
    """
    containers = [
        (number, found) for number, found in enumerate(item for item in items if isinstance(item, FoundContainer))
    ]
    rows = [
        SlimImage(number, index, found, image)
        for number, found in containers
        for index, image in enumerate(found.images)
    ]
    notes = _Notes()
    kept_ids = {
        id(row.image) for row in rows if is_host(row.image) or row.found.format in _ASIDE or id(row.found) in untouched
    }
    for number, found in containers:
        if found.format in _ASIDE and options.drops:
            notes.take(f"a {found.format} is not changed: compile it for fewer targets", number)
    device_images: list[ImageForDevice] = []
    for image_set in group_into_image_sets([row for row in rows if id(row.image) not in kept_ids]):
        is_in_data = id(image_set[0].found) in in_data
        # The newest PTX of one container says nothing about those from which the program's code chooses.
        own = options.replace(keep_ptx="all") if is_in_data and options.ptx == "newest" else options
        kept_ids |= _kept_ids_of_set(
            image_set, own, _Notes() if is_in_data else notes, device_images, removed_ids,
            all_minors=all_minors or is_in_data,
        )  # fmt: skip
        if is_in_data:
            kept_ids |= {id(row.image) for row in image_set if parse_nvidia(row.image.target.arch) is None}
    linked = [row for row in rows if id(row.found) in same_archs]
    archs = {arch_label(row.image) for row in linked if id(row.image) in kept_ids}
    kept_ids |= {id(row.image) for row in linked if arch_label(row.image) in archs}
    # A library that chooses its containers by itself, as cuFFT does, keeps them all, and they serve its devices.
    untouched_sets = list(
        group_into_image_sets([row for row in rows if id(row.found) in untouched and not is_host(row.image)])
    )
    # Only the result of a device link is loaded, not its input (rule C14 of ``explain``).
    inputs = _device_link_inputs([found for _, found in containers if id(found) in same_archs])
    loaded = [one.first.image.target for one in device_images if one.rows and id(one.first.found) not in inputs]
    serving = {*_served_vendors(untouched_sets, options.devices), *map(keep_for_device.target_vendor, loaded)}
    idle_sets = find_idle_image_sets(device_images, serving)
    asis = {*same_archs, *untouched, *in_data}
    movable = [row for row in rows if id(row.found) not in asis]
    kept_ids -= {id(row.image) for row in find_removable_images(movable, kept_ids, idle_sets, options)}
    vacated = _vacated_containers(rows, kept_ids, idle_sets)
    if vacated:
        notes.forget(vacated)
        devices = ", ".join(device.words for device in options.devices)
        for number in vacated:
            notes.take(f"no code for {devices}, before and after: the container stays, empty", number)
    kept = tuple(row for row in rows if id(row.image) in kept_ids)
    dropped = tuple(row for row in rows if id(row.image) not in kept_ids)
    emptied, lost = (
        tuple(find_emptied_containers(rows, kept_ids, device_images, idle_sets)),
        tuple(find_containers_losing_devices(device_images, kept_ids)),
    )
    registered = [row for row in rows if id(row.found) not in in_data]
    useless = tuple(find_useless_containers(registered, kept_ids, device_images, options, idle_sets))
    vendors = frozenset(keep_for_device.target_vendor(row.image.target) for row in rows if not is_host(row.image))
    unserved = tuple(_unsupported_devices([row for row in rows if id(row.found) not in inputs], vendors, options))
    needed = frozenset(id(row.image) for one in device_images for row in one.needed)
    return ImageSelection(kept, dropped, emptied, lost, useless, notes.lines(), vendors, unserved, vacated, needed)


def _device_link_inputs(linked: Sequence[FoundContainer]) -> frozenset[int]:
    """Return the ``id()`` of the containers that a device link read, if its result is in the file too."""
    inputs = frozenset(id(found) for found in linked if found.section in DEVICE_LINK_SECTIONS)
    return inputs if len(inputs) < len(linked) else frozenset()


def _vacated_containers(
    rows: Sequence[SlimImage], kept_ids: Collection[int], idle_sets: Collection[object]
) -> frozenset[int]:
    """Return the numbers of the containers that lose all device code, none of which was for a device."""
    inside: dict[int, list[SlimImage]] = {}
    for row in rows:
        if not is_host(row.image):
            inside.setdefault(row.number, []).append(row)
    return frozenset(
        number
        for number, found in inside.items()
        if all(image_set_key(row) in idle_sets and id(row.image) not in kept_ids for row in found)
    )


def _unsupported_devices(rows: Sequence[SlimImage], vendors: Collection[str], options: SlimOptions) -> Iterator[Device]:
    """Yield the devices that nothing in a file is known to be for, although it has code for those of their vendors."""
    for device in options.devices:
        if device.vendor in vendors:
            # Images that are not candidates may still serve it: code for linkers, and containers that are not slimmed.
            of_vendor = [row for row in rows if keep_for_device.target_vendor(row.image.target) == device.vendor]
            if not any(_has_any(image_set, device) for image_set in group_into_image_sets(of_vendor)):
                yield device


def _served_vendors(image_sets: Sequence[Sequence[SlimImage]], devices: Sequence[Device]) -> set[str]:
    """Return the vendors of the devices that load an image of one of the sets."""
    vendor = keep_for_device.target_vendor
    return {
        device.vendor
        for device in devices
        if any(
            vendor(image_set[0].image.target) == device.vendor and _has_any(image_set, device)
            for image_set in image_sets
        )
    }


def _has_any(image_set: Sequence[SlimImage], device: Device) -> bool:
    """Return whether a device certainly loads an image of a set, as it is or linked."""
    takes, _, _ = _for_device(image_set, device, all_minors=False)
    return bool(takes or _for_linkers(image_set, [device]))


def _kept_ids_of_set(
    image_set: Sequence[SlimImage],
    options: SlimOptions,
    notes: _Notes,
    device_images: list[ImageForDevice],
    removed_ids: Collection[int],
    *,
    all_minors: bool,
) -> set[int]:
    """Return the ``id()`` of the images of a set that stay; appends the images for each device to ``device_images``."""
    all_ids = {id(row.image) for row in image_set}
    vendor, number = keep_for_device.target_vendor(image_set[0].image.target), image_set[0].number
    devices = [device for device in options.devices if device.vendor == vendor]
    matched = {id(row.image) for row in image_set if matches_pattern(row.image, options.keep)}
    needed: set[int] = set()
    possible: set[int] = set()
    if options.devices and not devices and not matched and not _serves_others(image_set[0].found, options.devices):
        remaining = _without_dropped(image_set, all_ids, options, removed_ids)
        if remaining:
            notes.take(f"code for {_VENDORS[vendor]} devices is kept, as no such device is given", number)
        return remaining
    for device in devices:
        takes, may_take, doubt = _for_device(image_set, device, all_minors=all_minors)
        needed |= {id(row.image) for row in takes}
        possible |= {id(row.image) for row in may_take}
        device_images.append(ImageForDevice(image_set[0], device.words, (*takes, *may_take), tuple(takes)))
        if not takes:
            notes.take(f"{device.words} has no code to run, and had none before", number)
        if doubt:
            notes.take(f"{device.words}: {doubt}; all candidates are kept", number)
    kept_ids = (
        needed | possible | matched | _for_linkers(image_set, devices)
        if options.devices or options.keep
        else set(all_ids)
    )
    portable = {id(row.image) for row in image_set if _is_portable(row.image)}
    kept_ids = kept_ids - portable | portable & _portable(image_set, kept_ids, needed | matched, options)
    return _without_dropped(image_set, kept_ids, options, removed_ids)


def _portable(image_set: Sequence[SlimImage], kept_ids: set[int], needed: set[int], options: SlimOptions) -> set[int]:
    """Return the PTX and SPIR-V images that stay: always an image that is the only one for a device."""
    if options.ptx == "all":
        return {id(row.image) for row in image_set} if options.devices or options.keep else kept_ids
    if options.ptx == "none":
        return needed
    newest = {id(row.image) for row in _newest([row for row in image_set if _is_portable(row.image)])}
    return newest | (kept_ids if options.devices or options.keep else needed)


def _without_dropped(
    image_set: Sequence[SlimImage], kept_ids: Collection[int], options: SlimOptions, removed_ids: Collection[int]
) -> set[int]:
    return {
        id(row.image)
        for row in image_set
        if id(row.image) in kept_ids
        and id(row.image) not in removed_ids
        and not matches_pattern(row.image, options.drop)
    }


_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel", "apple": "Apple"}


def _serves_others(found: FoundContainer, devices: Sequence[Device]) -> bool:
    """Return whether a container is for one of some devices with other images of it."""
    vendors = {device.vendor for device in devices}
    return any(not is_host(image) and keep_for_device.target_vendor(image.target) in vendors for image in found.images)


def _candidate(image: FoundImage) -> CandidateImage:
    target = image.target
    return CandidateImage(image_form(image), target.arch, target.triple, compression=image.compression)


def _for_device(
    image_set: Sequence[SlimImage], device: Device, *, all_minors: bool
) -> tuple[list[SlimImage], list[SlimImage], str]:
    """Return the images that a device takes, the images that it may take, and what is unknown about it."""
    alike: dict[object, tuple[CandidateImage, list[SlimImage]]] = {}
    for row in image_set:
        candidate = _candidate(row.image)
        key: object = (candidate.form == "ptx", candidate.triple, candidate.arch)
        alike.setdefault(id(row) if row.found.format in _BY_POSITION else key, (candidate, []))[1].append(row)
    groups = [rows for _, rows in alike.values()]
    found = keep_for_device.images_for_device(
        tuple(candidate for candidate, _ in alike.values()),
        image_set[0].image.target.offload,
        device,
        is_kpack=image_set[0].found.format == "rocm-kpack",
        all_minors=all_minors,
    )
    takes, may_take = ([row for at in sorted(part) for row in groups[at]] for part in (found.needed, found.possible))
    return takes, may_take, found.doubt


def _for_linkers(image_set: Sequence[SlimImage], devices: Sequence[Device]) -> set[int]:
    """Return the code for linkers that can become code for a device."""
    archs = [device.nvidia for device in devices]
    return {
        id(row.image)
        for row in image_set
        if image_form(row.image) in keep_for_device.LINKED
        and any(keep_for_device.can_link_for(_candidate(row.image), arch) for arch in archs if arch is not None)
    }


def _is_portable(image: FoundImage) -> bool:
    """Return whether an image is compiled when it is loaded, also for devices that are still unknown."""
    return image.form == "ptx" or image.target.arch == HIP_SPIRV or image.form == "spirv"


def _newest(portable: Sequence[SlimImage]) -> list[SlimImage]:
    """Return the PTX for the highest architecture that later devices can take, and all SPIR-V."""
    texts = [(arch.number, row) for row in portable if (arch := _plain(row.image)) is not None]
    highest = max((number for number, _ in texts), default=0)
    return [
        *(row for number, row in texts if number == highest),
        *(row for row in portable if row.image.form != "ptx"),
    ]


def _plain(image: FoundImage) -> NvidiaArch | None:
    """Return what PTX is for if any later device can take it, too."""
    arch = parse_nvidia(image.target.arch) if image.form == "ptx" else None
    return arch if arch is not None and not arch.suffix else None


# Refusals: options that would leave a container or a device without code. Messages name kernels.

#: containers that a refusal names
_MAX_CONTAINERS_NAMED = 3


def refuse_losses(selection: ImageSelection, options: SlimOptions, view: View) -> None:
    """Raise SlimRefused for containers that would be left with nothing, unless that is allowed.

    Patterns that keep nothing are refused, too.
    """
    _refuse_slip(selection, options, view)
    wrong = selection.refused
    if not wrong or options.allow_empty:
        return
    matched = "; ".join(one.words for one in wrong[:_MAX_CONTAINERS_NAMED])
    more = f"; and {len(wrong) - _MAX_CONTAINERS_NAMED} more" if len(wrong) > _MAX_CONTAINERS_NAMED else ""
    raise SlimRefused(
        f"{_loss(selection)}: {matched}{more}",
        wrong,
        hint=_what_to_type(selection),
        chain=view.chain,
    )


def _what_to_type(selection: ImageSelection) -> str:
    """Return the options with which a refused file is slimmed after all, each with what becomes of its containers."""
    wrong = selection.refused
    kept = ",".join(filter(None, dict.fromkeys(_arch_to_keep(one) for one in wrong)))
    keep = cli_or_api(f"--keep {kept}", f"keep={kept!r}")
    empty = cli_or_api("--allow-empty", "allow_empty=True")
    them = pluralize(len(wrong), "container")
    if not all(_can_be_emptied(one.found) for one in wrong):
        return f"{keep} keeps code in {them}"
    if selection.lost or not all(one.device for one in wrong):
        return f"{keep} keeps code in {them}; {empty} empties {them}, and their kernels fail then"
    devices = ", ".join(dict.fromkeys(name for one in wrong for name in one.device.split(", ")))
    fails = f"whose kernels fail on {devices} as it is"
    return f"{empty} empties {them}, {fails}; {keep} leaves code for {kept} there; both slim the rest of the file"


def _arch_to_keep(container: UnsupportedContainer) -> str:
    """Return the architecture of a container that serves most devices to come: its newest, or the last that is named.

    Machine code without a suffix comes first; "" if there is no name.
    """
    archs = [arch for image in container.found.images if (arch := parse_nvidia(image.target.arch))]
    newest = max([arch for arch in archs if not arch.suffix] or archs, key=_number, default=None)
    if newest is not None:
        return f"sm_{newest.number}{newest.suffix}"
    return next(filter(None, reversed(container.archs)), "")


def _can_be_emptied(found: FoundContainer) -> bool:
    """Return whether the format is written without images.

    A Metal library that was read is not, nor is an offload binary of version 1.
    """
    if found.container.is_fat_object:
        return True  # its sections are removed
    try:
        for _ in formats.get_format(found.container.format).write(found.container.replace(images=())):
            pass
    except (Unsupported, UsageError):
        return False
    return True


def _number(arch: NvidiaArch) -> int:
    return arch.number


def _refuse_slip(selection: ImageSelection, options: SlimOptions, view: View) -> None:
    """Raise SlimRefused if only patterns select what stays and none matches: everything except PTX would be dropped."""
    rows = [row for row in (*selection.kept, *selection.dropped) if not is_host(row.image)]
    if options.devices or not options.keep or not rows or any(matches_pattern(row.image, options.keep) for row in rows):
        return
    rows.sort(key=lambda row: (row.number, row.index))
    archs = ", ".join(dict.fromkeys(arch_label(row.image) for row in rows))
    option = cli_or_api("--keep", "keep=")
    raise SlimRefused(
        f"nothing in it is {' or '.join(options.keep)}: it has {archs}",
        (),
        hint=f"{option} keeps what it names; {cli_or_api('--drop', 'drop=')} removes it",
        chain=view.chain,
    )


def _loss(selection: ImageSelection) -> str:
    """Return what containers would lack in words, and what they have."""
    wrong = selection.refused
    devices = ", ".join(dict.fromkeys(name for one in wrong for name in one.device.split(", ") if name))
    archs = ", ".join(dict.fromkeys(arch for one in wrong for arch in one.archs))
    count = pluralize(len(wrong), "container")
    verb = "has" if len(wrong) == 1 else "have"
    if selection.lost:
        return f"{count} would no longer run on {devices}, and {verb} {archs}"
    if selection.emptied and not all(one.device for one in wrong):
        return f"{count} would have no device code left, and {verb} {archs}"
    # Of a device link only the result is loaded: what it was made of runs nowhere by itself.
    every = {id(row.found): row.found for row in (*selection.kept, *selection.dropped)}
    inputs = _device_link_inputs(list(every.values()))
    loaded = {row.number for row in selection.kept if not is_host(row.image) and id(row.found) not in inputs}
    others = loaded - {one.number for one in wrong}
    where = f"{count} of {len(others) + len(wrong)}" if others else "the file"
    return f"nothing in {where} runs on {devices}: {count} {verb} {archs}"
