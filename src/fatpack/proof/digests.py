"""The digest of a whole file."""

from __future__ import annotations

from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View


def file_digest(view: View) -> str:
    """Return the SHA-256 of all bytes of a view in hexadecimal digits."""
    found = sha256()
    for piece in view.once():
        found.update(piece)
    return found.hexdigest()
