"""Sources that are read by ranges: the number and size of requests, and sources that return wrong bytes."""

from __future__ import annotations

import io
import pickle
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.builders.large_library import LARGE, SIZE, SMALL, write_large_library

import fatpack
from fatpack.io.open import open_source
from fatpack.io.ranges import AHEAD, BULK, CACHE_SIZE, PAGE, PIECE, RangedSource

DATA = bytes(range(251)) * 4000


class Counted:
    """Bytes that record the requests."""

    name = "counted"

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.size = len(data)
        self.asked: list[tuple[int, int]] = []

    def read_at(self, offset: int, size: int) -> bytes:
        self.asked.append((offset, size))
        return self.data[offset : offset + size]


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is not a failure
@given(st.lists(st.tuples(st.integers(0, len(DATA)), st.integers(0, BULK + PAGE)), max_size=30))
def test_pages_never_show(places: list[tuple[int, int]]) -> None:
    view = open_source(Counted(DATA)).view()
    for at, size in places:
        assert view.head(at, size) == DATA[at : at + size]
    assert b"".join(bytes(piece) for piece in view.pieces()) == DATA


def test_a_page_is_asked_for_once() -> None:
    counted = Counted(DATA)
    view = open_source(counted).view()
    for at in (PAGE, PAGE + 5, 2 * PAGE - 1, PAGE):
        view.read(at, 1)
    assert counted.asked == [(PAGE, PAGE)]


def test_pages_that_are_missing_side_by_side_come_with_one_request() -> None:
    counted = Counted(DATA)
    view = open_source(counted).view()
    view.read(6 * PAGE, 1)
    view.read(4 * PAGE + 7, 5 * PAGE)
    assert counted.asked == [(6 * PAGE, PAGE), (4 * PAGE, 6 * PAGE)]


def test_what_is_read_in_a_row_is_read_ahead_and_what_is_not_is_not() -> None:
    counted = Counted(DATA)
    view = open_source(counted).view()
    for at in range(0, 40 * PAGE, 100):
        view.read(at, 64)
    sizes = [size // PAGE for _, size in counted.asked]
    assert sizes[:5] == [1, 2, 4, 8, AHEAD]
    assert sum(sizes) <= 40 + 2 * AHEAD
    counted.asked.clear()
    view = open_source(counted).view()
    for at in range(0, 60 * PAGE, 3 * PAGE):
        view.read(at, 64)
    assert counted.asked == [(at, PAGE) for at in range(0, 60 * PAGE, 3 * PAGE)]


def test_pages_that_are_kept_are_bounded_and_those_in_use_stay() -> None:
    counted = Counted(bytes(CACHE_SIZE + 64 * PAGE))
    source = open_source(counted)
    view = source.view()
    for at in range(PAGE, len(view), 2 * PAGE):
        view.read(at, 1)
        view.read(0, 1)
    for at in range(0, len(view), PAGE):
        view.read(at, 1)
        view.read(0, 1)
    assert isinstance(source, RangedSource)
    assert sum(map(len, source._pages.values())) <= CACHE_SIZE
    assert [offset for offset, _ in counted.asked].count(0) == 1


def test_images_come_in_bounded_pieces_and_are_not_kept() -> None:
    counted = Counted(bytes(PIECE + 1000))
    with open_source(counted) as source:
        assert [len(piece) for piece in source.view().pieces()] == [PIECE, 1000]
        assert isinstance(source, RangedSource)
        assert counted.asked[0] == (0, PIECE)
        assert sum(map(len, source._pages.values())) <= PAGE
        assert source.read_once_size(0, source.size) == PIECE


def test_listing_half_a_gigabyte_reads_a_twentieth_of_it_in_two_hundred_requests(tmp_path: Path) -> None:
    """These are bounds for this layout: each isolated container takes a request, and a page."""
    write_large_library(tmp_path / "x.so")
    asked: list[int] = []
    with (tmp_path / "x.so").open("rb", buffering=0) as file:

        class Reading:
            size = SIZE

            def read_at(self, offset: int, size: int) -> bytes:
                asked.append(size)
                file.seek(offset)
                return file.read(size)

        with fatpack.open(Reading()) as remote, fatpack.open(tmp_path / "x.so") as local:
            assert len(remote.containers) == SMALL + LARGE
            assert len(remote.images()) == SMALL + LARGE
            assert [item.span.start for item in remote.containers] == [item.span.start for item in local.containers]
            assert not remote.findings
    assert len(asked) <= 200
    assert sum(asked) <= SIZE // 20


class Lying:
    """A source that returns wrong results from some offset on."""

    name = "lying"

    def __init__(self, answer: object, size: int = len(DATA)) -> None:
        self.answer = answer
        self.size = size

    def read_at(self, offset: int, size: int) -> bytes:
        return DATA[offset : offset + size] if offset == 0 else self.answer  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"", "gave 0 bytes"),
        (b"short", "gave 5 bytes"),
        (bytes(2 * PAGE), f"gave {2 * PAGE} bytes"),
        (None, "gave NoneType"),
        ("x" * PAGE, "gave str"),
    ],
)
def test_what_is_not_as_long_as_asked_for_is_one_precise_error(answer: object, words: str) -> None:
    with open_source(Lying(answer)) as source:  # type: ignore[arg-type]
        assert source.view().read(0, 4) == DATA[:4]
        with pytest.raises(
            OSError, match=rf"asked for {PAGE} bytes at {3 * PAGE:#x} of {len(DATA)}, it {words}"
        ) as caught:
            source.view().read(3 * PAGE, 10)
    assert caught.value.filename == "lying"


def test_a_size_that_lies_ends_the_listing_with_one_error() -> None:
    elf = (Path(__file__).parents[1] / "fixtures" / "cuda_fatbin" / "hosts" / "single.o").read_bytes()

    class Longer(Counted):
        def __init__(self) -> None:
            super().__init__(elf)
            self.size = 1 << 40

    longer = Longer()
    with fatpack.open(longer) as file, pytest.raises(OSError, match="it is cut short, or has changed"):
        file.findings  # noqa: B018  (scans)
    assert sum(offset + size > len(elf) for offset, size in longer.asked) == 1
    shorter = Counted(elf)
    shorter.size = len(elf) - 100
    with fatpack.open(shorter) as file, fatpack.open(elf[:-100]) as cut:
        assert [item.message for item in file.findings] == [item.message for item in cut.findings]


@pytest.mark.parametrize(("size", "kind"), [(None, TypeError), ("7", TypeError), (-1, OSError), (1 << 63, OSError)])
def test_a_size_is_a_number_of_bytes(size: object, kind: type[Exception]) -> None:
    with pytest.raises(kind, match="size"):
        open_source(Lying(b"", size))  # type: ignore[arg-type]


def test_errors_of_a_source_of_ones_own_reach_its_owner() -> None:
    class Broken(Counted):
        def read_at(self, offset: int, size: int) -> bytes:
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        fatpack.open(Broken(DATA))


def test_a_closed_source_says_so() -> None:
    source = open_source(Counted(DATA))
    source.close()
    with pytest.raises(ValueError, match="counted is closed"):
        source.view().read(0, 1)


def test_what_cannot_be_pickled_is_reported() -> None:
    class Local(Counted):
        pass

    with open_source(Local(DATA)) as source, pytest.raises(pickle.PicklingError, match="cannot be opened by another"):
        pickle.dumps(source.view())
    with (
        open_source(io.BufferedReader(io.BytesIO(DATA))) as source,  # type: ignore[arg-type]
        pytest.raises(pickle.PicklingError, match="it was given as an open file; open it by its path"),
    ):
        pickle.dumps(source.view())
