"""Files that are packed as a whole: nothing is seen in them, and that is said."""

from __future__ import annotations

import gzip
import io
import lzma
import zipfile

import pytest
import zstandard
from tests.laws.rooms import FIXTURES

from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan

FATBIN = (FIXTURES / "cuda_fatbin" / "v130_ptx32.fatbin").read_bytes()


def zipped(how: int) -> bytes:
    """Return a zip archive with one fat binary in it."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", how) as archive:
        archive.writestr(zipfile.ZipInfo("lib/x.fatbin"), FATBIN)
    return file.getvalue()


PACKED = {
    "a zip archive, as wheels are": zipped(zipfile.ZIP_DEFLATED),
    "compressed with zstd": zstandard.ZstdCompressor().compress(FATBIN),
    "compressed with gzip": gzip.compress(FATBIN, mtime=0),
    "compressed with xz": lzma.compress(FATBIN),
}


@pytest.mark.parametrize("what", PACKED)
def test_a_packed_file_that_is_read_as_one_is_reported_not_to_be_looked_into(what: str) -> None:
    (item,) = scan(BytesSource(PACKED[what], "x").view())
    assert isinstance(item, Finding)
    problem = f"{what}: the files in it are not listed where it is read as one file"
    assert (item.code, item.message) == ("FP1006", problem)
    assert item.hint


def test_what_is_stored_in_a_zip_archive_as_it_is_is_found_by_a_search() -> None:
    found, note = scan(BytesSource(zipped(zipfile.ZIP_STORED), "x.whl").view(), deep=True)
    assert isinstance(found, FoundContainer)
    assert isinstance(note, Finding)
    assert found.container.format == "cuda-fatbin"
    assert note.code == "FP1006"


def test_a_file_too_short_to_be_packed_is_nothing_to_tell() -> None:
    assert list(scan(BytesSource(b"PK", "x").view())) == []
