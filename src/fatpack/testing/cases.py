"""The laws as classes of tests: an author of a plug-in derives from one, says what it is about, and pytest runs it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fatpack import binary, formats
from fatpack.commands.inspect.bytes import file_labels
from fatpack.errors import FatpackError
from fatpack.model import Container, Label
from fatpack.options import Options
from fatpack.scanner import FoundContainer, detect_host, scan
from fatpack.testing import formats as of_formats
from fatpack.testing import helpers
from fatpack.testing.helpers import damage_places, join_pieces, make_view, number_starts, sample

# The laws of hosts, one function each. A law that does not hold fails an assertion that says what to do.
#
# ``name`` is the JSON name of a host, whose room :func:`fatpack.binary.get_host` returns; ``data`` a file of that kind.

#: what a door states → the parts that the room then has, and else has not
PARTS = {
    "edits": ("embed", "replace", "remove", "edit"),
    "verifies": ("verify",),
    "shrinks": ("shrink",),
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
    helpers.assert_memory_within(data, cases, lambda damaged: list(scan(make_view(damaged))), "the scan")


_RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))


class FormatLaws:
    """The laws of a format. A class of tests derives from it and sets

    ``name``      the format, as the entry point is called
    ``models``    a hypothesis strategy of containers that the room can write
    ``fixtures``  small real files of nothing but containers

    and, where that is needed, ``options``, a strategy of what models are written with, ``findings``, the codes that
    what is written may have all the same, and ``is_whole_file`` for a format of which a file holds one container only.
    """

    name: str
    models: st.SearchStrategy[Container]
    fixtures: tuple[Path, ...]
    options: st.SearchStrategy[Options | None] = st.none()
    findings: ClassVar[tuple[str, ...]] = ()
    is_whole_file = False

    @pytest.fixture(autouse=True)
    def _joined(self) -> None:
        formats.add_plugins()
        assert self.name in formats.MODULES, f"{self.name} is no format: install the package with its entry point"
        assert self.fixtures, "fixtures names no files"

    def test_the_door_is_complete(self) -> None:
        of_formats.assert_interface_complete(self.name)

    def test_the_card_is_honest(self) -> None:
        of_formats.assert_info_complete(self.name)

    def test_layouts_agree_with_construct(self) -> None:
        of_formats.assert_layouts_agree_with_construct(self.name)

    @_RELAXED
    @given(data=st.data())
    def test_what_is_written_is_read_back(self, data: st.DataObject) -> None:
        model, options = data.draw(self.models), data.draw(self.options)
        of_formats.assert_roundtrip(self.name, model, options, self.findings)

    @_RELAXED
    @given(data=st.data())
    def test_labels_cover_every_byte_once(self, data: st.DataObject) -> None:
        of_formats.assert_labels_cover_every_byte_once(self.name, self._written(data))

    @_RELAXED
    @given(data=st.data())
    def test_any_damage_gives_a_result_or_a_format_error(self, data: st.DataObject) -> None:
        stored = bytearray(self._written(data))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(stored) - 1))
            stored[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
        of_formats.assert_damage_handled(self.name, bytes(stored))

    def test_fixtures_are_rewritten_to_the_same_bytes(self) -> None:
        for path in self.fixtures:
            of_formats.assert_canonical_rewrite(self.name, path.read_bytes(), path.name)

    def test_bytes_that_belong_to_nothing_are_never_dropped_in_silence(self) -> None:
        for path in self.fixtures:
            of_formats.assert_stray_bytes_kept(self.name, path.read_bytes())

    def test_damaged_fixtures_give_a_result_or_a_format_error(self) -> None:
        for path in self.fixtures:
            data = path.read_bytes()
            for at in sample(damage_places(of_formats.read_all_labels(self.name, data), 200), 200, path.name):
                of_formats.assert_truncation_reported(self.name, data, at)
                for change in of_formats.CHANGES:
                    of_formats.scan_damaged(self.name, of_formats.flip_bits(data, at, change))

    def test_memory_is_bounded_by_the_bytes_present(self) -> None:
        for path in self.fixtures:
            data = path.read_bytes()
            numbers = sample(number_starts(of_formats.read_all_labels(self.name, data), len(data), 40), 40, path.name)
            of_formats.assert_memory_bounded(self.name, data, of_formats.huge_number_cases(numbers))

    def test_containers_behind_damage_and_rubbish_are_found(self) -> None:
        for path in () if self.is_whole_file else self.fixtures:
            of_formats.assert_intact_container_found(self.name, path.read_bytes())
            of_formats.assert_containers_between_rubbish_found(self.name, path.read_bytes())

    def test_output_does_not_depend_on_the_run(self) -> None:
        of_formats.assert_output_reproducible(self.name, self.fixtures)

    def _written(self, data: st.DataObject) -> bytes:
        return join_pieces(formats.get_format(self.name).write(data.draw(self.models), data.draw(self.options)))


class HostLaws:
    """The laws of a host. A class of tests derives from it and sets ``name``, the host as the entry point is called,
    and ``fixtures``, small real files of that kind.
    """

    name: str
    fixtures: tuple[Path, ...]

    @pytest.fixture(autouse=True)
    def _joined(self) -> None:
        binary.add_plugins()
        assert self.name in binary.MODULES, f"{self.name} is no host: install the package with its entry point"
        assert self.fixtures, "fixtures names no files"

    def test_the_door_is_what_it_states(self) -> None:
        assert_interface_matches(self.name)

    def test_the_card_is_honest(self) -> None:
        assert_host_info_complete(self.name)

    def test_files_are_recognised_as_this_host_alone(self) -> None:
        for path in self.fixtures:
            assert_detected_as_this_host_alone(self.name, path.read_bytes(), path.name)

    def test_labels_cover_every_byte_once(self) -> None:
        for path in self.fixtures:
            assert_host_labels_cover_every_byte_once(self.name, path.read_bytes())

    def test_damaged_fixtures_give_a_result_or_an_error_of_fatpack(self) -> None:
        for path in self.fixtures:
            data = path.read_bytes()
            for at in sample(damage_places(all_labels(data), 200), 200, path.name):
                scan_and_label(data[:at])
                for change in of_formats.CHANGES:
                    scan_and_label(of_formats.flip_bits(data, at, change))

    def test_memory_is_bounded_by_the_bytes_present(self) -> None:
        for path in self.fixtures:
            data = path.read_bytes()
            numbers = sample(number_starts(all_labels(data), len(data), 40), 40, path.name)
            assert_host_memory_bounded(data, of_formats.huge_number_cases(numbers))
