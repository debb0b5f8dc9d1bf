"""Frozen, slotted value types: the part of ``dataclasses`` that fatpack needs, without its import.

``import dataclasses`` imports ``inspect``, ``ast`` and ``dis`` and takes as long as starting the interpreter
(``docs/design/start-up.md``). A record is declared like a dataclass, and type checkers treat it as one::

    class Span(Record):
        start: int
        end: int
        source: tuple[str, ...] = ()

As with ``@dataclass(frozen=True, slots=True)``, annotations are fields and their values defaults; ``__init__`` takes
them by position or by name; and ``==``, ``hash``, ``repr``, pickling and copying use them. Fields of the base class
come first. ``record.replace(end=9)`` is ``dataclasses.replace(record, end=9)``. There is no ``field()``: a default is
one value for all records, so it is never a list or a dict.

No class needs a hand-written ``__init__`` for speed. The general :meth:`Record.__init__` makes the first records of
each class; after that the class gets a generated one. Measured with Python 3.11: the general one takes 1.0 µs per
record of five fields, a generated one 0.6 µs, and compiling it 45 to 250 µs. A command instantiates 10 to 60 classes,
most of them less than ten times, so generating every ``__init__``, or one template for each number of fields, costs
milliseconds. A generated ``__init__`` reports wrong arguments in Python's own words; a class that people make by hand
sets ``_generate_after`` so high that errors keep naming its fields.
"""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, ClassVar, Self

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options):  # noqa: D103  (typing loads half the library; this is its decorator)
        return lambda cls: cls


#: Bytes that ``repr`` shows of a field.
_SHOWN = 32

#: Number of records of a class after which its ``__init__`` is generated: compiling takes about as long as they save.
_GENERATE_AFTER = 128


def _shown(value: object) -> str:
    """Return ``repr`` of a value; long bytes are cut, with their size."""
    if isinstance(value, (bytes, bytearray)) and len(value) > _SHOWN:
        return f"<{len(value)} bytes, {bytes(value[:_SHOWN])!r}…>"
    return repr(value)


@dataclass_transform(frozen_default=True)
class RecordType(type):
    """Turns the annotations of a class body into slots, and their values into defaults."""

    _fields: tuple[str, ...]
    _defaults: dict[str, Any]
    _is_late: bool
    _left: list[int]
    # From the first record on, or the first call of ``setters()``: most classes that a command loads make none.
    _names: frozenset[str]
    _setters: tuple[Callable[[object, object], None], ...]
    _getters: tuple[Callable[[object], object], ...]
    _all: Callable[[object], tuple[object, ...]]
    _padded: tuple[Any, ...]
    _required: int

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> RecordType:
        """Return the new class; its fields are the base's, then its own. Names in ``__slots__`` are no fields."""
        slots = tuple(namespace.get("__slots__", ()))
        own = [name for name in namespace.get("__annotations__", ()) if name not in slots]
        own_defaults = {field: namespace.pop(field) for field in own if field in namespace}
        fields, defaults, is_late, after = tuple(own), own_defaults, "_late" in slots, _GENERATE_AFTER
        for base in bases:
            if isinstance(base, RecordType):
                namespace.setdefault("__init__", Record.__init__)  # the base's may be generated, for its own fields
                fields, defaults = (*base._fields, *own), {**base._defaults, **own_defaults}
                is_late, after = is_late or base._is_late, getattr(base, "_generate_after", after)
                break
        # All of it before the class is made: assigning to a class empties the interpreter's caches. So _left is a list.
        namespace["__slots__"] = (*own, *slots)
        namespace["_fields"], namespace["_defaults"], namespace["_setters"] = fields, defaults, ()
        namespace["_is_late"], namespace["_left"] = is_late, [namespace.get("_generate_after", after)]
        return super().__new__(mcls, name, bases, namespace)

    def setters(cls) -> tuple[Callable[[object, object], None], ...]:
        """Return the functions that set the fields of a record, in order.

        Setting slots takes half the time of ``object.__setattr__``, and inspect makes 15 records per image.
        """
        if not cls._setters:
            cls._names = frozenset(cls._fields)
            cls._padded = tuple(map(cls._defaults.get, cls._fields))
            cls._required = len(cls._fields) - len(cls._defaults)
            slots = [getattr(cls, field) for field in cls._fields]
            cls._getters = tuple(slot.__get__ for slot in slots) if cls._is_late else ()
            cls._all = _one_by_one
            cls._setters = tuple(slot.__set__ for slot in slots)
        return cls._setters


def _one_by_one(record: object) -> tuple[object, ...]:
    return tuple(getattr(record, field) for field in type(record)._fields)  # type: ignore[attr-defined]


