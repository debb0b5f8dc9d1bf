"""``.hipFatBinSegment``: the records with which HIP code registers its bundles, compared with the bundles there are.

::

    0x00  magic 0x48495046 ("FPIH" in a dump)   0x04  version 1   0x08  pointer to the bundle   0x10  0

One record per translation unit, or one per unit that all point to one bundle (-fgpu-rdc). In objects of -fgpu-rdc the
bundle is an undefined symbol ``__hip_fatbin_<cuid>``: it comes with the link. (clang/lib/CodeGen/CGCUDANV.cpp,
LLVM 22.1; the second magic: kpack of TheRock, which moves device code into separate archives, and for which the last
field is a number: :mod:`fatpack.registration.kpack_marker`.)
"""

from __future__ import annotations

from fatpack import binary, formats, magic_numbers
from fatpack.binary.open import HOSTS
from fatpack.findings import finding
from fatpack.model import Finding
from fatpack.registration import kpack_marker, registration_records

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from fatpack.binary import CodeSection
    from fatpack.io.source import View
    from fatpack.registration.kpack_marker import KpackMarker

#: What linkers call the section: cut to 8 bytes in PE images.
HIP_NAMES = (".hipFatBinSegment", ".hipFatB")

HIP_MAGIC = int.from_bytes(magic_numbers.HIP_WRAPPER, "little")
_HIP_VERSION = 1


#: What HIP's records have.
HIP_MODEL = registration_records.RecordModel(
    names=HIP_NAMES,
    versions={HIP_MAGIC: (_HIP_VERSION,), kpack_marker.MAGIC: (_HIP_VERSION,)},
    container="bundle",
    containers="bundles",
    wrong="FP3001",
    leads="FP3003",
    unregistered="FP3002",
)


def check_hip_records(
    view: View, host: str, tables: Sequence[CodeSection], bundles: Collection[int]
) -> Iterator[Finding]:
    """Yield what is wrong with the records of a host. ``bundles`` are the absolute offsets at which bundles start.

    A host without records is none of our business here: its bundles may be registered in another way.
    """
    registrations = registration_records.ContainerRegistrations(
        view, HIP_MODEL, bundles, lambda position: _may_start(view, position)
    )
    first = None
    is_kpack = False
    for segment in registration_records.find_record_sections(view, host, tables, HIP_MODEL):
        if isinstance(segment, Finding):
            yield segment
            continue
        first = first or segment.site
        kpacks = [record for record in segment.records if record.magic == kpack_marker.MAGIC]
        is_kpack = is_kpack or bool(kpacks)
        if kpacks:
            text = f"{len(kpacks)} of its records say that the device code was moved to a separate archive (kpack)"
            yield finding("FP3004", kpacks[0].span, f"{segment.site.section}: {text}")
            yield from (item for item in kpack_marker.read_markers(view, segment) if isinstance(item, Finding))
        for record in segment.records:
            if record.magic != kpack_marker.MAGIC:
                yield from registrations.follow(record.pointer, record.span, record.title)
    if first is not None and not is_kpack:
        yield from registrations.missing(first, registrations.unregistered)


def kpack_markers(view: View, host: str) -> Iterator[KpackMarker | Finding]:
    """Yield what the records of a host say of code objects in kpack archives, and what is wrong with these records.

    Of a program whose records lead to bundles there is nothing to yield. Raises FormatError as locating its sections
    does.
    """
    if host not in HOSTS:
        return
    places = binary.get_host(host).locate(view)
    tables = [site for site in places if not isinstance(site, Finding) and site.expects == binary.TABLE]
    for segment in registration_records.find_record_sections(view, host, tables, HIP_MODEL):
        if isinstance(segment, Finding):
            yield segment
        else:
            yield from kpack_marker.read_markers(view, segment)


def _may_start(view: View, position: int) -> bool:
    """Return whether what a record points to may be a bundle: a damaged one was reported already.

    The runtime takes code objects as they are, too.
    """
    head = view.head(position, 24)
    return bool(formats.format_by_magic(head)) or head.startswith(magic_numbers.ELF)
