"""Bytes that a package says are damaged: whoever takes content out is told, and gets no wrong image silently."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.main import main

#: An object whose images are not compressed: a changed byte in one is seen by no other check.
HOST = FIXTURES / "offload_binary" / "llvm-22-four.bin"


def flipped(data: bytes, content: bytes) -> bytes:
    """Return a package with the last byte of an image changed, which nothing else looks at."""
    at = data.index(content) + content.index(b"BC\xc0\xde") + 7
    return data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path, content = tmp_path / "x.zip", HOST.read_bytes()
    with zipfile.ZipFile(path, "w") as package:
        package.writestr("lib/four.bin", content)
    path.write_bytes(flipped(path.read_bytes(), content))
    return path


@pytest.fixture
def streamed(tmp_path: Path) -> Path:
    content, plain = HOST.read_bytes(), io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as package:
        package.add(HOST, "lib/four.bin")
    path = tmp_path / "x.tar.gz"
    path.write_bytes(flipped(gzip.compress(plain.getvalue(), compresslevel=0, mtime=0), content))
    return path


def test_extract_writes_nothing_of_a_stored_file_with_another_crc(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for what, more in ((stored, ()), (f"{stored}!lib/four.bin", ()), (f"{stored}!lib/four.bin", ("--arch", "gfx90a"))):
        out = tmp_path / "out"
        assert main(["extract", str(what), "-d", str(out), *more]) == 3
        assert "CRC-32: the content is damaged, or the directory is" in capsys.readouterr().err
        assert not [path for path in out.rglob("*") if path.is_file()]


@pytest.fixture
def deflated(tmp_path: Path) -> Path:
    """A wheel with an object that is sound, and one in which a byte is not what the checksum says."""
    path, content = tmp_path / "x-1-py3-none-any.whl", HOST.read_bytes()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("lib/four.bin", flipped(content, content))
        package.writestr("lib/sound.bin", content)
        wrong = package.getinfo("lib/four.bin").CRC.to_bytes(4, "little")
        right = package.getinfo("lib/sound.bin").CRC.to_bytes(4, "little")
    path.write_bytes(path.read_bytes().replace(wrong, right))
    return path


def test_extract_says_a_wrong_checksum_once_and_counts_what_it_wrote(
    deflated: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extract", str(deflated), "-d", str(tmp_path / "out")]) == 3
    said = capsys.readouterr().err
    assert said.count("lib/four.bin") == said.count("the content is damaged") == 1
    assert "CRC-32: the content is damaged, or the directory is (expected " in said
    assert "4 images extracted; " in said
    assert len(list((tmp_path / "out" / "lib").iterdir())) == 4


def test_doctor_says_a_wrong_checksum_once(deflated: Path) -> None:
    found = fatpack.doctor(deflated)
    (told,) = [item for item in found.findings if "damaged" in item.message]
    assert (told.code, told.message.partition(" (expected")[0]) == (
        "FP1710",
        "CRC-32: the content is damaged, or the directory is",
    )
    assert next(row.wrong for row in found.verified if row.what == "checksums") == 1


def test_bytes_at_an_address_in_a_stored_file_are_checked(
    stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["extract", f"{stored}!lib/four.bin#offset=0x10&size=0x10", "-o", str(tmp_path / "x")]) == 3
    assert "CRC-32" in capsys.readouterr().err
    assert not (tmp_path / "x").exists()


def test_a_listing_reads_no_content_and_verify_does(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(stored)]) in (0, 1)
    assert "FP1710" not in capsys.readouterr().out
    assert main(["inspect", "--verify", str(stored)]) == 3
    assert "error FP1710" in capsys.readouterr().out
    assert main(["inspect", "--verify", f"{stored}!lib/four.bin"]) == 3


def test_digests_are_not_given_for_what_is_damaged(stored: Path) -> None:
    assert next(row.error for row in fatpack.rows(stored) if row.row == "file") is None
    (row,) = [row for row in fatpack.rows(stored, digests=True) if row.path.endswith("four.bin")]
    assert "CRC-32" in (row.error or "")


def test_a_file_in_a_stream_whose_checksum_is_wrong_is_not_taken_for_sound(
    streamed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["extract", f"{streamed}!lib/four.bin", "-d", str(out)]) == 3
    said = capsys.readouterr().err
    assert "lib/four.bin may be damaged" in said
    assert "extract of the whole package takes what is left" in said
    assert not out.exists()
    assert main(["extract", str(streamed), "-d", str(out)]) == 3  # written, and said
    assert "checksum" in capsys.readouterr().err
    assert [path for path in out.rglob("*") if path.is_file()]
