"""Zip archives with replaced files: other readers find the others unchanged, and a wrong writer would be detected."""

from __future__ import annotations

import hashlib
import io
import os
import random
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import packages as build
from tests.reference import tool

from fatpack.errors import BadValue, FormatError, HostError
from fatpack.io.open import open_source
from fatpack.io.source import PiecesSource
from fatpack.packages.zip import directory, writer
from fatpack.packages.zip.crosscheck import verify_zip_change
from fatpack.packages.zip.packing import PackedFile, Packing, StoredBlocks, pack_content
from fatpack.packages.zip.writer import ZipAddition, ZipChange, exchange_entries, read_zip_entries

FILES = {"a.txt": b"first\n" * 50, "lib/b.so": os.urandom(3000) + bytes(90000), "empty": b"", "c/ü.txt": b"last\n" * 9}
NEW = b"other content " * 9000


def new(content: bytes = NEW, *, deflates: bool = True) -> ZipChange:
    return ZipChange(pack_content([content], deflates=deflates))


def rewritten(data: bytes, changes: dict[int, ZipChange]) -> bytes:
    """Return an archive with changes, after the check that belongs to it."""
    before = build.view_of(data)
    pieces = exchange_entries(before, changes)
    verify_zip_change(before, PiecesSource(pieces).view(), changes)
    return PiecesSource(pieces).read(0, sum(map(len, pieces)))


def content_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        return {info.filename: archive.read(info) for info in archive.infolist()}


