"""The laws of hosts, one function each. A law that does not hold fails an assertion that says what to do.

``name`` is the JSON name of a host, whose room :func:`fatpack.binary.get_host` returns; ``data`` a file of that kind.
"""

from __future__ import annotations

from collections.abc import Iterable

from fatpack import binary
from fatpack.commands.inspect.bytes import file_labels
from fatpack.errors import FatpackError
from fatpack.model import Label
from fatpack.scanner import FoundContainer, detect_host, scan
from fatpack.testing import memory
from fatpack.testing.making import make_view

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


def assert_interface_matches(name: str) -> None:
    """Hold that a room has every part that all have, and those that ``hosts.ROOMS`` states of it, and no other."""
    room = binary.get_host(name)
    for part in ("DOC", "detect", "locate", "labels"):
        assert hasattr(room, part), f"the room of {name} lacks {part}; binary/__init__.py lists what a door must have"
    door = binary.MODULES[name]
    for stated, parts in PARTS.items():
        for part in parts:
            assert hasattr(room, part) == getattr(door, stated), (
                f"hosts.ROOMS says {stated}={getattr(door, stated)} of {name}, and the room of {name} "
                f"{'has' if hasattr(room, part) else 'lacks'} {part}; see binary/__init__.py"
            )


def assert_host_info_complete(name: str) -> None:
    """Hold that a room's card has its name, limitations and references."""
    doc = binary.get_host(name).DOC
    assert doc.name == name, f"DOC.name is {doc.name!r}, and the room is called {name!r}"
    assert doc.limitations, f"DOC of {name} states no limitation: say what it does not do"
    assert doc.references, f"DOC of {name} cites nothing: say where its facts are written"


def assert_detected_as_this_host_alone(name: str, data: bytes, file: str = "the file") -> None:
    """Hold that a fixture is taken for the host that it is of."""
    starts = binary.MODULES[name].starts
    assert not starts or data.startswith(starts), f"{file} does not start as the door of {name} says"
    host = detect_host(make_view(data))
    assert host == name, f"{file}, a fixture of {name}, is taken for {host}: see detect, and the order of ROOMS"


def all_labels(data: bytes) -> list[Label]:
    """Return the labels of a file, those of containers in it included."""
    return list(file_labels(make_view(data)))


def assert_host_labels_cover_every_byte_once(name: str, data: bytes) -> None:
    """Hold that labels follow each other from the first byte to the last: the room's, and with its containers'."""
    for source in (binary.get_host(name).labels(make_view(data)), file_labels(make_view(data))):
        reached = 0
        for label in source:
            assert label.span.start == reached, f"the label {label} must start at {reached:#x}: one label per byte"
            assert label.span.end > reached, f"the label {label} is empty"
            reached = label.span.end
        assert reached == len(data), f"labels must reach {len(data):#x}, the end of the file; they end at {reached:#x}"


def scan_and_label(data: bytes) -> str:
    """Scan and label; anything but a result or an error of fatpack breaks the law. Returns the host that it is."""
    view = make_view(data)
    for item in scan(view):
        if isinstance(item, FoundContainer):
            assert item.view.end <= item.view.source.size, f"{item} reaches behind the end of its file"
    if (name := detect_host(view)) == "raw":
        return name
    try:
        labelled = sum(label.span.size for label in file_labels(view))
        assert labelled == len(data), f"labels cover {labelled} bytes of {len(data)}"
    except FatpackError as error:
        assert error.chain[:1] == ("test",), f"an error must name the source first: {error!r} names {error.chain}"
        assert not error.__cause__ or "plug-in" not in error.problem, f"the room itself failed: {error}"
    return name


def assert_host_memory_bounded(data: bytes, cases: Iterable[tuple[int, int]]) -> None:
    """Hold that nothing is allocated for a number: ``cases`` are positions and what is put there in eight bytes."""
    memory.assert_memory_within(data, cases, lambda damaged: list(scan(make_view(damaged))), "the scan")
