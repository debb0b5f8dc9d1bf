"""Compressed bundles: every version and method, wrong numbers in the header, damaged and hostile streams."""

from __future__ import annotations

import hashlib
import random
import struct
import zlib

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.rooms import FIXTURES

from fatpack import limits
from fatpack.errors import BadMagic, BadValue, FormatError, LimitExceeded, Truncated, Unsupported
from fatpack.formats import clang_bundle
from fatpack.formats.clang_bundle.compressed import find_stream_end
from fatpack.formats.clang_bundle.layout import COMPRESSED_HEADERS, CompressedBundle
from fatpack.io.inflated import InflatedSource
from fatpack.io.source import BytesSource, Span
from fatpack.limits import Budget
from fatpack.model import Container
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import TracedMemory, join_pieces, make_image, make_view
from fatpack.writer_options import BundleOptions

FOLDER = FIXTURES / "clang_bundle"
V2 = (FOLDER / "llvm-22-v2-zstd.bundle").read_bytes()
V3 = (FOLDER / "llvm-22-v3-zstd.bundle").read_bytes()
ALL = {path.name: path.read_bytes() for path in FOLDER.glob("*-v*.bundle")}
each = pytest.mark.parametrize("name", sorted(ALL))


def plain(images: int = 2, size: int = 50) -> bytes:
    """Return an uncompressed bundle."""
    stored = tuple(make_image(bytes([number]) * size, attrs={"id": f"hip-a-b-c--{number}"}) for number in range(images))
    return join_pieces(clang_bundle.write(Container("", 0, stored, Span(0, 0))))


def wrapped(
    body: bytes, stream: bytes, version: int = 3, method: int = 1, size: int | None = None, inflated: int | None = None
) -> bytes:
    """Return a compressed bundle with a header as given."""
    layout = COMPRESSED_HEADERS[version]
    sizes = [len(body) if inflated is None else inflated]
    sizes = sizes if version == 1 else [layout.size + len(stream) if size is None else size, *sizes]
    return layout.pack(b"CCOB", version, method, *sizes, hashlib.md5(body).digest()[:8]) + stream


def edited(data: bytes, field: str, value: int, version: int = 3) -> bytes:
    """Return a good bundle with one field of its header changed."""
    layout = COMPRESSED_HEADERS[version]
    code = next(item.code for item in layout.fields if item.name == field)
    at = layout.field_offset(field)
    return data[:at] + struct.pack(f"<{code}", value) + data[at + struct.calcsize(code) :]


def codes(data: bytes) -> list[str]:
    return [finding.code for finding in clang_bundle.parse(make_view(data)).findings]


def images_of(data: bytes) -> list[bytes]:
    return [item.data.tobytes() for item in clang_bundle.parse(make_view(data)).images]


@each
def test_every_version_and_method_holds_the_same_images(name: str) -> None:
    container = clang_bundle.parse(make_view(ALL[name]), strict=True)
    method, version = name.rsplit("-", maxsplit=1)[-1].removesuffix(".bundle"), int(name.split("-v")[1][0])
    assert (container.version, container.findings, container.span.size) == (version, (), len(ALL[name]))
    assert container.attrs == {"flavour": "compressed", "inside": "binary", "compression": method, "align": "64"}
    assert [item.size for item in container.images] == [0, 171, 10]
    assert {(item.compression, item.stored_size) for item in container.images} == {(method, None)}
    assert container.images[2].data.tobytes() == b"worldworld"
    facts = clang_bundle.describe(container)
    assert facts["inflated_size"] == 458
    assert facts["size"] == (None if version == 1 else len(ALL[name]))


@each
def test_the_stored_stream_is_kept_when_only_the_version_changes(name: str) -> None:
    container = clang_bundle.parse(make_view(ALL[name]))
    assert isinstance(container.record, CompressedBundle)
    for version in (1, 2, 3):
        again = join_pieces(clang_bundle.write(container.replace(version=version)))
        assert again.endswith(container.record.stream.tobytes())
        assert clang_bundle.parse(make_view(again), strict=True).findings == ()
    assert join_pieces(clang_bundle.write(container)) == ALL[name]


def test_bytes_that_were_read_are_compressed_again_only_when_something_changed() -> None:
    container = clang_bundle.parse(make_view(V3))
    fewer = container.replace(images=container.images[:2])
    again = clang_bundle.parse(make_view(join_pieces(clang_bundle.write(fewer))), strict=True)
    assert [item.attrs["id"] for item in again.images] == [item.attrs["id"] for item in fewer.images]
    assert again.attrs == container.attrs
    harder = BundleOptions(compression="zstd", level=19)
    assert images_of(join_pieces(clang_bundle.write(container, harder))) == images_of(V3)


