"""Images of a container as it lies in a file that can never run: one answer for rows, ``report`` and ``slim``.

The rules of :mod:`fatpack.targets.selection.dead` are for containers from which a runtime selects. Of others
nothing is judged: containers in a program's data, and those of libraries that ask for kernels by name (their own code
selects); input of a device link (its result counts); groups of entries, entries of 32 and 64 bits, offload binaries
except those of OpenMP in a linked file, kpack archives and SYCLBIN files.

The offload binaries of one section of a program are judged together: a descriptor of OpenMP leads to all of them.

The containers of a program with relocatable device code are linked together when it starts: an architecture can go from
all of them or from none, and what lives in one of them lives in all.
"""

from __future__ import annotations

from fatpack.binary.section_names import DEVICE_LINK_SECTIONS
from fatpack.tabular.image_sets import is_in_data
from fatpack.targets.selection.dead import find_dead
from fatpack.targets.selection.model import CandidateImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fatpack.io.source import View
    from fatpack.model import Image
    from fatpack.registration.stripped_programs import ContainerPointers
    from fatpack.scanner import FoundContainer
    from fatpack.targets.selection.dead import DeadImage

#: the start of the names of sections with code that is linked when a program starts
_PRELINKED = "__nv_rel"

#: the section in which HIP's runtime finds bundles; others hold bitcode that is linked first
_HIP_SECTION = ".hip_fatbin"


class DeadFinder:
    """Finds the images of one file that can never run. Reads no image."""

    def __init__(self, view: View) -> None:
        from fatpack.binary.elf import quick_header
        from fatpack.scanner import detect_host
        from fatpack.targets.name_based_libraries import find_name_based_library

        host = detect_host(view)
        self._view, self._host = view, host
        #: positions of containers that are linked together, and what lives in these; None until it is asked for
        self._prelinked: frozenset[int] | None = None
        self._living: frozenset[tuple[str, str]] | None = None
        #: start of a container of OpenMP → its images that can never run; None until it is asked for
        self._of_openmp: Mapping[int, Mapping[int, DeadImage]] | None = None
        self._is_linked = host == "pe" or (host == "elf" and quick_header.is_linked(view))
        self._is_by_name = find_name_based_library(view.chain[-1] if view.chain else view.source.name) is not None

    def find(self, found: FoundContainer) -> Mapping[int, DeadImage]:
        """Return the images of a container that can never run, by their numbers in it."""
        if self._is_of_openmp(found):
            if self._of_openmp is None:
                self._of_openmp = _dead_of_openmp([(item, None) for item in self._every() if self._is_of_openmp(item)])
            return self._of_openmp.get(found.container.span.start, {})
        dead = self._judged(found, None)
        if not dead or not self._is_linked_with_others(found):
            return dead
        if self._living is None:
            together = [item for item in self._every() if self._is_linked_with_others(item)]
            self._living = frozenset().union(
                *(_living(item, range(len(item.container.images)), self._judged(item, None)) for item in together)
            )
        return _without(self._living, found, dead)

    def find_in(self, containers: Sequence[tuple[FoundContainer, Collection[int]]]) -> list[Mapping[int, DeadImage]]:
        """Return those of several containers, of whose images the ones with these numbers are left."""
        of_openmp = _dead_of_openmp([(item, among) for item, among in containers if self._is_of_openmp(item)])
        dead = [
            of_openmp.get(found.container.span.start, {}) if self._is_of_openmp(found) else self._judged(found, among)
            for found, among in containers
        ]
        if not any(dead):
            return dead
        together = [self._is_linked_with_others(found) for found, _ in containers]
        living: set[tuple[str, str]] = set()
        for (found, among), own, is_one in zip(containers, dead, together, strict=True):
            if is_one:
                living |= _living(found, among, own)
        return [
            _without(living, found, own) if is_one else own
            for (found, _), own, is_one in zip(containers, dead, together, strict=True)
        ]

    def _every(self) -> list[FoundContainer]:
        """Return the containers of the file."""
        from fatpack.scanner import FoundContainer, scan

        every = scan(self._view, checks_registration=False, identifies_images=False)
        return [item for item in every if isinstance(item, FoundContainer)]

    def _is_of_openmp(self, found: FoundContainer) -> bool:
        """Return whether a container has images of OpenMP in a linked file: a descriptor leads to these."""
        is_binary = self._is_linked and found.format == "llvm-offload-binary" and found.index is not None
        return is_binary and all(image.target.offload == "openmp" for image in found.container.images)

    def _is_linked_with_others(self, found: FoundContainer) -> bool:
        if not self._is_linked or found.format != "cuda-fatbin":
            return False
        if self._prelinked is None:
            from fatpack import binary
            from fatpack.registration.stripped_programs import find_container_pointers

            pointers = find_container_pointers(
                self._view, self._host, list(binary.get_host(self._host).locate(self._view))
            )
            self._prelinked = prelinked_positions(pointers)
        return is_linked_together(found, self._view, self._prelinked)

    def _judged(self, found: FoundContainer, among: Collection[int] | None) -> Mapping[int, DeadImage]:
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


