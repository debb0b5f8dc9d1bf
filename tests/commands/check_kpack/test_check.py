"""The check of a folder: what it proves, what it finds besides, and that it fails closed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.builders import kpack_host
from tests.builders.kpack_site import Site, code, sound

from fatpack.commands.check_kpack.run import KpackReport, LoaderSettings, check_folder
from fatpack.errors import TargetError


def checked(site: Site, *devices: str, paths: tuple[str, ...] = ()) -> KpackReport:
    return check_folder(str(site.root), LoaderSettings(devices, paths=paths))


def codes(found: KpackReport) -> list[str]:
    return [finding.code for finding in found.findings]


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return sound(tmp_path / "site")


def test_a_folder_in_which_everything_is_found_has_nothing_to_tell(site: Site) -> None:
    found = checked(site)
    assert codes(found) == []
    assert found.devices == ("gfx90a", "gfx1100")
    assert [(os.path.basename(each.program.path), each.device, each.resolved) for each in found.outcomes] == [
        ("libx.so", "gfx90a", 2),
        ("libx.so", "gfx1100", 2),
        ("liby.so", "gfx90a", 1),
        ("liby.so", "gfx1100", 1),
    ]
    assert all(each.is_whole for each in found.outcomes)


def test_every_code_object_counts(site: Site) -> None:
    """Each of the six lookups fails if its code object is taken away."""
    for path in sorted((site.root / "core/.kpack").iterdir()):
        data = path.read_bytes()
        path.unlink()
        assert len(codes(checked(site))) == 1
        path.write_bytes(data)
    assert codes(checked(site)) == []


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
def test_code_for_another_processor_than_its_archive_says_is_found_out(site: Site, scheme: str) -> None:
    objects = [("core/lib/liby.so#0", "gfx90a", code("gfx906"))]
    path = site.archive("core/.kpack/y_gfx90a.kpack", objects, scheme=scheme)
    found = checked(site)
    assert set(codes(found)) == {"FP3107"}
    listed, run = found.findings
    assert listed.span.source == run.span.source == (str(path),)
    assert listed.message == "core/lib/liby.so#0 is listed for gfx90a, and its header says gfx906"
    assert run.message.startswith("core/lib/liby.so#0: gfx90a gets code for gfx906: the processors differ")


def test_code_for_another_setting_of_a_feature_is_found_out(site: Site) -> None:
    """Code that needs xnack off runs on half of the devices that get it by the name gfx90a."""
    site.archive("core/.kpack/y_gfx90a.kpack", [("core/lib/liby.so#0", "gfx90a", code("gfx90a:xnack-"))])
    found = checked(site, "gfx90a")
    assert found.devices == ("gfx90a:xnack-", "gfx90a:xnack+")
    (finding,) = found.findings
    assert finding.code == "FP3107"
    assert "gfx90a:xnack+ gets code for gfx90a:xnack-: the image needs xnack-, the device has xnack+" in finding.message


def test_what_is_no_code_object_is_reported(site: Site) -> None:
    site.archive("core/.kpack/y_gfx90a.kpack", [("core/lib/liby.so#0", "gfx90a", b"BC\xc0\xde" + bytes(60))])
    (finding,) = checked(site).findings
    assert (finding.code, finding.message) == ("FP3107", "core/lib/liby.so#0 for gfx90a is no code object but bitcode")


def test_a_damaged_archive_fails_the_check(site: Site) -> None:
    path = site.root / "core/.kpack/y_gfx90a.kpack"
    path.write_bytes(path.read_bytes()[:-3])
    found = checked(site)
    assert codes(found) == ["FP1001", "FP3103"]
    assert found.findings[0].severity == "error"
    assert found.findings[0].span.source == (str(path),)


def test_a_frame_that_does_not_inflate_fails_the_check(site: Site) -> None:
    path = site.archive("core/.kpack/y_gfx90a.kpack", [("core/lib/liby.so#0", "gfx90a")], scheme="zstd-per-kernel")
    path.write_bytes(path.read_bytes().replace(b"\x28\xb5\x2f\xfd", b"\x28\xb5\x2f\x00"))
    found = checked(site)
    assert [(finding.code, finding.severity) for finding in found.findings] == [("FP1001", "error")]


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is closed to root")
def test_a_folder_that_is_closed_fails_the_check(site: Site) -> None:
    closed = site.root / "closed"
    closed.mkdir(mode=0)
    (finding,) = checked(site).findings
    assert (finding.code, finding.span.source) == ("FP3109", (str(closed),))


def test_a_file_that_vanishes_fails_the_check(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from fatpack.commands.check_kpack import run

    def gone(path: str, name: str) -> None:
        raise FileNotFoundError(2, "No such file or directory", path)

    monkeypatch.setattr(run, "open_source", gone)
    found = checked(site)
    assert set(codes(found)) == {"FP3109", "FP3110"}
    assert found.findings[0].message == "cannot be read: No such file or directory"


def test_a_damaged_marker_fails_the_check(site: Site) -> None:
    site.write("core/lib/libz.so", kpack_host.library(b"\xc1"))
    found = checked(site)
    assert [(finding.code, finding.severity) for finding in found.findings] == [("FP3005", "error")]


def test_a_folder_without_programs_is_not_checked(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.write("readme.txt", b"nothing")
    site.write("x.bin", b"nothing")
    found = checked(site)
    assert codes(found) == ["FP3110"]
    assert found.findings[0].message == "no program looks for kpack archives among 1 file"
    assert (found.folder.files, found.folder.skipped) == (1, 1)


def test_programs_without_any_archive_are_reported_without_a_device(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.library("lib/libx.so", ["../.kpack/x_@GFXARCH@.kpack"])
    assert codes(checked(site)) == ["FP3101"]
    (tmp_path / ".kpack").mkdir()
    assert codes(checked(site)) == ["FP3102"]


def test_paths_out_of_the_folder_are_not_followed(site: Site, tmp_path: Path) -> None:
    Site(tmp_path).archive("outside/z_gfx90a.kpack", [("core/lib/libz.so#0", "gfx90a")])
    for path in ("../../../outside/z_@GFXARCH@.kpack", f"{tmp_path}/outside/z_@GFXARCH@.kpack"):
        site.library("core/lib/libz.so", [path])
        found = checked(site, "gfx90a")
        assert codes(found) == ["FP3106"]
        assert f"leads out of the folder, to {tmp_path}/outside" in found.findings[0].message


def test_a_path_that_no_file_system_has_is_reported(site: Site) -> None:
    site.library("core/lib/libz.so", ["../\0/x_@GFXARCH@.kpack"])
    assert codes(checked(site, "gfx90a")) == ["FP3102"]


def test_more_search_paths_than_the_limit_are_reported(site: Site) -> None:
    site.library("core/lib/libx.so", ["../.kpack/x_@GFXARCH@.kpack"] * 65, count=2)
    assert codes(checked(site)) == ["FP1005"]


def test_links_are_not_followed_and_lead_to_archives_all_the_same(site: Site) -> None:
    """A library may look for its archives through a link, as the loader resolves them too."""
    (site.root / "core/.kpack").rename(site.root / "kernels")
    (site.root / "core/.kpack").symlink_to("../kernels")
    (site.root / "core/lib/libx.so.1").symlink_to("libx.so")
    found = checked(site)
    assert codes(found) == []
    assert (found.folder.links, len(found.folder.programs)) == (2, 2)


def test_pipes_are_counted_and_not_read(site: Site) -> None:
    os.mkfifo(site.root / "pipe.kpack")
    found = checked(site)
    assert codes(found) == []
    assert found.folder.special == 1


def test_archives_that_are_named_replace_those_of_the_search_paths(site: Site, tmp_path: Path) -> None:
    rows = [("core/lib/libx.so#0", "gfx906"), ("core/lib/libx.so#1", "gfx906"), ("core/lib/liby.so#0", "gfx906")]
    extra = str(Site(tmp_path).archive("elsewhere/all.kpack", rows))
    assert codes(checked(site, "gfx906", paths=(extra,))) == []
    assert codes(checked(site, "gfx90a", paths=(extra,))) == ["FP3102", "FP3102"]
    assert "FP3109" in codes(checked(site, paths=(str(tmp_path / "none"),)))


def test_an_archive_that_does_not_list_what_its_name_says_is_reported(site: Site) -> None:
    site.archive("core/.kpack/y_gfx90a.kpack", [("core/lib/liby.so#0", "gfx90a")], archs=[])
    found = checked(site, "gfx90a")
    assert codes(found) == ["FP1605", "FP3103"]
    assert "y_@GFXARCH@.kpack in" in found.findings[1].message
    assert found.findings[1].message.endswith("is for gfx90a, and does not list it")


def test_a_device_that_is_none_is_refused(site: Site) -> None:
    with pytest.raises(TargetError):
        checked(site, "gfx90b")


def test_programs_that_name_manifests_are_reported(site: Site) -> None:
    site.library("core/lib/libz.so", ["../.kpack/z.kpm"])
    found = checked(site, "gfx90a")
    assert codes(found) == ["FP3102"]
    assert "names a manifest, which loaders since February of 2026 do not read" in found.findings[0].message


ROW = {"file": "y_gfx90a.kpack", "kernel_count": 1}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"file": "none.kpack"}, "core/.kpack/none.kpack does not exist"),
        ({"file": "../lib/libx.so"}, "'../lib/libx.so' is no name of a file beside the manifest"),
        ({"file": "x.kpm"}, "core/.kpack/x.kpm is no archive that can be read"),
        ({"size": 7}, "bytes, and the manifest says 7"),
        ({"kernel_count": 2}, "has 1 code objects for it, and the manifest says 2"),
    ],
)
def test_manifests_are_compared_with_the_archives_beside_them(
    site: Site, changes: dict[str, object], words: str
) -> None:
    size = (site.root / "core/.kpack/y_gfx90a.kpack").stat().st_size
    path = site.manifest("core/.kpack/x.kpm", gfx90a={**ROW, "size": size, **changes})
    found = checked(site)
    assert [manifest.path for manifest in found.folder.manifests] == [str(path)]
    assert codes(found) == ([] if not words else ["FP3108"])
    assert all(words in finding.message and finding.span.source == (str(path),) for finding in found.findings)


def test_a_manifest_that_cannot_be_read_fails_the_check(site: Site) -> None:
    site.write("core/.kpack/x.kpm", b"\x91")
    found = checked(site)
    assert [(finding.code, finding.severity) for finding in found.findings] == [("FP1607", "error")]
