"""Hostile and damaged tar archives, and the findings about them."""

from __future__ import annotations

import io
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
from tests.builders import packages as build
from tests.reference import run, tool

from fatpack import limits
from fatpack.errors import FormatError, UsageError
from fatpack.io.open import open_source
from fatpack.limits import Budget
from fatpack.model import Finding
from fatpack.packages import PackageMember, detect_package, get_package

CONTENT = b"device code " * 50
ONE = build.tarred({"lib/x.so": CONTENT})
BLOCK = 512

compressed = pytest.mark.parametrize("pack", [bytes, *build.COMPRESSORS.values()], ids=["plain", *build.COMPRESSORS])


def archive(*headers: tuple[tarfile.TarInfo, bytes], format: int = tarfile.GNU_FORMAT) -> bytes:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=format) as made:
        for header, data in headers:
            header.size = len(data)
            made.addfile(header, io.BytesIO(data))
    return into.getvalue()


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tuple[tarfile.TarInfo, bytes]:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, target
    return header, b""


def signed(header: bytes) -> bytes:
    """Return a header with the checksum that it should have."""
    blank = header[:148] + b" " * 8 + header[156:]
    return header[:148] + b"%06o\0 " % sum(blank) + header[156:]


def changed(data: bytes, at: int, value: bytes) -> bytes:
    return signed(data[:at] + value + data[at + len(value) : BLOCK]) + data[BLOCK:]


@compressed
@pytest.mark.parametrize("name", ["../x", "/etc/x", "a\\b", "C:/x", "a/../../b"])
def test_names_that_lead_elsewhere_are_reported(name: str, pack: build.Compressor) -> None:
    data = pack(build.tarred({name: b"1"}))
    assert build.contents("tar", data) == {name: b"1"}
    assert build.codes("tar", data) == ["FP1702"]


def test_a_name_may_start_with_where_it_is() -> None:
    assert build.contents("tar", build.tarred({"./usr/lib/x": b"1"})) == {"usr/lib/x": b"1"}
    assert build.codes("tar", build.tarred({"./usr/lib/x": b"1"})) == []


def test_names_that_are_repeated_are_reported_and_both_are_listed() -> None:
    data = archive((tarfile.TarInfo("x"), b"1"), (tarfile.TarInfo("./x"), b"2"))
    members = [item for item in build.listed("tar", data) if isinstance(item, PackageMember)]
    assert [item.open().view().tobytes() for item in members] == [b"1", b"2"]
    assert build.codes("tar", data) == ["FP1703"]


