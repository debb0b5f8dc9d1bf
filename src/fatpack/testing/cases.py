"""The laws as classes of tests: an author of a plug-in derives from one, says what it is about, and pytest runs it."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fatpack import binary, formats
from fatpack.model import Container
from fatpack.options import Options
from fatpack.testing import formats as of_formats
from fatpack.testing import hosts as of_hosts
from fatpack.testing.helpers import damage_places, number_starts, sample
from fatpack.testing.making import join_pieces

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
        of_hosts.assert_interface_matches(self.name)

    def test_the_card_is_honest(self) -> None:
        of_hosts.assert_host_info_complete(self.name)

    def test_files_are_recognised_as_this_host_alone(self) -> None:
        for path in self.fixtures:
            of_hosts.assert_detected_as_this_host_alone(self.name, path.read_bytes(), path.name)

    def test_labels_cover_every_byte_once(self) -> None:
        for path in self.fixtures:
            of_hosts.assert_host_labels_cover_every_byte_once(self.name, path.read_bytes())

    def test_damaged_fixtures_give_a_result_or_an_error_of_fatpack(self) -> None:
        for path in self.fixtures:
            data = path.read_bytes()
            for at in sample(damage_places(of_hosts.all_labels(data), 200), 200, path.name):
                of_hosts.scan_and_label(data[:at])
                for change in of_formats.CHANGES:
                    of_hosts.scan_and_label(of_formats.flip_bits(data, at, change))

    def test_memory_is_bounded_by_the_bytes_present(self) -> None:
        for path in self.fixtures:
            data = path.read_bytes()
            numbers = sample(number_starts(of_hosts.all_labels(data), len(data), 40), 40, path.name)
            of_hosts.assert_host_memory_bounded(data, of_formats.huge_number_cases(numbers))
