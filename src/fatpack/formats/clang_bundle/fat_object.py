"""``.tgtsym``: the symbols that device code in an object defines, as clang-offload-bundler of DPC++ notes them.

One string per symbol, ``<bundle ID>.<symbol>`` and a NUL; linkers join the sections of all objects. clang-offload-deps
reads them, to know which objects of an archive a device link needs (clang/lib/Driver/OffloadBundler.cpp of intel/llvm).
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import HostError
from fatpack.findings import finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding

#: LIMIT: bytes of one section that are read, and no more symbols than there may be images. That of a library with 5204
#: images has 1.2 MB and 5366 symbols.
_LARGEST = 16 << 20


class TargetSymbols(Record):
    """The symbols that are noted in ``sections``, read when they are asked for.

    ``ids`` are the bundle IDs known from elsewhere. ``only`` is what a linked program calls a target, such as
    ``sycl-spir64``: the symbols of longer names of it are meant then, ``sycl-spir64-unknown-unknown``; "" for all.
    """

    sections: tuple[View, ...] = ()
    ids: tuple[str, ...] = ()
    only: str = ""

    def by_target(self) -> dict[str, list[str]]:
        """Return bundle ID → symbols, in stored order. Raises ``OSError`` when reading fails."""
        found: dict[str, list[str]] = {}
        for data in self.sections:
            for id, names in read_symbols(data, self.ids).items():
                if not self.only or f"{id}-".startswith(f"{self.only}-"):
                    found.setdefault(id, []).extend(names)
        return found

    def unread(self) -> Iterator[Finding]:
        """Yield a finding for every section of which symbols are left out."""
        for data in self.sections:
            size, most = len(data), limits.IMAGES
            if size > _LARGEST:
                text = f"{size} bytes of symbols are not read: more than {_LARGEST}"
                yield finding("FP1005", data.span(), text)
            # Every symbol takes two bytes or more, so that most sections need not be read for it.
            elif size > 2 * most and (count := data.tobytes().count(b"\0")) > most:
                text = f"{count} symbols; only the first {most} are listed"
                yield finding("FP1005", data.span(), text, limits.advice("IMAGES"))


def read_symbols(data: View, ids: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Return bundle ID → the symbols in a section, in stored order; ``ids`` are those known from elsewhere.

    An ID ends at the first point, unless a known one has points itself. Strings without one belong to the ID "".
    """
    if len(data) > _LARGEST:
        return {}
    found: dict[str, list[str]] = {}
    known = sorted((id for id in ids if "." in id), key=len, reverse=True)
    for line in data.tobytes().decode("utf-8", "backslashreplace").split("\0", limits.IMAGES)[: limits.IMAGES]:
        if line:
            id = next((id for id in known if line.startswith(f"{id}.")), None)
            id, symbol = (id, line[len(id) + 1 :]) if id else line.partition(".")[::2]
            found.setdefault(id if symbol else "", []).append(symbol or line)
    return found


def symbols_for_id(data: View, id: str) -> list[bytes]:
    """Return the symbols that a section notes for one bundle ID, as they are stored and in that order.

    Raises HostError for a section that is too large to read.
    """
    if len(data) > _LARGEST:
        raise _too_large(data, "read")
    prefix = f"{id}.".encode("utf-8", "surrogateescape")
    lines = data.tobytes().split(b"\0")
    return [line[len(prefix) :] for line in lines if line.startswith(prefix) and len(line) > len(prefix)]


def without_ids(data: View, gone: Collection[str]) -> bytes | None:
    """Return a section without the symbols of some bundle IDs; None if it has none of them.

    Raises HostError for one that is too large to read.
    """
    if len(data) > _LARGEST:
        raise _too_large(data, "edited")
    prefixes = tuple(f"{id}.".encode("utf-8", "surrogateescape") for id in gone)
    stored = data.tobytes()
    lines = stored.split(b"\0")
    kept = [line for line in lines if not line.startswith(prefixes)]
    return b"\0".join(kept) if len(kept) < len(lines) else None


def _too_large(data: View, done: str) -> HostError:
    return HostError(
        f"the symbols of the images take {len(data)} bytes, and no more than {_LARGEST} are {done}",
        hint="build the object without the images",
        chain=data.chain,
    )
