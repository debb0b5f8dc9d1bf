"""The reader of pointers for a host, by the host's name."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.runtime.pointers.pointer import PointerReader

#: hosts whose pointers can be followed → module and class of the reader
_READERS = {
    "elf": ("fatpack.runtime.pointers.elf", "ElfProgram"),
    "coff": ("fatpack.runtime.pointers.coff", "CoffObjectPointers"),
    "pe": ("fatpack.runtime.pointers.pe", "PeProgram"),
}

HOSTS = tuple(_READERS)


def open_pointers(view: View, host: str) -> PointerReader:
    """Return the reader of pointers for a host of that name, one of ``HOSTS``. Raises FormatError if it is damaged."""
    module, name = _READERS[host]
    reader: PointerReader = getattr(__import__(module, fromlist=[name]), name)(view)
    return reader
