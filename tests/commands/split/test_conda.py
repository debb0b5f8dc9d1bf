"""Splitting conda packages: ranges of devices, the package that rattler installs for each, and what ``info/`` says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from tests.builders import rattler_solver
from tests.builders.fat_conda import PATH, fat_package, files_of, index_of, repacked

import fatpack
from fatpack.commands.split.model import SplitRefused, SplitResult, SplitVerdict
from fatpack.errors import FatpackError, UsageError
from fatpack.main import main

#: devices that are no Jetsons: those of machines with x86-64 processors
DEVICES = "5.0 5.2 6.0 6.1 7.0 7.5 8.0 8.6 8.9 9.0 10.0 10.3 12.0 12.1".split()

#: code of the fat package, and the ranges of its labels
RANGES: dict[str, dict[str, str]] = {
    "75 80 86 89 90 100 120 p120": {
        "sm75": "cuda-arch >=7.5,<8.0; __cuda_arch <8.0",
        "sm80": "cuda-arch >=8.0,<9.0; __cuda_arch <9.0",
        "sm90": "cuda-arch >=9.0,<10.0; __cuda_arch <10.0",
        "sm100": "cuda-arch >=10.0,<12.0; __cuda_arch <12.0",
        "sm120": "cuda-arch >=12.0",
    },
    # without PTX the last range ends with its major version
    "80 90": {
        "sm80": "cuda-arch >=8.0,<9.0; __cuda_arch <9.0",
        "sm90": "cuda-arch >=9.0,<10.0; __cuda_arch <10.0",
    },
    # PTX of an earlier major version serves all later devices, as a range can say
    "80 p80 90": {"sm80": "cuda-arch >=8.0,<9.0; __cuda_arch <9.0", "sm90": "cuda-arch >=9.0"},
    "80 90 p90 120": {
        "sm80": "cuda-arch >=8.0,<9.0; __cuda_arch <9.0",
        "sm90": "cuda-arch >=9.0,<12.0; __cuda_arch <12.0",
        "sm120": "cuda-arch >=12.0",
    },
    # code with a runs on 10.0 alone: the range ends before 10.3
    "90 100a": {
        "sm90": "cuda-arch >=9.0,<10.0; __cuda_arch <10.0",
        "sm100": "cuda-arch >=10.0,<10.3; __cuda_arch <10.3",
    },
    # nothing runs on 8.x, before and after
    "75 90 p90": {"sm75": "cuda-arch >=7.5,<8.0; __cuda_arch <8.0", "sm90": "cuda-arch >=9.0"},
    # an 8.0 gets the fat package, in which nothing runs there either
    "86 90": {
        "sm86": "cuda-arch >=8.6,<9.0; __cuda_arch <9.0",
        "sm90": "cuda-arch >=9.0,<10.0; __cuda_arch <10.0",
    },
    # nothing runs on 7.0: the range ends before it, and another one starts behind it
    "61 p75; 80": {
        "sm61": "cuda-arch >=6.1,<7.0; __cuda_arch <7.0",
        "sm75": "cuda-arch >=7.5,<8.0; __cuda_arch <8.0",
        "sm80": "cuda-arch >=8.0",
    },
    # a source file that was compiled for 9.0 alone, beside one for all
    "80 90 p90; 90a": {"sm80": "cuda-arch >=8.0,<9.0; __cuda_arch <9.0", "sm90": "cuda-arch >=9.0"},
}


@pytest.fixture(params=[".conda", ".tar.bz2"])
def suffix(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ranges(result: SplitResult) -> dict[str, str]:
    (release,) = result.releases
    return {one.label: "; ".join(one.properties["conda"]["depends"]) for one in release.labels}


def installer(out: Path) -> Callable[[str | None], Path | None]:
    """Return a function that has rattler choose from the packages in a folder for a machine, by ``__cuda_arch``."""
    paths = {index_of(path)["build"]: path for path in sorted(out.iterdir())}
    libgcc = {"name": "libgcc", "version": "1", "build": "0", "build_number": 0, "depends": []}
    rows = {path.name: index_of(path) for path in paths.values()} | {"libgcc-1-0.conda": libgcc}
    folder = rattler_solver.channel(out.with_name(f"channel-{out.name}"), rows)

    def install(capability: str | None) -> Path | None:
        found = rattler_solver.solve(folder, ["demo"], rattler_solver.virtual_packages(capability))
        return None if found is None else paths[found["demo"]]

    return install


def served(path: Path, device: str) -> tuple[int, int]:
    """Return how many units of a package run on a device, and of how many that is not known, by ``explain``."""
    (answer,) = fatpack.explain(path, device).devices
    return answer.runs, answer.unknown


@pytest.mark.parametrize("code", RANGES)
def test_rattler_installs_for_each_device_what_runs_there(code: str, tmp_path: Path) -> None:
    fat = fat_package(tmp_path, *code.split("; "))
    result = fatpack.split(fat, tmp_path / "out")
    assert ranges(result) == RANGES[code]
    (package,) = result.releases[0].packages
    names = {one.label: one.name for one in package.variants} | {"": fat.name}
    told = {one.device: names[one.label] for one in package.devices}
    install = installer(tmp_path / "out")
    for device in DEVICES:
        path = install(device)
        assert path is not None
        assert path.name == told[device], device
        assert served(path, device) == served(fat, device), device
    assert install(None) is None  # the fat package asks for a device, too
    checked = fatpack.check([str(tmp_path / "out" / name) for label, name in names.items() if label], metadata=True)
    assert checked.verdict == "passed", checked


ARCHS = (
    "50 53 60 61 70 72 75 80 86 87 89 90 90a 100 100a 100f 103 110 120 120f 121 p50 p61 p75 p80 p90 p90a p120".split()
)
CODE = st.lists(st.sampled_from(ARCHS), min_size=1, max_size=7, unique=True).map(" ".join)


@pytest.mark.slow
@pytest.mark.parametrize("subdir", ["linux-64", "linux-aarch64"])
@given(
    code=st.lists(CODE, min_size=1, max_size=3),
    depends=st.sampled_from(["libgcc", "cuda-arch >=5.0", "cuda-arch >=8.6", "__cuda_arch >=7.0,<12.0"]),
    by=st.sampled_from(["family", "device"]),
)
@settings(max_examples=8, deadline=None)
def test_whatever_code_is_split_is_proved_and_declares_what_it_has(
    subdir: str, code: list[str], depends: str, by: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("split")
    fat = fat_package(folder, *code, depends=[depends], subdir=subdir)
    try:
        fatpack.split(fat, folder / "out", by=by)
    except SplitRefused as error:
        assert "no label is left" in str(error)  # any other refusal is a fault
        return
    assert fatpack.verify_split(fat, folder / "out").is_proved
    made = [str(path) for path in (folder / "out").iterdir() if path.name != fat.name]
    broken = [item.message for item in fatpack.check(made, metadata=True).violations if item.is_broken]
    assert not broken


def test_devices_that_are_yet_to_come_get_ptx(tmp_path: Path) -> None:
    for code, expected in (("80 90 p90", "demo-1.5-sm90_h12_0.conda"), ("80 90", "demo-1.5-h12_0.conda")):
        out = tmp_path / code
        fatpack.split(fat_package(tmp_path, code), out)
        path = installer(out)("13.0")
        assert path is not None
        assert path.name == expected
        assert (b".target sm_90" in files_of(path)[PATH]) == ("p90" in code)


def test_a_machine_with_several_gpus_can_ask_for_the_fat_package(tmp_path: Path) -> None:
    fatpack.split(fat_package(tmp_path, "80 90 p90"), tmp_path / "out")
    installer(tmp_path / "out")
    machine = rattler_solver.virtual_packages("8.6")
    found = rattler_solver.solve(tmp_path / "channel-out", ["demo ==1.5 h12_0"], machine)
    assert found is not None
    assert found["demo"] == "h12_0"


def test_machines_without_gpus_get_the_fat_package(tmp_path: Path) -> None:
    fat = fat_package(tmp_path, "80 90 p90", depends=["libgcc"])
    fatpack.split(fat, tmp_path / "out")
    install = installer(tmp_path / "out")
    assert [path and path.name for path in map(install, (None, "7.5"))] == [fat.name, fat.name]


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        (
            "device",
            {
                "sm80": "cuda-arch >=8.0,<8.6; __cuda_arch <8.6",
                "sm86": "cuda-arch >=8.6,<9.0; __cuda_arch <9.0",
                "sm90": "cuda-arch >=9.0",
            },
        ),
        # a 9.0 has code of its own in the fat package, so that no range of others reaches it
        ("ampere=sm_80+sm_86", {"ampere": "cuda-arch >=8.0,<9.0; __cuda_arch <9.0"}),
        ("old=sm_80,hopper=sm_90", {"old": "cuda-arch >=8.0,<9.0; __cuda_arch <9.0", "hopper": "cuda-arch >=9.0"}),
        (["sm_90"], {"sm90": "cuda-arch >=9.0"}),
    ],
)
def test_labels_as_given(by: str | list[str], expected: dict[str, str], tmp_path: Path) -> None:
    fat = fat_package(tmp_path, "80 86 90 p90")
    assert ranges(fatpack.split(fat, tmp_path / "out", by=by)) == expected
    install = installer(tmp_path / "out")
    for device in DEVICES:
        path = install(device)
        assert path is not None
        assert served(path, device) == served(fat, device), device


def test_the_virtual_package_alone(tmp_path: Path, suffix: str) -> None:
    fat = fat_package(tmp_path, "80 90 p90", suffix=suffix, depends=["libgcc", "cuda-arch >=7.5"])
    result = fatpack.split(fat, tmp_path / "out", depend_on="__cuda_arch")
    assert ranges(result) == {"sm80": "__cuda_arch >=8.0,<9.0", "sm90": "__cuda_arch >=9.0"}
    assert index_of(tmp_path / "out" / f"demo-1.5-sm80_h12_0{suffix}")["depends"] == [
        "libgcc",
        "__cuda_arch >=8.0,<9.0",
    ]
    install = installer(tmp_path / "out")
    for device, expected in {"7.5": "h12_0", "8.6": "sm80_h12_0", "9.0": "sm90_h12_0", "12.0": "sm90_h12_0"}.items():
        path = install(device)
        assert path is not None
        assert index_of(path)["build"] == expected


def test_what_describes_the_package_follows(tmp_path: Path, suffix: str) -> None:
    depends, more = ["libgcc", "cuda-arch >=7.5", "zlib"], {"lib/other.so": b"no code"}
    fat = fat_package(tmp_path, "80 90 p90", suffix=suffix, depends=depends, build_number=3, more=more)
    fatpack.split(fat, tmp_path / "out")
    path = tmp_path / "out" / f"demo-1.5-sm80_h12_0{suffix}"
    before, after = files_of(fat), files_of(path)
    index = json.loads(before["info/index.json"])
    bounds = ["cuda-arch >=8.0,<9.0", "__cuda_arch <9.0"]
    changed = {"build": "sm80_h12_0", "build_number": 103, "depends": ["libgcc", "zlib", *bounds]}
    assert json.loads(after["info/index.json"]) == index | changed
    library = after[PATH]
    assert library != before[PATH]
    entries = {entry["_path"]: entry for entry in json.loads(after["info/paths.json"])["paths"]}
    digest = hashlib.sha256(library).hexdigest()
    for name in (PATH, "lib/libdemo.so"):
        assert (entries[name]["sha256"], entries[name]["size_in_bytes"]) == (digest, len(library))
    same = set(before) - {PATH, "info/index.json", "info/paths.json"}
    assert {name: before[name] for name in same} == {name: after[name] for name in same}
    assert (tmp_path / "out" / fat.name).read_bytes() == fat.read_bytes()


def test_the_reference_tool_reads_a_package(tmp_path: Path, suffix: str) -> None:
    fatpack.split(fat_package(tmp_path, "80 90 p90", suffix=suffix), tmp_path / "out")
    handling = reference.package("conda_package_handling.api")
    name = f"demo-1.5-sm90_h12_0{suffix}"
    handling.extract(str(tmp_path / "out" / name), str(tmp_path / "opened"))
    assert (tmp_path / "opened" / PATH).read_bytes() == files_of(tmp_path / "out" / name)[PATH]
    assert (tmp_path / "opened/lib/libdemo.so").is_symlink()
    rattler = reference.package("rattler")
    index = rattler.IndexJson.from_path(tmp_path / "opened/info/index.json")
    assert (str(index.build), index.build_number) == ("sm90_h12_0", 100)
    paths = rattler.PathsJson.from_path(tmp_path / "opened/info/paths.json")
    assert len(paths.paths) == 3


def test_a_fat_package_for_some_devices_keeps_its_bounds(tmp_path: Path) -> None:
    fat = fat_package(tmp_path, "80 90 120 p120", depends=["__cuda_arch >=8.6,<12.1"])
    result = fatpack.split(fat, tmp_path / "out")
    assert ranges(result) == {
        "sm80": "cuda-arch >=8.6,<9.0; __cuda_arch <9.0",
        "sm90": "cuda-arch >=9.0,<10.0; __cuda_arch <10.0",
        "sm120": "cuda-arch >=12.0,<13.0; __cuda_arch <13.0",
    }
    depends = index_of(tmp_path / "out/demo-1.5-sm90_h12_0.conda")["depends"]
    assert depends == ["cuda-arch >=9.0,<10.0", "__cuda_arch <10.0"]
    depends = index_of(tmp_path / "out/demo-1.5-sm120_h12_0.conda")["depends"]
    assert depends == ["__cuda_arch >=8.6,<12.1", "cuda-arch >=12.0,<13.0", "__cuda_arch <13.0"]
    install = installer(tmp_path / "out")
    assert [path and path.name for path in map(install, ("8.0", "12.1"))] == [None, None]


def test_packages_of_a_release_share_labels(tmp_path: Path) -> None:
    both = [fat_package(tmp_path, "80 90", build="py12_0"), fat_package(tmp_path, "80", build="py13_0")]
    (release,) = fatpack.split(both, tmp_path / "out").releases
    assert [one.label for one in release.labels] == ["sm80", "sm90"]
    assert [[one.label for one in package.variants] for package in release.packages] == [["sm80", "sm90"], ["sm80"]]
    assert (release.kind, release.index, release.schema_version) == ("conda", "", "")
    other = fat_package(tmp_path, "80 90", build="py14_0", depends=["cuda-arch >=8.0"])
    assert len(fatpack.split([*both, other], tmp_path / "out2").releases) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"null": "rest"}, "null='rest' is for wheels"),
        ({"insist": "sm80"}, "insist= is for wheels"),
        ({"by": "a=sm_80+sm_90,b=sm_86"}, "labels a and b lie between each other"),
        ({"by": "gfx942"}, "no label is left: gfx942: "),
        ({"by": "sm_50"}, "no label is left: sm50: nothing runs on the devices"),
        ({"depend_on": "cuda"}, "depend_on 'cuda'"),
    ],
)
def test_what_a_conda_package_cannot_have(options: dict[str, Any], words: str, tmp_path: Path) -> None:
    fat = fat_package(tmp_path, "80 86 90")
    with pytest.raises(FatpackError, match=words):
        fatpack.split(fat, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_packages_that_are_refused(tmp_path: Path) -> None:
    fat = fat_package(tmp_path, "80 90")
    other = fat.rename(tmp_path / "other-1.5-h12_0.conda")
    with pytest.raises(UsageError, match="is not the name of this package"):
        fatpack.split(other, tmp_path / "out")
    lying = repacked(other, tmp_path / fat.name, {PATH: files_of(other)[PATH] + b"\0"})
    with pytest.raises(FatpackError) as caught:
        fatpack.split(lying, tmp_path / "out")
    assert (caught.value.exit_code, "sha256" in str(caught.value) or "size_in_bytes" in str(caught.value)) == (3, True)
    unread = fat_package(tmp_path, "80 90", depends=["cuda-arch ^8$"])
    with pytest.raises(FatpackError) as caught:
        fatpack.split(unread, tmp_path / "out")
    assert caught.value.exit_code == 3
    assert not (tmp_path / "out").exists()


def test_the_text_says_which_gpu_decides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fat = fat_package(tmp_path, "80 90 p90")
    assert main(["split", str(fat), "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert "cuda-arch >=8.0,<9.0, __cuda_arch <9.0" in text
    assert "of several GPUs in one machine solvers look at the oldest alone" in text
    assert "schema" not in text


# The proof of what is there.


@pytest.fixture
def split_out(tmp_path: Path, suffix: str) -> tuple[Path, Path]:
    """Return a fat package, and a folder with what was made of it."""
    fat = fat_package(tmp_path, "80 86 90 p90", suffix=suffix, depends=["libgcc", "cuda-arch >=7.5"])
    fatpack.split(fat, tmp_path / "out")
    return fat, tmp_path / "out"


def change(path: Path, files: Mapping[str, bytes] | None = None, **index: Any) -> None:
    described = index_of(path) | index
    repacked(path, path, {**(files or {}), "info/index.json": json.dumps(described).encode()})


def test_a_split_is_proved_from_its_files(split_out: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    fat, out = split_out
    verdict = fatpack.verify_split(fat, out)
    assert (verdict.is_proved, [one.label for one in verdict.variants], verdict.lost) == (True, ["sm80", "sm90"], ())
    assert main(["split", "--verify", str(fat), str(out)]) == 0
    assert "2 of 2 packages proved" in capsys.readouterr().out


def problems(verdict: SplitVerdict) -> list[str]:
    assert not verdict.is_proved
    return [*(problem for one in verdict.variants for problem in one.problems), *(one.words for one in verdict.lost)]


def test_a_bound_that_does_not_hold_is_found(split_out: tuple[Path, Path], suffix: str) -> None:
    fat, out = split_out
    change(out / f"demo-1.5-sm90_h12_0{suffix}", build_number=99)  # so that a 9.0 gets the other one
    change(out / f"demo-1.5-sm80_h12_0{suffix}", depends=["libgcc", "cuda-arch >=8.0,<9.0"])
    found = problems(fatpack.verify_split(fat, out))
    assert any("9.0" in one and "gets sm80" in one for one in found), found


def test_other_differences_are_found(split_out: tuple[Path, Path], suffix: str) -> None:
    fat, out = split_out
    path = out / f"demo-1.5-sm80_h12_0{suffix}"
    original = path.read_bytes()
    for files, index, words in (
        ({}, {"depends": ["libgcc", "cuda-arch >=7.0"]}, "devices that may not have the fat package"),
        ({}, {"build_number": 0}, "build_number 0 is not above 0"),
        ({}, {"depends": ["libgcc", "cuda-arch ^8$"]}, "no specification of versions"),
        ({}, {"depends": ["cuda-arch >=8.0"]}, "depends, but for cuda-arch"),
        ({"site-packages/demo.py": b"value = 2\n"}, {}, "site-packages/demo.py"),
    ):
        path.write_bytes(original)
        change(path, files, **index)
        found = problems(fatpack.verify_split(fat, out))
        assert any(words in one for one in found), (words, found)


def test_a_folder_without_packages_of_the_fat_one(split_out: tuple[Path, Path], tmp_path: Path) -> None:
    fat, _ = split_out
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="has no variant"):
        fatpack.verify_split(fat, tmp_path / "empty")
