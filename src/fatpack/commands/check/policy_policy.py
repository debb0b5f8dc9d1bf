"""What is asked of files: one record, whoever asks, and its rules in words."""

from __future__ import annotations

from fatpack.commands.check.model import RequiredDevices
from fatpack.printable import format_size_exactly
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.check.policy import Requirement

#: the rule about what programs register, in words
REGISTERED = "what is launched is registered"

#: the rule about what packages declare, in words
METADATA_RULE = "what packages declare is in them"


class Policy(Record):
    """What is asked of files; ``per`` is what must serve a device: each ``unit``, or something in each ``library``.

    ``max_growth`` is a text as ``5%`` or ``20MB``, against the file or folder ``against``. ``names_kernels`` reads the
    kernels of large libraries too, to name those that lack something. ``verify`` reads all there is to its last byte.
    ``strict`` fails what ``registered`` could not judge.
    """

    require: tuple[Requirement, ...] = ()
    forbid: tuple[str, ...] = ()
    max_size: int | None = None
    max_growth: str = ""
    against: str = ""
    uniform: bool = False
    registered: bool = False
    strict: bool = False
    metadata: bool = False
    per: str = "unit"
    exclude: tuple[str, ...] = ()
    deep: bool = False
    names_kernels: bool = False
    verify: bool = False

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules in words."""
        wanted = [item.words for item in self.require]
        found = [f"every {self.per} serves {', '.join(wanted)}"] if wanted else []
        found += [f"nothing is for {', '.join(self.forbid)}"] if self.forbid else []
        found += [f"at most {format_size_exactly(self.max_size)}"] if self.max_size is not None else []
        found += [f"grows by {self.max_growth} at most against {self.against}"] if self.max_growth else []
        found += ["every kernel on every architecture of its library"] if self.uniform else []
        found += [REGISTERED] if self.registered else []
        found += [METADATA_RULE] if self.metadata else []
        found += ["all of it is whole"] if self.verify else []
        return tuple(found)

    @property
    def required(self) -> tuple[RequiredDevices, ...]:
        """What is required of the code for each vendor's devices."""
        vendors = dict.fromkeys(item.device.vendor for item in self.require)
        return tuple(
            RequiredDevices(vendor, tuple(item.words for item in self.require if item.device.vendor == vendor))
            for vendor in vendors
        )

    def asks(self, vendors: Sequence[str]) -> bool:
        """Return whether anything is asked of a library with code for the devices of these vendors."""
        all_are_asked = not self.require or self.forbid or self.uniform or self.registered
        return bool(all_are_asked) or any(item.device.vendor in vendors for item in self.require)
