"""Hosts: the files that carry containers. One room per carrier, and every room has the same door.

=========  ==========================================================================================
``DOC``     the room's card (:class:`fatpack.layout.FormatInfo`)
``detect``  ``detect(view) -> bool``: cheap, reads a bounded number of bytes, never raises
``locate``  ``locate(view) -> Iterator[Site | Finding]``: where device code may lie, in file order
``labels``  ``labels(view) -> Iterator[Label]``: which byte is what; the labels cover every byte once
``embed``   ``embed(view, content, name=…) -> Iterable[Piece]``: the host with a container added
``replace`` ``replace(view, index, content) -> Iterable[Piece]``: one section's content exchanged
``remove``  ``remove(view, indices) -> Iterable[Piece]``: sections of device code taken out
``edit``    ``edit(view, {index: content or None}) -> Iterable[Piece]``: several of both at once
``verify``  ``verify(before, after)``: raises HostError unless ``after`` is a sound edit of ``before``
``grow``    ``grow(view, content, name=…) -> Iterable[Piece]``: as ``embed``, with nothing of the view cut; optional
``relay``   ``relay(view, change, mode=…) -> Relayed``: loaded sections with fewer bytes; optional
``rewrite`` ``rewrite(view, {number: content}) -> Sequence[Piece]``: other contents of members; for hosts that have any
``check``   ``check(view) -> Iterator[int | Finding]``: tables against what they lead to, and how many; optional
=========  ==========================================================================================

A host knows no format: it says *where* bytes lie, ``fatpack.scanner`` finds out what they are. Editors return pieces
(bytes and views of the input) and write nothing themselves; a room that cannot edit has no such functions, but says
why not, and what would work: ``REFUSAL``.
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

    from fatpack.binary.known_sections import SectionSplit
    from fatpack.binary.shrink import ShrinkMode, ShrinkRequest, ShrinkResult
    from fatpack.io.source import Piece, View
    from fatpack.layout import FormatInfo
    from fatpack.model import Finding, Label

    SectionContent: TypeAlias = Literal["container", "mixed", "image", "images", "member", "table", "records"]

    class Host(Protocol):
        """The part of the door that every host room has."""

        DOC: FormatInfo

        def detect(self, view: View) -> bool: ...  # noqa: D102
        def locate(self, view: View) -> Iterator[CodeSection | Finding]: ...  # noqa: D102
        def labels(self, view: View) -> Iterator[Label]: ...  # noqa: D102

    class Editor(Host, Protocol):
        """The whole door, of hosts that can be edited."""

        def embed(self, view: View, content: Sequence[Piece], *, name: str = ...) -> Iterable[Piece]: ...  # noqa: D102
        def replace(self, view: View, index: int, content: Sequence[Piece]) -> Iterable[Piece]: ...  # noqa: D102
        def remove(self, view: View, indices: Sequence[int]) -> Iterable[Piece]: ...  # noqa: D102
        def edit(self, view: View, changes: Mapping[int, Sequence[Piece] | None]) -> Iterable[Piece]: ...  # noqa: D102
        def verify(self, before: View, after: View) -> None: ...  # noqa: D102

    class Grower(Protocol):
        """What hosts offer that can be edited in place without a copy."""

        def grow(self, view: View, content: Sequence[Piece], *, name: str) -> list[Piece]: ...  # noqa: D102

    class Shrinker(Protocol):
        """What hosts offer whose linked files can lose loaded bytes; raises HostError with what would work."""

        def shrink(self, view: View, change: ShrinkRequest, *, mode: ShrinkMode = ...) -> ShrinkResult: ...  # noqa: D102

    class SectionReader(Protocol):
        """What hosts with sections offer; ``divided_sections`` only those whose door states it."""

        def sections(self, view: View) -> list[tuple[int, int, str, int]]: ...  # noqa: D102
        def divided_sections(self, view: View, places: Any = None) -> SectionSplit: ...  # noqa: D102

    class UneditableHost(Host, Protocol):
        """What hosts offer that are not edited: why not, and what would work."""

        REFUSAL: tuple[str, str]

    class Checker(Protocol):
        """What hosts offer whose tables can be held against what they lead to: findings, then how many names."""

        def check(self, view: View) -> Iterator[int | Finding]: ...  # noqa: D102

    class Rewriter(Host, Protocol):
        """What hosts offer whose sites are members: other contents for some of them, or the reason why not."""

        def rewrite(self, view: View, contents: Mapping[int, Sequence[Piece]]) -> Sequence[Piece]: ...  # noqa: D102

    class Objcopy(Protocol):
        """What hosts offer that fat objects are made of."""

        def add_sections(self, view: View, additions: Sequence[tuple[str, Sequence[Piece]]]) -> list[Piece]: ...  # noqa: D102
        def remove_sections(self, view: View, prefix: str) -> list[Piece]: ...  # noqa: D102


#: nothing but containers belongs here
CONTAINER: SectionContent = "container"
#: other data lies between the containers
MIXED: SectionContent = "mixed"
#: the section is one image of a fat object, for the target in the section's name
IMAGE: SectionContent = "image"
#: a linked program's images back to back, whose table is elsewhere
IMAGES: SectionContent = "images"
#: a file of its own, to be looked at from its first byte as a host or container
MEMBER: SectionContent = "member"
#: no device code: what is stated about it there
TABLE: SectionContent = "table"
#: a program's data, somewhere in which may be records that lead to containers
RECORDS: SectionContent = "records"


class CodeSection(Record):
    """A place in a host where containers are, or may be.

    ``data`` are the bytes; ``section`` the section's name and ``index`` its number in the host's own table, or the
    member's in an archive (None where the carrier has neither). ``member`` is the archive member it is in, if any.
    ``content`` says what the host expects there: one of the seven names above this class.
    ``findings`` are about the place itself.
    """

    data: View
    section: str | None = None
    index: int | None = None
    member: str | None = None
    content: SectionContent = CONTAINER
    findings: tuple[Finding, ...] = ()

    @property
    def number(self) -> int:
        """The ``index`` of a place that edits name by it. Raises HostError where the carrier numbers none."""
        if self.index is None:
            raise HostError("this place has no number in a table of the host", chain=self.data.chain)
        return self.index


def without_overlaps(places: Sequence[CodeSection | Finding]) -> Iterator[CodeSection | Finding]:
    """Yield sections and findings in their order, with a finding for a section over the bytes of one before it.

    Only hostile files have such sections; thousands over the same bytes would be read as often.
    """
    owners: dict[int, CodeSection] = {}
    last = None
    for site in sorted((place for place in places if isinstance(place, CodeSection)), key=lambda site: site.data.start):
        if last is not None and site.data.start < last.data.end:
            owners[id(site)] = last
        else:
            last = site
    for place in places:
        if isinstance(place, CodeSection) and id(place) in owners:
            owner = owners[id(place)]
            text = f"section {place.index} ({place.section}) overlaps section {owner.index}: not read again"
            yield finding("FP1203", place.data.span(), text)
        else:
            yield place


class HostModule(Record):
    """What a host room offers: its ``module``, and which parts of the door it has beyond those that all have.

    ``starts`` is what its files start with; only rooms without that are asked about any other file, and imported.
    ``edits``: embed, replace, remove and edit, or the reasons why not; a room without has ``REFUSAL``, if its files are
    no archives. ``verifies``: verify. ``grows``: grow. ``has_sections``: sections. ``divides_sections``:
    divided_sections, better or faster than dividing what sections gives. ``has_members``: its sites are files of their
    own, which addresses name in parentheses; then it has rewrite. ``checks``: check. ``objcopy`` is the module that
    adds and removes sections byte for byte as llvm-objcopy does it, "" if there is none.
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


