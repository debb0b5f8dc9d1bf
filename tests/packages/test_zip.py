"""Hostile and damaged zip archives, and the findings about them."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.builders import packages as build
from tests.reference import run, tool

from fatpack.errors import FormatError, Unsupported
from fatpack.io.ranges import RangedSource
from fatpack.model import Finding
from fatpack.packages import PackageMember, get_package
from fatpack.packages.zip.directory import END, ENTRY, LOCAL

CONTENT = b"device code " * 50
ONE = build.zipped({"lib/x.so": CONTENT})


def only(data: bytes) -> PackageMember:
    (member,) = (item for item in build.listed("zip", data) if isinstance(item, PackageMember))
    return member


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return data[:at] + value + data[at + len(value) :]


def directory_at(data: bytes) -> int:
    return data.index(b"PK\1\2")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("../x", r"`\.\.` leads out"),
        ("a/../../x", r"`\.\.` leads out"),
        ("/etc/x", "absolute"),
        ("C:x", "names a drive"),
        ("a\\b", "backslash"),
    ],
)
def test_names_that_lead_elsewhere_are_reported(name: str, words: str) -> None:
    data = build.zipped({name: b""})
    member = only(data)
    assert member.name == name
    (finding,) = member.findings
    assert finding.code == "FP1702"
    assert re.search(words, finding.message)


def test_a_nul_in_a_name_is_reported() -> None:
    data = build.zipped({"a_b": b"x"}).replace(b"a_b", b"a\0b")
    assert build.codes("zip", data) == ["FP1702"]
    assert only(data).open().view().tobytes() == b"x"


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_names_that_are_repeated_are_reported_and_both_are_listed() -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr("x", b"1")
        archive.writestr("x", b"2")
    assert [item.open().view().tobytes() for item in build.listed("zip", into.getvalue())] == [b"1", b"2"]
    assert build.codes("zip", into.getvalue()) == ["FP1703"]


@pytest.mark.parametrize("field", ["method", "crc", "stored_size", "size"])
def test_a_local_header_that_contradicts_the_directory_is_an_error(field: str) -> None:
    at = LOCAL.field_offset(field)
    data = changed(ONE, at, bytes([ONE[at] ^ 1]))
    with pytest.raises(FormatError) as caught:
        only(data).open()
    assert caught.value.offset == at
    assert caught.value.field == f"file lib/x.so: {field}"
    assert caught.value.expected != caught.value.found


def test_another_name_in_the_local_header_is_an_error() -> None:
    with pytest.raises(FormatError, match="contradicts the directory"):
        only(changed(ONE, LOCAL.size, b"L")).open()


@pytest.mark.parametrize(("size", "found"), [(10, "more than 10"), (10_000, str(len(CONTENT)))])
def test_sizes_that_are_not_those_of_the_content_are_errors(size: int, found: str) -> None:
    lie = size.to_bytes(4, "little")
    data = changed(ONE, LOCAL.field_offset("size"), lie)
    data = changed(data, directory_at(ONE) + ENTRY.field_offset("size"), lie)
    member = only(data)
    assert member.size == size
    with pytest.raises(FormatError) as caught:
        member.open().view().tobytes()
    assert (caught.value.expected, caught.value.found) == (str(size), found)


def test_a_checksum_that_is_wrong_is_an_error_at_the_last_byte() -> None:
    lie = bytes(4)
    data = changed(ONE, LOCAL.field_offset("crc"), lie)
    data = changed(data, directory_at(ONE) + ENTRY.field_offset("crc"), lie)
    view = only(data).open().view()
    assert view.head(0, 100) == CONTENT[:100]
    for _ in range(2):
        with pytest.raises(FormatError, match="CRC-32: the content is damaged"):
            view.tobytes()
    assert view.head(0, 100) == CONTENT[:100]


def test_files_that_share_bytes_are_not_read() -> None:
    two = build.zipped({"a": CONTENT, "b": CONTENT})
    second = directory_at(two) + ENTRY.size + 1
    data = changed(two, second + ENTRY.field_offset("offset"), bytes(4))
    assert build.codes("zip", data) == ["FP1705", "FP1705"]
    for item in build.listed("zip", data):
        assert isinstance(item, PackageMember)
        with pytest.raises(FormatError, match="same header"):
            item.open()


def test_a_file_that_reaches_into_the_next_is_not_read() -> None:
    two = build.zipped({"a": CONTENT, "b": CONTENT}, zipfile.ZIP_STORED)
    lie = (len(CONTENT) + 40).to_bytes(4, "little")
    data = two
    for start, layout in ((0, LOCAL), (directory_at(two), ENTRY)):
        for field in ("size", "stored_size"):
            data = changed(data, start + layout.field_offset(field), lie)
    first, second = build.listed("zip", data)
    assert isinstance(first, PackageMember)
    assert isinstance(second, PackageMember)
    with pytest.raises(FormatError, match="those of another file"):
        first.open()
    assert second.open().view().tobytes() == CONTENT


def test_encrypted_files_and_unknown_methods_are_named() -> None:
    at = directory_at(ONE)
    encrypted = changed(ONE, at + ENTRY.field_offset("flags"), b"\1")
    with pytest.raises(Unsupported, match="is encrypted; decrypt it first"):
        only(encrypted).open()
    ppmd = changed(ONE, at + ENTRY.field_offset("method"), b"\x62\0")
    with pytest.raises(Unsupported, match=r"compression method 98 \(PPMd\)"):
        only(ppmd).open()


def test_what_is_stored_is_read_in_place() -> None:
    data = build.zipped({"a": b"1", "b": CONTENT}, zipfile.ZIP_STORED)

    class Watched:
        name, size = "watched", len(data)
        asked: list[tuple[int, int]] = []  # noqa: RUF012  (one test, one list)

        def read_at(self, offset: int, size: int) -> bytes:
            self.asked.append((offset, size))
            return data[offset : offset + size]

    source = RangedSource(Watched(), "watched")
    _, second = get_package("zip").members(source.view())
    assert isinstance(second, PackageMember)
    with second.open() as content:
        assert content.view().find(b"code") == 7
        assert content.view().chain == ("watched!b",)
        assert content.fileno() is None
    assert content.view().tobytes() == CONTENT  # closing it leaves the package open


def test_a_directory_that_is_damaged_keeps_the_files_before() -> None:
    data = build.zipped({f"f{number}": b"x" for number in range(9)})
    entry = ENTRY.size + 2
    damaged = changed(data, directory_at(data) + 5 * entry, b"XX")
    *files, finding = build.listed("zip", damaged)
    assert [item.open().view().tobytes() for item in files] == [b"x"] * 5  # type: ignore[union-attr]
    assert isinstance(finding, Finding)
    assert (finding.code, finding.span.start) == ("FP1701", directory_at(data) + 5 * entry)


def test_an_archive_without_its_end_says_where_it_should_be() -> None:
    cut = ONE[: directory_at(ONE)]
    assert get_package("zip").detect(build.view_of(cut))
    (finding,) = build.listed("zip", cut)
    assert isinstance(finding, Finding)
    assert (finding.code, finding.span.start) == ("FP1701", len(cut))
    assert "zip -FF" in finding.hint


def test_bytes_after_the_end_are_reported_and_a_comment_is_none() -> None:
    assert build.codes("zip", ONE + b"more") == ["FP1706"]
    comment = b"PK\5\6 is a comment"
    assert build.codes("zip", ONE[:-2] + len(comment).to_bytes(2, "little") + comment) == []


def test_a_program_before_the_archive_is_reported() -> None:
    for program, expected in ((b"\x7fELF" + bytes(100), ["FP1706"]), (b"#!/bin/sh\n", [])):
        data = program + ONE
        assert get_package("zip").detect(build.view_of(data))
        assert build.codes("zip", data) == expected
        assert only(data).open().view().tobytes() == CONTENT


def test_a_link_is_no_file_and_reported_where_it_leads_out() -> None:
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        for name, target in (("lib/inside", "x.so"), ("lib/outside", "../../etc")):
            info = zipfile.ZipInfo(name)
            info.external_attr = 0o120777 << 16
            archive.writestr(info, target)
        archive.writestr("lib/outside/passwd", b"x")
    found = build.listed("zip", into.getvalue())
    assert [item.code for item in found if isinstance(item, Finding)] == ["FP1707"]
    (member,) = (item for item in found if isinstance(item, PackageMember))
    assert [finding.code for finding in member.findings] == ["FP1708"]


def test_names_are_read_as_they_were_written() -> None:
    names = {"ä.so": b"", "plain": b""}
    assert [item.name for item in build.listed("zip", build.zipped(names))] == [*names]  # type: ignore[union-attr]
    old = build.zipped({"x_x": b"1"}).replace(b"x_x", b"x\x81x")
    assert only(old).name == "xüx"
    assert only(old).open().view().tobytes() == b"1"


def many(count: int) -> bytes:
    """Return an archive of empty files, made without zipfile, which needs minutes and gigabytes for them."""
    local = LOCAL.pack(b"PK\3\4", 20, 0, 0, 0, 0, 0, 0, 0, 8, 0)
    head = b"".join(local + b"%08x" % number for number in range(count))
    entries = [
        ENTRY.pack(b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, number * (len(local) + 8))
        + b"%08x" % number
        for number in range(count)
    ]
    directory = b"".join(entries)
    return head + directory + END.pack(b"PK\5\6", 0, 0, count & 0xFFFF, count & 0xFFFF, len(directory), len(head), 0)


def test_a_large_directory_takes_little_memory(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from fatpack.io.open import open_source\nfrom fatpack.packages import get_package\n"
        "view = open_source(sys.argv[1]).view()\n"
        "count = sum(1 for _ in get_package('zip').members(view))\n"
        "words = open('/proc/self/status').read().split()\n"
        "print(count, words[words.index('VmHWM:') + 1])\n"
    )
    taken = {}
    for count in (1000, 100_000):
        (tmp_path / "x.zip").write_bytes(many(count))
        done = subprocess.run([sys.executable, "-c", program, tmp_path / "x.zip"], capture_output=True, check=True)
        found, taken[count] = map(int, done.stdout.split())
        assert found == count
    # eight bytes for each offset, and for each name in a table that is at least half empty
    assert taken[100_000] - taken[1000] < 8 << 10


def test_a_listing_reads_the_end_only() -> None:
    data = build.zipped({f"pkg/{number}.py": b"x" * 100 for number in range(100)} | {"large": bytes(100)})
    large = build.zipped({"large": b"\1" * (4 << 20)}, zipfile.ZIP_STORED)
    large = large[: directory_at(large)] + data  # as one archive: offsets count from its directory
    asked = []

    class Watched:
        name, size = "watched", len(large)

        def read_at(self, offset: int, size: int) -> bytes:
            asked.append(size)
            return large[offset : offset + size]

    view = RangedSource(Watched(), "watched").view()
    assert get_package("zip").detect(view)
    before, *files = get_package("zip").members(view)
    assert isinstance(before, Finding)
    assert before.code == "FP1706"
    assert len(files) == 101
    assert sum(asked) <= 64 << 10


@pytest.mark.reference
@pytest.mark.parametrize("options", [["-0"], ["-9"], ["-Z", "bzip2"], ["-fz"]])
def test_what_zip_writes_is_what_unzip_lists(tmp_path: Path, options: list[str]) -> None:
    files = {"a/b.so": CONTENT * 200, "c": b"", "d e": b"1"}
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "link").symlink_to("c")
    run(tool("zip"), "-q", "-r", "-y", *options, "x.zip", "a", "c", "d e", "link", cwd=tmp_path)
    data = (tmp_path / "x.zip").read_bytes()
    assert build.contents("zip", data) == files
    assert build.codes("zip", data) == []
    said = run(tool("unzip"), "-l", "x.zip", cwd=tmp_path).stdout.decode().splitlines()[3:-2]
    listed = {line[30:].strip(): int(line.split()[0]) for line in said}
    found = {item.name: item.size for item in build.listed("zip", data) if isinstance(item, PackageMember)}
    assert {name: size for name, size in listed.items() if name not in ("a/", "link")} == found


@pytest.mark.reference
@pytest.mark.parametrize("method", ["Deflate", "BZip2", "LZMA", "Copy"])
def test_what_7z_writes_is_read(tmp_path: Path, method: str) -> None:
    (tmp_path / "x.so").write_bytes(CONTENT * 2000)
    run(tool("7z"), "a", "-tzip", f"-mm={method}", "x.zip", "x.so", cwd=tmp_path)
    assert build.contents("zip", (tmp_path / "x.zip").read_bytes()) == {"x.so": CONTENT * 2000}


def test_without_isal_the_bytes_are_the_same(tmp_path: Path) -> None:
    (tmp_path / "x.zip").write_bytes(build.zipped({"lib/x.so": CONTENT, "zeros": bytes(16_500)}))
    program = (
        "import sys; sys.modules['isal'] = None\n"
        "from fatpack.io.open import open_source\nfrom fatpack.packages import get_package\n"
        "for item in get_package('zip').members(open_source(sys.argv[1]).view()):\n"
        "    sys.stdout.buffer.write(item.open().view().tobytes())"
    )
    done = subprocess.run([sys.executable, "-c", program, tmp_path / "x.zip"], capture_output=True, check=True)
    assert done.stdout == CONTENT + bytes(16_500)


@pytest.mark.parametrize("size", [16_385, 16_400, 16_500, 16_640, 81_930, 82_000, 82_100])
def test_what_fills_a_piece_when_the_input_is_used_up_goes_on(size: int) -> None:
    assert build.contents("zip", build.zipped({"x": bytes(size)})) == {"x": bytes(size)}


def wide(name: str, size: int, at: int) -> bytes:
    """Return an archive of one file, whose size and offset are in Zip64's extra field."""
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w") as archive:
        archive.writestr(name, CONTENT)
        info = archive.getinfo(name)
        info.file_size, info.header_offset = size, at
    return into.getvalue()


@pytest.mark.parametrize("at", [(1 << 64) - 1, (1 << 64) - 20, 1 << 63])
def test_a_place_that_no_file_has_is_reported(at: int) -> None:
    data = bytes(100) + wide("x", len(CONTENT), at)
    assert build.codes("zip", data) == ["FP1704"]
    with pytest.raises(FormatError, match="not before the directory"):
        only(data).open()


@pytest.mark.parametrize("size", [1 << 63, (1 << 64) - 1])
def test_a_size_that_no_file_can_have_is_reported(size: int) -> None:
    data = wide("x", size, 0)
    assert build.codes("zip", data) == ["FP1704"]
    with pytest.raises(FormatError, match=f"{size} bytes"):
        only(data).open()
