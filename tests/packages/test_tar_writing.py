"""Tar archives with replaced files: tarfile, GNU tar and bsdtar find the others unchanged."""

from __future__ import annotations

import bz2
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
import zstandard
from tests.builders import packages as build
from tests.reference import tool

from fatpack.codecs.compress import compress_stream
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.io.source import PiecesSource
from fatpack.packages.tar.writer import exchange_files, read_files

FILES = {"a": b"1" * 700, "folder/" + "long" * 60 + ".so": b"2" * 5000, "empty": b"", "ü": b"3" * 512}
FORMATS = {"ustar": tarfile.USTAR_FORMAT, "gnu": tarfile.GNU_FORMAT, "pax": tarfile.PAX_FORMAT}


def tarred(format: str, size: int | None = None) -> bytes:
    names = {name[-90:] if format == "ustar" else name: data for name, data in FILES.items()}
    data = build.tarred(names, FORMATS[format])
    return data if size is None else data[:size]


def rewritten(data: bytes, changes: dict[int, bytes]) -> bytes:
    view = build.view_of(data)
    places = [file.at for file in read_files(view)]
    pieces = exchange_files(view, {places[number]: [content[:3], content[3:]] for number, content in changes.items()})
    return PiecesSource(pieces).read(0, sum(map(len, pieces)))


def headers_of(data: bytes) -> list[dict[str, object]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [info.get_info() for info in archive.getmembers()]  # type: ignore[misc]


def content_of(data: bytes) -> list[bytes]:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        return [archive.extractfile(info).read() for info in archive.getmembers()]  # type: ignore[union-attr]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("size", [0, 1, 512, 100_000])
@pytest.mark.parametrize("number", range(len(FILES)))
def test_one_file_is_exchanged_and_all_others_stay(format: str, size: int, number: int) -> None:
    data, new = tarred(format), b"n" * size
    result = rewritten(data, {number: new})
    assert content_of(result) == [new if place == number else old for place, old in enumerate(FILES.values())]
    before, after = headers_of(data), headers_of(result)
    for place, (old, now) in enumerate(zip(before, after, strict=True)):
        ignored = {"chksum", "size"} if place == number else set()
        assert {key: value for key, value in old.items() if key not in ignored} == {
            key: value for key, value in now.items() if key not in ignored
        }
    assert len(result) % 10240 == 0


@pytest.mark.parametrize("format", FORMATS)
def test_nothing_changed_and_the_same_content_are_the_same_to_the_byte(format: str) -> None:
    data = tarred(format)
    assert rewritten(data, {}) == data
    assert rewritten(data, dict(enumerate(FILES.values()))) == data


def test_an_archive_that_fills_no_record_stays_one() -> None:
    data = tarred("gnu")
    cut = data[: len(data.rstrip(b"\0")) + 512 - len(data.rstrip(b"\0")) % 512 + 1024]
    result = rewritten(cut, {0: b"x"})
    assert len(result) == len(cut) - 512
    assert content_of(result)[0] == b"x"


@pytest.mark.reference
@pytest.mark.parametrize("name", ["tar", "bsdtar"])
@pytest.mark.parametrize("format", FORMATS)
def test_tar_and_bsdtar_unpack_it(name: str, format: str, tmp_path: Path) -> None:
    result = rewritten(tarred(format), {1: b"new" * 3000})
    subprocess.run([tool(name), "-xf", "-"], input=result, cwd=tmp_path, check=True)
    (path,) = tmp_path.rglob("*long.so")
    assert path.read_bytes() == b"new" * 3000


def test_files_with_holes_and_sizes_elsewhere_are_refused() -> None:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("a")
        info.size, info.pax_headers = 4, {"size": "4"}
        archive.addfile(info, io.BytesIO(b"1234"))
    with pytest.raises(HostError, match="extended header"):
        rewritten(into.getvalue(), {0: b"x"})


@pytest.mark.parametrize("cut", [100, 1300])
def test_damage_is_named(cut: int) -> None:
    with pytest.raises(FormatError):
        list(read_files(build.view_of(tarred("gnu", cut))))


def test_a_size_beyond_octal_digits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.packages.tar.writer._LARGE", 100)
    with pytest.raises(HostError, match="too large"):
        rewritten(tarred("gnu"), {0: b"x" * 100})


def test_what_is_compressed_inflates_to_the_same() -> None:
    data = bytes(range(256)) * 400
    parts = [data[:70_001], memoryview(data)[70_001:], b""]
    assert b"".join(compress_stream(parts, "", len(data))) == data
    assert bz2.decompress(b"".join(compress_stream(parts, "bzip2", len(data)))) == data
    packed = b"".join(compress_stream(parts, "zstd", len(data), 3))
    assert zstandard.ZstdDecompressor().decompress(packed) == data
    assert zstandard.frame_content_size(packed) == len(data)


def test_the_number_of_cores_decides_no_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    data = [bytes(range(256)) * 40_000]
    made = []
    for count in (1, 2, 5):
        monkeypatch.setattr("fatpack.concurrency.threads.thread_count", lambda count=count: count)
        made.append(b"".join(compress_stream(data, "zstd", len(data[0]), 3)))
    assert made[0] == made[1] == made[2]


def test_another_method_is_refused() -> None:
    with pytest.raises(Unsupported, match="compressed with xz"):
        list(compress_stream([], "xz", 0))
