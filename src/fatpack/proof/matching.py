"""One container in both files: which of its images are still there, and whether they are the same."""

from __future__ import annotations

from bisect import bisect_left

from fatpack.proof.verdict import ProvedContainer, ProvedImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.proof.containers.model import ProofContainer, ProofImage
    from fatpack.proof.ledger import DifferenceLog
    from fatpack.proof.verdict import ContainerFate


def match_images(
    old: ProofContainer, new: ProofContainer | None, records: tuple[int, ...], ledger: DifferenceLog
) -> tuple[ProvedContainer, list[ProvedImage], list[ProvedImage]]:
    """Return what became of a container, and its images that are kept and dropped.

    Images keep their order. One that was not there, or is not the same, is a difference.
    """
    kept: list[ProvedImage] = []
    gone: list[ProvedImage] = []
    at = 0
    places = _ImagePlaces(old.images)
    for image in () if new is None else new.images:
        found, recompressed = places.find(image, at)
        if found is None:
            address = None if new is None else new.start
            ledger.differ("image", address=address, expected="one of the container's images", found=image.title)
            continue
        gone += [_fact(item, old) for item in old.images[at:found]]
        kept.append(_fact(old.images[found], old, recompressed=recompressed))
        at = found + 1
    gone += [_fact(item, old) for item in old.images[at:]]
    if new is not None:
        ledger.same("kind of a container", old.kind, new.kind, address=new.start)
        ledger.same("head of a container", old.head.hex(), new.head.hex(), address=new.start)
    size = 0 if new is None else new.end - new.start
    fact = ProvedContainer(
        old.kind, old.start, old.end - old.start, new.start if new else None, size, _fate(old, new), records
    )
    return fact, kept, gone


def _fate(old: ProofContainer, new: ProofContainer | None) -> ContainerFate:
    if new is None:
        return "dropped"
    if len(new.images) == len(old.images):
        return "kept" if new.start == old.start else "moved"
    return "reduced" if any(image.size for image in new.images) else "emptied"


class _ImagePlaces:
    """Where in a container an image is, by its stored bytes, and if need be by what it inflates to."""

    def __init__(self, images: Sequence[ProofImage]) -> None:
        self._images = images
        self._stored: dict[object, list[int]] = {}
        for number, image in enumerate(images):
            self._stored.setdefault((image.rest, image.size, image.digest), []).append(number)
        self._inflated: dict[object, list[int]] | None = None

    def find(self, image: ProofImage, at: int) -> tuple[int | None, bool]:
        """Return the number of an image, not below ``at``, and whether it is compressed in another way there."""
        found = _next(self._stored.get((image.rest, image.size, image.digest)), at)
        content = None if found is not None or image.content is None else image.content()
        if content is None:
            return found, False
        if self._inflated is None:
            self._inflated = {}
            for number, each in enumerate(self._images):
                self._inflated.setdefault(each.content() if each.content else None, []).append(number)
        return _next(self._inflated.get(content), at), True


def _next(numbers: list[int] | None, at: int) -> int | None:
    """Return the first of some rising numbers that is not below another."""
    place = bisect_left(numbers or (), at)
    return numbers[place] if numbers and place < len(numbers) else None


def _fact(image: ProofImage, container: ProofContainer, *, recompressed: bool = False) -> ProvedImage:
    return ProvedImage(image.title, container.start, image.size, image.digest, image.is_inflated, recompressed)
