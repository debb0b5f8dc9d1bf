"""``.hipFatBinSegment``: the records with which HIP code registers its bundles, held against the bundles there are.

::

    0x00  magic 0x48495046 ("FPIH" in a dump)   0x04  version 1   0x08  pointer to the bundle   0x10  0

One record per translation unit, or one per unit that all point to one bundle (-fgpu-rdc). In objects of -fgpu-rdc the
bundle is an undefined symbol ``__hip_fatbin_<cuid>``: it comes with the link. (clang/lib/CodeGen/CGCUDANV.cpp,
LLVM 22.1; the second magic: kpack of TheRock, which moves device code into a separate archive.)
"""

from __future__ import annotations

from fatpack import formats
from fatpack.errors import FormatError
from fatpack.findings import finding
from fatpack.runtime.pointer import program

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.hosts import Site
    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.runtime.pointer import Pointer, Program

#: What linkers call the section: cut to 8 bytes in PE images.
NAMES = (".hipFatBinSegment", ".hipFatB")

_MAGIC, _KPACK = 0x48495046, 0x4B504948
_VERSION = 1

#: LIMIT: records that are read. The library with most bundles that is known to us has 845.
_MOST = 1 << 16

#: LIMIT: sections of records of one host. Linkers make one, and the relocations are read for each.
_MOST_TABLES = 64


def check(view: View, host: str, tables: Sequence[Site], bundles: Collection[int]) -> Iterator[Finding]:
    """Yield what is wrong with the records of a host. ``bundles`` are the absolute offsets at which bundles start.

    A host without records is none of our business here: its bundles may be registered in another way.
    """
    segments = [site for site in tables if site.section in NAMES]
    if not segments:
        return
    if len(segments) > _MOST_TABLES:
        text = f"{len(segments)} sections of records; only the first {_MOST_TABLES} are read"
        yield finding("FP3001", segments[_MOST_TABLES].data.span(), text)
        segments = segments[:_MOST_TABLES]
    try:
        reader = program(view, host)
    except FormatError as error:
        yield finding("FP3001", view.span(), error.describe(), error.hint)
        return
    pointed: set[int] = set()
    registered = unresolved = 0
    is_kpack = False
    for site in segments:
        offsets, kpacks, problems = _read(site, reader)
        yield from problems
        is_kpack = is_kpack or bool(kpacks)
        if kpacks:
            text = f"{len(kpacks)} of its records say that the device code was moved to a separate archive (kpack)"
            yield finding("FP3004", site.data.span(kpacks[0], _size(reader)), f"{site.section}: {text}")
        for at, pointer in zip(offsets, reader.pointers(site, [at + 8 for at in offsets]), strict=True):
            registered += pointer.kind != "undefined"
            unresolved += pointer.kind == "unknown"
            start = view.start + pointer.position
            problem = _problem(view, pointer, start, bundles)
            if problem:
                text = f"record {at // _size(reader)} of {site.section} {problem}"
                yield finding("FP3003", site.data.span(at, _size(reader)), text)
            elif pointer.kind == "inside":
                pointed.add(start)
    lost = sorted(set(bundles) - pointed)
    if is_kpack or not lost or (unresolved and registered >= len(bundles)):
        return
    where = ", ".join(f"{start:#x}" for start in lost[:4])
    more = f" and {len(lost) - 4} more" if len(lost) > 4 else ""
    text = f"of {len(bundles)} bundles no record registers {len(lost)}: {where}{more}"
    if unresolved:
        text = f"{len(bundles)} bundles are there, and records for {registered}"
    yield finding("FP3002", segments[0].data.span(), text, "the HIP runtime does not see what is not registered")


def _size(reader: Program) -> int:
    return 8 + 2 * reader.word


def _read(site: Site, reader: Program) -> tuple[list[int], list[int], list[Finding]]:
    """Return where the records in order are, those of moved device code, and what is wrong with the others."""
    data, size = site.data, _size(reader)
    count, rest = divmod(len(data), size)
    good, kpacks, problems = [], [], []
    if count > _MOST:
        problems.append(finding("FP3001", data.span(), f"{count} records; only the first {_MOST} are read"))
        count, rest = _MOST, 0
    for at in range(0, count * size, size):
        head = data.read(at, size)
        magic, version = (int.from_bytes(head[place : place + 4], reader.order) for place in (0, 4))  # type: ignore[arg-type]
        name = f"record {at // size} of {site.section}"
        if magic == _KPACK:
            kpacks.append(at)
        elif magic != _MAGIC:
            # Linkers for Windows pad between the sections of objects.
            if any(head):
                text = f"{name} has magic {magic:#010x}, {_MAGIC:#010x} was expected"
                problems.append(finding("FP3001", data.span(at, size), text))
        else:
            if version != _VERSION:
                text = f"{name} is of version {version}, {_VERSION} is known"
                problems.append(finding("FP3001", data.span(at, size), text))
            good.append(at)
    if rest and any(data.head(count * size, rest)):
        text = f"{rest} bytes of {site.section} are no whole record"
        problems.append(finding("FP3001", data.span(count * size, rest), text))
    return good, kpacks, problems


def _problem(view: View, pointer: Pointer, start: int, bundles: Collection[int]) -> str:
    """Return what is wrong with where a record points, "" if nothing is."""
    if pointer.kind == "null":
        return "points nowhere"
    if pointer.kind == "outside":
        return f"points to {pointer.address:#x}, where the file has no bytes"
    if pointer.kind != "inside" or start in bundles:
        return ""
    head = view.head(pointer.position, 24)
    # A damaged bundle was told already. The runtime takes code objects as they are, too.
    if formats.sniff(head) or head.startswith(b"\x7fELF"):
        return ""
    return f"points to {start:#x}, where no bundle starts"
