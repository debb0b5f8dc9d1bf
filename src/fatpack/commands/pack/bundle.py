"""Packing offload bundles: images and their IDs → a bundle of the flavour that a file type asks for.

The types are those of ``clang-offload-bundler -type=``. They decide three things: text bundles for text, with the
comment token of the language; for ``o`` a fat object, if the host's image is an object; a binary bundle for all else,
``o`` of device images alone included (where the original crashes).
"""

from __future__ import annotations

from fatpack import binary, formats, images
from fatpack.commands.pack.formats import PackedContainers, id_from, image_with_id
from fatpack.errors import HostError, UsageError, cli_or_api
from fatpack.findings import finding
from fatpack.formats.clang_bundle.bundle_id import find_id_conflicts, id_for, member_stem, parse_bundle_id, stored_id
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT, MAGIC, TYPES
from fatpack.images.container_mismatch import mismatch_findings
from fatpack.io.atomic_write import file_mode
from fatpack.io.source import PiecesSource, Span
from fatpack.model import Container, Finding, Image
from fatpack.scanner import FoundContainer, detect_host, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.formats.offload_binary.image_option import ImageOption
    from fatpack.io.source import Piece, View
    from fatpack.writer_options import BundleOptions


# Fat objects: a host object whose sections hold the images of a bundle, and the images that make one.

#: The prefix of a section name of a fat object; the ID follows.
SECTION_PREFIX = MAGIC.decode()

#: host room → the rest of the triple that its objects are taken to be for
_SYSTEMS = {"elf": "unknown-linux-gnu", "coff": "pc-windows-msvc"}


def check_ids(spellings: Sequence[str]) -> None:
    """Raise UsageError for target IDs that exclude each other, and for two hosts."""
    for conflict in find_id_conflicts(spellings):
        raise UsageError(conflict.message)
    found = [spelling for spelling in spellings if parse_bundle_id(spelling).kind == "host"]
    if len(found) > 1:
        raise UsageError(f"{len(found)} images for a host: {', '.join(found)}", hint="a bundle has one host at most")


def host_object(stored: Sequence[Image]) -> View | None:
    """Return the image of the host if it is an object file that can hold the others as sections."""
    for image in stored:
        if image.target.offload == "host":
            view = image.data
            return view if detect_host(view) in ("elf", "coff") else None
    return None


def fat_object(stored: Sequence[Image], host: View, findings: Sequence[Finding] = ()) -> PackedContainers:
    """Return a copy of a host object with a section per image, byte for byte as clang-offload-bundler 22 makes it."""
    additions = []
    for image in stored:
        name = SECTION_PREFIX + image.attrs["id"]
        # The object itself is the host's image; the entry is one NUL byte.
        additions.append((name, [b"\0"] if image.target.offload == "host" else [image.data]))
    pieces = binary.get_objcopy(detect_host(host)).add_sections(host, additions)
    return PackedContainers(
        tuple(pieces), tuple(findings), False, file_mode(host), lambda after: _verify_fat_object(after, stored)
    )


def host_entry(stored: Sequence[Image], host: View) -> Image:
    """Return a host object as the host's image of a bundle, under the ID that its machine has on Linux or Windows.

    Raises UsageError if there is a host's image already.
    """
    if any(image.target.offload == "host" for image in stored):
        host_option = cli_or_api("--host", "host=…")
        raise UsageError(f"two hosts: {host_option}, and an image for a host", hint="leave out one of them")
    triple = images.identify_image(host).triple
    if detect_host(host) not in ("elf", "coff") or not triple:
        entry = cli_or_api("--image=file=F,id=host-TRIPLE", 'ImageFile(F, id="host-TRIPLE")')
        hint = f"give it as {entry}"
        raise HostError("this is no object whose machine is known", hint=hint, chain=host.chain)
    spelling = stored_id(f"host-{triple.split('-')[0]}-{_SYSTEMS[detect_host(host)]}")
    return image_with_id(spelling, parse_bundle_id(spelling).target, host)


def _verify_fat_object(after: View, stored: Sequence[Image]) -> None:
    """Raise HostError unless a fat object holds exactly these images."""
    expected = [(image.attrs["id"], 1 if image.target.offload == "host" else image.size) for image in stored]
    for item in scan(after):
        if isinstance(item, FoundContainer) and item.container.is_fat_object:
            found = [(image.attrs["id"], image.size) for image in item.images]
            if found[-len(expected) :] == expected:
                return
    raise HostError("the fat object does not hold what was put into it", chain=after.chain)


