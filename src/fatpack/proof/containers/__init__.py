"""Containers in a proof: every byte of one is accounted for, and each image has a digest.

These readers are independent of :mod:`fatpack.formats`, and as short as a proof allows: an unusual container counts as
no container, and its bytes must be unchanged. They read CUDA fat binaries, and HIP's bundles, plain and compressed.
"""

from __future__ import annotations

from fatpack import magic_numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.proof.containers.model import ProofContainer
    from fatpack.proof.memory import ProgramMemory

#: The longest magic of a container that is read here.
_LONGEST = len(magic_numbers.BUNDLE)


def is_container_start(head: bytes) -> bool:
    """Return whether bytes start as a container that is read here."""
    return head.startswith((magic_numbers.FATBIN, magic_numbers.BUNDLE, magic_numbers.COMPRESSED_BUNDLE))


def read_container(memory: ProgramMemory, address: int, end: int) -> ProofContainer | None:
    """Return the container at an address that ends before ``end``, None if there is none that can be read completely.

    Raises LimitExceeded for a compressed one that exceeds the limits on decompression.
    """
    # An empty fat binary has 16 bytes, and the loaded range may end after it.
    head = memory.read(address, _LONGEST) or memory.read(address, len(magic_numbers.FATBIN)) or b""
    if head.startswith(magic_numbers.FATBIN):
        from fatpack.proof.containers.fatbin import read_fatbin

        return read_fatbin(memory, address, end)
    if head.startswith(magic_numbers.COMPRESSED_BUNDLE):
        from fatpack.proof.containers.bundle import read_compressed

        return read_compressed(memory, address, end)
    if head.startswith(magic_numbers.BUNDLE):
        from fatpack.proof.containers.bundle import read_bundle

        return read_bundle(memory, address, end)
    return None
