"""Wrappers: the records by which CUDA and HIP code registers the container that a unit of code carries.

::

    0x00  magic u32   0x04  version u32   0x08  pointer to the container   0x10  pointer, whose meaning the version says

They follow each other in a section, one per translation unit (clang/lib/CodeGen/CGCUDANV.cpp, LLVM 22.1, for both
models; nvcc's ``fatbinary_section.h``). On 32-bit hosts pointers take 4 bytes.
"""

from __future__ import annotations

from fatpack.findings import finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from fatpack.hosts import Site
    from fatpack.model import Finding, Span
    from fatpack.runtime.pointers.pointer import Pointer, Program

#: LIMIT: records that are read. The library with most bundles that is known to us has 845.
_MOST = 1 << 16

#: LIMIT: sections of records of one host. Linkers make one, and the relocations are read for each.
_MOST_TABLES = 64


class Wrapper(Record):
    """A record and what its pointer leads to.

    ``at`` is its position in the section, ``span`` where it lies, ``title`` what findings call it.
    """

    at: int
    span: Span
    title: str
    magic: int
    version: int
    pointer: Pointer


def size(reader: Program) -> int:
    """Return the bytes of a record."""
    return 8 + 2 * reader.word


def segments(tables: Sequence[Site], names: Collection[str]) -> tuple[list[Site], list[Finding]]:
    """Return the sections of records with one of the names, and the finding that there are too many.

    What follows a ``$`` in a name only sorts the sections of COFF objects.
    """
    found = [site for site in tables if (site.section or "").partition("$")[0] in names]
    if len(found) <= _MOST_TABLES:
        return found, []
    text = f"{len(found)} sections of records; only the first {_MOST_TABLES} are read"
    return found[:_MOST_TABLES], [finding("FP1005", found[_MOST_TABLES].data.span(), text)]


def read(
    site: Site, reader: Program, magics: Mapping[int, Collection[int]], code: str
) -> tuple[list[Wrapper], list[Finding]]:
    """Return the records of a section that have one of the magics, in order, and what is wrong with the others.

    ``magics`` has the versions that are known of each, none where the version does not matter; findings have ``code``.
    """
    data, step = site.data, size(reader)
    count, rest = divmod(len(data), step)
    heads: list[tuple[int, int, int]] = []
    problems: list[Finding] = []
    if count > _MOST:
        problems.append(finding("FP1005", data.span(), f"{count} records; only the first {_MOST} are read"))
        count, rest = _MOST, 0
    expected = next(iter(magics))
    for at in range(0, count * step, step):
        head = data.read(at, step)
        magic, version = (int.from_bytes(head[place : place + 4], reader.order) for place in (0, 4))  # type: ignore[arg-type]
        name = _title(site, at, step)
        if magic not in magics:
            # Linkers for Windows pad between the sections of objects.
            if any(head):
                text = f"{name} has magic {magic:#010x}, {expected:#010x} was expected"
                problems.append(finding(code, data.span(at, step), text))
            continue
        versions = magics[magic]
        if versions and version not in versions:
            known = " and ".join(map(str, versions))
            text = f"{name} is of version {version}, {known} {'is' if len(versions) == 1 else 'are'} known"
            problems.append(finding(code, data.span(at, step), text))
        heads.append((at, magic, version))
    if rest and any(data.head(count * step, rest)):
        text = f"{rest} bytes of {site.section} are no whole record"
        problems.append(finding(code, data.span(count * step, rest), text))
    pointers = reader.pointers(site, [at + 8 for at, _, _ in heads])
    wrappers = [
        Wrapper(at, data.span(at, step), _title(site, at, step), magic, version, pointer)
        for (at, magic, version), pointer in zip(heads, pointers, strict=True)
    ]
    return wrappers, problems


def _title(site: Site, at: int, step: int) -> str:
    return f"record {at // step} of {site.section}"


#: What it means that a container is in a program and no record leads to it.
UNREGISTERED_HINT = "the runtime does not load it, so its kernels cannot be launched; compile and link again"


def unregistered(lost: Collection[int], count: int, what: str) -> str:
    """Return the words for containers that no record registers, of ``count``: where some of them start."""
    where = ", ".join(f"{start:#x}" for start in sorted(lost)[:4])
    more = f" and {len(lost) - 4} more" if len(lost) > 4 else ""
    verb = "is" if len(lost) == 1 else "are"
    return f"{len(lost)} of {count} {what} {verb} not registered: no record points to {where}{more}"
