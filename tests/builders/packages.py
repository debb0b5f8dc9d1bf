"""Packages of files for tests, made by the programs and modules that make them elsewhere."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping

import lz4.frame
import zstandard

from fatpack.io.source import View
from fatpack.io.sources.memory import BytesSource
from fatpack.model import Finding
from fatpack.packages import Member, room

Files = Mapping[str, bytes]

#: whole-file compression by its name here
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 6, mtime=0),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": zstandard.ZstdCompressor(write_checksum=True).compress,
    "lz4": lz4.frame.compress,
}
LZMA = {"lzma": lambda data: lzma.compress(data, lzma.FORMAT_ALONE)}

SUFFIXES = {"gzip": ".gz", "bzip2": ".bz2", "xz": ".xz", "zstd": ".zst", "lz4": ".lz4"}


def view_of(data: bytes, name: str = "outer") -> View:
    return BytesSource(data, name).view()


def zipped(files: Files, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return into.getvalue()


class Unseekable(io.RawIOBase):
    """What a pipe is to a writer."""

    def __init__(self) -> None:
        self.data = b""

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self.data += bytes(data)  # type: ignore[call-overload]
        return len(data)  # type: ignore[arg-type]


def streamed_zip(files: Files) -> bytes:
    """Return an archive with sizes behind the data, as a pipe makes them necessary."""
    into = Unseekable()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:  # type: ignore[arg-type]
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return into.data


def wide_zip(files: Files) -> bytes:
    """Return an archive with the fields of Zip64 for every file, and for the directory."""
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        for name, data in files.items():
            with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
                member.write(data)
    return into.getvalue()


def zstd_zip(files: Files, number: int = 93, compress: Callable[[bytes], bytes] = COMPRESSORS["zstd"]) -> bytes:
    """Return an archive compressed with a method that zipfile does not know: packed as stored, then renumbered."""
    packed = {name: compress(data) for name, data in files.items()}
    data = bytearray(zipped(packed, zipfile.ZIP_STORED))
    with zipfile.ZipFile(io.BytesIO(bytes(data))) as archive:
        places = [(info.header_offset, info.filename) for info in archive.infolist()]
        at = archive.start_dir
    for header_at, name in places:
        crc, size = zlib.crc32(files[name]), len(files[name])  # type: ignore[attr-defined]
        for place in (header_at + 8, at + 10):
            data[place : place + 2] = number.to_bytes(2, "little")
            data[place + 6 : place + 10] = crc.to_bytes(4, "little")
            data[place + 14 : place + 18] = size.to_bytes(4, "little")
        at += 46 + len(name.encode())
    return bytes(data)


def tarred(files: Files, format: int = tarfile.GNU_FORMAT) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=format) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return into.getvalue()


def listed(kind: str, data: bytes | View) -> list[Member | Finding]:
    view = view_of(data) if isinstance(data, bytes) else data
    return list(room(kind).members(view))


def contents(kind: str, data: bytes | View) -> dict[str, bytes]:
    """Return the bytes of every member, each read before the next is asked for."""
    view = view_of(data) if isinstance(data, bytes) else data
    found = {}
    for item in room(kind).members(view):
        if isinstance(item, Member):
            with item.open() as source:
                found[item.name] = source.read(0, source.size)
                assert item.size in (None, source.size)
    return found


def codes(kind: str, data: bytes | View) -> list[str]:
    """Return the codes of all findings, those of members too."""
    found = []
    for item in listed(kind, data):
        found += [item.code] if isinstance(item, Finding) else [finding.code for finding in item.findings]
    return found
