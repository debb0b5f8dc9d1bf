"""URIs of code objects: ``file://a%20b.so#offset=4096&size=1234``."""

from __future__ import annotations

from fatpack.record import Record

#: Characters that stay as they are. The original keeps ``#?,&%`` of names too, and cannot read such URIs then.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!*'();:@=+$/[]")


class UriRange(Record):
    """What a URI names: a protocol, the path (still encoded), and numbers as they are spelled, None where none is."""

    protocol: str
    path: str
    offset: str | None
    size: str | None


def encode_path(path: str) -> str:
    """Return a path as URIs have it."""
    data = path.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)


def decode_path(text: str) -> str:
    """Return the path that a URI spells; a ``%`` without two digits behind it stays."""
    first, *parts = text.encode("utf-8", "surrogateescape").split(b"%")
    data = bytearray(first)
    for part in parts:
        digits = part[:2].decode("latin-1")
        is_byte = len(digits) == 2 and not digits.lower().strip("0123456789abcdef")
        data += bytes([int(digits, 16)]) + part[2:] if is_byte else b"%" + part
    return data.decode("utf-8", "surrogateescape")


def parse_uri(text: str) -> UriRange:
    """Return the parts of a URI; what has no ``://`` is a protocol without a path."""
    protocol, _, rest = text.partition("://")
    at = min((place for place in (rest.find("#"), rest.find("?")) if place >= 0), default=len(rest))
    values = dict(word.partition("=")[::2] for word in rest[at + 1 :].split("&"))
    return UriRange(protocol, rest[:at], values.get("offset"), values.get("size"))


def parse_number(text: str) -> int:
    """Return a number: decimal, ``0x`` and hexadecimal, or ``0`` and octal. Raises ValueError for any other text."""
    if not text.isascii() or not text.isalnum():
        raise ValueError(text)
    is_octal = len(text) > 1 and text.startswith("0") and text.isdigit()
    return int(text, 8 if is_octal else 16 if text[:2] in ("0x", "0X") else 10)
