"""PE images (``.exe``, ``.dll``): linked programs for Windows and UEFI. Device code can be removed from them.

::

    0x00       "MZ", …, at 0x3c the position P of the PE signature u32; then usually a DOS program
    P          "PE\0\0", then the file header of COFF objects, 20 bytes
    P + 0x18   optional header: magic u16 (0x10b: 32 bits, 0x20b: 64 bits), sizes and addresses, data directories
    ....       section headers, 40 bytes each; sizes in memory are exact, sizes in the file are rounded up
    ....       contents of the sections, each at a multiple of the file alignment; certificates of signed files last

Linkers cut section names to 8 bytes or less, so names are ambiguous, and the content is examined: LLVM's linker merges
``.llvm.offloading`` and the names of offload entries into ``.llvm``. A container starts with its magic at a multiple of
8.

==================  ===========  ===============
section in objects  by lld-link  by GNU ld
==================  ===========  ===============
.llvm.offloading    .llvm        .llvm.of
.hip_fatbin         .hip_fat     .hip_fat
.nv_fatbin          .nv_fatb     .nv_fatb
__nv_relfatbin      __nv_rel
.nvFatBinSegment    .nvFatBi
__nv_module_id      __nv_mod
==================  ===========  ===============

Sources: Microsoft's PE/COFF specification; names from output of lld-link 22 and GNU ld 2.40. Microsoft's linker was not
tested with long names.
"""

from __future__ import annotations

from fatpack.binary.coff.layout import pe_header_offset
from fatpack.binary.pe.reader import FORMAT, LAYOUTS, PeFile, divided_sections, locate, sections
from fatpack.errors import FormatError, HostError
from fatpack.layout import FormatInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from fatpack.binary.shrink import ShrinkMode, ShrinkRequest, ShrinkResult
    from fatpack.io.source import Piece, View
    from fatpack.model import Label


__all__ = [
    "DOC",
    "LAYOUTS",
    "detect",
    "divided_sections",
    "embed",
    "labels",
    "locate",
    "remove",
    "replace",
    "sections",
    "shrink",
]

DOC = FormatInfo(
    name=FORMAT,
    title="PE image",
    description="Programs and libraries for Windows and UEFI. Written by link, lld-link, GNU ld and rustc.",
    references=(
        "Microsoft PE and COFF specification",
        "lld/COFF/Writer.cpp, LLVM 22.1 (names of sections)",
    ),
    reads="32- and 64-bit images of any machine",
    writes="images with less device code",
    limitations=(
        "Device code can be removed from images (slim), but not added or replaced: no tool reads code added to "
        "one, and its addresses are part of the program. A signature is refused, or dropped on request.",
        "Device code is searched for in the sections that linkers name after it, from the first magic on, in sections "
        "whose names say nothing, and where the records of .nvFatBi point. SYCL images are listed where DPC++ puts "
        "them, not where LLVM does (.llvm.offloading).",
        "LLVM's own tools find nothing in linked images.",
    ),
)


def detect(view: View) -> bool:
    """Return whether the bytes start like DOS programs and lead to a PE signature."""
    return pe_header_offset(view) is not None


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: file and section headers field by field, everything else as a whole."""
    from fatpack.binary.pe import reader

    return reader.label_pe(view)


def embed(view: View, content: Sequence[Piece], *, name: str = "") -> Iterable[Piece]:
    """Raise HostError with an alternative."""
    raise _refusal(view, "no program and no tool looks for device code that was added to a linked image")


def replace(view: View, index: int, content: Sequence[Piece]) -> Iterable[Piece]:
    """Raise HostError with an alternative."""
    raise _refusal(view, "the sizes and addresses of its device code are part of the linked program")


def remove(view: View, indices: Sequence[int]) -> Iterable[Piece]:
    """Raise HostError with an alternative."""
    raise _refusal(view, "the program's start-up code registers the device code where the linker put it")


def edit(view: View, changes: Mapping[int, Sequence[Piece] | None]) -> Iterable[Piece]:
    """Raise HostError with an alternative."""
    return remove(view, list(changes))


def _refusal(view: View, reason: str) -> HostError:
    try:
        is_signed = any(PeFile(view).certificates())
    except FormatError:
        is_signed = False
    signed = ", and the image is signed" if is_signed else ""
    return HostError(
        f"PE images are not edited: {reason}{signed}",
        hint="edit the objects (.obj) or libraries and link again",
        chain=view.chain,
    )


def shrink(view: View, change: ShrinkRequest, *, mode: ShrinkMode = "auto") -> ShrinkResult:
    """Return an image with other bytes in loaded sections; see :func:`fatpack.binary.pe.shrinker.shrink_pe`."""
    from fatpack.binary.pe import shrinker

    return shrinker.shrink_pe(view, change, mode=mode)
