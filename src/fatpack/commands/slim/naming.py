"""How a package that changes is called: two different files never have one name."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.targets.devices import Device

#: LIMIT: characters of a build tag that nobody gave; file names have room for 255 bytes in all
_LONGEST = 60


class NameChange(Record):
    """How a changed package differs from the old one by name: a build tag, a local version (of wheels), or both.

    Without both it is a build tag made of ``default``, which names the devices that the package is for.
    """

    build_tag: str = ""
    local_version: str = ""
    default: str = ""

    @property
    def is_default(self) -> bool:
        """Whether the package is called after its devices, because nothing was given."""
        return bool(self.default) and not (self.build_tag or self.local_version)

    def for_devices(self, devices: Iterable[Device]) -> NameChange:
        """Return the same with the devices that the package is for: ``sm86.sm90``."""
        words = dict.fromkeys(device.arch.partition(":")[0].replace("_", "").replace("-", "_") for device in devices)
        name = ".".join(filter(None, words))
        return self.replace(default=name if len(name) <= _LONGEST else f"{len(words)}devices")


def needs_new_name(path: str) -> bool:
    """Return whether a file is a wheel or conda package by its name: if it changes it gets another one."""
    return path.endswith((".whl", ".conda", ".tar.bz2"))
