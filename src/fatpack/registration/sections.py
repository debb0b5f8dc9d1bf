"""What takes more than one section of a host to read: fat objects, SYCL's images, the records of CUDA and HIP."""

from __future__ import annotations

from fatpack import binary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from fatpack.assembled import CombinedContainer
    from fatpack.binary import CodeSection
    from fatpack.io.source import View
    from fatpack.model import Finding

#: How the sections with records are called, as far as PE images, which cut names, leave of it.
_CUDA, _HIP = ".nvFatBi", ".hipFatB"


def read_combined(
    view: View,
    host: str,
    sites: Sequence[CodeSection],
    starts: Mapping[str, Collection[int]],
    searched_ranges: Sequence[tuple[int, int]],
) -> Iterator[CombinedContainer | CodeSection | Finding]:
    """Yield the containers that sections of a host make together, and what is wrong with them.

    ``sites`` are all sections of images and tables, those with records somewhere, and such as may hold images without a
    container: those that hold none are yielded again, and so are places of containers that only records lead to.
    ``starts`` are, by format, the absolute offsets at which containers start elsewhere in the host; ``searched_ranges``
    those of the view that were searched already.
    """
    parts = [site for site in sites if site.expects == binary.IMAGE]
    tables = [site for site in sites if site.expects == binary.TABLE]
    records = [site for site in sites if site.expects == binary.RECORDS]
    others = [site for site in sites if site.expects not in (binary.IMAGE, binary.TABLE, binary.RECORDS)]
    if parts:
        from fatpack.registration import combine_sections

        yield from combine_sections.read_fat_object(view, host, parts, tables)
    if others or any(site.section == ".tgtimg" for site in tables):
        from fatpack.registration import sycl_containers

        yield from sycl_containers.sycl_containers(view, host, others, tables)
    if tables:
        # Objects have records of one model; the module for the other would only find that.
        if any(_CUDA in (site.section or "") for site in tables):
            from fatpack.registration import records as registration_records

            yield from registration_records.check_cuda_records(
                view, host, tables, starts.get("cuda-fatbin", ()), searched_ranges
            )
        if any(_HIP in (site.section or "") for site in tables):
            from fatpack.registration import hip

            yield from hip.check_hip_records(view, host, tables, starts.get("clang-offload-bundle", ()))
    if records:
        from fatpack.registration import without_sections

        yield from without_sections.containers_without_sections(view, records)
