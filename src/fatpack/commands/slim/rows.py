"""The images of a file, each in its place: what it is for in words, and among which others a runtime chooses.

A runtime chooses from one container; of offload binaries, whose images lie side by side in a section, from all of a
section. Images of one container that are for different programming models or vendors are chosen from apart.
"""

from __future__ import annotations

from fatpack.commands.slim import keep_for_device
from fatpack.record import Record
from fatpack.scanner import FoundContainer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.scanner import FoundImage

#: formats whose containers of one section are chosen from together
SIDE_BY_SIDE = ("llvm-offload-binary", "syclbin")


class SlimImage(Record):
    """An image, where it is (``number`` of its container, ``index`` in there, as ``inspect`` prints them)."""

    number: int
    index: int
    found: FoundContainer
    image: FoundImage

    @property
    def position(self) -> str:
        """The position as ``inspect`` prints it: ``2.0``."""
        return f"{self.number}.{self.index}"


class ImageForDevice(Record):
    """What a device takes of the images among which a runtime chooses, or may take; ``first`` is the first of them."""

    first: SlimImage
    device: str
    rows: tuple[SlimImage, ...]


def is_host(image: FoundImage) -> bool:
    """Return whether an image is for the host of a program: such stay."""
    return image.target.offload == "host"


def image_form(image: FoundImage) -> str:
    """Return what an image is: what its container says of code for linkers, whose bytes are bitcode."""
    return image.as_stored.form if image.as_stored.form in keep_for_device.LINKED else image.form


def arch_label(image: FoundImage) -> str:
    """Return what an image is for in the words of patterns: ``sm_90a``, ``compute_80`` for PTX, a target ID."""
    arch = image.target.arch
    if image.form == "ptx" and arch.startswith("sm_"):
        return f"compute_{arch.removeprefix('sm_')}"
    if image_form(image) in keep_for_device.LINKED and arch.startswith("sm_"):
        return f"lto_{arch.removeprefix('sm_')}"
    return arch or image.target.triple or image.form


def matches_pattern(image: FoundImage, patterns: Sequence[str]) -> bool:
    """Return whether one of some patterns means an image. ``sm_*`` means no PTX, which is ``compute_*``."""
    if not patterns:
        return False
    from fnmatch import fnmatchcase

    text = arch_label(image)
    texts = {text, text.partition(":")[0]}
    if image_form(image) in keep_for_device.LINKED:
        texts.add(image.target.arch)
    return any(fnmatchcase(one, pattern) for one in texts for pattern in patterns)


def group_into_image_sets(rows: Sequence[SlimImage]) -> Iterator[list[SlimImage]]:
    """Yield the images among which a runtime chooses, in their order."""
    units: dict[object, list[SlimImage]] = {}
    for row in rows:
        units.setdefault(image_set_key(row), []).append(row)
    yield from units.values()


def image_set_key(row: SlimImage) -> tuple[object, ...]:
    """Return the key of the images among which a runtime chooses."""
    found, target = row.found, row.image.target
    place: object = row.number
    if found.format in SIDE_BY_SIDE:
        place = (found.member_numbers, found.index, found.section)
    elif found.format == "rocm-kpack":
        place = (row.number, row.image.attrs.get("binary", ""))
    return place, target.offload, keep_for_device.target_vendor(target)
