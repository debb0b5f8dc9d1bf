"""Bytes of a wheel beside its files, and how files are stored: each byte is compared, and another form is the same."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Callable

import pytest
from tests.builders import wheels as build
from tests.builders.packages import view_of
from tests.laws.rooms import FIXTURES

from fatpack import magic_numbers
from fatpack.errors import FatpackError
from fatpack.proof.packages import wheels
from fatpack.proof.packages.verdict import PackageProofResult
from fatpack.testing.formats import flip_bits

FILES = {
    "demo/__init__.py": b"value = 1\n",
    "demo/libtwo.so": (FIXTURES / "cuda_fatbin/hosts/libtwo.so").read_bytes(),
}
EXTRA = b"\x99\x99\4\0evil"


def proof_of(before: bytes, after: bytes) -> PackageProofResult:
    return wheels.prove_wheel(view_of(before, "before"), view_of(after, "after"))


def bytes_after_archive(data: bytes) -> bytes:
    return data + bytes(32)


def before_it(data: bytes) -> bytes:
    return build.packed({"evil.py": b"1"}) + data


def commented(data: bytes) -> bytes:
    return data[:-2] + b"\4\0evil"


def with_directory(data: bytes, *, local: bool, extra: bytes = b"", comment: bytes = b"") -> bytes:
    """Return an archive whose first file has more in its local header, or else in the directory."""
    count, size, start = struct.unpack_from("<H2I", data, len(data) - 12)
    files, entries, end = data[:start], bytearray(data[start : start + size]), bytearray(data[start + size :])
    name = struct.unpack_from("<H", entries, 28)[0]
    grown = 0
    if local:
        grown = len(extra)
        files = files[:28] + struct.pack("<H", grown) + files[30 : 30 + name] + extra + files[30 + name :]
        at = 0
        for number in range(count):
            sizes = struct.unpack_from("<3H", entries, at + 28)
            if number:
                struct.pack_into("<I", entries, at + 42, struct.unpack_from("<I", entries, at + 42)[0] + grown)
            at += 46 + sum(sizes)
    else:
        struct.pack_into("<2H", entries, 30, len(extra), len(comment))
        entries[46 + name : 46 + name] = extra + comment
    struct.pack_into("<2I", end, 12, len(entries), start + grown)
    return files + bytes(entries) + bytes(end)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (bytes_after_archive, "bytes after the archive"),
        (before_it, "bytes before the archive"),
        (commented, "comment of the archive"),
        (lambda data: with_directory(data, local=True, extra=EXTRA), "__init__.py: local header"),
        (lambda data: with_directory(data, local=False, extra=EXTRA), "__init__.py: entry of the directory"),
        (lambda data: with_directory(data, local=False, comment=b"evil"), "__init__.py: comment"),
        (lambda data: data[:10] + b"\1\1" + data[12:], "__init__.py: local header"),
    ],
)
def test_every_byte_beside_the_files_is_compared(change: Callable[[bytes], bytes], what: str) -> None:
    data = build.wheel(FILES)
    assert proof_of(data, data).is_proved
    verdict = proof_of(data, change(data))
    assert not verdict.is_proved
    assert any(what in difference.what for difference in verdict.differences), verdict.differences


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 5 << 20])
def test_a_file_that_is_compressed_anew_is_the_same(size: int) -> None:
    files = build.files_of({"demo/zeros": bytes(size), "demo/a.py": b"1\n"})
    stored = io.BytesIO()
    with zipfile.ZipFile(stored, "w") as out, zipfile.ZipFile(io.BytesIO(build.packed(files))) as archive:
        for info in archive.infolist():
            info.compress_type = zipfile.ZIP_STORED
            out.writestr(info, files[info.filename])
    for before, after in ((stored.getvalue(), build.packed(files)), (build.packed(files), stored.getvalue())):
        assert proof_of(before, after).differences == ()


def test_bytes_after_a_compressed_file_are_a_difference() -> None:
    data = build.wheel(FILES)
    with_junk = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(with_junk, "w") as out:
        for info in archive.infolist():
            out.writestr(info, archive.read(info))
        first = out.infolist()[0]
    name = 30 + len(first.filename)
    odd, end = with_junk.getvalue(), name + first.compress_size
    assert proof_of(data, odd).is_proved
    count, size, start = struct.unpack_from("<H2I", odd, len(odd) - 12)
    entries, at = bytearray(odd[start : start + size]), 0
    for number in range(count):
        place = at + 42 if number else at + 20  # where the file is, or how many bytes are stored of it
        struct.pack_into("<I", entries, place, struct.unpack_from("<I", entries, place)[0] + 4)
        at += 46 + sum(struct.unpack_from("<3H", entries, at + 28))
    odd = odd[:18] + struct.pack("<I", first.compress_size + 4) + odd[22:end] + b"evil" + odd[end:start]
    odd += bytes(entries) + with_junk.getvalue()[start + size : -6] + struct.pack("<IH", start + 4, 0)
    assert [item.what for item in proof_of(data, odd).differences] == [
        "demo/__init__.py: bytes after its compressed data"
    ]


def test_deflated_bytes_beyond_the_size_of_a_file_are_found() -> None:
    old, new = io.BytesIO(), io.BytesIO()
    files = build.files_of({"demo/__init__.py": b"value = 1\n"})
    for into, more in ((old, b""), (new, b"import evil\n")):
        with zipfile.ZipFile(into, "w") as archive:
            for name, data in files.items():
                archive.writestr(zipfile.ZipInfo(name), data + (more if name.startswith("demo/") else b""), 8)
    whole = new.getvalue()
    for at in (whole.index(b"PK\3\4") + 14, whole.index(b"PK\1\2") + 16):
        patched = bytearray(whole)
        struct.pack_into("<I", patched, at, zlib.crc32(b"value = 1\n"))
        struct.pack_into("<I", patched, at + 8, 10)
        whole = bytes(patched)
    verdict = proof_of(old.getvalue(), whole)
    assert [item.what for item in verdict.differences] == ["demo/__init__.py: bytes after its compressed data"]


class Unseekable(io.BytesIO):
    """A stream: zipfile writes sizes after the data of each file."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise OSError("it is a stream")


