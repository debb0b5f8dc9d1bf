"""Images of a container as it lies in a file that can never run: one answer for rows, ``report`` and ``slim``.

The rules of :mod:`fatpack.targets.selection.dead` are for containers from which a runtime selects. Of others
nothing is judged: containers in a program's data, and those of libraries that ask for kernels by name (their own code
selects); input of a device link (its result counts); groups of entries, entries of 32 and 64 bits, offload binaries,
kpack archives and SYCLBIN files.
"""

from __future__ import annotations

from fatpack.binary.section_names import DEVICE_LINK_SECTIONS
from fatpack.tabular.image_sets import is_in_data
from fatpack.targets.selection.dead import find_dead
from fatpack.targets.selection.model import CandidateImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from fatpack.io.source import View
    from fatpack.model import Image
    from fatpack.scanner import FoundContainer
    from fatpack.targets.selection.dead import DeadImage

#: the section in which HIP's runtime finds bundles; others hold bitcode that is linked first
_HIP_SECTION = ".hip_fatbin"


class DeadFinder:
    """Finds the images of one file that can never run. Reads no image."""

    def __init__(self, view: View) -> None:
        from fatpack.binary.elf import quick_header
        from fatpack.scanner import detect_host
        from fatpack.targets.name_based_libraries import find_name_based_library

        host = detect_host(view)
        self._is_linked = host == "pe" or (host == "elf" and quick_header.is_linked(view))
        self._is_by_name = find_name_based_library(view.chain[-1] if view.chain else view.source.name) is not None

    def find(self, found: FoundContainer, among: Collection[int] | None = None) -> Mapping[int, DeadImage]:
        """Return the images of a container that can never run, by their numbers in it; of ``among`` where others go."""
        section = found.section or ""
        images = found.container.images
        offload = _OFFLOADS.get(found.format)
        if self._is_by_name or offload is None or len(images) < 2 or is_in_data(section, found.format):
            return {}
        if section in DEVICE_LINK_SECTIONS or (offload == "hip" and not section.startswith(_HIP_SECTION)):
            return {}
        numbers = [at for at, image in enumerate(images) if image.target.offload != "host"]
        if among is not None:
            numbers = [at for at in numbers if at in among]
        candidates = [_candidate(images[at]) for at in numbers]
        if offload == "cuda" and len({one.triple for one in candidates}) > 1:
            return {}  # for programs of 32 and of 64 bits
        dead = find_dead(candidates, offload, is_linked=self._is_linked)
        # Records of entries are made on access: only where something is dead.
        if dead and any(getattr(images[at].record, "group", None) is not None for at in numbers):
            return {}
        return {numbers[at]: why for at, why in dead.items()}


#: format → the runtime that selects from it
_OFFLOADS = {"cuda-fatbin": "cuda", "clang-offload-bundle": "hip"}


def _candidate(image: Image) -> CandidateImage:
    """Return an image as its container describes it: that alone is what runtimes select by."""
    form = image.attrs.get("kind") if image.form == "ptx" else None  # an entry of relocatable PTX is of this form too
    return CandidateImage(form or image.form, image.target.arch, image.target.triple)
