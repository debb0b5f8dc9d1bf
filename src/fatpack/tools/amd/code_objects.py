"""URIs of code objects: ``file://a%20b.so#offset=4096&size=1234``."""

from __future__ import annotations

import sys

from fatpack.model import Finding
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import View
    from fatpack.model import Image
    from fatpack.scanner import FoundContainer


# Stand-ins for tools of AMD's ROCm: one module per tool, and what they share.


def print_stderr(line: str) -> None:
    """Print a line on stderr, after what stdout has."""
    from fatpack.printable import printable

    sys.stdout.flush()
    sys.stderr.write(printable(line) + "\n")


#: Characters that stay as they are. The original keeps ``#?,&%`` of names too, and cannot read such URIs then.
_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~!*'();:@=+$/[]")


class UriRange(Record):
    """The parts of a URI: protocol, path (still encoded), and numbers as they are spelled; None if absent."""

    protocol: str
    path: str
    offset: str | None
    size: str | None


def encode_path(path: str) -> str:
    """Return a path as URIs have it."""
    data = path.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in data)


def decode_path(text: str) -> str:
    """Return the path that a URI spells; a ``%`` without two digits after it stays."""
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


# Option parsing as Perl's Getopt::Std does it: letters after one dash, several at once, a value after its letter.
#
# The first word that is no option ends them, as ``--`` does. An unknown letter is reported and ignored. Source:
# Perl 5.36 beside this (``tests/tools/amd/test_roc_obj_reference.py``).


def parse_options(arguments: Sequence[str], letters: str) -> tuple[dict[str, str], list[str]]:
    """Return the options by their letters (flags: "1"), and the other words; ``letters`` is as Perl has it: ``vho:``.

    ``--help`` is ``h``, and ``--version`` is ``version``.
    """
    found: dict[str, str] = {}
    words = list(arguments)
    while words and len(words[0]) > 1 and words[0].startswith("-"):
        word = words.pop(0)
        if word == "--":
            break
        if word in ("--help", "--version"):
            found["h" if word == "--help" else "version"] = "1"
            break
        rest = word[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            place = letters.find(letter) if letter != ":" else -1
            if place < 0:
                print_stderr(f"Unknown option: {letter}")
            elif letters[place + 1 : place + 2] != ":":
                found[letter] = "1"
            elif rest or words:
                found[letter], rest = rest or words.pop(0), ""
    return found, words


def print_if_asked(options: Mapping[str, str], name: str, text: str) -> bool:
    """Print the version or the help of a tool if an option requests it; return whether one does."""
    from fatpack.tools.versions import version_text

    if "version" in options:
        sys.stdout.write(f"{name}: {version_text(name, 'ROCm 5 to 7')}\n")
    elif "h" in options:
        sys.stdout.write(text)
    return "version" in options or "h" in options


# The code objects that AMD's scripts list: where each lies in a file, for what it is, and its bytes.

_FORMAT, _SECTION = "clang-offload-bundle", ".hip_fat"


class HipBundle(Record):
    """A bundle of HIP's."""

    found: FoundContainer

    @property
    def at(self) -> int:
        """Its offset in the file."""
        return self.found.span.start

    @property
    def is_compressed(self) -> bool:
        """True if it is compressed as a whole: its entries have no offsets in the file then."""
        return "compression" in self.found.container.attrs

    @property
    def entries(self) -> Iterator[tuple[str, int, int]]:
        """ID, offset in the file and size of each entry; of one that is compressed the offset means nothing."""
        for image in self.found.images:
            yield _id(image.as_stored), image.as_stored.span.start, image.as_stored.span.size

    @property
    def images(self) -> Iterator[tuple[str, View]]:
        """ID and bytes of each entry."""
        for image in self.found.images:
            yield _id(image.as_stored), image.data


def _id(image: Image) -> str:
    stored = image.attrs.get("id")
    if stored is not None:
        return stored
    from fatpack.selectors.bundle_id_match import bundle_id

    return bundle_id(image)


def list_bundles(view: View) -> Iterator[HipBundle | Finding]:
    """Yield the bundles of a file that HIP's runtime loads, or the file is, and findings about what is damaged."""
    from fatpack.scanner import scan

    for item in scan(view, checks_registration=False, identifies_images=False):
        if isinstance(item, Finding):
            if item.severity == "error":
                yield item
        elif item.format == _FORMAT and (item.section or _SECTION).startswith(_SECTION):
            yield HipBundle(item)
