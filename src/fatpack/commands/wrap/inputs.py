"""What a user gives to be registered: device images, which become the container that a runtime takes, or containers.

========  =======================  =====================================================================
kind       container                made of images as clang-linker-wrapper makes it
========  =======================  =====================================================================
cuda       CUDA fat binary          one, of cubins and PTX
hip        clang offload bundle     one, images at multiples of 4096 bytes behind an empty one for the host
openmp     LLVM offload binaries    one for each image
sycl       LLVM offload binary      one for each image (LLVM 22), or one for all of them (23)
========  =======================  =====================================================================

A container of the right format is registered as it is, byte for byte; the images of an offload binary for CUDA or HIP
become the one above.
"""

from __future__ import annotations

from fatpack import formats, images
from fatpack.commands.pack.pack_formats import format_named, pack_as
from fatpack.commands.wrap.loadable import refuse_unloadable
from fatpack.commands.wrap.once import refuse_duplicates
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
from fatpack.formats.offload_binary.image_option import ImageOption
from fatpack.formats.offload_binary.layout import OFFLOAD_BINARY_FORMAT as OFFLOAD_BINARY
from fatpack.formats.offload_binary.stored import stored_header, stored_offload_entry
from fatpack.io.memory import BytesSource
from fatpack.io.pieces import PiecesSource
from fatpack.model import Finding
from fatpack.options import BundleOptions, FatbinOptions, OffloadBinaryOptions
from fatpack.record import Record
from fatpack.scanner import FoundContainer, scan
from fatpack.selectors.no_match import refuse_empty

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.commands.pack.packed import PackedContainers
    from fatpack.commands.wrap.registration import Registration
    from fatpack.io.source import View
    from fatpack.model import Image
    from fatpack.options import Options

#: kind → the format that its runtime takes, what images are packed as, and how
_FORMATS: dict[str, tuple[str, str, Options]] = {
    "cuda": (FATBIN, "fatbin", FatbinOptions()),
    "hip": (BUNDLE, "bundle", BundleOptions(type="o", align=4096)),
    "openmp": (OFFLOAD_BINARY, "offload-binary", OffloadBinaryOptions()),
    "sycl": (OFFLOAD_BINARY, "offload-binary", OffloadBinaryOptions()),
}

#: What clang-linker-wrapper calls the host's image of a HIP bundle, on all hosts, and how its ID of others starts.
_HOST_ID, _HIP = "host-x86_64-unknown-linux-gnu", "hip"

#: format → the kinds that it can be for, for advice
_OTHER_KINDS = {FATBIN: "cuda", BUNDLE: "hip", OFFLOAD_BINARY: "openmp, sycl, cuda or hip"}


class WrapInput(Record):
    """A file that is to be registered: its name, its bytes, and what was stated about the image in it, if anything."""

    name: str
    view: View
    option: ImageOption | None = None


class WrapPlan(Record):
    """What is registered, how many images that are, and what packing them found."""

    registration: Registration
    image_count: int
    findings: tuple[Finding, ...] = ()


def plan_registration(kind: str, given: Sequence[WrapInput], *, llvm: int, is_relocatable: bool = False) -> WrapPlan:
    """Return what is registered of some files, as an LLVM of that version does it.

    Raises UsageError for what cannot be registered together or as that kind, FormatError for damage.
    """
    if not given:
        raise UsageError("there is nothing to wrap", hint="name images, or the container that the runtime takes")
    files = [_read(kind, item) for item in given]
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

    given: WrapInput
    containers: tuple[FoundContainer, ...]


def _read(kind: str, given: WrapInput) -> _InspectedInput:
    refuse_empty(given.view)
    if given.option is not None or not _is_container(given.view):
        return _InspectedInput(given, ())
    items = list(scan(given.view))
    for item in items:
        if isinstance(item, Finding) and item.severity == "error":
            hint = "; ".join(filter(None, (item.hint, "nothing was wrapped; fatpack extract gets out what is intact")))
            raise FormatError(item.message, offset=item.span.start, hint=hint, chain=item.span.source)
    containers = tuple(item for item in items if isinstance(item, FoundContainer))
    for found in containers:
        _check_kind(kind, given.name, found)
    return _InspectedInput(given, containers)


def _is_container(view: View) -> bool:
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
    name = file.given.name
    if len(files) > 1 or len(file.containers) > 1:
        other = next((other.given.name for other in files if other is not file), "another one in the same file")
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
    return RegisteredContent((file.given.view,), ((0, len(file.given.view)),)), len(device)


def _refuse_twice(files: Sequence[_InspectedInput]) -> None:
    stated = [file.given.option.facts if file.given.option else {} for file in files]
    refuse_duplicates([(file.given.name, file.given.view, facts) for file, facts in zip(files, stated, strict=True)])


def _whole(packed: PackedContainers) -> RegisteredContent:
    return RegisteredContent(packed.pieces, ((0, sum(map(len, packed.pieces))),))


def _packed(kind: str, stored: list[Image]) -> PackedContainers:
    _, word, options = _FORMATS[kind]
    if kind == "hip":
        empty = BytesSource(b"").view()
        stored.insert(0, format_named(word).packer.image_from(ImageOption((), (("id", _HOST_ID),)), "", empty))
    packed = pack_as(stored, options)
    return packed.replace(left_out=packed.left_out + (kind == "hip"))


def _images(kind: str, file: _InspectedInput) -> Iterator[Image]:
    """Yield the images of a file as the packer of a kind makes them."""
    given = file.given
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


def _claims(kind: str, given: WrapInput) -> dict[str, str]:
    """Return the target that an image claims. Raises UsageError where it claims none, or is a host's file."""
    recognised = images.identify_image(given.view)
    if kind == "cuda":
        return {}
    if not recognised.triple or (kind == "hip" and not recognised.arch):
        raise _silent(given, recognised.detail or "bytes that say nothing of a target", "…")
    if kind == "openmp" and recognised.form == "bitcode":
        # The plugins of OpenMP compile bitcode for the device whose architecture the entry has.
        what = f"{recognised.detail} for {recognised.triple} does not say for which architecture it is"
        raise _silent(given, what, recognised.triple)
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
    if file.containers:
        for found in file.containers:
            yield from (image.as_stored for image in found.images)
    else:
        for image in _images("sycl", file):
            (read,) = formats.get_format(OFFLOAD_BINARY).parse(_view_of(image)).images
            yield read


def _view_of(image: Image) -> View:
    return PiecesSource(pack_as([image], OffloadBinaryOptions()).pieces).view()


def _sycl_image(image: Image) -> SyclImage:
    entry = stored_offload_entry(image)
    names = dict(entry.strings).get(b"symbols", b"").decode("utf-8", "surrogateescape")
    kernels = tuple(filter(None, names.replace("\0", "\n").split("\n")))
    return SyclImage(image.target.triple, entry.image_kind, RegisteredContent((image.data,), ()), kernels)
