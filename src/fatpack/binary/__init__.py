"""Hosts: the files that contain containers. There is one package or module per kind, all with the same interface.

=========== ==========================================================================================
``DOC``     description of the host (:class:`fatpack.layout.FormatInfo`)
``detect``  ``detect(view) -> bool``: cheap, reads a bounded number of bytes, never raises
``locate``  ``locate(view) -> Iterator[CodeSection | Finding]``: sections that may contain device code
``labels``  ``labels(view) -> Iterator[Label]``: a byte map that covers every byte once
``embed``   ``embed(view, content, name=…) -> Iterable[Piece]``: the host with a container added
``replace`` ``replace(view, index, content) -> Iterable[Piece]``: one section's content replaced
``remove``  ``remove(view, indices) -> Iterable[Piece]``: sections of device code removed
``edit``    ``edit(view, {index: content or None}) -> Iterable[Piece]``: several replaced and removed at once
``verify``  ``verify(before, after)``: raises HostError unless ``after`` is a valid edit of ``before``
``grow``    ``grow(view, content, name=…) -> Iterable[Piece]``: ``embed`` by appending only; optional
``shrink``  ``shrink(view, change, mode=…) -> ShrinkResult``: loaded sections with fewer bytes; optional
``rewrite`` ``rewrite(view, {number: content}) -> Sequence[Piece]``: other contents of members; if there are any
``check``   ``check(view) -> Iterator[int | Finding]``: checks tables, and counts their names; optional
=========== ==========================================================================================

A host knows no format of containers: it finds sections, and ``fatpack.scanner`` reads their content. Editors return
pieces (bytes and views of the input) and write nothing. A host that cannot be edited has ``REFUSAL`` instead: the
reason and an alternative.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import HostError
from fatpack.findings import finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import ModuleType
    from typing import Any, Literal, Protocol, TypeAlias

    from fatpack.binary.host_sections import SectionSplit
    from fatpack.binary.shrink import ShrinkMode, ShrinkRequest, ShrinkResult
    from fatpack.io.source import Piece, View
    from fatpack.layout import FormatInfo
    from fatpack.model import Finding, Label

    SectionContent: TypeAlias = Literal["container", "mixed", "image", "images", "member", "table", "records"]

    class Host(Protocol):
        """The interface of every host."""

        DOC: FormatInfo

        def detect(self, view: View) -> bool: ...  # noqa: D102
        def locate(self, view: View) -> Iterator[CodeSection | Finding]: ...  # noqa: D102
        def labels(self, view: View) -> Iterator[Label]: ...  # noqa: D102

    class Editor(Host, Protocol):
        """The interface of hosts that can be edited."""

        def embed(self, view: View, content: Sequence[Piece], *, name: str = ...) -> Iterable[Piece]: ...  # noqa: D102
        def replace(self, view: View, index: int, content: Sequence[Piece]) -> Iterable[Piece]: ...  # noqa: D102
        def remove(self, view: View, indices: Sequence[int]) -> Iterable[Piece]: ...  # noqa: D102
        def edit(self, view: View, changes: Mapping[int, Sequence[Piece] | None]) -> Iterable[Piece]: ...  # noqa: D102
        def verify(self, before: View, after: View) -> None: ...  # noqa: D102

    class Grower(Protocol):
        """The interface of hosts that can be edited in place without a copy."""

        def grow(self, view: View, content: Sequence[Piece], *, name: str) -> list[Piece]: ...  # noqa: D102

    class Shrinker(Protocol):
        """The interface of hosts whose linked files can lose loaded bytes; raises HostError with an alternative."""

        def shrink(self, view: View, change: ShrinkRequest, *, mode: ShrinkMode = ...) -> ShrinkResult: ...  # noqa: D102

    class SectionReader(Protocol):
        """The interface of hosts with sections; only those with ``divides_sections`` have ``divided_sections``."""

        def sections(self, view: View) -> list[tuple[int, int, str, int]]: ...  # noqa: D102
        def divided_sections(self, view: View, places: Any = None) -> SectionSplit: ...  # noqa: D102

    class UneditableHost(Host, Protocol):
        """The interface of hosts that cannot be edited: the reason, and an alternative."""

        REFUSAL: tuple[str, str]

    class Checker(Protocol):
        """The interface of hosts whose tables can be checked: findings, then the number of names."""

        def check(self, view: View) -> Iterator[int | Finding]: ...  # noqa: D102

    class Rewriter(Host, Protocol):
        """The interface of hosts with members: replaces the contents of some, or raises HostError."""

        def rewrite(self, view: View, contents: Mapping[int, Sequence[Piece]]) -> Sequence[Piece]: ...  # noqa: D102

    class Objcopy(Protocol):
        """The interface of hosts from which fat objects are made."""

        def add_sections(self, view: View, additions: Sequence[tuple[str, Sequence[Piece]]]) -> list[Piece]: ...  # noqa: D102
        def remove_sections(self, view: View, prefix: str) -> list[Piece]: ...  # noqa: D102


#: the section has only containers
CONTAINER: SectionContent = "container"
#: the section has other data between the containers
MIXED: SectionContent = "mixed"
#: the section is one image of a fat object, for the target in the section's name
IMAGE: SectionContent = "image"
#: the section has the images of a linked program, one after the other; a table elsewhere describes them
IMAGES: SectionContent = "images"
#: the section is a file, to be read as a host or container
MEMBER: SectionContent = "member"
#: the section describes device code that is elsewhere
TABLE: SectionContent = "table"
#: the section is data of a program that may include records that point to containers
RECORDS: SectionContent = "records"


class CodeSection(Record):
    """A range of a host that contains device code, or may contain it.

    ``data`` are the bytes. ``section`` is the section's name and ``index`` its number in the host's table, or the
    number of a member of an archive (None if there is neither). ``member`` is the name of the archive member, if any.
    ``content`` is one of the seven constants above this class. ``findings`` are about the section itself.
    """

    data: View
    section: str | None = None
    index: int | None = None
    member: str | None = None
    content: SectionContent = CONTAINER
    findings: tuple[Finding, ...] = ()

    @property
    def number(self) -> int:
        """The ``index``, by which edits address the section. Raises HostError if it has none."""
        if self.index is None:
            raise HostError("this place has no number in a table of the host", chain=self.data.chain)
        return self.index


def without_overlaps(places: Sequence[CodeSection | Finding]) -> Iterator[CodeSection | Finding]:
    """Yield sections and findings in their order; a section that overlaps an earlier one becomes a finding.

    Only hostile files have such sections; thousands over the same bytes would be read as often.
    """
    owners: dict[int, CodeSection] = {}
    last = None
    sites = [(number, place) for number, place in enumerate(places) if isinstance(place, CodeSection)]
    for number, site in sorted(sites, key=lambda pair: pair[1].data.start):
        if last is not None and site.data.start < last.data.end:
            owners[number] = last
        else:
            last = site
    for number, place in enumerate(places):
        if isinstance(place, CodeSection) and number in owners:
            owner = owners[number]
            text = f"section {place.index} ({place.section}) overlaps section {owner.index}: not read again"
            yield finding("FP1203", place.data.span(), text)
        else:
            yield place


class HostModule(Record):
    """The ``module`` of a host, and the optional parts of the interface that it has.

    ``starts``: first bytes of its files; only modules without them are imported to detect any other file. ``edits``:
    embed, replace, remove and edit; a module without them has ``REFUSAL``, unless its files are archives. ``verifies``:
    verify. ``grows``: grow. ``shrinks``: shrink. ``has_sections``: sections. ``divides_sections``: divided_sections,
    which is better or faster than splitting the result of sections. ``has_members``: its sections are files, which
    addresses name in parentheses; then it has rewrite. ``checks``: check. ``objcopy``: the module that adds and removes
    sections byte for byte like llvm-objcopy, "" if there is none.
    """

    module: str
    starts: tuple[bytes, ...] = ()
    edits: bool = False
    verifies: bool = False
    grows: bool = False
    shrinks: bool = False
    has_sections: bool = False
    divides_sections: bool = False
    has_members: bool = False
    checks: bool = False
    objcopy: str = ""


#: JSON name of the host → its module, in the order of detection
MODULES = {
    "elf": HostModule(
        "fatpack.binary.elf",
        (magic_numbers.ELF,),
        edits=True,
        verifies=True,
        grows=True,
        shrinks=True,
        has_sections=True,
        divides_sections=True,
        objcopy="fatpack.binary.elf.objcopy",
    ),
    "archive": HostModule(
        "fatpack.binary.archive", magic_numbers.ARCHIVES, verifies=True, has_members=True, checks=True
    ),
    "pe": HostModule(
        "fatpack.binary.pe",
        (magic_numbers.DOS,),
        edits=True,
        shrinks=True,
        has_sections=True,
        divides_sections=True,
        objcopy="fatpack.binary.coff.objcopy",
    ),
    "bitcode": HostModule("fatpack.binary.bitcode", (magic_numbers.BITCODE, magic_numbers.WRAPPED_BITCODE), edits=True),
    "macho": HostModule("fatpack.binary.macho", magic_numbers.MACH_O, has_sections=True, divides_sections=True),
    "universal": HostModule(
        "fatpack.binary.macho.universal",
        (magic_numbers.UNIVERSAL_MACH_O, magic_numbers.UNIVERSAL_MACH_O_64, *magic_numbers.UNIVERSAL_METAL),
        has_members=True,
    ),
    "coff": HostModule(
        "fatpack.binary.coff", edits=True, verifies=True, has_sections=True, objcopy="fatpack.binary.coff.objcopy"
    ),
}

#: number of first bytes used for detection; plug-ins have no longer starts (``fatpack.plugins.MAX_MAGIC``)
_LONGEST_START = 24


def get_objcopy(name: str) -> Objcopy:
    """Return the module that rewrites whole files like llvm-objcopy 22. Raises HostError for other hosts.

    Fat objects are made this way. ``edit`` leaves other sections in place, which llvm-objcopy does not.
    """
    module = MODULES[name].objcopy if name in MODULES else ""
    if not module:
        hint = "give an ELF or COFF object, or a PE image"
        raise HostError(f"sections cannot be added to a host of kind {name}", hint=hint)
    return __import__(module, fromlist=["add_sections"])


def sections(name: str, view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section with bytes in the file; none for hosts without sections.

    Positions are relative to the view. Of a damaged host, returns the readable ones.
    """
    return _get_section_reader(name).sections(view) if name in MODULES and MODULES[name].has_sections else []


