"""Public names on their way out: until they go they work, and say what takes their place.

``docs/stability.md`` has the promise. They warn with ``DeprecationWarning``.
"""

from __future__ import annotations

from fatpack.record import Record


class Deprecated(Record):
    """What takes a name's place, the version that said so first, and the first version without the old name."""

    instead: str
    since: str
    until: str

    def words(self, what: str) -> str:
        """Return the warning of one who uses the old name."""
        return f"{what} is deprecated since {self.since} and goes in {self.until}; use {self.instead}"
