"""The hash of keys in LLVM 19 to 22: ``hash_value`` of a string, by which they are ordered in a ``DenseMap``.

Facts: llvm/include/llvm/ADT/Hashing.h of LLVM 19 to 22; compared with LLVM 22's own function on random strings of every
length from 0 to 64.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_CITY_MASK = (1 << 64) - 1
_SEED = 0xFF51AFD7ED558CCD
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MULTIPLIER = 0x9DDFEA08EB382D69

#: Keys up to this size are hashed in one go, longer ones in blocks of it.
_BLOCK = 64


def _city_rotate(value: int, count: int) -> int:
    value &= _CITY_MASK
    count %= 64
    return (value >> count | value << (64 - count)) & _CITY_MASK if count else value


def _city_mix(value: int) -> int:
    value &= _CITY_MASK
    return value ^ value >> 47


def _pair(low: int, high: int) -> int:
    a = _city_mix((low ^ high) * _MULTIPLIER)
    b = _city_mix((high ^ a) * _MULTIPLIER)
    return b * _MULTIPLIER & _CITY_MASK


def _half(x: int, first: int, second: int, z: int) -> tuple[int, int]:
    """Return one of the two rounds of the 33-to-64-byte hash."""
    a, b, c = x, _city_rotate(x + z, 52), _city_rotate(x, 37)
    a += first
    c += _city_rotate(a, 7)
    a += second
    return (a + z) & _CITY_MASK, (b + _city_rotate(a, 31) + c) & _CITY_MASK


class _CityState:
    """The hash of a key longer than one block: LLVM's ``hash_state``, seven words that every block is mixed into."""

    def __init__(self, first: bytes) -> None:
        h4, h5 = _SEED * _K1 & _CITY_MASK, _city_mix(_SEED)
        self.words = [0, _SEED, _pair(_SEED, _K1), _city_rotate(_SEED ^ _K1, 49), h4, h5, _pair(h4, h5)]
        self.mix(first)

    def mix(self, block: bytes) -> None:
        h0, h1, h2, h3, h4, h5, h6 = self.words
        s = [int.from_bytes(block[at : at + 8], "little") for at in range(0, _BLOCK, 8)]
        h0 = _city_rotate(h0 + h1 + h3 + s[1], 37) * _K1 & _CITY_MASK
        h1 = _city_rotate(h1 + h4 + s[6], 42) * _K1 & _CITY_MASK
        h0 ^= h6
        h1 += h3 + s[5]
        h2 = _city_rotate(h2 + h5, 33) * _K1 & _CITY_MASK
        h3, h4 = _mix_half(h4 * _K1, h0 + h5, s[:4])
        h5, h6 = _mix_half(h2 + h6, h1 + s[2], s[4:])
        self.words = [word & _CITY_MASK for word in (h2, h1, h0, h3, h4, h5, h6)]

    def finish(self, size: int) -> int:
        h0, h1, h2, h3, h4, h5, h6 = self.words
        low = _pair(h3, h5) + _city_mix(h1) * _K1 + h2
        high = _pair(h4, h6) + _city_mix(size) * _K1 + h0
        return _pair(low & _CITY_MASK, high & _CITY_MASK)


def _mix_half(a: int, b: int, words: Sequence[int]) -> tuple[int, int]:
    """Mix half a block into two words of the state."""
    a = (a + words[0]) & _CITY_MASK
    b = _city_rotate(b + a + words[3], 21)
    d = a
    a += words[1] + words[2]
    b += _city_rotate(a, 44) + d
    return a + words[3], b


def hash_key(key: bytes) -> int:
    """Return the low 32 bits of LLVM's hash of a key."""
    size = len(key)

    def u32(at: int) -> int:
        return int.from_bytes(key[at : at + 4], "little")

    def u64(at: int) -> int:
        return int.from_bytes(key[at : at + 8], "little")

    if size == 0:
        result = _K2 ^ _SEED
    elif size <= 3:
        y = key[0] + (key[size // 2] << 8)
        z = size + (key[-1] << 2)
        result = _city_mix(y * _K2 ^ z * _K3 ^ _SEED) * _K2
    elif size <= 8:
        result = _pair(size + (u32(0) << 3), _SEED ^ u32(size - 4))
    elif size <= 16:
        last = u64(size - 8)
        result = _pair(_SEED ^ u64(0), _city_rotate(last + size, size)) ^ last
    elif size <= 32:
        a, b = u64(0) * _K1, u64(8)
        c, d = u64(size - 8) * _K2, u64(size - 16) * _K0
        low = _city_rotate(a - b, 43) + _city_rotate(c ^ _SEED, 30) + d
        high = a + _city_rotate(b ^ _K3, 20) - c + size + _SEED
        result = _pair(low & _CITY_MASK, high & _CITY_MASK)
    elif size > _BLOCK:
        state = _CityState(key[:_BLOCK])
        for at in range(_BLOCK, size - size % _BLOCK, _BLOCK):
            state.mix(key[at : at + _BLOCK])
        if size % _BLOCK:
            state.mix(key[-_BLOCK:])
        result = state.finish(size)
    else:
        first_a = u64(0) + (size + u64(size - 16)) * _K0
        vf, vs = _half(first_a, u64(8), u64(16), u64(24))
        wf, ws = _half(u64(16) + u64(size - 32), u64(size - 24), u64(size - 16), u64(size - 8))
        r = _city_mix((vf + ws) * _K2 + (wf + vs) * _K0)
        result = _city_mix((_SEED ^ r * _K0) + vs) * _K2
    return result & 0xFFFFFFFF
