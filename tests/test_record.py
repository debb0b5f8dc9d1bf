"""Records behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from fatpack.record import LateRecord, Record, Uncollected, is_late


class Point(Record):
    """A test record."""

    x: int
    y: int = 2


class Named(Point):
    """A record with a base."""

    name: str = "p"


def test_values_defaults_and_order() -> None:
    assert (Point(1).x, Point(1).y, Point(1, 3).y, Point(y=5, x=4).x) == (1, 2, 3, 4)
    assert repr(Named(1, name="q")) == "Named(x=1, y=2, name='q')"


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((1,), {"x": 1}), ((), {"y": 1}), ((), {"x": 1, "z": 1})],
)
def test_wrong_calls_are_type_errors(args: tuple[int, ...], kwargs: dict[str, int]) -> None:
    with pytest.raises(TypeError):
        Point(*args, **kwargs)


def test_records_cannot_be_changed() -> None:
    point = Point(1)
    for change in (lambda: setattr(point, "x", 2), lambda: setattr(point, "z", 2), lambda: delattr(point, "x")):
        with pytest.raises(AttributeError):
            change()
    assert point.replace(x=9) == Point(9, 2)
    assert point == Point(1)
    with pytest.raises(TypeError):
        point.replace(z=1)


def test_equality_is_by_type_and_value() -> None:
    assert Point(1) == Point(1, 2) != Point(2)
    assert Point(1) != Named(1)
    assert len({Point(1), Point(1), Point(2)}) == 2
    assert not hasattr(Point(1), "__dict__")


def test_records_are_copied_and_pickled() -> None:
    assert copy.deepcopy(Named(1)) == pickle.loads(pickle.dumps(Named(1))) == Named(1)


class Late(LateRecord):
    """One field at once, two when they are asked for."""

    first: int
    second: int
    third: int


def late(made: list[int]) -> Late:
    def rest(number: int) -> dict[str, int]:
        made.append(number)
        return {"first": 1, "second": number, "third": number + 1}

    record = object.__new__(Late)
    Late._setters[0](record, 1)
    LateRecord._late.__set__(record, (rest, 7))  # type: ignore[union-attr]
    return record


def test_a_copy_of_a_late_record_makes_what_is_left_when_it_is_asked_for() -> None:
    made: list[int] = []
    copy = late(made).replace(first=2)
    assert is_late(copy) and not made
    assert (copy.first, copy.second, copy.third) == (2, 7, 8) and made == [7]
    assert not is_late(copy)


def test_a_late_field_that_is_replaced_stays_replaced() -> None:
    copy = late([]).replace(third=0)
    assert (copy.first, copy.second, copy.third) == (1, 7, 0)
    with pytest.raises(TypeError, match="has no field 'fourth'"):
        late([]).replace(fourth=0)


@pytest.mark.parametrize("was_on", [True, False])
def test_the_garbage_collector_rests_and_is_as_it_was_then(was_on: bool) -> None:
    (gc.enable if was_on else gc.disable)()
    try:
        with pytest.raises(KeyError), Uncollected():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == was_on
    finally:
        gc.enable()
