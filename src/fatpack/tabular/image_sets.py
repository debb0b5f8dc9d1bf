"""Group rows of images into image sets: the images from which a runtime selects one, as the runtime sees them.

Texts for users and the keys of JSON call an image set a *unit* (docs/commands.md).

A container is an image set, with these exceptions. Adjacent offload binaries in a section are one set, because a linker
or runtime reads them together; so are the images of one program in kpack archives, in any number of archives. Each
abstract module of a SYCLBIN file is a set with kernels of its own. The AKS2 archives of one kernel, which lie in a
folder for each target, are one set: the library reads that of the device. Images of one container for different
programming models or vendors are separate sets.

Containers in the data of a program or library are not registered: its own code selects one, as cuFFT does from 24,453.
All of them are one set.
"""

from __future__ import annotations

from fatpack.binary.host_sections import is_host_data_section, section_name_stem
from fatpack.binary.macho.locate import is_host_data_section as is_macho_data
from fatpack.binary.section_names import DEVICE_LINK_SECTIONS, OFFLOADING
from fatpack.findings import finding
from fatpack.formats.aks2.layout import AKS2_FORMAT, path_without_target
from fatpack.images import NOT_INFLATED
from fatpack.model import arch_name
from fatpack.record import Record
from fatpack.targets.selection.cuda import LINKED
from fatpack.targets.selection.model import CandidateImage, image_vendor
from fatpack.targets.selection.select_image import CandidateSet

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import TypeAlias

    from fatpack.model import Finding
    from fatpack.scanner import FoundImage
    from fatpack.tabular.columns import AnyRow, ImageRow

    Key: TypeAlias = tuple[object, ...]

#: formats whose containers in one section form one set
_SIDE_BY_SIDE = ("llvm-offload-binary", "cir-offload-container")

#: formats of which a runtime or a library looks for an image in several files
_SEVERAL_FILES = ("rocm-kpack", AKS2_FORMAT)

#: the format of kernel caches: a library compiles what its cache lacks, so they never decide if a device is served
_CACHE = "rocm-kernel-cache"

#: the format of records of GCC's offloading, whose images lie among a program's data, and are registered
_OF_GCC = "gcc-offload"

#: formats in which the position of an image decides, not its target
_BY_POSITION = ("cuda-fatbin",)

#: forms of image files that a runtime loads
_LOADED = ("cubin", "ptx", "code-object", "spirv")

#: forms of files for the host, which may have metadata of an AMD device by mistake
_FOR_HOSTS = ("object", "archive")

#: the form of image files for a linker
_FOR_LINKERS = ("ltoir",)

#: forms of files outside containers that a compiler reads, and no driver: libraries of device functions, such as
#: NVIDIA's libdevice.10.bc and AMD's ocml.bc, and output of earlier stages
_FOR_COMPILERS = ("bitcode", "llvm-ir", "assembly", "preprocessed")

#: the words for files of these forms
COMPILER_INPUT = "input of a compiler, which no driver loads"

#: the words for kernel caches
CACHED = "a kernel cache, which does not decide if a device is served"

#: the words for objects of GCC's offloading
UNDECIDED = "GCC's bytecode for accelerators, whose target is chosen when it is linked"

#: the words for an image whose bytes no format claims
UNKNOWN_FORM = "the bytes are of no known form"

#: Least size of a cubin with a kernel: its header, a dozen sections, the constants of the parameters (352 bytes) and
#: one group of instructions. nvcc's device link writes a smaller one if there was nothing to link.
_EMPTY_CUBIN = 1024


class ImageSetLocation(Record):
    """The location of an image set: the file, the member and section in it, and the number of its container.

    ``container`` is None for an image outside containers. ``offset`` is that of its first image, None in compressed
    data. ``binary`` is the program for which a kpack archive contains it. ``library`` is the name of a library of
    Tensile, whose folder is the ``path`` then.
    """

    path: str
    chain: tuple[str, ...] = ()
    container: int | None = None
    offset: int | None = None
    section: str | None = None
    member: str | None = None
    binary: str | None = None
    library: str | None = None


