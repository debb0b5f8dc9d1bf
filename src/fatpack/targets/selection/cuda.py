"""Select the entry of a fat binary that the CUDA driver loads.

=====  ==================================================================================================
C2-C7   images that fit: :func:`fatpack.targets.nvidia.can_load`
C8      PTX of a newer version than the driver's is selected all the same, and then fails. A forward-compatibility
        package beside the driver lifts the limit on some parts, and gives error 804 on all others
C9      a fitting cubin before PTX; of PTX the highest number; ``a`` before plain; the first of equals
C10     there is no second try: an entry that fails to load is not replaced by another one, also if the entry's header
        has the wrong architecture
C11     relocatable PTX and entries of unknown kinds are no candidates
C12     LTO-IR and other code for linkers are no candidates
C13     ``CUDA_FORCE_PTX_JIT`` hides cubins, ``CUDA_DISABLE_PTX_JIT`` forbids to compile
C15     zstd is decompressed by drivers of CUDA 12.4 and newer
=====  ==================================================================================================

Observed on an H100 (9.0) with driver 580.159.04, CUDA 13.0, with fat binaries of several entries; C15 is documented
with nvcc's ``--compress-mode``. Unknown, so never certain: the rank of ``f``, the choice between several cubins for
lower minor versions, and between such a cubin and PTX for the device's own number.
"""

from __future__ import annotations

from fatpack.targets.nvidia import (
    RENAMED,
    TEGRA_ARCHS,
    LoadRule,
    NvidiaArch,
    can_load,
    first_cuda_for_ptx,
    parse_nvidia,
)
from fatpack.targets.selection.model import Fit, SelectionResult

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.targets.selection.model import CandidateImage

#: names of errors → the texts that programs print
ERRORS = {
    200: "device kernel image is invalid",
    209: "no kernel image is available for execution on the device",
    222: "the provided PTX was compiled with an unsupported toolchain.",
    218: "a PTX JIT compilation failed",
    223: "PTX JIT compilation was disabled",
}

#: CUDA_ERROR_INVALID_SOURCE, with the message of 200: a cubin whose header has another number than its entry
_CONTRADICTS = 300

#: CUDA version of the first driver that decompresses zstd
ZSTD_SINCE = (12, 4)

#: forms for linkers and compilers only
LINKED = frozenset(("ltoir", "tileir"))

#: position, architecture, the rule by which it fits
_Fit = tuple[int, NvidiaArch, LoadRule]


def select_cuda_image(
    images: Sequence[CandidateImage],
    device: NvidiaArch,
    driver: tuple[int, int] | None = None,
    *,
    forces_ptx: bool = False,
    disables_ptx: bool = False,
) -> SelectionResult:
    """Return the entry of one fat binary that the driver loads for a device, and the result.

    ``driver`` is the driver's CUDA version, (13, 0); without it versions of PTX and zstd are not checked.
    ``forces_ptx`` and ``disables_ptx`` are the two variables of the environment.
    """
    cubins, texts, doubtful = _fitting(images, device, driver, forces_ptx=forces_ptx)
    answer = _of_cubins(cubins, texts, device) or _of_texts(texts)
    if answer is None or answer.image is None:
        rule = "C13" if forces_ptx and not texts else "C12" if _holds_linker_code(images) else "C2"
        hides = "CUDA_FORCE_PTX_JIT hides cubins, and no PTX" if rule == "C13" else "no image"
        reason = f"{hides} fits compute capability {device.capability}"
        return SelectionResult("fails", None, rule, reason, ERRORS[209], is_certain=not doubtful)
    taken = images[answer.image]
    if answer.outcome == "compiles" and doubtful:
        reason = f"{answer.reason}; whether the cubin for {images[doubtful[0]].arch} fits is not known"
        answer = answer.replace(reason=reason, is_certain=False)
    if answer.outcome == "compiles" and disables_ptx:
        return answer.replace(
            outcome="fails", rule="C13", reason=f"{answer.reason}; compiling is off", error=ERRORS[223]
        )
    return _of_label(taken, answer, device) or _loaded(taken, answer, driver)