def divided_sections(name: str, view: View, places: Iterator[CodeSection | Finding] | None = None) -> SectionSplit:
    """Return the sections with bytes in the file, split into known ones of compilers and linkers, and others.

    ``places`` is the result of ``locate`` for the view, if there is one: it may contain the sections already. Of a
    damaged host, returns the readable ones.
    """
    if name in MODULES and MODULES[name].divides_sections:
        return _get_section_reader(name).divided_sections(view, places)
    from fatpack.binary.host_sections import split_sections

    return split_sections(sections(name, view))


#: names of the plug-ins that were added, once they were loaded
_plugin_names: list[tuple[str, ...]] = []


def add_plugins() -> bool:
    """Add the hosts of plug-ins (:mod:`fatpack.plugins`); return whether any were added.

    Plug-ins are loaded only once, for the first file that no built-in host detects.
    """
    if _plugin_names:
        return False
    _plugin_names.append(())
    from fatpack import plugins

    starts = [start for module in MODULES.values() for start in module.starts]
    for plugin in plugins.load_plugins(plugins.HOSTS, MODULES, (*starts, *magic_numbers.PACKAGES)):
        MODULES[plugin.name] = HostModule(
            plugin.module.__name__,
            plugin.begins,
            edits=all(hasattr(plugin.module, part) for part in ("embed", "replace", "remove", "edit")),
            verifies=hasattr(plugin.module, "verify"),
            has_sections=hasattr(plugin.module, "sections"),
            has_members=hasattr(plugin.module, "rewrite"),
        )
        _LOADED[plugin.name] = plugin.module
        _plugin_names[0] += (plugin.name,)
    return bool(_plugin_names[0])


