"""The laws as classes of tests: an author of a plug-in derives from one, sets its attributes, and pytest runs it."""

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
from fatpack.scanner import FoundContainer, detect_host, scan
from fatpack.testing import formats as format_laws
from fatpack.testing import helpers
from fatpack.testing.helpers import damage_places, join_pieces, make_view, number_starts, sample
from fatpack.writer_options import Options

# The laws of hosts, one function each. A broken law fails an assertion with advice.
#
# ``name`` is the JSON name of a host, whose module :func:`fatpack.binary.get_host` returns; ``data`` a file of that
# kind.

#: attribute in ``binary.MODULES`` → the parts that the module then has, and otherwise lacks
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
    """Check that a module has the parts of every host, and exactly those others that ``binary.MODULES`` states."""
    room = binary.get_host(name)
    for part in ("DOC", "detect", "locate", "labels"):
        assert hasattr(room, part), f"the module of {name} lacks {part}; binary/__init__.py lists the interface"
    door = binary.MODULES[name]
    for stated, parts in PARTS.items():
        for part in parts:
            assert hasattr(room, part) == getattr(door, stated), (
                f"binary.MODULES says {stated}={getattr(door, stated)} of {name}, and the module of {name} "
                f"{'has' if hasattr(room, part) else 'lacks'} {part}; see binary/__init__.py"
            )


def assert_host_info_complete(name: str) -> None:
    """Check that a module's DOC has its name, limitations and references."""
    doc = binary.get_host(name).DOC
    assert doc.name == name, f"DOC.name is {doc.name!r}, and the module is called {name!r}"
    assert doc.limitations, f"DOC of {name} has no limitation: state what the module does not do"
    assert doc.references, f"DOC of {name} has no reference: cite the sources of its facts"


def assert_detected_as_this_host_alone(name: str, data: bytes, file: str = "the file") -> None:
    """Check that a fixture is identified as its host."""
    starts = binary.MODULES[name].starts
    assert not starts or data.startswith(starts), f"{file} does not start with the STARTS of {name}"
    host = detect_host(make_view(data))
    assert host == name, f"{file}, a fixture of {name}, is identified as {host}: see detect, and the order of MODULES"


def all_labels(data: bytes) -> list[Label]:
    """Return the labels of a file, those of containers in it included."""
    return list(file_labels(make_view(data)))


def assert_host_labels_cover_every_byte_once(name: str, data: bytes) -> None:
    """Check that labels follow each other from the first byte to the last: the module's, and with its containers'."""
    for source in (binary.get_host(name).labels(make_view(data)), file_labels(make_view(data))):
        reached = 0
        for label in source:
            assert label.span.start == reached, f"the label {label} must start at {reached:#x}: one label per byte"
            assert label.span.end > reached, f"the label {label} is empty"
            reached = label.span.end
        assert reached == len(data), f"labels must reach {len(data):#x}, the end of the file; they end at {reached:#x}"


def scan_and_label(data: bytes) -> str:
    """Scan and label; any exception except fatpack's errors breaks the law. Returns the detected host."""
    view = make_view(data)
    for item in scan(view):
        if isinstance(item, FoundContainer):
            assert item.view.end <= item.view.source.size, f"{item} extends beyond the end of its file"
    if (name := detect_host(view)) == "raw":
        return name
    try:
        labelled = sum(label.span.size for label in file_labels(view))
        assert labelled == len(data), f"labels cover {labelled} bytes of {len(data)}"
    except FatpackError as error:
        assert error.chain[:1] == ("test",), f"an error must name the source first: {error!r} names {error.chain}"
        assert not error.__cause__ or "plug-in" not in error.problem, f"the module itself failed: {error}"
    return name


def assert_host_memory_bounded(data: bytes, cases: Iterable[tuple[int, int]]) -> None:
    """Check that no memory is allocated for a number: ``cases`` are positions, and the numbers to put there."""
    helpers.assert_memory_within(data, cases, lambda damaged: list(scan(make_view(damaged))), "the scan")


_RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))