def archive_of_texts(method: int, into: io.BytesIO, *, zip64: bool = False) -> bytes:
    """Return a wheel without libraries."""
    contents = {
        "demo-1.dist-info/METADATA": b"Name: demo\n",
        "demo-1.dist-info/WHEEL": build.WHEEL,
        "demo.py": b"1\n" * 9,
    }
    lines = [f"{name},{build.digest(data)},{len(data)}\n" for name, data in contents.items()]
    contents["demo-1.dist-info/RECORD"] = "".join([*lines, "demo-1.dist-info/RECORD,,\n"]).encode()
    with zipfile.ZipFile(into, "w", method) as archive:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, (2024, 2, 3, 4, 5, 6))
            info.compress_type = method
            with archive.open(info, "w", force_zip64=zip64) as file:
                file.write(data)
    return into.getvalue()


@pytest.mark.parametrize(("fields", "is_right"), [
    ([], True), ([0], True), ([1], True), ([0, 1], True), ([0, 1, 2], True), ([2], True), ([0, 1, 2, 0], False),
    ([9], False), ([0, 9], False),
])  # fmt: skip
@pytest.mark.parametrize("more", [b"", bytes(4), b"\0\0\0\1"])
def test_zip64_may_repeat_what_an_entry_says(fields: list[int], is_right: bool, more: bytes) -> None:
    """A field has up to three numbers, which are those of the file: its two sizes, and its place."""
    data = build.wheel(FILES)
    (first, *_) = zipfile.ZipFile(io.BytesIO(data)).infolist()
    values = {0: first.file_size, 1: first.compress_size, 2: first.header_offset, 9: 12345}
    body = struct.pack(f"<{len(fields)}Q", *(values[number] for number in fields)) + more
    field = struct.pack("<2H", 1, len(body)) + body
    for extra in (field, field * 2):
        changed = with_directory(data, local=False, extra=extra)
        assert proof_of(data, changed).is_proved == (is_right and not any(more))


