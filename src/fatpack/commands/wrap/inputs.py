"""The inputs of ``wrap``: device images, which become the container that a runtime takes, or containers.

========  =======================  =====================================================================
kind       container                made of images as clang-linker-wrapper makes it
========  =======================  =====================================================================
cuda       CUDA fat binary          one, of cubins and PTX
hip        clang offload bundle     one, images at multiples of 4096 bytes after an empty one for the host
openmp     LLVM offload binaries    one for each image
sycl       LLVM offload binary      one for each image (LLVM 22), or one for all of them (23)
========  =======================  =====================================================================

A container of the right format is registered as it is, byte for byte; the images of an offload binary for CUDA or HIP
become the one above.
"""

from __future__ import annotations

from fatpack.commands.wrap.registration import (
    KINDS,
    FatbinRegistration,
    OpenmpDescriptor,
    RegisteredContent,
    SyclBinary,
    SyclDescriptor,
    SyclImage,
    entry_layout,
)
from fatpack.errors import FormatError, UsageError, cli_or_api, pluralize
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT as BUNDLE
from fatpack.formats.cuda_fatbin.layout import FATBIN_FORMAT as FATBIN
from fatpack.formats.offload_binary.layout import OFFLOAD_BINARY_FORMAT as OFFLOAD_BINARY
from fatpack.formats.offload_binary.layout import stored_header, stored_offload_entry
from fatpack.io.source import BytesSource, PiecesSource, sha256_of_pieces
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.writer_options import BundleOptions, FatbinOptions, OffloadBinaryOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.commands.pack.formats import PackedContainers
    from fatpack.commands.wrap.registration import Registration
    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.images.identification import ImageInfo
    from fatpack.io.source import View
    from fatpack.model import Image
    from fatpack.scanner import FoundContainer
    from fatpack.writer_options import Options


# Images that the runtime of CUDA or HIP can load: they are for its devices, and linked for them.
#
# CUDA's loads what a fat binary holds: cubins, PTX and other code of NVIDIA. HIP's loads code objects, and SPIR-V,
# which it compiles (``amdgcnspirv``). Both need linked ELF: relocatable is what a compiler leaves to the device link.
# OpenMP's and SYCL's have plugins for many devices, some of which compile bitcode, and OpenMP's take shared libraries
# of the host: there nothing is refused but objects and archives of a host, which hold code that is still to be linked.
#
# Source: "Separate Compilation" in NVIDIA's "CUDA Compiler Driver NVCC" (relocatable device code must be linked
# before it can be executed), and "ELF Code Object" in LLVM's "User Guide for AMDGPU Backend" (the loader requires
# ``ET_DYN``).

#: form → the kind whose runtime loads it, for advice
_KIND_OF = {"cubin": "cuda", "ptx": "cuda", "ltoir": "cuda", "tileir": "cuda", "fatbin": "cuda", "code-object": "hip"}

#: kind → the forms that its runtime loads. Bytes of an unknown form are not judged.
_LOADED = {
    "cuda": ("cubin", "ptx", "ltoir", "tileir", "fatbin", "", "empty"),
    "hip": ("code-object", "spirv", "", "empty"),
}

#: kind → who links for its devices
_LINKERS = {"cuda": "nvlink or clang-nvlink-wrapper", "hip": "ld.lld, or clang --target=amdgcn-amd-amdhsa"}

#: e_type of what a linker still gets
_RELOCATABLE = 1


def refuse_unloadable(kind: str, name: str, view: View) -> None:
    """Raise UsageError for an image that the runtime of a kind never loads."""
    from fatpack import images
    from fatpack.binary.elf.quick_header import read_quick_header

    recognised = images.identify_image(view)
    form = recognised.form
    if kind not in _LOADED:
        if form == "archive" or (form == "object" and not _is_linked(view)):
            problem = f"{name}: {recognised.detail}, which is no device image"
            hint = "fatpack extract takes device images out of it; fatpack link-inputs lists what a device link takes"
            raise UsageError(problem, hint=hint)
        return
    if form not in _LOADED[kind]:
        what = " ".join(filter(None, (form, f"({recognised.detail})" if recognised.detail else "")))
        raise UsageError(f"{name}: {what}, which {kind}'s runtime does not load", hint=_advice(kind, recognised))
    elf = read_quick_header(view, view.head(0, images.HEAD_SIZE)) if form in ("cubin", "code-object") else None
    if elf is not None and elf.type == _RELOCATABLE:
        problem = f"{name}: a relocatable {form} ({recognised.detail}), and {kind}'s runtime loads linked ones"
        raise UsageError(problem, hint=_link(kind))


