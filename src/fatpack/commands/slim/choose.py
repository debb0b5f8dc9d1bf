"""The images that stay and those that go, in every container of a file: what the wishes and the runtimes say."""

from __future__ import annotations

from fatpack.commands.slim import keep_for_device, losses
from fatpack.commands.slim.rows import (
    ImageForDevice,
    SlimImage,
    arch_label,
    group_into_image_sets,
    image_form,
    image_set_key,
    is_host,
    matches_pattern,
)
from fatpack.commands.slim.selection import ImageSelection
from fatpack.errors import pluralize
from fatpack.scanner import FoundContainer
from fatpack.targets.compatibility import HIP_SPIRV
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.selection.model import CandidateImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.commands.slim.wishes import SlimOptions
    from fatpack.model import Finding
    from fatpack.scanner import FoundImage
    from fatpack.targets.devices import Device
    from fatpack.targets.nvidia import NvidiaArch

#: formats that are not looked into: what they hold is no code that a runtime chooses from
_ASIDE = ("cir-offload-container",)

#: formats of which the position of an image decides, and not what it is for
_BY_POSITION = ("cuda-fatbin",)


class _Notes:
    """What to know, each thing said once with the number of containers that it is about."""

    def __init__(self) -> None:
        self._about: dict[str, set[int]] = {}

    def take(self, text: str, number: int) -> None:
        self._about.setdefault(text, set()).add(number)

    def forget(self, numbers: Collection[int]) -> None:
        """Take back what was said of some containers."""
        for about in self._about.values():
            about.difference_update(numbers)

    def lines(self) -> tuple[str, ...]:
        return tuple(
            f"{text} ({pluralize(len(numbers), 'container')})" for text, numbers in self._about.items() if numbers
        )


