"""Where installers and drivers disagree: each rule of ``split`` has a test that fails without it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.builders import offered, policy_files, releases
from tests.builders.releases import NAME

import fatpack
from fatpack import FatpackError, UsageError
from fatpack.commands.split.model import DeviceFacts, ReleaseFacts


def split(tmp_path: Path, wheel: bytes, **options: object) -> ReleaseFacts:
    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(wheel)
    options.setdefault("dry_run", True)
    (release,) = fatpack.split(path, **options).releases  # type: ignore[arg-type]
    return release


def properties(release: ReleaseFacts) -> dict[str, tuple[str, ...]]:
    """Return label → architectures that installers compare."""
    found = {}
    for one in release.labels:
        (features,) = one.properties.values()
        found[one.label] = tuple(features.get("sm_arch", features.get("gfx_arch", ())))
    return found


def floors(release: ReleaseFacts) -> dict[str, str]:
    found = {}
    for one in release.labels:
        (features,) = one.properties.values()
        found[one.label] = ",".join(features.get("cuda_version_lower_bound", ()))
    return found


def device(release: ReleaseFacts, name: str) -> DeviceFacts:
    (package,) = release.packages
    (found,) = (one for one in package.devices if one.device == name)
    return found


def kept(release: ReleaseFacts, label: str, library: str = "demo/libdemo.so") -> list[str]:
    (package,) = release.packages
    (variant,) = (one for one in package.variants if one.label == label)
    (found,) = (one for one in variant.libraries if one.name == library)
    return sorted(found.kept)


# 1. ``a`` images have no honest value: 100_real is listed for 10.3 and 10.7 too.


def test_code_for_one_capability_alone_gets_no_label(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("80 100a"))
    assert properties(release) == {"sm80": ("80_real",)}
    (refused,) = release.refused
    assert refused.name == "sm100"
    assert "installers give 100_real to 10.3, 10.7 too, and code for sm_100a alone does not run there" in refused.reason
    assert (device(release, "10.0").label, device(release, "10.0").then) == ("null", "runs")


def test_a_label_stays_for_who_insists(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("80 100a"), insist="sm100")
    assert properties(release) == {"sm80": ("80_real",), "sm100": ("100_real",)}
    assert "10.3, 10.7: get it and have no code, before and after" in release.labels[1].notes
    assert device(release, "10.0").label == device(release, "10.3").label == "sm100"
    with pytest.raises(UsageError, match="no label sm90 to insist on"):
        split(tmp_path, releases.wheel("80 100a"), insist="sm90")


@pytest.mark.parametrize("words", ["100a p90", "100a 100f", "100a 103", "100"])
def test_code_for_one_capability_beside_code_for_the_rest_has_a_label(words: str, tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel(words))
    assert properties(release) == {"sm100": ("100_real",)}
    assert release.refused == ()
    assert device(release, "10.3").then == "runs"


def test_a_capability_that_is_the_last_of_its_major_needs_no_other(tmp_path: Path) -> None:
    assert properties(split(tmp_path, releases.wheel("80 90a"))) == {"sm80": ("80_real",), "sm90": ("90_real",)}


# 2. PTX of an earlier major serves by the driver, and is never listed.


def test_null_keeps_ptx_for_later_majors(tmp_path: Path) -> None:
    wheel = releases.wheel("80 90 p80")
    for null in ("fat", "rest"):
        release = split(tmp_path, wheel, null=null)
        assert [one.label for one in release.labels] == ["sm80", "sm90"]
        assert {device(release, name).label for name in ("10.0", "11.0", "12.1")} == {"null"}
        assert device(release, "12.1").then == "runs"
    assert kept(release, "null") == ["compute_80"]
    assert kept(release, "sm90") == ["sm_90"]


def test_ptx_of_the_own_major_stays_for_later_devices(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("90 120 p90 p120"))
    assert kept(release, "sm120") == ["compute_120", "sm_120"]
    assert kept(release, "sm90") == ["compute_90", "sm_90"]


# 3. Of several GPUs in one machine only the newest counts.


def test_several_gpus_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fatpack.main import main

    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(releases.wheel("80 90"))
    assert main(["split", str(path), "--dry-run"]) == 0
    assert "of several GPUs in one machine installers look at the newest alone" in capsys.readouterr().out


# 4. The floor of drivers.


def test_the_floor_is_the_major_of_the_toolkit(tmp_path: Path) -> None:
    assert floors(split(tmp_path, releases.wheel("80 90", toolkit=12))) == {"sm80": "12.0", "sm90": "12.0"}


def test_the_floor_is_that_of_zstd(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("80 90 zstd", toolkit=12))
    assert floors(release) == {"sm80": "12.4", "sm90": "12.4"}
    found = device(release, "9.0")
    assert (found.label, found.driver, found.otherwise) == ("sm90", "12.4", "null")


def test_the_floor_is_that_of_ptx_that_is_compiled(tmp_path: Path) -> None:
    """PTX 8.4 is compiled by drivers of CUDA 12.4 and newer; beside a cubin it is not compiled."""
    assert floors(split(tmp_path, releases.wheel("80 p80@8.4", "75 p80@8.4", toolkit=12), by="sm_80")) == {
        "sm80": "12.4"
    }
    assert floors(split(tmp_path, releases.wheel("80 p80@8.4", toolkit=12), by="sm_80")) == {"sm80": "12.0"}


def test_labels_of_one_major_share_a_floor(tmp_path: Path) -> None:
    """Installers compare the floor before the architecture: 8.6 would get the label of 8.0 for its higher floor.

    8.0 compiles PTX 8.4 of the first container, for which 8.6 has a cubin.
    """
    release = split(tmp_path, releases.wheel("86 p80@8.4", "80", toolkit=12), by="device")
    assert floors(release) == {"sm80": "12.4", "sm86": "12.4"}
    assert (device(release, "8.0").label, device(release, "8.6").label) == ("sm80", "sm86")
    release = split(tmp_path, releases.wheel("86 p80@8.4", "80", toolkit=12), by="sm_86")
    assert floors(release) == {"sm86": "12.0"}


def test_libraries_of_several_toolkits_are_alternatives(tmp_path: Path) -> None:
    """A machine with an old driver uses the library of the old toolkit: the label is for it, too."""
    more = {"demo/libold.so": releases.library("80", toolkit=11)}
    release = split(tmp_path, releases.wheel("80 120", more=more, toolkit=13))
    assert floors(release) == {"sm80": "11.0", "sm120": "13.0"}


# 5. cubins run within the major upwards.


def test_code_for_a_lower_minor_version_serves_the_family(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("80"))
    assert properties(release) == {"sm80": ("80_real",)}
    found = [device(release, name) for name in ("8.0", "8.6", "8.9")]
    assert {(one.label, one.then) for one in found} == {("sm80", "runs")}
    assert (device(release, "9.0").label, device(release, "9.0").then) == ("null", "nothing runs")


def test_code_of_tegra_stays_for_the_devices_that_get_the_label(tmp_path: Path) -> None:
    """87_real is no label of the family's, and the provider gives 80_real to an Orin, which runs no code for 8.0."""
    release = split(tmp_path, releases.wheel("80 87 90"))
    assert kept(release, "sm80") == ["sm_80", "sm_87"]
    assert device(release, "8.7").label == "sm80"
    release = split(tmp_path, releases.wheel("80 90 p80"))
    assert kept(release, "sm80") == ["compute_80", "sm_80"]


