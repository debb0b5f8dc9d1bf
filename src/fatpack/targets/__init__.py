"""Targets of device code: triples, architecture names, target IDs, and their compatibility.

A *target* is a triple with an arch string (:class:`fatpack.model.Target`), a *target ID* is an AMD arch string with its
features, and a *processor* is the arch string without features.

Parsing and equality read only the text. Facts about names are in ``data/*.toml`` with their sources, and are loaded on
first use. Unknown names are legal in all containers; only functions about names that a person typed raise
:class:`~fatpack.errors.TargetError`.

Five questions are easily taken for one. The first three are about loading, each decided with the one before:

=======================================================  ==========================================================
does a processor run an image                            ``can_load`` (NVIDIA), ``can_serve_hip`` (HIP)
does a runtime take one image                            ``cuda_fit``, ``hip_fit``, … in ``selection``
which image of a set does a runtime load; does it run    ``select_image``: the only way of explain, check and report
which images must stay for all drivers                   ``images_for_device`` in ``commands/slim``
does an image for one target stand for another target    ``can_serve``, by LLVM's rule; ``joins_group`` for links
=======================================================  ==========================================================
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.targets.compatibility import (
        Compatibility,
        Conflict,
        can_serve,
        effective_processor,
        find_conflicts,
        is_compatible_llvm22,
        is_same_target,
        target_identity,
    )
    from fatpack.targets.devices import Coverage, run_coverage
    from fatpack.targets.nvidia import NvidiaArch, can_load, parse_nvidia
    from fatpack.targets.triple import (
        Triple,
        is_amdgpu,
        is_nvptx,
        same_triple,
        split_triple,
        sub_architecture,
        triple_processor,
    )
    from fatpack.targets.vocabulary import (
        TargetId,
        canonical_target_id,
        check_target_id,
        default_triple,
        feature_signs,
        nearest_names,
        parse_target_id,
        resolve_target,
    )

__all__ = [
    "Compatibility",
    "Conflict",
    "Coverage",
    "NvidiaArch",
    "TargetId",
    "Triple",
    "can_load",
    "can_serve",
    "canonical_target_id",
    "check_target_id",
    "default_triple",
    "effective_processor",
    "feature_signs",
    "find_conflicts",
    "is_amdgpu",
    "is_compatible_llvm22",
    "is_nvptx",
    "is_same_target",
    "nearest_names",
    "parse_nvidia",
    "parse_target_id",
    "resolve_target",
    "run_coverage",
    "same_triple",
    "split_triple",
    "sub_architecture",
    "target_identity",
    "triple_processor",
]

#: name → module, imported on first use: parsing a triple loads nothing else.
_HOMES = {
    name: module
    for module, names in {
        "compatibility": "Conflict Compatibility is_compatible_llvm22 find_conflicts "
        "effective_processor is_same_target can_serve target_identity",
        "devices": "Coverage run_coverage",
        "nvidia": "NvidiaArch can_load parse_nvidia",
        "vocabulary": "TargetId canonical_target_id parse_target_id feature_signs "
        "check_target_id default_triple nearest_names resolve_target",
        "triple": "Triple is_amdgpu is_nvptx same_triple split_triple sub_architecture triple_processor",
    }.items()
    for name in names.split()
}


def all_names() -> list[str]:
    """Return every name of the vocabulary, for completion in shells, which call it at each key.

    `make docs` writes ``data/names.list`` from the tables beside it: reading these takes several times as long as the
    interpreter takes to start.
    """
    import os

    with open(os.path.join(os.path.dirname(__file__), "data", "names.list"), encoding="utf-8") as file:
        return file.read().split()


def device_arch_names() -> list[str]:
    """Return the names of devices in the vocabulary, from ``data/devices.list``, as :func:`all_names` does."""
    import os

    with open(os.path.join(os.path.dirname(__file__), "data", "devices.list"), encoding="utf-8") as file:
        return file.read().split()


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    # importlib would take longer to load than any module here.
    return getattr(__import__(f"{__name__}.{_HOMES[name]}", fromlist=[name]), name)
