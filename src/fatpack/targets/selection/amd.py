"""Select the entry of a bundle, or the kpack archive, from which the HIP runtime loads code.

====  =====================================================================================================
H1-H2  names are requested in order: the device's target ID, its generic processor, SPIR-V
H3     for each name the first entry in file order that fits; a later exact ID is not preferred
H5     the header of the selected image must be for the device too, regardless of its entry
H7     none fits: hipErrorInvalidImage today, hipErrorNoBinaryForGpu in runtimes of 2024 and older
H8     several devices are served in order, until one has no image; without one for the first, none is served
H11    SPIR-V is compiled when it is loaded
H13    generic processors need code object version 6, which ROCm reads since 6.3; other processors may have it too
====  =====================================================================================================

Source: clr/hipamd/src/hip_fatbin.cpp of ROCm/rocm-systems, amd/comgr/src/comgr-metadata.cpp of ROCm/llvm-project, both
of 2026. H13: "Code Object V6" in LLVM's AMDGPUUsage, and reports for ROCm 6.2.
"""

from __future__ import annotations

from fatpack.targets.compatibility import HIP_SPIRV, can_serve_hip, hip_target_ids
from fatpack.targets.selection.model import Fit, SelectionResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from fatpack.targets.selection.model import CandidateImage


#: the runtime's message if no entry fits
HIP_ERROR = "hipErrorInvalidImage: no compatible code objects found"

#: the runtime's errors if the header of a code object is for another processor, and if it cannot be read
_NO_BINARY, _INVALID = "hipErrorNoBinaryForGpu", "HSA_STATUS_ERROR_INVALID_CODE_OBJECT"

#: the reason for bytes without such a header
_NOT_LOADED = "the code object is not loaded; which error that gives is not known"

#: the version of code objects that older runtimes do not read
_NEWEST = 6

#: the first ROCm that reads code object version 6
GENERICS_SINCE = (6, 3)


def select_hip_image(
    images: Sequence[CandidateImage], device: str, rocm: tuple[int, int] | None = None, *, forces_spirv: bool = False
) -> SelectionResult:
    """Return the entry of one bundle that the HIP runtime loads for a device.

    ``device`` is the target ID that the device reports, with every feature it has; ``rocm`` the version, (6, 3), or
    None. ``forces_spirv`` is the variable ``HIP_FORCE_SPIRV_CODEOBJECT``.
    """
    for name in (HIP_SPIRV,) if forces_spirv else hip_target_ids(device):
        for number, image in enumerate(images):
            verdict = can_serve_hip(image.arch, name)
            if verdict.answer:
                return load_result(image, _taken(number, name, device, verdict.reason, rocm), device, rocm)
    return SelectionResult("fails", None, "H3", f"no entry fits {device}", HIP_ERROR)


def hip_fit(image: CandidateImage, device: str, *, forces_spirv: bool = False) -> Fit:
    """Return whether one entry fits a device; the arguments are those of :func:`select_hip_image`."""
    names = hip_target_ids(device)
    for name in (HIP_SPIRV,) if forces_spirv else names:
        verdict = can_serve_hip(image.arch, name)
        if verdict.answer:
            rule = "H11" if name == HIP_SPIRV else "H3" if name == device else "H4"
            return Fit(True, rule, "is compiled when it is loaded" if name == HIP_SPIRV else verdict.reason)
    if forces_spirv:
        return Fit(False, "H2", "HIP_FORCE_SPIRV_CODEOBJECT leaves only SPIR-V")
    if image.arch.partition(":")[0].endswith("-generic"):
        return _judge_generic(image, device)
    return Fit(False, "H3", can_serve_hip(image.arch, device).reason)


def _judge_generic(image: CandidateImage, device: str) -> Fit:
    """Return the reason that an entry for a generic processor does not fit."""
    generic_ids = [name for name in hip_target_ids(device)[1:] if name != HIP_SPIRV]
    processor = device.partition(":")[0]
    if generic_ids and generic_ids[0].partition(":")[0] == image.arch.partition(":")[0]:
        return Fit(False, "H3", can_serve_hip(image.arch, generic_ids[0]).reason)
    name = generic_ids[0].partition(":")[0] if generic_ids else "no generic processor"
    return Fit(False, "H4", f"for {processor} HIP asks for {name}")


def select_hip_images(
    images: Sequence[CandidateImage], devices: Sequence[str], rocm: tuple[int, int] | None = None
) -> list[SelectionResult]:
    """Return the images that the runtime loads for the devices of a program, in their order."""
    answers: list[SelectionResult] = []
    for device in devices:
        if answers and answers[-1].image is None:
            answers.append(answers[-1].replace(rule="H8", reason="a device before it has no image"))
        else:
            answers.append(select_hip_image(images, device, rocm))
    return answers


