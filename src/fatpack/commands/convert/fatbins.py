"""Converting into and out of CUDA fat binaries.

Entries of fat binaries go into other fat binaries as they are stored: compressed, obfuscated or of unknown kinds. In an
offload binary, what an entry states becomes keys: ``identifier``, ``options``, ``debug``, ``host`` and, for kinds that
the bytes do not show, ``entry-kind``; so the way back gives the same entry. A bundle has no place for them.
"""

from __future__ import annotations

from fatpack.commands.pack.fatbin import KINDS
from fatpack.errors import UsageError, cli_or_api
from fatpack.formats.cuda_fatbin.layout import (
    COMPRESSED,
    FATBIN_FORMAT,
    FLAG_64_BIT,
    FLAG_ACCELERATED,
    FLAG_DEBUG,
    FLAG_FAMILY,
    FLAG_FINALIZABLE,
    HOST_MASK,
    flag_words,
)
from fatpack.formats.cuda_fatbin.stored import CudaEntry
from fatpack.model import Image, Target
from fatpack.scanner import FoundContainer
from fatpack.selectors.select import describe_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import View
    from fatpack.scanner import FoundImage

#: Flags that target and attributes state, that the image itself states, or that are about how it is stored.
_STATED = FLAG_64_BIT | FLAG_DEBUG | HOST_MASK | COMPRESSED | FLAG_ACCELERATED | FLAG_FAMILY | FLAG_FINALIZABLE

#: attribute of an entry → key in an offload binary, where that is another
_KEYS = {"kind": "entry-kind"}
_ATTRS = ("identifier", "options", "debug", "host")


def offload_binary_keys(position: str, found: FoundImage, losses: list[str]) -> Mapping[str, str]:
    """Return the attributes of an image of any format as keys of an offload binary; what is no key is a loss.

    Raises UsageError for an image that cannot be had.
    """
    image = found.as_stored
    if not isinstance(image.record, CudaEntry):
        return image.attrs
    title = f"image {describe_image(position, found)}"
    if image.attrs.get("obfuscated"):
        raise UsageError(f"{title} is obfuscated by its producer", hint="only a fat binary can hold it")
    unstated = image.record.head.flags & ~_STATED
    if unstated:
        losses.append(f"{title}: the flags {flag_words(unstated)}")
    return {_KEYS.get(key, key): value for key, value in image.attrs.items()}


def group_into_fatbins(
    chosen: Sequence[tuple[str, FoundContainer, FoundImage, View]], losses: list[str]
) -> list[list[Image]]:
    """Return the images of every fat binary to make: for each that the images come from, and for all other containers.

    Where the same kind of image for the same target would be in one twice, another one begins: they are those of
    several objects, and a program would use the first only. Every item is a position, the container, the image and
    its bytes.
    """
    groups: list[list[Image]] = []
    last: FoundContainer | None = None
    taken: set[tuple[Target, str, str]] = set()
    for position, container, found, data in chosen:
        is_fatbin = container.container.format == FATBIN_FORMAT
        images = list(_entries(position, found, data, losses))
        labels = {_label(image) for image in images}
        is_next = container is not last and (is_fatbin or last is None or last.container.format == FATBIN_FORMAT)
        if is_next or (not is_fatbin and labels & taken):
            groups.append([])
            taken = set()
        groups[-1] += images
        taken |= labels
        last = container
    return groups


def _label(image: Image) -> tuple[Target, str, str]:
    return image.target, image.form, image.attrs.get("identifier", "")


def _entries(position: str, found: FoundImage, data: View, losses: list[str]) -> Iterator[Image]:
    """Yield what an image becomes in a fat binary: one entry, or those of the fat binary that it is itself."""
    image = found.as_stored
    if isinstance(image.record, CudaEntry):
        yield image
        return
    title = f"image {describe_image(position, found)}"
    attrs = dict(image.attrs)
    kept = {name: attrs.pop(name) for name in _ATTRS if name in attrs}
    if "entry-kind" in attrs:
        kept["kind"] = attrs.pop("entry-kind")
    losses += [f"{title}: the key {key}={value}" for key, value in attrs.items() if key != "id"]
    inside = [
        item for item in found.inside if isinstance(item, FoundContainer) and item.container.format == FATBIN_FORMAT
    ]
    if inside:
        losses += [f"{title}: the key {key}={value}" for key, value in kept.items()]
        for item in inside:
            yield from (entry.as_stored for entry in item.images)
        return
    form = "" if "kind" in kept else found.form
    if form not in KINDS.values() and "kind" not in kept:
        what = found.recognised.detail or found.form or "unknown"
        hint = f"select those that are with {cli_or_api('--form', 'form=…')}"
        raise UsageError(f"{title} is no image for NVIDIA GPUs ({what})", hint=hint)
    if image.target.offload not in ("cuda", "none"):
        losses.append(f"{title}: the programming model {image.target.offload!r}")
    own = found.recognised
    arch = "sm_" + (image.target.arch or own.arch).partition("_")[2]
    triple = image.target.triple if image.target.triple.startswith("nvptx") else own.triple
    target = Target(triple or "nvptx64-nvidia-cuda", arch if arch != "sm_" else "", "cuda")
    yield Image(target, form, data, len(data), len(data), data.span(), attrs=kept)