class ImageSetMember(Record):
    """An image, or several that a runtime does not distinguish: its properties, and the position of the first."""

    candidate: CandidateImage
    position: str
    name: str
    form: str
    count: int = 1
    has_kernel: bool | None = None
    ptx_version: str | None = None


class ImageSet(Record):
    """The images from which a runtime selects one; ``runtime`` is cuda, hip, openmp, sycl, kpack or gcc.

    ``is_for_link`` is true for relocatable device code, which a device link turns into the code that is loaded. ``own``
    is the number of containers from which a library selects one itself; 0 if a runtime selects. ``rows`` are those it
    was made of.
    """

    place: ImageSetLocation
    format: str | None
    vendor: str
    runtime: str
    images: tuple[ImageSetMember, ...]
    bundle_version: int | None = None
    is_for_link: bool = False
    own: int = 0
    rows: tuple[ImageRow, ...] = ()

    @property
    def candidates(self) -> CandidateSet:
        """The images as input of the selection rules."""
        return CandidateSet(
            tuple(image.candidate for image in self.images),
            self.runtime,
            self.bundle_version,
            self.runtime == "kpack",
            self.place.container is None,
            self.format == "syclbin",
        )


def read_image_sets(rows: Iterable[ImageRow]) -> Iterator[ImageSet | ImageRow]:
    """Yield the image sets of files, each row ``file`` after those of the file; sets of several files come last."""
    archives: dict[Key, list[ImageRow]] = {}
    groups: dict[Key, list[ImageRow]] = {}
    for row in rows:
        if row.row == "file":
            yield from _image_sets(groups)
            groups = {}
            yield row
        elif _is_chosen_from(row):
            key = image_set_key(row, image_vendor(row.triple or "", row.arch or ""))
            (archives if row.container_format in _SEVERAL_FILES else groups).setdefault(key, []).append(row)
    yield from _image_sets(groups)
    yield from _image_sets(archives)


def _image_sets(groups: Mapping[Key, list[ImageRow]]) -> Iterator[ImageSet]:
    for _, rows in without_link_leftovers(groups.items()):
        yield make_image_set(rows)


def _is_chosen_from(row: ImageRow) -> bool:
    if row.offload == "host" or row.container_format == "cir-offload-container" or row.containers:
        return False  # containers inside an image take the place of it
    if is_cached(row):
        return False
    if row.container is not None or row.form in _LOADED:
        return True
    return row.form in _FOR_LINKERS


def is_cached(row: ImageRow) -> bool:
    """Return whether an image is of a kernel cache, which never decides if a device is served."""
    return row.container_format == _CACHE


def is_undecided(row: AnyRow) -> bool:
    """Return whether the row of a file says that objects in it have bytecode whose target is chosen when linking."""
    return row.row == "file" and "FP2701" in row.findings


def undecided_words(items: Iterable[object]) -> str:
    """Return what a file has whose code waits for its link, from its findings among other items; "" for any other."""
    is_waiting = any(getattr(item, "code", "") == "FP2701" for item in items)
    return f"what it has is {UNDECIDED}" if is_waiting else ""


def is_compiler_input(row: ImageRow) -> bool:
    """Return whether an image is a file that a compiler reads: no driver loads it, whatever device it is for."""
    return row.container is None and row.form in _FOR_COMPILERS


def image_set_key(row: ImageRow, vendor: str) -> tuple[object, ...]:
    """Return the key of the images of a file from which a runtime selects one; it ends with their vendor."""
    around = (row.position or "").rpartition("/")[0]
    if row.container_format == "rocm-kpack":
        return row.binary, vendor
    if row.container_format == AKS2_FORMAT:
        return path_without_target(row.path), around, row.container, vendor
    if row.container is None:
        return row.chain, row.member, row.position, row.offset, vendor
    if is_host_data(row):
        return "own", around, row.member, choosing_runtime(row, vendor), vendor
    if is_side_by_side(row):
        return around, row.member, row.section_index, row.section, row.offload, vendor
    return around, row.container, row.module, row.offload, vendor