WAYS: dict[str, Callable[[build.Files], bytes]] = {
    "stored": lambda files: build.zipped(files, zipfile.ZIP_STORED),
    "deflate": build.zipped,
    "bzip2": lambda files: build.zipped(files, zipfile.ZIP_BZIP2),
    "streamed": build.streamed_zip,
    "zip64": build.wide_zip,
    "behind a script": lambda files: b"#!/bin/sh\n" * 100 + build.zipped(files),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", range(len(FILES)))
def test_one_file_is_exchanged_and_all_others_stay(way: str, number: int) -> None:
    data = WAYS[way](FILES)
    result = rewritten(data, {number: new()})
    assert content_of(result) == {**FILES, list(FILES)[number]: NEW}
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(io.BytesIO(result)) as after:
        for was, now in zip(before.infolist(), after.infolist(), strict=True):
            if was.filename != list(FILES)[number]:
                assert (was.CRC, was.compress_size, was.extra, was.date_time, was.flag_bits) == (
                    now.CRC,
                    now.compress_size,
                    now.extra,
                    now.date_time,
                    now.flag_bits,
                )


@pytest.mark.parametrize("way", WAYS)
def test_nothing_changed_is_the_same_archive_to_the_byte(way: str) -> None:
    data = WAYS[way](FILES)
    assert rewritten(data, {}) == data


@pytest.mark.parametrize("way", WAYS)
def test_files_get_other_names_and_keep_their_bytes(way: str) -> None:
    data = WAYS[way](FILES)
    result = rewritten(data, {0: ZipChange(name="renamed-to-something-longer.txt"), 3: ZipChange(name="é")})
    names = ["renamed-to-something-longer.txt", "lib/b.so", "empty", "é"]
    assert content_of(result) == dict(zip(names, FILES.values(), strict=True))


def with_added(data: bytes, changes: dict[int, ZipChange], name: str = "added.json") -> bytes:
    """Return an archive with changes and a new file, after the check that belongs to it."""
    before = build.view_of(data)
    added = [ZipAddition(name, pack_content([NEW], deflates=True), read_zip_entries(before)[0])]
    pieces = exchange_entries(before, changes, added)
    after = PiecesSource(pieces).view()
    verify_zip_change(before, after, changes, added)
    with pytest.raises(HostError, match="other files"):
        verify_zip_change(before, after, changes)
    with pytest.raises(HostError, match="other files"):
        verify_zip_change(before, before, {}, added)
    return after.tobytes()


@pytest.mark.parametrize("way", WAYS)
def test_a_file_is_added_behind_all_others(way: str) -> None:
    data = WAYS[way](FILES)
    result = with_added(data, {1: new(b"x")}, "é.json")
    assert content_of(result) == {**FILES, "lib/b.so": b"x", "é.json": NEW}
    with zipfile.ZipFile(io.BytesIO(result)) as archive:
        first, *_, last = archive.infolist()
        assert last.header_offset == max(info.header_offset for info in archive.infolist())
        assert (last.date_time, last.external_attr) == (first.date_time, first.external_attr)


def test_a_file_too_many_for_the_old_directory_makes_it_a_wide_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """65,535 files are as many as the old record counts: with one more the directory gets that of Zip64."""
    data = build.zipped({str(number): b"" for number in range(0xFFFE)}, zipfile.ZIP_STORED)
    result = with_added(data, {})
    assert len(content_of(result)) == 0xFFFF
    assert b"PK\x06\x06" in result[-200:]


def test_a_file_behind_4_gb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FULL", 100)
    with pytest.raises(HostError, match="beyond 4 GB"):
        with_added(build.zipped({"a": b"x"}), {})


@pytest.mark.reference
@pytest.mark.parametrize("way", WAYS)
def test_unzip_and_7z_find_nothing_wrong(way: str, tmp_path: Path) -> None:
    before = WAYS[way](FILES)
    full = ZipChange(pack_content([b"x"], deflates=False), "full")
    file = tmp_path / "x.zip"
    codes = []
    for data in (before, with_added(rewritten(before, {1: new(), 2: full}), {})):
        file.write_bytes(data)
        tests = ([tool("7z"), "t", file], [tool("unzip"), "-t", file])
        codes.append([subprocess.run(command, capture_output=True, check=False).returncode for command in tests])
    assert codes[1] == codes[0]  # a script before the archive is a warning to one, and an error to the other
    assert codes[0] == ([2, 1] if "script" in way else [0, 0])


def test_times_modes_comments_and_folders_stay() -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"of the archive"
        for name in ("folder/", "folder/a", "b"):
            info = zipfile.ZipInfo(name, (2021, 3, 4, 5, 6, 8))
            info.external_attr, info.comment = 0o100751 << 16, b"of " + name.encode()
            info.extra = struct.pack("<HHI", 0x5455 + 1, 4, 7)
            archive.writestr(info, b"" if name.endswith("/") else b"content " * 30)
    with zipfile.ZipFile(io.BytesIO(rewritten(into.getvalue(), {1: new()}))) as after:
        assert after.comment == b"of the archive"
        for info in after.infolist():
            assert info.date_time == (2021, 3, 4, 5, 6, 8)
            assert info.external_attr == 0o100751 << 16
            assert info.comment == b"of " + info.filename.encode()
            assert info.extra == struct.pack("<HHI", 0x5455 + 1, 4, 7)
        assert after.read("folder/a") == NEW


def test_two_names_in_the_extra_field_of_info_zip_change_together() -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        info = zipfile.ZipInfo("a")
        info.extra = struct.pack("<HHB", 0x7075, 10, 1) + struct.pack("<I", 0xE8B7BE43) + "å.txt".encode()[:5]
        archive.writestr(info, b"x")
    result = rewritten(into.getvalue(), {0: ZipChange(name="new")})
    (entry,) = read_zip_entries(build.view_of(result))
    assert entry.name == "new"
    assert b"new" in result[result.index(b"up") :]


def test_what_lies_between_files_is_kept() -> None:
    data = build.zipped({"a": b"1" * 100, "b": b"2" * 100}, zipfile.ZIP_STORED)
    at = data.index(b"PK\3\4", 4)
    gap = b"nobody's"
    data = data[:at] + gap + data[at:]
    # Offsets after the gap, set by hand: that of b in the directory, and of the directory.
    edited = bytearray(data)
    second = data.rindex(b"PK\1\2")
    struct.pack_into("<I", edited, second + 42, at + len(gap))
    end = data.rindex(b"PK\5\6")
    struct.pack_into("<I", edited, end + 16, struct.unpack_from("<I", data, end + 16)[0] + len(gap))
    result = rewritten(bytes(edited), {0: new()})
    assert gap in result
    assert content_of(result) == {"a": NEW, "b": b"2" * 100}


def test_bytes_after_the_end_are_refused() -> None:
    with pytest.raises(HostError, match="4 bytes follow the end"):
        exchange_entries(build.view_of(build.zipped(FILES) + b"more"), {})


def test_a_signature_of_the_directory_is_refused() -> None:
    data = build.zipped(FILES)
    at = data.rindex(b"PK\5\6")
    with pytest.raises(HostError, match="6 bytes are between"):
        exchange_entries(build.view_of(data[:at] + b"PK\5\5\0\0" + data[at:]), {})


def test_entries_that_share_a_header_are_refused() -> None:
    data = bytearray(build.zipped({"aa": b"x" * 40, "bb": b"y" * 40}))
    first, second = (place for place in range(len(data) - 4) if data[place : place + 4] == b"PK\1\2")
    data[second : second + 46] = data[first : first + 46]
    with pytest.raises(FormatError):
        exchange_entries(build.view_of(bytes(data)), {0: new()})


def test_sizes_after_the_data_that_are_none_are_named() -> None:
    data = bytearray(build.streamed_zip({"a": b"x" * 400}))
    at = data.index(b"PK\7\x08")
    data[at + 4] ^= 1
    with pytest.raises(BadValue, match="data descriptor") as caught:
        exchange_entries(build.view_of(bytes(data)), {0: new()})
    assert caught.value.offset == at


def test_offsets_that_need_zip64_now_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # The limit of 4 GiB is 64 KiB here: the same branches without files of that size.
    data = build.zipped({"a": b"x", "b": b"y"})
    change = {0: ZipChange(pack_content([os.urandom(70000)], deflates=False))}
    for module in (writer,):
        monkeypatch.setattr(module, "FULL", 0xFFFF)
    pieces = exchange_entries(build.view_of(data), change)
    result = PiecesSource(pieces).read(0, sum(map(len, pieces)))
    monkeypatch.undo()
    assert b"PK\6\6" in result and b"PK\6\7" in result
    wide = directory.extra_field(result[30 + 1 : 30 + 1 + 20], 1)
    assert wide == struct.pack("<QQ", 70000, 70000)


def test_other_numbers_of_threads_and_pieces_give_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    content = os.urandom(700_000) * 5
    whole = pack_content([content], deflates=True)
    monkeypatch.setattr("fatpack.packages.zip.packing.thread_count", lambda: 1)
    monkeypatch.setattr("fatpack.concurrency.threads.thread_count", lambda: 1)
    parts = pack_content([content[at : at + 99_991] for at in range(0, len(content), 99_991)], deflates=True)
    assert whole.stored.tobytes() == parts.stored.tobytes()
    assert (whole.crc, whole.size, whole.digest) == (parts.crc, parts.size, hashlib.sha256(content).digest())


def test_contents_of_one_file_deflate_their_common_ranges_once(tmp_path: Path) -> None:
    file = tmp_path / "library"
    file.write_bytes(random.Random(1).randbytes(1 << 20) * 5)
    deflated = 0
    with open_source(str(file)) as source, open(tmp_path / "contents", "w+b") as contents:
        view = source.view()
        known = StoredBlocks(source, contents.fileno(), {})
        for first, start, size in ((b"one", 0, 5 << 20), (b"the other", 70_000, (5 << 20) - 200_000), (b"3", 0, 100)):
            pieces = [first, view.slice(start, size), view.slice(start, 200), b"end"]
            packing = Packing(pieces, deflates=True, known=known)
            stored, before = b"", len(known.places)
            for part in packing.parts():
                stored += part
                contents.seek(known.at)
                contents.write(part)
                contents.flush()
                known = known.replace(at=known.at + len(part))
            content = PiecesSource(pieces).read(0, sum(map(len, pieces)))
            assert zlib.decompress(stored, -15) == content
            assert (packing.size, packing.crc) == (len(content), zlib.crc32(content))
            assert packing.digest == hashlib.sha256(content).digest()
            deflated += len(known.places) - before
    # Five blocks of the first content; of the second the first and last one, whose bounds are others.
    assert deflated == 5 + 2


@given(st.lists(st.tuples(st.binary(max_size=300), st.booleans()), min_size=1, max_size=6), st.data())
@settings(max_examples=40, deadline=None)
def test_any_archive_with_any_change_reads_as_it_should(files: list[tuple[bytes, bool]], data: st.DataObject) -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        for number, (content, deflates) in enumerate(files):
            archive.writestr(zipfile.ZipInfo(str(number)), content, 8 if deflates else 0)
    chosen = data.draw(st.dictionaries(st.integers(0, len(files) - 1), st.binary(max_size=300)))
    result = rewritten(into.getvalue(), {number: new(content) for number, content in chosen.items()})
    assert content_of(result) == {str(number): chosen.get(number, content) for number, (content, _) in enumerate(files)}


def test_the_proof_sees_what_a_wrong_writer_would_do() -> None:
    before = build.view_of(build.zipped(FILES))
    change = {1: new()}
    good = rewritten(before.tobytes(), change)
    for wrong in (
        good.replace(b"a.txt", b"b.txt"),
        rewritten(good, {0: new(b"something else")}),
        rewritten(good, {1: new(b"something else")}),
        good[:-1],
        build.zipped({**FILES, "more": b""}),
    ):
        with pytest.raises(HostError):
            verify_zip_change(before, build.view_of(wrong), change)
    other = PackedFile(change[1].content.stored, 8, 0, len(NEW), b"another digest")  # type: ignore[union-attr]
    with pytest.raises(HostError, match="other content"):
        verify_zip_change(before, build.view_of(good), {1: ZipChange(other)})


def test_a_file_is_copied_by_ranges_of_the_old_one(tmp_path: Path) -> None:
    file = tmp_path / "x.zip"
    file.write_bytes(build.zipped(FILES, zipfile.ZIP_STORED))
    with open_source(str(file)) as source:
        pieces = exchange_entries(source.view(), {0: new(b"x")})
        kept = sum(len(piece) for piece in pieces if not isinstance(piece, bytes) and piece.source is source)  # type: ignore[union-attr]
    assert kept > len(FILES["lib/b.so"])


@pytest.mark.parametrize("way", ["streamed", "zip64", "stored"])
def test_any_damaged_byte_gives_a_sound_archive_or_a_precise_error(way: str) -> None:
    data = WAYS[way]({"a": b"some text " * 4, "b": b"other"})
    change = {0: new(b"new", deflates=False)}
    kept = refused = 0
    for at in range(len(data)):
        for value in (0, 0xFF, data[at] ^ 1):
            damaged = data[:at] + bytes([value]) + data[at + 1 :]
            try:
                rewritten(damaged, change)
                kept += 1
            except (FormatError, HostError):
                refused += 1
    assert kept > 100
    assert refused > 100


@pytest.mark.parametrize("way", WAYS)
def test_an_archive_cut_anywhere_is_refused(way: str) -> None:
    data = WAYS[way]({"a": b"some text " * 4, "b": b"other"})
    for size in range(len(data)):
        with pytest.raises((FormatError, HostError)):
            rewritten(data[:size], {0: new(b"new", deflates=False)})
