"""Images that are compressed anew: the same images, stored in another way."""

from __future__ import annotations

from io import BytesIO

import pytest
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import plan_slim
from fatpack.commands.slim.result import verifier_for
from fatpack.io.source import BytesSource, View
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import join_pieces

FATBIN = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_none.fatbin").read_bytes()
LIBRARY = (FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so").read_bytes()
AMD, HOST = "hipv4-amdgcn-amd-amdhsa--gfx90a", "host-x86_64-unknown-linux-gnu-"


def view(data: bytes, name: str = "x") -> View:
    return BytesSource(data, name).view()


def images(data: bytes) -> list[tuple[str, str | None, bytes]]:
    found = [item for item in scan(view(data)) if isinstance(item, FoundContainer)]
    return [
        (image.target.arch, image.compression, image.data.tobytes().rstrip(b"\0"))
        for one in found
        for image in one.images
    ]


def slimmed(data: bytes, **wishes: object) -> bytes:
    made = plan_slim(view(data), SlimOptions(**wishes))
    after = join_pieces(made.pieces)
    verifier_for(made)(view(data), view(after))
    return after


@pytest.mark.parametrize("method", ["zstd", "lz4", "none"])
@pytest.mark.parametrize("data", [FATBIN, LIBRARY], ids=["fat binary", "library"])
def test_entries_keep_their_bytes_and_get_another_method(data: bytes, method: str) -> None:
    after = slimmed(data, recompress=method)
    assert [(arch, content) for arch, _, content in images(after)] == [
        (arch, content) for arch, _, content in images(data)
    ]
    methods = {how for _, how, _ in images(after)}
    if data == FATBIN or method == "zstd":  # in a library, what would be larger than its place stays as it is
        assert methods == {None if method == "none" else method}


def test_a_level_decides_the_size() -> None:
    assert len(slimmed(FATBIN, recompress="zstd", level=19)) < len(slimmed(FATBIN, recompress="zstd", level=1))


def test_what_was_recompressed_can_be_compressed_back() -> None:
    plain = slimmed(FATBIN, recompress="none")
    assert slimmed(slimmed(plain, recompress="zstd"), recompress="none") == plain


@pytest.mark.parametrize("method", ["zstd", "zlib"])
def test_a_bundle_becomes_a_compressed_one_and_a_plain_one_again(method: str) -> None:
    out = BytesIO()
    content = b"code" * 2000
    library.pack([library.ImageFile(b"", id=HOST), library.ImageFile(content, id=AMD)], out, format="bundle")
    packed = slimmed(out.getvalue(), recompress=method)
    assert packed.startswith(b"CCOB\2\0")
    assert len(packed) < len(content)
    assert [image[::2] for image in images(packed)] == [image[::2] for image in images(out.getvalue())]
    assert slimmed(packed, recompress="none") == out.getvalue()


def test_what_a_method_needs_is_said() -> None:
    assert "CUDA 12.4" in " ".join(plan_slim(view(FATBIN), SlimOptions(recompress="zstd")).notes)
    made = plan_slim(view(FATBIN), SlimOptions(recompress="zlib"))
    assert not made.is_changed
    assert "cannot be compressed by zlib" in " ".join(made.notes)
