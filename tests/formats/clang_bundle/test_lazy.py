"""Compressed bundles too large to be inflated when they are read: the table at once, the rest on demand."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator

import pytest
import zstandard
from tests.formats.clang_bundle.test_read import ALL, V3, edited, many, plain, wrapped

from fatpack import limits
from fatpack.errors import BadValue, FormatError, LimitExceeded
from fatpack.formats import clang_bundle
from fatpack.formats.clang_bundle import compressed
from fatpack.formats.clang_bundle.compressed import is_unchecked, verify
from fatpack.formats.clang_bundle.layout import COMPRESSED_HEADERS, CompressedBundle
from fatpack.io.inflated import StreamedSource
from fatpack.io.source import Span, View
from fatpack.model import Container, Image
from fatpack.testing.helpers import TracedMemory, join_pieces, make_image, make_view

SIZES = (3000, 200_000, 500_000)


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make even the smallest bundle inflate on demand."""
    monkeypatch.setattr(limits, "INFLATED_AT_ONCE", -1)


def large(align: int = 4096, attrs: dict[str, str] | None = None) -> bytes:
    """Return a compressed bundle whose images do not compress."""
    rng = random.Random(3)
    images = tuple(
        make_image(rng.randbytes(size), attrs={"id": f"hip-amdgcn-amd-amdhsa--gfx{size}"}) for size in (0, *SIZES)
    )
    attrs = {"compression": "zstd", "align": str(align), **(attrs or {})}
    return join_pieces(clang_bundle.write(Container("", 3, images, Span(0, 0), attrs=attrs)))


def body_of(container: Container) -> StreamedSource:
    assert isinstance(container.record, CompressedBundle)
    source = container.record.inside.stored.source
    assert isinstance(source, StreamedSource)
    return source


def inflated_bytes(source: StreamedSource) -> int:
    return source._window._end if source._window is not None else 0


def findings(data: bytes) -> list[tuple[str, Span, str]]:
    container = clang_bundle.parse(make_view(data))
    found = [*container.findings, *verify(container)]
    return sorted((item.code, item.span, item.message) for item in found)  # type: ignore[type-var]


def test_the_table_is_inflated_and_little_more(monkeypatch: pytest.MonkeyPatch) -> None:
    inflated: list[int] = []
    real = compressed.inflate_pieces

    def counting(data: View, method: str, expected: int | None, *, format: str) -> Iterator[bytes]:
        for piece in real(data, method, expected, format=format):
            inflated.append(len(piece))
            yield piece

    monkeypatch.setattr(compressed, "inflate_pieces", counting)
    container = clang_bundle.parse(make_view(large()), strict=True)
    assert 0 < sum(inflated) <= 16384
    assert [item.size for item in container.images] == [0, *SIZES]
    assert [item.compression for item in container.images] == ["zstd"] * 4
    assert container.attrs["align"] == "4096"
    source = body_of(container)
    assert source.size > sum(SIZES)
    assert inflated_bytes(source) == 0  # a library has hundreds of them: none stays open
    assert container.images[1].data.read(2996, 4) == container.images[1].data.tobytes()[-4:]
    assert inflated_bytes(source) <= 16384


def test_images_are_inflated_when_they_are_read() -> None:
    data = large()
    container = clang_bundle.parse(make_view(data), strict=True)
    rng = random.Random(3)
    for item, size in zip(container.images[1:], SIZES, strict=True):
        assert item.data.tobytes() == rng.randbytes(size)
    assert join_pieces(clang_bundle.write(container)) == data
    again = join_pieces(clang_bundle.write(container.replace(images=container.images[:2])))
    assert clang_bundle.parse(make_view(again), strict=True).images[1].data.tobytes() == random.Random(3).randbytes(
        3000
    )


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize("name", sorted(ALL))
def test_every_version_and_method_can_be_read_late(name: str) -> None:
    container = clang_bundle.parse(make_view(ALL[name]), strict=True)
    assert is_unchecked(container)
    assert (container.findings, verify(container)) == ((), [])
    assert [item.size for item in container.images] == [0, 171, 10]
    assert container.images[2].data.tobytes() == b"worldworld"
    assert join_pieces(clang_bundle.write(container)) == ALL[name]


def test_what_was_checked_when_it_was_read_is_not_inflated_again() -> None:
    container = clang_bundle.parse(make_view(V3[:24] + bytes(8) + V3[32:]))
    assert [item.code for item in container.findings] == ["FP1304"]
    assert not is_unchecked(container)
    assert verify(container) == []
    assert verify(clang_bundle.parse(make_view(plain()))) == []


