"""The images of one container that stay for a device: those its runtime would take, or may take.

The rules are those of :mod:`fatpack.targets.selection`. If the preference of a runtime among several images is
unknown, all of them stay; if it is unknown whether an image fits, it stays too. Images that need no other:

=======  ===============================================================================================
CUDA     the cubin for the device's own number, ``a`` before plain; beside it those for its family (``f``)
HIP      of each setting of the features that were left open, what the runtime takes
kpack    the same, of the code objects of one program
OpenMP   the first that the plugin takes
SYCL     images for the device, and SPIR-V if there are none
=======  ===============================================================================================
"""

from __future__ import annotations

from fatpack.record import Record
from fatpack.scanner import FoundContainer
from fatpack.targets.nvidia import can_load, parse_nvidia
from fatpack.targets.selection import cuda, model
from fatpack.targets.selection.model import CandidateImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.commands.slim.linked import LinkedProgramFile
    from fatpack.io.source import View
    from fatpack.model import Target
    from fatpack.scanner import FoundImage
    from fatpack.targets.devices import Device
    from fatpack.targets.nvidia import LoadRule, NvidiaArch


class ImagesForDevice(Record):
    """The images that a device loads: ``needed`` are positions that must stay, because the runtime takes one of them.

    ``possible`` are positions that the runtime may take if a rule is wrong. A device without ``needed`` positions is
    not served. ``doubt`` says what is unknown, and is "" if nothing is.
    """

    needed: frozenset[int] = frozenset()
    possible: frozenset[int] = frozenset()
    doubt: str = ""


def target_vendor(target: Target) -> str:
    """Return the vendor of an image's devices: nvidia, amd or intel (any device that SYCL compiles for)."""
    return model.image_vendor(target.triple, target.arch)


#: LIMIT: answers that are kept.
_MAX_ANSWERS = 1024
_answers: dict[tuple[object, ...], ImagesForDevice] = {}


def images_for_device(
    images: tuple[CandidateImage, ...],
    offload: str,
    device: Device,
    *,
    is_kpack: bool = False,
    all_minors: bool = False,
) -> ImagesForDevice:
    """Return what a device gets of images of one vendor and one programming model.

    ``all_minors`` keeps every image that fits an NVIDIA device, for libraries that ask for kernels by name.
    """
    # The fat binaries of a library are made for the same architectures, thousand times over. Importing functools takes
    # longer than slimming an object.
    key = images, offload, device, is_kpack, all_minors
    answer = _answers.get(key)
    if answer is None:
        if len(_answers) >= _MAX_ANSWERS:
            _answers.clear()
        answer = _answers[key] = _images_for_device(images, offload, device, is_kpack=is_kpack, all_minors=all_minors)
    return answer


def _images_for_device(
    images: tuple[CandidateImage, ...], offload: str, device: Device, *, is_kpack: bool, all_minors: bool
) -> ImagesForDevice:
    if device.vendor == "nvidia":
        arch = device.nvidia
        found = _cuda(images, arch, all_minors=all_minors) if arch else ImagesForDevice()
        return _with_bitcode(found, images) if offload == "openmp" else found
    if device.vendor == "amd":
        return _amd(images, offload, device, is_kpack=is_kpack)
    # Level Zero's plugin takes the first image of OpenMP, whatever it is for (M5): none is of no use.
    if offload == "openmp" and images:
        return ImagesForDevice(frozenset([0]), frozenset(range(1, len(images))))
    return _intel(images, device)


def _with_bitcode(found: ImagesForDevice, images: Sequence[CandidateImage]) -> ImagesForDevice:
    """Return what is served if a plugin was built with a compiler: it takes bitcode for any device (M4)."""
    bitcode = [number for number, image in enumerate(images) if image.form == "bitcode"]
    return found.replace(possible=found.possible.union(bitcode)) if bitcode else found


