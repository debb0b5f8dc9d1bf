"""The kernels of containers that were found, as far as they can be known without reading much."""

from __future__ import annotations

from fatpack import images
from fatpack.errors import FormatError, Unsupported
from fatpack.io import limits
from fatpack.scanner.found import Found, LateImages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.scanner.found import FoundImage

#: forms that name their kernels, of those of which a runtime takes kernels
_NAMING = ("cubin", "ptx", "code-object")

#: the form that serves any architecture from its own on
_PORTABLE = "ptx"


def kernels_of(containers: Iterable[Found], most: int = limits.INFLATED_AT_ONCE) -> dict[str, set[str]] | None:
    """Return architecture → names of the kernels in all images for it; None if there is no image, or one that does not
    tell. Images that serve any architecture have "".

    A container without any kernel beside others with some is left out: what nvcc's device link adds where there was
    nothing to link, for an architecture that the others may not be for. No more than ``most`` bytes are inflated.
    """
    parts: list[dict[str, set[str]]] = []
    left = most
    for found in containers:
        names: dict[str, set[str]] = {}
        if isinstance(found.images, LateImages) and sum(image.size for image in found.container.images) > left:
            return None
        for image in found.images:
            if image.target.offload == "host" or not image.size:
                continue
            left -= image.size if image.compression or image.recognised is images.NOT_INFLATED else 0
            own = _names(image) if left >= 0 else None
            if own is None:
                return None
            _add(names, own)
        parts.append(names)
    every: dict[str, set[str]] = {}
    for names in [part for part in parts if any(part.values())] or parts:
        _add(every, names)
    return every or None


def _add(names: dict[str, set[str]], more: dict[str, set[str]]) -> None:
    for arch, some in more.items():
        names.setdefault(arch, set()).update(some)


def _names(image: FoundImage) -> dict[str, set[str]] | None:
    inside = [item for item in image.inside if isinstance(item, Found)]
    if inside:
        return kernels_of(inside)
    try:
        form = image.form if image.recognised is not images.NOT_INFLATED else images.recognise(image.data).form
        if form not in _NAMING:
            return None
        arch = "" if form == _PORTABLE else image.target.arch
        return {arch: set(images.kernels(image.data, form))}
    except (FormatError, Unsupported):
        return None
