"""Images of one container that can never run: no device takes them, whatever its driver.

==========  =============================================================================================
beaten      machine code: each device on which it would run takes another image of the container
covered     PTX: each device that could compile it takes machine code, or PTX for a higher number
no-device   no device has the architecture, and none runs its code
linker      LTO-IR and relocatable PTX in a linked file: no driver takes them (C11, C12), and nothing links any more
==========  =============================================================================================

This assumes:

* the rules of the runtimes, for every device of the tables and every driver with which an answer changes;
* also devices that come later: higher minor versions of compute capability 10 and above, and higher major versions. So
  the PTX for the highest number always stays, and so does code for a family (``sm_100f``, ``gfx11-generic``), SPIR-V,
  and code of which a rule is not certain;
* that nobody sets ``CUDA_FORCE_PTX_JIT``, which hides machine code to try PTX (C13), and that nobody takes an image out
  of the file by other means than the runtime, as ``cuobjdump`` does.
"""

from __future__ import annotations

from fatpack.record import Record
from fatpack.targets.devices import Device
from fatpack.targets.nvidia import NvidiaArch, can_load, parse_nvidia
from fatpack.targets.selection.cuda import possible_images
from fatpack.targets.selection.model import CandidateImage
from fatpack.targets.vocabulary import load_vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: reason → what it means, in words
REASONS = {
    "beaten": "each device takes another image of its container",
    "covered": "PTX that no driver compiles: each device has a better image",
    "no-device": "for no device that exists",
    "linker": "for linkers, in a file that is linked already",
}

#: CUDA versions of drivers for which the rules differ: cubins for other parts on Orin (C3). None: it is not known.
DRIVERS = (None, (12, 9), (13, 0))

#: Major versions that may get further minor ones; the last is beyond all that NVIDIA has named.
_GROWING, _LAST = 10, 16

#: LIMIT: answers that are kept: the containers of a library have a few different sets of architectures.
_MAX_ANSWERS = 1024


class DeadImage(Record):
    """``reason`` is a key of :data:`REASONS`, ``words`` are a sentence without a subject: what is taken instead."""

    reason: str
    words: str


_answers: dict[object, dict[int, DeadImage]] = {}


def find_dead(images: Sequence[CandidateImage], offload: str, *, is_linked: bool = False) -> dict[int, DeadImage]:
    """Return the images of one container that can never run, by their positions.

    ``offload`` is ``cuda``, ``hip``, or ``openmp`` for the images of one descriptor; of other models nothing
    is known to be dead. ``is_linked``: the file is a program or a library, and no longer the input of a linker.
    """
    plain = tuple(CandidateImage(image.form, image.arch, image.triple) for image in images)
    key = plain, offload, is_linked
    found = _answers.get(key)
    if found is None:
        if len(_answers) >= _MAX_ANSWERS:
            _answers.clear()
        judge = {"cuda": _cuda, "hip": _hip, "openmp": _openmp}.get(offload)
        found = _answers[key] = {} if judge is None else judge(plain, is_linked=is_linked)
    return found


