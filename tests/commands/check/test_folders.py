"""Declarations of packages that lie unpacked or installed in folders."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.builders.amd_stores import KEY, aks2, hsaco
from tests.builders.policy_files import library

import fatpack
from fatpack.commands.check.declarations import MAX_DECLARATION_SIZE

HEAD = b"Metadata-Version: 2.4\nName: demo\nVersion: 1\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def found(name: str) -> list[tuple[str, str, str]]:
    """Return code, path and subject of what a check of the metadata says, but for the declarations that it read."""
    made = fatpack.check(name, metadata=True).violations
    return [(item.code, item.path, item.subject) for item in made if item.code != "FP3319"]


def installed(name: str, code: str, files: Mapping[str, bytes] | None = None, *, into: str = "site") -> Path:
    """Lay down a wheel of one library, unpacked; return its .dist-info."""
    info, path = Path(into, f"{name}-1.dist-info"), Path(into, name, "lib.so")
    for parent in (info, path.parent):
        parent.mkdir(parents=True)
    path.write_bytes(library(code))
    (info / "METADATA").write_bytes(HEAD)
    (info / "RECORD").write_text(f"{name}/lib.so,,\n{name}-1.dist-info/METADATA,,\n")
    for key, data in (files or {}).items():
        (info / key).write_bytes(data)
    return info


def for_archs(*archs: str) -> Mapping[str, bytes]:
    return {"variant.json": json.dumps({"variants": {"one": {"nvidia": {"sm_arch": archs}}}}).encode()}


@pytest.mark.parametrize("name", ["site", "./site/", "."])
def test_a_wheel_in_a_folder_is_compared_as_it_is_packed(name: str) -> None:
    info = installed("demo", "80 90", for_archs("80_real", "90_real"))
    assert found(name) == []
    info.joinpath("variant.json").write_bytes(for_archs("80_real", "120_real")["variant.json"])
    assert [(code, Path(path), subject) for code, path, subject in found(name)] == [
        ("FP3311", Path("site/demo-1.dist-info"), "sm_120"),
        ("FP3312", Path("site/demo-1.dist-info"), "metadata"),
    ]


def test_what_is_installed_side_by_side_is_distinguished() -> None:
    installed("one", "80", for_archs("90_real"))
    installed("two", "90", for_archs("90_real"))
    installed("none", "80")
    assert found("site") == [
        ("FP3311", "site/one-1.dist-info", "sm_90"),
        ("FP3312", "site/one-1.dist-info", "metadata"),
        ("FP3313", "site/none/lib.so", "metadata"),
    ]


def test_a_conda_package_in_a_folder() -> None:
    Path("pkgs/demo/info").mkdir(parents=True)
    Path("pkgs/demo/lib.so").write_bytes(library("80 p80"))
    Path("pkgs/demo/info/index.json").write_text(json.dumps({"depends": ["__cuda_arch 8.0.*"]}))
    assert found("pkgs") == found("pkgs/demo") == []
    Path("pkgs/demo/info/index.json").write_text(json.dumps({"depends": ["cuda-arch >=7.5,<8.6"]}))
    assert [(code, path) for code, path, _ in found("pkgs") if code != "FP3321"] == [("FP3311", "pkgs/demo")]


@pytest.mark.parametrize("name", ["RECORD", "variant.json"])
@pytest.mark.parametrize("data", [b" " * (MAX_DECLARATION_SIZE + 1), b'"' + b"x" * 200_000, None])
def test_what_cannot_be_read_fails_closed(name: str, data: bytes | None) -> None:
    path = installed("demo", "80", for_archs("80_real")) / name
    path.unlink()
    if data is not None:
        path.write_bytes(data)
    elif name == "variant.json":
        assert found("site") == [("FP3313", "site", "metadata")]
        return
    else:
        path.symlink_to("nowhere")
    made = fatpack.check("site", metadata=True)
    assert made.exit_code == 3
    assert [item.code for item in made.violations if item.path == str(path)] == ["FP3301"]


def test_an_installation_without_records_says_nothing_where_nothing_is_declared() -> None:
    installed("demo", "80", for_archs("80_real"))
    (installed("plain", "80") / "RECORD").unlink()
    assert [(code, path) for code, path, _ in found("site")] == [("FP3313", "site/plain/lib.so")]
    (told,) = (each for each in fatpack.check("site", metadata=True).violations if each.code == "FP3313")
    assert told.message == "no metadata declares the architectures of the device code in 1 file"


def test_archives_of_one_kernel_for_several_targets_are_one_unit() -> None:
    """AOTriton installs a folder for each target, and reads that of the device."""
    for kernel, families in {"attn": {"gfx942": "gfx942", "gfx11xx": "gfx1100"}, "norm": {"gfx942": "gfx942"}}.items():
        for family, arch in families.items():
            path = Path(f"aotriton.images/amd-{family}/flash/{kernel}___{family}.aks2")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(aks2([(KEY, hsaco(arch))]))
    assert fatpack.check("aotriton.images", require="gfx942").verdict == "passed"
    (missing,) = fatpack.check("aotriton.images", require="gfx1100").violations
    assert (missing.code, missing.path) == ("FP3303", "aotriton.images/amd-gfx942/flash/norm___gfx942.aks2")
    without = fatpack.check("aotriton.images", require="gfx90a").violations
    assert [item.code for item in without] == ["FP3303", "FP3303"]
    explained = {name: fatpack.explain("aotriton.images", device=name).devices[0] for name in ("gfx942", "gfx1100")}
    assert [(one.runs, one.fails) for one in explained.values()] == [(2, 0), (1, 1)]
