"""Select an image by bundle ID: the exact ID first, then a compatible one, with the reason in words.

clang-offload-bundler selects the first compatible entry in the order of a hash table, so its result can change with the
names of other entries, and it does not distinguish unknown processors. Here the entry with the exact ID is selected,
else one with the same normal form, else the compatible one with most features.

Images for NVIDIA have IDs here, too: ``cuda-nvptx64-nvidia-cuda--sm_86``. Of several that fit the device, the one that
its runtime loads is selected: the CUDA driver, or LLVM's plugin for OpenMP (:mod:`fatpack.targets.selection`).
"""

from __future__ import annotations

from fatpack.errors import TargetError, UsageError, cli_or_api, truncate_words
from fatpack.formats.clang_bundle.bundle_id import id_for, is_compatible_id, parse_bundle_id, stored_id
from fatpack.record import Record
from fatpack.targets.compatibility import can_serve
from fatpack.targets.nvidia import parse_nvidia
from fatpack.targets.triple import is_amdgpu, is_nvptx, same_triple
from fatpack.targets.vocabulary import check_target_id, load_vocabulary, nearest_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.model import Image, Target
    from fatpack.scanner import FoundImage
    from fatpack.targets.nvidia import NvidiaArch
    from fatpack.targets.selection.model import CandidateImage, SelectionResult


