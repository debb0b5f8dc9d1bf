"""Images that are compressed anew: the same images, stored in another way."""

from __future__ import annotations

import random
from io import BytesIO
from pathlib import Path

import pytest
from tests.builders import wheels as build
from tests.builders.fatbin import entry, fatbin
from tests.laws.rooms import FIXTURES

import fatpack as library
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import plan_slim
from fatpack.commands.slim.result import verifier_for
from fatpack.io.source import BytesSource, View
from fatpack.main import main
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


def slimmed(data: bytes, **options: object) -> bytes:
    made = plan_slim(view(data), SlimOptions(**options))
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


def test_what_a_method_needs_is_reported() -> None:
    assert "CUDA 12.4" in " ".join(plan_slim(view(FATBIN), SlimOptions(recompress="zstd")).notes)
    made = plan_slim(view(FATBIN), SlimOptions(recompress="zlib"))
    assert not made.is_changed
    assert "cannot be compressed by zlib" in " ".join(made.notes)


def test_without_loss_every_image_stays_and_the_file_gets_smaller_once(tmp_path: Path) -> None:
    for method, driver in (("zstd", None), ("lz4", "525"), ("zstd", 580)):
        source, out = tmp_path / "x.fatbin", tmp_path / f"{method}{driver}.fatbin"
        source.write_bytes(FATBIN)
        done = library.slim(source, out, lossless=True, driver=driver)
        assert done.after < done.before
        assert done.dropped == {}
        after = out.read_bytes()
        assert [(arch, content) for arch, _, content in images(after)] == [
            (arch, content) for arch, _, content in images(FATBIN)
        ]
        # What would not get smaller stays as it was.
        assert {how for _, how, _ in images(after)} <= {None, method}
        again = library.slim(out, tmp_path / f"again {method}{driver}", lossless=True, driver=driver)
        assert (again.mode, again.after) == ("", done.after)


def test_without_loss_a_library_is_proved(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path, out = tmp_path / "libtwo.so", tmp_path / "out"
    path.write_bytes(LIBRARY)
    assert main(["slim", str(path), "--lossless", "-d", str(out), "--certificate", str(tmp_path / "c.json")]) == 0
    assert main(["slim", "--verify", str(path), str(out / "libtwo.so")]) == 0
    assert "images dropped  0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--lossless", "--for", "sm_90"], "--lossless keeps every image"),
        (["--lossless", "--recompress", "lz4"], "--lossless keeps every image"),
        (["--for", "sm_90", "--driver", "525"], "--driver goes with --lossless"),
        (["--lossless", "--driver", "1"], "of no branch that is known"),
    ],
)
def test_what_contradicts_lossless_is_reported(
    options: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x.fatbin"
    path.write_bytes(FATBIN)
    assert main(["slim", str(path), *options, "-o", str(tmp_path / "y")]) == 2
    assert words in capsys.readouterr().err


def test_images_that_stay_as_they_are_have_their_reason(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, smaller = tmp_path / "x.fatbin", tmp_path / "y.fatbin"
    path.write_bytes(FATBIN)
    assert main(["slim", str(path), "--lossless", "-o", str(smaller)]) == 0
    capsys.readouterr()
    assert main(["slim", str(smaller), "--lossless", "-o", str(tmp_path / "z")]) == 0
    assert "stored as before: compressed as well already" in capsys.readouterr().out
    bundle = FIXTURES / "clang_bundle" / "llvm-22-hip.bundle"
    assert main(["slim", str(bundle), "--lossless", "-o", str(tmp_path / "b")]) == 0
    out = capsys.readouterr().out
    assert "stored as before: a bundle, and which HIP runtimes inflate" in out
    assert "grouped" not in out and "obfuscated" not in out


def test_an_area_that_no_string_needs_is_kept_when_an_image_is_compressed_anew() -> None:
    """fatbinary of CUDA 12.4 writes eight zero bytes for an empty identifier, and the proof compares them."""
    entry_size = int.from_bytes(FATBIN[16 + 8 : 16 + 16], "little")
    head = bytearray(FATBIN[16 : 16 + 64])
    area_size = int.from_bytes(head[4:8], "little") - 64
    assert int.from_bytes(head[44:48], "little") == 0, "the first entry has no identifier"
    area = FATBIN[16 + 64 : 16 + 64 + area_size]
    image = FATBIN[16 + 64 + area_size : 16 + 64 + area_size + entry_size]
    options_at = int.from_bytes(head[20:24], "little")
    head[4:8] = (64 + 8 + area_size).to_bytes(4, "little")
    if options_at:
        head[20:24] = (options_at + 8).to_bytes(4, "little")
        area = (int.from_bytes(area[:4], "little") + 8).to_bytes(4, "little") + area[4:]
    body = bytes(head) + bytes(8) + area + image
    before = FATBIN[:8] + len(body).to_bytes(8, "little") + body
    after = slimmed(before, recompress="zstd")
    assert images(after) == [(arch, "zstd", content) for arch, _, content in images(before)]
    assert after[16 + 4 : 16 + 8] == head[4:8]
    assert after[16 + 64 : 16 + 64 + 8 + area_size] == bytes(8) + area


def test_without_loss_a_library_stays_if_the_wheel_would_grow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Deflate finds what images have in common; streams that differ from their first byte on have nothing.
    line = random.Random(1).randbytes(1000).hex()
    texts = [f"// {number}\n.version 9.0\n.target sm_80\n.address_size 64\n// {line}\n" for number in range(20)]
    data = fatbin(*(entry(text.encode() + b"\0", kind=1) for text in texts))
    path, out = tmp_path / "demo-1.5-py3-none-any.whl", tmp_path / "out"
    path.write_bytes(build.wheel({"demo/__init__.py": b"", "demo/a.fatbin": data}))
    assert len(slimmed(data, recompress="zstd", lossless=True)) < len(data)
    assert main(["slim", str(path), "--lossless", "-d", str(out)]) == 0
    assert (out / path.name).read_bytes() == path.read_bytes()
    assert "it would take more in the wheel" in capsys.readouterr().out
    # What is asked for by name is done.
    assert main(["slim", str(path), "--recompress", "zstd", "-d", str(out)]) == 0
    assert len(list(out.iterdir())) == 2
