"""Containers in a proof: every byte counts, and an unusual container is none."""

from __future__ import annotations

import hashlib
import struct
import tracemalloc
import zlib
from collections.abc import Iterable

import pytest

from fatpack.errors import LimitExceeded
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource
from fatpack.limits import Budget
from fatpack.proof import containers, memory
from fatpack.proof.containers.fatbin import fatbin_size
from fatpack.proof.containers.model import ProofContainer
from fatpack.proof.memory import LoadedRange, ProgramMemory

zstandard = pytest.importorskip("zstandard")

START = 0x4000
IMAGES = {"host-x86_64-unknown-linux--": b"", "hipv4-amdgcn-amd-amdhsa--gfx90a": b"code" * 50, "b": bytes(range(99))}


def bundle(images: dict[str, bytes], align: int = 64) -> bytes:
    size = 32 + sum(24 + len(title) for title in images)
    head, body = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(images)), b""
    for title, image in images.items():
        body += bytes(-(size + len(body)) % align)
        head += struct.pack("<QQQ", size + len(body), len(image), len(title)) + title.encode()
        body += image
    return head + body


def compressed(data: bytes, version: int = 3, method: int = 1) -> bytes:
    packed = zstandard.compress(data) if method else zlib.compress(data)
    sizes = "<QQ" if version == 3 else "<II"
    total = 16 + struct.calcsize(sizes) + len(packed)
    digest = hashlib.md5(data).digest()[:8]
    return b"CCOB" + struct.pack("<HH", version, method) + struct.pack(sizes, total, len(data)) + digest + packed


def loaded(data: bytes, more: int = 0) -> ProgramMemory:
    """Return the memory of a program that loads bytes, and zeros after them."""
    end = START + len(data)
    return ProgramMemory(
        BytesSource(data).view(), [LoadedRange(START, end + more, 0, end, "r--")], word=8, order="little"
    )


def read(data: bytes) -> ProofContainer | None:
    return containers.read_container(loaded(data), START, START + len(data))


def flips(data: bytes) -> Iterable[tuple[int, bytes]]:
    for at in range(len(data)):
        yield at, data[:at] + bytes([data[at] ^ 0x41]) + data[at + 1 :]


def contents(container: ProofContainer | None) -> object:
    """Return all that a proof compares of a container."""
    if container is None:
        return None
    images = [(image.title, image.size, image.digest, image.rest) for image in container.images]
    return container.kind, container.end, container.head, container.method, images


@pytest.mark.parametrize("pack", [bytes, compressed, lambda data: compressed(data, 2, 0)], ids=["as is", "v3", "v2"])
def test_images_of_a_bundle_have_their_digests(pack: object) -> None:
    data = pack(bundle(IMAGES))  # type: ignore[operator]
    found = read(data)
    assert found is not None and (found.start, found.end) == (START, START + len(data))
    assert {image.title: image.digest for image in found.images} == {
        title: hashlib.sha256(image).hexdigest() for title, image in IMAGES.items()
    }
    assert all(image.is_inflated == (pack is not bytes) for image in found.images)


@pytest.mark.parametrize("pack", [bytes, compressed], ids=["as is", "compressed"])
def test_no_byte_of_a_bundle_is_overlooked(pack: object) -> None:
    data = pack(bundle({title: image for title, image in IMAGES.items() if image}))  # type: ignore[operator]
    whole = contents(read(data))
    assert whole is not None and not [at for at, other in flips(data) if is_overlooked(other, whole)]


def is_overlooked(data: bytes, whole: object) -> bool:
    """Return whether a changed container looks like the one before."""
    try:
        return contents(read(data)) == whole
    except LimitExceeded:
        return False


def test_what_lies_between_images_must_be_zero() -> None:
    data = bytearray(bundle(IMAGES, align=4096))
    data[3000] = 1
    assert read(bytes(data)) is None


@pytest.mark.parametrize("size", [1, 64, 3 << 20])
@pytest.mark.parametrize("place", [0, -1])
def test_what_follows_the_last_image_of_a_compressed_bundle_must_be_zero(size: int, place: int) -> None:
    more = bytearray(size)
    assert read(compressed(bundle(IMAGES) + bytes(more))) is not None
    more[place] = 1
    assert read(compressed(bundle(IMAGES) + bytes(more))) is None


