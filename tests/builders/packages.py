"""Packages of files for tests, made by the programs and modules that make them elsewhere."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Mapping

import lz4.frame
import zstandard

from fatpack.io.source import BytesSource, View
from fatpack.model import Finding
from fatpack.packages import PackageMember, get_package

Files = Mapping[str, bytes]
Compressor = Callable[[bytes], bytes]

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
    """A sink that can only be written, as a pipe is."""

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


def debian(files: Files) -> bytes:
    """Return a Debian package of these members, behind its version."""
    out = b"!<arch>\n"
    for name, data in ({"debian-binary": b"2.0\n"} | dict(files)).items():
        out += b"%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name.encode(), 0, 0, 0, b"100644", len(data)) + data
        out += b"\n" * (len(data) % 2)
    return out


def cpio(files: Files, *, mode: int = 0o100644) -> bytes:
    """Return an archive of the "new ASCII" kind."""
    out = b""
    for number, (name, data) in enumerate({**files, "TRAILER!!!": b""}.items()):
        raw = name.encode() + b"\0"
        values = (number + 1, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(raw), 0)
        out += b"070701" + b"".join(b"%08x" % value for value in values) + raw
        out += bytes(-len(out) % 4) + data
        out += bytes(-len(out) % 4)
    return out


def stripped_cpio(files: Files) -> bytes:
    """Return an archive whose names and sizes stand in the header of the package."""
    out = b""
    for number, data in enumerate(files.values()):
        out += b"07070X%08x\0\0" % number + data
        out += bytes(-len(out) % 4)
    trailer = b"TRAILER!!!\0"
    return out + b"070701" + b"%08x" * 13 % (0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, len(trailer), 0) + trailer + bytes(3)


def _header(tags: Mapping[int, tuple[int, bytes, int]]) -> bytes:
    index, store = b"", b""
    for tag, (kind, value, count) in sorted(tags.items()):
        store += bytes(-len(store) % 8)
        index += struct.pack(">4I", tag, kind, len(store), count)
        store += value
    return b"\x8e\xad\xe8\1" + bytes(4) + struct.pack(">2I", len(tags), len(store)) + index + store


def rpm(files: Files, compress: Callable[[bytes], bytes] = bytes, *, stripped: bool = False) -> bytes:
    """Return an RPM package; ``stripped`` leaves names and sizes to its header."""
    folders = sorted({name.rpartition("/")[0] for name in files})
    texts = {
        1117: [name.rpartition("/")[2] for name in files],
        1118: ["/" + folder + "/" * bool(folder) for folder in folders],
        1036: [""] * len(files),
    }
    tags = {tag: (8, b"".join(word.encode() + b"\0" for word in words), len(words)) for tag, words in texts.items()}
    numbers = {
        1116: ("I", [folders.index(name.rpartition("/")[0]) for name in files]),
        5008: ("Q", [len(data) for data in files.values()]),
        1030: ("H", [0o100644] * len(files)),
        1096: ("I", range(1, len(files) + 1)),
        1095: ("I", [1] * len(files)),
    }
    for tag, (code, values) in numbers.items():
        tags[tag] = ("HIQ".index(code) + 3, struct.pack(f">{len(values)}{code}", *values), len(values))
    lead = b"\xed\xab\xee\xdb\3\0" + bytes(4) + b"demo".ljust(66, b"\0") + b"\0\1\0\5" + bytes(16)
    signature = _header({1000: (4, bytes(4), 1)})
    payload = stripped_cpio(files) if stripped else cpio({f"./{name}": data for name, data in files.items()})
    return lead + signature + bytes(-len(signature) % 8) + _header(tags) + compress(payload)


def listed(kind: str, data: bytes | View) -> list[PackageMember | Finding]:
    view = view_of(data) if isinstance(data, bytes) else data
    return list(get_package(kind).members(view))


def contents(kind: str, data: bytes | View) -> dict[str, bytes]:
    """Return the bytes of every member, each read before the next is asked for."""
    view = view_of(data) if isinstance(data, bytes) else data
    found = {}
    for item in get_package(kind).members(view):
        if isinstance(item, PackageMember):
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
