"""Images that stay, compressed anew: entries of fat binaries by another method, bundles as compressed ones.

===========  ==============================================================================================
CUDA         ``zstd`` (drivers of CUDA 12.4 and newer inflate it), ``lz4`` (every driver), ``none``
HIP          ``zstd``, ``zlib``: compressed bundles of version 2, or of the version that they have; ``none``
===========  ==============================================================================================

An entry keeps all that is stored of it but for the method and the sizes. Members of groups (fatbinary ``-concat``) and
obfuscated images stay as they are, and so do images that would not change.

How we know: zstd since CUDA 12.4 is documented with nvcc's ``--compress-mode``; what drivers before it say, and which
versions of compressed bundles HIP's runtime reads, is reported by users (ml-explore/mlx#2407, ROCm/clr#99).
"""

from __future__ import annotations

from fatpack.errors import pluralize

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.commands.slim.rows import SlimImage
    from fatpack.commands.slim.wishes import SlimOptions
    from fatpack.model import Image
    from fatpack.scanner import FoundContainer

_FATBIN, _BUNDLE = "cuda-fatbin", "clang-offload-bundle"

#: format → methods that its images can have
_METHODS = {_FATBIN: ("zstd", "lz4", "none"), _BUNDLE: ("zstd", "zlib", "none")}

#: method → the level that is taken where none is given: fatbinary's for ``size``, LLVM's for bundles
_LEVELS = {"zstd": 19, "lz4": 12}

#: The version of compressed bundles that readers since LLVM 19 know; version 3 is written by ROCm 7.2.
_BUNDLE_VERSION = 2

#: what must be known about a method, by format
_FLOORS = {
    (_FATBIN, "zstd"): "zstd in fat binaries needs a driver of CUDA 12.4 or newer",
    (_BUNDLE, "zstd"): "compressed bundles need a HIP runtime that inflates them; which is the first is not known",
    (_BUNDLE, "zlib"): "compressed bundles need a HIP runtime that inflates them; which is the first is not known",
}


def recompress_images(rows: Sequence[SlimImage], wishes: SlimOptions) -> dict[int, tuple[Image, ...]]:
    """Return the images of some rows that are stored in another way then, by the ``id()`` of what was found.

    Entries of fat binaries are compressed here, on all cores, and are in memory then. Of a bundle every image is
    returned as it is: its container is written anew. Raises FormatError for an image that does not inflate.
    """
    method = wishes.recompress
    if method is None:
        return {}
    from fatpack.concurrency.threads import ThreadTasks

    changes: dict[int, tuple[Image, ...]] = {}
    entries = [row for row in rows if row.found.format == _FATBIN and _is_suited(row.image.as_stored, method)]
    tasks: list[Callable[[], Image]] = [_task(row.image.as_stored, method, wishes.level) for row in entries]
    with ThreadTasks(tasks) as done:
        for row, image in zip(entries, done, strict=True):
            changes[id(row.image)] = (image,)
    changes |= {id(row.image): (row.image.as_stored,) for row in rows if _is_reshaped(row.found, wishes)}
    return changes


def _is_suited(image: Image, method: str) -> bool:
    from fatpack.formats.cuda_fatbin.layout import FLAG_OBFUSCATED
    from fatpack.formats.cuda_fatbin.stored import CudaEntry

    entry = image.record
    if method not in _METHODS[_FATBIN] or not isinstance(entry, CudaEntry) or entry.group is not None:
        return False
    if entry.head.flags & FLAG_OBFUSCATED or entry.data.source.is_refused:
        return False
    return method != "none" or image.compression is not None


def _task(image: Image, method: str, level: int | None) -> Callable[[], Image]:
    from fatpack.formats.cuda_fatbin.layout import COMPRESSED, TEXTS
    from fatpack.formats.cuda_fatbin.new_entry import METHOD_BITS
    from fatpack.formats.cuda_fatbin.stored import CudaEntry
    from fatpack.io.memory import BytesSource

    def run() -> Image:
        entry = image.record
        assert isinstance(entry, CudaEntry)
        content = image.data.tobytes()
        image.data.source.rest()
        if entry.head.kind in TEXTS and not content.endswith(b"\0"):
            content += b"\0"
        stream, flag, sizes = content, 0, (0, 0)
        if method != "none":
            from fatpack.codecs.compress import compress

            chosen = _LEVELS[method] if level is None else level
            stream = compress([content], method, len(content), chosen, one_shot=True)
            flag, sizes = METHOD_BITS[method], (len(stream), len(content))
        head = entry.head.replace(
            flags=entry.head.flags & ~COMPRESSED | flag, compressed_size=sizes[0], inflated_size=sizes[1]
        )
        packed = BytesSource(stream, "").view()
        new = entry.replace(head=head, packed=packed)
        return image.replace(
            record=new, compression=None if method == "none" else method, stored_size=len(stream), data=image.data
        )

    return run


def _is_reshaped(found: FoundContainer, wishes: SlimOptions) -> bool:
    """Return whether a bundle is to be written in another way."""
    method = wishes.recompress
    if found.format != _BUNDLE or method not in _METHODS[_BUNDLE] or found.container.is_fat_object:
        return False
    flavour = found.container.attrs.get("flavour")
    return flavour in ("binary", "compressed") and (method != "none" or flavour == "compressed")


def container_updater(wishes: SlimOptions) -> Callable[[FoundContainer], FoundContainer]:
    """Return what makes of a container one that is written as it is wished: a compressed bundle, or a plain one."""

    def reshaped(found: FoundContainer) -> FoundContainer:
        if not _is_reshaped(found, wishes):
            return found
        container = found.container
        attrs = {key: value for key, value in container.attrs.items() if key not in ("compression", "level")}
        if wishes.recompress == "none":
            attrs = {key: value for key, value in attrs.items() if key != "inside"}
            return found.replace(container=container.replace(attrs={**attrs, "flavour": "binary"}, version=0))
        inside = attrs.get("inside", "binary")
        attrs |= {"flavour": "compressed", "compression": str(wishes.recompress), "inside": inside}
        if wishes.level is not None:
            attrs["level"] = str(wishes.level)
        version = container.version if container.version in (2, 3) else _BUNDLE_VERSION
        return found.replace(container=container.replace(attrs=attrs, version=version))

    return reshaped


def not_recompressible(
    rows: Sequence[SlimImage], changes: dict[int, tuple[Image, ...]], wishes: SlimOptions
) -> list[str]:
    """Return what to know about images that were to be compressed anew: what readers it needs, and which stay."""
    if wishes.recompress is None:
        return []
    formats = dict.fromkeys(row.found.format for row in rows if id(row.image) in changes)
    notes = [_FLOORS[one, wishes.recompress] for one in formats if (one, wishes.recompress) in _FLOORS]
    left = [row for row in rows if id(row.image) not in changes and row.found.format in _METHODS]
    other = [row for row in left if wishes.recompress not in _METHODS[row.found.format]]
    if other:
        notes.append(f"{pluralize(len(other), 'image')} cannot be compressed by {wishes.recompress}: stored as before")
    if len(left) > len(other):
        rest = pluralize(len(left) - len(other), "image")
        notes.append(f"{rest} stored as before: grouped, obfuscated or as wished already")
    return notes
