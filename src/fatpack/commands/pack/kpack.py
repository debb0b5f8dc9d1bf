"""Packing kpack archives: code objects of AMD processors and the binaries they belong to → one archive."""

from __future__ import annotations

from fatpack import formats, images
from fatpack.commands.pack.formats import PackedContainers, refuse_keys
from fatpack.errors import UsageError
from fatpack.formats.kpack.layout import KPACK_FORMAT, TRIPLE, TYPE, VERSION
from fatpack.images.container_mismatch import mismatch_findings
from fatpack.io.source import Span
from fatpack.model import Container, Image, Target
from fatpack.targets.triple import is_amdgpu

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.writer_options import KpackOptions

#: The end of a binary's key: the number of the code object that its marker names.
_NUMBER = "#"


def image_from(option: ImageOption, name: str, data: View) -> Image:
    """Return the image that one file of ``--image=file=F,binary=lib/libx.so#0[,arch=A]`` makes.

    ``binary`` is the library that the code object was taken out of, by its path in the package; without ``#`` and a
    number it is its first. Without ``arch`` the code object itself says what it is for. Raises UsageError without a
    binary, for an image of another triple, and where no architecture is known.
    """
    given = option.facts
    binary, arch, kind = given.pop("binary", ""), given.pop("arch", ""), given.pop("kind", "hip")
    triple = given.pop("triple", "") or TRIPLE
    refuse_keys(option, given, "a kpack archive", "the binary and the architecture of each image")
    if not binary:
        raise UsageError(f"{option.text} does not say which library it belongs to", hint="add binary=lib/libx.so#0")
    if kind != "hip" or not is_amdgpu(triple):
        raise UsageError(f"{option.text}: kind={kind},triple={triple}", hint="a kpack archive holds code for HIP alone")
    recognised = images.identify_image(data)
    arch = arch or recognised.arch
    if not arch:
        raise UsageError(f"{name}: the image does not state its architecture", hint="add arch=gfx…")
    key = binary.replace("\\", "/")
    attrs = {"binary": key if _NUMBER in key else f"{key}{_NUMBER}0", "type": TYPE}
    return Image(Target(TRIPLE, arch, "hip"), "", data, len(data), len(data), data.span(), attrs=attrs)


def pack(stored: Sequence[Image], options: KpackOptions) -> PackedContainers:
    """Return one archive of the images, in their order. Raises UsageError for two of one binary and architecture.

    Images whose bytes contradict what is stated about them give findings; nothing is read of them but headers.
    """
    if options.level is not None and options.compression is None:
        raise UsageError(
            f"level {options.level} of a compressor, without compression", hint="compress too, or leave out the level"
        )
    attrs = {key: text for key, text in (("group", options.group), ("family", options.family)) if text}
    container = Container(KPACK_FORMAT, VERSION, tuple(stored), Span(0, 0), attrs=attrs)
    findings: list[Finding] = []
    for image in stored:
        findings += mismatch_findings(image, images.identify_image(image.data))
        image.data.source.release_buffers()
    return PackedContainers(tuple(formats.get_format(KPACK_FORMAT).write(container, options)), tuple(findings))
