"""The order in which clang-offload-bundler lists and hands out the entries of a binary bundle.

The tool keeps entries in an LLVM ``StringMap`` keyed by ID: later duplicates overwrite earlier ones, and everything
it does goes through the map's buckets instead of the file. Byte and message identity with it need the map's hash
(XXH3 of 64 bits, no seed, the low half) and its probing. Only the stand-in for that tool uses this order.

Facts: llvm/lib/Support/StringMap.cpp of LLVM 19 to 22, and 23.1, whose map looks for a free bucket in steps of one; the
orders are compared with the tools.
"""

from __future__ import annotations

from fatpack.codecs.hashes import xxh3

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def llvm_order(ids: Iterable[bytes], llvm: str = "22") -> list[bytes]:
    """Return IDs, duplicates once, in the order in which that version of LLVM walks them."""
    growth = 0 if llvm == "23" else 1
    buckets: list[bytes | None] = [None] * 16
    for count, key in enumerate(dict.fromkeys(ids), 1):
        _place(buckets, key, growth)
        if 4 * count > 3 * len(buckets):
            old, buckets = buckets, [None] * (2 * len(buckets))
            for kept in old:
                if kept is not None:
                    _place(buckets, kept, growth)
    return [key for key in buckets if key is not None]


def _place(buckets: list[bytes | None], key: bytes, growth: int) -> None:
    """Put a key into the first free bucket from that of its hash on; every step is longer by ``growth``."""
    at, step = xxh3(key) % len(buckets), 1
    while buckets[at] is not None:
        at = (at + step) % len(buckets)
        step += growth
    buckets[at] = key


def positions_in_llvm_order(ids: Sequence[bytes], llvm: str = "22") -> list[int]:
    """Return the positions of a bundle's entries as clang-offload-bundler lists them: of equal IDs the last one."""
    last = {key: position for position, key in enumerate(ids)}
    return [last[key] for key in llvm_order(ids, llvm)]