@pytest.mark.parametrize("version", [0, 4, 5, 0xFFFF])
def test_unknown_versions_are_named(version: int) -> None:
    data = edited(V3, "version", version)
    assert clang_bundle.extent(make_view(data)) is None
    with pytest.raises(Unsupported, match=f"compressed bundle of version {version}; fatpack reads 1, 2, 3"):
        clang_bundle.parse(make_view(data))


def test_unknown_methods_are_named_and_stepped_over_by_size() -> None:
    data = edited(V3, "method", 2)
    assert clang_bundle.extent(make_view(data)) == len(V3)
    with pytest.raises(Unsupported, match="compression method 2"):
        clang_bundle.parse(make_view(data))


@each
def test_a_cut_header_is_truncated(name: str) -> None:
    for size in range(8, 20):
        with pytest.raises(Truncated):
            clang_bundle.parse(make_view(ALL[name][:size]))


@each
def test_a_cut_stream_is_an_error_and_never_a_shorter_bundle(name: str) -> None:
    for size in range(32, len(ALL[name])):
        with pytest.raises((Truncated, BadValue)):
            clang_bundle.parse(make_view(ALL[name][:size]))


@pytest.mark.parametrize("size", [0, 7, 31, 40, len(V3) - 1, len(V3) + 1, 2**40, 2**64 - 1])
def test_a_wrong_total_size_is_reported_and_the_stream_decides(size: int) -> None:
    data = edited(V3, "size", size)
    for follower in (b"", bytes(5000), V2, bytes(100) + V2):
        container = clang_bundle.parse(make_view(data + follower), strict=True)
        if size == len(V3) + 1 and follower[:1] in (b"\0",):
            continue  # one more zero byte is padding, not a contradiction
        assert [finding.code for finding in container.findings] == ["FP1303"]
        assert container.span.size == len(V3)
        assert [item.size for item in container.images] == [0, 171, 10]


def test_a_total_size_that_swallows_the_next_bundle_hides_nothing() -> None:
    for follower in (V2, bytes(700) + V3):
        data = edited(V3, "size", len(V3) + len(follower)) + follower
        found = [item for item in scan(make_view(data)) if isinstance(item, FoundContainer)]
        assert [item.container.version for item in found] == [3, follower.lstrip(b"\0")[4]]


def test_bytes_after_the_stream_are_kept() -> None:
    data = edited(V3, "size", len(V3) + 5) + b"extra"
    container = clang_bundle.parse(make_view(data), strict=True)
    assert [finding.code for finding in container.findings] == ["FP1308"]
    assert join_pieces(clang_bundle.write(container)) == data


@pytest.mark.parametrize("value", [0, 457, 459, 2**32, 2**63])
def test_a_wrong_inflated_size_is_reported_and_never_believed(value: int) -> None:
    data = edited(V3, "inflated_size", value)
    assert codes(data) == ["FP1305"]
    assert images_of(data) == images_of(V3)


def test_a_wrong_hash_is_reported() -> None:
    at = COMPRESSED_HEADERS[3].field_offset("hash")
    data = V3[:at] + bytes(8) + V3[at + 8 :]
    container = clang_bundle.parse(make_view(data), strict=True)
    assert [finding.code for finding in container.findings] == ["FP1304"]
    assert "the hash is 0000000000000000" in container.findings[0].message


def test_several_frames_and_skippable_ones_are_one_stream() -> None:
    body = plain()
    skippable = b"\x5f\x2a\x4d\x18" + (9).to_bytes(4, "little") + b"skip this"
    stream = skippable + zstandard.compress(body[:60]) + zstandard.compress(b"") + zstandard.compress(body[60:])
    for version in (1, 2, 3):
        data = wrapped(body, stream + skippable, version)
        container = clang_bundle.parse(make_view(data + b"\0\0\0\0rest"), strict=True)
        assert (container.findings, container.span.size) == ((), len(data))
        assert images_of(data) == images_of(body)


def test_trailing_zeros_of_a_section_do_not_disturb_version_1() -> None:
    for name in ("fatpack-v1-zlib.bundle", "fatpack-v1-zstd.bundle"):
        padded = ALL[name] + bytes(-len(ALL[name]) % 4096)
        items = list(scan(make_view(padded * 3)))
        assert [item.view.start for item in items if isinstance(item, FoundContainer)] == [0, 4096, 8192]
        assert clang_bundle.extent(make_view(padded)) == len(ALL[name])


@pytest.mark.parametrize("content", [b"", b"rubbish" * 9, V3], ids=["nothing", "rubbish", "compressed"])
def test_content_that_is_no_bundle_is_refused_at_its_place(content: bytes) -> None:
    data = wrapped(content, zstandard.compress(content))
    with pytest.raises(BadMagic, match="the compressed data is no bundle") as caught:
        clang_bundle.parse(make_view(data))
    assert caught.value.chain == ("test", "inflated zstd at 0x20")


