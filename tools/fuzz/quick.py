"""The fast parser of a format against the general one: both must give the same for every file."""

from __future__ import annotations

from collections.abc import Callable

from tests.laws.test_quick_ways import QUICK, told
from tools.fuzz.checks import Failure

from fatpack.io.source import BytesSource

NAMES = tuple(QUICK)


def both_ways(name: str) -> Callable[[bytes], str]:
    """Return a function that parses a container with both parsers, and fails if fields or findings differ."""

    def run(data: bytes) -> str:
        room = QUICK[name]
        read = room.read_fast
        is_quick = read(BytesSource(data, "x").view(), 0) is not None
        quickly = told(name, data)
        room.read_fast = lambda _view, _at: None  # type: ignore[attr-defined]
        try:
            thoroughly = told(name, data)
        finally:
            room.read_fast = read  # type: ignore[attr-defined]
        if quickly != thoroughly:
            raise Failure("both ways differ")
        return f"{is_quick} {quickly[:40] if isinstance(quickly, str) else len(str(quickly)).bit_length()}"

    return run