def _is_linked(view: View) -> bool:
    """Return whether an object of a host is linked: a shared library is what OpenMP's plugins for hosts load."""
    from fatpack import images
    from fatpack.binary.elf.quick_header import read_quick_header
    from fatpack.magic_numbers import ELF

    found = read_quick_header(view, view.head(0, images.HEAD_SIZE)) if view.head(0, len(ELF)) == ELF else None
    return found is not None and found.type != _RELOCATABLE


def _advice(kind: str, recognised: ImageInfo) -> str:
    form = recognised.form
    if form in ("bitcode", "llvm-ir") and (not recognised.triple or _is_for(kind, recognised.triple)):
        return _link(kind)
    if form == "object":
        return f"fatpack extract takes device images out of an object; where they are relocatable, {_link(kind)}"
    other = _KIND_OF.get(form)
    if other:
        return f"{cli_or_api(f'--kind={other}', f'kind={other!r}')} registers it"
    return f"give an image for {kind}'s devices; {_link(kind)}"


def _is_for(kind: str, triple: str) -> bool:
    return triple.startswith("nvptx" if kind == "cuda" else "amdgcn")


def _link(kind: str) -> str:
    return f"link it for the device first ({_LINKERS[kind]}); fatpack link-inputs collects what belongs to that link"


# Duplicate images: a runtime would load both, or take either of the two.


def refuse_duplicates(files: Sequence[tuple[str, View, Mapping[str, str]]]) -> None:
    """Raise UsageError for a file that has the same bytes as one before it, and of which the same is stated.

    Reads only files that are as large as another one.
    """
    from collections import Counter

    sizes = Counter(len(view) for _, view, _ in files)
    seen: dict[object, str] = {}
    for name, view, facts in files:
        if sizes[len(view)] == 1:
            continue
        key = sha256_of_pieces([view]), frozenset((key, value) for key, value in facts.items() if key != "file")
        if key in seen:
            other = seen[key]
            what = f"{name} is given twice" if name == other else f"{name} and {other} are the same image"
            raise UsageError(what, hint="give each image once")
        seen[key] = name


#: kind → the format that its runtime takes, what images are packed as, and how
_FORMATS: dict[str, tuple[str, str, Options]] = {
    "cuda": (FATBIN, "fatbin", FatbinOptions()),
    "hip": (BUNDLE, "bundle", BundleOptions(type="o", align=4096)),
    "openmp": (OFFLOAD_BINARY, "offload-binary", OffloadBinaryOptions()),
    "sycl": (OFFLOAD_BINARY, "offload-binary", OffloadBinaryOptions()),
}

#: The ID that clang-linker-wrapper gives to the host's image of a HIP bundle, on all hosts, and the prefix of others.
_HOST_ID, _HIP = "host-x86_64-unknown-linux-gnu", "hip"

#: format → the kinds that it can be for, for advice
_OTHER_KINDS = {FATBIN: "cuda", BUNDLE: "hip", OFFLOAD_BINARY: "openmp, sycl, cuda or hip"}


class WrapInput(Record):
    """A file that is to be registered: its name, its bytes, and what was stated about the image in it, if anything."""

    name: str
    view: View
    option: ImageOption | None = None


class WrapPlan(Record):
    """A registration, the number of its images, and the findings of packing them."""

    registration: Registration
    image_count: int
    findings: tuple[Finding, ...] = ()


