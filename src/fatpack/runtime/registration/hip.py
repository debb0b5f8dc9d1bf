"""``.hipFatBinSegment``: the records with which HIP code registers its bundles, held against the bundles there are.

::

    0x00  magic 0x48495046 ("FPIH" in a dump)   0x04  version 1   0x08  pointer to the bundle   0x10  0

One record per translation unit, or one per unit that all point to one bundle (-fgpu-rdc). In objects of -fgpu-rdc the
bundle is an undefined symbol ``__hip_fatbin_<cuid>``: it comes with the link. (clang/lib/CodeGen/CGCUDANV.cpp,
LLVM 22.1; the second magic: kpack of TheRock, which moves device code into a separate archive.)
"""

from __future__ import annotations

from fatpack import formats, magics
from fatpack.errors import FormatError
from fatpack.findings import finding
from fatpack.runtime.pointers.open import program
from fatpack.runtime.pointers.pointer import INSIDE, NULL, OUTSIDE, UNDEFINED, UNKNOWN
from fatpack.runtime.registration import wrapper

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.hosts import Site
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.runtime.pointers.pointer import Pointer

#: What linkers call the section: cut to 8 bytes in PE images.
NAMES = (".hipFatBinSegment", ".hipFatB")

MAGIC, _KPACK = 0x48495046, 0x4B504948
_VERSION = 1


def check(view: View, host: str, tables: Sequence[Site], bundles: Collection[int]) -> Iterator[Finding]:
    """Yield what is wrong with the records of a host. ``bundles`` are the absolute offsets at which bundles start.

    A host without records is none of our business here: its bundles may be registered in another way.
    """
    segments, problems = wrapper.segments(tables, NAMES)
    if not segments:
        return
    yield from problems
    try:
        reader = program(view, host)
    except FormatError as error:
        yield finding("FP3001", view.span(), error.describe(), error.hint)
        return
    pointed: set[int] = set()
    registered = unresolved = 0
    is_kpack = False
    for site in segments:
        found, problems = wrapper.read(site, reader, {MAGIC: (_VERSION,), _KPACK: ()}, "FP3001")
        yield from problems
        kpacks = [record for record in found if record.magic == _KPACK]
        is_kpack = is_kpack or bool(kpacks)
        if kpacks:
            text = f"{len(kpacks)} of its records say that the device code was moved to a separate archive (kpack)"
            yield finding("FP3004", kpacks[0].span, f"{site.section}: {text}")
        for record in found:
            pointer = record.pointer
            if record.magic == _KPACK:
                continue
            registered += pointer.kind != UNDEFINED
            unresolved += pointer.kind == UNKNOWN
            start = view.start + pointer.position
            problem = _problem(view, pointer, start, bundles)
            if problem:
                yield finding("FP3003", record.span, f"{record.title} {problem}")
            elif pointer.kind == INSIDE:
                pointed.add(start)
    lost = set(bundles) - pointed
    if is_kpack or not lost or (unresolved and registered >= len(bundles)):
        return
    text = wrapper.unregistered(lost, len(bundles), "bundles")
    if unresolved:
        text = f"{len(bundles)} bundles are here, and records register {registered}"
    yield finding("FP3002", segments[0].data.span(), text, wrapper.UNREGISTERED_HINT)


def _problem(view: View, pointer: Pointer, start: int, bundles: Collection[int]) -> str:
    """Return what is wrong with where a record points, "" if nothing is."""
    if pointer.kind == NULL:
        return "points nowhere"
    if pointer.kind == OUTSIDE:
        return f"points to {pointer.address:#x}, where the file has no bytes"
    if pointer.kind != INSIDE or start in bundles:
        return ""
    head = view.head(pointer.position, 24)
    # A damaged bundle was told already. The runtime takes code objects as they are, too.
    if formats.sniff(head) or head.startswith(magics.ELF):
        return ""
    return f"points to {start:#x}, where no bundle starts"