class Record(metaclass=RecordType):
    """The base class of all value types in fatpack."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        setters = cls._setters or cls.setters()
        cls._left[0] -= 1
        if cls._left[0] < 0 and cls.__init__ is Record.__init__:
            cls.__init__ = _generated(cls)  # type: ignore[method-assign]
        if not kwargs and cls._required <= len(args) <= len(cls._fields):
            values = args + cls._padded[len(args) :]
        else:
            values = _in_order(cls, args, kwargs)
        for put, value in zip(setters, values):  # noqa: B905  (as many by their making)
            put(self, value)
        if cls._is_late:
            _put_late(self, None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def _values(self) -> tuple[object, ...]:
        cls = type(self)
        if not cls._setters:
            cls.setters()
        return cls._all(self)

    def __eq__(self, other: object) -> bool:
        return self._values() == other._values() if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), self._values()))

    def __repr__(self) -> str:
        pairs = zip(type(self)._fields, self._values(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{field}={_shown(value)}' for field, value in pairs)})"

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        return type(self), self._values()

    def replace(self, **changes: Any) -> Self:
        """Return a copy in which the fields named in ``changes`` have new values. Raises TypeError for other names."""
        cls = type(self)
        cls.setters()
        if not changes.keys() <= cls._names:
            raise TypeError(_mistake(cls, 0, changes))
        values = dict(zip(cls._fields, self._values(), strict=True))
        values.update(changes)
        return cls(*values.values())


def _in_order(cls: RecordType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """Return the values of a record in the order of its fields. Raises TypeError for wrong or missing values."""
    values = {**cls._defaults, **dict(zip(cls._fields, args)), **kwargs}  # noqa: B905  (fewer arguments than fields)
    twice = bool(args) and any(map(kwargs.__contains__, cls._fields[: len(args)]))
    if values.keys() != cls._names or len(args) > len(cls._fields) or twice:
        raise TypeError(_mistake(cls, len(args), kwargs))
    return tuple(map(values.__getitem__, cls._fields))


def _mistake(cls: RecordType, given: int, kwargs: dict[str, Any]) -> str:
    """Return the message for wrong values of a record, ``given`` of which are positional."""
    fields = cls._fields
    if given > len(fields):
        return f"{cls.__name__} takes {len(fields)} values, got {given}"
    for name in kwargs:
        if name not in fields:
            return f"{cls.__name__} has no field {name!r}; it has {', '.join(fields) or 'none'}"
        if name in fields[:given]:
            return f"{cls.__name__} got {name!r} twice"
    missing = next(name for name in fields[given:] if name not in kwargs and name not in cls._defaults)
    return f"{cls.__name__} needs a value for {missing!r}"


def _generated(cls: RecordType) -> Callable[..., None]:
    """Return an ``__init__`` with the fields of a class as parameters, which sets each slot."""
    names: dict[str, Any] = {f"_put_{field}": put for field, put in zip(cls._fields, cls._setters, strict=True)}
    lines = [f"_put_{field}(self, {field})" for field in cls._fields]
    if cls._is_late:
        names["_put__late"] = _put_late
        lines.append("_put__late(self, None)")
    source = f"def __init__(self, {', '.join(cls._fields)}):\n    {'; '.join(lines) or 'pass'}\n"
    exec(source, names)
    made = names["__init__"]
    made.__defaults__ = tuple(cls._defaults[field] for field in cls._fields if field in cls._defaults)
    made.__qualname__ = f"{cls.__qualname__}.__init__"  # for Python's own TypeErrors
    if len(cls._fields) > 1:  # a getter of one name returns its value alone
        from _operator import attrgetter  # operator, which is the public name, is a module more to read

        cls._all = attrgetter(*cls._fields)
    return made  # type: ignore[no-any-return]


class LazyRecord(Record):
    """A record some of whose fields are computed on first access.

    Its creator leaves these fields empty and sets ``_late`` to a tuple: a function that returns the empty fields by
    name, and its arguments. ``_late`` is None in every other record. Users see no difference. Several threads may
    access the fields at once: each then computes equal values.
    """

    __slots__ = ("_late",)

    _late: ClassVar[Any]  # a slot of each record, declared like this so that type checkers do not make it a field

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            # Called for empty slots, and for names that are no attributes.
            cls = type(self)
            late = self._late if name in cls._fields else None
            if late is not None:
                made = late[0](*late[1:])
                for get, put, field in zip(cls._getters, cls._setters, cls._fields, strict=True):
                    if field in made:
                        try:
                            get(self)  # replace() may have set it in a copy
                        except AttributeError:
                            put(self, made[field])
                _put_late(self, None)
            return object.__getattribute__(self, name)

        def replace(self, **changes):
            """Return a copy with other values; fields that were not computed yet are computed on access of the copy."""
            cls, late, known = type(self), self._late, {}
            for get, field in zip(cls._getters, cls._fields, strict=True) if late is not None else ():
                try:
                    known[field] = get(self)
                except AttributeError:  # the field is empty
                    continue
            if late is None or not known.keys() >= changes.keys():
                return super().replace(**changes)
            made = cls.__new__(cls)
            for put, field in zip(cls._setters, cls._fields, strict=True):
                if field in known:
                    put(made, changes.get(field, known[field]))
            _put_late(made, late)
            return made


_put_late = LazyRecord._late.__set__  # the slot, not its value


def is_pending(record: LazyRecord) -> bool:
    """Return whether fields of a record are still empty; computes none."""
    return record._late is not None


class gc_paused:
    """A context in which the garbage collector is paused, for creating thousands of records.

    Records form no cycles, so searching for cycles takes time and frees nothing. Its state is restored afterwards.
    """

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()