def test_folders_links_and_devices_are_no_files() -> None:
    kinds = [tarfile.DIRTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
    headers = []
    for kind in kinds:
        header = tarfile.TarInfo(f"kind {kind!r}")
        header.type = kind
        headers.append((header, b""))
    data = archive(*headers, link("l", "x"), link("h", "x", tarfile.LNKTYPE), link("abs", "/etc/alternatives/x"))
    assert build.listed("tar", data) == []


@pytest.mark.parametrize(
    ("kind", "target"),
    [(tarfile.SYMTYPE, "../../x"), (tarfile.LNKTYPE, "/etc/x"), (tarfile.LNKTYPE, "../x")],
)
def test_links_that_lead_out_are_reported(kind: bytes, target: str) -> None:
    assert build.codes("tar", archive(link("lib/l", target, kind))) == ["FP1707"]


def test_a_file_that_goes_through_a_link_which_leads_out_is_reported() -> None:
    data = archive(link("lib/l", "/etc"), (tarfile.TarInfo("lib/l/passwd"), b"x"), (tarfile.TarInfo("lib/m"), b"y"))
    assert build.codes("tar", data) == ["FP1708"]


@compressed
def test_what_a_layer_removes_is_reported(pack: build.Compressor) -> None:
    names = ["usr/lib/.wh.x.so", "opt/.wh..wh..opq", "usr/y.so"]
    *members, finding = build.listed("tar", pack(build.tarred(dict.fromkeys(names, b""))))
    assert [item.name for item in members] == ["usr/y.so"]  # type: ignore[union-attr]
    assert isinstance(finding, Finding)
    assert finding.code == "FP1711"
    assert "removes 'usr/lib/x.so', all of 'opt' from those below" in finding.message
    (*_, finding) = build.listed("tar", pack(build.tarred({f"a/.wh.{number}": b"" for number in range(9)})))
    assert isinstance(finding, Finding)
    assert "'a/4' and 4 more" in finding.message


def test_the_layers_of_a_saved_image_are_read() -> None:
    pack = build.COMPRESSORS["gzip"]
    layers = [pack(build.tarred({"usr/lib/x.so": CONTENT})), build.tarred({"usr/lib/.wh.x.so": b"", "y": CONTENT})]
    blobs = {f"blobs/sha256/{sha256(data).hexdigest()}": data for data in layers}
    saved = build.tarred({**blobs, "manifest.json": b"[]", "oci-layout": b"{}"})
    found = {}
    for item in build.listed("tar", saved):
        assert isinstance(item, PackageMember)
        if item.name in blobs:
            inner = item.open().view()
            assert detect_package(inner) == "tar"
            found |= build.contents("tar", inner)
    assert found == {"usr/lib/x.so": CONTENT, "y": CONTENT}


def test_a_kind_that_only_its_writer_knows_is_listed_and_reported() -> None:
    header = tarfile.TarInfo("x")
    header.type = b"V"
    data = archive((header, b""))
    assert build.codes("tar", data) == ["FP1709"]


@pytest.mark.parametrize("kind", [b"Z", b"V", b"M"])
def test_the_data_of_a_kind_that_only_its_writer_knows_belongs_to_the_archive(kind: bytes) -> None:
    header = tarfile.TarInfo("x")
    header.type, header.size = kind, 700
    whole = archive((header, b"x" * 700))
    assert build.codes("tar", whole) == ["FP1709"]
    assert build.codes("tar", whole[: 512 + 300])[-1] == "FP1701"


@compressed
def test_an_archive_cut_inside_a_file_keeps_those_before(pack: build.Compressor) -> None:
    data = build.tarred({"a": CONTENT, "b": CONTENT})
    found = build.listed("tar", pack(data[: 4 * BLOCK + 10]))
    first, second, finding = found
    assert isinstance(first, PackageMember)
    assert isinstance(second, PackageMember)
    assert isinstance(finding, Finding)
    assert finding.code == "FP1701"
    assert "2 files before it" in finding.message
    for item in get_package("tar").members(build.view_of(pack(data[: 4 * BLOCK + 10]))):
        if isinstance(item, PackageMember) and item.name == "a":
            assert item.open().view().tobytes() == CONTENT
        elif isinstance(item, PackageMember):
            with pytest.raises(FormatError, match="needs 600 bytes, "):
                item.open().view().tobytes()


@compressed
def test_a_header_that_is_damaged_is_reported_and_does_not_end_it_in_silence(pack: build.Compressor) -> None:
    data = build.tarred({"a": CONTENT, "b": CONTENT})
    damaged = data[: 3 * BLOCK + 5] + b"!" + data[3 * BLOCK + 6 :]
    _, finding = build.listed("tar", pack(damaged))
    assert isinstance(finding, Finding)
    assert (finding.code, finding.span.start) == ("FP1701", 3 * BLOCK)
    assert "does not add up" in finding.message


@compressed
def test_an_archive_without_its_end_mark_is_reported(pack: build.Compressor) -> None:
    assert build.codes("tar", pack(ONE.rstrip(b"\0") + bytes(-len(ONE.rstrip(b"\0")) % BLOCK))) == ["FP1712"]


@compressed
def test_an_archive_that_ends_with_the_data_of_its_last_file_is_whole(pack: build.Compressor) -> None:
    """umoci 0.4.7 writes layers without the last padding and without the end; umoci, skopeo and buildah take them."""
    end = BLOCK + len(CONTENT)
    for cut in (end, end + 1, 3 * BLOCK - 1):
        data = pack(ONE[:cut])
        found = build.listed("tar", data)
        assert [item.code if isinstance(item, Finding) else item.name for item in found] == ["lib/x.so", "FP1712"], cut
        (first, *_) = get_package("tar").members(build.view_of(data))
        assert isinstance(first, PackageMember)
    *_, damage = build.listed("tar", pack(ONE[: end - 1]))
    assert isinstance(damage, Finding)
    assert damage.code == "FP1701"


@compressed
def test_bytes_after_the_end_are_reported(pack: build.Compressor) -> None:
    for more, words in ((b"more", "bytes after"), (ONE, "another archive")):
        *_, finding = build.listed("tar", pack(ONE + more))
        assert isinstance(finding, Finding)
        assert finding.code == "FP1706"
        assert words in finding.message


def test_bytes_after_the_compressed_data_are_reported() -> None:
    for name, pack in build.COMPRESSORS.items():
        assert build.codes("tar", pack(ONE) + b"garbage") == ["FP1706"], name
        assert build.codes("tar", pack(ONE) + bytes(1024)) == [], name


@compressed
def test_damage_to_what_was_not_read_is_reported_too(pack: build.Compressor) -> None:
    if pack in (bytes, build.COMPRESSORS["lz4"]):
        return
    files = {f"f{number}": bytes(100) + number.to_bytes(2, "big") * 300 for number in range(50)}
    data = pack(build.tarred(files))
    found = build.listed("tar", data[:-20])
    assert isinstance(found[-1], Finding)
    assert found[-1].code == "FP1701"


@pytest.mark.parametrize("size", [b"\xff" * 12, b"\x80" + b"\xff" * 11, b"77777777777\0", b"zz\0"])
def test_sizes_that_no_file_has_end_the_archive(size: bytes) -> None:
    data = changed(ONE, 124, size)
    codes = build.codes("tar", data)
    assert codes
    assert codes[-1] in ("FP1701", "FP1706")


@compressed
@pytest.mark.parametrize("size", [-512, -1, 1 << 63, 1 << 64])
@pytest.mark.parametrize("before", [0, 1])
def test_sizes_that_no_file_can_have_are_damage(before: int, size: int, pack: build.Compressor) -> None:
    """tarfile ends an archive there, or skips the file, in versions that check sizes."""
    header = tarfile.TarInfo("x.so")
    header.pax_headers = {"size": str(size)}
    data = header.tobuf(tarfile.PAX_FORMAT) + CONTENT + bytes(-len(CONTENT) % BLOCK)
    *files, last = build.listed("tar", pack(ONE[: 3 * BLOCK] * before + data + ONE))
    assert len(files) == before
    assert isinstance(last, Finding)
    assert (last.code, last.field) == ("FP1701", "header")
    assert f"a file of {size} bytes" in last.message or "a size or place that no file has" in last.message


def test_a_header_that_adds_up_and_is_none_to_tarfile_is_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Versions of tarfile differ in their refusals."""

    def refused(*_: object) -> None:
        raise tarfile.InvalidHeaderError("invalid offset")

    monkeypatch.setattr(tarfile.TarInfo, "_apply_pax_info", refused)
    header = tarfile.TarInfo("x.so")
    header.pax_headers = {"comment": "x"}
    (last,) = build.listed("tar", header.tobuf(tarfile.PAX_FORMAT) + ONE)
    assert isinstance(last, Finding)
    assert (last.code, "a size or place that no file has: invalid offset" in last.message) == ("FP1701", True)


def test_words_about_damage_do_not_repeat_what_is_stored() -> None:
    header = tarfile.TarInfo("x.so")
    header.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": "5"}
    header.size = 2 * BLOCK
    data = header.tobuf(tarfile.PAX_FORMAT) + b"2\n" + b"x" * (2 * BLOCK - 2)
    (last,) = build.listed("tar", data)
    assert isinstance(last, Finding)
    assert "not a number" in last.message
    assert "xxx" not in last.message


def test_extended_headers_are_bounded() -> None:
    header = tarfile.TarInfo("x")
    header.type = b"L"
    huge = signed(header.tobuf()[:124] + b"%011o\0" % (64 << 20) + header.tobuf()[136:])
    view = build.view_of(build.COMPRESSORS["zstd"](huge + b"n" * (64 << 20)))
    (finding,) = get_package("tar").members(view)
    assert isinstance(finding, Finding)
    assert finding.code == "FP1701"
    assert f"an extended header of more than {1 << 20} bytes" in finding.message
    chain = signed(tarfile.TarInfo("x").tobuf()[:156] + b"L" + tarfile.TarInfo("x").tobuf()[157:])
    (finding,) = build.listed("tar", chain * 5000 + ONE)
    assert isinstance(finding, Finding)
    assert "extended headers follow each other" in finding.message


def test_maps_of_sparse_files_are_bounded() -> None:
    header = tarfile.TarInfo("x").tobuf()
    part = b"%011o\0" % BLOCK * 2
    first = signed(header[:156] + b"S" + header[157:386] + part * 4 + b"\1" + b"%011o\0" % BLOCK + header[495:])
    more = part * 21 + b"\1" + bytes(7)
    (finding,) = build.listed("tar", first + more * 4000)
    assert isinstance(finding, Finding)
    assert "an extended header of" in finding.message


def test_a_long_name_costs_no_more_than_its_length() -> None:
    name = "./" * 100_000 + "x"
    data = archive(link("a/b/out", "/etc"), (tarfile.TarInfo(name), b"1"), (tarfile.TarInfo("a/b/out/" + name), b"2"))
    first, second = build.listed("tar", data)
    assert isinstance(first, PackageMember)
    assert isinstance(second, PackageMember)
    assert first.name == "x"
    assert [finding.code for finding in second.findings] == ["FP1708"]


def test_global_headers_are_bounded() -> None:
    into = io.BytesIO()
    with tarfile.open(fileobj=into, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"a": "x" * 70_000}) as made:
        made.addfile(tarfile.TarInfo("x"))
        made.addfile(tarfile.TarInfo("y"))
    assert "FP1005" in build.codes("tar", into.getvalue())


def test_what_was_passed_in_a_stream_is_not_opened() -> None:
    data = build.COMPRESSORS["zstd"](build.tarred({"a": CONTENT, "b": CONTENT}))
    first, second = build.listed("tar", data)
    assert isinstance(first, PackageMember)
    assert isinstance(second, PackageMember)
    assert not first.is_lasting
    for item in (first, second):
        with pytest.raises(UsageError, match="read forwards only"):
            item.open()


def test_opened_twice_it_is_the_same_source() -> None:
    data = build.COMPRESSORS["zstd"](ONE)
    for item in get_package("tar").members(build.view_of(data)):
        assert isinstance(item, PackageMember)
        item.open().close()
        source = item.open()
        assert item.open() is source
        assert source.read(0, 6) == b"device"
        source.close()
        with pytest.raises(UsageError, match="read forwards only"):
            item.open()


def sparse(folder: Path, *options: str) -> bytes:
    with (folder / "x.so").open("wb") as file:
        file.write(b"start")
        file.seek(1 << 20)
        file.write(CONTENT)
        file.truncate(3 << 20)
    run(tool("tar"), "-cSf", "x.tar", *options, "x.so", cwd=folder)
    return (folder / "x.tar").read_bytes()


SPARSE = [["--format=gnu"], *(["--format=pax", f"--sparse-version={version}"] for version in ("0.0", "0.1", "1.0"))]


@pytest.mark.reference
@compressed
@pytest.mark.parametrize("options", SPARSE, ids=" ".join)
def test_sparse_files_have_their_zeros(tmp_path: Path, options: list[str], pack: build.Compressor) -> None:
    data = sparse(tmp_path, *options)
    if len(data) > 1 << 20:
        pytest.skip("the file system has no holes")
    for item in get_package("tar").members(build.view_of(pack(data))):
        assert isinstance(item, PackageMember)
        assert (item.name, item.size) == ("x.so", 3 << 20)
        view = item.open().view()
        assert view.tobytes() == (tmp_path / "x.so").read_bytes()
        assert view.find(b"device") == 1 << 20
        assert view.skip_hole(100_000) > 100_000


@pytest.mark.reference
def test_a_large_part_of_a_sparse_file_is_read_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pieces of a file share one buffer."""
    monkeypatch.setattr(limits, "CHUNK", 16)
    (tmp_path / "s.tar").write_bytes(sparse(tmp_path, "--format=gnu"))
    with open_source(tmp_path / "s.tar") as source:
        (member,) = get_package("tar").members(source.view())
        assert isinstance(member, PackageMember)
        view = member.open().view()
        assert view.read((1 << 20) - 100, len(CONTENT) + 100) == bytes(100) + CONTENT


@pytest.mark.reference
def test_holes_are_drawn_from_the_budget(tmp_path: Path) -> None:
    view = build.view_of(sparse(tmp_path, "--format=gnu"))
    view.source.budget = Budget(inflated=1 << 20)
    (member,) = get_package("tar").members(view)
    assert isinstance(member, PackageMember)
    with pytest.raises(FormatError, match="a sparse file of 3145728 bytes"):
        member.open()


@pytest.mark.reference
@pytest.mark.parametrize("format", ["gnu", "oldgnu", "pax", "posix", "ustar", "v7"])
@pytest.mark.parametrize("option", ["", "--gzip", "--bzip2", "--xz", "--zstd", "--lzma"])
def test_what_tar_writes_is_what_tar_lists(tmp_path: Path, format: str, option: str) -> None:
    files = {"a/b.so": CONTENT * 200, "a/c": b"", "d e": b"1"}
    if format != "v7":
        files["f" * 80 + "/" + "g" * 60] = b"long"
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    (tmp_path / "link").symlink_to("a/c")
    names = [*{name.partition("/")[0] for name in files}, "link"]
    run(tool("tar"), "-cf", "x.tar", f"--format={format}", *filter(None, [option]), *names, cwd=tmp_path)
    data = (tmp_path / "x.tar").read_bytes()
    assert get_package("tar").detect(build.view_of(data))
    assert build.contents("tar", data) == files
    assert build.codes("tar", data) == []
    listed = {}
    for line in run(tool("tar"), "tvf", "x.tar", cwd=tmp_path).stdout.decode().splitlines():
        kind, _, size, _, _, name = line.split(maxsplit=5)
        if kind.startswith("-"):
            listed[name] = int(size)
    assert {name: len(content) for name, content in files.items()} == listed


@pytest.mark.reference
@pytest.mark.parametrize("format", ["gnutar", "pax", "ustar"])
def test_what_bsdtar_writes_is_read(tmp_path: Path, format: str) -> None:
    (tmp_path / "x.so").write_bytes(CONTENT)
    (tmp_path / "ä").write_bytes(b"1")
    run(tool("bsdtar"), "-cf", "x.tar", f"--format={format}", "x.so", "ä", cwd=tmp_path)
    assert build.contents("tar", (tmp_path / "x.tar").read_bytes()) == {"x.so": CONTENT, "ä": b"1"}