def nvidia_numbers() -> tuple[int, ...]:
    """Return the compute capabilities of devices, 86 for 8.6, of known devices and of later ones."""
    archs = filter(None, map(parse_nvidia, load_vocabulary().nvidia))
    known = {arch.number for arch in archs if not arch.is_virtual}
    later = set(range(10 * _GROWING, 10 * _LAST)) if known else set()
    newest = {major: max(number for number in known if number // 10 == major) for major in {n // 10 for n in known}}
    return tuple(sorted(known | {number for number in later if number > newest.get(number // 10, 0)}))


def _cuda(images: Sequence[CandidateImage], *, is_linked: bool) -> dict[int, DeadImage]:
    archs = {number: arch for number, image in enumerate(images) if (arch := _judged(image)) is not None}
    numbers = list(archs)
    plain = [images[number] for number in numbers]
    taken: dict[int, set[int]] = {}
    for device in nvidia_numbers():
        choices = {at for driver in DRIVERS for at in possible_images(plain, NvidiaArch(device), driver)}
        taken[device] = {numbers[at] for at in choices}
    live = set().union(*taken.values()) | _for_later(images, archs)
    if not live:
        return {}  # what remained would be nothing
    dead = [number for number in numbers if number not in live]
    first = {(images[number].form, images[number].arch): number for number in reversed(dead)}
    reasons = {key: _reason(images[at], archs[at], images, taken) for key, at in first.items()}
    found = {number: reasons[images[number].form, images[number].arch] for number in dead}
    if is_linked:
        for number, image in enumerate(images):
            if image.form in ("ltoir", "relocatable-ptx"):
                found[number] = DeadImage("linker", "is for linkers: no driver takes it")
    return found


def _judged(image: CandidateImage) -> NvidiaArch | None:
    return parse_nvidia(image.arch) if image.form in ("cubin", "ptx") else None


def _for_later(images: Sequence[CandidateImage], archs: dict[int, NvidiaArch]) -> set[int]:
    """Return what stays for devices that come later: the highest PTX that all of them compile, and code of families."""
    texts = [(arch.number, -at) for at, arch in archs.items() if images[at].form == "ptx" and not arch.suffix]
    newest = -max(texts)[1] if texts else -1
    first = {image: at for at, image in reversed([*enumerate(images)])}
    families = {at for at, arch in archs.items() if arch.suffix == "f" and first[images[at]] == at}
    return families | {newest} & archs.keys()


def _reason(
    image: CandidateImage, arch: NvidiaArch, images: Sequence[CandidateImage], taken: dict[int, set[int]]
) -> DeadImage:
    form = "ptx" if image.form == "ptx" else "cubin"
    served = [number for number in taken if can_load(arch, NvidiaArch(number), form).answer]
    if not served:
        return DeadImage("no-device", f"no device runs {image.arch}")
    winners = {at for number in served for at in taken[number]}
    named = dict.fromkeys(_label(images[at]) for at in sorted(winners))
    names = ", ".join(named if len(named) <= 4 else [*list(named)[:3], f"{len(named) - 3} others"])
    return DeadImage("covered" if form == "ptx" else "beaten", f"its devices take {names}")


def _label(image: CandidateImage) -> str:
    return image.arch.replace("sm_", "compute_") if image.form == "ptx" else image.arch


def _hip(images: Sequence[CandidateImage], *, is_linked: bool) -> dict[int, DeadImage]:
    from fatpack.targets.selection.amd import select_hip_image

    judged = {at for at, image in enumerate(images) if _is_processor(image)}
    if not judged:
        return {}
    # HIP_FORCE_SPIRV_CODEOBJECT takes SPIR-V alone, which is not judged.
    names = [line.name for line in load_vocabulary().amd.values() if line.kind == "processor"]
    taken = {select_hip_image(images, state).image for name in names for state in Device("amd", name).states}
    found = {}
    for at in sorted(judged - taken):
        own = Device("amd", images[at].arch).states
        winners = filter(None, (_winner(images, state) for state in own))
        others = ", ".join(dict.fromkeys(winners))
        reason = "beaten" if others else "no-device"
        found[at] = DeadImage(reason, f"its devices take {others}" if others else f"no device runs {images[at].arch}")
    return found if len(found) < len(images) else {}


def _openmp(images: Sequence[CandidateImage], *, is_linked: bool) -> dict[int, DeadImage]:
    """Return the images of a descriptor of which no plugin takes one; Level Zero's takes the first, whatever it is."""
    from fatpack.targets.selection.sycl_openmp import select_openmp_image

    if not is_linked:
        return {}  # a linker puts images of other objects before and after them
    devices = [f"sm_{number}" for number in nvidia_numbers()]
    processors = [line.name for line in load_vocabulary().amd.values() if line.kind == "processor"]
    devices += [state for name in processors for state in Device("amd", name).states]
    taken = {device: select_openmp_image(images, device).image for device in devices}
    live = {0, *(at for at in taken.values() if at is not None)}
    found = {}
    for at, image in enumerate(images):
        is_judged = image.form not in _PORTABLE and (parse_nvidia(image.arch) is not None or _is_processor(image))
        if at in live or not is_judged:
            continue
        alone = [device for device in devices if select_openmp_image([image], device).image is not None]
        names = ", ".join(dict.fromkeys(images[first].arch for one in alone if (first := taken[one]) is not None))
        reason = "beaten" if alone else "no-device"
        found[at] = DeadImage(reason, f"its devices take {names}" if alone else f"no device runs {image.arch}")
    return found


#: forms that plugins compile for any device
_PORTABLE = ("bitcode", "llvm-ir", "spirv", "ltoir")


def _winner(images: Sequence[CandidateImage], state: str) -> str:
    from fatpack.targets.selection.amd import select_hip_image

    chosen = select_hip_image(images, state).image
    return "" if chosen is None else images[chosen].arch


def _is_processor(image: CandidateImage) -> bool:
    """Return whether an image is for one processor that the tables have: not for a family, and not SPIR-V."""
    if image.form in ("bitcode", "llvm-ir", "spirv"):
        return False
    line = load_vocabulary().amd.get(image.arch.partition(":")[0])
    return line is not None and line.kind == "processor"
