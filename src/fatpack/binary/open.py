"""The reader of pointers for a host, by the host's name."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.binary.pointers import PointerReader
    from fatpack.io.source import View

#: hosts whose pointers can be followed → module and class of the reader
_READERS = {
    "elf": ("fatpack.binary.elf.pointers", "ElfProgram"),
    "coff": ("fatpack.binary.coff.pointers", "CoffObjectPointers"),
    "pe": ("fatpack.binary.pe.pointers", "PeProgram"),
}

HOSTS = tuple(_READERS)


def open_pointers(view: View, host: str) -> PointerReader:
    """Return the reader of pointers for a host of that name, one of ``HOSTS``. Raises FormatError if it is damaged."""
    module, name = _READERS[host]
    reader: PointerReader = getattr(__import__(module, fromlist=[name]), name)(view)
    return reader
