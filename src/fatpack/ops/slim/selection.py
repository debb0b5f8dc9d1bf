"""The images that stay and those that go, in every container of a file, and what speaks against it.

A runtime chooses from one container; of offload binaries, whose images lie side by side in a section, from all of a
section. Images of one container that are for different programming models or vendors are chosen from apart.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

from fatpack.errors import FormatError, Unsupported, counted
from fatpack.ops.slim import serving
from fatpack.record import Record
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

#: formats whose containers of one section are chosen from together
_SIDE_BY_SIDE = ("llvm-offload-binary", "syclbin")

#: formats that are not looked into: what they hold is no code that a runtime chooses from
_ASIDE = ("cir-offload-container",)

#: formats of which the position of an image decides, and not what it is for
_BY_POSITION = ("cuda-fatbin",)

#: kernels that are named of one container, and containers whose kernels are read for that
_NAMED, _READ = 5, 16

#: kernels of a container that a message names, and characters of each
_SHOWN, _WIDTH = 3, 60


class Row(Record):
    """An image, where it is (``number`` of its container, ``index`` in there, as ``inspect`` prints them)."""

    number: int
    index: int
    found: Found
    image: FoundImage

    @property
    def position(self) -> str:
        """The position as ``inspect`` prints it: ``2.0``."""
        return f"{self.number}.{self.index}"


class Unserved(Record):
    """A container that would be of no use: to a device, or to any (``device`` is "").

    ``kernels`` are the names of some that are lost, ``kernel_count`` how many there are; of containers behind the
    first ones they are not read.
    """

    found: Found
    number: int
    device: str
    kernels: tuple[str, ...]
    kernel_count: int

    @property
    def words(self) -> str:
        """The container and its kernels in words."""
        place = f" in {self.found.section}" if self.found.section else ""
        named = [name if len(name) <= _WIDTH else f"{name[: _WIDTH - 1]}…" for name in self.kernels[:_SHOWN]]
        more = f" and {self.kernel_count - len(named)} more" if self.kernel_count > len(named) else ""
        kernels = f" (kernels: {', '.join(named)}{more})" if named else ""
        return f"container {self.number} at {self.found.container.span.start:#x}{place}{kernels}"

    @property
    def archs(self) -> tuple[str, ...]:
        """What the container has device code for."""
        return tuple(dict.fromkeys(spelled(image) for image in self.found.images if not is_host(image)))


class Selection(Record):
    """What stays and what goes of a file. ``notes`` say what to know about it.

    ``emptied`` are the containers that would lose all device code, ``lost`` those from which a device is served now and
    would not be then, and ``useless`` those that would be left with code that no device loads. ``vendors`` are those
    for whose devices the file has code, and ``unserved`` the devices of these vendors that nothing in the file is for.
    """

    kept: tuple[Row, ...] = ()
    dropped: tuple[Row, ...] = ()
    emptied: tuple[Unserved, ...] = ()
    lost: tuple[Unserved, ...] = ()
    useless: tuple[Unserved, ...] = ()
    notes: tuple[str, ...] = ()
    vendors: frozenset[str] = frozenset()
    unserved: tuple[Device, ...] = ()

    def kept_too(self, images: Collection[int]) -> Selection:
        """Return the selection with some of the dropped images kept, each by its ``id()``."""
        if not images:
            return self
        stay = [row for row in self.dropped if id(row.image) in images]
        dropped = tuple(row for row in self.dropped if id(row.image) not in images)
        return self.replace(kept=(*self.kept, *stay), dropped=dropped)

    @property
    def refused(self) -> tuple[Unserved, ...]:
        """The containers that speak against it, each once: with all devices that lose it."""
        found: dict[int, Unserved] = {}
        for one in (*self.lost, *self.emptied, *self.useless):
            known = found.setdefault(one.number, one)
            if one.device and one.device not in known.device.split(", "):
                found[one.number] = known.replace(device=f"{known.device}, {one.device}")
        return tuple(found[number] for number in sorted(found))


def is_host(image: FoundImage) -> bool:
    """Return whether an image is for the host of a program: such stay."""
    return image.target.offload == "host"


def _form(image: FoundImage) -> str:
    """Return what an image is: what its container says of code for linkers, whose bytes are bitcode."""
    return image.as_stored.form if image.as_stored.form in serving.LINKED else image.form


def spelled(image: FoundImage) -> str:
    """Return what an image is for in the words of patterns: ``sm_90a``, ``compute_80`` for PTX, a target ID."""
    arch = image.target.arch
    if image.form == "ptx" and arch.startswith("sm_"):
        return f"compute_{arch.removeprefix('sm_')}"
    if _form(image) in serving.LINKED and arch.startswith("sm_"):
        return f"lto_{arch.removeprefix('sm_')}"
    return arch or image.target.triple or image.form


def matches(image: FoundImage, patterns: Sequence[str]) -> bool:
    """Return whether one of some patterns means an image. ``sm_*`` means no PTX, which is ``compute_*``."""
    text = spelled(image)
    texts = {text, text.partition(":")[0]}
    if _form(image) in serving.LINKED:
        texts.add(image.target.arch)
    return any(fnmatchcase(one, pattern) for one in texts for pattern in patterns)


class _Served(Record):
    """What a device takes of the images among which a runtime chooses, or may take; ``first`` is the first of them."""

    first: Row
    device: str
    rows: tuple[Row, ...]


class _Notes:
    """What to know, each thing said once with the number of containers that it is about."""

    def __init__(self) -> None:
        self._about: dict[str, set[int]] = {}

    def take(self, text: str, number: int) -> None:
        self._about.setdefault(text, set()).add(number)

    def lines(self) -> tuple[str, ...]:
        return tuple(f"{text} ({counted(len(numbers), 'container')})" for text, numbers in self._about.items())


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
    served: list[_Served] = []
    for unit in _units([row for row in rows if id(row.image) not in stays]):
        stays |= _stay(unit, wishes, notes, served, gone, all_minors=all_minors)
    linked = [row for row in rows if id(row.found) in together]
    archs = {spelled(row.image) for row in linked if id(row.image) in stays}
    stays |= {id(row.image) for row in linked if spelled(row.image) in archs}
    kept = tuple(row for row in rows if id(row.image) in stays)
    dropped = tuple(row for row in rows if id(row.image) not in stays)
    emptied, lost = tuple(_emptied(rows, stays, served)), tuple(_lost(served, stays))
    useless = tuple(_useless(rows, stays, served, wishes))
    vendors = frozenset(serving.vendor_of(row.image.target) for row in rows if not is_host(row.image))
    unserved = tuple(_nowhere(rows, served, vendors, wishes))
    return Selection(kept, dropped, emptied, lost, useless, notes.lines(), vendors, unserved)


def _nowhere(
    rows: Sequence[Row],
    served: Sequence[_Served],
    vendors: Collection[str],
    wishes: Wishes,
) -> Iterator[Device]:
    """Yield the devices that nothing in a file is for, although it has code for devices of their vendors."""
    met = {one.device for one in served if one.rows}
    for device in wishes.devices:
        if device.vendor in vendors and device.words not in met:
            # What is not chosen from may serve it all the same: code for linkers, and containers that are not slimmed.
            units = _units([row for row in rows if serving.vendor_of(row.image.target) == device.vendor])
            if not any(_has_any(unit, device) for unit in units):
                yield device


def _has_any(unit: Sequence[Row], device: Device) -> bool:
    """Return whether a device takes, or may take, something of a unit, linked first or not."""
    takes, may_take, _ = _for_device(unit, device, all_minors=False)
    return bool(takes or may_take or _for_linkers(unit, [device]))


def _units(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Yield the images among which a runtime chooses, in their order."""
    units: dict[object, list[Row]] = {}
    for row in rows:
        units.setdefault(_unit(row), []).append(row)
    yield from units.values()