#: JSON name of the host → what its room offers, in the order of detection
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
        (magic_numbers.UNIVERSAL_MACH_O, magic_numbers.UNIVERSAL_MACH_O_64),
        has_members=True,
    ),
    "coff": HostModule(
        "fatpack.binary.coff", edits=True, verifies=True, has_sections=True, objcopy="fatpack.binary.coff.objcopy"
    ),
}

#: bytes of a file that tell what it starts with; plug-ins have no longer starts (``fatpack.plugins.MAX_MAGIC``)
_LONGEST_START = 24


def get_objcopy(name: str) -> Objcopy:
    """Return the part of a host room that rewrites whole files as llvm-objcopy 22 does. Raises HostError for others.

    Fat objects are made this way. Editing proper leaves what is there in place, which llvm-objcopy does not.
    """
    module = MODULES[name].objcopy if name in MODULES else ""
    if not module:
        hint = "give an ELF or COFF object, or a PE image"
        raise HostError(f"sections cannot be added to a host of kind {name}", hint=hint)
    return __import__(module, fromlist=["add_sections"])


def sections(name: str, view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section that has bytes in the file; none for hosts without sections.

    Positions are relative to the view. A damaged host gives what can be read of it.
    """
    return _get_section_reader(name).sections(view) if name in MODULES and MODULES[name].has_sections else []


def divided_sections(name: str, view: View, places: Iterator[CodeSection | Finding] | None = None) -> SectionSplit:
    """Return the sections that have bytes in the file, divided into those that hosts have anyway and the others.

    ``places`` is what the room's ``locate`` gave for the view, if it was asked: it may know them already. A damaged
    host gives what can be read of it, one without sections none.
    """
    if name in MODULES and MODULES[name].divides_sections:
        return _get_section_reader(name).divided_sections(view, places)
    from fatpack.binary.known_sections import split_sections

    return split_sections(sections(name, view))


#: the names of plug-ins that joined, once they were asked for
_plugin_names: list[tuple[str, ...]] = []


def add_plugins() -> bool:
    """Let the hosts of plug-ins (:mod:`fatpack.plugins`) join ours; return whether any did just now.

    They are asked for when a file is met that none of our rooms knows, and only once.
    """
    if _plugin_names:
        return False
    _plugin_names.append(())
    from fatpack import plugins

    starts = [start for module in MODULES.values() for start in module.starts]
    for plugin in plugins.load_plugins(plugins.HOSTS, MODULES, (*starts, *magic_numbers.PACKAGES)):
        MODULES[plugin.name] = HostModule(
            plugin.room.__name__,
            plugin.begins,
            edits=all(hasattr(plugin.room, part) for part in ("embed", "replace", "remove", "edit")),
            verifies=hasattr(plugin.room, "verify"),
            has_sections=hasattr(plugin.room, "sections"),
            has_members=hasattr(plugin.room, "rewrite"),
        )
        _LOADED[plugin.name] = plugin.room
        _plugin_names[0] += (plugin.name,)
    return bool(_plugin_names[0])


def detect_host(view: View) -> str | None:
    """Return the JSON name of the host that the bytes are, None if they are none; asks the rooms in their order."""
    name = _detect_host(view)
    return _detect_host(view) if name is None and not _plugin_names and add_plugins() else name


def _detect_host(view: View) -> str | None:
    head = view.head(0, _LONGEST_START)
    for name, door in MODULES.items():
        if (not door.starts or head.startswith(door.starts)) and get_host(name).detect(view):
            return name
    return None


def get_host(name: str) -> Host:
    """Return the host room of that JSON name; imports it."""
    return _module(name)


def get_editor(name: str) -> Editor | None:
    """Return a host room that edits, None for one that does not; imports it."""
    return _module(name) if MODULES[name].edits else None


def edit_refusal(name: str) -> tuple[str, str]:
    """Return why files of a host that no room edits stay as they are, and what would work; imports the room."""
    return getattr(
        _get_uneditable(name), "REFUSAL", (f"{name} is a host that a plug-in reads and does not edit", "extract")
    )


def get_grower(name: str) -> Grower | None:
    """Return a host room that adds a container without cutting anything, None for others; imports it."""
    return _module(name) if MODULES[name].grows else None


def get_shrinker(name: str) -> Shrinker | None:
    """Return a host room that takes loaded bytes out of linked files, None for others; imports it."""
    return _module(name) if MODULES[name].shrinks else None


def get_checker(name: str) -> Checker | None:
    """Return a host room whose tables can be checked, None for others; imports it."""
    return _module(name) if name in MODULES and MODULES[name].checks else None


def get_rewriter(name: str) -> Rewriter:
    """Return a host room whose sites are members; imports it."""
    return _module(name)


def _get_uneditable(name: str) -> UneditableHost:
    return _module(name)


def _get_section_reader(name: str) -> SectionReader:
    return _module(name)


#: JSON name → room, as far as they were imported
_LOADED: dict[str, ModuleType] = {}


def _module(name: str) -> ModuleType:
    # Asked for every member of an archive, and asking the import system takes several times as long.
    known = _LOADED.get(name)
    if known is None:
        known = _LOADED[name] = __import__(MODULES[name].module, fromlist=["DOC"])
    return known
