"""Select the image that a device loads from a set of images, for every runtime, and predict if it runs.

The other modules of this package apply the rules of one runtime. Their choice may be ambiguous: if every candidate
runs, the result is "runs"; if it is unknown for all, the result is "unknown".
"""

from __future__ import annotations

from fatpack.record import Record
from fatpack.targets.nvidia import first_cuda_for_ptx
from fatpack.targets.selection import amd, cuda, sycl_openmp
from fatpack.targets.selection.model import Fit, SelectionResult
from fatpack.targets.vocabulary import feature_signs, load_vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.targets.devices import Device
    from fatpack.targets.nvidia import NvidiaArch
    from fatpack.targets.selection.model import CandidateImage
    from fatpack.targets.selection.runtime_settings import RuntimeSettings

#: outcomes, the worst first
OUTCOMES = ("fails", "unknown", "compiles", "runs")

#: version of compressed bundles whose first reader is not documented, and the ROCm whose tools write it
_NEWEST_BUNDLE, _WRITTEN_SINCE = 3, (7, 2)


#: runtimes that give the driver images without a fat binary around them
_WITHOUT_FATBINS = ("openmp", "sycl", sycl_openmp.LIBGOMP)

#: words for images without a form
_ARE = {"damaged": "is damaged", "unknown": "is nothing that is known"}


class CandidateSet(Record):
    """The images of one vendor from which a runtime selects, in stored order.

    ``offload`` is the programming model. ``bundle_version`` is the version of a compressed bundle, else None.
    ``is_kpack``: in a kpack archive. ``is_bare``: a file without a container. ``is_module``: an abstract module of a
    SYCLBIN file.
    """

    candidates: tuple[CandidateImage, ...]
    offload: str = ""
    bundle_version: int | None = None
    is_kpack: bool = False
    is_bare: bool = False
    is_module: bool = False


class DeviceSelection(Record):
    """The image that a device loads, and the result.

    ``outcome``: runs, compiles (the image is compiled when it is loaded, then runs), fails, or unknown.
    ``image``: the position of the selected image, None if none is selected.
    ``possible``: the positions of all images that may be selected, with ``image``.
    ``rule``, ``reason``: the rule that decided, and the reason in words.
    ``is_certain``: False if the rules allow several images, even if all of them run.
    ``error``, ``text``: (runtime, code) of a failure in the table of rules, or None; a text in its place or beside it.
    ``judgements``: one for each image.
    ``state``: the target ID of the AMD device, "" for other vendors.
    """

    outcome: str
    image: int | None
    possible: tuple[int, ...]
    rule: str
    reason: str
    judgements: tuple[Fit, ...]
    is_certain: bool = True
    error: tuple[str, int] | None = None
    text: str = ""
    state: str = ""


def select_image(images: CandidateSet, device: Device, settings: RuntimeSettings) -> tuple[DeviceSelection, ...]:
    """Return the selection of a device; for AMD one for every setting of the features that the device leaves open."""
    if device.vendor == "nvidia":
        found: tuple[DeviceSelection, ...] = (_nvidia(images, device, settings),)
    elif device.vendor == "amd":
        found = tuple(_amd(images, state, settings) for state in target_id_states(device, settings))
    else:
        found = (_intel(images, device),)
    return tuple(_by_bytes(choice, images) for choice in found)


def _by_bytes(choice: DeviceSelection, images: CandidateSet) -> DeviceSelection:
    """Return a selection corrected by the bytes of the images: metadata decides the selection, bytes the loading.

    Observed: cubins of a CUDA fat binary that are damaged or no cubin are refused (C10). For other images the result is
    unknown.
    """
    wrong = [number for number in choice.possible if images.candidates[number].actual_form]
    if not wrong or choice.outcome == "fails":
        return choice
    image = images.candidates[wrong[0]]
    label = f"what is stored as {'PTX' if image.form == 'ptx' else f'a {image.form}' if image.form else 'code'}"
    reason = (
        f"{label} for {image.arch or image.triple} {_ARE.get(image.actual_form, f'has the form {image.actual_form}')}"
    )
    is_cuda = images.offload == "cuda"
    rule = "C10" if is_cuda else choice.rule
    if is_cuda and len(wrong) == len(choice.possible) and image.form == "cubin" and image.actual_form in _ARE:
        return choice.replace(outcome="fails", rule=rule, reason=reason, is_certain=True, error=("cuda", 200), text="")
    return choice.replace(outcome="unknown", rule=rule, reason=reason, is_certain=False, error=None)


