"""What is special about SYCLBIN files when they are converted: property sets belong to modules, not to images."""

from __future__ import annotations

from fatpack.commands.pack.syclbin import DescribedImage, kernel_set
from fatpack.errors import UsageError, cli_or_api
from fatpack.formats.syclbin.stored import SyclbinEntry, SyclbinHeader
from fatpack.formats.syclbin.syclbin_layout import IR_TYPES, SYCLBIN_FORMAT
from fatpack.model import Image
from fatpack.scanner import FoundContainer
from fatpack.selectors.select import describe_image

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import View
    from fatpack.scanner import FoundImage

    ImageRow = tuple[str, FoundContainer, FoundImage, View]

#: What says where an image stands in its file, which means nothing elsewhere.
_PLACES = ("role", "am_index", "ir_type")


def without_position(found: FoundImage) -> FoundImage:
    """Return an image of a SYCLBIN file without what says where in it the image stands; any other as it is."""
    image = found.as_stored
    if not isinstance(image.record, SyclbinEntry):
        return found
    attrs = {key: text for key, text in image.attrs.items() if key not in _PLACES}
    return found.replace(as_stored=image.replace(attrs=attrs, record=None))


def syclbin_losses(rows: Sequence[ImageRow]) -> Iterator[str]:
    """Yield what is lost of SYCLBIN files whose images go into containers of other formats, a line for each file."""
    seen: set[int] = set()
    for position, found, _, _ in rows:
        header = found.container.record
        if id(found) in seen or not isinstance(header, SyclbinHeader):
            continue
        seen.add(id(found))
        if any(len(module.metadata) for module in header.modules):
            yield f"container {position.partition('.')[0]}: the property sets of its abstract modules"


def images_for_syclbin(rows: Sequence[ImageRow], losses: list[str]) -> list[Image]:
    """Return images for a SYCLBIN file: what shares an abstract module still does, with its property sets.

    Of version 1 in an offload binary those inside are meant. Raises UsageError for an image of another programming
    model.
    """
    made: list[Image] = []
    numbers: dict[tuple[int, int], int] = {}
    for position, container, found, data in rows:
        inside = [item for item in found.inside if isinstance(item, FoundContainer) and item.format == SYCLBIN_FORMAT]
        for outer in inside:
            made += (_of_file(outer, item.as_stored, numbers) for item in outer.images)
        if not inside:
            image = found.as_stored
            is_stored = isinstance(image.record, SyclbinEntry) and isinstance(container.container.record, SyclbinHeader)
            made.append(_of_file(container, image, numbers) if is_stored else _alone(position, found, data, losses))
    following = len(set(numbers.values()))
    for at, image in enumerate(made):
        if "am_index" not in image.attrs:
            made[at] = image.replace(attrs={**image.attrs, "am_index": str(following)})
            following += 1
    return made


def _of_file(container: FoundContainer, image: Image, numbers: dict[tuple[int, int], int]) -> Image:
    """Return an image of a SYCLBIN file, with the property sets of its module under a new number."""
    header, entry = container.container.record, image.record
    attrs = {key: text for key, text in image.attrs.items() if key != "am_index"}
    if not isinstance(header, SyclbinHeader) or not isinstance(entry, SyclbinEntry) or entry.module is None:
        return image.replace(attrs=attrs, record=DescribedImage(b"", entry))
    texts = {module.number: module.metadata for module in header.modules}
    number = numbers.setdefault((id(container), entry.module), len(numbers))
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
