"""The failures that users of ROCm's packages reported, rebuilt: each is a fact of files on a disk, and gets a finding.

Every case is built twice: as it was reported, and as it should have been. The second has nothing to tell.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders.kpack_site import Site

from fatpack.commands.check_kpack.run import KpackReport, LoaderSettings, check_folder
from fatpack.model import Finding

MI210 = "gfx90a:sramecc+:xnack-"


def checked(site: Site, *devices: str, newer_only: bool = False) -> KpackReport:
    return check_folder(str(site.root), LoaderSettings(devices, newer_only))


def only(found: KpackReport) -> Finding:
    """Return the only finding, which is about a file of the folder and says what to do."""
    (finding,) = found.findings
    assert finding.span.source[0].startswith(found.folder.name)
    assert finding.hint
    return finding


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_an_archive_that_is_empty_and_chosen_first(site: Site) -> None:
    """ROCm/TheRock#7620: an archive for gfx90a:xnack- is empty, and comes before the one that has the code."""
    site.library(
        "torch/lib/libtorch_hip.so", ["../../.kpack/torch_@GFXARCH@.kpack"], count=3, name="lib/libtorch_hip.so"
    )
    site.archive(".kpack/torch_gfx90a.kpack", [(f"lib/libtorch_hip.so#{number}", "gfx90a") for number in range(3)])
    assert checked(site, MI210).findings == ()
    empty = site.archive(".kpack/torch_gfx90a:xnack-.kpack", [], archs=["gfx90a:xnack-"])
    found = checked(site, MI210)
    by_code = {finding.code: finding for finding in found.findings}
    assert sorted(by_code) == ["FP1605", "FP3105"]
    assert "lists gfx90a:xnack- and has no code object for it" in by_code["FP1605"].message
    assert by_code["FP1605"].span.source == (str(empty),)
    older = by_code["FP3105"]
    assert f"{MI210}: {empty} is empty, lists the device and comes first" in older.message
    assert "do not find 3 of 3 code objects, which it lacks: lib/libtorch_hip.so#0" in older.message
    assert "remove this archive" in older.hint
    assert [finding.code for finding in checked(site, MI210, newer_only=True).findings] == ["FP1605"]


def test_an_archive_that_is_empty_to_its_last_byte(site: Site) -> None:
    site.library("lib/libx.so", ["../.kpack/x_@GFXARCH@.kpack"])
    site.archive(".kpack/x_gfx90a.kpack", [("lib/libx.so#0", "gfx90a")])
    empty = site.write(".kpack/x_gfx90a:xnack-.kpack", b"")
    finding = only(checked(site, MI210))
    assert (finding.code, finding.severity, finding.span.source) == ("FP3109", "error", (str(empty),))
    assert "it is empty" in finding.message


def test_code_of_one_device_spread_over_an_overlay_and_the_archive_without_the_feature(site: Site) -> None:
    """ROCm/TheRock#7081, fixed in rocm-systems#9874: the loader looked into one archive, the overlay."""
    site.library("lib/libtorch_hip.so", ["../.kpack/torch_@GFXARCH@.kpack"], count=4)
    base = [(f"lib/libtorch_hip.so#{number}", "gfx90a") for number in range(4)]
    site.archive(".kpack/torch_gfx90a.kpack", base)
    assert checked(site, MI210).findings == ()
    overlay = site.archive(".kpack/torch_gfx90a:xnack-.kpack", [("lib/libtorch_hip.so#2", "gfx90a:xnack-")])
    finding = only(checked(site, MI210))
    assert finding.code == "FP3105"
    assert f"{overlay} lists the device and comes first" in finding.message
    assert "loaders before rocm-systems#9874 do not find 3 of 4 code objects, which it lacks: " in finding.message
    assert finding.message.endswith("lib/libtorch_hip.so#0, lib/libtorch_hip.so#1, lib/libtorch_hip.so#3")
    assert checked(site, MI210, newer_only=True).findings == ()
    assert checked(site, "gfx90a:xnack+").findings == ()


