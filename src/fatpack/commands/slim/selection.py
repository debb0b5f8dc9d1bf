"""What stays and what goes of a file, and which containers speak against it."""

from __future__ import annotations

from fatpack.commands.slim.rows import SlimImage, arch_label, is_host
from fatpack.record import Record
from fatpack.scanner import FoundContainer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from fatpack.targets.devices import Device

#: kernels of a container that a message names, and characters of each
_SHOWN, _WIDTH = 3, 60


class UnsupportedContainer(Record):
    """A container that would be of no use: to a device, or to any (``device`` is "").

    ``kernels`` are the names of some that are lost, ``kernel_count`` how many there are; of containers behind the
    first ones they are not read.
    """

    found: FoundContainer
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
        return tuple(dict.fromkeys(arch_label(image) for image in self.found.images if not is_host(image)))


class ImageSelection(Record):
    """What stays and what goes of a file. ``notes`` say what to know about it.

    ``emptied`` are the containers that would lose all device code, ``lost`` those from which a device is served now and
    would not be then, and ``useless`` those that would be left with code that no device loads. ``vendors`` are those
    for whose devices the file has code, and ``unserved`` the devices of these vendors that nothing in the file is for.
    ``vacated`` are the numbers of the containers that lose all code, none of which was for a device before.
    """

    kept: tuple[SlimImage, ...] = ()
    dropped: tuple[SlimImage, ...] = ()
    emptied: tuple[UnsupportedContainer, ...] = ()
    lost: tuple[UnsupportedContainer, ...] = ()
    useless: tuple[UnsupportedContainer, ...] = ()
    notes: tuple[str, ...] = ()
    vendors: frozenset[str] = frozenset()
    unserved: tuple[Device, ...] = ()
    vacated: frozenset[int] = frozenset()

    def kept_too(self, images: Collection[int]) -> ImageSelection:
        """Return the selection with some of the dropped images kept, each by its ``id()``."""
        if not images:
            return self
        stay = [row for row in self.dropped if id(row.image) in images]
        dropped = tuple(row for row in self.dropped if id(row.image) not in images)
        return self.replace(kept=(*self.kept, *stay), dropped=dropped)

    @property
    def refused(self) -> tuple[UnsupportedContainer, ...]:
        """The containers that speak against it, each once: with all devices that lose it."""
        found: dict[int, UnsupportedContainer] = {}
        for one in (*self.lost, *self.emptied, *self.useless):
            known = found.setdefault(one.number, one)
            if one.device and one.device not in known.device.split(", "):
                found[one.number] = known.replace(device=f"{known.device}, {one.device}")
        return tuple(found[number] for number in sorted(found))