def cuda_fit(
    image: CandidateImage, device: NvidiaArch, driver: tuple[int, int] | None = None, *, forces_ptx: bool = False
) -> Fit:
    """Return whether one image fits a device; the arguments are those of :func:`select_cuda_image`."""
    arch = parse_nvidia(image.arch)
    if image.form in LINKED:
        return Fit(False, "C12", f"{image.form} is for linkers and compilers")
    if image.form not in ("cubin", "ptx"):
        is_for_link = image.form == "relocatable-ptx"
        words = "relocatable PTX is for the device link" if is_for_link else image.form or "an unknown kind"
        return Fit(False, "C11", f"{words}: no driver takes it" if is_for_link else f"{words} is no candidate")
    if arch is None:
        return Fit(False, "C11", f"{image.arch or 'no architecture'} is no name of a compute capability")
    if forces_ptx and image.form == "cubin":
        return Fit(False, "C13", "CUDA_FORCE_PTX_JIT hides cubins")
    ruling = can_load(arch, device, image.form, driver)
    if ruling.answer and driver is not None and image.form == "ptx" and is_unknown_ptx(image):
        return Fit(True, "C8", f"is PTX {_dotted(image)}, for which the required driver is unknown", False)
    rule = _rule_of(arch, is_text=image.form == "ptx")
    if rule == "C2" and (arch.number in TEGRA_ARCHS or (device.number in TEGRA_ARCHS and arch.major == device.major)):
        rule = "C3"
    if not ruling.is_certain and not RENAMED.keys().isdisjoint((arch.number, device.number)):
        rule = "C6"
    is_certain = ruling.is_certain and mislabelled_arch(image, device) is None
    return Fit(ruling.answer, rule, f"runs on {ruling.rule}", is_certain)


def is_unknown_ptx(image: CandidateImage) -> bool:
    """Return whether an image is PTX of a version whose first driver is unknown."""
    return image.ptx_version is not None and first_cuda_for_ptx(image.ptx_version) is None


def _dotted(image: CandidateImage) -> str:
    return ".".join(map(str, image.ptx_version or ()))


def possible_images(
    images: Sequence[CandidateImage],
    device: NvidiaArch,
    driver: tuple[int, int] | None = None,
    *,
    forces_ptx: bool = False,
) -> tuple[int, ...]:
    """Return the positions of the images that a driver may load, if its preference is unknown.

    They include the result of :func:`select_cuda_image`. A cubin for the device's own number, ``a`` before plain, is
    certainly preferred, except to one for its family.
    """
    cubins, texts, doubtful = _fitting(images, device, driver, forces_ptx=forces_ptx)
    if cubins:
        own = [fit for fit in cubins if fit[1].number == device.number and fit[1].suffix != "f"]
        exact = [fit for fit in own if fit[1].suffix == "a"] or own
        family = [number for number, arch, _ in cubins if arch.suffix == "f"]
        if exact:
            return tuple(sorted({exact[0][0], *family, *doubtful}))
        also = [number for number, arch, _ in _rival_texts(cubins, texts)]
        return tuple(sorted({*(number for number, _, _ in cubins), *also, *doubtful}))
    taken = _of_texts(texts)
    best = [] if taken is None or taken.image is None else [taken.image]
    return tuple(sorted({*best, *(number for number, arch, _ in texts if arch.suffix == "f"), *doubtful}))


def _fitting(
    images: Sequence[CandidateImage], device: NvidiaArch, driver: tuple[int, int] | None, *, forces_ptx: bool
) -> tuple[list[_Fit], list[_Fit], list[int]]:
    """Return the cubins and the PTX texts that fit, and the positions of doubtful cubins, in stored order.

    Reports say of a doubtful cubin that it does not fit, without certainty. ``forces_ptx`` hides all cubins.
    """
    forms = ("ptx",) if forces_ptx else ("cubin", "ptx")
    cubins: list[_Fit] = []
    texts: list[_Fit] = []
    doubtful: list[int] = []
    rulings: dict[tuple[str, str], tuple[NvidiaArch, LoadRule] | None] = {}  # containers repeat few architectures
    for number, image in enumerate(images):
        key = image.form, image.arch
        if key not in rulings:
            arch = parse_nvidia(image.arch) if image.form in forms else None
            rulings[key] = (arch, can_load(arch, device, image.form, driver)) if arch else None
        ruled = rulings[key]
        if ruled is None:
            continue
        if ruled[1].answer:
            (cubins if image.form == "cubin" else texts).append((number, *ruled))
        elif image.form == "cubin" and not ruled[1].is_certain:
            doubtful.append(number)
    return cubins, texts, doubtful


def _of_cubins(cubins: Sequence[_Fit], texts: Sequence[_Fit], device: NvidiaArch) -> SelectionResult | None:
    """Return the selected cubin: ``a`` before plain; the other preferences are common belief."""
    if not cubins:
        return None
    number, arch, ruling = max(cubins, key=lambda fit: (_rank(fit[1]), -fit[0]))
    others = {other.name for _, other, _ in cubins} - {arch.name}
    is_exact = arch.number == device.number
    is_open = bool(others) or (not is_exact and bool(_rival_texts(cubins, texts)))
    return SelectionResult(
        "runs",
        number,
        "C9" if len(cubins) + len(texts) > 1 else _rule_of(arch),
        _ruled(f"the cubin for {arch.name}", ruling),
        is_certain=ruling.is_certain and (arch.suffix == "a" or not is_open),
    )


