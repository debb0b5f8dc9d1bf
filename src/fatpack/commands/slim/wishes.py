"""What is asked of slimming: which devices the result is for, or which architectures go, and how it is written."""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from fatpack.literals import KeepPtx, Recompression, SlimMode
    from fatpack.scanner import FoundContainer, FoundImage
    from fatpack.selectors.select import Selector
    from fatpack.targets.devices import Device

#: what becomes of PTX, and of SPIR-V beside images for devices
PTX_MODES = ("none", "newest", "all")

#: methods of compression that stored images may be given; ``none`` is for CUDA alone, ``zlib`` for HIP
METHODS = ("zstd", "lz4", "zlib", "none")

MODES = ("auto", "shrink", "zero")


class SlimOptions(Record):
    """What the result is for. Nothing asked for drops nothing.

    ``devices`` are those that must be served: of every container what their runtimes would take stays. ``keep`` and
    ``drop`` are patterns of architectures (``sm_9*``, ``gfx90a``, ``compute_80`` for PTX): what ``drop`` names goes in
    any case, what ``keep`` names stays beside what devices need, and alone it says what stays. ``selector`` names
    images that go, and ``goes`` is asked about each. ``keep_ptx`` is ``none``, ``newest`` or ``all``; PTX that alone
    serves a device stays. None is ``newest`` where devices or ``keep`` are given, else ``all``.

    ``allow_empty`` lets containers lose all device code. ``recompress`` is the method by which images are compressed
    anew, None for as they are, at a ``level`` (None: what the format's own tool takes). ``mode`` says how linked files
    lose bytes: ``shrink`` takes them out of the file, ``zero`` overwrites them, ``auto`` does the first where it can.
    ``drop_signature`` takes the signature out of a signed PE image, which any edit makes invalid.
    """

    devices: tuple[Device, ...] = ()
    keep: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()
    selector: Selector | None = None
    goes: Callable[[FoundContainer, FoundImage], bool] | None = None
    keep_ptx: KeepPtx | None = None
    allow_empty: bool = False
    recompress: Recompression | None = None
    level: int | None = None
    mode: SlimMode = "auto"
    drop_signature: bool = False

    if not TYPE_CHECKING:  # type checkers take the signature from the fields

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Take the fields; raise UsageError for a word that is none of those above."""
            super().__init__(*args, **kwargs)
            for name, known in (("keep_ptx", PTX_MODES), ("recompress", METHODS), ("mode", MODES)):
                value = getattr(self, name)
                if value not in known and not (value is None and name != "mode"):
                    raise UsageError(f"{name} {value!r}", hint=f"choose from {', '.join(known)}")

    @property
    def drops(self) -> bool:
        """Whether images may go."""
        named = self.devices or self.keep or self.drop or self.selector or self.goes
        return bool(named or self.keep_ptx not in (None, "all"))

    @property
    def ptx(self) -> str:
        """What becomes of PTX: ``none``, ``newest`` or ``all``."""
        return self.keep_ptx or ("newest" if self.devices or self.keep else "all")
