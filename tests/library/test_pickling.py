"""Results in other processes: what was found is pickled, and its images are read there from the same bytes."""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import Container, Image

FILES = sorted(
    path
    for folder in ("offload_binary", "clang_bundle", "cuda_fatbin", "cir", "elf", "archive", "pe", "bitcode", "coff")
    for path in (FIXTURES / folder).rglob("*")
    if path.is_file() and path.suffix not in (".md", ".json", ".toml", ".txt", ".cu", ".hip", ".sh")
)
RECORDED = FIXTURES / "cuda_fatbin" / "recorded"

#: What reading an image gives: its bytes, or the error that says why not.
Content = bytes | str


def content(image: Image) -> Content:
    try:
        return image.data.tobytes()
    except fatpack.FatpackError as error:
        return str(error)


def images_of(items: tuple[object, ...]) -> Iterator[Image]:
    """Yield the images of containers, those inside images too."""
    for item in items:
        if isinstance(item, Container):
            for image in item.images:
                yield image
                yield from images_of(image.items)


def facts(items: tuple[object, ...]) -> list[tuple[object, ...]]:
    """Return what is known of every image, its bytes too."""
    return [
        (image.target, image.form, image.size, image.span, image.attrs, content(image)) for image in images_of(items)
    ]


def found_in(path: str) -> tuple[object, ...]:
    with fatpack.open(path) as file:
        return file.items


def sizes_read(items: tuple[object, ...]) -> list[int]:
    return [len(content(image)) for image in images_of(items)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_everything_that_is_found_can_be_pickled(path: Path) -> None:
    for data in (path, path.read_bytes()):
        with fatpack.open(data) as file:
            again = pickle.loads(pickle.dumps(file.items))
            assert facts(again) == facts(file.items)
            assert [item for item in again if not isinstance(item, Container)] == list(file.findings)


def test_results_go_to_other_processes_and_come_back_from_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.fatbin").write_bytes((RECORDED / "v130_all.fatbin").read_bytes())
    monkeypatch.chdir(tmp_path)
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        monkeypatch.chdir("/")
        with fatpack.open(tmp_path / "x.fatbin") as file:
            sizes = [image.size for image in file.images()]
            assert {image.compression for image in file.images()} == {"zstd"}
            assert pool.submit(sizes_read, file.items).result() == sizes
        back = pool.submit(found_in, str(tmp_path / "x.fatbin")).result()
    assert sizes_read(back) == sizes


def test_bundles_that_are_inflated_as_they_are_read_can_be_pickled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.limits.INFLATED_AT_ONCE", 0)
    with fatpack.open(FIXTURES / "clang_bundle" / "llvm-22-v3-zstd.bundle") as file:
        assert file.images()[0].as_stored.data.source.is_streamed
        again = pickle.loads(pickle.dumps(file.items))
        assert facts(again) == facts(file.items)


def test_a_descriptor_of_the_same_number_is_not_taken_for_the_file(tmp_path: Path) -> None:
    """A pickle once held the number of a descriptor: another file was read under it, without an error."""
    (tmp_path / "one").write_bytes((RECORDED / "v130_none.fatbin").read_bytes())
    with fatpack.open(tmp_path / "one") as file:
        (image, *_) = file.images()
        expected, stored = image.data.tobytes(), pickle.dumps(image)
    other = [os.open(__file__, os.O_RDONLY) for _ in range(8)]
    try:
        assert pickle.loads(stored).data.tobytes() == expected
    finally:
        for fd in other:
            os.close(fd)


def test_a_file_that_changed_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes((RECORDED / "v130_none.fatbin").read_bytes())
    with fatpack.open(path) as file:
        (image, *_) = file.images()
        stored = pickle.dumps(image)
        os.utime(path, ns=(1, 1))
        with pytest.raises(fatpack.FormatError, match="the file changed since it was opened: another time of change"):
            pickle.dumps(image)
    again = pickle.loads(stored)
    with pytest.raises(fatpack.FormatError, match="another time of change; scan it again"):
        again.data.tobytes()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        again.data.tobytes()


def test_what_another_process_cannot_open_is_reported(tmp_path: Path) -> None:
    out, into = os.pipe()
    os.write(into, (RECORDED / "v130_none.fatbin").read_bytes())
    os.close(into)
    refused = pytest.raises(pickle.PicklingError, match="cannot be opened by another process")
    with os.fdopen(out, "rb") as stream, fatpack.open(stream) as file, refused:
        pickle.dumps(file.items)
    with fatpack.open(io.BytesIO((RECORDED / "v130_none.fatbin").read_bytes())) as file:
        assert facts(pickle.loads(pickle.dumps(file.items))) == facts(file.items)
    with Path(RECORDED / "v130_none.fatbin").open("rb") as stream, fatpack.open(stream) as file:
        assert facts(pickle.loads(pickle.dumps(file.items))) == facts(file.items)


def test_files_opened_again_are_closed_with_the_last_image(tmp_path: Path) -> None:
    with fatpack.open(RECORDED / "v130_none.fatbin") as file:
        stored = pickle.dumps(file.items)
    before = os.listdir("/proc/self/fd")
    assert facts(pickle.loads(stored))
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize(
    "error",
    [
        fatpack.UsageError("no", hint="yes", chain=("a", "b")),
        fatpack.Truncated(needed=3, left=1, format="x", offset=7, field="size", chain=("a",)),
        fatpack.BadValue("wrong", expected="1", found="2", offset=3),
        fatpack.TargetError("sm_1", nearest=("sm_10",)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_come_back_from_other_processes(error: fatpack.FatpackError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
