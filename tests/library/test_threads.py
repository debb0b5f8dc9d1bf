"""Several threads read one opened file, and all read the same; asyncio does it through threads."""

from __future__ import annotations

import asyncio
import hashlib
import random
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import limits
from fatpack.io.inflated import StreamedSource

THREADS = 8
HOST = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"
FILES = [HOST, FIXTURES / "elf" / "lld-22-sycl.so", FIXTURES / "kpack" / "needs.zstd.kpack"]
FILES += sorted((FIXTURES / "clang_bundle").glob("*.bundle"))


def facts(file: fatpack.File) -> list[tuple[object, ...]]:
    """Return all that there is to say of the images of a file."""
    return [
        (image.target, image.form, hashlib.sha256(image.data.tobytes()).digest(), image.kernel_names)
        for image in file.images()
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_threads_that_read_one_file_read_the_same(path: Path) -> None:
    with fatpack.open(path) as file:
        expected = facts(file)
    with fatpack.open(path) as file, ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(facts, [file] * THREADS)) == [expected] * THREADS


def test_threads_that_read_a_file_in_a_package_read_the_same(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(HOST, "lib/libtwo.so")
    with fatpack.open(HOST) as file:
        expected = facts(file)
    with fatpack.open(tmp_path / "x.whl", member="lib/libtwo.so") as file, ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(facts, [file] * THREADS)) == [expected] * THREADS


@pytest.mark.parametrize("kept", [64, 4096])
def test_threads_that_read_one_stream_read_the_same(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large bundle is inflated through a window: whoever goes back moves it for all."""
    monkeypatch.setattr(limits, "INFLATED_KEPT", kept)
    data = random.Random(7).randbytes(20_000)
    source = StreamedSource(len(data), lambda: (data[at : at + 50] for at in range(0, len(data), 50)), present=9)

    def read(seed: int) -> bool:
        choose = random.Random(seed)
        for _ in range(200):
            at = choose.randrange(len(data))
            size = choose.randrange(min(300, len(data) - at))
            if source.read(at, size) != data[at : at + size]:
                return False
            if b"".join(source.pieces(at, size)) != data[at : at + size]:
                return False
        return True

    with ThreadPoolExecutor(THREADS) as pool:
        assert all(pool.map(read, range(THREADS)))


def test_what_is_let_go_while_it_is_read_is_read_again() -> None:
    path = FIXTURES / "cuda_fatbin" / "v135_concat_tiny.fatbin"
    with fatpack.open(path) as file, ThreadPoolExecutor(THREADS) as pool:
        images = list(file.images())
        expected = [image.data.tobytes() for image in images]

        def rest(_: int) -> None:
            for image in images:
                image.data.source.release_buffers()

        def read(_: int) -> bool:
            return [image.data.tobytes() for image in images] == expected

        resting = [pool.submit(rest, number) for number in range(200)]
        assert all(pool.map(read, range(100)))
        for each in resting:
            each.result()


def test_asyncio_goes_on_while_threads_read() -> None:
    async def read(path: Path) -> fatpack.DoctorResult:
        return await asyncio.to_thread(fatpack.doctor, path)

    async def all_of_them() -> list[fatpack.DoctorResult]:
        return list(await asyncio.gather(*map(read, FILES)))

    assert [bool(found) for found in asyncio.run(all_of_them())] == [bool(fatpack.doctor(path)) for path in FILES]
