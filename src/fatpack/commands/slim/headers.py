"""METADATA and WHEEL: headers as in mail, of which one line changes and all others stay to the byte."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


def header_value(data: bytes, name: str) -> str:
    """Return the value of the first header of a name, "" if there is none."""
    return next((text for _, _, key, text in _headers(data) if key == name.lower()), "")


def with_header_value(data: bytes, name: str, text: str, *, behind: str = "") -> bytes:
    """Return the bytes with a header's value exchanged; a new header comes behind the last one of the name ``behind``.

    Without such a header it comes first.
    """
    place, line_end = 0, b"\n"
    for start, end, key, _ in _headers(data):
        if start == 0:
            line_end = b"\r\n" if data[:end].endswith(b"\r\n") else b"\n"
        if key == name.lower():
            line = data[start:end]
            tail = line[len(line.rstrip(b"\r\n")) :]
            return data[:start] + line.partition(b":")[0] + b": " + text.encode() + tail + data[end:]
        if key == behind.lower():
            place = end
    if place and not data[:place].endswith(b"\n"):
        return data + line_end + f"{name}: {text}".encode()
    return data[:place] + f"{name}: {text}".encode() + line_end + data[place:]


def _headers(data: bytes) -> Iterator[tuple[int, int, str, str]]:
    """Yield where each header's first line starts and ends, its name in small letters and its value."""
    at = 0
    while at < len(data):
        end = data.find(b"\n", at) + 1 or len(data)
        line = data[at:end].rstrip(b"\r\n")
        if not line:
            return  # what follows is the description
        name, colon, text = line.partition(b":")
        if colon and not line[:1].isspace():
            yield at, end, name.decode("ascii", "replace").lower(), text.strip().decode("utf-8", "replace")
        at = end