# Not `cuda.possible`, which says what one driver takes: what goes away here is gone for every driver and every user. So
# no driver is assumed, forms that hold a cubin or PTX in turn count as what they are labelled, entries for several
# architectures for each, and what must stay (`needed`) is separate from what may. The rules of fitting are the same
# (`loads`, `judge`), and tests/laws/test_explain_and_slim.py holds that nothing goes that `explain` says may be taken.
def _cuda(images: Sequence[CandidateImage], device: NvidiaArch, *, all_minors: bool) -> ImagesForDevice:
    cubins, texts, doubtful = _fitting(images, device)
    if all_minors:
        numbers = [frozenset(number for number, _, _ in fits) for fits in (cubins, texts)]
        return ImagesForDevice(numbers[0] or numbers[1], frozenset((*numbers[1], *doubtful)))
    doubt = _doubt([images[number] for number in doubtful], device)
    if cubins:
        exact = [fit for fit in cubins if fit[1].number == device.number]
        own = [fit for fit in exact if fit[1].suffix == "a"] or [fit for fit in exact if not fit[1].suffix]
        family = [number for number, arch, _ in cubins if arch.suffix == "f"]
        if own:
            return ImagesForDevice(frozenset([own[0][0]]), frozenset((*family, *doubtful)), doubt)
        # It is not known which of several lower cubins a driver takes, nor if it prefers them to PTX for this number.
        also = [number for number, arch, _ in texts if arch.number == device.number]
        several = "it is not known which of several cubins is taken" if len(cubins) + len(also) > 1 else ""
        return ImagesForDevice(
            frozenset(number for number, _, _ in cubins),
            frozenset((*also, *doubtful)),
            "; ".join(filter(None, (several, doubt))),
        )
    if texts:
        highest = max((arch.number, arch.suffix == "a") for _, arch, _ in texts)
        own = [fit for fit in texts if (fit[1].number, fit[1].suffix == "a") == highest]
        family = [number for number, arch, _ in texts if arch.suffix == "f"]
        return ImagesForDevice(frozenset([own[0][0]]), frozenset((*family, *doubtful)), doubt)
    return ImagesForDevice(frozenset(), frozenset(doubtful), doubt)


def _doubt(images: Sequence[CandidateImage], device: NvidiaArch) -> str:
    """Return what is not known of some images, in the words of ``explain``."""
    names = ", ".join(dict.fromkeys(image.arch for image in images))
    if not names:
        return ""
    if all(cuda.cuda_fit(image, device).rule == "C3" for image in images):
        return f"drivers of CUDA 12 refuse cubins for {names} on Tegra; for newer ones this is not known"
    return f"it is not known if code for {names} runs there"


def _fitting(
    images: Sequence[CandidateImage], device: NvidiaArch
) -> tuple[list[tuple[int, NvidiaArch, LoadRule]], list[tuple[int, NvidiaArch, LoadRule]], list[int]]:
    """Return the cubins and the PTX that fit, and the cubins for which that is not known."""
    cubins: list[tuple[int, NvidiaArch, LoadRule]] = []
    texts: list[tuple[int, NvidiaArch, LoadRule]] = []
    doubtful = []
    for number, image in enumerate(images):
        # Other forms hold a cubin or PTX in turn, and the outer one says for which architecture.
        form = "ptx" if image.form == "ptx" else "cubin"
        for name in image.arch.split(","):
            arch = parse_nvidia(name)
            if arch is None or image.form in LINKED:
                continue
            ruling = can_load(arch, device, form)
            if ruling.answer:
                (texts if form == "ptx" else cubins).append((number, arch, ruling))
            elif not ruling.is_certain:
                doubtful.append(number)
    return cubins, texts, doubtful


#: forms that only linkers and compilers take
LINKED = cuda.LINKED


def can_link_for(image: CandidateImage, device: NvidiaArch) -> bool:
    """Return whether code for linkers can become code for a device: it is for no higher number."""
    arch = parse_nvidia(image.arch)
    return arch is None or arch.number <= device.number


def _amd(images: Sequence[CandidateImage], offload: str, device: Device, *, is_kpack: bool) -> ImagesForDevice:
    needed = set()
    unserved = []
    for state in device.states:
        taken = _taken_by_amd(images, offload, state, is_kpack=is_kpack)
        if taken is None:
            unserved.append(state)
        else:
            needed.add(taken)
    doubt = f"nothing is for {', '.join(unserved)}" if needed and unserved else ""
    return ImagesForDevice(frozenset(needed), frozenset(), doubt)


def _taken_by_amd(images: Sequence[CandidateImage], offload: str, state: str, *, is_kpack: bool) -> int | None:
    from fatpack.targets.selection import amd, sycl_openmp

    if is_kpack:
        archs = [image.arch for image in images]
        answer = amd.select_kpack_archive(amd.candidate_archives([archs], state), lambda _, arch: arch in archs)
        return archs.index(answer.arch) if answer.outcome == "runs" else None
    if offload == "openmp":
        return sycl_openmp.select_openmp_image(images, state).image
    return amd.select_hip_image(images, state).image


