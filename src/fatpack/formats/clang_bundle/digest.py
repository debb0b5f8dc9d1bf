"""The checksum in compressed bundles: the first 8 bytes of the MD5 of the bundle inside."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from typing_extensions import Buffer

    class Md5Digest(Protocol):
        """What ``hashlib`` makes."""

        def update(self, data: Buffer, /) -> None:
            """Take more bytes in."""

        def digest(self) -> bytes:
            """Return all 16 bytes."""


HASH_SIZE = 8

#: From this many bytes on the faster MD5 of OpenSSL is worth the 4 ms that loading it takes.
_LARGE = 4 << 20


def new_digest(size: int) -> Md5Digest:
    """Return a new MD5 for ``size`` bytes; ``digest()[:HASH_SIZE]`` is what bundles store."""
    try:
        module = import_module("hashlib" if size >= _LARGE else "_md5")
    except ImportError:  # an interpreter without its own MD5
        module = import_module("hashlib")
    digest: Md5Digest = module.md5(usedforsecurity=False)
    return digest