@pytest.mark.parametrize("zip64", [False, True])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, None])
def test_no_byte_of_a_wheel_can_lie(method: int | None, zip64: bool) -> None:
    """Every byte is read of files that are compressed otherwise, and of those that a stream has (``method`` None)."""
    into = Unseekable if method is None else io.BytesIO
    after = archive_of_texts(zipfile.ZIP_DEFLATED if method is None else method, into(), zip64=zip64)
    other = zipfile.ZIP_STORED if method == zipfile.ZIP_DEFLATED else zipfile.ZIP_DEFLATED
    before = archive_of_texts(other, into(), zip64=zip64)
    assert unnoticed(before, after) == []


def unnoticed(before: bytes, after: bytes) -> list[int]:
    """Return the places where the proof of an archive notices no changed byte."""
    assert proof_of(before, after).is_proved
    missed = []
    for at in range(len(after)):
        try:
            if proof_of(before, flip_bits(after, at, 0x41)).is_proved:
                missed.append(at)
        except FatpackError:
            pass
    return missed


def test_no_byte_of_the_records_of_a_large_archive_can_lie(monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of more than 65,535 files has a record and a locator of Zip64 before its end."""
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 0)
    after = archive_of_texts(zipfile.ZIP_DEFLATED, io.BytesIO())
    before = archive_of_texts(zipfile.ZIP_STORED, io.BytesIO())
    assert after.count(magic_numbers.ZIP64_END) == after.count(magic_numbers.ZIP64_LOCATOR) == 1
    assert unnoticed(before, after) == []


@pytest.mark.parametrize("needed", range(9, 47))
def test_the_version_needed_is_one_that_a_form_needs(needed: int) -> None:
    data = archive_of_texts(zipfile.ZIP_DEFLATED, io.BytesIO())
    for at in (data.index(magic_numbers.ZIP) + 4, data.index(b"PK\1\2") + 6):
        assert data[at] == 20
        assert proof_of(data, data[:at] + bytes([needed]) + data[at + 1 :]).is_proved == (needed in (10, 20, 45))


def test_records_of_a_large_archive_count_from_its_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    before = b"#!/bin/sh\n" + archive_of_texts(zipfile.ZIP_STORED, io.BytesIO())
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 0)
    after = b"#!/bin/sh\n" + archive_of_texts(zipfile.ZIP_DEFLATED, io.BytesIO())
    assert proof_of(before, after).differences == ()


def test_bytes_before_an_archive_are_found_at_its_begin() -> None:
    data = build.wheel(FILES)
    (found,) = (item for item in proof_of(data, before_it(data)).differences if item.what.startswith("bytes before"))
    assert found.offset == 0


def archive_with_names(version: str, names: Callable[[bytes], bytes]) -> bytes:
    """Return a wheel whose files have their names in UTF-8 as well, as Info-ZIP writes them: ``names`` of theirs."""
    contents = {f"demo-{version}.dist-info/METADATA": f"Name: demo\nVersion: {version}\n".encode(), "demo.py": b"1\n"}
    contents[f"demo-{version}.dist-info/WHEEL"] = build.WHEEL
    lines = [f"{name},{build.digest(data)},{len(data)}\n" for name, data in contents.items()]
    contents[f"demo-{version}.dist-info/RECORD"] = "".join([*lines, f"demo-{version}.dist-info/RECORD,,\n"]).encode()
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        for name, data in contents.items():
            info = zipfile.ZipInfo(name, (2024, 2, 3, 4, 5, 6))
            body = struct.pack("<BI", 1, zlib.crc32(name.encode())) + names(name.encode())
            info.extra = struct.pack("<2H", 0x7075, len(body)) + body
            archive.writestr(info, data)
    return into.getvalue()


def test_names_in_utf8_follow_the_names_of_files() -> None:
    before = archive_with_names("1", lambda name: name)
    assert proof_of(before, archive_with_names("1+sm90", lambda name: name)).differences == ()
    other = archive_with_names("1+sm90", lambda name: name.replace(b"demo.py", b"evil.py"))
    assert {item.what for item in proof_of(before, other).differences} == {
        "demo.py: local header",
        "demo.py: entry of the directory",
    }
