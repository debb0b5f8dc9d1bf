"""The source of bytes changes nothing: every kind of source gives the same listing, bytes, findings and offsets."""

from __future__ import annotations

import io
import mmap
import os
import pickle
import threading
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.builders.http_server import Server, serving
from tests.builders.s3_server import Store, storing
from tests.laws.rooms import FIXTURES, format_fixtures, host_fixtures

import fatpack
from fatpack import Container, Finding
from fatpack.io.source import Span

FILES = [path for _, path in format_fixtures() + host_fixtures()]
FILES += [path for folder in ("recorded", "hosts") for path in sorted((FIXTURES / "cuda_fatbin" / folder).glob("*"))]
FILES = [path for path in FILES if path.suffix not in (".json", ".md", ".txt", ".cu")]
#: A server takes some milliseconds per file: every fifth, in a quick run
SOME = FILES[::5]

fsspec = pytest.importorskip("fsspec")
pytest.importorskip("aiohttp")


class Ranges:
    """A source of one's own, as on the library page."""

    name = "ranges"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)

    def read_at(self, offset: int, size: int) -> bytes:
        assert offset >= 0
        assert 0 < size <= self.size - offset, "nobody asks for bytes that are not there"
        return self.data[offset : offset + size]


class Drops(io.RawIOBase):
    """A file object without a descriptor that gives a few bytes at a time, as a connection may."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._data.seek(offset, whence)

    def tell(self) -> int:
        return self._data.tell()

    def readinto(self, into: Any) -> int:
        part = self._data.read(min(len(into), 1000))
        into[: len(part)] = part
        return len(part)


@contextmanager
def piped(path: Path) -> Iterator[object]:
    out, into = os.pipe()
    data = path.read_bytes()

    def write() -> None:
        with os.fdopen(into, "wb") as pipe:
            pipe.write(data)

    writer = threading.Thread(target=write)
    writer.start()
    with os.fdopen(out, "rb") as pipe:
        yield pipe
    writer.join()


@contextmanager
def mapped(path: Path) -> Iterator[object]:
    with path.open("rb") as file:
        if not path.stat().st_size:
            yield b""
            return
        # A view of the map keeps it open, so it is not closed here.
        yield mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


@contextmanager
def opened(path: Path) -> Iterator[object]:
    with path.open("rb") as file:
        file.seek(1)  # where a file stands means nothing
        yield file


@contextmanager
def zipped(path: Path, method: int) -> Iterator[object]:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", method) as archive:
        archive.writestr("lib.so", path.read_bytes())
    with zipfile.ZipFile(into) as archive, archive.open("lib.so") as member:
        yield member


@contextmanager
def given(data: object) -> Iterator[object]:
    yield data


KINDS: dict[str, Callable[[Path], Any]] = {
    "path": given,
    "memoryview": lambda path: given(memoryview(path.read_bytes())),
    "bytearray": lambda path: given(bytearray(path.read_bytes())),
    "mmap": mapped,
    "open file": opened,
    "BytesIO": lambda path: given(io.BytesIO(path.read_bytes())),
    "raw file object": lambda path: given(Drops(path.read_bytes())),
    "buffered file object": lambda path: given(io.BufferedReader(Drops(path.read_bytes()))),
    "pipe": piped,
    "read_at": lambda path: given(Ranges(path.read_bytes())),
    "stored in a zip": lambda path: zipped(path, zipfile.ZIP_STORED),
    "deflated in a zip": lambda path: zipped(path, zipfile.ZIP_DEFLATED),
    "file URL": lambda path: given(path.absolute().as_uri()),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with pytest.MonkeyPatch.context() as settings, storing(settings) as running:
        yield running


def content(image: fatpack.Image) -> bytes | str:
    try:
        return image.data.tobytes()
    except fatpack.FatpackError as error:
        return error.problem


def place(span: Span, name: str) -> tuple[object, ...]:
    """Return the location of something, with the names that lead to it after the name of the file."""
    first, *rest = span.source or ("",)
    return (span.start, span.end, *filter(None, (first.removeprefix(name), *rest)))


def facts(items: tuple[object, ...], name: str) -> list[tuple[object, ...]]:
    """Return all that is known of a file but its name."""
    found: list[tuple[object, ...]] = []
    for item in items:
        if isinstance(item, Finding):
            found.append((item.code, item.severity, item.message, item.hint, place(item.span, name)))
        elif isinstance(item, Container):
            found.append((item.format, item.section, place(item.span, name)))
            for image in item.images:
                at = place(image.span, name)
                found.append((image.target, image.form, image.size, image.attrs, at, content(image)))
                found += facts(image.items, name)
    return found


def listed(data: Any) -> tuple[str, int, list[tuple[object, ...]]]:
    with fatpack.open(data) as file:
        return file.host, file.size, facts(file.items, file.path)


def is_thin(path: Path) -> bool:
    """Return whether an archive names files beside it, which only a path leads to."""
    return path.read_bytes().startswith(b"!<thin>")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_same(kind: str) -> None:
    for path in FILES:
        if not is_thin(path):
            with KINDS[kind](path) as data:
                assert listed(data) == listed(path.read_bytes()), path


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.name)
def test_servers_give_the_same_as_files(server: Server, store: Store, path: Path) -> None:
    if is_thin(path):
        pytest.skip("names files beside it")
    data = path.read_bytes()
    expected = listed(data)
    http, s3 = server.put(f"/{path.name}", data), store.put(path.name, data)
    assert listed(http) == listed(s3) == expected
    with fsspec.open(http) as by_http, fsspec.open(s3) as by_s3:
        assert listed(by_http) == listed(by_s3) == expected


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_servers_give_the_same_as_files_for_each_of_them(server: Server, store: Store, path: Path) -> None:
    test_servers_give_the_same_as_files(server, store, path)


def test_views_are_pickled_as_their_source_and_range(server: Server, store: Store) -> None:
    data = (FIXTURES / "cuda_fatbin" / "recorded" / "v130_all.fatbin").read_bytes()
    for given_as in (server.put("/x", data), store.put("x", data), Ranges(b"" + data)):
        with fatpack.open(given_as) as file:
            images = list(file.images())
            stored = pickle.dumps(images)
            expected = [image.data.tobytes() for image in images]
        assert [image.data.tobytes() for image in pickle.loads(stored)] == expected
        if isinstance(given_as, str):
            assert not any(part in stored for part in (data[0x60:0x80], data[-64:]))


def test_damage_at_any_place_is_the_same_from_a_server(server: Server) -> None:
    for path in (FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle", FIXTURES / "cuda_fatbin" / "hosts" / "single.o"):
        data = path.read_bytes()
        cuts = [data[: len(data) * part // 16] for part in range(16)]
        flips = [data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :] for at in range(0, len(data), len(data) // 16)]
        for damaged in cuts + flips:
            assert listed(server.put("/damaged", damaged)) == listed(damaged) == listed(Ranges(damaged))
