"""The two hash functions by which LLVM orders the keys of its hash maps: CityHash (to LLVM 22) and XXH3.

Tests compare them for every length to 2100 with LLVM 22's own header and with the ``xxhash`` package.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


_MASK = (1 << 64) - 1


def _u32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _u64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


# CityHash as ``hash_value`` of a string in LLVM 19 to 22 (llvm/include/llvm/ADT/Hashing.h), for ``DenseMap``.

_SEED = 0xFF51AFD7ED558CCD
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MULTIPLIER = 0x9DDFEA08EB382D69

#: Keys up to this size are hashed at once, longer ones in blocks of this size.
_BLOCK = 64


def _rotate_right(value: int, count: int) -> int:
    value &= _MASK
    return (value >> count | value << (64 - count)) & _MASK


def _city_mix(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _pair(low: int, high: int) -> int:
    a = _city_mix((low ^ high) * _MULTIPLIER)
    b = _city_mix((high ^ a) * _MULTIPLIER)
    return b * _MULTIPLIER & _MASK


def _half(x: int, first: int, second: int, z: int) -> tuple[int, int]:
    """Return one of the two rounds of the 33-to-64-byte hash."""
    a, b, c = x, _rotate_right(x + z, 52), _rotate_right(x, 37)
    a += first
    c += _rotate_right(a, 7)
    a += second
    return (a + z) & _MASK, (b + _rotate_right(a, 31) + c) & _MASK


class _CityState:
    """The hash of a key longer than one block: LLVM's ``hash_state``, seven words."""

    def __init__(self, first: bytes) -> None:
        h4, h5 = _SEED * _K1 & _MASK, _city_mix(_SEED)
        self.words = [0, _SEED, _pair(_SEED, _K1), _rotate_right(_SEED ^ _K1, 49), h4, h5, _pair(h4, h5)]
        self.mix(first)

    def mix(self, block: bytes) -> None:
        h0, h1, h2, h3, h4, h5, h6 = self.words
        s = [int.from_bytes(block[at : at + 8], "little") for at in range(0, _BLOCK, 8)]
        h0 = _rotate_right(h0 + h1 + h3 + s[1], 37) * _K1 & _MASK
        h1 = _rotate_right(h1 + h4 + s[6], 42) * _K1 & _MASK
        h0 ^= h6
        h1 += h3 + s[5]
        h2 = _rotate_right(h2 + h5, 33) * _K1 & _MASK
        h3, h4 = _mix_half(h4 * _K1, h0 + h5, s[:4])
        h5, h6 = _mix_half(h2 + h6, h1 + s[2], s[4:])
        self.words = [word & _MASK for word in (h2, h1, h0, h3, h4, h5, h6)]

    def finish(self, size: int) -> int:
        h0, h1, h2, h3, h4, h5, h6 = self.words
        low = _pair(h3, h5) + _city_mix(h1) * _K1 + h2
        high = _pair(h4, h6) + _city_mix(size) * _K1 + h0
        return _pair(low & _MASK, high & _MASK)


def _mix_half(a: int, b: int, words: Sequence[int]) -> tuple[int, int]:
    """Mix half a block into two words of the state."""
    a = (a + words[0]) & _MASK
    b = _rotate_right(b + a + words[3], 21)
    d = a
    a += words[1] + words[2]
    b += _rotate_right(a, 44) + d
    return a + words[3], b


def hash_key(key: bytes) -> int:
    """Return the low 32 bits of LLVM's hash of a key."""
    size = len(key)

    def u32(at: int) -> int:
        return _u32(key, at)

    def u64(at: int) -> int:
        return _u64(key, at)

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
        result = _pair(_SEED ^ u64(0), _rotate_right(last + size, size)) ^ last
    elif size <= 32:
        a, b = u64(0) * _K1, u64(8)
        c, d = u64(size - 8) * _K2, u64(size - 16) * _K0
        low = _rotate_right(a - b, 43) + _rotate_right(c ^ _SEED, 30) + d
        high = a + _rotate_right(b ^ _K3, 20) - c + size + _SEED
        result = _pair(low & _MASK, high & _MASK)
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


# XXH3 with 64 bits and no seed (specification of xxHash 0.8; llvm/lib/Support/xxhash.cpp of LLVM 19 to 23)

_PRIME32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_PRIME64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_RRMXMX = 0x9FB21C651E98DF25
_AVALANCHE = 0x165667919E3779F9

