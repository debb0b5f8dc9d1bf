"""Variants of wheels: the values that providers list for a machine, and the label that an installer takes.

A variant has properties: a namespace (the vendor), features and values. A provider lists for each feature the values
that a machine has, best first. A variant fits if the machine has one value of *each* of its features.

::

    nvidia :: sm_arch                      90_real, 90_virtual for a machine whose highest GPU is 9.0
    nvidia :: cuda_version_lower_bound     12.8 and all before, down to 11, for a driver of CUDA 12.8
    nvidia :: cuda_version_upper_bound     12.9 and all after, up to 15.20: the bound excludes
    amd :: gfx_arch, amd :: rocm_version   gfx942, gfx1100; 7.0
    intel :: device_ip                     20.2.0, and 20.1.0, on whose code it runs

Sources: PEP 825 and PEP 850 (drafts); nvidia-variant-provider (ffea5d3b), amd-variant-provider (4d985a9),
intel-variant-provider; variantlib 0.2.2 and uv 0.13.9, with which ``tests/targets/installers`` compares all that is
said here of labels, of NVIDIA's values, and of the providers that uv has.

uv runs no provider: it has version 0.0.1 of NVIDIA's built in, and knows it by ``plugin-api`` and ``requires`` alone.
It skips all others, those of AMD and Intel too, so that no variant fits that has a property of theirs.
"""

from __future__ import annotations

import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import TypeAlias

    #: feature → values, of a variant or, best first, of a machine
    Features: TypeAlias = "Mapping[str, Sequence[str]]"

    #: namespace → features
    Properties: TypeAlias = "Mapping[str, Features]"

#: The label of the variant without properties, which fits every machine.
NULL_LABEL = "null"

#: NVIDIA's provider as uv knows it: its plug-in, its project, and the version that uv has built in.
NVIDIA_PLUGIN = "nvidia_variant_provider.plugin:NvidiaVariantPlugin"
NVIDIA_PROJECT = "nvidia-variant-provider"
UV_VERSION = "0.0.1"

#: The lowest compute capability that NVIDIA's provider lists anything for.
LOWEST_CAPABILITY = (5, 0)

#: The major versions of CUDA that NVIDIA's provider lists, and the highest minor version of each.
CUDA_MAJORS = range(11, 16)
HIGHEST_CUDA_MINOR = 20

#: Intel's device IPs that run code of another one, by the table of its provider.
_INTEL_BASE = {
    **dict.fromkeys(("30.1.0", "30.3.1", "30.4.4", "30.5.4"), "30.0.4"),
    **dict.fromkeys(("20.2.0", "20.4.4"), "20.1.0"),
    "12.71.4": "12.70.4",
    **dict.fromkeys(("12.56.5", "12.57.0"), "12.55.8"),
}


def nvidia_features(
    capabilities: Iterable[tuple[int, int]], driver_cuda: tuple[int, int] | None
) -> dict[str, tuple[str, ...]]:
    """Return what NVIDIA's provider lists for a machine, by feature, in the order of features and values.

    ``capabilities`` are those of its GPUs, of which the provider looks at the highest alone. ``driver_cuda`` is the
    CUDA version of the driver; without a driver nothing is listed.
    """
    if driver_cuda is None:
        return {}
    major, minor = driver_cuda
    lower = [
        value
        for number in range(major, CUDA_MAJORS[0] - 1, -1)
        for value in _versions(number, minor if number == major else HIGHEST_CUDA_MINOR)
    ]
    upper = [
        value
        for number in range(CUDA_MAJORS[-1], major - 1, -1)
        for value in (
            _versions(number, HIGHEST_CUDA_MINOR)
            if number > major
            else (f"{number}.{other}" for other in range(HIGHEST_CUDA_MINOR, minor, -1))
        )
    ]
    found = {"cuda_version_lower_bound": tuple(lower), "cuda_version_upper_bound": tuple(upper)}
    highest = max(capabilities, default=(0, 0))
    if highest >= LOWEST_CAPABILITY:
        real = (f"{highest[0]}{number}_real" for number in range(highest[1], -1, -1))
        found["sm_arch"] = (*real, f"{highest[0]}0_virtual")
    return {name: values for name, values in found.items() if values}


def _versions(major: int, minor: int) -> Iterable[str]:
    """Yield ``12.3``, ``12.2`` … ``12.0``, ``12``."""
    yield from (f"{major}.{number}" for number in range(minor, -1, -1))
    yield str(major)


#: namespace → feature → the values that its provider lists for some machine
_LISTED = {
    "nvidia": {
        "sm_arch": re.compile(r"([5-9]|1[0-9])([0-9]_real|0_virtual)"),
        "cuda_version_lower_bound": re.compile(r"1[1-9](\.[0-9]{1,2})?"),
        "cuda_version_upper_bound": re.compile(r"1[1-5](\.(1?[0-9]|20))?"),
    },
    "amd": {"gfx_arch": re.compile(r"gfx[0-9a-f]+"), "rocm_version": re.compile(r"[0-9]+\.[0-9]+")},
    "intel": {"device_ip": re.compile(r"[0-9]+\.[0-9]+\.[0-9]+")},
}


