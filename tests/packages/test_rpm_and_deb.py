"""Packages of rpmbuild and dpkg-deb: the same listing as from rpm and dpkg-deb."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.builders import packages as build
from tests.reference import run, tool

from fatpack.errors import FormatError
from fatpack.io.open import open_source
from fatpack.model import Finding
from fatpack.packages import PackageMember, detect_package, get_package
from fatpack.packages.rpm.header import HEADER, LEAD
from fatpack.testing.helpers import TracedMemory

FILES = {"usr/lib/x.so": b"device code " * 5000, "usr/lib/empty": b"", "usr/share/k.co": b"\1" * 513}


def test_names_and_sizes_come_from_the_header_where_the_payload_has_none() -> None:
    for pack in (bytes, build.COMPRESSORS["zstd"]):
        data = build.rpm(FILES, pack, stripped=True)
        assert build.contents("rpm", data) == {f"/{name}": content for name, content in FILES.items()}


def test_a_payload_that_is_cut_keeps_the_files_before() -> None:
    data = build.rpm(FILES)
    *files, finding = build.listed("rpm", data[:-400])
    assert [item.name for item in files if isinstance(item, PackageMember)] == [*FILES]
    assert isinstance(finding, Finding)
    assert finding.code == "FP1701"
    assert "3 files before it" in finding.message
    *_, finding = build.listed("rpm", build.rpm({"x": bytes(9)})[:-100])
    assert isinstance(finding, Finding)
    assert "1 file before it" in finding.message


@pytest.mark.parametrize("field", ["magic", "count", "size"])
def test_a_header_that_is_damaged_is_reported(field: str) -> None:
    data = build.rpm(FILES)
    at = LEAD.size + HEADER.field_offset(field)
    (finding,) = build.listed("rpm", data[:at] + b"\x7f\xff" + data[at + 2 :])
    assert isinstance(finding, Finding)
    assert finding.code == "FP1701"


def numbers(code: str, *values: int) -> bytes:
    return struct.pack(f">{len(values)}{code}", *values)


def test_impossible_files_end_the_package() -> None:
    data = build.rpm({"a": b"1", "b": b"2"}, stripped=True)
    sizes, folders, modes = numbers("Q", 1, 1), numbers("I", 0, 0) + b"a\0b\0", numbers("I", 1030, 3)
    for old, new, words in (
        (sizes, numbers("Q", 1, 1 << 63), f"no file can have so many bytes (expected at most {(1 << 63) - 1}"),
        (sizes, numbers("Q", (1 << 64) - 1, 1), f"found {(1 << 64) - 1}"),
        (folders, numbers("I", 0, 7) + b"a\0b\0", "there is no such folder (expected less than 1, found 7)"),
        (modes, numbers("I", 1031, 3), "another number of files (expected 2, as there are names, found 0)"),
    ):
        assert data.count(old) == 1
        (finding,) = build.listed("rpm", data.replace(old, new, 1))
        assert isinstance(finding, Finding)
        assert (finding.code, words in finding.message) == ("FP1701", True), finding.message


def test_one_long_folder_of_many_files_takes_little_memory() -> None:
    files = {f"{'f' * 50_000}/{number}": b"" for number in range(1000)}
    data = build.rpm(files, stripped=True)
    with TracedMemory() as memory:
        (finding,) = build.listed("rpm", data)
    assert memory.peak < 10 << 20
    assert isinstance(finding, Finding)
    assert "no name is so long (expected at most 4096 characters, found 5000" in finding.message
    names = {f"{'f' * 4000}/{number}": b"x" for number in range(3)}
    assert len(build.contents("rpm", build.rpm(names, stripped=True))) == 3


SPEC = """
Name: demo
Version: 1
Release: 1
Summary: x
License: x
BuildArch: noarch
%description
x
%install
mkdir -p %{buildroot}/usr/lib
cp FOLDER/* %{buildroot}/usr/lib
ln -s x.so %{buildroot}/usr/lib/x.so.1
ln %{buildroot}/usr/lib/k.co %{buildroot}/usr/lib/other.co
%files
/usr/lib/*
"""


@pytest.mark.reference
@pytest.mark.parametrize("payload", ["w6.gzdio", "w6.bzdio", "w2.xzdio", "w2.lzdio", "w3.zstdio", "w.ufdio"])
def test_what_rpmbuild_writes_is_what_rpm_lists(tmp_path: Path, payload: str) -> None:
    rpmbuild, rpm = tool("rpmbuild"), tool("rpm")
    (tmp_path / "in").mkdir()
    for name, content in FILES.items():
        (tmp_path / "in" / name.rpartition("/")[2]).write_bytes(content)
    (tmp_path / "t.spec").write_text(SPEC.replace("FOLDER", str(tmp_path / "in")))
    defines = [f"_topdir {tmp_path}", f"_binary_payload {payload}", "_build_id_links none"]
    run(rpmbuild, "-bb", *(word for define in defines for word in ("--define", define)), "t.spec", cwd=tmp_path)
    (path,) = (tmp_path / "RPMS").rglob("*.rpm")
    with open_source(path) as source:
        assert detect_package(source.view()) == "rpm"
        contents = build.contents("rpm", source.view())
        assert build.codes("rpm", source.view()) == []
    assert {name.rpartition("/")[2]: data for name, data in contents.items()} == {
        "x.so": FILES["usr/lib/x.so"],
        "empty": b"",
        "other.co": FILES["usr/share/k.co"],  # the last of two names of one file
    }
    listed = run(rpm, "-qlp", str(path)).stdout.decode().split()
    assert {f"/{name}" for name in contents} == {*listed} - {"/usr/lib/x.so.1", "/usr/lib/k.co"}


@pytest.mark.reference
@pytest.mark.parametrize("method", ["gzip", "xz", "zstd", "none"])
def test_what_dpkg_deb_writes_is_what_it_lists(tmp_path: Path, method: str) -> None:
    dpkg_deb = tool("dpkg-deb")
    for name, content in FILES.items():
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_bytes(content)
    (tmp_path / "in/usr/lib/x.so.1").symlink_to("x.so")
    (tmp_path / "in/DEBIAN").mkdir()
    control = "Package: demo\nVersion: 1\nArchitecture: all\nMaintainer: x\nDescription: x\n"
    (tmp_path / "in/DEBIAN/control").write_text(control)
    made = run(dpkg_deb, f"-Z{method}", "--build", "in", "x.deb", cwd=tmp_path, check=False)
    if made.returncode:
        pytest.skip(f"this dpkg-deb does not write {method}")
    with open_source(tmp_path / "x.deb") as source:
        assert detect_package(source.view()) == "deb"
        members = {item.name.partition(".")[0]: item for item in build.listed("deb", source.view())}  # type: ignore[union-attr]
        assert [*members] == ["debian-binary", "control", "data"]
        inner = members["data"].open().view()  # type: ignore[union-attr]
        assert detect_package(inner) == "tar"
        contents = build.contents("tar", inner)
        assert build.codes("tar", inner) == []
        assert build.contents("tar", members["control"].open().view())["control"] == control.encode()  # type: ignore[union-attr]
    assert contents == FILES
    lines = run(dpkg_deb, "-c", "x.deb", cwd=tmp_path).stdout.decode().splitlines()
    listed = {line.split()[5].removeprefix("./") for line in lines if line.startswith("-")}
    assert listed == {*contents}


def test_a_debian_package_is_one_archive_among_others() -> None:
    assert not get_package("deb").detect(build.view_of(b"!<arch>\nx.o/            "))
    with pytest.raises(FormatError):
        data = build.debian({"data.tar": b"12345678"})
        (_, member) = build.listed("deb", data)
        assert isinstance(member, PackageMember)
        member.open().view().read(0, 9)
