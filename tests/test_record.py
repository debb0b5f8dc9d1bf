"""Records behave as frozen dataclasses do."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest

from fatpack.record import LazyRecord, Record, RecordType, gc_paused, is_pending


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


def made_often(name: str, bases: tuple[type, ...] = (Point,), **fields: object) -> type:
    """Return a record class of which so many were made that it has an ``__init__`` of its own."""
    cls = RecordType(name, bases, {"__annotations__": dict.fromkeys(fields, "int"), **fields})
    assert cls.__init__ is Record.__init__
    for number in range(200):
        assert cls(number) == cls(x=number)
    assert cls.__init__ is not Record.__init__
    return cls


def test_a_class_of_which_many_are_made_gets_an_init_of_its_own_and_its_subclasses_theirs() -> None:
    often = made_often("Often", z=5)
    assert often.__init__.__code__.co_varnames == ("self", "x", "y", "z")
    assert repr(often(1, z=7)) == "Often(x=1, y=2, z=7)"
    assert repr(made_often("More", (often,), n=0)(1, 2, 3, 4)) == "More(x=1, y=2, z=3, n=4)"
    assert Point.__init__ is not often.__init__


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "'x'"),
        ((1, 2, 3, 4), {}, "4"),
        ((1,), {"w": 1}, "'w'"),
        ((1,), {"x": 1}, "'x'"),
        ((), {"y": 1}, "'x'"),
        ((), {"x": 1, "w": 1}, "'w'"),
    ],
)
def test_a_wrong_value_is_named_by_the_first_and_by_later_records(
    args: tuple[int, ...], kwargs: dict[str, int], said: str
) -> None:
    for cls in (RecordType("Few", (Point,), {}), made_often("Often", z=5)):
        with pytest.raises(TypeError, match=f"{cls.__name__}.*{said}"):
            cls(*args, **kwargs)
    with pytest.raises(TypeError, match="Often has no field 'w'; it has x, y, z"):
        cls(1).replace(w=1)


def test_a_late_class_of_which_many_are_made_is_whole() -> None:
    often = [Late(number, 0, 0) for number in range(200)]
    assert Late.__init__ is not Record.__init__
    assert not any(map(is_pending, often))


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


class Late(LazyRecord):
    """One field at once, two when they are asked for."""

    first: int
    second: int
    third: int


def late(made: list[int]) -> Late:
    def rest(number: int) -> dict[str, int]:
        made.append(number)
        return {"first": 1, "second": number, "third": number + 1}

    record = object.__new__(Late)
    Late.setters()[0](record, 1)
    LazyRecord._late.__set__(record, (rest, 7))
    return record


def test_a_copy_of_a_late_record_makes_what_is_left_when_it_is_asked_for() -> None:
    made: list[int] = []
    copy = late(made).replace(first=2)
    assert is_pending(copy) and not made
    assert (copy.first, copy.second, copy.third) == (2, 7, 8) and made == [7]
    assert not is_pending(copy)


def test_a_late_field_that_is_replaced_stays_replaced() -> None:
    copy = late([]).replace(third=0)
    assert (copy.first, copy.second, copy.third) == (1, 7, 0)
    with pytest.raises(TypeError, match="has no field 'fourth'"):
        late([]).replace(fourth=0)


@pytest.mark.parametrize("was_on", [True, False])
def test_the_garbage_collector_rests_and_is_as_it_was_then(was_on: bool) -> None:
    (gc.enable if was_on else gc.disable)()
    try:
        with pytest.raises(KeyError), gc_paused():
            assert not gc.isenabled()
            raise KeyError
        assert gc.isenabled() == was_on
    finally:
        gc.enable()
