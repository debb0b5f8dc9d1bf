"""``inspect`` of programs whose code was moved to kpack archives, and of manifests of such archives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgpack
import pytest
from tests.builders import archive as build_archive
from tests.builders import kpack_host
from tests.builders.kpack_site import Site, sound

from fatpack.commands.inspect.record import make_file_record
from fatpack.io.open import open_source
from fatpack.main import main
from fatpack.text.schemas import schema_text


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return sound(tmp_path)


def kpack(path: Path | bytes) -> dict[str, Any]:
    with open_source(path) as source:
        record = make_file_record(source.view())
    found: dict[str, Any] = record["kpack"]
    jsonschema.validate({"schema": "fatpack.inspect/1", "files": [record]}, json.loads(schema_text("inspect")))
    return found


def printed(capsys: pytest.CaptureFixture[str], *arguments: Path | str) -> tuple[int, list[str]]:
    code = main(["inspect", *map(str, arguments)])
    return code, capsys.readouterr().out.splitlines()


def test_what_a_program_looks_for_and_finds(site: Site) -> None:
    record = kpack(site.root / "core/lib/libx.so")
    assert (record["names"], record["search_paths"]) == (["core/lib/libx.so"], ["../.kpack/x_@GFXARCH@.kpack"])
    assert [marker["key"] for marker in record["markers"]] == ["core/lib/libx.so#0", "core/lib/libx.so#1"]
    assert record["count"] == 2
    beside = record["beside"]
    assert [(row["path"], row["archs"], row["objects"]) for row in beside["archives"]] == [
        ("../.kpack/x_gfx1100.kpack", ["gfx1100"], 2),
        ("../.kpack/x_gfx90a.kpack", ["gfx90a"], 2),
    ]
    assert [(row["device"], row["resolved"], row["archives"]) for row in beside["devices"]] == [
        ("gfx90a", 2, ["../.kpack/x_gfx90a.kpack"]),
        ("gfx1100", 2, ["../.kpack/x_gfx1100.kpack"]),
    ]
    assert beside["problems"] == []


def test_what_is_missing_is_reported_and_is_no_finding(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.archive("core/.kpack/x_gfx90a.kpack", [("core/lib/libx.so#1", "gfx90a")])
    site.archive("core/.kpack/x_gfx1100:xnack-.kpack", [("core/lib/libx.so#1", "gfx1100:xnack-")])
    code, lines = printed(capsys, site.root / "core/lib/libx.so")
    assert code == 0
    assert lines[1:7] == [
        "  device code in kpack archives: 2 code objects of core/lib/libx.so",
        "    looks for ../.kpack/x_@GFXARCH@.kpack",
        "    gfx90a          1 of 2  from ../.kpack/x_gfx90a.kpack; missing: core/lib/libx.so#0",
        "    gfx1100:xnack-  2 of 2  from ../.kpack/x_gfx1100.kpack, ../.kpack/x_gfx1100:xnack-.kpack; "
        "1 only by loaders since rocm-systems#9874",
        "    gfx1100:xnack+  2 of 2  from ../.kpack/x_gfx1100.kpack",
        "  note FP3004 at 0x1000 (.hipFatBinSegment): .hipFatBinSegment: 2 of its records say that the device code was "
        "moved to a separate archive (kpack)",
    ]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("../.kpack/z_@GFXARCH@.kpack", "no such archive is in "),
        ("../none/z_@GFXARCH@.kpack", "/none does not exist"),
        ("../.kpack/@GFXARCH@/z.kpack", "/.kpack does not exist"),
        ("libx.so/z_@GFXARCH@.kpack", "libx.so does not exist"),
        ("/opt/rocm/x_@GFXARCH@.kpack", "it is not relative to the program, and was not followed"),
        ("../\0_@GFXARCH@.kpack", "it is not relative to the program, and was not followed"),
        ("../.kpack/bad_@GFXARCH@.kpack", "bad_gfx90a.kpack cannot be read: rocm-kpack: "),
        ("../lib/libx.so", "no such archive is in "),
    ],
)
def test_why_nothing_is_beside_a_program(site: Site, path: str, words: str) -> None:
    site.write("core/.kpack/bad_gfx90a.kpack", b"KPAK\1\0\0\0" + bytes(60))
    site.library("core/lib/libz.so", [path])
    beside = kpack(site.root / "core/lib/libz.so")["beside"]
    assert (beside["archives"], beside["devices"]) == ([], [])
    (row,) = beside["problems"]
    assert row["path"] == path
    if "@GFXARCH@/z" not in path:
        assert words in row["problem"]


def test_no_more_archives_are_read_than_the_limit(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.commands.check_kpack.lookup._MOST_ARCHIVES", 1)
    beside = kpack(site.root / "core/lib/libx.so")["beside"]
    assert len(beside["archives"]) == 1
    assert [row["problem"] for row in beside["problems"]] == ["only 1 archives are read"]


def test_no_more_paths_are_followed_than_the_limit(site: Site) -> None:
    paths = [f"../.kpack/x{number}_@GFXARCH@.kpack" for number in range(70)]
    site.library("core/lib/libz.so", paths)
    beside = kpack(site.root / "core/lib/libz.so")["beside"]
    assert len(beside["problems"]) == 65
    assert beside["problems"][-1] == {
        "path": paths[64],
        "problem": "this path and those after it: only 64 are followed",
    }


def test_beside_what_is_no_file_nothing_is_looked_for(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    path = site.root / "core/lib/libx.so"
    assert kpack(path.read_bytes())["beside"] is None
    code, lines = printed(capsys, f"{path}#offset=0&size={path.stat().st_size}")
    assert code == 0
    # all of the file is the file
    assert "    gfx90a   2 of 2  from ../.kpack/x_gfx90a.kpack" in lines
    longer = site.write("longer", path.read_bytes() + bytes(64))
    _, lines = printed(capsys, f"{longer}#offset=0&size={path.stat().st_size}")
    assert "    what is beside it was not looked at: this is no file on a disk" in lines


def test_a_member_of_an_archive_is_not_asked(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    data = (site.root / "core/lib/libx.so").read_bytes()
    site.write("x.a", build_archive.GNU + build_archive.member(b"libx.so/", data))
    code, lines = printed(capsys, site.root / "x.a")
    assert code == 0
    assert not any("looks for" in line for line in lines)


def test_programs_and_manifests_of_a_folder_are_listed(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.manifest("core/.kpack/x.kpm", gfx90a={"file": "x_gfx90a.kpack", "size": 593, "kernel_count": 2})
    code, lines = printed(capsys, site.root)
    assert code == 0
    assert f"{site.root}/core/lib/liby.so: ELF, 4.58 kB" in lines
    assert f"{site.root}/core/.kpack/x.kpm: manifest of kpack archives, x, 108 B" in lines
    assert lines[-1].startswith(f"{site.root}: 7 files, 7 with device code")


def test_a_damaged_marker_is_a_finding_and_no_record(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    path = site.write("core/lib/libz.so", kpack_host.library(b"\xc1"))
    code, lines = printed(capsys, path)
    assert code == 3
    assert [line.split()[1] for line in lines[1:]] == ["FP3004", "FP3005"]


def test_a_manifest_is_shown(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    path = site.manifest(
        "x.kpm", gfx90a={"file": "a.kpack", "size": 2048, "kernel_count": 2}, gfx1100={"file": "b.kpack"}
    )
    code, lines = printed(capsys, path)
    assert code == 0
    assert lines[0].endswith("x.kpm: manifest of kpack archives, x, 123 B")
    assert lines[1:] == ["  gfx90a   a.kpack  2.05 kB  2 code objects", "  gfx1100  b.kpack"]
    with open_source(path) as source:
        record = make_file_record(source.view())
    jsonschema.validate({"schema": "fatpack.inspect/1", "files": [record]}, json.loads(schema_text("inspect")))
    assert [row["arch"] for row in record["manifest"]["files"]] == ["gfx90a", "gfx1100"]


@pytest.mark.parametrize(
    ("data", "code", "finding"),
    [
        (msgpack.packb({"kpack_files": {"gfx90a": {}}}), 3, "FP1607"),
        (msgpack.packb({"kpack_files": {}, "format_version": 2}), 1, "FP1606"),
        (msgpack.packb({"kpack_files": [1]}), 3, "FP1607"),
    ],
)
def test_a_damaged_manifest_is_reported(
    site: Site, capsys: pytest.CaptureFixture[str], data: bytes, code: int, finding: str
) -> None:
    path = site.write("x.kpm", data)
    found, lines = printed(capsys, path)
    assert found == code
    assert any(finding in line for line in lines)