def target_id_states(device: Device, settings: RuntimeSettings) -> tuple[str, ...]:
    """Return the target IDs that an AMD device may report, after HSA_XNACK and an override."""
    if settings.override:
        device = device.replace(arch=settings.override)
    found = device.states
    if settings.xnack and "xnack" not in feature_signs(device.arch):
        found = tuple(state for state in found if feature_signs(state).get("xnack", settings.xnack) == settings.xnack)
    return found or (device.arch,)


def _nvidia(images: CandidateSet, device: Device, settings: RuntimeSettings) -> DeviceSelection:
    arch = device.nvidia
    assert arch is not None
    candidates = images.candidates
    if images.offload == "sycl":
        judgements = tuple(sycl_openmp.sycl_fit(image, device.arch, "cuda") for image in candidates)
        answer = sycl_openmp.select_sycl_image(candidates, device.arch, "cuda", is_module=images.is_module)
        return _of_driver(_of_answer(answer, judgements), images, device, settings)
    if images.offload == "openmp":
        judgements = tuple(sycl_openmp.openmp_fit(image, device.arch) for image in candidates)
        answer = sycl_openmp.select_openmp_image(candidates, device.arch)
        return _of_driver(_of_answer(answer, judgements, _cuda_error(answer)), images, device, settings)
    if images.offload == sycl_openmp.LIBGOMP:
        judgements = tuple(sycl_openmp.nvptx_fit(image, arch, settings.driver) for image in candidates)
        answer = sycl_openmp.select_nvptx_texts(candidates, arch, settings.driver)
        return _of_driver(_of_answer(answer, judgements), images, device, settings)
    return _of_driver(_cuda(images, device, arch, settings), images, device, settings)


def _of_driver(
    choice: DeviceSelection, images: CandidateSet, device: Device, settings: RuntimeSettings
) -> DeviceSelection:
    """Return a selection with the rules of the driver, which also loads the images of OpenMP's plugin and of SYCL."""
    if choice.outcome in ("runs", "compiles") and images.offload in _WITHOUT_FATBINS:
        form = "" if choice.image is None else images.candidates[choice.image].form
        name = "CUDA_FORCE_PTX_JIT" if form == "cubin" and settings.forces_ptx else ""
        name = "CUDA_DISABLE_PTX_JIT" if form == "ptx" and settings.disables_ptx else name
        if name:
            reason = f"{choice.reason}; the effect of {name} on an image without a fat binary is unknown"
            return choice.replace(outcome="unknown", rule="C13", reason=reason, is_certain=False, error=None)
    first = first_cuda_for_device(device)
    if settings.driver is None or first is None or settings.driver >= first or choice.outcome == "fails":
        return choice
    reason = f"the driver is of CUDA {_dotted(settings.driver)}, and CUDA first knows {device.arch} in {_dotted(first)}"
    return choice.replace(outcome="unknown", rule="C18", reason=reason, is_certain=False, error=None)


