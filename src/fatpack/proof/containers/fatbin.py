"""CUDA fat binaries for a proof.

A header, then entries: 64 bytes, a variable area up to the size of the entry's header, the image with its padding.
Everything is little-endian. NVIDIA documents none of it: ``fatpack.formats.cuda_fatbin`` names the sources.
"""

from __future__ import annotations

from hashlib import sha256

from construct import Bytes, Int16ul, Int32ul, Int64ul, Struct

from fatpack import codecs
from fatpack.errors import FormatError, LimitExceeded
from fatpack.proof.containers.model import ProofContainer, ProofImage, construct_reader

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.proof.memory import ProgramMemory

_HEADER = Struct(
    "magic" / Bytes(4),
    "version" / Int16ul * "1",
    "size" / Int16ul * "bytes of this header",
    "entries_size" / Int64ul * "bytes of all entries",
)
_READ_HEADER = construct_reader(_HEADER)

_ENTRY = Struct(
    "kind" / Int16ul,
    "version" / Int16ul,
    "header_size" / Int32ul * "bytes of this and of the variable area",
    "padded" / Int64ul * "bytes of the image with its padding",
    "compressed" / Int32ul * "bytes of the compressed image, 0 if it is not compressed",
    "options" / Bytes(8),
    "sm" / Int32ul * "number of the architecture",
    "identifier" / Bytes(8),
    "flags" / Int64ul,
    "key" / Bytes(8),
    "inflated" / Int64ul * "bytes of a compressed image after decompression",
)
_READ_ENTRY = construct_reader(_ENTRY)

#: kind → form of the image
_KINDS = {0x01: "ptx", 0x02: "cubin", 0x08: "ltoir", 0x40: "ptx", 0x80: "tileir"}
#: flags of variants of an architecture
_VARIANTS = {0x100000: "a", 0x200000: "f"}
#: flags of compression, in the order in which readers check them
_METHODS = {0x1000: "zlib", 0x2000: "lz4", 0x4000: "lz4-frame", 0x8000: "zstd"}
_COMPRESSED = 0xF000

#: LIMIT: bytes before an entry's image. Options of a compiler are a few hundred.
_LONGEST_HEADER = 1 << 20

#: Images are padded to a multiple of this.
_ALIGN = 8


def read_fatbin(memory: ProgramMemory, address: int, end: int) -> ProofContainer | None:
    """Return the fat binary at an address, None unless its entries fill it exactly and it ends before ``end``."""
    data = memory.read(address, _READ_HEADER.size)
    if data is None or address + _READ_HEADER.size > end:
        return None
    _, version, size, entries_size = _READ_HEADER.unpack(data)
    at, stop = address + size, address + size + entries_size
    if version != 1 or size < _READ_HEADER.size or stop > end:
        return None
    head = memory.read(address, size)
    images, inner = [], []
    while at < stop:
        image = _image(memory, at, stop)
        if image is None:
            return None
        images.append(image[0])
        at = image[1]
        inner.append(at - image[0].size)
    kept = (head or b"")[:8] + (head or b"")[_READ_HEADER.size :]
    return ProofContainer("cuda-fatbin", address, stop, tuple(images), kept, inner=tuple(inner))


#: bytes of a header
HEADER_SIZE = _READ_HEADER.size


def fatbin_size(data: bytes) -> int:
    """Return the size that the header of a fat binary states, 0 if it is none."""
    if len(data) < HEADER_SIZE:
        return 0
    _, version, size, entries_size = _READ_HEADER.unpack(data)
    return int(size + entries_size) if version == 1 and size >= HEADER_SIZE else 0


def has_known_kind(image: ProofImage) -> bool:
    """Return whether an image is of a kind that is known here."""
    return image.title.startswith(tuple(_KINDS.values()))


def _image(memory: ProgramMemory, at: int, stop: int) -> tuple[ProofImage, int] | None:
    """Return the image of the entry at an address, and the end of the entry."""
    data = memory.read(at, _READ_ENTRY.size) if at + _READ_ENTRY.size <= stop else None
    if data is None:
        return None
    kind, _, header_size, padded, compressed, _, sm, _, flags, _, inflated = _READ_ENTRY.unpack(data)
    start, next_at = at + header_size, at + header_size + padded
    if header_size < _READ_ENTRY.size or header_size > _LONGEST_HEADER or next_at > stop or compressed > padded:
        return None
    stored = memory.stored(at, header_size + padded)
    if stored is None:
        return None
    memory.charge(header_size + padded)
    rest = stored.read(0, header_size)
    variant = "".join(letter for bit, letter in _VARIANTS.items() if flags & bit)
    title = f"{_KINDS.get(kind, f'kind {kind:#x}')} sm_{sm}{variant}"
    method = next((name for bit, name in _METHODS.items() if flags & bit), "")
    is_plain = not method and not compressed and not inflated
    is_packed = (
        method
        and 0 <= padded - compressed < _ALIGN
        and not any(memory.read(start + compressed, padded - compressed) or b"")
    )

    def content() -> tuple[int, str, bytes] | None:
        if not is_plain and not is_packed:
            return None
        size, digest = _content(memory.stored(start, compressed if method else padded), method, inflated)
        return (size, digest, _uncompressed(rest)) if digest else None

    return ProofImage(title, padded, memory.digest(start, padded), rest, content=content), next_at


def _uncompressed(rest: bytes) -> bytes:
    """Return the header of an entry without the fields about storage: sizes, and flags of compression."""
    entry = _ENTRY.parse(rest)
    unpacked = {**entry, "padded": 0, "compressed": 0, "inflated": 0, "flags": entry.flags & ~_COMPRESSED}
    area = rest[_READ_ENTRY.size :]
    if not any(area) and not any(entry.options[:4]) and not any(entry.identifier):
        # CUDA 12.4 writes eight zero bytes for an identifier that is empty. No field leads there.
        area, unpacked["header_size"] = b"", _READ_ENTRY.size
    return bytes(_ENTRY.build(unpacked)) + area


def _content(stored: View | None, method: str, inflated: int) -> tuple[int, str]:
    """Return size and digest of an image, padded to a multiple of 8 as in an entry; no digest for a damaged one.

    Raises LimitExceeded if it exceeds the limits on decompression.
    """
    if stored is None:
        return 0, ""
    found, size = sha256(), 0
    try:
        for piece in (
            codecs.inflate_pieces(stored, method, inflated, format="cuda-fatbin") if method else stored.pieces()
        ):
            found.update(piece)
            size += len(piece)
    except LimitExceeded:
        raise
    except FormatError:
        return 0, ""
    found.update(bytes(-size % _ALIGN))
    return size + -size % _ALIGN, found.hexdigest()
