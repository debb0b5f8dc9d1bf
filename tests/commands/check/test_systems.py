"""Metal libraries against the systems on which they must load: their stamp, their language, and a wheel's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import macho
from tests.builders.metal import AIR64, APPLE_GPU, Function, library, universal_metal
from tests.builders.packages import zipped
from tests.builders.policy_files import container
from tests.conftest import Ran

from fatpack import check, rows

Fatpack = Callable[..., Ran]

OLD: tuple[Function, ...] = (("k", 2, (2, 6, 3, 1)),)
NEW: tuple[Function, ...] = (("k", 2, (2, 6, 3, 1)), ("t", 2, (2, 8, 4, 0)))
IOS = {"word": 1, "platform": 0x82, "needs": (17, 0)}


@pytest.mark.parametrize(
    ("functions", "options", "require", "code", "said"),
    [
        (OLD, {}, "macos14", 0, "Metal libraries load on macOS 14"),
        (OLD, {}, "macOS14.1", 0, "Metal libraries load on macOS 14.1"),
        (OLD, {}, "macos13", 1, "x.metallib: does not load on macOS 13: 1 function needs macOS 14.0"),
        (OLD, {"needs": (15, 2)}, "macos15", 1, "does not load on macOS 15: 1 function needs macOS 15.2"),
        # The language decides where it is later than the stamp: Metal 4.0 loads from macOS 26 on.
        (NEW, {}, "macos15", 1, "does not load on macOS 15: 1 function needs macOS 26.0"),
        (NEW, {}, "macos26", 0, "Metal libraries load on macOS 26"),
        (OLD, IOS, "ios17", 0, "Metal libraries load on iOS 17"),
        (OLD, IOS, "ios16.4", 1, "does not load on iOS 16.4: 1 function needs iOS 17.0"),
        (OLD, IOS, "macos14", 1, "no Metal library is for macOS, only for iOS 17.0"),
        (OLD, {}, "ios17 macos14", 1, "no Metal library is for iOS, only for macOS 14.0"),
    ],
)
def test_a_library_must_load_on_the_system_that_is_required(
    functions: tuple[Function, ...],
    options: dict[str, object],
    require: str,
    code: int,
    said: str,
    folder: Path,
    fatpack: Fatpack,
) -> None:
    (folder / "x.metallib").write_bytes(library(functions, **options))  # type: ignore[arg-type]
    ran = fatpack("check", "x.metallib", "--require", require)
    assert (ran.code, said in ran.out) == (code, True), ran.out
    assert ("FP3342" in ran.out) == bool(code)


def test_a_system_is_required_of_metal_alone(folder: Path, fatpack: Fatpack) -> None:
    (folder / "tree").mkdir()
    (folder / "tree" / "k.fatbin").write_bytes(container("80"))
    ran = fatpack("check", "tree", "--require", "macos14")
    assert (ran.code, "no device code for Apple devices" in ran.out) == (1, True)
    (folder / "tree" / "x.metallib").write_bytes(library(OLD))
    assert fatpack("check", "tree", "--require", "macos14").code == 0
    assert fatpack("check", "tree", "--require", "macos14,sm_80").code == 0
    assert fatpack("check", "tree", "--require", "macos14,sm_90").code == 1


@pytest.mark.parametrize(
    ("tag", "functions", "broken"),
    [("macosx_14_0_arm64", OLD, False), ("macosx_13_0_arm64", OLD, True), ("macosx_14_0_arm64", NEW, True)],
)
def test_a_wheel_must_not_promise_an_older_system(
    tag: str, functions: tuple[Function, ...], broken: bool, folder: Path
) -> None:
    path = folder / f"x-1-py3-none-{tag}.whl"
    path.write_bytes(zipped({"x/x.metallib": library(functions)}))
    checked = check(path, require="macos26")
    assert [item.code for item in checked.violations] == ["FP3343"] * broken
    if broken:
        assert "the wheel's name promises macOS 1" in checked.violations[0].message


def test_rows_name_the_system_that_a_function_needs(folder: Path) -> None:
    (folder / "x.metallib").write_bytes(library(NEW))
    assert [row.system for row in rows(folder / "x.metallib") if row.row == "image"] == ["macOS 14.0", "macOS 26.0"]


@pytest.mark.parametrize("order", [">", "<"])
def test_native_code_of_a_universal_file_is_not_read_and_fails(order: str, folder: Path, fatpack: Fatpack) -> None:
    path = folder / "x.metallib"
    path.write_bytes(universal_metal([(AIR64, 0, library(OLD))], order))
    assert fatpack("check", "x.metallib", "--require", "macos14").code == 0
    assert fatpack("check", "x.metallib", "--require", "macos13").code == 1
    native = macho.build([macho.Section(b"__TEXT", b"__compute", bytes(64))], machine=APPLE_GPU)
    path.write_bytes(universal_metal([(AIR64, 0, library(OLD)), (APPLE_GPU, 0x222, native)], order))
    ran = fatpack("check", "x.metallib", "--require", "macos14")
    assert "not read: a universal Metal file with native code" in ran.out
    assert ran.code == 4
    allowed = ("--allow-unread", "metal-universal")
    assert fatpack("check", "x.metallib", "--require", "macos14", *allowed).code == 0
    ran = fatpack("check", "x.metallib", "--require", "macos13", *allowed)
    assert ("FP3342" in ran.out, ran.code) == (True, 1)
