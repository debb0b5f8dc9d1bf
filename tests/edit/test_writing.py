"""Several containers compressed at once: the same bytes as one by one, from streams of their own."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.concurrency import threads
from fatpack.edit.write_containers import write_all
from fatpack.errors import UsageError
from fatpack.formats import clang_bundle
from fatpack.io.source import Span
from fatpack.main import main
from fatpack.model import Container
from fatpack.testing.helpers import join_pieces, make_image, make_view

if TYPE_CHECKING:
    from fatpack.io.source import Piece

ARCHS = ("gfx90a", "gfx942", "gfx1100")


def bundles(count: int, compression: str | None = "zstd") -> list[Container]:
    rng = random.Random(5)
    attrs = {"compression": compression} if compression else {}
    made = []
    for _ in range(count):
        images = tuple(
            make_image(bytes(rng.choices(range(40), k=60_000)), attrs={"id": f"hipv4-amdgcn-amd-amdhsa--{arch}"})
            for arch in ARCHS
        )
        made.append(Container("clang-offload-bundle", 3 if compression else 0, images, Span(0, 0), attrs=attrs))
    return made


def one_by_one(containers: Iterable[Container]) -> Iterator[bytes]:
    for container in containers:
        yield join_pieces(clang_bundle.write(container))


def whole(pieces: Iterable[Piece]) -> bytes:
    return b"".join(
        bytes(piece) if isinstance(piece, (bytes, bytearray, memoryview)) else piece.tobytes() for piece in pieces
    )


@pytest.fixture
def two_at_once(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From the call on, compression goes on only where two threads compress at the same time."""
    meeting = threading.Barrier(2, timeout=20)
    codec = import_module("fatpack.codecs.compress")
    real = codec.compress

    def compress(*arguments: object, **options: object) -> bytes:
        meeting.wait()
        return bytes(real(*arguments, **options))

    def begin() -> None:
        monkeypatch.setattr(threads, "thread_count", lambda *_: 2)
        monkeypatch.setattr(codec, "compress", compress)

    return begin


@pytest.mark.parametrize("compression", ["zstd", "zlib", None])
def test_the_bytes_are_those_of_one_by_one(compression: str | None) -> None:
    containers = bundles(6, compression)
    assert [whole(pieces) for pieces in write_all(containers)] == list(one_by_one(containers))


def test_images_that_come_out_of_streams_are_compressed_again_at_once(two_at_once: Callable[[], None]) -> None:
    file = make_view(b"".join(one_by_one(bundles(4))))
    found, at = [], 0
    while at < len(file):
        found.append(clang_bundle.parse(file, at))
        at += found[-1].span.size
    changed = [container.replace(images=container.images[1:]) for container in found]
    two_at_once()
    written = [clang_bundle.parse(make_view(whole(pieces))) for pieces in write_all(changed)]
    for new, old in zip(written, found, strict=True):
        assert [item.data.tobytes() for item in new.images] == [item.data.tobytes() for item in old.images[1:]]
    assert [join_pieces(clang_bundle.write(container)) for container in found] == [whole(p) for p in write_all(found)]


def test_an_error_of_one_is_raised() -> None:
    containers = bundles(3)
    containers[1] = containers[1].replace(images=(*containers[1].images, containers[1].images[0].replace(size=1)))
    with pytest.raises(UsageError, match="two images have the bundle ID"):
        write_all(containers)


def test_converting_to_compressed_bundles_uses_threads(tmp_path: Path, two_at_once: Callable[[], None]) -> None:
    source, made = tmp_path / "plain.hipfb", tmp_path / "made.hipfb"
    source.write_bytes(b"".join(one_by_one(bundles(4, None))))
    two_at_once()
    assert main(["convert", str(source), "--format=bundle", "--compress", "-o", str(made), "-q"]) == 0
    with fatpack.open(made) as file, fatpack.open(source) as before:
        assert [item.container.version for item in file.containers] == [3] * 4
        images = [item.data.tobytes() for item in file.images()]
        assert images == [item.data.tobytes() for item in before.images()]
        assert len(images) == 12


def test_removing_from_compressed_bundles_uses_threads(tmp_path: Path, two_at_once: Callable[[], None]) -> None:
    container, host, made = (tmp_path / name for name in ("c.bin", "host.o", "made.o"))
    container.write_bytes(b"".join(part + bytes(-len(part) % 4096) for part in one_by_one(bundles(4))))
    assert main(["embed", str(FIXTURES / "demo" / "host.o"), str(container), "-o", str(host), "-q"]) == 0
    two_at_once()
    assert main(["remove", str(host), "--arch", "gfx942", "-o", str(made), "-q"]) == 0
    with fatpack.open(made) as file, fatpack.open(host) as before:
        left = [item.data.tobytes() for item in before.images() if item.target.arch != "gfx942"]
        assert [item.data.tobytes() for item in file.images()] == left
        assert len(left) == 8