def load_result(
    image: CandidateImage, answer: SelectionResult, device: str, rocm: tuple[int, int] | None
) -> SelectionResult:
    """Return the result of loading the selected image: its header is read then."""
    if answer.outcome != "runs":
        return answer
    if image.actual_form and image.actual_form != "damaged":
        reason = f"what is stored for {image.arch} {not_code_object_words(image)}"
        return answer.replace(outcome="fails", rule="H5", reason=reason, error=_NOT_LOADED)
    if image.contents and not any(can_serve_hip(image.contents, name).answer for name in hip_target_ids(device)):
        reason = f"the code object labelled {image.arch} is for {image.contents}"
        return answer.replace(outcome="fails", rule="H5", reason=reason, error=_NO_BINARY, code=209)
    if image.code_object == _NEWEST and rocm is not None and rocm < GENERICS_SINCE:
        reason = f"{image.arch} is of code object version 6, which needs ROCm 6.3 or newer"
        return answer.replace(outcome="fails", rule="H13", reason=reason, error=_INVALID)
    return answer


def not_code_object_words(image: CandidateImage) -> str:
    """Return the form of an image that is no code object, in words: ``is an object, and no code object``."""
    if image.actual_form == "unknown":
        return "is nothing that is known, and no code object"
    return f"has the form {image.actual_form}, and is no code object"


def _taken(number: int, name: str, device: str, reason: str, rocm: tuple[int, int] | None) -> SelectionResult:
    if name == HIP_SPIRV:
        return SelectionResult("compiles", number, "H11", "SPIR-V is compiled for the device")
    if name == device:
        return SelectionResult("runs", number, "H3", reason)
    if rocm is not None and rocm < GENERICS_SINCE:
        reason = f"{name} needs ROCm {GENERICS_SINCE[0]}.{GENERICS_SINCE[1]} or newer"
        return SelectionResult("fails", number, "H13", reason, _INVALID)
    return SelectionResult("runs", number, "H4", f"the runtime asks for {name} after {device}")


# Selection of the kpack archive with a program's code object, as in the loader of ROCm's HIP runtime.
#
# ====  =====================================================================================================
# K1    names are requested in order: the device's target ID, then its generic processor
# K2    for each name first all features, then every subset of them, most specific first; all are compared as text
# K3    a path with ``@GFXARCH@`` means one archive per name of K1 and K2, in that order
# K4    for each name of K2 in order, the archives that list it are searched, in the order of their paths
# K5    the first archive with the code object is used; the others are not read
# K6    loaders before rocm-systems#9874: the first archive that lists a name is used, even without the code object
# K7    the code object is loaded for all devices of the machine, of any architecture
# ====  =====================================================================================================
#
# Source: ``shared/kpack/runtime/src/loader.cpp`` and ``isa_target_match.h`` of ROCm/rocm-systems, before and after
# rocm-systems#9874; ``hip_fatbin.cpp`` there for K1. SPIR-V, the last request to a bundle, is not requested here.

#: Placeholder for the architecture in the path of an archive.
PLACEHOLDER = "@GFXARCH@"

#: the error that the program gets
_ERROR = "hipErrorInvalidImage"

#: LIMIT: features of a target ID whose subsets are tried: processors have two.
_MOST_FEATURES = 6


class KpackSelection(SelectionResult):
    """The loader's selection: ``image`` is the position of the archive, ``arch`` the name in it."""

    arch: str = ""


def requested_target_ids(device: str) -> tuple[str, ...]:
    """Return the target IDs that the runtime passes to the loader (K1); ``device`` has all features."""
    return tuple(name for name in hip_target_ids(device) if name != HIP_SPIRV)


def feature_subsets(target_id: str) -> tuple[str, ...]:
    """Return a target ID with every subset of its features, most specific first (K2).

    The last feature is dropped first.
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
    """Return the paths of archives for a device, in the order in which they are read (K3).

    Only the first placeholder is replaced, as in the loader.
    """
    if PLACEHOLDER not in place:
        return (place,)
    names = dict.fromkeys(target for name in requested_target_ids(device) for target in feature_subsets(name))
    return tuple(place.replace(PLACEHOLDER, name, 1) for name in names)


def candidate_archives(archives: Sequence[Collection[str]], device: str) -> list[list[tuple[int, str]]]:
    """Return the archives that the loader searches for a device, each with the architecture (K4).

    ``archives`` are the architectures that each lists, in the order of their paths. There is a list for each name of K1
    that one of them lists, in the order of the search.
    """
    found = []
    for name in requested_target_ids(device):
        rows = [(at, arch) for arch in feature_subsets(name) for at, archs in enumerate(archives) if arch in archs]
        if rows:
            found.append(rows)
    return found


def select_kpack_archive(
    candidates: Sequence[Sequence[tuple[int, str]]],
    has_code_object: Callable[[int, str], bool],
    *,
    tries_all: bool = True,
) -> KpackSelection:
    """Return the archive from which a code object is loaded, of :func:`candidate_archives`.

    ``has_code_object`` tells if an archive has it for an architecture. Without ``tries_all`` the older loader is
    modelled (K6).
    """
    if not candidates:
        return KpackSelection("fails", None, "K4", "no archive lists the device", _ERROR)
    for rows in candidates:
        for number, arch in rows:
            if has_code_object(number, arch):
                return KpackSelection("runs", number, "K5", "the archive lists the device and holds it", arch=arch)
            if not tries_all:
                return KpackSelection(
                    "fails", number, "K6", "the first archive that lists the device does not hold it", _ERROR
                )
    return KpackSelection("fails", None, "K5", "none of the archives that list the device holds it", _ERROR)