def test_images_that_overlap_are_no_bundle() -> None:
    data = bytearray(bundle({"a": b"x" * 64, "b": b"y" * 64}))
    first, _ = struct.unpack_from("<QQ", data, 32)
    struct.pack_into("<Q", data, 32 + 24 + 1, first + 8)
    assert read(bytes(data)) is None


@pytest.mark.parametrize("cut", range(0, 200, 13))
def test_a_cut_container_is_none(cut: int) -> None:
    for data in (bundle(IMAGES), compressed(bundle(IMAGES))):
        assert read(data[:cut]) is None


def test_a_bundle_that_is_a_bomb_is_refused() -> None:
    data = compressed(bundle({"a": bytes(50 << 20)}))
    end = START + len(data)
    view = open_source(data, budget=Budget(inflated=1 << 20)).view()
    program = ProgramMemory(view, [LoadedRange(START, end, 0, end, "r--")], word=8, order="little")
    with pytest.raises(LimitExceeded):
        containers.read_container(program, START, end)


def with_ids(count: int, length: int) -> bytes:
    """Return a bundle with many long IDs, and an image for the last of them."""
    titles = [f"{number:04}".ljust(length, "x") for number in range(count)]
    return bundle({title: b"code" if title == titles[-1] else b"" for title in titles}, align=1)


@pytest.mark.parametrize("pack", [bytes, compressed], ids=["as is", "compressed"])
@pytest.mark.parametrize(
    ("count", "length", "is_read"),
    [
        (3, 4096, True),
        (3, 4097, False),  # an ID of more than 4096 bytes
        (200, 4096, True),  # a table that comes in several pieces
        (255, 4096, True),
        (257, 4096, False),  # an entry that begins after a megabyte
    ],
)
def test_a_table_has_limits(pack: object, count: int, length: int, is_read: bool) -> None:
    found = read(pack(with_ids(count, length)))  # type: ignore[operator]
    assert (found is not None) == is_read
    if found is not None:
        assert [image.size for image in found.images] == [0] * (count - 1) + [4]


def test_a_table_without_an_end_takes_no_memory() -> None:
    """The header states more entries than there are, and all that follows is entries."""
    row = struct.pack("<QQQ", 0, 0, 4096) + bytes(4096)
    data = compressed(b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", 1 << 40) + row * 12_000)
    tracemalloc.start()
    try:
        assert read(data) is None
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


def test_a_container_in_memory_that_the_file_lacks_is_none() -> None:
    fatbin = struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, 1 << 40)
    assert containers.read_container(loaded(fatbin, more=1 << 41), START, START + (1 << 41)) is None


def test_more_images_than_any_program_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MOST_IMAGES", 3)
    entry = struct.pack("<HHIQIIHHIIIQQQ", 2, 0x101, 64, 0, 0, 0, 7, 1, 90, 0, 0, 0x11, 0, 0)
    with pytest.raises(LimitExceeded, match="more than 3 images"):
        read(struct.pack("<4sHHQ", b"\x50\xed\x55\xba", 1, 16, 4 * 64) + 4 * entry)


def test_segments_that_load_the_same_bytes_again_and_again_are_refused() -> None:
    data, size = bytes(1 << 20), 1 << 20
    loaded_ranges = [
        LoadedRange(number * size, (number + 1) * size, 0, (number + 1) * size, "r--") for number in range(100)
    ]
    with pytest.raises(LimitExceeded, match="bytes that are loaded"):
        ProgramMemory(BytesSource(data).view(), loaded_ranges, word=8, order="little")


def test_an_empty_fat_binary_may_be_the_last_of_what_is_loaded() -> None:
    """The old file's section is longer than the edited file's loaded range: libtorch_cuda.so of torch 2.9.1."""
    empty = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0)
    found = containers.read_container(loaded(empty), START, START + 0x1000)
    assert found is not None
    assert (found.kind, found.end, found.images) == ("cuda-fatbin", START + 16, ())
    assert containers.read_container(loaded(empty[:15]), START, START + 0x1000) is None


@pytest.mark.parametrize(
    ("version", "size", "entries", "stated"),
    [(1, 16, 8, 24), (1, 24, 0, 24), (1, 15, 8, 0), (2, 16, 8, 0), (0, 16, 8, 0)],
)
def test_the_size_of_a_fat_binary_is_stated_by_a_header_of_version_1(
    version: int, size: int, entries: int, stated: int
) -> None:
    header = b"\x50\xed\x55\xba" + struct.pack("<HHQ", version, size, entries)
    assert fatbin_size(header) == stated
    assert fatbin_size(header[:15]) == 0
