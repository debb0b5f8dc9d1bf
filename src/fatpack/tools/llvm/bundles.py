"""The bundles in the sections of an object, whose entries both readers list: what HIP registers."""

from __future__ import annotations

from fatpack import binary, magic_numbers
from fatpack.binary import MEMBER, RECORDS
from fatpack.errors import FormatError, HostError, Unsupported
from fatpack.model import Finding
from fatpack.tools.llvm.failure import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.scanner.results import FoundContainer
    from fatpack.tools.llvm.object_files import ObjectFile

_MAGICS = (magic_numbers.BUNDLE, magic_numbers.COMPRESSED_BUNDLE)


def read_bundles(item: ObjectFile) -> Iterator[FoundContainer]:
    """Yield the bundles in sections that begin with one, in file order. Raises Failure for damage."""
    what = f"'{item.shown}': while extracting offload FatBin bundles: "
    try:
        for site in binary.get_host(item.host).locate(item.view):
            if isinstance(site, Finding) or site.expects in (MEMBER, RECORDS):
                continue
            if site.data.head(0, len(magic_numbers.BUNDLE)).startswith(_MAGICS):
                from fatpack.scanner import FoundContainer, scan

                for found in scan(site.data, judges=False, recognises=False):
                    if isinstance(found, FoundContainer):
                        yield found
                    elif found.severity == "error":
                        raise ToolError(f"{what}{found.text} (at {found.span.start:#x})")
    except (FormatError, HostError, Unsupported) as error:
        raise ToolError(f"{what}{error}") from error