def test_a_label_is_narrowed_to_the_devices_that_have_code(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("86 90"), by="ampere=sm_80,sm_90")
    assert properties(release) == {"ampere": ("86_real",), "sm90": ("90_real",)}
    assert release.labels[0].notes[0] == "narrowed to 86_real: nothing runs on 8.0"
    assert device(release, "8.0").label == "null"


def test_a_label_of_two_values_has_the_devices_of_both(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("80 86 90"), by="server=sm_80+sm_90,desktop=sm_86")
    assert properties(release) == {"server": ("80_real", "90_real"), "desktop": ("86_real",)}
    assert [device(release, name).label for name in ("8.0", "8.6", "8.9", "9.0")] == [
        "server",
        "desktop",
        "desktop",
        "server",
    ]
    assert kept(release, "server") == ["sm_80", "sm_90"]


# Libraries, vendors, and labels that are none.


def test_a_library_without_code_for_a_label_is_empty_and_said(tmp_path: Path) -> None:
    more = {"demo/libold.so": releases.library("75 80")}
    release = split(tmp_path, releases.wheel("80 120", more=more))
    (package,) = release.packages
    (variant,) = (one for one in package.variants if one.label == "sm120")
    (old,) = (one for one in variant.libraries if one.name == "demo/libold.so")
    assert (old.kept, sorted(old.dropped)) == ({}, ["sm_75", "sm_80"])
    assert device(release, "12.0").today == device(release, "12.0").then == "1 of 2 libraries run"


def test_a_library_that_runs_in_part_is_said_to_as_explain_says_it(tmp_path: Path) -> None:
    code = policy_files.library("80 90", "80")
    release = split(tmp_path, releases.wheel("80 90", more={"demo/libpart.so": code}))
    assert device(release, "8.0").today == "runs"
    assert device(release, "9.0").today == "2 of 3 containers run"
    assert ": 2 of 3 containers run, 1 fails" in repr(fatpack.explain(tmp_path / f"{NAME}.whl", "9.0"))


def test_amd_gets_a_label_for_each_target_and_none_of_the_other_vendor(tmp_path: Path) -> None:
    more = {"demo/k.hipfb": offered.hip("gfx90a:xnack+ gfx90a:xnack- gfx942 gfx11-generic")}
    release = split(tmp_path, releases.wheel("80", more=more))
    found = properties(release)
    assert found["gfx90a"] == ("gfx90a",)
    assert found["gfx942"] == ("gfx942",)
    assert found["gfx11_generic"][:2] == ("gfx1100", "gfx1101")
    assert kept(release, "gfx90a", "demo/k.hipfb") == ["gfx90a:xnack+", "gfx90a:xnack-"]
    assert kept(release, "gfx90a") == []
    assert kept(release, "sm80", "demo/k.hipfb") == []
    assert device(release, "gfx1100").label == "gfx11_generic"