def detect_host(view: View) -> str | None:
    """Return the JSON name of the file's host, None if there is none; modules are tried in their order."""
    name = _detect_host(view)
    return _detect_host(view) if name is None and not _plugin_names and add_plugins() else name


def _detect_host(view: View) -> str | None:
    head = view.head(0, _LONGEST_START)
    for name, host in MODULES.items():
        if (not host.starts or head.startswith(host.starts)) and get_host(name).detect(view):
            return name
    return None


def get_host(name: str) -> Host:
    """Import and return the host of that JSON name."""
    return _module(name)


def get_editor(name: str) -> Editor | None:
    """Import and return a host that can be edited, None for others."""
    return _module(name) if MODULES[name].edits else None


def edit_refusal(name: str) -> tuple[str, str]:
    """Return why files of a host cannot be edited, and an alternative."""
    return getattr(
        _get_uneditable(name), "REFUSAL", (f"{name} is a host that a plug-in reads and does not edit", "extract")
    )


def get_grower(name: str) -> Grower | None:
    """Import and return a host that adds a container by appending, None for others."""
    return _module(name) if MODULES[name].grows else None


def get_shrinker(name: str) -> Shrinker | None:
    """Import and return a host that removes loaded bytes from linked files, None for others."""
    return _module(name) if MODULES[name].shrinks else None


def get_checker(name: str) -> Checker | None:
    """Import and return a host whose tables can be checked, None for others."""
    return _module(name) if name in MODULES and MODULES[name].checks else None


def get_rewriter(name: str) -> Rewriter:
    """Import and return a host with members."""
    return _module(name)


def _get_uneditable(name: str) -> UneditableHost:
    return _module(name)


def _get_section_reader(name: str) -> SectionReader:
    return _module(name)


#: JSON name → imported module
_LOADED: dict[str, ModuleType] = {}


def _module(name: str) -> ModuleType:
    # Called for every member of an archive, for which the import system would take several times as long.
    known = _LOADED.get(name)
    if known is None:
        known = _LOADED[name] = __import__(MODULES[name].module, fromlist=["DOC"])
    return known
