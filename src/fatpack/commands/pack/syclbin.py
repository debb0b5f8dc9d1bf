"""Packing SYCLBIN files: SPIR-V modules and native device code with their properties → one file."""

from __future__ import annotations

from fatpack import formats, images, limits
from fatpack.commands.pack.formats import PackedContainers, refuse_keys
from fatpack.errors import FormatError, UsageError
from fatpack.formats.syclbin.layout import IR_TYPES, KERNELS_SET, SYCLBIN_FORMAT, NewModules
from fatpack.formats.syclbin.properties import read_properties, write_property_set
from fatpack.images.container_mismatch import mismatch_findings
from fatpack.io.open import open_source
from fatpack.io.source import PiecesSource, Span
from fatpack.model import Container, Image, Target
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.writer_options import SyclbinOptions

#: The offload binary around version 1: what DPC++ wrote while it wrote that.
_OUTER, _OUTER_VERSION = "llvm-offload-binary", 1


class DescribedImage(Record):
    """An image to pack with the property sets of its abstract module.

    ``entry`` is what a SYCLBIN file stored of it, None if it comes from elsewhere.
    """

    properties: bytes
    entry: object = None


def image_from(option: ImageOption, name: str, data: View) -> Image:
    """Return the image that one file of ``--image=file=F,triple=T[,arch=A][,properties=P][,am_index=N]`` makes.

    With ``arch`` it is native code, else an IR module. ``properties`` is a file of property sets, as sycl-post-link
    writes them (``.prop``); without it the kernels of a SPIR-V module make the set of kernel names. Images of one
    ``am_index`` share an abstract module. Raises UsageError without a triple and for what is no file of property sets.
    """
    given = option.facts
    triple, arch, kind = given.pop("triple", ""), given.pop("arch", ""), given.pop("kind", "sycl")
    path, module = given.pop("properties", ""), given.pop("am_index", "")
    stores = "triple, architecture, property sets and abstract module of each image"
    refuse_keys(option, given, "a SYCLBIN file", stores)
    if kind not in ("sycl", "none"):
        raise UsageError(f"{option.text}: kind={kind}", hint="a SYCLBIN file holds code for SYCL alone")
    if not triple:
        raise UsageError(f"{option.text} does not say what it is for", hint="add triple=spir64-unknown-unknown")
    form = images.identify_image(data).form
    text = _property_sets(path) if path else kernel_set(data, form)
    attrs = {"am_index": module} if module else {}
    is_ir = not arch and form in IR_TYPES
    target = Target(triple, arch, "sycl")
    stored_form = form if is_ir else ""
    return Image(target, stored_form, data, len(data), len(data), data.span(), attrs=attrs, record=DescribedImage(text))


def kernel_set(data: View, form: str) -> bytes:
    """Return the property set that names the kernels of a SPIR-V module, by which the runtime finds them; b"" if none.

    A module that cannot be read has none.
    """
    if form != "spirv":
        return b""
    try:
        names = images.kernels(data, form)
    except FormatError:
        return b""
    return write_property_set(KERNELS_SET, [(name, 1) for name in names]) if names else b""


def _property_sets(path: str) -> bytes:
    with open_source(path) as source:
        view = source.view()
        if len(view) > limits.PROPERTY_SETS:
            raise UsageError(f"{path}: {len(view)} bytes of property sets", hint=limits.advice("PROPERTY_SETS"))
        text = view.tobytes()

    def wrong(at: int, _: int, problem: str) -> None:
        number = text.count(b"\n", 0, at) + 1
        raise UsageError(f"{path}: line {number}: {problem}", hint="give a file that sycl-post-link has written")

    for _ in read_properties(text, wrong):
        pass
    return text if text.endswith(b"\n") or not text else text + b"\n"


def pack(stored: Sequence[Image], options: SyclbinOptions) -> PackedContainers:
    """Return one file of the images, each of which makes an abstract module where none is named.

    Version 1 lies in an offload binary, as DPC++ reads it. Images whose bytes contradict what is stated about them give
    findings; nothing is read of them but headers. Raises UsageError for a version or a number that there is not, and
    for images of one module that have different property sets.
    """
    if options.version not in (1, 2):
        raise UsageError(f"SYCLBIN of version {options.version}", hint="choose 1 or 2")
    taken = {image.attrs["am_index"] for image in stored if "am_index" in image.attrs}
    following = max((int(number) for number in taken if number.isascii() and number.isdigit()), default=-1) + 1
    modules: dict[int, bytes] = {}
    numbered: list[Image] = []
    findings: list[Finding] = []
    for image in stored:
        known = image.record if isinstance(image.record, DescribedImage) else DescribedImage(b"")
        number = image.attrs.get("am_index", "")
        if not number:
            number, following = str(following), following + 1
        if known.properties and number.isascii() and number.isdigit():
            before = modules.setdefault(int(number), known.properties)
            if before != known.properties:
                raise UsageError(f"images of abstract module {number} with different property sets")
        numbered.append(image.replace(attrs={**image.attrs, "am_index": number}, record=known.entry))
        findings += mismatch_findings(image, images.identify_image(image.data))
        image.data.source.release_buffers()
    container = Container(SYCLBIN_FORMAT, options.version, tuple(numbered), Span(0, 0), record=NewModules(modules))
    pieces = tuple(formats.get_format(SYCLBIN_FORMAT).write(container, options))
    if options.version == 1:
        view = PiecesSource(pieces).view()
        inner = Image(Target("", "", "sycl"), SYCLBIN_FORMAT, view, len(view), len(view), view.span())
        outer = Container(_OUTER, _OUTER_VERSION, (inner,), Span(0, 0))
        pieces = tuple(formats.get_format(_OUTER).write(outer))
    return PackedContainers(pieces, tuple(findings))