def plan_registration(kind: str, inputs: Sequence[WrapInput], *, llvm: int, is_relocatable: bool = False) -> WrapPlan:
    """Return what is registered of some files, as an LLVM of that version does it.

    Raises UsageError for what cannot be registered together or as that kind, FormatError for damage.
    """
    if not inputs:
        raise UsageError("there is nothing to wrap", hint="name images, or the container that the runtime takes")
    files = [_read(kind, item) for item in inputs]
    if kind in ("cuda", "hip"):
        return _fatbin(kind, files, llvm)
    _refuse_twice(files)
    if kind == "openmp":
        contents, findings = _offload_binaries(kind, files, version=1 if llvm < 23 else 2)
        count = sum(len(content.images) for content in contents)
        return WrapPlan(OpenmpDescriptor(tuple(contents), entry_layout(kind, llvm), is_relocatable), count, findings)
    return _sycl(files, llvm)


class _InspectedInput(Record):
    """A file that was looked into: its containers, or the image that it is."""

    input: WrapInput
    containers: tuple[FoundContainer, ...]


def _read(kind: str, file: WrapInput) -> _InspectedInput:
    from fatpack.scanner import FoundContainer, scan
    from fatpack.selectors.no_match import refuse_empty

    refuse_empty(file.view)
    if file.option is not None or not _is_container(file.view):
        return _InspectedInput(file, ())
    items = list(scan(file.view))
    for item in items:
        if isinstance(item, Finding) and item.severity == "error":
            hint = "; ".join(filter(None, (item.hint, "nothing was wrapped; fatpack extract gets out what is intact")))
            raise FormatError(item.message, offset=item.span.start, hint=hint, chain=item.span.source)
    containers = tuple(item for item in items if isinstance(item, FoundContainer))
    for found in containers:
        _check_kind(kind, file.name, found)
    return _InspectedInput(file, containers)


def _is_container(view: View) -> bool:
    from fatpack import formats

    return (formats.format_at(view) or formats.find_text_format(view)) is not None


def _check_kind(kind: str, name: str, found: FoundContainer) -> None:
    """Raise UsageError for a container that a runtime of this kind does not take, or that holds images of another."""
    native = _FORMATS[kind][0]
    if found.format not in (native, OFFLOAD_BINARY):
        others = _OTHER_KINDS.get(found.format)
        hint = f"{_kind_of(others)} takes it" if others else f"fatpack convert makes a {_word(kind)} of it"
        raise UsageError(f"{name} is a {found.format}, and {kind} takes a {native} or images", hint=hint)
    for number, image in enumerate(found.images):
        offload = image.target.offload
        if offload not in (kind, "none", "host", ""):
            hint = f"{_kind_of(offload)} registers it; fatpack extract takes out the others"
            raise UsageError(f"{name}: image {number} is for {offload}, not for {kind}", hint=hint)


def _kind_of(kind: str) -> str:
    return cli_or_api(f"--kind={kind}", f"kind={kind!r}")


def _word(kind: str) -> str:
    return _FORMATS[kind][1]


def _fatbin(kind: str, files: Sequence[_InspectedInput], llvm: int) -> WrapPlan:
    native = _FORMATS[kind][0]
    whole = [file for file in files if any(found.format == native for found in file.containers)]
    if whole:
        content, count = _as_it_is(native, files, whole[0])
        return WrapPlan(FatbinRegistration(kind, content, entry_layout(kind, llvm)), count)
    _refuse_twice(files)
    stored: list[Image] = []
    for file in files:
        stored += _images(kind, file)
    packed = _packed(kind, stored)
    fatbin = FatbinRegistration(kind, _whole(packed), entry_layout(kind, llvm))
    return WrapPlan(fatbin, len(stored) - packed.left_out, packed.findings)


def _as_it_is(native: str, files: Sequence[_InspectedInput], file: _InspectedInput) -> tuple[RegisteredContent, int]:
    """Return the one container that is registered as it is, and the number of images in it."""
    name = file.input.name
    if len(files) > 1 or len(file.containers) > 1:
        other = next((other.input.name for other in files if other is not file), "another one in the same file")
        problem = f"{name} is a {native}, of which a program registers one, and there is {other} too"
        raise UsageError(problem, hint="give the images of all of them: fatpack extract takes them out")
    (found,) = file.containers
    device = [image for image in found.images if image.target.offload not in ("host", "")]
    if not device:
        raise UsageError(f"{name}: the {native} has no image for a device", hint="there would be nothing to register")
    flavour = found.container.attrs.get("flavour", "binary")
    if flavour == "compressed":
        flavour = found.container.attrs.get("inside", "binary")
    if flavour != "binary":
        problem = f"{name} is a bundle that is {flavour}, and HIP's runtime reads binary ones"
        raise UsageError(problem, hint="fatpack convert makes a binary bundle of it")
    return RegisteredContent((file.input.view,), ((0, len(file.input.view)),)), len(device)


