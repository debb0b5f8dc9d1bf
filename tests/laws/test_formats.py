"""The laws of every format; ``fatpack.testing.formats`` defines each."""

from __future__ import annotations

from itertools import cycle, product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.laws.rooms import FORMATS, cases, fixtures, format_fixtures, successive_fixtures

from fatpack import formats
from fatpack.testing import formats as laws
from fatpack.testing.helpers import HUGE, damage_places, join_pieces, number_starts, sample

ROOMS = sorted(formats.MODULES)
FIXTURE_IDS = [f"{name}-{path.name}" for name, path in format_fixtures()]
each_room = pytest.mark.parametrize("name", ROOMS)
SUCCESSIVE_IDS = [f"{name}-{path.name}" for name, path in successive_fixtures()]
each_fixture = pytest.mark.parametrize(("name", "path"), format_fixtures(), ids=FIXTURE_IDS)
each_successive = pytest.mark.parametrize(("name", "path"), successive_fixtures(), ids=SUCCESSIVE_IDS)
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])


def test_every_room_has_cases() -> None:
    missing, gone = sorted(set(ROOMS) - FORMATS.keys()), sorted(FORMATS.keys() - set(ROOMS))
    assert not missing, f"tests/laws/rooms.py: give FORMATS an entry for {missing}; the laws need models and fixtures"
    assert not gone, f"tests/laws/rooms.py: FORMATS has an entry for {gone}, which is no format in formats.ROOMS"


def test_every_room_has_fixtures() -> None:
    for name in FORMATS:
        folder = cases(name).fixtures
        assert folder.is_dir(), f"{name}: put small real files into {folder}"
        assert fixtures(folder), f"{name}: {folder} holds no file that the laws could read"


@each_room
def test_the_door_is_complete(name: str) -> None:
    laws.assert_interface_complete(name)


@each_room
def test_the_card_is_honest_and_the_page_exists(name: str) -> None:
    laws.assert_info_complete(name)
    page = Path(__file__).parents[2] / "docs" / "formats" / f"{name}.md"
    assert page.exists(), f"{page.name} is missing: run make docs"
    text = page.read_text(encoding="utf-8")
    stale = [limitation for limitation in formats.get_format(name).DOC.limitations if limitation not in text]
    assert not stale, f"docs/formats/{page.name} lacks {stale}: run make docs"


@each_room
@relaxed
@given(data=st.data())
def test_what_is_written_is_read_back(name: str, data: st.DataObject) -> None:
    model, options = data.draw(cases(name).models), data.draw(cases(name).options)
    laws.assert_roundtrip(name, model, options, cases(name).findings)


@each_fixture
def test_a_canonical_file_is_rewritten_to_the_same_bytes(name: str, path: Path) -> None:
    laws.assert_canonical_rewrite(name, path.read_bytes(), path.name)


@each_room
@relaxed
@given(data=st.data())
def test_labels_cover_every_byte_once(name: str, data: st.DataObject) -> None:
    laws.assert_labels_cover_every_byte_once(name, _drawn(name, data))


@each_fixture
def test_bytes_that_belong_to_nothing_are_never_dropped_in_silence(name: str, path: Path) -> None:
    laws.assert_stray_bytes_kept(name, path.read_bytes())


@each_room
@relaxed
@given(data=st.data())
def test_any_damage_gives_a_result_or_a_format_error(name: str, data: st.DataObject) -> None:
    stored = bytearray(_drawn(name, data))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(stored) - 1))
        stored[at : at + 8] = data.draw(st.binary(min_size=1, max_size=8))
    laws.assert_damage_handled(name, bytes(stored))


def _drawn(name: str, data: st.DataObject) -> bytes:
    """Return a drawn container, written with drawn options."""
    return join_pieces(formats.get_format(name).write(data.draw(cases(name).models), data.draw(cases(name).options)))


@each_fixture
def test_truncations_give_a_result_or_a_format_error(name: str, path: Path) -> None:
    data = path.read_bytes()
    for size in sample(damage_places(laws.read_all_labels(name, data), 200), 60, path.name):
        laws.assert_truncation_reported(name, data, size)


@each_fixture
def test_flipped_bytes_give_a_result_or_a_format_error(name: str, path: Path) -> None:
    data = path.read_bytes()
    numbers = sample(damage_places(laws.read_all_labels(name, data), 100), 100, path.name)
    for at, change in zip(numbers, cycle(laws.CHANGES), strict=False):
        laws.scan_damaged(name, laws.flip_bits(data, at, change))


@each_fixture
@pytest.mark.slow
def test_every_byte_may_be_damaged_or_be_the_last(name: str, path: Path) -> None:
    data = path.read_bytes()
    for at in range(len(data)):
        laws.assert_truncation_reported(name, data, at)
        for change in laws.CHANGES:
            laws.scan_damaged(name, laws.flip_bits(data, at, change))


@each_fixture
def test_memory_is_bounded_by_the_bytes_present(name: str, path: Path) -> None:
    data = path.read_bytes()
    numbers = sample(number_starts(laws.read_all_labels(name, data), len(data), 30), 24, path.name)
    laws.assert_memory_bounded(name, data, laws.huge_number_cases(numbers))


@each_fixture
@pytest.mark.slow
def test_memory_is_bounded_whatever_number_is_huge(name: str, path: Path) -> None:
    data = path.read_bytes()
    laws.assert_memory_bounded(name, data, product(range(0, len(data) - 7, 4), HUGE))


@each_successive
def test_an_intact_container_after_a_damaged_one_is_found(name: str, path: Path) -> None:
    laws.assert_intact_container_found(name, path.read_bytes())


@each_successive
def test_several_containers_with_rubbish_between_are_all_found(name: str, path: Path) -> None:
    # LLVM refuses zeros between offload binaries, and reads all other containers after them.
    expected = ("FP1002", "FP1007") if name == "llvm-offload-binary" else ("FP1002",)
    laws.assert_containers_between_rubbish_found(name, path.read_bytes(), expected)


@each_room
def test_output_does_not_depend_on_the_run(name: str) -> None:
    laws.assert_output_reproducible(name, fixtures(cases(name).fixtures))


@each_room
def test_layouts_agree_with_construct(name: str) -> None:
    laws.assert_layouts_agree_with_construct(name)