# Heterogeneous archives: one archive per target → one archive whose members are bundles, and back.
#
# Libraries of device code are shipped as archives in which every member is a bundle or a fat object. Taking them apart
# (``clang-offload-bundler -unbundle -type=a``) gives an archive per target, whose members are named
# ``<stem>-<ID><stem><extension>``; packing puts members of one stem together again. Of members that share a stem the
# first of one archive belongs to the first of another, and so on.


def pack_archive(stored: Sequence[Image]) -> PackedContainers:
    """Return an archive of bundles made of archives, one per target, that are given as images.

    A member whose host image is an object becomes a fat object, any other a binary bundle; its name is that of the
    first archive's member. Members keep the order of the archives. Raises UsageError for an image that is no archive.
    """
    check_ids([image.attrs["id"] for image in stored])
    groups: dict[tuple[str, int], list[tuple[bytes, Image]]] = {}
    # The host's names go first: device archives may lack members, and theirs are derived names.
    for image in sorted(stored, key=lambda image: image.target.offload != "host"):
        counts: dict[str, int] = {}
        for name, data in _members(image):
            stem = member_stem(name.decode("utf-8", "surrogateescape"), image.attrs["id"])
            counts[stem] = counts.get(stem, 0) + 1
            made = image.replace(data=data, size=len(data), stored_size=len(data), span=data.span())
            groups.setdefault((stem, counts[stem]), []).append((name, made))
    members: list[tuple[bytes, View]] = []
    order = {id: number for number, id in enumerate(image.attrs["id"] for image in stored)}
    for (stem, _), parts in groups.items():
        images = sorted((image for _, image in parts), key=lambda image: order[image.attrs["id"]])
        is_host = parts[0][1].target.offload == "host"
        name = parts[0][0] if is_host else f"{stem}.o".encode("utf-8", "surrogateescape")
        members.append((name, PiecesSource(_bundled(images), name.decode("utf-8", "replace")).view()))
    from fatpack.binary import archive

    return PackedContainers(tuple(archive.build_archive(members)))


def _bundled(images: Sequence[Image]) -> Sequence[Piece]:
    host = host_object(images)
    if host is not None:
        return fat_object(images, host).pieces
    return tuple(formats.get_format(BUNDLE_FORMAT).write(Container(BUNDLE_FORMAT, 0, tuple(images), Span(0, 0))))


def _members(image: Image) -> Iterable[tuple[bytes, View]]:
    view = image.data
    name = view.chain[0] if view.chain else "input"
    if detect_host(view) != "archive":
        archives = cli_or_api("--type=a", 'BundleOptions(type="a")')
        hint = f"{archives} packs archives; other types pack single files"
        raise UsageError(f"{name} is no archive", hint=hint)
    for site in binary.get_host("archive").locate(view):
        if isinstance(site, Finding):
            raise UsageError(f"{name}: {site.text}", hint="nothing was packed")
        yield (site.member or "").encode("utf-8", "surrogateescape"), site.data


#: ``kind=`` → programming model, for images without a bundle ID of their own
KINDS = {"host": "host", "hip": "hip", "hipv4": "hip", "openmp": "openmp", "sycl": "sycl"}

_DEFAULT_VERSION = 3


def image_from(option: ImageOption, _name: str, data: View) -> Image:
    """Return the image that one file of ``--image=file=F,id=ID`` or ``file=F,kind=K,triple=T[,arch=A]`` makes.

    The ID is stored as clang-offload-bundler 22 spells it, except unknown processors, which stay.
    Raises UsageError for a target that no bundle can name, and for keys that a bundle cannot store.
    """
    spelling = id_from(option, "a bundle", KINDS, id_for, stored_id)
    if parse_bundle_id(spelling).kind == "cuda":
        hint = f"bundles hold NVIDIA's images for OpenMP: id=openmp{spelling.removeprefix('cuda')}"
        raise UsageError(f"bundle ID {spelling}: clang-offload-bundler knows no kind 'cuda'", hint=hint)
    return image_with_id(spelling, parse_bundle_id(spelling).target, data)


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
        view.source.release_buffers()
    offloads = {image.target.offload for image in stored}
    if stored and "host" not in offloads and offloads != {"hip"}:
        text = "the bundle has no image for a host: clang-offload-bundler makes such bundles of HIP images only"
        findings.append(finding("FP1315", Span(0, 0), text))
    return findings
