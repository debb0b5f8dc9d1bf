"""The values of providers and the choice of a label, against uv and variantlib, and as the specifications say them."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests import reference
from tests.builders.variants import SHARED, uv_choices, uv_log, write_release

from fatpack.targets.installers.variant_providers import (
    amd_features,
    choose_label,
    fits,
    fitting_labels,
    intel_features,
    is_built_into_uv,
    listed_for_uv,
    nvidia_features,
)

#: Capabilities of devices, and drivers, of which uv is asked; None means none.
DEVICES = ("5.0", "6.1", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1")
DRIVERS = ("11.4", "11.8", "12.0", "12.4", "12.8", "12.9", "13.0", "13.2")


def version(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


def features(capability: str | None, driver: str | None) -> dict[str, tuple[str, ...]]:
    return nvidia_features(
        [] if capability is None else [version(capability)], None if driver is None else version(driver)
    )


def test_the_highest_gpu_alone_is_listed() -> None:
    found = nvidia_features([(8, 6), (9, 0), (7, 5)], (12, 8))
    assert found["sm_arch"] == ("90_real", "90_virtual")
    assert nvidia_features([(10, 3)], (13, 0))["sm_arch"] == (
        "103_real",
        "102_real",
        "101_real",
        "100_real",
        "100_virtual",
    )


def test_bounds_go_down_from_the_driver_and_up_from_it() -> None:
    found = nvidia_features([(9, 0)], (12, 1))
    assert found["cuda_version_lower_bound"][:4] == ("12.1", "12.0", "12", "11.20")
    assert found["cuda_version_lower_bound"][-2:] == ("11.0", "11")
    assert found["cuda_version_upper_bound"][0] == "15.20"
    assert found["cuda_version_upper_bound"][-1] == "12.2"
    assert "12.1" not in found["cuda_version_upper_bound"]


def test_nothing_is_listed_without_a_driver_and_no_code_for_parts_before_5() -> None:
    assert nvidia_features([(9, 0)], None) == {}
    assert "sm_arch" not in nvidia_features([(3, 5)], (11, 4))
    assert "sm_arch" not in nvidia_features([], (12, 8))


def test_amd_lists_every_gpu_and_one_version() -> None:
    found = amd_features(["gfx90a:sramecc+:xnack-", "gfx1100", "gfx90a"], (6, 4))
    assert found == {"gfx_arch": ("gfx90a", "gfx1100"), "rocm_version": ("6.4",)}
    assert amd_features([], None) == {}


def test_intel_lists_the_part_whose_code_runs() -> None:
    assert intel_features(["20.2.0", "12.60.7"]) == {"device_ip": ("20.2.0", "20.1.0", "12.60.7")}
    assert intel_features([]) == {}


def test_each_feature_needs_one_value() -> None:
    machine = {"nvidia": features("9.0", "12.8")}
    assert fits({}, machine)
    assert fits({"nvidia": {"sm_arch": ["80_real", "90_real"], "cuda_version_lower_bound": ["12.4"]}}, machine)
    assert not fits({"nvidia": {"sm_arch": ["90_real"], "cuda_version_lower_bound": ["13.0"]}}, machine)
    assert not fits({"nvidia": {"sm_arch": ["90_real"]}, "amd": {"gfx_arch": ["gfx942"]}}, machine)


def test_the_wheel_without_a_label_is_the_last_resort() -> None:
    machine = {"nvidia": features("9.0", "12.8")}
    variants = {"sm80": {"nvidia": {"sm_arch": ["80_real"]}}, "null": {}}
    assert choose_label(variants, machine, ["nvidia"]) == "null"
    assert choose_label({"sm80": variants["sm80"]}, machine, ["nvidia"]) is None
    assert fitting_labels({"a": {"nvidia": {"sm_arch": ["90_real"]}}, **variants}, machine, ["nvidia"]) == ("a", "null")


#: what providers say of themselves, and whether uv has them
PROVIDERS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "as documented": ("nvidia", SHARED["providers"]["nvidia"], True),
    "no plugin-api": ("nvidia", {"requires": ["nvidia-variant-provider"]}, False),
    "another namespace": ("nv", SHARED["providers"]["nvidia"], False),
    "optional": ("nvidia", {**SHARED["providers"]["nvidia"], "optional": True}, False),
    "a newer version": (
        "nvidia",
        {**SHARED["providers"]["nvidia"], "requires": ["nvidia-variant-provider>=0.0.2"]},
        False,
    ),
    "a range": ("nvidia", {**SHARED["providers"]["nvidia"], "requires": ["NVIDIA_variant.provider >=0.0.1,<1"]}, True),
    "another project": ("nvidia", {**SHARED["providers"]["nvidia"], "requires": ["other"]}, False),
    "two projects": ("nvidia", {**SHARED["providers"]["nvidia"], "requires": ["nvidia-variant-provider", "x"]}, False),
    "with an extra": ("nvidia", {**SHARED["providers"]["nvidia"], "requires": ["nvidia-variant-provider[x]"]}, False),
    "of AMD": (
        "amd",
        {"requires": ["amd-variant-provider"], "plugin-api": "amd_variant_provider.plugin:AMDVariantPlugin"},
        False,
    ),
}


@pytest.mark.parametrize("name", PROVIDERS)
def test_uv_has_one_provider(name: str) -> None:
    namespace, provider, expected = PROVIDERS[name]
    assert is_built_into_uv(namespace, provider) is expected


@pytest.mark.reference
def test_uv_agrees_which_providers_it_has(tmp_path: Path) -> None:
    names = {f"p{number}": name for number, name in enumerate(PROVIDERS)}
    for release, name in names.items():
        namespace, provider, _ = PROVIDERS[name]
        shared = {**SHARED, "default-priorities": {"namespace": [namespace]}, "providers": {namespace: provider}}
        write_release(tmp_path, release, {"x": {namespace: {"sm_arch": ["90_real"]}}}, shared=shared)
    chosen = uv_choices(tmp_path, list(names), "9.0", "12.8")
    assert {names[release]: label == "x" for release, label in chosen.items()} == {
        name: expected for name, (_, _, expected) in PROVIDERS.items()
    }


@pytest.mark.reference
@pytest.mark.slow
def test_uv_lists_the_same_values(tmp_path: Path) -> None:
    """One release for each value: uv takes its variant, or ``null``."""
    values = [("sm_arch", f"{number}_{form}") for number in range(35, 135) for form in ("real", "virtual")]
    values += [("sm_arch", text) for text in ("90a_real", "100f_real", "90", "sm_90")]
    for feature in ("cuda_version_lower_bound", "cuda_version_upper_bound"):
        values += [(feature, str(major)) for major in range(9, 18)]
        values += [(feature, f"{major}.{minor}") for major in range(9, 18) for minor in range(23)]
    names = {f"p{number}": value for number, value in enumerate(values)}
    for name, (feature, value) in names.items():
        write_release(tmp_path, name, {"x": {"nvidia": {feature: [value]}}}, has_plain=False)
    # Devices and drivers are listed under features of their own: each is asked with one of the others.
    cases = [(device, "12.8") for device in DEVICES] + [("9.0", driver) for driver in DRIVERS]
    cases += [("3.5", "12.8"), ("13.0", "13.0"), ("9.0", "15.20"), ("9.0", "10.2"), ("9.0", "16.1")]
    for device, driver in [*cases, (None, "12.8"), ("9.0", None), (None, None)]:
        listed = features(device, driver)
        chosen = uv_choices(tmp_path, list(names), device, driver)
        found = {names[name] for name, label in chosen.items() if label == "x"}
        expected = {value for value in values if value[1] in listed.get(value[0], ())}
        assert found == expected, (device, driver)


@pytest.mark.reference
def test_uv_takes_the_better_variant_before_the_better_platform(tmp_path: Path) -> None:
    write_release(tmp_path, "demo", {"sm90": {"nvidia": {"sm_arch": ["90_real"]}}})
    minor = subprocess.run(
        [reference.variant_tool("python"), "-c", "import sys; print(sys.version_info.minor)"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    tag = f"cp3{minor}-cp3{minor}-linux_x86_64"
    (tmp_path / "demo-1.0-py3-none-any-null.whl").rename(tmp_path / f"demo-1.0-{tag}-null.whl")
    log = uv_log(tmp_path, ["demo"], "9.0", "12.8")
    assert "(demo-1.0-py3-none-any-sm90.whl)" in log
    assert f"(demo-1.0-{tag}-null.whl)" in uv_log(tmp_path, ["demo"], "8.0", "12.8")


#: namespaces of generated releases: NVIDIA's, and one whose properties the release lists itself
STATIC = {"q": ["b", "a", "c"], "p": ["2", "1"]}
MIXED = {
    **SHARED,
    "providers": {**SHARED["providers"], "st": {"static-properties": STATIC, "feature-order": ["q", "p"]}},
}


def generated_variants(draw: random.Random) -> dict[str, dict[str, dict[str, list[str]]]]:
    """Return variants with properties drawn from values that some machines have and others do not."""
    archs = [f"{number}_real" for number in (75, 80, 86, 89, 90, 100, 103)] + ["80_virtual", "90_virtual"]
    pools = {
        ("nvidia", "sm_arch"): (0.6, archs),
        ("nvidia", "cuda_version_lower_bound"): (0.5, ["11", "11.8", "12", "12.0", "12.4", "12.8", "13", "13.0"]),
        ("nvidia", "cuda_version_upper_bound"): (0.3, ["12", "13", "14", "12.9", "13.1", "15"]),
        ("st", "q"): (0.3, ["a", "b", "c", "d"]),
        ("st", "p"): (0.3, ["1", "2", "3"]),
    }
    found: dict[str, dict[str, dict[str, list[str]]]] = {}
    for label in draw.sample(["a1", "b2", "c3", "0x", "z.9", "_q"], draw.randint(1, 5)):
        own: dict[str, dict[str, list[str]]] = {}
        for (namespace, feature), (share, pool) in pools.items():
            if draw.random() < share:
                own.setdefault(namespace, {})[feature] = draw.sample(pool, draw.choice([1, 1, 2, 3]))
        if own:
            found[label] = own
    return found or {"a1": {"nvidia": {"sm_arch": ["80_real"]}}}


@pytest.mark.reference
@pytest.mark.slow
def test_uv_takes_the_same_label(tmp_path: Path) -> None:
    draw = random.Random(28)
    releases: dict[str, tuple[Any, list[str], bool]] = {}
    for number in range(300):
        priorities = draw.choice([["nvidia", "st"], ["st", "nvidia"]])
        variants, has_null = generated_variants(draw), draw.random() < 0.5
        shared = {**MIXED, "default-priorities": {"namespace": priorities}}
        write_release(tmp_path, f"p{number}", variants, shared=shared, has_null=has_null)
        releases[f"p{number}"] = ({**variants, **({"null": {}} if has_null else {})}, priorities, has_null)
    for device, driver in [
        ("7.5", "12.8"),
        ("8.6", "12.4"),
        ("8.9", "11.8"),
        ("9.0", "13.0"),
        ("10.3", "12.9"),
        (None, None),
    ]:
        machine = listed_for_uv(MIXED["providers"], features(device, driver))
        chosen = uv_choices(tmp_path, list(releases), device, driver)
        expected = {name: choose_label(told, machine, order) for name, (told, order, _) in releases.items()}
        assert chosen == expected, (device, driver)
        assert len(set(chosen.values())) > 3


#: What variantlib sorts: lists of variants, and what a machine has.
_SORTS = """
import json, sys
from variantlib.models.variant import VariantDescription, VariantProperty
from variantlib.resolver.lib import sort_and_filter_supported_variants
for line in sys.stdin:
    case = json.loads(line)
    has = [VariantProperty(n, f, v) for n, fs in case["has"].items() for f, vs in fs.items() for v in vs]
    made = [VariantDescription.from_dict(v, label=k) for k, v in case["variants"].items()]
    found = sort_and_filter_supported_variants(
        made, has, case["order"],
        feature_priorities={n: list(fs) for n, fs in case["has"].items()},
        property_priorities={n: {f: list(vs) for f, vs in fs.items()} for n, fs in case["has"].items()},
    )
    print(json.dumps([one.label for one in found]))
"""


@pytest.mark.reference
def test_variantlib_sorts_labels_alike() -> None:
    draw = random.Random(2)
    cases: list[dict[str, Any]] = []
    for _ in range(40):
        device, driver = draw.choice(DEVICES), draw.choice(DRIVERS)
        machine = {"nvidia": features(device, driver), "st": STATIC}
        order = draw.choice([["nvidia", "st"], ["st", "nvidia"]])
        cases.append({"variants": {**generated_variants(draw), "null": {}}, "has": machine, "order": order})
    lines = "".join(f"{json.dumps(case)}\n" for case in cases)
    command = [reference.variant_tool("python"), "-c", _SORTS]
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    found = [tuple(json.loads(line)) for line in done.stdout.splitlines()]
    assert found == [fitting_labels(case["variants"], case["has"], case["order"]) for case in cases]