#: The default secret of XXH3: 192 bytes.
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221"
    "b8084674f743248ee03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb"
    "170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def _rotate_left(value: int, count: int) -> int:
    return (value << count | value >> (64 - count)) & _MASK


def _fold(first: int, second: int) -> int:
    """Return the exclusive or of the two halves of a 128-bit product."""
    product = first * second
    return (product ^ product >> 64) & _MASK


def _swapped(value: int) -> int:
    return int.from_bytes(value.to_bytes(8, "little"), "big")


def _avalanche(value: int) -> int:
    value &= _MASK
    value = (value ^ value >> 37) * _AVALANCHE & _MASK
    return value ^ value >> 32


def _avalanche_64(value: int) -> int:
    value = (value ^ value >> 33) * _PRIME64[1] & _MASK
    value = (value ^ value >> 29) * _PRIME64[2] & _MASK
    return value ^ value >> 32


def _xxh3_mix(data: bytes, at: int, secret_at: int) -> int:
    return _fold(_u64(data, at) ^ _u64(_SECRET, secret_at), _u64(data, at + 8) ^ _u64(_SECRET, secret_at + 8))


def xxh3(data: bytes) -> int:
    """Return the 64-bit XXH3 hash of bytes, without a seed."""
    size = len(data)
    if size <= 16:
        return _short(data, size)
    total = size * _PRIME64[0]
    if size <= 128:
        for step in reversed(range((size - 1) // 32 + 1)):
            total += _xxh3_mix(data, 16 * step, 32 * step) + _xxh3_mix(data, size - 16 * (step + 1), 32 * step + 16)
        return _avalanche(total)
    if size <= 240:
        total = _avalanche(total + sum(_xxh3_mix(data, 16 * step, 16 * step) for step in range(8)))
        total += sum(_xxh3_mix(data, 16 * step, 16 * step - 125) for step in range(8, size // 16))
        return _avalanche(total + _xxh3_mix(data, size - 16, 119))
    return _long(data, size)


def _short(data: bytes, size: int) -> int:
    if size > 8:
        low = _u64(data, 0) ^ _u64(_SECRET, 24) ^ _u64(_SECRET, 32)
        high = _u64(data, size - 8) ^ _u64(_SECRET, 40) ^ _u64(_SECRET, 48)
        return _avalanche(size + _swapped(low) + high + _fold(low, high))
    if size >= 4:
        keyed = (_u32(data, size - 4) + (_u32(data, 0) << 32)) ^ _u64(_SECRET, 8) ^ _u64(_SECRET, 16)
        keyed ^= _rotate_left(keyed, 49) ^ _rotate_left(keyed, 24)
        keyed = keyed * _RRMXMX & _MASK
        keyed = (keyed ^ (keyed >> 35) + size) * _RRMXMX & _MASK
        return keyed ^ keyed >> 28
    if size:
        combined = data[0] << 16 | data[size // 2] << 24 | data[-1] | size << 8
        return _avalanche_64(combined ^ _u32(_SECRET, 0) ^ _u32(_SECRET, 4))
    return _avalanche_64(_u64(_SECRET, 56) ^ _u64(_SECRET, 64))


def _long(data: bytes, size: int) -> int:
    lanes = [_PRIME32[2], *_PRIME64[:4], _PRIME32[1], _PRIME64[4], _PRIME32[0]]
    whole_blocks = (size - 1) // 1024 * 1024
    for at in range(0, (size - 1) // 64 * 64, 64):
        _accumulate(lanes, data, at, at % 1024 // 8)
        if at % 1024 == 960 and at < whole_blocks:
            for lane, value in enumerate(lanes):
                lanes[lane] = (value ^ value >> 47 ^ _u64(_SECRET, 128 + 8 * lane)) * _PRIME32[0] & _MASK
    _accumulate(lanes, data, size - 64, 121)
    total = size * _PRIME64[0]
    for lane in range(0, 8, 2):
        total += _fold(lanes[lane] ^ _u64(_SECRET, 11 + 8 * lane), lanes[lane + 1] ^ _u64(_SECRET, 19 + 8 * lane))
    return _avalanche(total)


def _accumulate(lanes: list[int], data: bytes, at: int, secret_at: int) -> None:
    for lane in range(8):
        value = _u64(data, at + 8 * lane)
        keyed = value ^ _u64(_SECRET, secret_at + 8 * lane)
        lanes[lane ^ 1] = (lanes[lane ^ 1] + value) & _MASK
        lanes[lane] = (lanes[lane] + (keyed & 0xFFFFFFFF) * (keyed >> 32)) & _MASK