def choose_images(
    items: Sequence[FoundContainer | Finding],
    wishes: SlimOptions,
    *,
    all_minors: bool = False,
    together: Collection[int] = (),
    left: Collection[int] = (),
    gone: Collection[int] = (),
) -> ImageSelection:
    """Return what stays and what goes. Reads no image; kernels are named of containers that speak against it.

    ``all_minors`` keeps all that fits an NVIDIA device, for libraries that ask for kernels by name. The containers of
    ``together``, each by its ``id()``, keep the same architectures; those of ``left`` keep all. The images of ``gone``
    go, as those that ``wishes.drop`` names do.
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
    stays = {id(row.image) for row in rows if is_host(row.image) or row.found.format in _ASIDE or id(row.found) in left}
    for number, found in containers:
        if found.format in _ASIDE and wishes.drops:
            notes.take(f"a {found.format} stays as it is: compile it for fewer targets", number)
    served: list[ImageForDevice] = []
    for unit in group_into_image_sets([row for row in rows if id(row.image) not in stays]):
        stays |= _stay(unit, wishes, notes, served, gone, all_minors=all_minors)
    linked = [row for row in rows if id(row.found) in together]
    archs = {arch_label(row.image) for row in linked if id(row.image) in stays}
    stays |= {id(row.image) for row in linked if arch_label(row.image) in archs}
    idle = losses.find_idle_image_sets(served)
    movable = [row for row in rows if id(row.found) not in together and id(row.found) not in left]
    stays -= {id(row.image) for row in losses.find_removable_images(movable, stays, idle, wishes)}
    vacated = _vacated(rows, stays, idle)
    if vacated:
        notes.forget(vacated)
        devices = ", ".join(device.words for device in wishes.devices)
        for number in vacated:
            notes.take(f"nothing was for {devices} before: the code goes, and what is registered stays, empty", number)
    kept = tuple(row for row in rows if id(row.image) in stays)
    dropped = tuple(row for row in rows if id(row.image) not in stays)
    emptied, lost = (
        tuple(losses.find_emptied_containers(rows, stays, served, idle)),
        tuple(losses.find_containers_losing_devices(served, stays)),
    )
    useless = tuple(losses.find_useless_containers(rows, stays, served, wishes, idle))
    vendors = frozenset(keep_for_device.target_vendor(row.image.target) for row in rows if not is_host(row.image))
    unserved = tuple(_nowhere(rows, vendors, wishes))
    return ImageSelection(kept, dropped, emptied, lost, useless, notes.lines(), vendors, unserved, vacated)


def _vacated(rows: Sequence[SlimImage], stays: Collection[int], idle: Collection[object]) -> frozenset[int]:
    """Return the numbers of the containers that lose all device code, none of which was for a device."""
    inside: dict[int, list[SlimImage]] = {}
    for row in rows:
        if not is_host(row.image):
            inside.setdefault(row.number, []).append(row)
    return frozenset(
        number
        for number, found in inside.items()
        if all(image_set_key(row) in idle and id(row.image) not in stays for row in found)
    )


def _nowhere(rows: Sequence[SlimImage], vendors: Collection[str], wishes: SlimOptions) -> Iterator[Device]:
    """Yield the devices that nothing in a file is known to be for, although it has code for those of their vendors."""
    for device in wishes.devices:
        if device.vendor in vendors:
            # What is not chosen from may serve it all the same: code for linkers, and containers that are not slimmed.
            of_vendor = [row for row in rows if keep_for_device.target_vendor(row.image.target) == device.vendor]
            if not any(_has_any(unit, device) for unit in group_into_image_sets(of_vendor)):
                yield device


def _has_any(unit: Sequence[SlimImage], device: Device) -> bool:
    """Return whether a device takes something of a unit, linked first or not. What it may take does not count."""
    takes, _, _ = _for_device(unit, device, all_minors=False)
    return bool(takes or _for_linkers(unit, [device]))


def _stay(
    unit: Sequence[SlimImage],
    wishes: SlimOptions,
    notes: _Notes,
    served: list[ImageForDevice],
    gone: Collection[int],
    *,
    all_minors: bool,
) -> set[int]:
    """Return the ``id()`` of the images of a unit that stay; ``served`` gets what each device has of each container."""
    every = {id(row.image) for row in unit}
    vendor, number = keep_for_device.target_vendor(unit[0].image.target), unit[0].number
    devices = [device for device in wishes.devices if device.vendor == vendor]
    named = {id(row.image) for row in unit if matches_pattern(row.image, wishes.keep)}
    needed: set[int] = set()
    also: set[int] = set()
    if wishes.devices and not devices and not named and not _serves_others(unit[0].found, wishes.devices):
        left = _without_dropped(unit, every, wishes, gone)
        if left:
            notes.take(f"code for {_VENDORS[vendor]} devices stays: none of them is named", number)
        return left
    for device in devices:
        takes, may_take, doubt = _for_device(unit, device, all_minors=all_minors)
        needed |= {id(row.image) for row in takes}
        also |= {id(row.image) for row in may_take}
        served.append(ImageForDevice(unit[0], device.words, (*takes, *may_take)))
        if not takes:
            notes.take(f"{device.words} is not served, and was not before", number)
        if doubt:
            notes.take(f"{device.words}: {doubt}; all that may be taken stay", number)
    stays = needed | also | named | _for_linkers(unit, devices) if wishes.devices or wishes.keep else set(every)
    portable = {id(row.image) for row in unit if _is_portable(row.image)}
    stays = stays - portable | portable & _portable(unit, stays, needed | named, wishes)
    return _without_dropped(unit, stays, wishes, gone)


def _portable(unit: Sequence[SlimImage], stays: set[int], needed: set[int], wishes: SlimOptions) -> set[int]:
    """Return the images that stay if they are PTX or SPIR-V: what alone serves a device does in any case."""
    if wishes.ptx == "all":
        return {id(row.image) for row in unit} if wishes.devices or wishes.keep else stays
    if wishes.ptx == "none":
        return needed
    newest = {id(row.image) for row in _newest([row for row in unit if _is_portable(row.image)])}
    return newest | (stays if wishes.devices or wishes.keep else needed)


def _without_dropped(
    unit: Sequence[SlimImage], stays: Collection[int], wishes: SlimOptions, gone: Collection[int]
) -> set[int]:
    return {
        id(row.image)
        for row in unit
        if id(row.image) in stays and id(row.image) not in gone and not matches_pattern(row.image, wishes.drop)
    }


_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def _serves_others(found: FoundContainer, devices: Sequence[Device]) -> bool:
    """Return whether a container is for one of some devices with other images of it."""
    vendors = {device.vendor for device in devices}
    return any(not is_host(image) and keep_for_device.target_vendor(image.target) in vendors for image in found.images)


def _candidate(image: FoundImage) -> CandidateImage:
    target = image.target
    return CandidateImage(image_form(image), target.arch, target.triple, compression=image.compression)


def _for_device(
    unit: Sequence[SlimImage], device: Device, *, all_minors: bool
) -> tuple[list[SlimImage], list[SlimImage], str]:
    """Return the images that a device takes, those that it may take, and what is not known about it."""
    alike: dict[object, tuple[CandidateImage, list[SlimImage]]] = {}
    for row in unit:
        candidate = _candidate(row.image)
        key: object = (candidate.form == "ptx", candidate.triple, candidate.arch)
        alike.setdefault(id(row) if row.found.format in _BY_POSITION else key, (candidate, []))[1].append(row)
    groups = [rows for _, rows in alike.values()]
    found = keep_for_device.images_for_device(
        tuple(candidate for candidate, _ in alike.values()),
        unit[0].image.target.offload,
        device,
        is_kpack=unit[0].found.format == "rocm-kpack",
        all_minors=all_minors,
    )
    takes, may_take = ([row for at in sorted(part) for row in groups[at]] for part in (found.needed, found.also))
    return takes, may_take, found.doubt


def _for_linkers(unit: Sequence[SlimImage], devices: Sequence[Device]) -> set[int]:
    """Return the code for linkers that can become code for a device."""
    archs = [device.nvidia for device in devices]
    return {
        id(row.image)
        for row in unit
        if image_form(row.image) in keep_for_device.LINKED
        and any(keep_for_device.can_link_for(_candidate(row.image), arch) for arch in archs if arch is not None)
    }


def _is_portable(image: FoundImage) -> bool:
    """Return whether an image is compiled when it is loaded, for devices that nobody has thought of."""
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