def first_cuda_for_device(device: Device) -> tuple[int, int] | None:
    """Return the first CUDA version that names an NVIDIA device's architecture; None for others, and if unknown."""
    line = load_vocabulary().nvidia.get(device.arch) if device.vendor == "nvidia" else None
    major, _, minor = (line.since if line else "").partition(".")
    return (int(major), int(minor or 0)) if major else None


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _cuda(images: CandidateSet, device: Device, arch: NvidiaArch, settings: RuntimeSettings) -> DeviceSelection:
    candidates = images.candidates
    driver, forces = settings.driver, settings.forces_ptx
    judgements = tuple(cuda.cuda_fit(image, arch, driver, forces_ptx=forces) for image in candidates)
    answer = cuda.select_cuda_image(candidates, arch, driver, forces_ptx=forces, disables_ptx=settings.disables_ptx)
    may = cuda.possible_images(candidates, arch, driver, forces_ptx=forces)
    if images.is_bare and answer.image is None and candidates and candidates[0].form == "ptx":
        # No entry has its target: the compiler refuses it.
        return _of_answer(answer.replace(rule="C7", error=""), judgements, ("cuda", 218))
    base = _of_answer(answer, judgements, _cuda_error(answer)).replace(possible=may)
    if images.is_bare and base.rule == "C2":
        base = base.replace(rule="C16")
    ends = {number: _end(candidates[number], judgements[number], device, settings) for number in may}
    outcomes = {answer.outcome for answer in ends.values()}
    if "fails" in outcomes and len(outcomes) > 1:
        reason = f"{base.reason}; not all images that may be selected run"
        return base.replace(outcome="unknown", reason=reason, is_certain=False, error=None)
    if "fails" in outcomes or any(judgements[number].fits and judgements[number].is_certain for number in may):
        return base
    return _doubted(base, candidates, device) if may else base


def _doubted(choice: DeviceSelection, candidates: Sequence[CandidateImage], device: Device) -> DeviceSelection:
    """Return a selection from images that may fit or not."""
    number = choice.possible[0] if choice.image is None else choice.image
    judged, name = choice.judgements[number], _name(candidates[number])
    arch = device.nvidia
    if arch is not None and cuda.mislabelled_arch(candidates[number], arch) is not None:
        reason = f"{name} contains code for {candidates[number].contents}; it is unknown if a driver loads it"
        return choice.replace(outcome="unknown", rule="C10", reason=reason, is_certain=False, error=None)
    reason = f"whether {name} {judged.reason} is not known"
    if judged.rule == "C8":
        reason = f"{name} {judged.reason}"
    elif judged.rule == "C3":
        reason = f"drivers of CUDA 12 refuse {name} on Tegra; for newer ones this is not known"
    elif not judged.fits:
        reason = f"whether {name} fits is not known: it {judged.reason}"
    return choice.replace(outcome="unknown", rule=judged.rule, reason=reason, is_certain=False, error=None)


def _name(image: CandidateImage) -> str:
    return f"{'the PTX' if image.form == 'ptx' else 'the cubin'} for {image.arch}"


def _end(image: CandidateImage, judged: Fit, device: Device, settings: RuntimeSettings) -> SelectionResult:
    """Return the outcome of one image if it is selected."""
    arch = device.nvidia
    assert arch is not None
    if not judged.fits:  # unknown if it fits; if it is selected, it does
        return SelectionResult("runs", 0, judged.rule, judged.reason, is_certain=False)
    return cuda.select_cuda_image(
        [image], arch, settings.driver, forces_ptx=settings.forces_ptx, disables_ptx=settings.disables_ptx
    )


def _cuda_error(answer: SelectionResult) -> tuple[str, int] | None:
    if answer.code is not None:
        return "cuda", answer.code
    return next((("cuda", code) for code, words in cuda.ERRORS.items() if words == answer.error), None)


def _of_answer(
    answer: SelectionResult, judgements: tuple[Fit, ...], error: tuple[str, int] | None = None, state: str = ""
) -> DeviceSelection:
    may = () if answer.image is None else (answer.image,)
    text = "" if error else answer.error
    outcome = answer.outcome
    if outcome != "fails" and not answer.is_certain and not any(judgements[number].is_certain for number in may):
        outcome = "unknown"
    return DeviceSelection(
        outcome, answer.image, may, answer.rule, answer.reason, judgements, answer.is_certain, error, text, state
    )