def never_listed(
    provider: Mapping[str, object], namespace: str, feature: str, values: Iterable[str]
) -> tuple[str, ...]:
    """Return the values of a feature that the provider lists for no machine; none of a provider that is not known.

    ``provider`` is what the release says of it: its ``static-properties`` are all that are listed.
    """
    static = provider.get("static-properties")
    if isinstance(static, dict):
        return tuple(value for value in values if value not in static.get(feature, ()))
    known = _LISTED.get(namespace)
    if known is None:
        return ()
    form = known.get(feature)
    return tuple(value for value in values if form is None or form.fullmatch(value) is None)


def amd_features(archs: Iterable[str], rocm: tuple[int, int] | None) -> dict[str, tuple[str, ...]]:
    """Return what AMD's provider lists: the processors of all GPUs (``gfx90a``, without features), and ROCm's version.

    The list has exactly that version: a variant for ROCm 6.3 does not fit 6.4.
    """
    processors = tuple(dict.fromkeys(arch.partition(":")[0] for arch in archs))
    found = {"gfx_arch": processors, "rocm_version": () if rocm is None else (f"{rocm[0]}.{rocm[1]}",)}
    return {name: values for name, values in found.items() if values}


def intel_features(device_ips: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return what Intel's provider lists: the IP version of each GPU (``20.2.0``), and the one whose code it runs."""
    values = (value for ip in device_ips for value in (ip, _INTEL_BASE.get(ip, "")) if value)
    found = tuple(dict.fromkeys(values))
    return {"device_ip": found} if found else {}


def fits(properties: Properties, features: Properties) -> bool:
    """Return whether a variant fits a machine: of each of its features the machine lists one value or more.

    ``features`` are what the providers list, by namespace. A variant without properties fits every machine.
    """
    return all(
        not set(values).isdisjoint(features.get(namespace, {}).get(feature, ()))
        for namespace, wanted in properties.items()
        for feature, values in wanted.items()
    )


def fitting_labels(
    variants: Mapping[str, Properties], features: Properties, priorities: Sequence[str]
) -> tuple[str, ...]:
    """Return the labels that fit a machine, the best first and ``null`` last.

    ``priorities`` are namespaces, the most important first; all other namespaces come last. Two variants are compared
    by the first feature in which they differ: of the most important namespace, in the provider's order of features.
    The one whose best value comes earlier in the provider's list is better, and one that does not ask for the feature
    is worse than one that does. Equal ones go by their labels.
    """
    order = sorted(features, key=lambda name: priorities.index(name) if name in priorities else len(priorities))
    asked = [(namespace, feature) for namespace in order for feature in features[namespace]]

    def rank(label: str) -> tuple[bool, tuple[int, ...], str]:
        places = tuple(
            _best_place(variants[label].get(namespace, {}).get(feature, ()), features[namespace][feature])
            for namespace, feature in asked
        )
        return label == NULL_LABEL, places, label

    return tuple(sorted((label for label in variants if fits(variants[label], features)), key=rank))


def is_built_into_uv(namespace: str, provider: Mapping[str, object]) -> bool:
    """Return whether uv has a provider, as ``providers`` of a release describes it; it skips one that it does not have.

    One that is ``optional`` is not asked unless the user enables it.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    requires = provider.get("requires")
    is_named = namespace == "nvidia" and provider.get("plugin-api") == NVIDIA_PLUGIN and not provider.get("optional")
    if not is_named or not isinstance(requires, list) or len(requires) != 1:
        return False
    try:
        wanted = Requirement(str(requires[0]))
    except InvalidRequirement:
        return False
    is_plain = not (wanted.extras or wanted.marker or wanted.url)
    return is_plain and canonicalize_name(wanted.name) == NVIDIA_PROJECT and UV_VERSION in wanted.specifier


def listed_for_uv(
    providers: Mapping[str, Mapping[str, object]], nvidia: Mapping[str, tuple[str, ...]]
) -> dict[str, Mapping[str, Sequence[str]]]:
    """Return what uv takes for listed, by namespace: what a release's ``providers`` say, and NVIDIA's values.

    Properties that a release lists itself (``static-properties``) are those of every machine.
    """
    found: dict[str, Mapping[str, Sequence[str]]] = {}
    for namespace, provider in providers.items():
        static = provider.get("static-properties")
        if isinstance(static, dict):
            order = provider.get("feature-order")
            found[namespace] = {name: static[name] for name in (order if isinstance(order, list) else static)}
        elif is_built_into_uv(namespace, provider):
            found[namespace] = nvidia
    return found


def _best_place(values: Sequence[str], listed: Sequence[str]) -> int:
    return min((listed.index(value) for value in values if value in listed), default=sys.maxsize)


def choose_label(variants: Mapping[str, Properties], features: Properties, priorities: Sequence[str]) -> str | None:
    """Return the label that an installer takes (:func:`fitting_labels`); None means the wheel without a label."""
    return next(iter(fitting_labels(variants, features, priorities)), None)
