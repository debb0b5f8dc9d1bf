"""The images that stay and those that go, in every container of a file: what the wishes and the runtimes say."""

from __future__ import annotations

from fatpack.errors import counted
from fatpack.ops.slim.choosing import losses, serving
from fatpack.ops.slim.choosing.rows import Row, Taken, form_of, is_host, matches, spelled, unit_of, units
from fatpack.ops.slim.choosing.selection import Selection
from fatpack.scanner import Found
from fatpack.target.choice.answer import Candidate
from fatpack.target.compatibility import HIP_SPIRV
from fatpack.target.nvidia import parse_nvidia

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.model import Finding
    from fatpack.ops.slim.wishes import Wishes
    from fatpack.scanner import FoundImage
    from fatpack.target.devices import Device
    from fatpack.target.nvidia import NvidiaArch

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
            f"{text} ({counted(len(numbers), 'container')})" for text, numbers in self._about.items() if numbers
        )


def select(
    items: Sequence[Found | Finding],
    wishes: Wishes,
    *,
    all_minors: bool = False,
    together: Collection[int] = (),
    left: Collection[int] = (),
    gone: Collection[int] = (),
) -> Selection:
    """Return what stays and what goes. Reads no image; kernels are named of containers that speak against it.

    ``all_minors`` keeps all that fits an NVIDIA device, for libraries that ask for kernels by name. The containers of
    ``together``, each by its ``id()``, keep the same architectures; those of ``left`` keep all. The images of ``gone``
    go, as those that ``wishes.drop`` names do.
    """
    containers = [(number, found) for number, found in enumerate(item for item in items if isinstance(item, Found))]
    rows = [
        Row(number, index, found, image) for number, found in containers for index, image in enumerate(found.images)
    ]
    notes = _Notes()
    stays = {id(row.image) for row in rows if is_host(row.image) or row.found.format in _ASIDE or id(row.found) in left}
    for number, found in containers:
        if found.format in _ASIDE and wishes.drops:
            notes.take(f"a {found.format} stays as it is: compile it for fewer targets", number)
    served: list[Taken] = []
    for unit in units([row for row in rows if id(row.image) not in stays]):
        stays |= _stay(unit, wishes, notes, served, gone, all_minors=all_minors)
    linked = [row for row in rows if id(row.found) in together]
    archs = {spelled(row.image) for row in linked if id(row.image) in stays}
    stays |= {id(row.image) for row in linked if spelled(row.image) in archs}
    idle = losses.idle(served)
    movable = [row for row in rows if id(row.found) not in together and id(row.found) not in left]
    stays -= {id(row.image) for row in losses.freed(movable, stays, idle, wishes)}
    vacated = _vacated(rows, stays, idle)
    if vacated:
        notes.forget(vacated)
        devices = ", ".join(device.words for device in wishes.devices)
        for number in vacated:
            notes.take(f"nothing was for {devices} before: the code goes, and what is registered stays, empty", number)
    kept = tuple(row for row in rows if id(row.image) in stays)
    dropped = tuple(row for row in rows if id(row.image) not in stays)
    emptied, lost = tuple(losses.emptied(rows, stays, served, idle)), tuple(losses.lost(served, stays))
    useless = tuple(losses.useless(rows, stays, served, wishes, idle))
    vendors = frozenset(serving.vendor_of(row.image.target) for row in rows if not is_host(row.image))
    unserved = tuple(_nowhere(rows, vendors, wishes))
    return Selection(kept, dropped, emptied, lost, useless, notes.lines(), vendors, unserved, vacated)


def _vacated(rows: Sequence[Row], stays: Collection[int], idle: Collection[object]) -> frozenset[int]:
    """Return the numbers of the containers that lose all device code, none of which was for a device."""
    inside: dict[int, list[Row]] = {}
    for row in rows:
        if not is_host(row.image):
            inside.setdefault(row.number, []).append(row)
    return frozenset(
        number
        for number, found in inside.items()
        if all(unit_of(row) in idle and id(row.image) not in stays for row in found)
    )


def _nowhere(rows: Sequence[Row], vendors: Collection[str], wishes: Wishes) -> Iterator[Device]:
    """Yield the devices that nothing in a file is known to be for, although it has code for those of their vendors."""
    for device in wishes.devices:
        if device.vendor in vendors:
            # What is not chosen from may serve it all the same: code for linkers, and containers that are not slimmed.
            of_vendor = [row for row in rows if serving.vendor_of(row.image.target) == device.vendor]
            if not any(_has_any(unit, device) for unit in units(of_vendor)):
                yield device