def _refuse_twice(files: Sequence[_InspectedInput]) -> None:
    stated = [file.input.option.facts if file.input.option else {} for file in files]
    refuse_duplicates([(file.input.name, file.input.view, facts) for file, facts in zip(files, stated, strict=True)])


def _whole(packed: PackedContainers) -> RegisteredContent:
    return RegisteredContent(packed.pieces, ((0, sum(map(len, packed.pieces))),))


def _packed(kind: str, stored: list[Image]) -> PackedContainers:
    from fatpack.commands.pack.formats import format_named, pack_as
    from fatpack.formats.offload_binary.image_option import ImageOption

    _, word, options = _FORMATS[kind]
    if kind == "hip":
        empty = BytesSource(b"").view()
        stored.insert(0, format_named(word).packer.image_from(ImageOption((), (("id", _HOST_ID),)), "", empty))
    packed = pack_as(stored, options)
    return packed.replace(left_out=packed.left_out + (kind == "hip"))


def _images(kind: str, file: _InspectedInput) -> Iterator[Image]:
    """Yield the images of a file as the packer of a kind makes them."""
    from fatpack.commands.pack.formats import format_named

    given = file.input
    packer = format_named(_word(kind)).packer
    if given.option is not None:
        if given.option.facts.get("check") != "no":
            refuse_unloadable(kind, given.name, given.view)
        yield packer.image_from(_option(kind, given.name, given.option), given.name, given.view)
    elif file.containers:
        for found in file.containers:
            for number, image in enumerate(found.images):
                name = f"{given.name}: image {number}"
                refuse_unloadable(kind, name, image.data)
                facts = {"triple": image.target.triple, "arch": image.target.arch}
                yield packer.image_from(_stated(kind, name, facts), name, image.data)
    else:
        refuse_unloadable(kind, given.name, given.view)
        yield packer.image_from(_stated(kind, given.name, _claims(kind, given)), given.name, given.view)


def _claims(kind: str, file: WrapInput) -> dict[str, str]:
    """Return the target that an image claims. Raises UsageError where it claims none, or is a host's file."""
    from fatpack import images

    recognised = images.identify_image(file.view)
    if kind == "cuda":
        return {}
    if not recognised.triple or (kind == "hip" and not recognised.arch):
        raise _silent(file, recognised.detail or "bytes that say nothing of a target", "…")
    if kind == "openmp" and recognised.form == "bitcode":
        # The plugins of OpenMP compile bitcode for the device whose architecture the entry has.
        what = f"{recognised.detail} for {recognised.triple} does not say for which architecture it is"
        raise _silent(file, what, recognised.triple)
    return {"triple": recognised.triple, "arch": recognised.arch}


def _silent(given: WrapInput, what: str, triple: str) -> UsageError:
    stated = cli_or_api(f"--image=file={given.name},triple={triple},arch=…", "ImageFile(…, triple=…, arch=…)")
    return UsageError(f"{given.name}: {what}", hint=f"state it: {stated}")


def _option(kind: str, name: str, option: ImageOption) -> ImageOption:
    """Return what a user states about an image, with the kind where the packer wants it."""
    facts = option.facts
    stated = facts.pop("kind", kind)
    if stated != kind and not (kind == "cuda" and stated not in KINDS):
        raise UsageError(f"{option.text}: it is for {stated}, and {kind} is registered", hint="leave out kind")
    if kind == "cuda" and stated != kind:
        facts["kind"] = stated
    return _stated(kind, name, facts, option.text)


