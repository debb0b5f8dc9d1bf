"""The law of the cache: commands answer the same without it, while it is filled, and from it, damaged or not."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.builders import offered, releases
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

Fatpack = Callable[..., Ran]

#: What reads the kernels or the code of images.
LINES = [
    "inspect --kernels {file}",
    "inspect --kernels --json {file}",
    "inspect --digest --json {file}",
    "inspect --rows jsonl --digests --kernels {file}",
    "inspect --rows csv --rows-of kernels --digests {file}",
    "report --markdown {file}",
    "check --json --require sm_80,gfx942 --kernels {file}",
    "explain --json --device sm_90 --kernel add_one {file}",
    "diff --kernels --json {file} {other}",
    "inspect --kernels --limit kernels=1 {file}",
    "inspect --kernels --max-inflated 10000 {file}",
]


def _files() -> Iterator[tuple[str, bytes]]:
    for path in sorted((FIXTURES / "cuda_fatbin" / "recorded").glob("*.fatbin")):
        yield path.name, path.read_bytes()
    for pattern in ("clang_bundle/*.bundle", "kpack/*.kpack"):
        for path in sorted(FIXTURES.glob(pattern)):
            yield path.name, path.read_bytes()
    library = releases.library("75 80 90 zstd", "75 80 p90 lz4", "75 80 p90")
    yield "library.so", library
    yield "set.fatbin", offered.cuda("75 80 90 p90 zstd")
    for place in (3, 2):  # in what is compressed, mostly
        damaged = bytearray(library)
        damaged[len(library) // place] ^= 0x55
        yield f"damaged{place}.so", bytes(damaged)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    for name, data in _files():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that commands keep facts in."""
    folder = tmp_path / "kept"
    monkeypatch.setenv("FATPACK_CACHE", str(folder))
    return folder


def _damage(cache: Path, *, at: int) -> int:
    """Change a byte of each file in the cache; return their number."""
    kept = [path for path in sorted(cache.rglob("*")) if path.is_file()]
    for path in kept:
        data = bytearray(path.read_bytes())
        data[at % len(data)] ^= 0x10
        path.write_bytes(data)
    return len(kept)


@pytest.mark.sweep(3)
@pytest.mark.parametrize("line", LINES)
def test_answers_are_the_same_with_and_without_it(
    fatpack: Fatpack, files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    words = line.format(file=files, other=files / "set.fatbin").split()
    monkeypatch.delenv("FATPACK_CACHE")
    right = fatpack(*words)
    monkeypatch.setenv("FATPACK_CACHE", str(cache))
    assert fatpack(*words) == right  # it is filled
    kept = _damage(cache, at=0)
    assert kept or "limit" in line or "max-inflated" in line
    for at in (9, 30, -1):
        assert fatpack(*words) == right  # what is damaged is not used, and is kept anew
        assert fatpack(*words) == right  # it is read
        assert _damage(cache, at=at) == kept
    assert fatpack(*words, "--no-cache") == right


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("line", ["inspect --kernels --json {file}", "report --markdown {file}"])
def test_what_is_kept_is_not_inflated_again(
    fatpack: Fatpack, files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, line: str, jobs: int
) -> None:
    monkeypatch.setattr("fatpack.concurrency.processes.MIN_BYTES_FOR_WORKERS", 0)
    words = [*line.format(file=files / "library.so").split(), "--jobs", str(jobs)]
    right = fatpack(*words)

    def inflates(*_: object, **__: object) -> None:
        raise AssertionError("it was inflated")

    monkeypatch.setattr("lz4.block.decompress", inflates)
    monkeypatch.setattr("zstandard.ZstdDecompressor", inflates)
    assert fatpack(*words) == right
    with pytest.raises(AssertionError, match="it was inflated"):
        fatpack(*words, "--no-cache")


def test_another_place_of_the_same_image_has_the_offsets_of_its_own(
    fatpack: Fatpack, folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = offered.cuda("75 80 90 zstd")
    Path("one.fatbin").write_bytes(one)
    Path("moved.fatbin").write_bytes(offered.cuda("75 zstd") + one)
    fatpack("inspect", "--kernels", "one.fatbin")
    kept = fatpack("inspect", "--kernels", "--json", "moved.fatbin")
    monkeypatch.delenv("FATPACK_CACHE")
    assert kept == fatpack("inspect", "--kernels", "--json", "moved.fatbin")


def test_commands_that_vouch_read_every_image(
    fatpack: Fatpack, files: Path, folder: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fatpack("inspect", "--kernels", files / "library.so")
    for path in [path for path in cache.rglob("*") if path.is_file()]:
        path.unlink()
    for words in (["doctor"], ["slim", "--for", "sm_80", "-o", "new.so"], ["extract", "-d", "out"]):
        fatpack(*words, files / "library.so")
    assert not [path for path in cache.rglob("*") if path.is_file()]


@pytest.mark.parametrize("word", ["", "0", "no", "OFF"])
def test_nothing_is_kept_unless_it_is_asked_for(
    fatpack: Fatpack, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setenv("FATPACK_CACHE", word)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert fatpack("inspect", "--kernels", files / "library.so").code == 0
    assert not (tmp_path / "caches").exists()


def test_one_word_means_the_users_folder(
    fatpack: Fatpack, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FATPACK_CACHE", "1")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    assert fatpack("inspect", "--kernels", files / "library.so").code == 0
    kept = tmp_path / "caches" / "fatpack"
    assert kept.stat().st_mode & 0o777 == 0o700
    assert any(path.is_file() for path in kept.rglob("*"))
    shutil.rmtree(kept)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("relative", "is no absolute path"),
        ("file", "is no folder"),
        ("link", "is no folder"),
        ("shared", "can be written by others"),
    ],
)
def test_a_folder_that_is_not_the_users_alone_is_refused(
    fatpack: Fatpack, files: Path, folder: Path, monkeypatch: pytest.MonkeyPatch, made: str, said: str
) -> None:
    path = folder / "kept"
    if made == "file":
        path.write_bytes(b"")
    elif made == "link":
        (folder / "real").mkdir()
        path.symlink_to("real")
    else:
        path.mkdir(mode=0o700)
        path.chmod(0o777 if made == "shared" else 0o700)
    monkeypatch.setenv("FATPACK_CACHE", "kept" if made == "relative" else str(path))
    ran = fatpack("inspect", "--kernels", files / "library.so")
    assert ran.code == 2, ran
    assert said in ran.err
    assert "FATPACK_CACHE" in ran.err
    assert fatpack("inspect", "--kernels", "--no-cache", files / "library.so").code == 0


def test_a_folder_that_cannot_be_written_only_keeps_nothing(
    fatpack: Fatpack, files: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = fatpack("inspect", "--kernels", files / "library.so", "--no-cache")
    write = os.write

    def full(fd: int, data: bytes) -> int:
        if data[:4] == b"fpkc":
            raise OSError(28, "No space left on device")
        return write(fd, data)

    monkeypatch.setattr(os, "write", full)
    assert fatpack("inspect", "--kernels", files / "library.so") == right
    monkeypatch.setattr(os, "write", write)
    assert fatpack("inspect", "--kernels", files / "library.so") == right