STRAY = plain(3, 40_000).replace(b"\2" * 40_000, b"\2" * 40_000 + b"stray" + bytes(5))
CASES = {
    "sound": V3,
    "size": edited(V3, "size", 40),
    "inflated size": edited(V3, "inflated_size", 457),
    "hash": V3[:24] + bytes(8) + V3[32:],
    "stray bytes at the end": wrapped(STRAY, zstandard.compress(STRAY)),
    "several frames": wrapped(plain(), zstandard.compress(plain()[:60]) + zstandard.compress(plain()[60:])),
}


@pytest.mark.parametrize("name", CASES)
def test_late_checks_find_what_checks_at_once_find(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INFLATED_AT_ONCE", 1 << 20)
    at_once = findings(CASES[name])
    monkeypatch.setattr(limits, "INFLATED_AT_ONCE", -1)
    assert findings(CASES[name]) == at_once
    assert bool(at_once) == (name not in ("sound", "several frames"))


@pytest.mark.usefixtures("lazy")
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (8191, 1), (700, 300_000), (-1, 1)])
def test_stray_bytes_between_images_are_found_wherever_they_lie(start: int, stop: int) -> None:
    body = bytearray(
        join_pieces(clang_bundle.write(Container("", 0, _spread(), Span(0, 0), attrs={"align": "524288"})))
    )
    gap = (524_288 + 1000, 2 * 524_288)
    at = gap[0] + start if start >= 0 else gap[1] + start
    for place in (at, min(at + stop, gap[1]) - 1):
        body[place] = 1
    container = clang_bundle.parse(make_view(wrapped(bytes(body), zstandard.compress(bytes(body)))))
    (found,) = verify(container)
    assert (found.code, found.span.start, found.span.end) == ("FP1308", *gap)
    assert found.message == "523288 bytes after the image of entry 0 belong to nothing"


def _spread() -> tuple[Image, ...]:
    return tuple(make_image(bytes([7]) * 1000, attrs={"id": f"hip-a-b-c--{number}"}) for number in range(3))


def test_damage_after_the_table_is_met_when_it_is_read() -> None:
    rng = random.Random(4)
    stored = tuple(
        make_image(bytes(rng.choices(range(20), k=300_000)), attrs={"id": f"hip-a-b-c--{number}"})
        for number in range(2)
    )
    good = join_pieces(clang_bundle.write(Container("", 3, stored, Span(0, 0), attrs={"compression": "zstd"})))
    met = 0
    for at in range(len(good) * 3 // 4, len(good), 1499):
        data = good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]
        try:
            container = clang_bundle.parse(make_view(data), strict=True)
        except BadValue:  # the header of a block
            continue
        assert container.images[0].data.tobytes() == stored[0].data.tobytes()
        try:
            (found,) = verify(container)
        except BadValue:
            met += 1
            with pytest.raises(BadValue, match="zstd stream is damaged"):
                container.images[1].data.tobytes()
        else:
            assert found.code == "FP1304"
    assert met


def test_a_frame_that_lies_about_its_size_is_an_error_for_its_readers() -> None:
    body = plain(2, 100_000)
    stream = bytearray(zstandard.ZstdCompressor(write_content_size=True).compress(body))
    assert stream[4] & 0xC0 == 0x80  # the size takes four bytes
    at = 5 if stream[4] & 0x20 else 6
    for claimed in (len(body) - 1, len(body) + 1, 80_000, len(body) * 2):
        stream[at : at + 4] = claimed.to_bytes(4, "little")
        data = wrapped(body, bytes(stream))
        with pytest.raises(FormatError):
            container = clang_bundle.parse(make_view(data), strict=True)
            verify(container)


def test_a_frame_beyond_the_limit_is_refused_without_inflating_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INFLATED", 63 << 20)
    body = plain(1, 64 << 20)
    data = wrapped(body, zstandard.ZstdCompressor(level=19).compress(body))
    with TracedMemory() as memory, pytest.raises(LimitExceeded, match="claim to inflate"):
        clang_bundle.parse(make_view(data))
    assert memory.peak < 1 << 20


def test_listing_many_takes_no_memory_and_hashing_them_little() -> None:
    data = many(20, 2_000_000)
    with TracedMemory() as memory:
        view, at, found = make_view(data), 0, []
        while at < len(view):
            found.append(clang_bundle.parse(view, at))
            at = view.skip_zeros(at + found[-1].span.size)
        assert memory.peak < 4 << 20
        assert [verify(container) for container in found] == [[]] * 20
    assert memory.peak < 8 << 20
    assert len(found) == 20


def test_the_hash_is_that_of_the_content() -> None:
    container = clang_bundle.parse(make_view(large()))
    assert isinstance(container.record, CompressedBundle)
    body = container.record.inside.stored.tobytes()
    assert container.record.hash == hashlib.md5(body).digest()[:8]
    at = COMPRESSED_HEADERS[3].field_offset("hash")
    data = bytearray(large())
    data[at] ^= 1
    (found,) = verify(clang_bundle.parse(make_view(bytes(data))))
    assert (found.code, found.span.start, found.span.end) == ("FP1304", at, at + 8)