def _dead_of_openmp(
    containers: Sequence[tuple[FoundContainer, Collection[int] | None]],
) -> dict[int, Mapping[int, DeadImage]]:
    """Return the images that can never run of the containers of OpenMP in a file, by the start of each container.

    Of each only the images with the given numbers are left, None for all.
    """
    sections: dict[int | None, list[tuple[FoundContainer, int]]] = {}
    for found, among in sorted(containers, key=lambda item: item[0].container.span.start):
        numbers = range(len(found.container.images)) if among is None else sorted(among)
        sections.setdefault(found.index, []).extend(
            (found, number) for number in numbers if not _is_zeroed(found.container.images[number])
        )
    dead: dict[int, Mapping[int, DeadImage]] = {}
    for places in sections.values():
        images = [_candidate(found.container.images[number]) for found, number in places]
        for at, why in find_dead(images, "openmp", is_linked=True).items():
            found, number = places[at]
            start = found.container.span.start
            dead[start] = {**dead.get(start, {}), number: why}
    return dead


def _is_zeroed(image: Image) -> bool:
    """Return whether zeros are in the place of an image, which was slimmed away."""
    return image.compression is None and not any(image.data.head(0, 16)) and image.data.is_zero()


def prelinked_positions(pointers: ContainerPointers) -> frozenset[int]:
    """Return the positions of the containers that are linked with others when the program starts."""
    return frozenset(item.position for item in pointers.items if item.is_prelinked)


def is_linked_together(found: FoundContainer, view: View, prelinked: Collection[int]) -> bool:
    """Return whether a container is linked with others when the program in ``view`` starts."""
    return (found.section or "").startswith(_PRELINKED) or found.view.start - view.start in prelinked


def _living(found: FoundContainer, among: Collection[int], dead: Mapping[int, DeadImage]) -> frozenset[tuple[str, str]]:
    """Return the forms and architectures of the images of a container that are not dead."""
    return frozenset(_code(found, at) for at in among if at not in dead)


def _without(
    living: Collection[tuple[str, str]], found: FoundContainer, dead: Mapping[int, DeadImage]
) -> Mapping[int, DeadImage]:
    return {at: why for at, why in dead.items() if _code(found, at) not in living}


def _code(found: FoundContainer, at: int) -> tuple[str, str]:
    """Return the form and architecture of an image, which is compiled and linked with those of other containers."""
    one = _candidate(found.container.images[at])
    return ("ptx" if one.form == "relocatable-ptx" else one.form), one.arch


#: format → the runtime that selects from it
_OFFLOADS = {"cuda-fatbin": "cuda", "clang-offload-bundle": "hip"}


def _candidate(image: Image) -> CandidateImage:
    """Return an image as its container describes it: that alone is what runtimes select by."""
    form = image.attrs.get("kind") if image.form == "ptx" else None  # an entry of relocatable PTX is of this form too
    return CandidateImage(form or image.form, image.target.arch, image.target.triple)
