"""Deflate and its checksum, by ISA-L where ``fatpack[fast]`` is installed: several times as fast as zlib, same bytes.

isal (python-isal) has the interface of zlib. Its errors are classes of their own.
"""

from __future__ import annotations

import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from typing_extensions import Buffer

    class Inflater(Protocol):
        """What both have of a decompressor."""

        @property
        def eof(self) -> bool: ...  # noqa: D102
        @property
        def unused_data(self) -> bytes: ...  # noqa: D102
        @property
        def unconsumed_tail(self) -> bytes: ...  # noqa: D102
        def decompress(self, data: Buffer, max_length: int = ..., /) -> bytes: ...  # noqa: D102


def _installed() -> Any:
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    return isal_zlib


#: the module that does it
_library = _installed()

#: what inflating damaged data raises
ERRORS: tuple[type[Exception], ...] = (zlib.error, _library.error)


def make_inflater(wbits: int) -> Inflater:
    """Return what inflates a stream: ``wbits`` is -15 for bare deflate, 31 for gzip, which checks its own checksum."""
    found: Inflater = _library.decompressobj(wbits)
    return found


def crc32(data: Buffer, value: int = 0) -> int:
    """Return the CRC-32 of zip and gzip of data that follows what has the CRC-32 ``value``."""
    return int(_library.crc32(data, value))
