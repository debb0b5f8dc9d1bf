"""Packing offload bundles: images and their IDs → a bundle of the flavour that a file type asks for.

The types are those of ``clang-offload-bundler -type=``. They decide three things: text bundles for text, with the
comment token of the language; for ``o`` a fat object, if the host's image is an object; a binary bundle for all else,
``o`` of device images alone included (where the original crashes).
"""

from __future__ import annotations

from fatpack import formats, images
from fatpack.commands.pack.fat_object import check_ids, fat_object, host_object
from fatpack.commands.pack.image_keys import id_from, image_with_id
from fatpack.commands.pack.packed import PackedContainers
from fatpack.errors import UsageError
from fatpack.findings import finding
from fatpack.formats.clang_bundle.bundle_id import id_for, parse_id, stored_id
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT, TYPES
from fatpack.images.container_mismatch import mismatch_findings
from fatpack.io.source import Span
from fatpack.model import Container

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import View
    from fatpack.model import Finding, Image
    from fatpack.options import BundleOptions

#: ``kind=`` → programming model, for images without a bundle ID of their own
KINDS = {"host": "host", "hip": "hip", "hipv4": "hip", "openmp": "openmp", "sycl": "sycl"}

_DEFAULT_VERSION = 3


def image_from(option: ImageOption, _name: str, data: View) -> Image:
    """Return the image that one file of ``--image=file=F,id=ID`` or ``file=F,kind=K,triple=T[,arch=A]`` makes.

    The ID is stored as clang-offload-bundler 22 spells it, but for processors that it does not know, which stay.
    Raises UsageError for a target that no bundle can name, and for keys that a bundle cannot store.
    """
    spelling = id_from(option, "a bundle", KINDS, id_for, stored_id)
    if parse_id(spelling).kind == "cuda":
        hint = f"bundles hold NVIDIA's images for OpenMP: id=openmp{spelling.removeprefix('cuda')}"
        raise UsageError(f"bundle ID {spelling}: clang-offload-bundler knows no kind 'cuda'", hint=hint)
    return image_with_id(spelling, parse_id(spelling).target, data)


def pack(stored: Sequence[Image], options: BundleOptions) -> PackedContainers:
    """Return one bundle of the images, in their order.

    Images are passed on unread unless they are compressed. Raises UsageError for IDs that exclude each other, and for
    options that have no meaning for the type; HostError for a host object that cannot be edited.
    """
    type, align, compression, version = options.type, options.align, options.compression, options.version
    if type not in TYPES:
        raise UsageError(f"bundle type {type!r}", hint=f"choose from {' '.join(TYPES)}")
    if align < 1:
        raise UsageError(f"bundle alignment {align}", hint="it must be at least 1")
    if version is not None and compression is None:
        raise UsageError(
            f"version {version} of compressed bundles, without compression",
            hint="compress too, or leave out the version",
        )
    if options.level is not None and compression is None:
        raise UsageError(
            f"level {options.level} of a compressor, without compression", hint="compress too, or leave out the level"
        )
    if type == "a":
        from fatpack.commands.pack.archive_bundle import pack_archive

        if align > 1 or compression:
            raise UsageError("members of archives are neither aligned nor compressed", hint="leave out the option")
        return pack_archive(stored)
    check_ids([image.attrs["id"] for image in stored])
    findings = _findings(stored)
    host = host_object(stored) if type == "o" else None
    if host is not None:
        for word, is_given in (("compression", compression is not None), ("an alignment", align > 1)):
            if is_given:
                raise UsageError(
                    f"{word} means nothing for a fat object",
                    hint="its images are sections of the host object; type bc makes a bundle of its own",
                )
        return fat_object(stored, host, findings)
    if TYPES[type] and align > 1:
        raise UsageError("a text bundle has no alignment", hint="leave out the alignment")
    number = (_DEFAULT_VERSION if version is None else version) if compression else 0
    container = Container(BUNDLE_FORMAT, number, tuple(stored), Span(0, 0))
    is_text = bool(TYPES[type]) and not compression
    return PackedContainers(
        tuple(formats.get_format(BUNDLE_FORMAT).write(container, options)), tuple(findings), is_text
    )


def _findings(stored: Sequence[Image]) -> list[Finding]:
    findings: list[Finding] = []
    for image in stored:
        view = image.data
        if len(view):
            findings += mismatch_findings(image, images.identify_image(view))
        view.source.rest()
    offloads = {image.target.offload for image in stored}
    if stored and "host" not in offloads and offloads != {"hip"}:
        text = "the bundle has no image for a host: clang-offload-bundler makes such bundles of HIP images only"
        findings.append(finding("FP1315", Span(0, 0), text))
    return findings
