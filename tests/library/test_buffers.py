"""The bytes of images as buffers: none are copied where they are in memory."""

from __future__ import annotations

import mmap
import sys
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.io.source import BytesSource

OBJECT = FIXTURES / "elf" / "clang-22-hip.o"


def test_a_buffer_has_the_bytes_of_the_image() -> None:
    for path in (OBJECT, FIXTURES / "cuda_fatbin" / "v135_concat_tiny.fatbin", FIXTURES / "kpack" / "needs.zstd.kpack"):
        with fatpack.open(path) as file:
            for image in file.images():
                buffer = image.data.tobuffer()
                assert buffer.readonly
                assert buffer == image.data.tobytes() == bytes(image.data)


def test_nothing_is_copied_of_what_is_in_memory() -> None:
    data = bytearray(OBJECT.read_bytes())
    with fatpack.open(data) as file:
        image = next(image for image in file.images() if image.size)
        buffer = image.data.tobuffer()
        before = buffer[0]
        data[image.span.start] ^= 0xFF
        assert buffer[0] == before ^ 0xFF
        with pytest.raises(TypeError):
            buffer[0] = 0


def test_nothing_is_copied_of_a_mapped_file() -> None:
    with OBJECT.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
    with fatpack.open(mapped) as file:
        image = next(image for image in file.images() if image.size)
        buffer = image.data.tobuffer()
        assert buffer.obj is mapped
        assert buffer == mapped[image.span.start : image.span.end]


def test_a_buffer_outlives_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.o"
    path.write_bytes(OBJECT.read_bytes())
    with fatpack.open(path) as file:
        image = next(image for image in file.images() if image.size)
        buffer = image.data.tobuffer()
    path.unlink()
    assert len(buffer) == image.size


@pytest.mark.skipif(sys.version_info < (3, 12), reason="PEP 688: classes are buffers from Python 3.12 on")
def test_a_view_is_a_buffer() -> None:
    view = BytesSource(b"abcdef").view().slice(1, 3)
    assert memoryview(view) == b"bcd"  # type: ignore[arg-type]
