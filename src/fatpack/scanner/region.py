"""The containers of one region of bytes, which follow each other, with padding or rubbish between."""

from __future__ import annotations

from fatpack import formats
from fatpack.binary.elf import quick_header
from fatpack.errors import FormatError, Unsupported, cli_or_api
from fatpack.findings import finding
from fatpack.model import Finding
from fatpack.scanner.results import FoundContainer, finding_from_error, identify_images

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.binary import CodeSection
    from fatpack.io.source import View
    from fatpack.model import Container
    from fatpack.scanner.carve import MagicSearcher
    from fatpack.scanner.context import ScanContext
    from fatpack.scanner.results import EnterCallback


_OFFLOAD_BINARY = "llvm-offload-binary"

#: e_type of what linkers take
_RELOCATABLE = 1


def scan_region(site: CodeSection, visit: ScanContext, enter: EnterCallback) -> Iterator[FoundContainer | Finding]:
    """Yield the containers of a region, with their images recognised, and a finding for everything wrong.

    ``visit`` says which file the region is in; ``enter`` walks what images hold.
    """
    section = site.section
    items = _containers(site, visit, enter)
    for item in _with_refusal(items, site) if _is_offloading(site, visit) else items:
        if section and isinstance(item, Finding) and not item.section:
            yield item.replace(section=section)
        else:
            yield item


def _is_offloading(site: CodeSection, visit: ScanContext) -> bool:
    """Return whether a place is a section of an object in which clang-linker-wrapper looks for offload binaries.

    By its type in ELF, by its name in COFF and bitcode; in linked files it looks for none.
    """
    if not (site.section or "").startswith(".llvm.offloading") or any(item.code == "FP2001" for item in site.findings):
        return False
    return visit.host in ("coff", "bitcode") or (
        visit.host == "elf" and quick_header.read_file_type(visit.view) == _RELOCATABLE
    )


def _with_refusal(items: Iterator[FoundContainer | Finding], site: CodeSection) -> Iterator[FoundContainer | Finding]:
    """Yield what a section for offload binaries holds, and a warning if LLVM's reader refuses all of it for that.

    Damage and bytes that are no container have findings of their own.
    """
    others: dict[str, None] = {}
    is_empty = True
    for item in items:
        is_empty = False
        if isinstance(item, FoundContainer) and item.format != _OFFLOAD_BINARY:
            others[item.format] = None
        yield item
    if others or (is_empty and len(site.data)):
        what = ", ".join(others) or f"{len(site.data)} zero bytes"
        text = f"{what} in a section for offload binaries: clang-linker-wrapper refuses the object"
        hint = f"{cli_or_api('fatpack convert', 'fatpack.convert')} makes offload binaries of images" if others else ""
        yield finding("FP1010", site.data.span(), text, hint)


def _containers(site: CodeSection, visit: ScanContext, enter: EnterCallback) -> Iterator[FoundContainer | Finding]:
    view, host, member, numbers = site.data, visit.host, visit.member, visit.numbers
    magics: MagicSearcher | None = None
    unread: set[str] = set()
    at, total, last, is_damaged = 0, len(view), "", False
    while at < total:
        name = formats.format_at(view, at) or (formats.find_text_format(view) if at == 0 else None)
        if name is None:
            # Zeros start no container: most containers are found behind them, without a search for every magic.
            following = view.skip_zeros(at)
            is_unexpected = following == total
            if not is_unexpected and formats.format_by_magic(view.head(following, 24)) is None:
                magics = magics or _next_magic(view)
                following, is_unexpected = magics.after(following), True
            if len(view) - following >= 4 and site.expects != "mixed":
                yield from _zeros_before(view, at, following, last)
            # What is left of a damaged container was reported with its damage.
            if is_unexpected and site.expects != "mixed" and not is_damaged:
                yield from _gap(view, at, following, last, host)
            at = following
            continue
        if name not in formats.MODULES:
            if name not in unread:
                unread.add(name)
                yield finding("FP1008", view.span(at), f"{name}: this version does not read these")
            # How far it reaches is unknown too, so the next magic behind its own is where the walk goes on.
            magics = magics or _next_magic(view)
            at = magics.after(at + 4)
            continue
        room = formats.get_format(name)
        try:
            container = room.parse(view, at)
        except (FormatError, Unsupported) as error:
            extent = room.extent(view, at)
            yield finding_from_error(error, view.span(at, min(extent or 4, len(view) - at)))
            magics = magics or _next_magic(view)
            at = at + extent if extent else magics.after(at + 4)
            continue
        stored = view.slice(at, container.span.size)
        inside = identify_images(container.images, enter if visit.progress.recognises else None)
        yield FoundContainer(container, stored, host, site.section, member, site.index, inside, numbers)
        last, is_damaged = container.format, False
        if container.findings:
            yield from container.findings
            is_damaged = any(item.severity == "error" for item in container.findings)
        at = _end_of(view, container) if container.unknown else container.span.end - view.start


def _next_magic(view: View) -> MagicSearcher:
    from fatpack.scanner.carve import MagicSearcher  # nearly all regions hold containers and nothing else

    return MagicSearcher(view)


def _end_of(view: View, container: Container) -> int:
    from fatpack.scanner.carve import resume_position

    return resume_position(view, container)


def _zeros_before(view: View, start: int, end: int, last: str) -> Iterator[Finding]:
    """Yield a warning for zeros in front of an offload binary, where LLVM expects one.

    Behind another one fewer than 8 are its padding.
    """
    if formats.format_by_magic(view.head(end, 4)) != _OFFLOAD_BINARY or not view.is_zero(start, end - start):
        return
    if start == 0 or (last == _OFFLOAD_BINARY and end - start >= 8):
        where = "before" if start == 0 else "between"
        yield finding("FP1007", view.span(start, end - start), f"{end - start} zero bytes {where} offload binaries")


def _gap(view: View, start: int, end: int, last: str, host: str) -> Iterator[Finding]:
    """Yield what is unexpected about bytes that no container starts with; ``last`` is the format before them."""
    gap = view.slice(start, end - start)
    if not gap.is_zero():
        yield finding("FP1002", gap.span(), f"{len(gap)} bytes that are no container")
    elif end == len(view) and len(gap) >= 8 and last == _OFFLOAD_BINARY:
        # Behind other containers zeros are usual; fewer than 8 round a compressed binary, whose size leaves them out.
        yield finding("FP1003", gap.span(), f"{len(gap)} zero bytes at the end")
    elif end == len(view) and len(gap) >= 16 and last == "cuda-fatbin" and host == "raw":
        # cuobjdump takes what is as long as a header for one; in sections it skips zeros.
        yield finding("FP1410", gap.span(), f"{len(gap)} zero bytes behind the last fat binary of the file")