def _intel(images: Sequence[CandidateImage], device: Device) -> ImagesForDevice:
    from fatpack.targets.selection import sycl_openmp

    for adapter in ("level-zero", "opencl-cpu"):
        answer = sycl_openmp.select_sycl_image(images, device.arch, adapter)
        if answer.image is not None:
            chosen = images[answer.image]
            # A program has an image for every group of its kernels: all for the same target are alike.
            return ImagesForDevice(
                frozenset(
                    number
                    for number, image in enumerate(images)
                    if (image.triple, image.arch) == (chosen.triple, chosen.arch)
                )
            )
    return ImagesForDevice()


# The images of a file, each in its place: what it is for in words, and among which others a runtime chooses.
#
# A runtime chooses from one container; of offload binaries, whose images lie side by side in a section, from all of a
# section. Images of one container that are for different programming models or vendors are chosen from apart.

#: formats whose containers of one section are chosen from together
SIDE_BY_SIDE = ("llvm-offload-binary", "syclbin")


class SlimImage(Record):
    """An image, where it is (``number`` of its container, ``index`` in there, as ``inspect`` prints them)."""

    number: int
    index: int
    found: FoundContainer
    image: FoundImage

    @property
    def position(self) -> str:
        """The position as ``inspect`` prints it: ``2.0``."""
        return f"{self.number}.{self.index}"


class ImageForDevice(Record):
    """The images that a device loads, or may load, from one set; ``first`` is the first image of the set.

    ``needed`` are those of them without which the device would load nothing else that is as good.
    """

    first: SlimImage
    device: str
    rows: tuple[SlimImage, ...]
    needed: tuple[SlimImage, ...] = ()


def is_host(image: FoundImage) -> bool:
    """Return whether an image is for the host of a program: such stay."""
    return image.target.offload == "host"


def image_form(image: FoundImage) -> str:
    """Return what an image is: what its container says of code for linkers, whose bytes are bitcode."""
    return image.as_stored.form if image.as_stored.form in LINKED else image.form


def arch_label(image: FoundImage) -> str:
    """Return what an image is for in the words of patterns: ``sm_90a``, ``compute_80`` for PTX, a target ID."""
    arch = image.target.arch
    if image_form(image) in LINKED and arch.startswith("sm_"):
        return f"lto_{arch.removeprefix('sm_')}"
    return image.label or image.target.triple or image.form


def matches_pattern(image: FoundImage, patterns: Sequence[str]) -> bool:
    """Return whether one of some patterns means an image. ``sm_*`` means no PTX, which is ``compute_*``."""
    if not patterns:
        return False
    from fnmatch import fnmatchcase

    text = arch_label(image)
    texts = {text, text.partition(":")[0]}
    if image_form(image) in LINKED:
        texts.add(image.target.arch)
    return any(fnmatchcase(one, pattern) for one in texts for pattern in patterns)


def group_into_image_sets(rows: Sequence[SlimImage]) -> Iterator[list[SlimImage]]:
    """Yield the images among which a runtime chooses, in their order."""
    image_sets: dict[object, list[SlimImage]] = {}
    for row in rows:
        image_sets.setdefault(image_set_key(row), []).append(row)
    yield from image_sets.values()


def image_set_key(row: SlimImage) -> tuple[object, ...]:
    """Return the key of the images among which a runtime chooses."""
    found, target = row.found, row.image.target
    where: object = row.number
    if found.format in SIDE_BY_SIDE:
        where = (found.member_numbers, found.index, found.section)
    elif found.format == "rocm-kpack":
        where = (row.number, row.image.attrs.get("binary", ""))
    return where, target.offload, target_vendor(target)


def image_key(found: FoundContainer, image: FoundImage) -> object:
    """Return what an image is known by in every scan of a file."""
    place, span = found.container.span, image.span
    return place.source, place.start, span.source, span.start, span.end, arch_label(image)


