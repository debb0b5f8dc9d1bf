"""Thin archives: only files in the archive's folder are opened."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.builders.archive import GNU, THIN, header, member

from fatpack.binary import CodeSection, archive
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource
from fatpack.model import Finding


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "lib"
    (inside / "obj").mkdir(parents=True)
    (inside / "obj" / "a.o").write_bytes(b"inside")
    (tmp_path / "secret.o").write_bytes(b"secret")
    return inside


def thin(*names: bytes, size: int = 6) -> bytes:
    table, places = b"", []
    for name in names:
        places.append(len(table))
        table += name + b"/\n"
    return THIN + member(b"//", table) + b"".join(header(b"/%d" % place, size) for place in places)


def locate(path: Path, content: bytes) -> list[CodeSection | Finding]:
    path.write_bytes(content)
    with open_source(path) as source:
        return [
            item if isinstance(item, Finding) else item.replace(data=BytesSource(item.data.tobytes()).view())
            for item in archive.locate(source.view())
        ]


def the_finding(path: Path, content: bytes) -> Finding:
    (item,) = locate(path, content)
    assert isinstance(item, Finding)
    return item


def test_files_are_read_beside_the_archive(folder: Path) -> None:
    (site,) = locate(folder / "x.a", thin(b"obj/a.o"))
    assert isinstance(site, CodeSection)
    assert (site.member, site.index, site.data.tobytes(), site.findings) == ("obj/a.o", 0, b"inside", ())


def test_the_archive_may_be_named_relative_to_the_working_directory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "x.a").write_bytes(thin(b"obj/a.o"))
    monkeypatch.chdir(folder)
    with open_source("x.a") as source:
        (site,) = archive.locate(source.view())
        assert isinstance(site, CodeSection)
        assert site.data.chain == ("x.a(obj/a.o)",)


def test_parent_directories_are_fine_where_they_lead_back_inside(folder: Path) -> None:
    (site,) = locate(folder / "x.a", thin(b"obj/../obj/a.o"))
    assert isinstance(site, CodeSection)


@pytest.mark.parametrize("name", [b"../secret.o", b"obj/../../secret.o"])
def test_a_path_out_of_the_directory_is_not_followed(folder: Path, name: bytes) -> None:
    item = the_finding(folder / "x.a", thin(name))
    assert item.code == "FP2104"
    assert name.decode() in item.message


def test_an_absolute_path_is_not_followed(folder: Path) -> None:
    assert the_finding(folder / "x.a", thin(os.fsencode(folder / "obj" / "a.o"))).code == "FP2104"


def test_a_symbolic_link_out_of_the_directory_is_not_followed(folder: Path) -> None:
    (folder / "link.o").symlink_to(folder.parent / "secret.o")
    (folder / "up").symlink_to(folder.parent)
    items = locate(folder / "x.a", thin(b"link.o", b"up/secret.o"))
    assert [item.code for item in items if isinstance(item, Finding)] == ["FP2104", "FP2104"]


def test_a_missing_file_is_named_and_the_others_are_read(folder: Path) -> None:
    missing, site = locate(folder / "x.a", thin(b"gone.o", b"obj/a.o"))
    assert isinstance(missing, Finding)
    assert isinstance(site, CodeSection)
    assert missing.code == "FP2103"
    assert "gone.o" in missing.message
    assert site.index == 1


def test_pipes_and_directories_are_not_opened(folder: Path) -> None:
    os.mkfifo(folder / "pipe.o")
    items = locate(folder / "x.a", thin(b"pipe.o", b"obj"))
    assert [item.code for item in items if isinstance(item, Finding)] == ["FP2103", "FP2103"]


def test_a_file_named_twice_is_listed_once(folder: Path) -> None:
    site, again = locate(folder / "x.a", thin(b"obj/a.o", b"obj/../obj/a.o"))
    assert isinstance(site, CodeSection)
    assert isinstance(again, Finding)
    assert again.code == "FP2106"


def test_a_changed_file_is_read_and_reported(folder: Path) -> None:
    (site,) = locate(folder / "x.a", thin(b"obj/a.o", size=99))
    assert isinstance(site, CodeSection)
    assert [item.code for item in site.findings] == ["FP2105"]


def test_without_a_path_there_is_no_directory_to_look_in() -> None:
    (item,) = archive.locate(BytesSource(thin(b"a.o"), "x.a").view())
    assert isinstance(item, Finding)
    assert (item.code, "not a file of its own" in item.message) == ("FP2103", True)


def test_a_name_given_to_the_source_is_no_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "x.a").write_bytes(thin(b"secret.o"))
    monkeypatch.chdir(folder.parent)
    with open_source(folder / "x.a", name="y.a") as source:
        (item,) = archive.locate(source.view())
        assert isinstance(item, Finding)
        assert item.code == "FP2103"


def test_a_thin_archive_inside_a_thin_archive_is_not_followed(folder: Path) -> None:
    (folder / "x.a").write_bytes(thin(b"x.a"))
    with open_source(folder / "x.a") as source:
        (site,) = archive.locate(source.view())
        assert isinstance(site, CodeSection)
        (item,) = archive.locate(site.data)
        assert isinstance(item, Finding)
        assert item.code == "FP2103"


def test_a_member_of_a_regular_archive_can_be_named(folder: Path) -> None:
    (folder / "in.a").write_bytes(GNU + member(b"b.o/", b"12") + member(b"c.o/", b"3"))
    data = THIN + member(b"//", b"in.a/\n") + header(b"/0:70", 2) + header(b"/0:8", 2) + header(b"/0:9", 2)
    first, second, third = locate(folder / "x.a", data)
    assert isinstance(first, CodeSection)
    assert isinstance(second, CodeSection)
    assert isinstance(third, Finding)
    assert (first.member, first.data.tobytes()) == ("in.a(c.o)", b"3")
    assert (second.member, second.data.tobytes()) == ("in.a(b.o)", b"12")
    assert third.code == "FP2103"


def test_files_are_closed_again_while_the_archive_is_read(folder: Path) -> None:
    for number in range(40):
        (folder / f"{number}.o").write_bytes(b"123456")
    (folder / "x.a").write_bytes(thin(*(b"%d.o" % number for number in range(40))))
    with open_source(folder / "x.a") as source:
        before = len(os.listdir("/proc/self/fd"))
        sites = [site for site in archive.locate(source.view()) if isinstance(site, CodeSection)]
        assert len(os.listdir("/proc/self/fd")) <= before + 1
        assert {site.data.tobytes() for site in sites} == {b"123456"}
        for site in sites:
            site.data.source.close()
