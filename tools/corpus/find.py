"""The contents of a file as fatpack finds them, in the terms of the catalogue: sections, members, containers.

Sections come from the host modules' own tables. A new host module adds its function to ``TABLES``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fatpack import binary, formats
from fatpack.binary import CodeSection
from fatpack.binary.coff.reader import CoffObject
from fatpack.binary.elf.file import ElfFile
from fatpack.binary.pe.reader import UNINITIALIZED, PeFile
from fatpack.scanner import FoundContainer, detect_host, scan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import fatpack
    from fatpack.io.source import View
    from fatpack.model import Finding


#: Prefix of the bundle ID in the names of sections.
BUNDLE_PREFIX = "__CLANG_OFFLOAD_BUNDLE__"


@dataclass(frozen=True, slots=True)
class Section:
    """A section of an object: its name, and the absolute range of its bytes in the file."""

    name: str
    offset: int
    size: int


def _elf_sections(view: View) -> Iterator[Section]:
    elf = ElfFile(view)
    if not elf.section_count:
        return
    strings = elf.contents(elf.names_section())
    for section in elf.sections():
        yield Section(elf.string(strings, section.name_offset), view.offset(section.offset), section.size)


def _coff_sections(view: View) -> Iterator[Section]:
    coff = CoffObject(view)
    strings = coff.strings()
    for section in coff.sections():
        name = coff.name(section.stored_name, strings).decode("utf-8", "backslashreplace")
        yield Section(name, view.offset(section.raw_offset), section.raw_size)


def _pe_sections(view: View) -> Iterator[Section]:
    image = PeFile(view)
    for section in image.sections():
        size = 0 if section.flags & UNINITIALIZED else min(section.raw_size, section.virtual_size)
        name = image.name(section.stored_name).decode("utf-8", "backslashreplace")
        yield Section(name, view.offset(section.raw_offset), size)


#: host → its table of sections
TABLES: Mapping[str, Callable[[View], Iterator[Section]]] = {
    "elf": _elf_sections,
    "coff": _coff_sections,
    "pe": _pe_sections,
}


class Opened:
    """A file under comparison: the results of the host and format modules, each computed once."""

    def __init__(self, file: fatpack.File) -> None:
        self.file = file
        self.host = file.host
        self.members: list[CodeSection] = []
        self.sites: list[CodeSection] = []
        self.sections: list[Section] = []
        #: hosts among the file and its members whose other sections cannot be listed: only those of device code are
        self.hosts_without_table: set[str] = set()
        self._walk(file.view)

    def _walk(self, view: View) -> None:
        host = detect_host(view)
        if host == "raw":
            return
        sites = [place for place in binary.get_host(host).locate(view) if isinstance(place, CodeSection)]
        device = [site for site in sites if site.content not in ("member", "table")]
        self.sites += device
        if host in TABLES:
            self.sections += TABLES[host](view)
        elif host != "archive":
            self.hosts_without_table.add(host)
            self.sections += [Section(str(site.section), site.data.start, len(site.data)) for site in device]
        for site in sites:
            if site.content == "member":
                self.members.append(site)
                self._walk(site.data)

    def containers(self, format: str, *, nested: bool = False) -> list[FoundContainer]:
        """Return the containers of a format in file order; those inside images too if ``nested``."""
        found = _nested(self.file.containers) if nested else self.file.containers
        return [item for item in found if item.container.format == format]

    def bundle_sections(self) -> list[tuple[str, View]]:
        """Return name and bytes of every section that clang-offload-bundler or a linker wrapper named after a bundle.

        They come from the scan: the images of fat objects, and the sections of linked images as a whole.
        """
        found: list[tuple[str, View]] = []
        for item in self.containers("clang-offload-bundle"):
            if item.container.attrs.get("flavour") == "object":
                images = item.container.images
                found += [(f"{BUNDLE_PREFIX}{image.attrs['id']}", image.data) for image in images]
            elif item.container.attrs.get("flavour") == "linked" and (item.section or "").startswith(BUNDLE_PREFIX):
                found.append((str(item.section), item.view))
        return found

    def anywhere(self, format: str) -> int:
        """Return the number of containers of a format, also outside the sections for them: reads the whole file."""
        return sum(found.container.format == format for found in _nested(scan(self.file.view, deep=True)))

    def bare_format(self) -> str | None:
        """Return the format of a file without a host by its magic, None if it is unknown."""
        return formats.format_by_magic(self.file.view.head(0, 24))


def _nested(items: Iterable[FoundContainer | Finding]) -> Iterator[FoundContainer]:
    """Yield containers, and those inside their images after each."""
    for item in items:
        if isinstance(item, FoundContainer):
            yield item
            for image in item.images:
                yield from _nested(image.items)
