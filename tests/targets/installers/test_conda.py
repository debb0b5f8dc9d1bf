"""The model of conda's solvers against rattler's: the same versions, the same specifications, the same builds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import reference
from tests.builders import rattler_solver

from fatpack.targets.installers.conda import (
    CondaMachine,
    CondaPackage,
    UnreadableSpec,
    admitted_devices,
    choose_conda_package,
    compare_versions,
    may_have,
    oldest_driver,
    parse_package_spec,
    parse_version_spec,
    read_conda_index,
)
from fatpack.targets.nvidia import cuda_versions

#: capabilities of machines: each that a device has, and one that none has yet
CAPABILITIES = [tuple(map(int, version.split("."))) for version in rattler_solver.METAPACKAGES]


def index(build: str, *depends: str, number: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "name": "demo",
        "version": "1.0",
        "build": build,
        "build_number": number,
        "depends": list(depends),
        "subdir": "linux-64",
        **more,
    }


def package(*depends: str, subdir: str = "") -> CondaPackage:
    return read_conda_index({"depends": list(depends), "subdir": subdir})


VERSIONS = (
    "0.9 1 1.0 1.0a 1.0.dev1 1.0post1 1.0.1 1!0.5 1.0+2 1.10 1.9 8.0a0 8.0 8.6 9 12.0 2024.1_3 1.0rc2 1.0.0".split()
)


@pytest.mark.parametrize("one", VERSIONS)
def test_versions_are_ordered_as_rattler_orders_them(one: str) -> None:
    rattler = reference.package("rattler")
    for other in VERSIONS:
        left, right = rattler.Version(one), rattler.Version(other)
        expected = (left > right) - (left < right)
        assert compare_versions(one, other) == expected, (one, other)


SPECS = [
    "*",
    "8",
    "8.0",
    "==8.0",
    "=8",
    "=8.0",
    "8.*",
    "8*",
    "8.0.*",
    "!=8.0",
    "!=8.*",
    "~=8.0",
    ">8.0",
    ">=8.0",
    "<9",
    "<=8.6",
    ">=8.0a0",
    "<9.0a0",
    ">=8.0,<9",
    ">=8.0 , <9",
    ">=7.5,<8|>=9.0,<10",
    "(>=7.5,<8)|12.*",
    ">=8.0,(8.6|9.0)",
]


@pytest.mark.parametrize("text", SPECS)
def test_specifications_let_in_what_rattler_lets_in(text: str) -> None:
    rattler = reference.package("rattler")
    expected = rattler.VersionSpec(text)
    found = parse_version_spec(text)
    for version in ((8, 0), (7, 5), (8, 6), (9, 0), (10, 3), (12, 0), (12, 1)):
        assert found.matches(version) == expected.matches(rattler.Version(f"{version[0]}.{version[1]}")), version


@pytest.mark.parametrize(
    "text",
    [
        "cuda-arch",
        "cuda-arch *",
        "cuda-arch 8.0",
        "cuda-arch 8.0 h0_0",
        "cuda-arch =8",
        "cuda-arch=8",
        "cuda-arch==8.0",
        "cuda-arch=8.0=h0_0",
        "cuda-arch >=8.0, <9",
        "cuda-arch>=8.0,<9",
        "conda-forge::cuda-arch >=8.0",
        "cuda-arch[version='>=8.0,<9']",
        'cuda-arch[version=">=8.0", build="h0*"]',
    ],
)
def test_dependencies_let_in_what_rattler_lets_in(text: str) -> None:
    rattler = reference.package("rattler")
    expected, found = rattler.MatchSpec(text.removeprefix("conda-forge::")), parse_package_spec(text)
    assert found.name == "cuda-arch"
    build = rattler.BuildString("h0_0")
    for version in ((7, 5), (8, 0), (8, 6), (9, 0), (10, 3), (12, 1)):
        row = rattler.PackageRecord("cuda-arch", f"{version[0]}.{version[1]}", build, 0, "noarch")
        assert found.versions.matches(version) == expected.matches(row), version


@pytest.mark.parametrize(
    "text", ["", ">=", "8.0 9.0 h0 more", ">=8.0,", "(>=8.0", ">=8.0)", "^8.*$", "8..*x", "x" * 300, "(" * 40 + "8"]
)
def test_what_is_no_specification_is_refused(text: str) -> None:
    with pytest.raises(UnreadableSpec):
        parse_package_spec(f"cuda-arch {text}") if text else parse_version_spec(text)


BOUNDS = st.sampled_from(["5.0", "7.5", "8.0", "8.6", "9.0", "10.0", "10.3", "12.0", "13.0"])
ASKS = st.builds(
    lambda name, low, high: f"{name} >={low}" + (f",<{high}" if high else ""),
    st.sampled_from(["cuda-arch", "__cuda_arch"]),
    BOUNDS,
    st.none() | BOUNDS,
)


@st.composite
def releases(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Draw builds of one package, each with a build number of its own or tracked features."""
    rows = {}
    count = draw(st.integers(1, 5))
    for number in range(count):
        depends = draw(st.lists(ASKS | st.sampled_from(["__cuda >=12.0", "__cuda >=13.1"]), max_size=3))
        constrains = draw(st.lists(ASKS.filter(lambda text: text.startswith("__")), max_size=1))
        row = index(f"b{number}_{number}", *depends, number=number, constrains=constrains)
        row["version"] = draw(st.sampled_from(["1.0", "1.0.1", "0.9rc1"]))
        if draw(st.booleans()):
            row["track_features"] = "worse"
        rows[f"demo-{row['version']}-{row['build']}.conda"] = row
    return rows


