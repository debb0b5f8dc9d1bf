"""Laws of packages: every packed file is found, and damage raises only fatpack's own errors."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import packages as build

from fatpack import packages
from fatpack.errors import FatpackError, FormatError
from fatpack.io.open import open_source
from fatpack.limits import Budget
from fatpack.model import Finding
from fatpack.packages import PackageMember
from fatpack.packages import members as growing_module

_RANDOM = random.Random(14)

#: Files of all sizes that matter: none, a byte, blocks of tar, more than one piece of every decompressor.
FILES = {
    "empty": b"",
    "pkg/one": b"\0",
    "pkg/lib/libx.so": b"\x7fELF" + _RANDOM.randbytes(70_000) + bytes(300_000) + b"end",
    "pkg/block": _RANDOM.randbytes(512),
    "pkg/text.py": b"print('device')\n" * 5000,
    "näme with blanks/file.co": b"x" * 513,
    "l" * 120 + "/" + "m" * 90 + ".hsaco": b"long name",
}

#: the longest names in the fields of archives
SHORT = {name.rpartition("/")[2][:14]: data for name, data in FILES.items() if name.isascii()}
DEBIAN = {"debian-binary": b"2.0\n", **SHORT}

#: kind and way of packing → package of files
WAYS: dict[str, tuple[str, Callable[[build.Files], bytes]]] = {
    "zip stored": ("zip", lambda files: build.zipped(files, zipfile.ZIP_STORED)),
    "zip deflate": ("zip", build.zipped),
    "zip bzip2": ("zip", lambda files: build.zipped(files, zipfile.ZIP_BZIP2)),
    "zip lzma": ("zip", lambda files: build.zipped(files, zipfile.ZIP_LZMA)),
    "zip zstd": ("zip", build.zstd_zip),
    "zip xz": ("zip", lambda files: build.zstd_zip(files, 95, build.COMPRESSORS["xz"])),
    "zip streamed": ("zip", build.streamed_zip),
    "zip64": ("zip", build.wide_zip),
    "zip behind a script": ("zip", lambda files: b"#!/bin/sh\n" * 100 + build.zipped(files)),
    "tar gnu": ("tar", build.tarred),
    "tar pax": ("tar", lambda files: build.tarred(files, tarfile.PAX_FORMAT)),
    **{
        f"tar {name}": ("tar", lambda files, pack=pack: pack(build.tarred(files)))  # type: ignore[misc]
        for name, pack in (build.COMPRESSORS | build.LZMA).items()
    },
    **{
        f"rpm {name}": ("rpm", lambda files, pack=pack: build.rpm(files, pack))  # type: ignore[misc]
        for name, pack in ({"plain": bytes} | build.COMPRESSORS | build.LZMA).items()
    },
    "deb": ("deb", build.debian),
}
each_way = pytest.mark.parametrize("way", WAYS)


def members(kind: str, data: bytes | build.View) -> list[PackageMember]:
    return [item for item in build.listed(kind, data) if isinstance(item, PackageMember)]


@each_way
def test_the_files_are_those_that_were_packed(way: str) -> None:
    kind, pack = WAYS[way]
    files = DEBIAN if kind == "deb" else FILES
    data = pack(files)
    assert packages.detect_package(build.view_of(data)) == kind
    assert build.contents(kind, data) == files
    found = members(kind, data)
    assert [(item.number, item.name, item.size) for item in found] == [
        (number, name, len(content)) for number, (name, content) in enumerate(files.items())
    ]
    assert build.codes(kind, data) == []


@each_way
def test_an_empty_package_has_no_files(way: str) -> None:
    kind, pack = WAYS[way]
    data = pack({})
    assert [item.name for item in members(kind, data)] == (["debian-binary"] if kind == "deb" else [])
    assert build.codes(kind, data) == []


@each_way
def test_what_lasts_is_read_in_any_order_and_twice_and_in_a_fork(way: str) -> None:
    kind, pack = WAYS[way]
    files = DEBIAN if kind == "deb" else FILES
    found = members(kind, pack(files))
    # What is compressed as one goes by, and so does an rpm, whose files follow each other without a list.
    assert found[0].is_lasting == (kind in ("zip", "deb") or way in ("tar gnu", "tar pax"))
    if not found[0].is_lasting:
        return
    for item in [*reversed(found), *found]:
        with item.open() as source:
            assert source.read(0, source.size) == files[item.name]
    child = os.fork()
    if not child:
        is_right = all(item.open().view().tobytes() == files[item.name] for item in found)
        os._exit(0 if is_right else 1)
    assert os.waitpid(child, 0)[1] == 0


@each_way
def test_what_is_opened_while_it_goes_by_is_read_later(way: str) -> None:
    kind, pack = WAYS[way]
    files = DEBIAN if kind == "deb" else FILES
    opened = []
    for item in packages.get_package(kind).members(build.view_of(pack(files))):
        assert isinstance(item, PackageMember)
        opened.append((item, item.open()))
        if item.number % 2:
            opened[-1][1].read(0, min(1, opened[-1][1].size))
    for item, source in reversed(opened):
        assert source.view().tobytes() == files[item.name]


@each_way
def test_where_the_package_lies_changes_nothing(way: str, tmp_path: Path) -> None:
    kind, pack = WAYS[way]
    files = DEBIAN if kind == "deb" else FILES
    data = pack(files)
    (tmp_path / "x").write_bytes(data)

    class Given:
        name, size = "given", len(data)

        def read_at(self, offset: int, size: int) -> bytes:
            return data[offset : offset + size]

    stored = build.zipped({"inside": data}, zipfile.ZIP_DEFLATED)
    with (
        open_source(tmp_path / "x") as file,
        open_source(Given()) as ranged,
        members("zip", stored)[0].open() as inside,
    ):
        for source in (file, ranged, inside):
            assert build.contents(kind, source.view()) == files
            assert build.codes(kind, source.view()) == []


@each_way
@pytest.mark.parametrize("most", [0, 1000, growing_module.MAX_IN_MEMORY])
def test_any_part_of_a_file_is_the_same_as_of_the_unpacked_one(
    way: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing_module, "MAX_IN_MEMORY", most)
    kind, pack = WAYS[way]
    content = FILES["pkg/lib/libx.so"]
    for item in packages.get_package(kind).members(build.view_of(pack(DEBIAN if kind == "deb" else FILES))):
        assert isinstance(item, PackageMember)
        if not item.name.endswith("libx.so"):
            continue
        with item.open() as source:
            assert source.beginning(16) == content[:16]
            view = source.view()
            for at in (5, 70_100, 0, len(content) - 3, 300_000, 60_000):
                assert view.head(at, 40_000) == content[at : at + 40_000]
            assert view.find(b"end") == len(content) - 3
            assert view.skip_zeros(80_000) == len(content) - 3
            assert b"".join(map(bytes, view.pieces())) == content
            assert view.slice(100, 1000).tobytes() == content[100:1100]


def test_the_first_bytes_of_a_file_inflate_no_more_than_them() -> None:
    content = {"large": bytes(12 << 20)}
    for way in ("zip deflate", "zip bzip2", "zip lzma", "zip zstd", "tar zstd", "tar xz"):
        kind, pack = WAYS[way]
        view = build.view_of(pack(content))
        view.source.budget = budget = Budget()
        item = next(packages.get_package(kind).members(view))
        assert isinstance(item, PackageMember)
        assert item.open().beginning(4096) == bytes(4096)
        assert budget.drawn <= 1 << 20, way


def test_bombs_stop_at_the_budget() -> None:
    content = {"large": bytes(12 << 20)}
    for way in ("zip deflate", "zip bzip2", "zip lzma", "zip zstd", "tar zstd", "tar xz"):
        kind, pack = WAYS[way]
        view = build.view_of(pack(content))
        view.source.budget = Budget(inflated=2 << 20)
        for item in packages.get_package(kind).members(view):
            if isinstance(item, Finding):
                assert item.code == "FP1005"
                continue
            with item.open() as source, pytest.raises(FormatError, match="inflate to more than is left"):
                source.read(0, source.size)


@pytest.mark.parametrize("way", ["zip deflate", "zip zstd", "tar gzip", "rpm zstd"])
def test_memory_is_bounded_whatever_the_size(way: str, tmp_path: Path) -> None:
    kind, pack = WAYS[way]
    (tmp_path / "x").write_bytes(pack({"a": bytes(40 << 20), "b": bytes(40 << 20)}))
    program = (
        "import sys\n"
        "from fatpack.io.open import open_source\nfrom fatpack.packages import get_package\n"
        "size = 0\n"
        "for item in get_package(sys.argv[2]).members(open_source(sys.argv[1]).view()):\n"
        "    with item.open() as source: size += sum(map(len, source.view().pieces()))\n"
        "words = open('/proc/self/status').read().split()\n"
        "print(size, words[words.index('VmHWM:') + 1])\n"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "x", kind], capture_output=True, check=True)
    size, memory = map(int, done.stdout.split())
    assert size == 80 << 20
    assert memory < 64 << 10


SMALL = {"a/x.co": b"device code " * 9, "b.so": _RANDOM.randbytes(70), "c": b""}


def tried(data: bytes) -> tuple[int, int]:
    """Read all that is in damaged bytes, as every package; return how many files were read and how many findings."""
    read = told = 0
    for kind in packages.MODULES:
        view = build.view_of(data)
        packages.get_package(kind).detect(view)
        for item in packages.get_package(kind).members(view):
            if isinstance(item, Finding):
                told += 1
                continue
            told += len(item.findings)
            try:
                with item.open() as source:
                    source.read(0, source.size)
                    told += len(source.findings)
                    read += 1
            except FatpackError:
                told += 1
    return read, told


@each_way
def test_a_package_that_is_cut_says_so(way: str) -> None:
    kind, pack = WAYS[way]
    data = pack(SMALL if kind != "deb" else {"control.tar": SMALL["a/x.co"], "data.tar": SMALL["b.so"]})
    end = len(data)
    if kind == "tar" and data[257:262] == b"ustar":
        end = data.rstrip(b"\0").rfind(b"ustar") - 257 + 512  # what follows are zeros
    for size in range(0, end, max(1, end // 300)):
        read, told = tried(data[:size])
        assert told or not size or (kind == "tar" and read < len(SMALL)), size


@each_way
def test_any_flipped_byte_gives_a_result_or_a_fatpack_error(way: str) -> None:
    flip(way, 5, [0xFF])


@pytest.mark.slow
@each_way
def test_every_flipped_byte_gives_a_result_or_a_fatpack_error(way: str) -> None:
    flip(way, 1, [0xFF, 1])


def flip(way: str, step: int, masks: list[int]) -> None:
    kind, pack = WAYS[way]
    data = pack(SMALL if kind != "deb" else {"control.tar": SMALL["a/x.co"], "data.tar": SMALL["b.so"]})
    for at in (at for at in range(0, len(data), step) if data[at] or not at % 40):
        for mask in masks:
            tried(data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :])


WITHOUT_CHECKSUM = ("deb", "rpm plain", "tar gnu", "tar pax", "zip stored", "zip64")
WITHOUT_CHECKSUM += tuple(f"{kind} {method}" for kind in ("rpm", "tar") for method in ("lz4", "lzma"))


@each_way
def test_flipped_content_is_never_passed_on_in_silence(way: str) -> None:
    """A plain archive has no checksum, and lz4 only on request; all others have one."""
    kind, pack = WAYS[way]
    if way in WITHOUT_CHECKSUM:
        return
    content = {"x": _RANDOM.randbytes(3000)}
    data = pack(content)
    middle = len(data) - 1700
    damaged = data[:middle] + bytes([data[middle] ^ 0x10]) + data[middle + 1 :]
    found = []
    for item in packages.get_package(kind).members(build.view_of(damaged)):
        if isinstance(item, PackageMember):
            with pytest.raises(FormatError), item.open() as source:
                found.append(source.read(0, source.size))
    assert not found