class BundleIdChoice(Record):
    """The selection for a request, with the reason; ``others`` are the IDs that are compatible as well."""

    request: str
    image: FoundImage
    reason: str
    others: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The selection in words."""
        also = f" (also compatible: {', '.join(self.others)})" if self.others else ""
        return truncate_words(f"{self.request}: chose {image_id(self.image.as_stored)}, {self.reason}{also}")


def bundle_id(image: Image) -> str:
    """Return the stored bundle ID of an image, or the one it would have in a bundle; "" if there is no such ID."""
    stored = image.attrs.get("id") or image.target.spelling
    if stored:
        return stored
    try:
        return id_for(image.target)
    except UsageError:
        return ""


def image_id(image: Image) -> str:
    """Return the ID by which an image is selected: the stored one, or a similar one for images of CUDA."""
    target = image.target
    if image.attrs.get("id") or target.spelling:
        return bundle_id(image)
    if not target.triple:
        return ""  # an ID of four unknown parts would be an invention
    if target.offload == "cuda" and target.arch:
        # clang's driver writes four parts of a triple before the processor; the last one is often empty.
        parts = [*target.triple.split("-", 3), "", "", ""][:4]
        return f"cuda-{'-'.join(parts)}-{target.arch}"
    return bundle_id(image)


def choose_by_id(images: Iterable[FoundImage], request: str, *, hip_openmp: bool = False) -> list[BundleIdChoice]:
    """Return the images of one container for a bundle ID: none, one, or all with exactly this ID.

    ``hip_openmp`` makes HIP and OpenMP compatible, as ``-hip-openmp-compatible`` does.
    """
    _check(request)
    candidates = [(spelling, image) for image in images if (spelling := image_id(image.as_stored))]
    exact = [image for spelling, image in candidates if spelling == request]
    if exact:
        return [BundleIdChoice(request, image, "its exact ID") for image in exact]
    normal = stored_id(request)
    same = [image for spelling, image in candidates if stored_id(spelling) == normal]
    if same:
        return [BundleIdChoice(request, image, f"the same ID in normal form ({normal})") for image in same]
    device = parse_nvidia(parse_bundle_id(request).arch) if is_nvptx(parse_bundle_id(request).triple) else None
    if device is not None and device.is_virtual:
        # A virtual architecture is PTX, which containers store under the name of the real architecture.
        candidates = [pair for pair in candidates if pair[1].form == "ptx"]
        same = [image for spelling, image in candidates if _is_ptx_for(device, spelling, request)]
        if same:
            return [BundleIdChoice(request, image, f"the PTX for {device.name}") for image in same]
    if device is not None:
        return _choose_for_nvidia(candidates, request)
    fitting = [pair for pair in candidates if is_compatible_id(pair[0], request, hip_openmp=hip_openmp)]
    if not fitting or impossible_reason(request):
        return []
    spelling, image = max(fitting, key=lambda pair: len(parse_bundle_id(pair[0]).target.features))
    others = tuple(dict.fromkeys(other for other, _ in fitting if other != spelling))
    return [BundleIdChoice(request, image, _why(spelling, request), others)]


def _choose_for_nvidia(candidates: Sequence[tuple[str, FoundImage]], request: str) -> list[BundleIdChoice]:
    """Return the image of one container that a runtime loads for the device in an ID; none if none fits."""
    want = parse_bundle_id(request)
    offered = [(*pair, _candidate(pair[1])) for pair in candidates if _is_offered(pair[0], request)]
    answer = _answer(want.kind, want.arch, [candidate for _, _, candidate in offered])
    if answer is None or answer.image is None or answer.outcome == "fails":
        return []
    spelling, image, _ = offered[answer.image]
    fits = (other for other, _, candidate in offered if _fits(want.kind, want.arch, candidate))
    doubt = "" if answer.is_certain else "; another may be taken: the rules are uncertain"
    others = tuple(dict.fromkeys(other for other in fits if other != spelling))
    return [BundleIdChoice(request, image, f"which is compatible: {answer.reason}{doubt}", others)]


def _is_ptx_for(virtual: NvidiaArch, spelling: str, request: str) -> bool:
    """Return whether the ID of PTX has a virtual architecture, by its own name or that of the real one."""
    have = parse_nvidia(parse_bundle_id(spelling).arch)
    return have is not None and have.replace(is_virtual=True) == virtual and _is_offered(spelling, request)


def _is_offered(spelling: str, request: str) -> bool:
    have, want = parse_bundle_id(spelling), parse_bundle_id(request)
    return have.kind == want.kind and same_triple(have.triple, want.triple)


def _candidate(found: FoundImage) -> CandidateImage:
    from fatpack.targets.selection.model import CandidateImage

    stored = found.as_stored
    # Relocatable PTX is for linkers: no runtime loads it.
    form = "" if stored.attrs.get("kind") == "relocatable-ptx" else found.form
    return CandidateImage(form, stored.target.arch, stored.target.triple)


def _answer(kind: str, arch: str, candidates: Sequence[CandidateImage]) -> SelectionResult | None:
    from fatpack.targets.selection import cuda, sycl_openmp

    device = parse_nvidia(arch)
    if device is None:
        return None
    return (
        sycl_openmp.select_openmp_image(candidates, arch)
        if kind == "openmp"
        else cuda.select_cuda_image(candidates, device)
    )


def _fits(kind: str, arch: str, candidate: CandidateImage) -> bool:
    answer = _answer(kind, arch, [candidate])
    return answer is not None and answer.outcome != "fails"


def _check(request: str) -> None:
    """Raise UsageError for a bundle ID with features that have no ``+`` or ``-``."""
    names = set()
    for feature in parse_bundle_id(request).target.features:
        name, sign = feature[:-1], feature[-1]
        if sign not in "+-" or not name:
            raise UsageError(f"bundle ID {request}: feature {feature!r} does not end in + or -")
        if name in names:
            raise UsageError(f"bundle ID {request}: feature {name!r} is given twice")
        names.add(name)


def impossible_reason(request: str) -> str:
    """Return the reason that no image can be compatible with a bundle ID (its processor lacks a feature), else "".

    clang-offload-bundler returns nothing for such an ID either, except an entry with exactly that ID. Unknown
    processors may have any feature.
    """
    target = parse_bundle_id(request).target
    if not target.triple:
        arch = cli_or_api("--arch", "Selector(arch=…)")
        return f"a bundle ID is KIND-TRIPLE or KIND-TRIPLE-ARCH; for an architecture alone use {arch}"
    return feature_problem(target)


def feature_problem(target: Target) -> str:
    """Return the problem with the features of a target ID; "" if there is none, and for unknown processors."""
    if not target.features:
        return ""
    if not is_amdgpu(target.triple):
        return f"features are for AMD GPUs, and {target.triple} has none"
    try:
        check_target_id(target.arch)
    except TargetError as error:
        is_known = target.processor in load_vocabulary().amd
        return f"{error.problem}; {error.hint}" if is_known else ""
    return ""


def _why(spelling: str, request: str) -> str:
    have, want = parse_bundle_id(spelling), parse_bundle_id(request)
    reasons = []
    if have.kind != want.kind:
        reasons.append(f"{have.kind} serves {want.kind}")
    if have.triple != want.triple:
        reasons.append(f"{have.triple} is compatible with {want.triple}")
    missing = [feature for feature in want.target.features if feature not in have.target.features]
    if missing:
        reasons.append(f"it leaves {' and '.join(feature[:-1] for feature in missing)} open")
    return f"which is compatible: {'; '.join(reasons) or 'spelled differently'}"


def missing_ids(choices: Sequence[BundleIdChoice], requests: Sequence[str]) -> list[str]:
    """Return the requested IDs for which nothing was selected, in order."""
    found = {choice.request for choice in choices}
    return [request for request in dict.fromkeys(requests) if request not in found]


def no_match_reason(requests: Iterable[str], images: Sequence[FoundImage] = ()) -> str:
    """Return the reason that no image serves some of the IDs, as words after them; "" if it is unknown.

    ``images`` are those of the file: for each one with the requested triple, the reason that it does not fit is given.
    """
    words = [impossible_reason(request) or _unknown(request) or _refusals(request, images) for request in requests]
    known = dict.fromkeys(filter(None, words))
    return f" ({'; '.join(known)})" if known else ""


def _unknown(request: str) -> str:
    """Return that the architecture in an ID for a GPU is unknown, with similar names; "" for any other ID."""
    want = parse_bundle_id(request)
    words = load_vocabulary()
    names: Iterable[str]
    if is_nvptx(want.triple):
        arch, names = want.arch, words.nvidia
    elif is_amdgpu(want.triple):
        arch, names = want.target.processor, words.amd
    else:
        return ""
    if not arch or arch in names or arch == "generic" or words.family_of(arch):
        return ""
    near = nearest_names(arch, names)
    return f"{truncate_words(arch)} is no known architecture" + (f"; did you mean {', '.join(near)}?" if near else "")


#: Number of images whose reasons are listed in an error.
_REFUSALS = 4


def _refusals(request: str, images: Iterable[FoundImage]) -> str:
    want = parse_bundle_id(request)
    if not (is_nvptx(want.triple) or is_amdgpu(want.triple)):
        return ""
    reasons: dict[str, None] = {}
    for found in images:
        target = found.as_stored.target
        if not target.triple or not same_triple(target.triple, want.triple):
            continue
        verdict = can_serve(target, want.target, nvidia_rules=True, form=found.form)
        what = " ".join(filter(None, (target.arch, found.form)))
        if not verdict:
            reasons[verdict.reason if target.arch in verdict.reason else f"{what}: {verdict.reason}"] = None
        elif target.offload != want.kind:
            reasons[f"{what} is for {target.offload}"] = None
    more = [f"… {len(reasons) - _REFUSALS} more"] if len(reasons) > _REFUSALS else []
    return "; ".join([*list(reasons)[:_REFUSALS], *more])