def _unit(row: Row) -> tuple[object, ...]:
    """Return the key of the images among which a runtime chooses."""
    found, target = row.found, row.image.target
    place: object = row.number
    if found.format in _SIDE_BY_SIDE:
        place = (found.member_numbers, found.index, found.section)
    elif found.format == "rocm-kpack":
        place = (row.number, row.image.attrs.get("binary", ""))
    return place, target.offload, serving.vendor_of(target)


def _stay(
    unit: Sequence[Row],
    wishes: Wishes,
    notes: _Notes,
    served: list[_Served],
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
        notes.take(f"code for {_VENDORS[vendor]} devices stays: none of them is named", number)
        return _without_dropped(unit, every, wishes, gone)
    for device in devices:
        takes, may_take, doubt = _for_device(unit, device, all_minors=all_minors)
        needed |= {id(row.image) for row in takes}
        also |= {id(row.image) for row in may_take}
        served.append(_Served(unit[0], device.words, (*takes, *may_take)))
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
    return Candidate(_form(image), target.arch, target.triple, compression=image.compression)


def _for_device(unit: Sequence[Row], device: Device, *, all_minors: bool) -> tuple[list[Row], list[Row], str]:
    """Return the images that a device takes, those that it may take, and what is not known about it."""
    alike: dict[object, list[Row]] = {}
    for row in unit:
        candidate = _candidate(row.image)
        key: object = (candidate.form == "ptx", candidate.triple, candidate.arch)
        alike.setdefault(id(row) if row.found.format in _BY_POSITION else key, []).append(row)
    groups = list(alike.values())
    found = serving.served(
        [_candidate(group[0].image) for group in groups],
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
        if _form(row.image) in serving.LINKED
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


def _emptied(rows: Sequence[Row], stays: Collection[int], served: Sequence[_Served]) -> Iterator[Unserved]:
    """Yield the containers that lose all device code, with the devices that nothing in them is for.

    What lies beside one that loses all may have code for the same runtime: then nothing is lost.
    """
    count = 0
    devices: dict[int, dict[str, bool]] = {}
    for one in served:
        of_container = devices.setdefault(one.first.number, {})
        of_container[one.device] = not one.rows and of_container.get(one.device, True)
    alive = {_unit(row) for row in rows if row.found.format in _SIDE_BY_SIDE and id(row.image) in stays}
    by_container: dict[tuple[int, str], list[Row]] = {}
    for row in rows:
        if not is_host(row.image):
            # A kpack archive has the code of several programs, of which each is chosen from alone.
            program = row.image.attrs.get("binary", "") if row.found.format == "rocm-kpack" else ""
            by_container.setdefault((row.number, program), []).append(row)
    for (number, _), inside in by_container.items():
        if any(id(row.image) in stays for row in inside) or all(_unit(row) in alive for row in inside):
            continue
        if not _is_leftover(inside[0].found):
            count += 1
            named = [device for device, is_unserved in devices.get(number, {}).items() if is_unserved]
            yield _unserved(inside, number, ", ".join(named), names_kernels=count <= _READ)


def _lost(served: Sequence[_Served], stays: Collection[int]) -> Iterator[Unserved]:
    """Yield the containers that serve a device now, and would not then."""
    count = 0
    for one in served:
        if one.rows and not any(id(row.image) in stays for row in one.rows):
            count += 1
            yield _unserved(one.rows, one.first.number, one.device, names_kernels=count <= _READ)


def _useless(
    rows: Sequence[Row], stays: Collection[int], served: Sequence[_Served], wishes: Wishes
) -> Iterator[Unserved]:
    """Yield the containers that keep code, and none for any of the devices, which have nothing of them now either."""
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
        wanted = any(matches(row.image, wishes.keep) or _form(row.image) in serving.LINKED for row in left)
        if left and all(devices) and not wanted and not _is_leftover(left[0].found):
            count += 1
            yield _unserved(left, left[0].number, ", ".join(devices), names_kernels=count <= _READ)


def _together(row: Row) -> object:
    """Return the key of what must be of use to one of the devices: a container, or what lies side by side."""
    return _unit(row) if row.found.format in _SIDE_BY_SIDE else row.number


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