def _ruled(name: str, ruling: LoadRule) -> str:
    """Return by which rule an image runs, or that the rule is not confirmed for the device."""
    words = f"{name} runs on {ruling.rule}"
    return words if ruling.is_certain else f"that {words} is not confirmed for this device"


def _rival_texts(cubins: Sequence[_Fit], texts: Sequence[_Fit]) -> list[_Fit]:
    """Return the PTX for higher numbers than all cubins, which may be preferred to cubins for lower minor versions.

    nvJitLink 13.5 takes such PTX: of cubin sm_80 and PTX compute_86 for sm_89 it takes the PTX. NVIDIA documents no
    order for drivers (cuda.h: CU_PREFER_PTX, CU_PREFER_BINARY).
    """
    highest = max(arch.number for _, arch, _ in cubins)
    return [fit for fit in texts if fit[1].number > highest]


def _of_texts(texts: Sequence[_Fit]) -> SelectionResult | None:
    """Return the PTX that is compiled: the highest number, ``a`` before plain, the first of equals."""
    if not texts:
        return None
    number, arch, ruling = max(texts, key=lambda fit: (_rank(fit[1]), -fit[0]))
    has_family = any(other.suffix == "f" and other.name != arch.name for _, other, _ in texts)
    return SelectionResult(
        "compiles",
        number,
        "C9" if len(texts) > 1 else _rule_of(arch, is_text=True),
        _ruled(f"the PTX for compute_{arch.number}{arch.suffix}", ruling),
        is_certain=ruling.is_certain and not has_family and (arch.suffix != "f" or len(texts) == 1),
    )


def _rank(arch: NvidiaArch) -> tuple[int, int]:
    return arch.number, {"": 0, "f": 1, "a": 2}[arch.suffix]


def _rule_of(arch: NvidiaArch, *, is_text: bool = False) -> str:
    return {"a": "C4", "f": "C5"}.get(arch.suffix, "C7" if is_text else "C2")


def _holds_linker_code(images: Sequence[CandidateImage]) -> bool:
    return any(image.form in LINKED for image in images)


def _of_label(image: CandidateImage, answer: SelectionResult, device: NvidiaArch) -> SelectionResult | None:
    """Return the result for an image whose bytes are for another architecture than its entry; None for others."""
    held = mislabelled_arch(image, device)
    if held is None:
        return None
    is_text = image.form == "ptx"
    reason = f"the {'PTX' if is_text else 'cubin'} labelled {image.arch} is for {held.name}"
    stored = parse_nvidia(image.arch)
    if not can_load(held, device, image.form).answer and (stored is None or held.number != stored.number):
        code = 218 if is_text else _CONTRADICTS
        return answer.replace(
            outcome="fails", rule="C10", reason=reason, error=ERRORS.get(code, ERRORS[200]), code=code
        )
    return answer.replace(rule="C10", reason=reason, is_certain=False)


def mislabelled_arch(image: CandidateImage, device: NvidiaArch) -> NvidiaArch | None:
    """Return the architecture in an image if it differs from its entry in a way that matters to a device, else None.

    A suffix in only one of them does not matter if the bytes are for the device; PTX for a lower number never matters.
    """
    held, stored = parse_nvidia(image.contents), parse_nvidia(image.arch)
    if held is None or stored is None:
        return None
    is_for_device = can_load(held, device, image.form).answer
    return None if is_for_device and (image.form == "ptx" or held.number == stored.number) else held


def _loaded(image: CandidateImage, answer: SelectionResult, driver: tuple[int, int] | None) -> SelectionResult:
    """Return the result of loading the selected image: the driver tries no other."""
    if driver is None:
        return answer
    if image.compression == "zstd" and driver < ZSTD_SINCE:
        reason = f"{answer.reason}; drivers inflate zstd since CUDA {ZSTD_SINCE[0]}.{ZSTD_SINCE[1]}"
        return answer.replace(outcome="fails", rule="C15", reason=reason, error=ERRORS[200])
    if answer.outcome == "compiles" and image.ptx_version is not None:
        text = f"PTX {_dotted(image)}"
        needed = first_cuda_for_ptx(image.ptx_version)
        if needed is None:
            return answer.replace(reason=f"{answer.reason}; the driver that {text} needs is unknown", is_certain=False)
        if needed > driver:
            reason = f"{answer.reason}; {text} needs a driver of CUDA {needed[0]}.{needed[1]} or newer"
            return answer.replace(outcome="fails", rule="C8", reason=reason, error=ERRORS[222])
    return answer