def _has_any(unit: Sequence[Row], device: Device) -> bool:
    """Return whether a device takes something of a unit, linked first or not. What it may take does not count."""
    takes, _, _ = _for_device(unit, device, all_minors=False)
    return bool(takes or _for_linkers(unit, [device]))


def _stay(
    unit: Sequence[Row],
    wishes: Wishes,
    notes: _Notes,
    served: list[Taken],
    gone: Collection[int],
    *,
    all_minors: bool,
) -> set[int]:
    """Return the ``id()`` of the images of a unit that stay; ``served`` gets what each device has of each container."""
    every = {id(row.image) for row in unit}
    vendor, number = serving.vendor_of(unit[0].image.target), unit[0].number
    devices = [device for device in wishes.devices if device.vendor == vendor]
    named = {id(row.image) for row in unit if matches(row.image, wishes.keep)}
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
        served.append(Taken(unit[0], device.words, (*takes, *may_take)))
        if not takes:
            notes.take(f"{device.words} is not served, and was not before", number)
        if doubt:
            notes.take(f"{device.words}: {doubt}; all that may be taken stay", number)
    stays = needed | also | named | _for_linkers(unit, devices) if wishes.devices or wishes.keep else set(every)
    portable = {id(row.image) for row in unit if _is_portable(row.image)}
    stays = stays - portable | portable & _portable(unit, stays, needed | named, wishes)
    return _without_dropped(unit, stays, wishes, gone)


def _portable(unit: Sequence[Row], stays: set[int], needed: set[int], wishes: Wishes) -> set[int]:
    """Return the images that stay if they are PTX or SPIR-V: what alone serves a device does in any case."""
    if wishes.ptx == "all":
        return {id(row.image) for row in unit} if wishes.devices or wishes.keep else stays
    if wishes.ptx == "none":
        return needed
    newest = {id(row.image) for row in _newest([row for row in unit if _is_portable(row.image)])}
    return newest | (stays if wishes.devices or wishes.keep else needed)


def _without_dropped(unit: Sequence[Row], stays: Collection[int], wishes: Wishes, gone: Collection[int]) -> set[int]:
    return {
        id(row.image)
        for row in unit
        if id(row.image) in stays and id(row.image) not in gone and not matches(row.image, wishes.drop)
    }


_VENDORS = {"nvidia": "NVIDIA", "amd": "AMD", "intel": "Intel"}


def _serves_others(found: Found, devices: Sequence[Device]) -> bool:
    """Return whether a container is for one of some devices with other images of it."""
    vendors = {device.vendor for device in devices}
    return any(not is_host(image) and serving.vendor_of(image.target) in vendors for image in found.images)


def _candidate(image: FoundImage) -> Candidate:
    target = image.target
    return Candidate(form_of(image), target.arch, target.triple, compression=image.compression)


def _for_device(unit: Sequence[Row], device: Device, *, all_minors: bool) -> tuple[list[Row], list[Row], str]:
    """Return the images that a device takes, those that it may take, and what is not known about it."""
    alike: dict[object, tuple[Candidate, list[Row]]] = {}
    for row in unit:
        candidate = _candidate(row.image)
        key: object = (candidate.form == "ptx", candidate.triple, candidate.arch)
        alike.setdefault(id(row) if row.found.format in _BY_POSITION else key, (candidate, []))[1].append(row)
    groups = [rows for _, rows in alike.values()]
    found = serving.served(
        tuple(candidate for candidate, _ in alike.values()),
        unit[0].image.target.offload,
        device,
        is_kpack=unit[0].found.format == "rocm-kpack",
        all_minors=all_minors,
    )
    takes, may_take = ([row for at in sorted(part) for row in groups[at]] for part in (found.needed, found.also))
    return takes, may_take, found.doubt


def _for_linkers(unit: Sequence[Row], devices: Sequence[Device]) -> set[int]:
    """Return the code for linkers that can become code for a device."""
    archs = [device.nvidia for device in devices]
    return {
        id(row.image)
        for row in unit
        if form_of(row.image) in serving.LINKED
        and any(serving.links_for(_candidate(row.image), arch) for arch in archs if arch is not None)
    }


def _is_portable(image: FoundImage) -> bool:
    """Return whether an image is compiled when it is loaded, for devices that nobody has thought of."""
    return image.form == "ptx" or image.target.arch == HIP_SPIRV or image.form == "spirv"


def _newest(portable: Sequence[Row]) -> list[Row]:
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
