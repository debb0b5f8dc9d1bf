"""The laws of hosts, one function each. A law that does not hold fails an assertion that says what to do.

``name`` is the JSON name of a host, whose room :func:`fatpack.hosts.room` returns; ``data`` a file of that kind.
"""

from __future__ import annotations

from collections.abc import Iterable

from fatpack import hosts
from fatpack.errors import FatpackError
from fatpack.model import Label
from fatpack.report.bytes_text import labels
from fatpack.scanner import Found, host_of, scan
from fatpack.testing import memory
from fatpack.testing.making import view_of

#: what a door states → the parts that the room then has, and else has not
PARTS = {
    "edits": ("embed", "replace", "remove", "edit"),
    "verifies": ("verify",),
    "relays": ("relay",),
    "grows": ("grow",),
    "has_sections": ("sections",),
    "divides_sections": ("divided_sections",),
    "has_members": ("rewrite",),
}


def the_door_is_what_it_states(name: str) -> None:
    """Hold that a room has every part that all have, and those that ``hosts.ROOMS`` states of it, and no other."""
    room = hosts.room(name)
    for part in ("DOC", "detect", "locate", "labels"):
        assert hasattr(room, part), f"the room of {name} lacks {part}; hosts/__init__.py lists what a door must have"
    door = hosts.ROOMS[name]
    for stated, parts in PARTS.items():
        for part in parts:
            assert hasattr(room, part) == getattr(door, stated), (
                f"hosts.ROOMS says {stated}={getattr(door, stated)} of {name}, and the room of {name} "
                f"{'has' if hasattr(room, part) else 'lacks'} {part}; see hosts/__init__.py"
            )


def the_card_is_honest(name: str) -> None:
    """Hold that a room's card has its name, limitations and references."""
    doc = hosts.room(name).DOC
    assert doc.name == name, f"DOC.name is {doc.name!r}, and the room is called {name!r}"
    assert doc.limitations, f"DOC of {name} states no limitation: say what it does not do"
    assert doc.references, f"DOC of {name} cites nothing: say where its facts are written"


def a_file_is_recognised_as_this_host_alone(name: str, data: bytes, file: str = "the file") -> None:
    """Hold that a fixture is taken for the host that it is of."""
    starts = hosts.ROOMS[name].starts
    assert not starts or data.startswith(starts), f"{file} does not start as the door of {name} says"
    host = host_of(view_of(data))
    assert host == name, f"{file}, a fixture of {name}, is taken for {host}: see detect, and the order of ROOMS"


def labels_of(data: bytes) -> list[Label]:
    """Return the labels of a file, those of containers in it included."""
    return list(labels(view_of(data)))


def labels_cover_every_byte_once(name: str, data: bytes) -> None:
    """Hold that labels follow each other from the first byte to the last: the room's, and with its containers'."""
    for source in (hosts.room(name).labels(view_of(data)), labels(view_of(data))):
        reached = 0
        for label in source:
            assert label.span.start == reached, f"the label {label} must start at {reached:#x}: one label per byte"
            assert label.span.end > reached, f"the label {label} is empty"
            reached = label.span.end
        assert reached == len(data), f"labels must reach {len(data):#x}, the end of the file; they end at {reached:#x}"


def used(data: bytes) -> str:
    """Scan and label; anything but a result or an error of fatpack breaks the law. Returns the host that it is."""
    view = view_of(data)
    for item in scan(view):
        if isinstance(item, Found):
            assert item.view.end <= item.view.source.size, f"{item} reaches behind the end of its file"
    if (name := host_of(view)) == "raw":
        return name
    try:
        labelled = sum(label.span.size for label in labels(view))
        assert labelled == len(data), f"labels cover {labelled} bytes of {len(data)}"
    except FatpackError as error:
        assert error.chain[:1] == ("test",), f"an error must name the source first: {error!r} names {error.chain}"
        assert not error.__cause__ or "plug-in" not in error.problem, f"the room itself failed: {error}"
    return name


def memory_stays_within_the_bytes_present(data: bytes, cases: Iterable[tuple[int, int]]) -> None:
    """Hold that nothing is allocated for a number: ``cases`` are positions and what is put there in eight bytes."""
    memory.stays_within(data, cases, lambda damaged: list(scan(view_of(damaged))), "the scan")