def _stated(kind: str, name: str, facts: dict[str, str], text: str = "") -> ImageOption:
    from fatpack.formats.offload_binary.image_option import ImageOption

    facts = {key: value for key, value in facts.items() if value}
    if kind == "hip" and "id" not in facts:
        triple, arch = facts.pop("triple", "amdgcn-amd-amdhsa"), facts.pop("arch", "")
        if not arch:
            raise UsageError(f"{text or name}: HIP's bundles name the processor of each image", hint="add arch=gfx…")
        facts["id"] = f"{_HIP}-{'-'.join((*triple.split('-'), '', '', '')[:4])}-{arch}"
    elif kind in ("openmp", "sycl"):
        facts["kind"] = kind
    return ImageOption((name,), (("file", name), *facts.items()), text or name)


def _offload_binaries(
    kind: str, files: Sequence[_InspectedInput], *, version: int
) -> tuple[list[RegisteredContent], tuple[Finding, ...]]:
    """Return offload binaries as they are, and one for each image that is none yet."""
    contents: list[RegisteredContent] = []
    findings: list[Finding] = []
    for file in files:
        for found in file.containers:
            if stored_header(found.container).compression is None:
                contents.append(_stored(found))
            else:
                contents += [_packed_alone([image.as_stored], version)[0] for image in found.images]
        if not file.containers:
            content, found_out = _packed_alone(list(_images(kind, file)), version)
            contents.append(content)
            findings += found_out
    return contents, tuple(findings)


def offload_binaries(given: WrapInput, llvm: int) -> list[RegisteredContent]:
    """Return the offload binaries that a file for OpenMP consists of, each with the places of all its images.

    Raises FormatError for damage, UsageError for images that are not for OpenMP.
    """
    return _offload_binaries("openmp", [_read("openmp", given)], version=1 if llvm < 23 else 2)[0]


def _stored(found: FoundContainer) -> RegisteredContent:
    start = found.container.span.start
    places = [image.span for image in found.images]
    return RegisteredContent((found.view,), tuple((place.start - start, place.end - start) for place in places))


def _packed_alone(stored: list[Image], version: int) -> tuple[RegisteredContent, tuple[Finding, ...]]:
    """Return images as one offload binary, and where in it they lie."""
    from fatpack import formats
    from fatpack.commands.pack.formats import pack_as

    packed = pack_as(stored, OffloadBinaryOptions(version=version))
    read = formats.get_format(OFFLOAD_BINARY).parse(PiecesSource(packed.pieces).view())
    places = tuple((image.span.start, image.span.end) for image in read.images)
    return RegisteredContent(packed.pieces, places), packed.findings


def _sycl(files: Sequence[_InspectedInput], llvm: int) -> WrapPlan:
    if llvm >= 23:
        if len(files) == 1 and len(files[0].containers) == 1:
            (found,) = files[0].containers
            return WrapPlan(SyclBinary(RegisteredContent((found.view,), ())), len(found.images))
        stored = [image for file in files for image in _entries(file)]
        content, findings = _packed_alone(stored, 2)
        return WrapPlan(SyclBinary(content), len(stored), findings)
    rows = [_sycl_image(image) for file in files for image in _entries(file)]
    if len(rows) > 0xFFFF:
        raise UsageError(
            f"{pluralize(len(rows), 'image')}, and a descriptor of LLVM 22 counts 65535",
            hint=cli_or_api("--as=23 takes more", "llvm=23 takes more"),
        )
    return WrapPlan(SyclDescriptor(tuple(rows)), len(rows))


def _entries(file: _InspectedInput) -> Iterator[Image]:
    """Yield the images of a file, as entries of offload binaries."""
    from fatpack import formats

    if file.containers:
        for found in file.containers:
            yield from (image.as_stored for image in found.images)
    else:
        for image in _images("sycl", file):
            (read,) = formats.get_format(OFFLOAD_BINARY).parse(_view_of(image)).images
            yield read


def _view_of(image: Image) -> View:
    from fatpack.commands.pack.formats import pack_as

    return PiecesSource(pack_as([image], OffloadBinaryOptions()).pieces).view()


def _sycl_image(image: Image) -> SyclImage:
    entry = stored_offload_entry(image)
    names = dict(entry.strings).get(b"symbols", b"").decode("utf-8", "surrogateescape")
    kernels = tuple(filter(None, names.replace("\0", "\n").split("\n")))
    return SyclImage(image.target.triple, entry.image_kind, RegisteredContent((image.data,), ()), kernels)