class FormatLaws:
    """The laws of a format. A class of tests derives from it and sets

    ``name``      the format, as the entry point is called
    ``models``    a hypothesis strategy of containers that the module can write
    ``fixtures``  small real files with nothing but containers

    and, if needed, ``options``, a strategy of the options for writing models, ``findings``, the codes that written
    containers may have, and ``is_whole_file`` for a format with one container per file.
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
        assert self.name in formats.MODULES, f"{self.name} is not a format: install the package with its entry point"
        assert self.fixtures, "fixtures has no files"

    def test_the_interface_is_complete(self) -> None:
        format_laws.assert_interface_complete(self.name)

    def test_the_description_is_complete(self) -> None:
        format_laws.assert_info_complete(self.name)

    def test_layouts_agree_with_construct(self) -> None:
        format_laws.assert_layouts_agree_with_construct(self.name)

    @_RELAXED
    @given(data=st.data())
    def test_written_containers_are_read_back(self, data: st.DataObject) -> None:
        model, options = data.draw(self.models), data.draw(self.options)
        format_laws.assert_roundtrip(self.name, model, options, self.findings)

    @_RELAXED
    @given(data=st.data())
    def test_labels_cover_every_byte_once(self, data: st.DataObject) -> None:
        format_laws.assert_labels_cover_every_byte_once(self.name, self._written(data))

    @_RELAXED
    @given(data=st.data())
    def test_any_damage_gives_a_result_or_a_format_error(self, data: st.DataObject) -> None:
        stored = bytearray(self._written(data))
        for _ in range(data.draw(st.integers(1, 3))):
            at = data.draw(st.integers(0, len(stored) - 1))
            stored[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
        format_laws.assert_damage_handled(self.name, bytes(stored))

    def test_fixtures_are_rewritten_to_the_same_bytes(self) -> None:
        for path in self.fixtures:
            format_laws.assert_canonical_rewrite(self.name, path.read_bytes(), path.name)

    def test_stray_bytes_are_kept_or_reported(self) -> None:
        for path in self.fixtures:
            format_laws.assert_stray_bytes_kept(self.name, path.read_bytes())

    def test_damaged_fixtures_give_a_result_or_a_format_error(self) -> None:
        for path in self.fixtures:
            data = path.read_bytes()
            for at in sample(damage_places(format_laws.read_all_labels(self.name, data), 200), 200, path.name):
                format_laws.assert_truncation_reported(self.name, data, at)
                for change in format_laws.CHANGES:
                    format_laws.scan_damaged(self.name, format_laws.flip_bits(data, at, change))

    def test_memory_is_bounded_by_the_bytes_present(self) -> None:
        for path in self.fixtures:
            data = path.read_bytes()
            numbers = sample(number_starts(format_laws.read_all_labels(self.name, data), len(data), 40), 40, path.name)
            format_laws.assert_memory_bounded(self.name, data, format_laws.huge_number_cases(numbers))

    def test_containers_after_damage_and_stray_bytes_are_found(self) -> None:
        for path in () if self.is_whole_file else self.fixtures:
            format_laws.assert_intact_container_found(self.name, path.read_bytes())
            format_laws.assert_containers_between_rubbish_found(self.name, path.read_bytes())

    def test_output_does_not_depend_on_the_run(self) -> None:
        format_laws.assert_output_reproducible(self.name, self.fixtures)

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
        assert self.name in binary.MODULES, f"{self.name} is not a host: install the package with its entry point"
        assert self.fixtures, "fixtures has no files"

    def test_the_interface_matches_its_declaration(self) -> None:
        assert_interface_matches(self.name)

    def test_the_description_is_complete(self) -> None:
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
                for change in format_laws.CHANGES:
                    scan_and_label(format_laws.flip_bits(data, at, change))

    def test_memory_is_bounded_by_the_bytes_present(self) -> None:
        for path in self.fixtures:
            data = path.read_bytes()
            numbers = sample(number_starts(all_labels(data), len(data), 40), 40, path.name)
            assert_host_memory_bounded(data, format_laws.huge_number_cases(numbers))