def without_link_leftovers(groups: Iterable[tuple[Key, list[ImageRow]]]) -> Iterator[tuple[Key, list[ImageRow]]]:
    """Yield groups without empty results of a device link, where the data of the host have code of the same vendor.

    The last part of a key is the vendor.
    """
    found = list(groups)
    owners = {key[-1] for key, rows in found if is_host_data(rows[0])}
    for key, rows in found:
        if not (key[-1] in owners and is_left_by_link(rows)):
            yield key, rows


def is_host_data(row: ImageRow) -> bool:
    """Return whether an image is in the data of a host, whose own code selects it."""
    return is_in_data(row.section or "", row.container_format)


def is_of_gcc(row: ImageRow) -> bool:
    """Return whether a record of GCC's offloading registers an image: libgomp takes all images of the record."""
    return row.container_format == _OF_GCC


def is_in_data(section: str, format: str | None) -> bool:
    """Return whether a container of a format is in a section that no runtime reads for it."""
    if format == _OF_GCC:
        return False
    segment, comma, name = section.partition(",")
    if segment and comma:
        return is_macho_data(name.encode())
    is_led_to = section.startswith(OFFLOADING)
    return is_host_data_section(section_name_stem(section)) or (
        format == "bare-image" and bool(section) and not is_led_to
    )


def is_side_by_side(row: ImageRow) -> bool:
    """Return whether an image is in one set with those of other containers in its section."""
    is_led_to = row.container_format == "bare-image" and (row.section or "").startswith(OFFLOADING)
    return is_led_to or row.container_format in _SIDE_BY_SIDE


def is_left_by_link(rows: Sequence[ImageRow]) -> bool:
    """Return whether the images of a container are the empty result of a device link without input."""
    return all(not is_host_data(row) and row.form == "cubin" and 0 < (row.size or 0) < _EMPTY_CUBIN for row in rows)


def make_image_set(rows: Sequence[ImageRow]) -> ImageSet:
    """Return the set of some images, at least one, all of one vendor and programming model."""
    first = rows[0]
    vendor = image_vendor(first.triple or "", first.arch or "")
    is_bundle = first.container_format == "clang-offload-bundle"
    return ImageSet(
        ImageSetLocation(
            first.path,
            first.chain,
            first.container,
            first.offset,
            first.section,
            first.member,
            first.binary,
        ),
        first.container_format,
        vendor,
        choosing_runtime(first, vendor),
        tuple(_images(rows, vendor)),
        first.container_version if is_bundle and first.container_version else None,
        all(map(needs_device_link, rows)) if is_host_data(first) else needs_device_link(first),
        len({(row.position or "").rpartition(".")[0] for row in rows}) if is_host_data(first) else 0,
        tuple(rows),
    )


def device_vendor(offload: str, triple: str, arch: str, form: str) -> str:
    """Return whose devices an image is for: nvidia, amd, apple, intel (all SYCL compiles for), "" for the host's."""
    if offload == "host" or form == "empty":
        return ""
    vendor = image_vendor(triple, arch)
    return vendor if vendor != "intel" or triple.startswith("spir") or form == "spirv" or offload == "sycl" else ""


def unknown_form_text(triple: str, arch: str, stored_form: str = "") -> str:
    """Return the sentence about an image that is stored for a device, and whose bytes are nothing that is known."""
    known = " or ".join(filter(None, (arch, stored_form, triple))) or "a device"
    return f"stored for {known}, but {UNKNOWN_FORM}"


def unknown_form_findings(found: FoundImage) -> Iterator[Finding]:
    """Yield a finding about an image of whose bytes no kernel can be read, because they are nothing that is known.

    Without a stored form it has to be for a device, and with one it has to be noted that the bytes do not look like it.
    """
    image, target = found.as_stored, found.target
    if found.info.form or found.info is NOT_INFLATED or not image.size:
        return
    if any(item.code == "FP1105" for item in found.findings):
        yield finding("FP1107", image.span, f"no kernel can be read of it: its bytes do not look like {image.form}")
    elif not image.form and device_vendor(target.offload, target.triple, target.arch, ""):
        yield finding("FP1107", image.span, unknown_form_text(target.triple, target.arch))