@given(rows=releases(), capability=st.sampled_from(CAPABILITIES), cuda=st.sampled_from([(12, 2), (13, 0)]))
@settings(max_examples=400, deadline=None)
def test_the_build_is_the_one_that_rattler_installs(
    rows: dict[str, dict[str, Any]],
    capability: tuple[int, int],
    cuda: tuple[int, int],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = rattler_solver.channel(tmp_path_factory.mktemp("channel"), rows)
    version, driver = (f"{major}.{minor}" for major, minor in (capability, cuda))
    solved = rattler_solver.solve(folder, ["demo"], rattler_solver.virtual_packages(version, driver))
    choice = choose_conda_package(map(read_conda_index, rows.values()), CondaMachine((capability,), cuda))
    assert not choice.equals
    assert (choice.package and choice.package.build) == (solved and solved["demo"])


def test_one_version_of_the_metapackage_has_to_do_for_all_who_ask(tmp_path: Path) -> None:
    rows = {"demo-1.0-b_0.conda": index("b_0", "cuda-arch >=5.0,<7.5", "cuda-arch >=7.5")}
    assert solved_builds(tmp_path, rows, "7.5", "9.0") == {"7.5": None, "9.0": None}
    answer = may_have(package("cuda-arch >=5.0,<7.5", "cuda-arch >=7.5"), CondaMachine(((9, 0),)))
    assert not answer.answer
    assert answer.spec == "cuda-arch >=5.0,<7.5, cuda-arch >=7.5"


def solved_builds(
    folder: Path, rows: Mapping[str, Mapping[str, Any]], *machines: str | None
) -> dict[str | None, str | None]:
    rattler_solver.channel(folder, rows)
    found = {name: rattler_solver.solve(folder, ["demo"], rattler_solver.virtual_packages(name)) for name in machines}
    return {name: None if solved is None else solved["demo"] for name, solved in found.items()}


def test_an_upper_bound_on_the_metapackage_keeps_no_device_away(tmp_path: Path) -> None:
    for text, expected in (("cuda-arch >=8.0,<9.0", "b_0"), ("__cuda_arch >=8.0,<9.0", None)):
        rows = {"demo-1.0-b_0.conda": index("b_0", text)}
        assert solved_builds(tmp_path, rows, "8.6", "9.0", "7.5") == {"8.6": "b_0", "9.0": expected, "7.5": None}
        answer = may_have(package(text), CondaMachine(((9, 0),)))
        assert answer.answer == (expected is not None)
        assert bool(admitted_devices(package(text)).idle) == (expected is not None)


def test_a_machine_is_its_lowest_gpu() -> None:
    machine = CondaMachine(((9, 0), (8, 6)))
    assert may_have(package("__cuda_arch >=8.0,<9.0"), machine).answer
    refused = may_have(package("cuda-arch >=9.0"), machine)
    assert not refused.answer
    assert refused.reason == "this machine has __cuda_arch 8.6, the lowest of its GPUs"


def test_a_machine_without_gpus_gets_what_asks_for_none(tmp_path: Path) -> None:
    rows = {
        "demo-1.0-gpu_1.conda": index("gpu_1", "cuda-arch >=7.5", number=1),
        "demo-1.0-cpu_0.conda": index("cpu_0", constrains=["__cuda_arch >=9.0"]),
    }
    assert solved_builds(tmp_path, rows, None, "8.0") == {None: "cpu_0", "8.0": "gpu_1"}
    choice = choose_conda_package(map(read_conda_index, rows.values()), CondaMachine(()))
    assert choice.package is not None
    assert choice.package.build == "cpu_0"
    assert [(each.build, answer.reason) for each, answer in choice.refused] == [("gpu_1", "there is no __cuda_arch")]


@pytest.mark.parametrize("cuda", ["13.0", "12.2", ""])
@pytest.mark.parametrize("arch", ["8.6", "12.0", ""])
def test_overrides_are_those_of_the_environment(arch: str, cuda: str, tmp_path: Path) -> None:
    rows = {
        "demo-1.0-new_2.conda": index("new_2", "__cuda_arch >=9.0", "__cuda >=13.0", number=2),
        "demo-1.0-gpu_1.conda": index("gpu_1", "cuda-arch >=7.5", number=1),
        "demo-1.0-cpu_0.conda": index("cpu_0", constrains=["__cuda >=12.0"]),
    }
    rattler_solver.channel(tmp_path, rows)
    solved = rattler_solver.solve(tmp_path, ["demo"], rattler_solver.virtual_packages(arch, cuda))
    machine = CondaMachine(((9, 0), (7, 5)), (12, 8))
    variables = {"CONDA_OVERRIDE_CUDA_ARCH": arch, "CONDA_OVERRIDE_CUDA": cuda}
    choice = choose_conda_package(map(read_conda_index, rows.values()), machine.overridden(variables))
    assert (choice.package and choice.package.build) == (solved and solved["demo"])
    assert machine.overridden({}) == machine
    assert machine.overridden({"CONDA_OVERRIDE_CUDA_ARCH": "nine"}).cuda_arch == (7, 5)


def test_equal_builds_are_not_decided() -> None:
    rows = [index("a_0", "cuda-arch >=7.5"), index("b_0", "cuda-arch >=7.5")]
    choice = choose_conda_package(map(read_conda_index, rows), CondaMachine(((8, 0),)))
    assert choice.package is not None
    assert [other.build for other in choice.equals] == ["b_0"]


def test_devices_that_may_have_a_package() -> None:
    found = admitted_devices(package("cuda-arch >=8.0", "__cuda_arch <10.0", subdir="linux-64"))
    assert found.capabilities == ((8, 0), (8, 6), (8, 8), (8, 9), (9, 0))  # no Jetson is an x86-64 machine
    assert not found.is_open
    assert not found.idle
    arm = admitted_devices(package("cuda-arch >=8.0", "__cuda_arch <10.0", subdir="linux-aarch64"))
    assert (8, 7) in arm.capabilities
    assert admitted_devices(package("cuda-arch >=12.0")).is_open
    assert (11, 0) not in admitted_devices(package("cuda-arch >=10.0", subdir="win-64")).capabilities


@pytest.mark.parametrize(
    "values",
    [
        {"depends": "x"},
        {"depends": [1]},
        {"depends": ["cuda-arch ^8$"]},
        {"depends": ["__cuda_arch >=8.0"] * 65},
        {"build": 1},
        {"build_number": "1"},
        {"build_number": -1},
        {"track_features": 1},
    ],
)
def test_an_index_that_cannot_be_read(values: dict[str, Any]) -> None:
    with pytest.raises(UnreadableSpec):
        read_conda_index(values)


@pytest.mark.parametrize(
    ("depends", "constrains", "expected"),
    [
        ((), (), None),
        (("__cuda >=12.4",), (), (12, 4)),
        (("__cuda",), (), None),
        (("__cuda *",), (), None),
        (("cuda-version >=12.9,<13",), (), (12, 0)),
        (("cuda-version",), (), None),
        (("cuda-version 11.8",), (), (11, 0)),
        (("cuda-version >=12.9,<13", "__cuda >=12.8"), (), (12, 8)),
        (("cuda-version >=12.9,<13", "__cuda >=11.8"), (), (12, 0)),
        ((), ("__cuda >=12.2",), (12, 2)),
        (("CUDA-Version >=13.0",), (), (13, 0)),
        (("cuda-versions >=13.0", "my-cuda-version >=13.0", "python >=3.9"), (), None),
        (("__cuda >=99.0",), (), None),
    ],
)
def test_the_oldest_driver_is_the_lowest_version_that_will_do(
    depends: tuple[str, ...], constrains: tuple[str, ...], expected: tuple[int, int] | None
) -> None:
    assert oldest_driver({"depends": list(depends), "constrains": list(constrains)}) == expected


def test_the_first_version_of_cuda_asks_for_no_driver() -> None:
    first, second = cuda_versions()[:2]
    assert oldest_driver({"depends": [f"__cuda >={first[0]}.{first[1]}"]}) is None
    assert oldest_driver({"depends": [f"__cuda >={second[0]}.{second[1]}"]}) == second


@pytest.mark.parametrize(
    ("earlier", "later"),
    [
        ("1.dev", "1.a"),  # CEP 33: dev comes before every word, and each part begins with a number
        ("1.a", "1.0"),
        ("1.0a", "1.0"),
        ("1.0", "1.0post"),
        ("1.a1", "1.1"),
        ("1.0dev1", "1.0dev2"),
        ("1.0a", "1.0b"),
        ("1.0*", "1.0dev"),
    ],
)
def test_words_in_versions_are_ordered_as_cep_33_says(earlier: str, later: str) -> None:
    assert compare_versions(earlier, later) < 0 < compare_versions(later, earlier)


def test_a_part_that_begins_with_a_word_has_a_zero_before_it() -> None:
    assert compare_versions("1.a", "1.0a") == 0
    assert compare_versions("1.2a", "1.a") > 0


@pytest.mark.parametrize("depth", [1, 2, 15])
def test_brackets_in_brackets_are_read(depth: int) -> None:
    found = parse_version_spec("(" * depth + ">=8.0|7.5" + ")" * depth + ",<9")
    assert [found.matches(version) for version in ((7, 0), (7, 5), (8, 6), (9, 0))] == [False, True, True, False]


def test_brackets_that_are_too_deep_are_refused() -> None:
    with pytest.raises(UnreadableSpec):
        parse_version_spec("(" * 17 + "8" + ")" * 17)


def test_conditions_for_devices_leave_the_driver_aside_and_join_metapackages() -> None:
    found = package("__cuda >=12.4", "cuda-arch >=8.0", "cuda-arch <9.0", "__cuda_arch <10")
    assert [spec.name for spec in found.asks] == ["__cuda_arch", "cuda-arch"]
    assert found.asks[1].text == "cuda-arch >=8.0, cuda-arch <9.0"
    assert [spec.name for spec in package("__cuda", "__cuda_arch >=8").asks] == ["__cuda_arch"]
