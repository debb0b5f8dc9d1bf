"""Every case of documents and threads (``cases.toml``): from packed containers to the image that a device loads."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from tests.builders import offered

import fatpack
from fatpack.commands.explain.model import DeviceAnswer, ExplainResult, ImageSetAnswer
from fatpack.targets.selection.rules import all_rules

TABLES = tomllib.loads((Path(__file__).parent / "cases.toml").read_text(encoding="utf-8"))
CASES = [
    (kind, *(cell.strip() for cell in line.split("|")))
    for kind, table in TABLES.items()
    for line in table.strip().splitlines()
]


def asked(kind: str, images: str, device: str) -> ExplainResult:
    """Return the answer for a container of some images."""
    name, _, setting = device.partition("; ")
    known: dict[str, object] = {}
    if "=" in setting:
        known["env"] = dict([setting.split("=")])
    elif setting:
        option, _, version = setting.partition(" ")
        known[option] = version
    data: bytes = getattr(offered, kind)(images)
    return fatpack.explain(data, name, **known)  # type: ignore[arg-type]


def spelled(unit: ImageSetAnswer) -> str:
    """Return what became of a unit as the tables have it."""
    if unit.outcome == "unknown":
        return "?"
    if unit.outcome == "fails":
        assert unit.error is not None
        return unit.rule if unit.error.code is None and unit.error.text else str(unit.error.code)
    taken = next(image for image in unit.images if image.role == "taken")
    name = taken.name.removeprefix("sm_").replace("compute_", "p").removesuffix("-unknown-unknown")
    if unit.runtime == "sycl" and not name.startswith("spir64"):
        name = f"spir64_gen:{name}"
    return f"({name})" if unit.outcome == "compiles" else name


@pytest.mark.parametrize(("kind", "number", "images", "device", "expected", "rule", "source"), CASES)
def test_a_device_gets_what_its_vendor_and_users_say(
    kind: str, number: str, images: str, device: str, expected: str, rule: str, source: str
) -> None:
    explained = asked(kind, images, device)
    (answer,) = explained.devices
    (unit,) = answer.units
    assert (spelled(unit), unit.rule) == (expected, rule)
    assert explained.exit_code == (expected == "?" or unit.outcome == "fails")
    assert answer.is_served is (explained.exit_code == 0)
    assert source
    assert {image.rule for image in unit.images} | {unit.rule} <= {row.name for row in explained.rules}


def test_there_are_enough_cases_and_none_twice() -> None:
    assert len(CASES) >= 100
    assert len({row[1] for row in CASES}) == len(CASES)


def test_nothing_for_a_vendor() -> None:
    (answer,) = asked("cuda", "90", "gfx1030").devices
    assert answer.verdict == "gfx1030: nothing in it is for AMD devices"
    assert not answer.is_served


def only(kind: str, images: str, device: str) -> tuple[DeviceAnswer, ImageSetAnswer]:
    (answer,) = asked(kind, images, device).devices
    (unit,) = answer.units
    return answer, unit


def test_what_fixes_is_reported() -> None:
    _, unit = only("cuda", "100a", "sm_103")
    assert unit.fixes[0] == "install a build of this library that has sm_103, or PTX for compute_103 or lower"
    assert "sm_100f" in unit.fixes[1]
    assert "nvcc -gencode arch=compute_103,code=sm_103" in unit.fixes[2]
    assert unit.fixes[3] == "or with clang: --offload-arch=sm_103"
    _, unit = only("cuda", "p80@8.8", "RTX 3090; driver 535")
    assert unit.fixes[0] == "a driver of CUDA 12.9 or newer (driver 575), for PTX 8.8"
    _, unit = only("cuda", "90 zstd", "sm_90; driver 535")
    assert "driver 550" in unit.fixes[0]
    assert "--recompress lz4" in unit.fixes[1]
    _, unit = only("cuda", "80 p75", "sm_90; CUDA_DISABLE_PTX_JIT=1")
    assert unit.fixes[0] == "unset CUDA_DISABLE_PTX_JIT"
    _, unit = only("sycl", "spir64_gen:pvc", "Arc A770")
    assert "-fsycl-targets=intel_gpu_acm_g10" in unit.fixes[0]


def test_an_override_is_named_only_with_its_danger() -> None:
    _, unit = only("hip", "gfx1030", "gfx1031")
    assert "--offload-arch=gfx1031" in unit.fixes[0]
    assert not any("HSA_OVERRIDE" in text for text in unit.fixes)
    assert unit.danger.startswith("HSA_OVERRIDE_GFX_VERSION=10.3.0")
    assert "not checked" in unit.danger
    assert "ROCm/rocm-systems#3531" in unit.danger
    _, unit = only("hip", "gfx900", "gfx1031")
    assert not unit.danger


def test_the_driver_that_is_needed_is_reported_where_none_was_named() -> None:
    answer, _ = only("cuda", "p80@8.7", "RTX 4090")
    assert answer.notes == ("needs a driver of CUDA 12.8 or newer (driver 570); pass driver= to check yours",)


def test_a_driver_that_is_older_than_the_device_is_not_said_to_run_anything() -> None:
    for images in ("120", "90 p90"):
        answer, unit = only("cuda", images, "RTX 5090; driver 535")
        assert (unit.outcome, unit.rule) == ("unknown", "C18")
        assert unit.reason == "the driver is of CUDA 12.2, and CUDA first knows sm_120 in 12.8"
        assert unit.fixes == ("a driver of CUDA 12.8 or newer (driver 570), for sm_120",)
        assert not answer.is_served
    assert only("cuda", "120", "RTX 5090; driver 570")[1].outcome == "runs"


def test_the_driver_to_install_is_the_one_for_everything_in_the_way() -> None:
    _, unit = only("cuda", "p80@9.0 zstd", "RTX 4090; driver 535")
    assert unit.rule == "C15"
    assert unit.fixes[0] == "a driver of CUDA 13.0 or newer (driver 580), for PTX 9.0"
    assert not any("lz4" in text for text in unit.fixes)
    _, unit = only("cuda", "p80@8.0 zstd", "RTX 4090; driver 535")
    assert [text.partition(":")[0] for text in unit.fixes] == [
        "a driver of CUDA 12.4 or newer (driver 550), for zstd",
        "or the same images with LZ4",
    ]


def test_what_is_not_compared_is_reported() -> None:
    answer, _ = only("cuda", "90", "H100; driver 550")
    assert answer.notes == ("its CUDA runtime library is not known, and was not compared with the driver",)
    answer, _ = only("hip", "gfx1031", "gfx1031; driver 550")
    assert answer.notes == ("driver= is NVIDIA's: not used for gfx1031",)


def test_a_version_is_a_text_or_a_number() -> None:
    data = offered.cuda("90 zstd")
    expected = fatpack.explain(data, "sm_90", driver="535").to_dict()
    for known in ({"driver": 535}, {"driver": "r535"}, {"driver": 535.104}, {"cuda": 12.2}):
        assert fatpack.explain(data, "sm_90", **known).to_dict() == expected  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="driver must be a version, as a text or a number, got list"):
        fatpack.explain(data, "sm_90", driver=[535])  # type: ignore[arg-type]


def test_a_file_that_is_not_there_is_named_once(tmp_path: Path) -> None:
    explained = fatpack.explain(tmp_path / "nope.so", "sm_87")
    assert explained.devices[0].verdict == "sm_87: nothing was read"
    (unread,) = explained.unread
    assert str(tmp_path) not in unread.problem


def test_settings_that_differ_are_distinguished() -> None:
    _, unit = only("hip", "gfx90a:xnack-", "gfx90a:sramecc+")
    outcomes = {state.state: state.outcome for state in unit.states}
    assert outcomes == {"gfx90a:sramecc+:xnack+": "fails", "gfx90a:sramecc+:xnack-": "runs"}
    assert unit.images[0].fits == "some"


#: rules of the table that no case here has, and the test that has them
ELSEWHERE = {
    "C1": "test_a_unit_without_an_image_does_not_fail_the_others",
    "C10": "tests/targets/selection/test_asking.py: labels",
    "C11": "tests/targets/selection/test_asking.py: relocatable PTX",
    "C14": "test_units.py: relocatable code",
    "C16": "tests/targets/selection/test_asking.py: a cubin without a container",
    "C17": "tests/targets/test_libraries.py",
    "C18": "test_a_driver_that_is_older_than_the_device_is_not_said_to_run_anything",
    "C19": "test_units.py: the CUDA runtime of the program",
    "M5": "test_bytes.py: OpenMP on Intel devices",
    "H5": "tests/targets/selection/test_asking.py: the header of a code object",
    "H6": "tests/targets/selection/test_asking.py: a code object without a bundle",
    "H7": "the text that programs are told where H3 fails",
    "H8": "test_units.py: devices of one machine",
    "H10": "the states that HSA_XNACK leaves, with rule H3",
    "H15": "test_units.py: bitcode in objects",
    "H16": "test_tensile.py",
    "H17": "test_tensile.py",
    "K6": "tests/targets/selection/test_kpack.py",
    "K7": "test_units.py: archives and several devices",
    "Y3": "test_units.py: what kernels require",
    "M4": "test_units.py: bitcode in objects",
    "G1": "tests/targets/selection/test_libgomp.py",
    "G2": "tests/targets/selection/test_libgomp.py",
    "G3": "tests/targets/selection/test_libgomp.py",
    "G4": "tests/targets/selection/test_libgomp.py",
}


def test_every_rule_has_a_case_or_a_test_elsewhere() -> None:
    named = set()
    for kind, _, images, device, *_ in CASES:
        for answer in asked(kind, images, device).devices:
            named |= {unit.rule for unit in answer.units}
            named |= {image.rule for unit in answer.units for image in unit.images}
    assert {rule.name for rule in all_rules()} == named | set(ELSEWHERE)
    assert not named & set(ELSEWHERE)


def test_a_unit_without_an_image_does_not_fail_the_others() -> None:
    (answer,) = fatpack.explain(offered.cuda("90") + offered.cuda("80"), "sm_90").devices
    assert (answer.runs, answer.fails) == (1, 1)


def field(images: str, name: str, **known: str) -> tuple[str, ImageSetAnswer]:
    """Return the first line and the unit of a case that users met."""
    (answer,) = fatpack.explain(offered.cuda(images), name, **known).devices  # type: ignore[arg-type]
    (unit,) = answer.units
    return answer.verdict, unit


def test_vllm_56549_code_for_b200_alone_on_b300() -> None:
    verdict, unit = field("90a 100a", "B300")
    assert verdict.startswith("NVIDIA B300 (sm_103): the only container fails: no kernel image is available")
    assert {image.name: image.reason for image in unit.images}["sm_100a"] == "runs on compute capability 10.0 only"
    assert "sm_100a is for 10.0 alone: built as sm_100f it runs here, too" in unit.fixes


def test_executorch_21567_a_wheel_built_for_the_gpu_of_the_build_machine() -> None:
    verdict, unit = field("90", "RTX 5090")
    assert verdict.startswith("GeForce RTX 5090 (sm_120): the only container fails")
    assert unit.fixes[0] == "install a build of this library that has sm_120, or PTX for compute_120 or lower"


def test_bitsandbytes_2046_a_list_without_the_device() -> None:
    verdict, unit = field("75 80 86 89 90", "V100")
    assert verdict.startswith("NVIDIA V100 (sm_70): the only container fails")
    assert not any(image.fits == "yes" for image in unit.images)


def test_therock_7839_gfx1100_is_installed_and_the_device_is_a_gfx1101() -> None:
    (answer,) = fatpack.explain(offered.kpack("gfx1100"), "RX 7800 XT").devices
    (unit,) = answer.units
    assert (unit.outcome, unit.rule) == ("fails", "K4")
    assert answer.verdict.startswith("Radeon RX 7800 XT (gfx1101): the only program fails")
    assert "gfx1101" in unit.fixes[0]


def test_ollama_16449_zstd_on_a_driver_of_535() -> None:
    verdict, unit = field("70 zstd", "V100", driver="535.288.01")
    assert verdict.endswith("device kernel image is invalid (cudaErrorInvalidKernelImage)")
    assert "drivers inflate zstd since CUDA 12.4" in unit.reason
    assert unit.fixes[1] == "or the same images with LZ4: fatpack slim FILE -o OUT --recompress lz4"