def test_what_is_left_for_others_has_the_code_of_amd_labels_too(tmp_path: Path) -> None:
    """uv has no provider for AMD: with it these devices get null, whatever labels there are."""
    more = {"demo/k.hipfb": offered.hip("gfx90a gfx942")}
    release = split(tmp_path, releases.wheel("80 p80", more=more), by="sm_80,gfx942", null="rest")
    assert kept(release, "null", "demo/k.hipfb") == ["gfx90a", "gfx942"]
    assert kept(release, "null") == ["compute_80"]
    assert kept(release, "gfx942", "demo/k.hipfb") == ["gfx942"]


@pytest.mark.parametrize(
    ("by", "says"),
    [
        ("sm_80,sm_80", "given twice"),
        ("family,sm_80", "family is a rule for all labels, and stands alone"),
        ("sm_80,device", "device is a rule for all labels, and stands alone"),
        ("Hopper=sm_90", "small letters"),
        ("a-b=sm_90", "small letters"),
        ("morethansixteenletters=sm_90", "at most 16"),
        ("null=sm_90", "null is the label"),
        ("both=sm_90+gfx90a", "two vendors"),
        ("gfx90a:xnack-", "without them"),
        ("=sm_90", "names no device"),
        ("", "names no device"),
        ("pvc", "a device of intel"),
        ("sm_9", "sm_9"),
    ],
)
def test_wrong_labels_are_named(by: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(FatpackError, match=says):
        split(tmp_path, releases.wheel("80 90"), by=by)


def test_a_label_for_which_nothing_runs_is_refused(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("80 90"), by="sm_80,sm_120")
    assert [one.label for one in release.labels] == ["sm80"]
    assert release.refused[0].reason == "nothing runs on 12.0, 12.1"
    with pytest.raises(FatpackError, match="no label is left: sm120: nothing runs") as caught:
        split(tmp_path, releases.wheel("80 90"), by="sm_120")
    assert caught.value.exit_code == 1


def test_a_label_whose_devices_all_get_another_is_refused_so(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("80 86"), by="sm_80+sm_86,sm_86")
    (refused,) = release.refused
    assert refused.reason == f"no device would get it: its devices get {release.labels[0].label}"


def test_what_is_not_known_has_a_reason(tmp_path: Path) -> None:
    release = split(tmp_path, releases.wheel("80"))
    (note,) = (note for note in release.labels[0].notes if "not known" in note)
    assert "8.7" in note
    assert "Tegra" in note


def test_the_table_says_what_uv_takes_for_devices_of_amd(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fatpack.main import main

    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(releases.wheel("80", more={"demo/k.hipfb": offered.hip("gfx90a gfx942")}))
    for null, without in (("fat", "null"), ("none", "the package without label")):
        assert main(["split", str(path), "--dry-run", "--null", null]) == 0
        lines = capsys.readouterr().out.splitlines()
        (row,) = (line for line in lines if line.startswith("gfx90a, gfx942 ") and "\u2192" in line)
        assert f"the label of its name (uv: {without}): runs" in row
        assert row.count("uv: ") == 2


def test_devices_that_get_the_same_share_a_row(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A release for AMD has two dozen labels, each with the name of its only device."""
    from fatpack.main import main

    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(releases.wheel("80", more={"demo/k.hipfb": offered.hip("gfx906 gfx90a gfx942 gfx1100")}))
    assert main(["split", str(path), "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = lines[next(at for at, line in enumerate(lines) if line.startswith("device ")) + 1 :]
    (amd,) = (row for row in rows if row.startswith("gfx") and "\u2192" in row)
    assert re.match(r"gfx906, gfx90a, gfx942, gfx1100 +runs ", amd)
    assert "the label of its name (uv: null): runs" in amd
    # 8.7 and 8.8 lie between them, and nothing is known about these.
    assert [row.split("  ")[0] for row in rows if "sm80: " in row and "\u2192" in row] == ["8.0, 8.6, 8.9", "8.7, 8.8"]
    # What leaves names out is read as a range.
    assert re.match(r"5\.0, 5\.2, 5\.3, 6\.0, 6\.1, 6\.2, …, 7\.5 +nothing runs ", rows[0])


def test_labels_with_the_same_empty_libraries_share_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fatpack.main import main

    path = tmp_path / f"{NAME}.whl"
    path.write_bytes(releases.wheel("80 90 120", more={"demo/libold.so": releases.library("75")}))
    assert main(["split", str(path), "--dry-run"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if "left empty: libold.so" in line]
    assert lines == ["  sm80, sm90, sm120: 1 library without code for it left empty: libold.so"]
