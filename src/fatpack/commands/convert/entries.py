"""Conversion of CUDA fat binaries and SYCLBIN files, whose entries state more than other images do.

Only conversions from these formats, or into them, import this module.
"""

from __future__ import annotations

from fatpack.commands.pack.fatbin import KINDS
from fatpack.commands.pack.syclbin import DescribedImage, kernel_set
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
    CudaEntry,
    flag_words,
)
from fatpack.formats.syclbin.layout import IR_TYPES, SYCLBIN_FORMAT, SyclbinEntry, SyclbinHeader
from fatpack.model import Image, Target
from fatpack.scanner import FoundContainer
from fatpack.selectors.select import describe_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import View
    from fatpack.scanner import FoundImage

    ImageRow = tuple[str, FoundContainer, FoundImage, View]


# Converting into and out of CUDA fat binaries.
#
# Entries of fat binaries go into other fat binaries as they are stored: compressed, obfuscated or of unknown kinds. In
# an offload binary, what an entry states becomes keys: ``identifier``, ``options``, ``debug``, ``host`` and, for kinds
# that the bytes do not show, ``entry-kind``; so the way back gives the same entry. A bundle has no place for them.

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
    inside = [item for item in found.containers if item.format == FATBIN_FORMAT]
    if inside:
        losses += [f"{title}: the key {key}={value}" for key, value in kept.items()]
        for item in inside:
            yield from (entry.as_stored for entry in item.images)
        return
    form = "" if "kind" in kept else found.form
    if form not in KINDS.values() and "kind" not in kept:
        what = found.info.detail or found.form or "unknown"
        hint = f"select the others with {cli_or_api('--form', 'form=…')}"
        raise UsageError(f"{title} is no image for NVIDIA GPUs ({what})", hint=hint)
    if image.target.offload not in ("cuda", "none"):
        losses.append(f"{title}: the programming model {image.target.offload!r}")
    own = found.info
    arch = "sm_" + (image.target.arch or own.arch).partition("_")[2]
    triple = image.target.triple if image.target.triple.startswith("nvptx") else own.triple
    target = Target(triple or "nvptx64-nvidia-cuda", arch if arch != "sm_" else "", "cuda")
    yield Image(target, form, data, len(data), len(data), data.span(), attrs=kept)


# Conversion of SYCLBIN files: property sets belong to modules, not to images.

#: Attributes of an image's position in its file, which have no meaning in another file.
_PLACES = ("role", "am_index", "ir_type")


def without_position(found: FoundImage) -> FoundImage:
    """Return an image of a SYCLBIN file without the keys of its position there; any other image unchanged."""
    image = found.as_stored
    if not isinstance(image.record, SyclbinEntry):
        return found
    attrs = {key: text for key, text in image.attrs.items() if key not in _PLACES}
    return found.replace(as_stored=image.replace(attrs=attrs, record=None))


def syclbin_losses(rows: Sequence[ImageRow]) -> Iterator[str]:
    """Yield what is lost of SYCLBIN files whose images go into containers of other formats, a line for each file."""
    seen: set[str] = set()
    for position, found, _, _ in rows:
        header = found.container.record
        number = position.partition(".")[0]
        if number in seen or not isinstance(header, SyclbinHeader):
            continue
        seen.add(number)
        if any(len(module.metadata) for module in header.modules):
            yield f"container {number}: the property sets of its abstract modules"


def images_for_syclbin(rows: Sequence[ImageRow], losses: list[str]) -> list[Image]:
    """Return images for a SYCLBIN file: what shares an abstract module still does, with its property sets.

    Of version 1 in an offload binary those inside are meant. Raises UsageError for an image of another programming
    model.
    """
    made: list[Image] = []
    numbers: dict[tuple[str, int], int] = {}
    for position, container, found, data in rows:
        inside = [item for item in found.containers if item.format == SYCLBIN_FORMAT]
        for number, outer in enumerate(inside):
            made += (_of_file(f"{position}/{number}", outer, item.as_stored, numbers) for item in outer.images)
        if not inside:
            image = found.as_stored
            is_stored = isinstance(image.record, SyclbinEntry) and isinstance(container.container.record, SyclbinHeader)
            number_text = position.partition(".")[0]
            made.append(
                _of_file(number_text, container, image, numbers) if is_stored else _alone(position, found, data, losses)
            )
    following = len(set(numbers.values()))
    for at, image in enumerate(made):
        if "am_index" not in image.attrs:
            made[at] = image.replace(attrs={**image.attrs, "am_index": str(following)})
            following += 1
    return made


def _of_file(place: str, container: FoundContainer, image: Image, numbers: dict[tuple[str, int], int]) -> Image:
    """Return an image of a SYCLBIN file, with the property sets of its module under a new number.

    ``place`` is the position of the container, which tells its modules from those of others.
    """
    header, entry = container.container.record, image.record
    attrs = {key: text for key, text in image.attrs.items() if key != "am_index"}
    if not isinstance(header, SyclbinHeader) or not isinstance(entry, SyclbinEntry) or entry.module is None:
        return image.replace(attrs=attrs, record=DescribedImage(b"", entry))
    texts = {module.number: module.metadata for module in header.modules}
    number = numbers.setdefault((place, entry.module), len(numbers))
    text = texts[entry.module].tobytes() if entry.module in texts else b""
    return image.replace(attrs={**attrs, "am_index": str(number)}, record=DescribedImage(text, entry))


def _alone(position: str, found: FoundImage, data: View, losses: list[str]) -> Image:
    """Return any other image, which makes an abstract module of its own."""
    image = found.as_stored
    title = f"image {describe_image(position, found)}"
    if image.target.offload not in ("sycl", "none"):
        hint = (
            f"a SYCLBIN file holds nothing else; {cli_or_api('--offload=sycl', 'offload=…')} selects what is for SYCL"
        )
        raise UsageError(f"{title} is no code for SYCL", hint=hint)
    losses += [f"{title}: the key {key}={text}" for key, text in image.attrs.items()]
    form = found.form if not image.target.arch and found.form in IR_TYPES else ""
    record = DescribedImage(kernel_set(data, found.form))
    target = image.target.replace(offload="sycl")
    return Image(target, form, data, len(data), len(data), data.span(), record=record)
