"""Writer of Metal libraries: one that was read as it is stored, a new one in the order of Apple's linker.

A library that was read is not edited: Metal finds functions by their names and hashes, and the reflection list and the
metadata have a part for each. A new one has neither.
"""

from __future__ import annotations

from hashlib import sha256
from struct import pack

from fatpack.errors import Unsupported
from fatpack.formats.metallib.layout import (
    COUNT,
    END,
    FUNCTION_TYPES,
    GROUP,
    HEADER,
    IS_MACOS,
    METALLIB_FORMAT,
    PLATFORMS,
    TAG,
    MetalHeader,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import Piece
    from fatpack.model import Container, Image

_TYPES = {name: number for number, name in FUNCTION_TYPES.items()}
_NUMBERS = {name: number for number, (name, _) in PLATFORMS.items()}

#: metadata of a function without any
_NO_METADATA = GROUP.pack(8) + END


def write(container: Container, options: None = None) -> Iterator[Piece]:
    """Yield the pieces of a library. Raises Unsupported if functions of one that was read were changed."""
    record = container.record
    if isinstance(record, MetalHeader):
        if any(image.data.source is not record.stored.source for image in container.images) or (
            len(container.images) != record.count
        ):
            problem = f"{METALLIB_FORMAT}: functions of a Metal library cannot be replaced or removed"
            raise Unsupported(problem, hint="build the library again with the functions that it shall have")
        yield record.stored
        return
    yield from _new(container)


def _new(container: Container) -> Iterator[Piece]:
    attrs = container.attrs
    bitcode = [image.data.tobytes() for image in container.images]
    groups = bytearray()
    at = 0
    for number, (image, code) in enumerate(zip(container.images, bitcode, strict=True)):
        group = _group(image, code, number * len(_NO_METADATA), at)
        groups += GROUP.pack(GROUP.size + len(group)) + group
        at += len(code)
    extension = b""
    if "uuid" in attrs:
        extension = _tag(b"UUID", bytes.fromhex(attrs["uuid"].replace("-", ""))) + END
    metadata = _NO_METADATA * len(bitcode)
    public = HEADER.size + COUNT.size + len(groups) + len(extension)
    private = public + len(metadata)
    start = private + len(metadata)
    major, minor, patch = (*map(int, attrs.get("needs", "0").split(".")), 0, 0)[:3]
    platform = attrs.get("platform", "macOS")
    yield HEADER.pack(
        b"MTLB",
        1 | (IS_MACOS if platform == "macOS" else 0),
        2,
        7,
        0,
        0x80 | _NUMBERS[platform],
        major,
        minor,
        patch,
        start + at,
        HEADER.size,
        len(groups),
        public,
        len(metadata),
        private,
        len(metadata),
        start,
        at,
    )
    yield COUNT.pack(len(bitcode)) + bytes(groups) + extension + metadata + metadata
    yield from bitcode


def _group(image: Image, code: bytes, metadata_at: int, at: int) -> bytes:
    attrs = image.attrs
    made = _tag(b"NAME", attrs["name"].encode() + b"\0")
    if attrs.get("type"):
        made += _tag(b"TYPE", bytes((_TYPES[attrs["type"]],)))
    made += _tag(b"HASH", sha256(code).digest()) + _tag(b"OFFT", pack("<3Q", metadata_at, metadata_at, at))
    if "air" in attrs:
        numbers = [int(part) for key in ("air", "metal") for part in attrs[key].split(".")]
        made += _tag(b"VERS", pack("<4H", *numbers))
    return made + _tag(b"MDSZ", pack("<Q", len(code))) + END


def _tag(name: bytes, content: bytes) -> bytes:
    return TAG.pack(name, len(content)) + content
