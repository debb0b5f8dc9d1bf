"""Single compressed files: their names, and the bytes around them."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
import zstandard
from tests.builders import packages as build
from tests.reference import run, tool

from fatpack.errors import FormatError, LimitExceeded
from fatpack.io.source import BytesSource
from fatpack.packages import PackageMember, detect_package, get_package
from fatpack.packages.members import LazyInflatedMember

CONTENT = b"device code " * 5000
each = pytest.mark.parametrize("method", build.COMPRESSORS)
SKIPPED = b"\x51\x2a\x4d\x18\5\0\0\0hello"


def member(data: bytes, name: str = "k.fatbin.zst") -> PackageMember:
    (found,) = get_package("compressed").members(BytesSource(data, name).view())
    assert isinstance(found, PackageMember)
    return found


def source(data: bytes) -> LazyInflatedMember:
    opened = member(data).open()
    assert isinstance(opened, LazyInflatedMember)
    return opened


@each
def test_the_file_is_what_was_compressed(method: str) -> None:
    for content in (CONTENT, b"", b"x"):
        packed = build.COMPRESSORS[method](content)
        assert detect_package(build.view_of(packed)) == "compressed"
        opened = source(packed)
        assert opened.view().tobytes() == content
        assert opened.findings == ()
        with source(packed) as again:
            assert again.beginning(100) == content[:100]


@pytest.mark.parametrize(
    ("outer", "method", "name"),
    [
        ("lib/k.fatbin.zst", "zstd", "k.fatbin"),
        ("k.cubin.GZ", "gzip", "k.cubin"),
        ("x.whl!pkg/a.co.xz", "xz", "a.co"),
        ("no suffix", "bzip2", "no suffix"),
        (".zst", "zstd", ".zst"),
        ("x.tar.lz4", "lz4", "x.tar"),
        ("", "gzip", "content"),
    ],
)
def test_the_file_is_named_without_the_suffix(outer: str, method: str, name: str) -> None:
    assert member(build.COMPRESSORS[method](CONTENT), outer).name == name


def test_the_name_that_gzip_stores_is_not_taken(tmp_path: Path) -> None:
    with gzip.GzipFile("../../evil", "wb", fileobj=(tmp_path / "x").open("wb")) as file:
        file.write(CONTENT)
    assert member((tmp_path / "x").read_bytes(), "good.gz").name == "good"


@each
def test_streams_that_follow_each_other_are_one_file(method: str) -> None:
    pack = build.COMPRESSORS[method]
    packed = pack(CONTENT) + pack(b"") + pack(b"end")
    if method in ("zstd", "lz4"):
        packed = SKIPPED + pack(CONTENT) + SKIPPED + pack(b"end") + SKIPPED
    if method == "xz":
        packed = pack(CONTENT) + bytes(8) + pack(b"end") + bytes(4)
    opened = source(packed)
    assert opened.view().tobytes() == CONTENT + b"end"
    assert opened.findings == ()


@each
def test_many_short_streams_are_read_in_linear_time(method: str) -> None:
    pack = build.COMPRESSORS[method]
    assert source(pack(b"ab") * 3000).view().tobytes() == b"ab" * 3000


@each
def test_trailing_bytes_are_reported_when_all_was_read(method: str) -> None:
    packed = build.COMPRESSORS[method](CONTENT)
    opened = source(packed + b"garbage")
    assert opened.beginning(10) == CONTENT[:10]
    assert opened.findings == ()
    assert opened.view().tobytes() == CONTENT
    (finding,) = opened.findings
    assert (finding.code, finding.span.start, finding.span.end) == ("FP1706", len(packed), len(packed) + 7)
    padded = source(packed + bytes(100))
    assert padded.view().tobytes() == CONTENT
    assert padded.findings == ()


@each
def test_a_stream_that_is_cut_says_how_much_there_was(method: str) -> None:
    packed = build.COMPRESSORS[method](CONTENT)
    for size in (len(packed) - 1, len(packed) // 2, len(packed) - 9):
        with pytest.raises(FormatError, match=r"ends early, after \d+ inflated bytes.*cut short") as caught:
            source(packed[:size]).view()
        assert caught.value.offset == size


@each
def test_damage_is_an_error_with_a_place(method: str) -> None:
    packed = bytearray(build.COMPRESSORS[method](CONTENT))
    packed[len(packed) // 2] ^= 0x55
    if method == "lz4":
        return  # without a checksum of the content damage cannot be detected
    with pytest.raises(FormatError) as caught:
        source(bytes(packed)).view()
    assert caught.value.offset is not None
    assert caught.value.chain == ("k.fatbin.zst",)
    assert caught.value.__cause__ is not None


def test_streams_that_need_a_large_window_are_refused() -> None:
    settings = zstandard.ZstdCompressionParameters(window_log=28, enable_ldm=True, write_content_size=False)
    wide = zstandard.ZstdCompressor(compression_params=settings)
    stream = wide.compressobj()
    with pytest.raises(LimitExceeded, match=r"raise fatpack\.limits\.WINDOW"):
        source(stream.compress(b"1" * 1000) + stream.flush()).view()
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 28}]
    with pytest.raises(LimitExceeded, match="at most 134217728 bytes"):
        source(lzma.compress(b"1", filters=filters)).view()


@pytest.mark.reference
@pytest.mark.parametrize(
    ("program", "options"),
    [
        ("gzip", ["-9"]),
        ("xz", ["-6e"]),
        ("xz", ["-T2", "--block-size=20000"]),
        ("xz", ["--check=none"]),
        ("zstd", ["-19"]),
        ("zstd", ["--fast", "--no-check"]),
        ("bzip2", ["-1"]),
        ("lz4", ["-9"]),
        ("lz4", ["-BD", "--content-size"]),
    ],
)
def test_what_the_programs_write_is_read(tmp_path: Path, program: str, options: list[str]) -> None:
    content = CONTENT + bytes(range(256)) * 1000
    (tmp_path / "x").write_bytes(content)
    packed = run(tool(program), "-c", *options, "x", cwd=tmp_path).stdout
    assert source(packed).view().tobytes() == content
