"""Which kpack archive a program's code object comes from: the search of the loader in ROCm's HIP runtime.

====  =====================================================================================================
K1    names are asked for in order: the device's target ID, then its generic processor
K2    of each name first all features, then every subset of them, most specific first; all are compared as text
K3    a place with ``@GFXARCH@`` stands for one archive per name of K1 and K2, in that order
K4    for each name of K2 in its order, the archives that list it, in the order of their places, are looked into
K5    the first that holds the code object gives it; the others are not asked
K6    loaders before rocm-systems#9874: the first archive that lists a name decides, whether it holds the code or not
K7    the code object that is found is handed to all devices of the machine, whatever they are
====  =====================================================================================================

Source: ``shared/kpack/runtime/src/loader.cpp`` and ``isa_target_match.h`` of ROCm/rocm-systems, before and after
rocm-systems#9874; ``hip_fatbin.cpp`` there for K1. SPIR-V, which a bundle is asked for last, is not asked for here.
"""

from __future__ import annotations

from fatpack.targets.compatibility import HIP_SPIRV, hip_target_ids
from fatpack.targets.selection.model import SelectionResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

#: What stands for the architecture in the place of an archive.
PLACEHOLDER = "@GFXARCH@"

#: what the program is told
_ERROR = "hipErrorInvalidImage"

#: LIMIT: features of a target ID whose subsets are looked at: processors have two.
_MOST_FEATURES = 6


class KpackSelection(SelectionResult):
    """What the loader does: of what it took, ``image`` is the position of the archive and ``arch`` the name there."""

    arch: str = ""


def requested_target_ids(device: str) -> tuple[str, ...]:
    """Return the target IDs that the runtime hands to the loader (K1); ``device`` names every feature it has."""
    return tuple(name for name in hip_target_ids(device) if name != HIP_SPIRV)


def feature_subsets(target_id: str) -> tuple[str, ...]:
    """Return a target ID with every subset of its features, most specific first (K2).

    What is dropped first is the last feature: of two it is the first that stays longer.
    """
    processor, *features = target_id.split(":")
    features = [feature for feature in features if feature][:_MOST_FEATURES]
    count = len(features)
    masks = range((1 << count) - 1, -1, -1)
    return tuple(
        ":".join((processor, *(feature for at, feature in enumerate(features) if mask >> (count - 1 - at) & 1)))
        for mask in masks
    )


def expand_path(place: str, device: str) -> tuple[str, ...]:
    """Return what a place of archives stands for on a device, in the order in which it is looked at (K3).

    Only the first placeholder is one, as the loader has it.
    """
    if PLACEHOLDER not in place:
        return (place,)
    names = dict.fromkeys(target for name in requested_target_ids(device) for target in feature_subsets(name))
    return tuple(place.replace(PLACEHOLDER, name, 1) for name in names)


def candidate_archives(archives: Sequence[Collection[str]], device: str) -> list[list[tuple[int, str]]]:
    """Return which archives the loader looks into for a device, and for which architecture there (K4).

    ``archives`` are the architectures that each lists, in the order of their places. There is a list for each name of
    K1 that one of them lists, in the order in which they are looked into.
    """
    found = []
    for name in requested_target_ids(device):
        rows = [(at, arch) for arch in feature_subsets(name) for at, archs in enumerate(archives) if arch in archs]
        if rows:
            found.append(rows)
    return found


def select_kpack_archive(
    candidates: Sequence[Sequence[tuple[int, str]]], holds: Callable[[int, str], bool], *, tries_all: bool = True
) -> KpackSelection:
    """Return which of the :func:`candidates` a code object comes from.

    ``holds`` says whether an archive holds it for an architecture. Without ``tries_all`` it is the older loader (K6).
    """
    if not candidates:
        return KpackSelection("fails", None, "K4", "no archive lists the device", _ERROR)
    for rows in candidates:
        for number, arch in rows:
            if holds(number, arch):
                return KpackSelection("runs", number, "K5", "the archive lists the device and holds it", arch=arch)
            if not tries_all:
                return KpackSelection(
                    "fails", number, "K6", "the first archive that lists the device does not hold it", _ERROR
                )
    return KpackSelection("fails", None, "K5", "none of the archives that list the device holds it", _ERROR)
