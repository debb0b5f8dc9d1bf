"""The images of offload binaries in a file, as the readers of LLVM find them; their room is loaded with the first."""

from __future__ import annotations

from fatpack import binary, magic_numbers
from fatpack.model import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Image

#: Hosts in which LLVM 22 and 23 find nothing, in whatever section.
_NOT_READ = ("macho", "universal")


def llvm_images(view: View, name: str, llvm: str) -> Iterator[tuple[Image, str]]:
    """Yield the images LLVM's extractor would find, in offload sections, in members, in a bare container, and the name
    of the file each lies in, which is ``name`` outside of archives.
    """
    if view.head(0, 4) == magic_numbers.OFFLOAD_BINARY:
        yield from _read(view, name, llvm)
        return
    host = binary.detect_host(view)
    if host is None or host in _NOT_READ:
        return
    for site in binary.get_host(host).locate(view):
        if isinstance(site, Finding) or site.expects == binary.RECORDS:
            continue
        if site.expects == binary.MEMBER:
            yield from llvm_images(site.data, site.member or name, llvm)
        elif (
            site.section is None
            or site.section.startswith(".llvm.offloading")
            or site.data.head(0, 4) == magic_numbers.OFFLOAD_BINARY
        ):
            yield from _read(site.data, name, llvm)


def _read(view: View, name: str, llvm: str) -> Iterator[tuple[Image, str]]:
    from fatpack.formats.offload_binary.llvm_reader import read_all

    yield from ((image, name) for image in read_all(view, llvm))
