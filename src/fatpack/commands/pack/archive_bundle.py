"""Heterogeneous archives: one archive per target → one archive whose members are bundles, and back.

Libraries of device code are shipped as archives in which every member is a bundle or a fat object. Taking them apart
(``clang-offload-bundler -unbundle -type=a``) gives an archive per target, whose members are named
``<stem>-<ID><stem><extension>``; packing puts members of one stem together again. Of members that share a stem the
first of one archive belongs to the first of another, and so on.
"""

from __future__ import annotations

from fatpack import binary, formats
from fatpack.binary import archive
from fatpack.commands.pack.fat_object import check_ids, fat_object, host_object
from fatpack.commands.pack.packed import PackedContainers
from fatpack.errors import UsageError, cli_or_api
from fatpack.formats.clang_bundle.layout import BUNDLE_FORMAT
from fatpack.formats.clang_bundle.member_name import member_stem
from fatpack.io.pieces import PiecesSource
from fatpack.io.source import Span
from fatpack.model import Container, Finding, Image
from fatpack.scanner import detect_host

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.io.source import Piece, View


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