def test_a_marker_that_names_archives_which_no_package_contains(site: Site) -> None:
    """ROCm/TheRock#5446: librccl.so looks for rccl_lib_@GFXARCH@.kpack."""
    site.library("sdk/lib/librccl.so", ["../.kpack/rccl_lib_@GFXARCH@.kpack"])
    site.library("sdk/lib/librocblas.so", ["../.kpack/blas_lib_@GFXARCH@.kpack"])
    site.archive("sdk/.kpack/blas_lib_gfx1100.kpack", [("sdk/lib/librocblas.so#0", "gfx1100")])
    finding = only(checked(site))
    assert finding.code == "FP3102"
    assert finding.span.source[0] == str(site.root / "sdk/lib/librccl.so")
    assert f"no archive in {site.root}/sdk/.kpack is called rccl_lib_@GFXARCH@.kpack, whatever" in finding.message
    assert finding.hint == "install the package that brings these archives"
    site.archive("sdk/.kpack/rccl_lib_gfx1100.kpack", [("sdk/lib/librccl.so#0", "gfx1100")])
    assert checked(site).findings == ()


def test_a_search_path_into_a_package_without_archives(site: Site) -> None:
    """ROCm/TheRock#5768: the folder .kpack is in another package than the library."""
    site.library("_rocm_sdk_core/lib/libhipx.so", ["../.kpack/x_lib_@GFXARCH@.kpack"], name="lib/libhipx.so")
    site.archive("_rocm_sdk_libraries/.kpack/x_lib_gfx1201.kpack", [("lib/libhipx.so#0", "gfx1201")])
    finding = only(checked(site, "gfx1201"))
    assert finding.code == "FP3101"
    assert f"the folder {site.root}/_rocm_sdk_core/.kpack of ../.kpack/x_lib_@GFXARCH@.kpack" in finding.message
    assert f"such archives are in {site.root}/_rocm_sdk_libraries/.kpack" in finding.hint
    (site.root / "_rocm_sdk_libraries/.kpack").rename(site.root / "_rocm_sdk_core/.kpack")
    assert checked(site, "gfx1201").findings == ()


def test_no_archive_for_the_exact_device(site: Site) -> None:
    """ROCm/TheRock#7839, #6869, #6997: gfx1100 is installed, and the device is a gfx1101."""
    site.library("lib/librocblas.so", ["../.kpack/blas_lib_@GFXARCH@.kpack"])
    site.archive(".kpack/blas_lib_gfx1100.kpack", [("lib/librocblas.so#0", "gfx1100")])
    site.archive(".kpack/blas_lib_gfx906.kpack", [("lib/librocblas.so#0", "gfx906")])
    assert checked(site).findings == ()
    finding = only(checked(site, "gfx1101"))
    assert finding.code == "FP3103"
    assert "gfx1101: " in finding.message
    assert "is no blas_lib_@GFXARCH@.kpack for it, only for gfx1100, gfx906" in finding.message
    assert "install the package of device code for gfx1101" in finding.hint
    site.archive(".kpack/blas_lib_gfx11-generic.kpack", [("lib/librocblas.so#0", "gfx11-generic")])
    assert checked(site, "gfx1101").findings == ()


def test_an_archive_for_the_other_setting_of_a_feature_is_none_for_the_device(site: Site) -> None:
    site.library("lib/libx.so", ["../.kpack/x_@GFXARCH@.kpack"])
    site.archive(".kpack/x_gfx942:xnack+.kpack", [("lib/libx.so#0", "gfx942:xnack+")])
    assert checked(site).findings == ()
    assert only(checked(site, "gfx942:xnack-")).code == "FP3103"
    # A device that is named without the feature stands for both of its settings.
    assert [finding.message.partition(": ")[0] for finding in checked(site, "gfx942").findings] == ["gfx942:xnack-"]


def test_the_package_of_one_device_without_that_of_its_family(site: Site) -> None:
    """ROCm/rocm-systems#10685: further code objects are in the archive of the family, which is not installed."""
    site.library("lib/libx.so", ["../.kpack/x_@GFXARCH@.kpack", "../.kpack/x_gfx110X.kpack"], count=3)
    one = site.archive(".kpack/x_gfx1100.kpack", [("lib/libx.so#0", "gfx1100")])
    finding = only(checked(site, "gfx1100"))
    assert finding.code == "FP3104"
    assert "2 of 3 code objects are in none of the archives" in finding.message
    assert "lib/libx.so#1, lib/libx.so#2" in finding.message
    assert str(one) in finding.message
    assert "those of the family" in finding.hint
    rest = [(f"lib/libx.so#{number}", "gfx1100") for number in (1, 2)]
    site.archive(".kpack/x_gfx110X.kpack", rest)
    assert checked(site, "gfx1100", newer_only=True).findings == ()
