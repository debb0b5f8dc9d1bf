"""Which images are linked together: one group per program for a device, as clang-linker-wrapper makes them.

Objects, bitcode, offload binaries and whole archives make the groups. Images of other archives only join groups that
are there already, or whose architecture is asked for (``--should-extract``); each that joins none stays where it is.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.record import Record
from fatpack.targets.link_groups import accepts_image, joins_group

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import TypeAlias

    from fatpack.commands.link_inputs.input_files import LinkImage
    from fatpack.model import Target

    Key: TypeAlias = tuple[str, str]


#: LIMIT: device links of one line; every image is compared with the target of each. The compilers know 200 targets.
MAX_GROUPS = 1000


class ImageGroup(Record):
    """One device link: the target that it makes a program for, and the images that go into it, in their order."""

    target: Target
    devices: tuple[LinkImage, ...]

    @property
    def offloads(self) -> tuple[str, ...]:
        """The programming models of its images: the program is registered once for each, ``none`` aside."""
        kinds = dict.fromkeys(each.image.target.offload for each in self.devices)
        return tuple(kind for kind in kinds if kind != "none")

    @property
    def refusal(self) -> str:
        """Why no device linker takes this group, "" if nothing is known against it."""
        if "sycl" in self.offloads and len(self.offloads) > 1:
            others = ", ".join(kind for kind in self.offloads if kind != "sycl")
            return f"images of SYCL and of {others} for one target: clang-linker-wrapper links no such mixture"
        return ""


class GroupBuilder:
    """Groups while they are made. Their keys are the triple and the architecture as they are spelled."""

    def __init__(self, llvm: str) -> None:
        self._llvm = llvm
        self._groups: dict[tuple[str, str], tuple[Target, list[LinkImage]]] = {}

    def add(self, device: LinkImage) -> None:
        """Add an image that is linked in any case."""
        target = device.image.target
        if self._llvm != "23":
            # The group of its own comes last among those that it is put into only where it is new.
            self.put(device, [_key(target), *self._others(target)])
        else:
            taking = [key for key, (other, _) in self._groups.items() if accepts_image(other, target)]
            self.put(device, taking or [_key(target)])

    def join(self, device: LinkImage, asked: Collection[str]) -> bool:
        """Add an image of an archive to the groups that take it; return whether there is one."""
        target = device.image.target
        keys = [_key(target), *self._others(target)]
        chosen = [key for key in keys if key in self._groups or key[1] in asked]
        self.put(device, chosen)
        return bool(chosen)

    def taking(self, device: LinkImage) -> list[Key]:
        """Return the keys of the groups that are there and can take an image, that of its own target first."""
        target = device.image.target
        return [key for key in (_key(target), *self._others(target)) if key in self._groups]

    def members(self) -> list[tuple[Key, list[LinkImage]]]:
        """Return each group by its key, with the images that are in it."""
        return [(key, devices) for key, (_, devices) in self._groups.items()]

    def _others(self, target: Target) -> list[tuple[str, str]]:
        return [key for key, (other, _) in self._groups.items() if joins_group(target, other, self._llvm)]

    def put(self, device: LinkImage, keys: Iterable[Key]) -> None:
        """Add an image to groups, which are made if they are not there. Raises UsageError for too many."""
        for key in keys:
            self._groups.setdefault(key, (device.image.target, []))[1].append(device)
        if len(self._groups) > MAX_GROUPS:
            raise UsageError(
                f"the images are for more than {MAX_GROUPS} targets", hint="link them in several steps, by target"
            )

    def made(self) -> list[ImageGroup]:
        """Return the groups, in the order of their first images."""
        return [ImageGroup(target, tuple(devices)) for target, devices in self._groups.values()]


def _key(target: Target) -> tuple[str, str]:
    return target.triple, target.arch
