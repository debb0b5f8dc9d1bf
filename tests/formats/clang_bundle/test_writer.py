"""The writer's output for models, and its refusals."""

from __future__ import annotations

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.errors import UsageError
from fatpack.formats import clang_bundle, offload_binary
from fatpack.formats.clang_bundle.writer import compressed_header, entry_id
from fatpack.io.source import BytesSource, Source, Span, View
from fatpack.model import Container, Image, Target
from fatpack.testing.helpers import join_pieces, make_image, make_view
from fatpack.writer_options import BundleOptions

HIP = (FIXTURES / "clang_bundle" / "llvm-22-hip.bundle").read_bytes()
DEVICE = make_image(b"device", attrs={"id": "hip-amdgcn-amd-amdhsa--gfx906"})
HOST = make_image(b"", attrs={"id": "host-x86_64-unknown-linux-gnu-"})


def model(*images: Image, version: int = 0, **attrs: str) -> Container:
    return Container("clang-offload-bundle", version, images, Span(0, 0), attrs=attrs)


def written(*images: Image, version: int = 0, **attrs: str) -> bytes:
    return join_pieces(clang_bundle.write(model(*images, version=version, **attrs)))


def test_images_of_other_containers_get_the_ids_of_llvm() -> None:
    parsed = offload_binary.parse(make_view((FIXTURES / "offload_binary" / "fatpack-v2.bin").read_bytes()))
    (openmp,) = (item for item in parsed.images if item.target.offload == "openmp")
    hip = make_image(b"", target=Target("amdgcn-amd-amdhsa", "gfx90a:xnack-", "hip"))
    again = clang_bundle.parse(make_view(written(hip, openmp)), strict=True)
    assert [item.attrs["id"] for item in again.images] == [
        "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-",
        "openmp-nvptx64-nvidia-cuda-unknown-sm_80",
    ]


def test_an_id_that_is_given_wins_over_the_stored_one() -> None:
    stored = clang_bundle.parse(make_view(HIP)).images[1]
    assert entry_id(stored) == stored.attrs["id"].encode()
    assert entry_id(stored.replace(attrs={"id": "hip-x"})) == b"hip-x"
    assert entry_id(stored.replace(attrs={})) == stored.attrs["id"].encode()
    assert entry_id(stored.replace(attrs={}, record=None)) == stored.target.spelling.encode()


def test_a_bundle_that_loses_an_image_keeps_its_alignment() -> None:
    parsed = clang_bundle.parse(make_view(HIP))
    again = clang_bundle.parse(
        make_view(join_pieces(clang_bundle.write(parsed.replace(images=parsed.images[1:])))), strict=True
    )
    assert again.attrs == parsed.attrs
    assert [item.span.start % 64 for item in again.images] == [0, 0]


def test_images_are_passed_on_as_views() -> None:
    class Unread(Source):
        """A source that must not be read."""

        size = present = 10 << 30

        def read(self, offset: int, size: int) -> bytes:
            raise AssertionError

    huge = View(Unread(), 0, 10 << 30)
    large = Image(Target(), "", huge, len(huge), len(huge), huge.span(), attrs={"id": "hip-a"})
    pieces = list(clang_bundle.write(model(large, DEVICE, align="4096")))
    assert pieces[2] is huge
    assert sum(map(len, pieces)) == (10 << 30) + 4096 + 6


def test_a_wide_alignment_is_filled_in_pieces() -> None:
    pieces = list(clang_bundle.write(model(DEVICE, align=str(100 << 20))))
    assert sum(map(len, pieces)) == (100 << 20) + 6
    assert max(map(len, pieces)) <= 1 << 20
    assert len({id(piece) for piece in pieces}) < 10  # for any width the zeros are in memory once


@pytest.mark.parametrize(
    ("images", "version", "attrs", "message"),
    [
        ((DEVICE, DEVICE.replace(target=Target("x"))), 0, {}, "two images have the bundle ID"),
        ((DEVICE,), 1, {}, "only compressed bundles have versions"),
        ((DEVICE,), 0, {"flavour": "warp"}, "choose from binary, compressed and text"),
        ((DEVICE,), 0, {"align": "0"}, "at least 1"),
        ((DEVICE,), 0, {"align": str(1 << 32)}, "32 bits"),
        ((DEVICE,), 0, {"align": "wide"}, "no whole number"),
        ((DEVICE,), 0, {"flavour": "text"}, "comment token ''"),
        ((DEVICE,), 0, {"flavour": "text", "comment": "--"}, "choose from // # ;"),
        ((DEVICE,), 0, {"compression": "zstd"}, "choose from 1, 2 and 3"),
        ((DEVICE,), 4, {"compression": "zstd"}, "choose from 1, 2 and 3"),
        ((DEVICE,), 3, {"compression": "lz4"}, "choose from zlib, zstd"),
        ((DEVICE,), 3, {"compression": "zstd", "inside": "compressed"}, "choose from binary and text"),
        ((make_image(b"", target=Target(offload="cuda")),), 0, {}, "cannot name the programming model 'cuda'"),
        ((make_image(b"", attrs={"id": "\ud800"}),), 0, {}, "cannot be stored as UTF-8"),
        ((make_image(b"", attrs={"id": "x" * 4097}),), 0, {}, "4096 are the most"),
    ],
)
def test_what_the_format_cannot_hold_is_refused(
    images: tuple[Image, ...], version: int, attrs: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        written(*images, version=version, **attrs)


def test_levels_that_the_compressor_does_not_have_are_refused() -> None:
    options = BundleOptions(compression="zlib", level=10)
    with pytest.raises(UsageError, match="zlib levels"):
        join_pieces(clang_bundle.write(model(DEVICE, version=3), options))


@pytest.mark.parametrize("version", [1, 2])
def test_sizes_beyond_32_bits_need_version_3(version: int) -> None:
    assert len(compressed_header(3, "zstd", 1 << 33, 1 << 33, bytes(8))) == 32
    with pytest.raises(UsageError, match="the uncompressed size exceeds what version"):
        compressed_header(version, "zstd", 100, 1 << 32, bytes(8))
    with pytest.raises(UsageError, match="the total size exceeds"):
        compressed_header(version, "zstd", (1 << 32) - 20, 100, bytes(8))


def test_an_unknown_version_of_a_stored_bundle_is_refused() -> None:
    parsed = clang_bundle.parse(make_view((FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle").read_bytes()))
    with pytest.raises(UsageError, match="choose from 1, 2 and 3"):
        join_pieces(clang_bundle.write(parsed.replace(version=4)))


def test_a_bundle_without_images_is_legal() -> None:
    assert written() == b"__CLANG_OFFLOAD_BUNDLE__" + bytes(8)
    assert clang_bundle.parse(make_view(written(version=3, compression="zstd")), strict=True).images == ()


def test_pieces_in_memory_are_compressed_like_views() -> None:
    twice = [written(DEVICE, HOST, version=3, compression="zstd") for _ in range(2)]
    assert twice[0] == twice[1]
    source = BytesSource(b"device")
    other = DEVICE.replace(data=source.view())
    assert written(other, HOST, version=3, compression="zstd") == twice[0]
