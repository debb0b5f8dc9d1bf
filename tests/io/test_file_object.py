"""File objects: with a descriptor, seekable, read-only, and decompressing."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tempfile
import zipfile
from pathlib import Path

import pytest

from fatpack.io.file import FileSource
from fatpack.io.open import open_source
from fatpack.io.ranges import RangedSource
from fatpack.io.source import BytesSource

DATA = os.urandom(100_000)


def test_files_of_the_system_are_read_by_their_descriptor(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(DATA)
    with (tmp_path / "x").open("rb") as file, (tmp_path / "x").open("rb", buffering=0) as raw:
        for given in (file, raw):
            given.seek(50)
            with open_source(given) as source:
                assert isinstance(source, FileSource)
                assert source.view().tobytes() == DATA
            assert given.tell() == 50
    with tempfile.NamedTemporaryFile() as named:
        named.write(DATA)
        named.flush()
        assert isinstance(open_source(named), FileSource)  # type: ignore[arg-type]


@pytest.mark.parametrize("opener", [gzip.open, bz2.open, lzma.open])
def test_what_a_compressed_file_holds_is_read_and_not_the_file(opener: object, tmp_path: Path) -> None:
    """``GzipFile.fileno()`` is the descriptor of the compressed file."""
    with opener(tmp_path / "x", "wb") as into:  # type: ignore[operator]
        into.write(DATA)
    with opener(tmp_path / "x") as file:  # type: ignore[operator]
        file.read(10)
        with open_source(file) as source:
            assert isinstance(source, FileSource)
            assert source.view().tobytes() == DATA


def test_memory_is_not_copied_and_a_position_means_nothing() -> None:
    file = io.BytesIO(DATA)
    file.seek(9)
    with open_source(file) as source:
        assert isinstance(source, BytesSource)
        assert source.view().tobytes() == DATA
    with open_source(io.BufferedReader(file)) as source:  # type: ignore[arg-type]
        assert isinstance(source, RangedSource)
        assert source.view().read(50_000, 3) == DATA[50_000:50_003]


def test_what_cannot_seek_is_spooled_from_with_its_position() -> None:
    class Stream(io.RawIOBase):
        def __init__(self) -> None:
            self._left = io.BytesIO(DATA)

        def readable(self) -> bool:
            return True

        def readinto(self, into: bytearray) -> int:
            return self._left.readinto(into)

    with open_source(io.BufferedReader(Stream())) as source:  # type: ignore[arg-type]
        assert isinstance(source, FileSource)
        assert source.view().tobytes() == DATA


def test_damage_in_a_zip_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("lib.so", DATA)
    damaged = bytearray(into.getvalue())
    damaged[5000] ^= 0xFF
    with zipfile.ZipFile(io.BytesIO(damaged)) as archive, archive.open("lib.so") as member:
        with pytest.raises(OSError, match=r"Bad CRC-32|Error -3") as caught:
            open_source(member)  # type: ignore[arg-type]
        assert caught.value.filename == "lib.so"


def test_text_is_refused() -> None:
    class Text:
        def read(self, size: int = -1) -> str:
            return "text"

    for given in (io.StringIO("x"), Text()):
        with pytest.raises(TypeError, match="a path, bytes or a binary file, got"):
            open_source(given)  # type: ignore[arg-type]
