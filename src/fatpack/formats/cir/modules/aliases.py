"""What aliases of attributes stand for, for the few attributes of modules that are read."""

from __future__ import annotations

from fatpack.formats.cir.text.definitions import read_definitions
from fatpack.formats.cir.text.header import LONGEST
from fatpack.formats.cir.text.lexer import Lexer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View


class AliasDefinitions:
    """The alias definitions of a file; gone through once, when the first is asked for."""

    def __init__(self, view: View, runs: Sequence[tuple[int, int]]) -> None:
        self._view = view
        self._runs = runs
        self._values: dict[bytes, tuple[int, int]] | None = None

    def value(self, name: bytes) -> bytes | None:
        """Return what an alias stands for, through aliases of aliases; None for one that is not defined."""
        seen = set()
        found: bytes | None = None
        while name not in seen and name in self._spans():
            seen.add(name)
            start, end = self._spans()[name]
            name = found = self._view.read(start, min(end - start, LONGEST))
        return found

    def _spans(self) -> dict[bytes, tuple[int, int]]:
        if self._values is None:
            text = Lexer(self._view)
            self._values = {}
            for start, end in self._runs:
                for definition in read_definitions(text, start, end):
                    if definition.name.startswith(b"#"):
                        self._values.setdefault(definition.name, (definition.value, definition.end))
        return self._values