def _amd(images: CandidateSet, state: str, settings: RuntimeSettings) -> DeviceSelection:
    candidates = images.candidates
    if images.offload == "openmp":
        judgements = tuple(sycl_openmp.openmp_fit(image, state) for image in candidates)
        choice = _of_answer(sycl_openmp.select_openmp_image(candidates, state), judgements, None, state)
    elif images.offload == sycl_openmp.LIBGOMP:
        judgements = tuple(sycl_openmp.gcn_fit(image, state) for image in candidates)
        choice = _of_answer(sycl_openmp.select_gcn_image(candidates, state), judgements, None, state)
    elif images.is_kpack:
        archs = [image.arch for image in candidates]
        listed = {arch for name in amd.requested_target_ids(state) for arch in amd.feature_subsets(name)}
        judgements = tuple(
            Fit(arch in listed, "K4", f"{'is' if arch in listed else 'is not'} a name that the loader asks for")
            for arch in archs
        )
        found = amd.select_kpack_archive(amd.candidate_archives([archs], state), lambda _, arch: arch in archs)
        answer: SelectionResult = found
        if found.outcome == "runs":
            taken = archs.index(found.arch)
            answer = amd.load_result(candidates[taken], found.replace(image=taken), state, settings.rocm)
        code = 200 if answer.code is None else answer.code
        choice = _of_answer(answer, judgements, ("hip", code) if answer.outcome == "fails" else None, state)
    else:
        choice = _hip(images, state, settings)
    if settings.override and choice.image is not None and choice.outcome != "fails":
        reason = f"{choice.reason}; the hardware is not {state.partition(':')[0]}, which nothing checks: at own risk"
        return choice.replace(outcome="unknown", rule="H9", reason=reason, is_certain=False)
    return choice


def _hip(images: CandidateSet, state: str, settings: RuntimeSettings) -> DeviceSelection:
    candidates = images.candidates
    judgements = tuple(amd.hip_fit(image, state, forces_spirv=settings.forces_spirv) for image in candidates)
    answer = amd.select_hip_image(candidates, state, settings.rocm, forces_spirv=settings.forces_spirv)
    if images.is_bare:
        judgements = tuple(one.replace(rule="H6") for one in judgements)
    if answer.image is None:
        rule = judgements[0].rule if len(judgements) == 1 else answer.rule
        return _of_answer(answer.replace(rule=rule, error=""), judgements, ("hip", 200), state)
    choice = _of_answer(answer, judgements, None if answer.code is None else ("hip", answer.code), state)
    if choice.outcome == "fails" or images.bundle_version is None:
        return choice
    if images.bundle_version == 1:
        reason = "a compressed bundle of version 1 has no total size, and the runtime reads one"
        return choice.replace(outcome="fails", rule="H12", reason=reason, text="the program crashes, without a message")
    if images.bundle_version >= _NEWEST_BUNDLE and settings.rocm is not None and settings.rocm < _WRITTEN_SINCE:
        reason = f"whether ROCm before 7.2 reads compressed bundles of version {images.bundle_version} is not known"
        return choice.replace(outcome="unknown", rule="H12", reason=reason, is_certain=False)
    return choice


def _intel(images: CandidateSet, device: Device) -> DeviceSelection:
    if images.offload == "openmp":
        judgements = tuple(sycl_openmp.openmp_intel_fit(image) for image in images.candidates)
        return _of_answer(sycl_openmp.select_openmp_intel_image(images.candidates, device.arch), judgements)
    line = load_vocabulary().intel.get(device.arch)
    adapter = "opencl-cpu" if line is not None and line.kind == "cpu" else "level-zero"
    judgements = tuple(sycl_openmp.sycl_fit(image, device.arch, adapter) for image in images.candidates)
    answer = sycl_openmp.select_sycl_image(images.candidates, device.arch, adapter, is_module=images.is_module)
    if answer.image is not None and not judgements[answer.image].is_certain:
        answer = answer.replace(rule="Y2", reason=judgements[answer.image].reason, is_certain=False)
    return _of_answer(answer, judgements)


def required_cuda(image: CandidateImage) -> tuple[int, int] | None:
    """Return the CUDA version of the first driver that reads an image's compression and compiles its PTX.

    None if every driver does, or if it is unknown.
    """
    found = []
    if image.compression == "zstd" and image.form in ("cubin", "ptx"):
        found.append(cuda.ZSTD_SINCE)
    if image.form == "ptx" and image.ptx_version is not None:
        found += filter(None, [first_cuda_for_ptx(image.ptx_version)])
    return max(found, default=None)
