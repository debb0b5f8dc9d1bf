"""What the names of an object's sections say, remembered for the objects after it.

The members of an archive come from one compiler, and most have the same sections: the table of their names and where
in it each name starts are the same bytes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import TypeAlias, TypeVar

    from fatpack.elf.file import ElfFile

    Key: TypeAlias = "tuple[bytes, tuple[int, ...]]"
    T = TypeVar("T")

#: LIMIT: bytes of a table of names, and tables, that are remembered: 4 MB at most with what is said of them.
_SIZE, _COUNT = 4096, 64


def key_of(elf: ElfFile, names_at: Sequence[int]) -> Key | None:
    """Return what the names of all sections are known by, None for tables that are too large to be remembered.

    Raises BadValue when the file has no table of names, or one that lies outside.
    """
    names = elf.names_table()
    return (names.tobytes(), tuple(names_at)) if len(names) <= _SIZE and len(names_at) <= _SIZE // 8 else None


def remember(known: dict[Key, T], key: Key, value: T) -> None:
    """Keep what was found out for a key; too many of them are forgotten together."""
    if len(known) >= _COUNT:
        known.clear()
    known[key] = value
