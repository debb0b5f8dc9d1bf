"""Frozen, slotted value types: what ``dataclasses`` offers, without its import.

``import dataclasses`` pulls ``inspect``, ``ast`` and ``dis`` and takes as long as starting the interpreter
(see ``docs/design/start-up.md``), which a command that answers in two interpreter starts cannot pay. A record
is declared like a dataclass; type checkers see it as one::

    class Span(Record):
        start: int
        end: int
        source: tuple[str, ...] = ()

Records compare by value, hash by value if their values can, and cannot be changed; :meth:`Record.replace` makes a
changed copy.
"""

from __future__ import annotations

import gc

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Self

    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_options):  # noqa: D103  (typing loads half the library; this is its decorator)
        return lambda cls: cls


#: Bytes of a field that its record shows.
_SHOWN = 32


def _shown(value: object) -> str:
    """Return a value as the record's text has it: of long bytes, the first ones and how many there are."""
    if isinstance(value, (bytes, bytearray)) and len(value) > _SHOWN:
        return f"<{len(value)} bytes, {bytes(value[:_SHOWN])!r}…>"
    return repr(value)


@dataclass_transform(frozen_default=True)
class RecordType(type):
    """Turns the annotations of a class body into slots, and their values into defaults."""

    _fields: tuple[str, ...]
    _names: frozenset[str]
    _setters: tuple[Callable[[object, object], None], ...]
    _getters: tuple[Callable[[object], object], ...]
    _defaults: dict[str, Any]

    def __new__(mcls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> RecordType:
        """Return the new record class; its fields are the base's, then its own, in order. Slots it names are none."""
        slots = tuple(namespace.get("__slots__", ()))
        own = tuple(name for name in namespace.get("__annotations__", ()) if name not in slots)
        own_defaults = {field: namespace.pop(field) for field in own if field in namespace}
        namespace["__slots__"] = (*own, *slots)
        cls = super().__new__(mcls, name, bases, namespace)
        inherited = next((base for base in bases if isinstance(base, RecordType)), None)
        cls._fields = (*inherited._fields, *own) if inherited else own
        cls._names = frozenset(cls._fields)
        cls._defaults = {**inherited._defaults, **own_defaults} if inherited else own_defaults
        # The slots' own setters: half the time of object.__setattr__, and inspect makes 15 records per image.
        cls._setters = tuple(getattr(cls, field).__set__ for field in cls._fields)
        if hasattr(cls, "_late"):
            cls._getters = tuple(getattr(cls, field).__get__ for field in cls._fields)
        return cls


class Record(metaclass=RecordType):
    """The base of every value type in fatpack; see the module's docstring."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        given, setters = len(args), cls._setters
        if not given:  # rows have forty fields, and thousands of rows are made by name
            values = {**cls._defaults, **kwargs}
            if len(values) == len(setters) and values.keys() == cls._names:
                for put, field in zip(setters, cls._fields):  # noqa: B905  (as many by their making)
                    put(self, values[field])
                return
        if given > len(setters):
            raise TypeError(f"{cls.__name__} takes {len(setters)} values, got {given}")
        for put, value in zip(setters, args):  # noqa: B905  (fewer values than fields is the usual case)
            put(self, value)
        if given < len(setters):
            defaults = cls._defaults
            for put, field in zip(setters[given:], cls._fields[given:], strict=True):
                if field in kwargs:
                    put(self, kwargs.pop(field))
                elif field in defaults:
                    put(self, defaults[field])
                else:
                    raise TypeError(f"{cls.__name__} needs a value for {field!r}")
        if kwargs:
            name = next(iter(kwargs))
            if name in cls._fields:
                raise TypeError(f"{cls.__name__} got {name!r} twice")
            raise TypeError(f"{cls.__name__} has no field {name!r}; it has {', '.join(cls._fields) or 'none'}")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; use replace({name}=...)")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen")

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, field) for field in type(self)._fields)

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
        """Return a copy in which the fields named in ``changes`` have the given values."""
        values = dict(zip(type(self)._fields, self._values(), strict=True))
        return type(self)(**{**values, **changes})


class LateRecord(Record):
    """A record of which some fields may be made when one of them is first asked for.

    Whoever makes it so leaves these fields empty and puts into ``_late`` a function, with the values for it, that
    returns the empty fields by name; in all others ``_late`` is None. To those who use it, it is a record like any
    other. Several threads may ask at once: each then makes equal values.
    """

    __slots__ = ("_late",)

    _late: tuple[Any, ...] | None

    if not TYPE_CHECKING:

        def __getattr__(self, name):
            # Asked for empty slots, and for names that no record of this class has.
            cls = type(self)
            late = self._late if name in cls._fields else None
            if late is not None:
                made = late[0](*late[1:])
                for get, put, field in zip(cls._getters, cls._setters, cls._fields, strict=True):
                    if field in made:
                        try:
                            get(self)  # a copy may have been given another value
                        except AttributeError:
                            put(self, made[field])
                _put_late(self, None)
            return object.__getattribute__(self, name)

        def replace(self, **changes):
            """Return a copy with other values; what was not made yet is made for it when it is asked for."""
            cls, late, known = type(self), self._late, {}
            for get, field in zip(cls._getters, cls._fields, strict=True) if late is not None else ():
                try:
                    known[field] = get(self)
                except AttributeError:  # it is one of those
                    continue
            if late is None or not known.keys() >= changes.keys():
                return super().replace(**changes)
            made = cls.__new__(cls)
            for put, field in zip(cls._setters, cls._fields, strict=True):
                if field in known:
                    put(made, changes.get(field, known[field]))
            _put_late(made, late)
            return made


_put_late = LateRecord._late.__set__  # type: ignore[union-attr]  # the slot, not its value


def is_late(record: LateRecord) -> bool:
    """Return whether fields of a record were not made yet; asking makes none."""
    return record._late is not None


class Uncollected:
    """While thousands of records are made: they form no cycles, so looking for cycles takes time and frees nothing.

    Afterwards the garbage collector is as it was.
    """

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()