def dead_keys(view: View, kept: Sequence[SlimImage], file: LinkedProgramFile | None) -> frozenset[object]:
    """Return the keys of the kept images that can never run and may be taken out.

    Of containers that are linked together an architecture goes from all or none; those in data stay as they are, except
    offload binaries, in whose place zeros may be.
    """
    from fatpack.tabular.dead import DeadFinder

    elsewhere = () if file is None else file.elsewhere
    fixed = frozenset(id(found) for found in elsewhere if found.format not in SIDE_BY_SIDE)
    inside: dict[int, list[SlimImage]] = {}
    for row in kept:
        if id(row.found) not in fixed:
            inside.setdefault(row.number, []).append(row)
    left = [(rows[0].found, frozenset(row.index for row in rows)) for rows in inside.values()]
    dead = DeadFinder(view).find_in(left)
    return frozenset(
        image_key(row.found, row.image)
        for rows, found in zip(inside.values(), dead, strict=True)
        for row in rows
        if row.index in found
    )


# The images to keep and to drop, and the containers that make the request invalid.

#: kernels of a container that a message names, and characters of each
_SHOWN, _WIDTH = 3, 60


class UnsupportedContainer(Record):
    """A container that would be of no use: to a device, or to any (``device`` is "").

    ``kernels`` are the names of some that are lost, ``kernel_count`` how many there are; of containers after the
    first ones they are not read.
    """

    found: FoundContainer
    number: int
    device: str
    kernels: tuple[str, ...]
    kernel_count: int

    @property
    def words(self) -> str:
        """The container and its kernels in words."""
        place = f" in {self.found.section}" if self.found.section else ""
        named = [name if len(name) <= _WIDTH else f"{name[: _WIDTH - 1]}…" for name in self.kernels[:_SHOWN]]
        more = f" and {self.kernel_count - len(named)} more" if self.kernel_count > len(named) else ""
        kernels = f" (kernels: {', '.join(named)}{more})" if named else ""
        return f"container {self.number} at {self.found.container.span.start:#x}{place}{kernels}"

    @property
    def archs(self) -> tuple[str, ...]:
        """The architectures of the container's device code."""
        return tuple(dict.fromkeys(arch_label(image) for image in self.found.images if not is_host(image)))


class ImageSelection(Record):
    """The images of a file that are kept and dropped. ``notes`` are remarks for the user.

    ``emptied`` are the containers that would lose all device code, ``lost`` those from which a device is served now and
    would not be then, and ``useless`` containers whose remaining code no device would load. ``vendors`` are the
    vendors whose code the file has, and ``unserved`` their devices for which nothing in the file is.
    ``vacated`` are the numbers of the containers that lose all code, none of which was for a device before. ``needed``
    are the ``id()`` of the images that a device of the list takes.
    """

    kept: tuple[SlimImage, ...] = ()
    dropped: tuple[SlimImage, ...] = ()
    emptied: tuple[UnsupportedContainer, ...] = ()
    lost: tuple[UnsupportedContainer, ...] = ()
    useless: tuple[UnsupportedContainer, ...] = ()
    notes: tuple[str, ...] = ()
    vendors: frozenset[str] = frozenset()
    unserved: tuple[Device, ...] = ()
    vacated: frozenset[int] = frozenset()
    needed: frozenset[int] = frozenset()

    def kept_too(self, images: Collection[int]) -> ImageSelection:
        """Return the selection with some of the dropped images kept, each by its ``id()``."""
        if not images:
            return self
        stay = [row for row in self.dropped if id(row.image) in images]
        dropped = tuple(row for row in self.dropped if id(row.image) not in images)
        return self.replace(kept=(*self.kept, *stay), dropped=dropped)

    def without(self, removed: frozenset[object]) -> ImageSelection:
        """Return the selection without some of the kept images, each by its :func:`image_key`."""
        gone = {id(row.image) for row in self.kept if image_key(row.found, row.image) in removed}
        kept = tuple(row for row in self.kept if id(row.image) not in gone)
        return self.replace(kept=kept, dropped=(*self.dropped, *(row for row in self.kept if id(row.image) in gone)))

    @property
    def refused(self) -> tuple[UnsupportedContainer, ...]:
        """The containers that speak against it, each once: with all devices that lose it."""
        found: dict[int, UnsupportedContainer] = {}
        for one in (*self.lost, *self.emptied, *self.useless):
            listed = found.setdefault(one.number, one)
            if one.device and one.device not in listed.device.split(", "):
                found[one.number] = listed.replace(device=f"{listed.device}, {one.device}")
        return tuple(found[number] for number in sorted(found))
