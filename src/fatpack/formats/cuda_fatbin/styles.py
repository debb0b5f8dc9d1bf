"""Producers and their modes of compression: the knowledge behind ``-compress-mode`` of fatbinary.

What each version does was found by inflating its output and compressing it again with every level.
"""

from __future__ import annotations

from fatpack.errors import UsageError
from fatpack.formats.cuda_fatbin.layout import WITH_OPTIONS
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.options import FatbinOptions

#: method and level; LZ4's levels are those of its high-compression form
_ZSTD, _SMALLEST = ("zstd", 5), ("zstd", 19)

#: producer → mode → method and level
_MODES = {
    "12.8": {"default": ("lz4", 2), "speed": ("lz4", 2), "balance": _ZSTD, "size": _SMALLEST},
    "13.0": {"default": _ZSTD, "speed": ("lz4", 2), "balance": _ZSTD, "size": _SMALLEST},
    "13.5": {"default": _ZSTD, "speed": ("lz4", 3), "balance": _ZSTD, "size": _SMALLEST},
}

PRODUCERS = tuple(_MODES)
MODES = ("default", "speed", "balance", "size", "none")
DEFAULT_PRODUCER = "13.0"


class ProducerStyle(Record):
    """How new entries are written: ``method`` and ``level`` of compression, None to leave all as they are.

    ``compresses_all`` includes cubins. ``groups`` writes groups (``-concat``), ``minifies`` takes comments and blanks
    out of PTX, ``recompresses`` treats images of other fat binaries as if they were new.
    """

    method: str | None
    level: int
    compresses_all: bool
    groups: bool
    minifies: bool
    recompresses: bool

    def like(self, method: str) -> ProducerStyle:
        """Return the style that compresses by another method, at the level that a producer takes for that one."""
        if method == self.method:
            return self
        level = next((level for modes in _MODES.values() for name, level in modes.values() if name == method), None)
        if level is None:
            raise UsageError(f"{method} in a fat binary, which is read and not written", hint="pack it anew")
        return self.replace(method=method, level=level)

    def compresses(self, kind: int, is_debug: bool) -> bool:
        """Return whether an image of that kind is compressed: text and the like always, cubins on request."""
        return self.method is not None and (self.compresses_all or is_debug or kind in WITH_OPTIONS)


def producer_style(options: FatbinOptions) -> ProducerStyle:
    """Return how new entries are written. Raises UsageError for what no producer does."""
    producer = options.producer or DEFAULT_PRODUCER
    mode = options.compress_mode or "default"
    _check("producer", producer, PRODUCERS)
    _check("compress_mode", mode, MODES)
    if options.concat and producer != "13.5":
        raise UsageError("groups of entries are written since CUDA 13.4", hint="choose producer 13.5")
    if options.concat and mode == "none":
        raise UsageError("a group is always compressed", hint="leave out compress_mode none, or concat")
    method, level = _MODES[producer].get(mode, (None, 0))
    return ProducerStyle(
        method,
        level,
        compresses_all=mode == "size" or options.compress_all,
        groups=options.concat,
        minifies=options.minify_ptx,
        recompresses=options.wants_recompression,
    )


def _check(name: str, value: str, known: tuple[str, ...]) -> None:
    if value not in known:
        raise UsageError(f"{name} {value!r} of a fat binary", hint=f"choose from {', '.join(known)}")