def needs_device_link(row: ImageRow) -> bool:
    """Return whether an image is input of the device link, whose result is loaded in its place (C14, H15).

    True if it is in a section for such code, if it is bitcode for HIP, which no runtime loads, or LTO-IR in a file of
    its own or in a program's data: the program's code takes it out, and links it at run time (libmathdx, nvJitLink).
    """
    if row.section in DEVICE_LINK_SECTIONS:
        return True
    if row.container is None or is_host_data(row):
        return row.form in _FOR_LINKERS
    return row.form == "bitcode" and choosing_runtime(row, image_vendor(row.triple or "", row.arch or "")) == "hip"


def make_candidate(row: ImageRow, arch: str, vendor: str) -> CandidateImage:
    """Return an image as input of the selection rules; ``arch`` is one of the architectures it is stored for."""
    version, claimed = _version(row.ptx_version), row.claimed or ""
    return CandidateImage(
        _form(row, vendor),
        arch,
        row.triple or "",
        version,
        row.compression,
        claimed,
        row.code_object,
        _bytes_are(row, vendor),
    )


def _bytes_are(row: ImageRow, vendor: str) -> str:
    """Return the form of an image's bytes if it is not the stored form, or not code for a device of AMD."""
    if "FP1104" in row.findings:
        return "damaged"
    if "FP1101" in row.findings:
        return row.form or "unknown"
    if "FP1105" in row.findings:
        return "unknown"
    if vendor != "amd" or not row.size:
        return ""
    # Bundles have no stored form. An image without a form was read, and is of unknown form.
    return row.form or "unknown" if row.form in ("", None, *_FOR_HOSTS) else ""


def choosing_runtime(row: ImageRow, vendor: str) -> str:
    """Return the runtime that selects from the images of a container: cuda, hip, openmp, sycl, kpack or gcc."""
    if is_of_gcc(row):
        return "gcc"
    if row.container_format == "rocm-kpack":
        return "kpack"
    if row.offload in ("openmp", "sycl"):
        return row.offload
    return {"nvidia": "cuda", "amd": "hip"}.get(vendor, "sycl")


def _images(rows: Sequence[ImageRow], vendor: str) -> Iterator[ImageSetMember]:
    alike: dict[object, list[tuple[ImageRow, CandidateImage]]] = {}
    for number, row in enumerate(rows):
        for arch in (row.arch or "").split(","):
            candidate = make_candidate(row, arch, vendor)
            key: object = (candidate.form, candidate.triple, arch, candidate.contents, candidate.actual_form)
            if is_host_data(row):
                key = (key, candidate.ptx_version, candidate.compression)
            by_position = row.container_format in _BY_POSITION and not is_host_data(row)
            alike.setdefault((number, arch) if by_position else key, []).append((row, candidate))
    for group in alike.values():
        row, candidate = group[0]
        known = {one.has_kernel for one, _ in group}
        yield ImageSetMember(
            candidate,
            row.position or "",
            _name(candidate),
            row.form or row.stored_form or "",
            len(group),
            True if True in known else None if None in known else False,
            row.ptx_version,
        )


def _form(row: ImageRow, vendor: str) -> str:
    """Return the form as input of the selection rules; other forms of CUDA contain a cubin of the same architecture."""
    form = row.form or row.stored_form or ""
    if vendor != "nvidia":
        return form
    if (row.stored_form or form) in LINKED:
        return row.stored_form or form
    if form == "bitcode":
        return form
    if row.stored_kind and (form != "cubin" or row.container_format in _BY_POSITION):
        return row.stored_kind  # no driver loads an entry of another kind, regardless of its bytes (C11)
    return "ptx" if form == "ptx" else "cubin"


def _name(candidate: CandidateImage) -> str:
    """Return the architecture of an image as patterns spell it: ``compute_80`` for PTX."""
    if candidate.form in LINKED and candidate.arch.startswith("sm_"):
        return f"lto_{candidate.arch.removeprefix('sm_')}"
    return arch_name(candidate.arch, candidate.form) or candidate.triple or candidate.form


def _version(text: str | None) -> tuple[int, int] | None:
    major, _, minor = (text or "").partition(".")
    return (int(major), int(minor)) if major else None
