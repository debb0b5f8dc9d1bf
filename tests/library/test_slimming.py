"""``fatpack.slim``: a copy with what some devices load."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.builders import wheels
from tests.builders.fatbin import of_words
from tests.laws.rooms import FIXTURES

import fatpack

LIBRARY = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"


def test_it_says_what_stayed_and_went(tmp_path: Path) -> None:
    out = tmp_path / "slim.so"
    done = fatpack.slim(LIBRARY, out, devices="sm_90")
    assert done.kept == {"compute_75": 1, "compute_90": 1, "sm_90": 1, "sm_90a": 1}
    assert done.dropped == {"sm_75": 1, "sm_80": 1}
    assert (done.mode, done.after) == ("shrink", out.stat().st_size)
    assert done.before == LIBRARY.stat().st_size > done.after


def test_patterns_and_recompression(tmp_path: Path) -> None:
    data = of_words("70 80 90 p90")
    done = fatpack.slim(data, tmp_path / "x", drop=["sm_7*", "sm_8*"], keep_ptx="none")
    assert done.kept == {"sm_90": 1}
    again = fatpack.slim(data, tmp_path / "y", recompress="zstd", level=1)
    assert again.dropped == {}
    assert again.mode == "edit"


def test_what_would_be_empty_is_refused(tmp_path: Path) -> None:
    with pytest.raises(fatpack.FatpackError, match="no device code left") as caught:
        fatpack.slim(of_words("80 p80"), tmp_path / "x", drop="*")
    assert caught.value.exit_code == 1
    assert not (tmp_path / "x").exists()


def test_wrong_arguments_are_named(tmp_path: Path) -> None:
    with pytest.raises(fatpack.UsageError, match="no rule says which images to remove"):
        fatpack.slim(LIBRARY, tmp_path / "x")
    with pytest.raises(TypeError, match="drop must be a text"):
        fatpack.slim(LIBRARY, tmp_path / "x", drop=[80])  # type: ignore[list-item]
    with pytest.raises(fatpack.TargetError):
        fatpack.slim(LIBRARY, tmp_path / "x", devices="sm_9999")


def test_names_are_for_packages_and_checked_for_all_files(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="build_tag must be a text"):
        fatpack.slim(LIBRARY, tmp_path / "x", devices="sm_90", build_tag=3)  # type: ignore[arg-type]
    with pytest.raises(fatpack.UsageError, match="name wheels and conda packages"):
        fatpack.slim(LIBRARY, tmp_path / "x", devices="sm_90", local_version="sm90")
    assert not (tmp_path / "x").exists()


def test_a_wheel_goes_into_a_folder_under_another_name(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.5-py3-none-any.whl"
    wheel.write_bytes(wheels.wheel({"demo/a.so": LIBRARY.read_bytes(), "demo/b.fatbin": of_words("80 90")}))
    done = fatpack.slim(wheel, tmp_path / "dist", devices="sm_90", build_tag="1")
    assert done.path == str(tmp_path / "dist" / "demo-1.5-1-py3-none-any.whl")
    assert done.after == Path(done.path).stat().st_size < done.before
    assert done.dropped == {"sm_75": 1, "sm_80": 2}
    again = fatpack.slim(done.path, tmp_path / "again", devices="sm_90")
    assert (again.mode, Path(again.path).read_bytes()) == ("", Path(done.path).read_bytes())
    assert fatpack.slim(wheel, tmp_path / "other", drop="sm_75").path.endswith("demo-1.5-1nosm75-py3-none-any.whl")
    named = fatpack.slim(wheel, tmp_path / "other", devices=["sm_86", "sm_90"])
    assert Path(named.path).name == "demo-1.5-1sm86.sm90-py3-none-any.whl"
    assert "has a build tag made of the options; build_tag and local_version give another name" in named.notes[-1]
    with pytest.raises(fatpack.UsageError, match="output is the folder that gets one"):
        fatpack.slim(wheel, tmp_path / "x.whl", devices="sm_90", build_tag="1")
    assert not (tmp_path / "x.whl").exists()
    with pytest.raises(fatpack.UsageError, match="path of a folder"):
        fatpack.slim(wheel, io.BytesIO(), devices="sm_90", build_tag="1")
