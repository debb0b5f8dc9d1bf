"""The bitcode of a Metal library against its list: hashes, the wrapper, and the version of AIR.

Listing a library reads no bitcode. Apple's loader checks the hash too, which is over the wrapper and its padding.
"""

from __future__ import annotations

from hashlib import sha256

from fatpack.formats.diagnostics import FindingCollector
from fatpack.formats.metallib.layout import MetalFunction, MetalHeader, metallib_errors
from fatpack.magic_numbers import WRAPPED_BITCODE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.model import Container, Finding


def is_hashed(container: Container) -> bool:
    """Return whether the content has a stored hash: all functions of a library have one."""
    return isinstance(container.record, MetalHeader)


def is_unchecked(container: Container) -> bool:
    """Return whether the hashes were not compared when the container was read: they never are."""
    return isinstance(container.record, MetalHeader) and bool(container.images)


def verify(container: Container) -> list[Finding]:
    """Return findings about functions whose bitcode does not have its stored hash, or does not start as bitcode."""
    faults = FindingCollector()
    for image in container.images:
        record = image.record
        if not isinstance(record, MetalFunction):
            continue
        made, begins = sha256(), b""
        for piece in image.data.pieces():
            begins = begins or bytes(piece[:4])
            made.update(piece)
        if record.digest is not None and made.digest() != record.digest:
            error = metallib_errors.value(
                image.data,
                0,
                f"HASH of {record.name}",
                f"the bitcode has the SHA-256 {made.hexdigest()}",
                record.digest.hex(),
                "get the file again",
            )
            faults.add_error("FP2602", error, image.span)
        elif begins != WRAPPED_BITCODE:
            text = f"{record.name} does not begin with the wrapper of bitcode"
            faults.add_warning("FP2607", image.span, text)
    return faults.findings