def test_damage_inside_costs_its_own_entry_only() -> None:
    body = bytearray(plain())
    body[32 + 24 + 12 + 8 : 32 + 24 + 12 + 16] = b"\xff" * 8  # the size of the second image
    data = wrapped(bytes(body), zstandard.compress(bytes(body)))
    container = clang_bundle.parse(make_view(data))
    assert [item.attrs["id"] for item in container.images] == ["hip-a-b-c--0"]
    assert [finding.code for finding in container.findings] == ["FP1301", "FP1308"]
    assert container.findings[0].span.source == ("test", "inflated zstd at 0x20")


@pytest.mark.parametrize("method", ["zlib", "zstd"])
def test_a_bomb_is_refused_before_it_goes_off(method: str) -> None:
    compressor = zlib.compressobj(9) if method == "zlib" else zstandard.ZstdCompressor(level=19).compressobj()
    stream = b"".join([*(compressor.compress(bytes(1 << 20)) for _ in range(64)), compressor.flush()])
    data = wrapped(b"", stream, method=("zlib", "zstd").index(method))
    with TracedMemory() as memory:
        with pytest.raises(FormatError, match="no bundle"):
            clang_bundle.parse(make_view(data))
        source = BytesSource(data)
        source.budget = Budget(inflated=1 << 20)
        with pytest.raises(LimitExceeded, match="use max_inflated=SIZE"):
            clang_bundle.parse(source.view())
    assert memory.peak < 8 << 20


def test_a_stream_of_zeros_in_a_bundle_is_no_bundle() -> None:
    inner = wrapped(b"", zstandard.ZstdCompressor(level=19).compress(bytes(15 << 20)))
    body = join_pieces(clang_bundle.write(Container("", 0, (make_image(inner, attrs={"id": "hip-a"}),), Span(0, 0))))
    items = list(scan(make_view(wrapped(body, zstandard.compress(body)))))
    (found,) = (item for item in items if isinstance(item, FoundContainer))
    assert [item.code for item in found.images[0].findings] == ["FP1001"]


@given(st.binary(max_size=60_000), st.integers(-3, 20), st.booleans(), st.binary(max_size=9))
def test_the_end_of_a_stream_is_found_without_its_size(
    data: bytes, level: int, has_checksum: bool, tail: bytes
) -> None:
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=has_checksum, write_content_size=level % 2 == 0)
    packed = compressor.compress(data)
    tail = tail.replace(b"\x28", b"").replace(b"\x2a", b"")
    assert find_stream_end(make_view(packed + tail), "zstd") == len(packed)
    assert find_stream_end(make_view(packed[:-1]), "zstd") is None
    packed = zlib.compress(data, abs(level) % 10)
    assert find_stream_end(make_view(packed + tail), "zlib") == len(packed)
    assert find_stream_end(make_view(packed[:-1]), "zlib") is None


def test_streams_that_expand_much_are_measured_to_their_end() -> None:
    for method, packed in (("zlib", zlib.compress(bytes(3 << 20))), ("zstd", zstandard.compress(bytes(3 << 20)))):
        assert find_stream_end(make_view(packed + b"tail"), method) == len(packed)


def test_a_stream_of_empty_blocks_is_not_followed_for_ever() -> None:
    frame = zstandard.ZstdCompressor(write_content_size=False).compress(b"")
    header, last = frame[:-3], frame[-3:]
    assert find_stream_end(make_view(header + bytes(3) * 4000 + last), "zstd") is not None
    assert find_stream_end(make_view(header + bytes(3) * 400_000 + last), "zstd") is None


def many(count: int, size: int) -> bytes:
    rng = random.Random(1)
    parts = []
    for number in range(count):
        stored = make_image(rng.randbytes(1000) * (size // 1000), attrs={"id": f"hip-amdgcn-amd-amdhsa--gfx{number}"})
        model = Container("", 3, (stored,), Span(0, 0), attrs={"compression": "zstd"})
        part = join_pieces(clang_bundle.write(model))
        parts.append(part + bytes(-len(part) % 4096))
    return b"".join(parts)


def test_a_library_of_many_bundles_is_listed_in_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "INFLATED_KEPT", 2 << 20)
    count, size = 120, 1_000_000
    data = many(count, size)
    with TracedMemory() as memory:
        found = [item for item in scan(make_view(data)) if isinstance(item, FoundContainer)]
    assert [len(item.images) for item in found] == [1] * count
    assert memory.peak < 10 << 20
    sources = [item.container.images[0].data.source for item in found]  # type: ignore[attr-defined]
    assert all(isinstance(source, InflatedSource) for source in sources)
    for item in (found[0], found[60]):  # dropped before: inflated again
        assert item.images[0].data.tobytes()[:1000] * (size // 1000) == item.images[0].data.tobytes()
