"""A container that is put together from sections of a host, and where it lies."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Container


class CombinedContainer(Record):
    """A container, its own bytes, and the section it lies in by name and number; a fat object lies in none."""

    container: Container
    data: View
    section: str | None = None
    index: int | None = None
