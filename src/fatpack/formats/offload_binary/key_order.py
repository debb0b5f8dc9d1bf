"""The order in which llvm-offload-binary stores the keys of an image.

The tool keeps the keys of one ``--image`` in a hash map and writes them in the map's order, so byte identity needs its
hash and its probing. LLVM 23 has another hash than LLVM 19 to 22, and looks for a free slot in steps of one.

Facts: llvm/include/llvm/ADT/DenseMap.h and Hashing.h of LLVM 19 to 22 and of main in 2026; the orders are compared with
llvm-offload-binary 22 and 23.1 on thousands of command lines.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What LLVM 23 combines the hash of a key with, the low half.
_SEED_23 = 0xED558CCD


def llvm_key_order(keys: Sequence[bytes], version: int) -> list[bytes]:
    """Return keys (first appearances, ``file`` and ``kind`` included) in the order in which LLVM stores them in that
    container version: LLVM 22 in version 1, LLVM 23 in those after it.
    """
    hash_key, growth = (_hash_22, 1) if version == 1 else (_hash_23, 0)
    slots: list[bytes | None] = [None] * 64
    for count, key in enumerate(keys):
        if 4 * (count + 1) >= 3 * len(slots):
            old, slots = slots, [None] * (2 * len(slots))
            for kept in old:
                if kept is not None:
                    _place(slots, kept, hash_key, growth)
        _place(slots, key, hash_key, growth)
    return [key for key in slots if key is not None]


def _hash_22(key: bytes) -> int:
    # Each version loads its own hash only.
    from fatpack.codecs.city_hash import hash_key

    return hash_key(key)


def _hash_23(key: bytes) -> int:
    from fatpack.codecs.hashes import xxh3

    return (xxh3(key) ^ _SEED_23) & 0xFFFFFFFF


def _place(slots: list[bytes | None], key: bytes, hash_key: Callable[[bytes], int], growth: int) -> None:
    """Put a key into the first free slot from that of its hash on; every step is longer by ``growth``."""
    at, step = hash_key(key) % len(slots), 1
    while slots[at] is not None:
        at = (at + step) % len(slots)
        step += growth
    slots[at] = key
