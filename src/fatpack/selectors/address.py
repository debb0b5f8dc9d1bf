"""Addresses of bytes in files: one syntax for every command.

=====================  ==========================================================================================
``PATH``               a file
``PATH(MEMBER)``       a member of an archive; ``PATH(INNER)(MEMBER)`` of an archive in an archive, also written
                       ``PATH(INNER(MEMBER))``, as reports name such members
``PATH!NAME``          a file in a package, and ``PATH!NAME!NAME`` one in a package in it; ``!#3`` is the file of number
                       3. Then ``(MEMBER)``, if that is an archive
``PATH#offset=N``      the bytes of a file from N on, ``PATH#offset=N&size=N`` so many of them; with a member between,
                       as ``inspect -v`` prints it, N still counts from the start of the file
=====================  ==========================================================================================

A ``PATH`` is also a URL; parentheses and ``!`` of its own are percent-encoded. A ``MEMBER`` is a name; ``NAME:2``, the
second of several members with that name; or ``#3``, the member of number 3, counted from 0 as all positions are.
Existing files and members win: a file with exactly the whole text as its name, a member with exactly that name.
"""

from __future__ import annotations

import os

from fatpack import binary
from fatpack.errors import UsageError
from fatpack.io.open import open_source, resolve_url
from fatpack.io.source import Source
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scanner import detect_host
from fatpack.scanner.context import detect_package

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.binary import CodeSection
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Piece, View


#: Names that an error lists
_NAMED = 5


def find_member(view: View, text: str) -> tuple[CodeSection, str]:
    """Return the first member in an address, and the rest of the address."""
    title = view.chain[-1] if view.chain else "the input"
    host = detect_host(view)
    if host == "raw" or not binary.MODULES[host].has_members:
        raise UsageError(f"{title} is no archive: it has no member {text}")
    sites: list[CodeSection] = []
    findings: list[Finding] = []
    for item in binary.get_host(host).locate(view):
        if isinstance(item, Finding):
            findings.append(item)
        else:
            sites.append(item)
    for name, rest in _readings(text):
        site = _named(sites, name, title)
        if site is not None:
            return site, rest
    present = [site.member or "" for site in sites[:_NAMED]]
    more = [f"… {len(sites) - _NAMED} more"] if len(sites) > _NAMED else []
    hint = f"present are {', '.join([*present, *more])}" if sites else "it has no members"
    raise UsageError(f"{title} has no member {text}", hint="; ".join([hint, *(item.message for item in findings[:1])]))


def path_candidates(text: str) -> Iterator[str]:
    """Yield the possible paths before a member in parentheses, longest first."""
    at = text.rfind("(")
    while at > 0:
        yield text[:at]
        at = text.rfind("(", 0, at)


def _readings(text: str) -> Iterator[tuple[str, str]]:
    """Yield (name of the member, rest of the address): names may contain parentheses, so the longest comes first."""
    yield text, ""
    at = text.rfind(")(")
    while at >= 0:
        yield text[:at], text[at + 2 :]
        at = text.rfind(")(", 0, at)
    if text.endswith(")"):
        for start in path_candidates(text):
            yield start, text[len(start) + 1 : -1]


def _named(sites: Sequence[CodeSection], name: str, title: str) -> CodeSection | None:
    """Return the member with a name, with or without its occurrence, or with a number, if there is exactly one."""
    same = [site for site in sites if site.member == name]
    if len(same) == 1:
        return same[0]
    if same:
        raise _ambiguous(same, name, title)
    base, colon, digits = name.rpartition(":")
    same = [site for site in sites if colon and site.member == base]
    if same and digits.isascii() and digits.isdigit():
        if not 1 <= _count(digits) <= len(same):
            raise UsageError(f"{title} has {len(same)} of the name {base}", hint=f"they are {base}:1 to :{len(same)}")
        return same[_count(digits) - 1]
    if name.startswith("#") and name[1:].isascii() and name[1:].isdigit():
        return next((site for site in sites if site.index == _count(name[1:])), None)
    return None


def _count(digits: str) -> int:
    """Return a number, reduced to its first 20 digits: Python refuses to convert thousands of digits."""
    return int(digits.lstrip("0")[:20] or "0")


def _ambiguous(same: Sequence[CodeSection], name: str, title: str) -> UsageError:
    choices = [f"({name}:{place}) or (#{site.index}), {len(site.data)} bytes" for place, site in enumerate(same, 1)]
    more = [f"… {len(choices) - _NAMED} more"] if len(choices) > _NAMED else []
    return UsageError(
        f"{title} has {len(same)} members of the name {name}", hint="write " + "; ".join([*choices[:_NAMED], *more])
    )


class Address(Record):
    """The parts of an address. ``members`` is the text in parentheses, "" for the file itself; ``offset`` and ``size``
    are None for an address without bytes. ``inside`` is the text after the ``!`` of a package: only the package shows
    where the names in it end, so following parentheses are included.
    """

    path: str
    members: str = ""
    offset: int | None = None
    size: int | None = None
    inside: str = ""

    @property
    def file(self) -> str:
        """The address without offset and size."""
        inside = f"!{self.inside}" if self.inside else ""
        return f"{self.path}{inside}({self.members})" if self.members else f"{self.path}{inside}"


class Location(Record):
    """The bytes of an address, their name, and the archives around them, outermost first.

    Universal files are archives here. Each archive comes with the number of the member inside it.
    """

    view: View
    name: str
    archives: tuple[tuple[View, int], ...] = ()

    def around(self, pieces: Iterable[Piece]) -> Iterable[Piece]:
        """Return the whole file with these chunks in place of the bytes. Raises HostError, FormatError."""
        for outer, number in reversed(self.archives):
            pieces = binary.get_rewriter(detect_host(outer)).rewrite(outer, {number: list(pieces)})
        return pieces


def parse_address(text: str, *, ranges: bool = False, packages: bool = False) -> Address:
    """Return the parts of an address; the file must exist, and is not opened. Raises UsageError.

    Without ``packages`` a file in a package is refused, because it cannot be replaced there. ``ranges`` allows an
    offset, decimal, ``0x`` hexadecimal or ``0`` octal as in ROCm's addresses of code objects, the prefix ``file://``,
    and percent-encoding in the path.
    """
    if os.path.lexists(text):
        return Address(text)
    address = _parsed(text, ranges=ranges)
    if address.inside and not packages:
        hint = "unpack it, edit that file, and pack it again"
        raise UsageError(f"{address.file} is in a package, and packages are only read", hint=hint)
    return address


def _parsed(text: str, *, ranges: bool) -> Address:
    if "://" in text:
        url = resolve_url(text)
        if hasattr(url, "full_url"):
            return _in_url(url, url.full_url, ranges=ranges)
        text = url
    offset = size = None
    place = _offset_at(text) if ranges else -1
    if place >= 0:
        offset, size = _range(text, text[place + 1 :])
        text = _unquoted(text[:place])
    path = text
    if text.endswith(")") and not os.path.lexists(text):
        path = next((start for start in path_candidates(text) if start == "-" or os.path.lexists(start)), text)
    members = text[len(path) + 1 : -1]
    if path != text and not members:
        raise UsageError(f"address {text!r}: the member has no name", hint=f"write {path} for the whole file")
    inside = ""
    if path == text and "!" in text and not os.path.lexists(text):
        path, inside = _package(text)
    return Address(path, members, offset, size, inside)


def _package(text: str) -> tuple[str, str]:
    """Return the path of a package and the text after its ``!``: the longest path that exists."""
    at = text.rfind("!")
    while at > 0:
        if text[:at] == "-" or os.path.isfile(text[:at]):
            return text[:at], text[at + 1 :]
        at = text.rfind("!", 0, at)
    return text, ""


def _in_url(url: str, given: str, *, ranges: bool) -> Address:
    """Return the parts of an address in a URL; ``given`` is the complete address."""
    from fatpack.io.url import split_address

    path, inside, members, place = split_address(given)
    offset = size = None
    if place and ranges:
        offset, size = _range(url, f"offset={place}")
    return Address(resolve_url(path), members, offset, size, inside)


def _offset_at(text: str) -> int:
    """Return the position of the offset in an address, -1 if there is none."""
    return max(text.rfind(f"{sign}offset=") for sign in "#?")


def _unquoted(path: str) -> str:
    if not path.startswith("file://"):
        return path
    from urllib.parse import unquote_to_bytes

    return os.fsdecode(unquote_to_bytes(os.fsencode(path[len("file://") :])))


def format_range(path: str, offset: int, size: int) -> str:
    """Return the address of bytes in a file, as :func:`parse_address` reads it.

    A path that is such an address itself is replaced by its file, from which offsets count. A path that fatpack, a
    shell or a terminal could misread is percent-encoded after ``file://``, as ROCm writes all addresses of code
    objects.
    """
    if _offset_at(path) >= 0 and not hasattr(path, "names"):
        address = parse_address(path, ranges=True, packages=True)
        path = address.file
        is_inside = bool(address.inside)
    else:
        is_inside = hasattr(path, "names")  # a fatpack.inputs.files.MemberPath
    if _is_remote(path) and not (is_inside and "#" in path):
        return f"{path}#offset={offset:#x}&size={size:#x}"  # percent-encoded as it is
    special = " #?%&\"'$`\\*;|<>" if is_inside else " #?%&\"'$`\\*;|<>!"
    if not path.isprintable() or any(char in special for char in path) or path.startswith("file:"):
        from urllib.parse import quote_from_bytes

        path = "file://" + quote_from_bytes(os.fsencode(path), safe="/!" if is_inside else "/")
    return f"{path}#offset={offset:#x}&size={size:#x}"


def _is_remote(path: str) -> bool:
    if "://" not in path:
        return False
    from fatpack.io.url import REMOTE, find_scheme

    return find_scheme(path) in REMOTE


def _range(text: str, query: str) -> tuple[int, int | None]:
    values: dict[str, int] = {}
    for part in query.split("&"):
        key, _, value = part.partition("=")
        if key not in ("offset", "size"):
            raise UsageError(f"address {text!r}: unknown part {part!r}", hint="write PATH#offset=N&size=N")
        if key in values:
            raise UsageError(f"address {text!r}: {key} is given twice", hint="write PATH#offset=N&size=N")
        values[key] = _number(text, value)
    return values["offset"], values.get("size")


def _number(text: str, value: str) -> int:
    if not (value.isascii() and value.isalnum()):
        value = ""
    base = 16 if value[:2].lower() == "0x" else 8 if value[:1] == "0" and len(value) > 1 else 10
    try:
        number = int(value, base)
    except ValueError:
        number = -1
    if number < 0:
        raise UsageError(f"address {text!r}: {value!r} is no number", hint="write PATH#offset=N&size=N")
    return number


def open_file(address: Address) -> tuple[Source | NestedFile, Address]:
    """Open the file of an address, also in packages, and return the address in that file.

    Closing the file closes the packages too. Raises UsageError, FormatError, Unsupported and ``OSError``.
    """
    source = open_source(address.path)
    if not address.inside:
        return source, address
    from fatpack.inputs.nested import open_nested

    file = open_nested(source, address.inside)
    return file, Address(file.name, file.rest[1:-1], address.offset, address.size)


def outermost_view(file: Source | NestedFile) -> View:
    """Return the bytes of an open file; for a file in packages, those of the outermost package."""
    return (file if isinstance(file, Source) else file.package).view()


def is_address(text: str) -> bool:
    """Return whether a text may be an address inside a file: ``x.whl!libx.so``, ``libx.a(m.o)``."""
    return text.endswith(")") or "offset=" in text or "!" in text


def open_location(text: str, *, ranges: bool = False) -> tuple[Source | NestedFile, Location]:
    """Open the file of an address and find its bytes; ``ranges`` allows offsets. Raises UsageError, ``OSError``.

    The name of bytes with an offset is the whole address.
    """
    source, address = open_file(parse_address(text, ranges=ranges, packages=True))
    try:
        place = find_location(source.view(), address)
        if address.offset is not None:
            view = named_bytes(place.view, address).replace(chain=(text,))
            place = Location(view, text)
        return source, place
    except BaseException:
        source.close()
        raise


def open_argument(path: str) -> tuple[Source | NestedFile, View]:
    """Open what an argument names, and return it with its bytes.

    That is a file, a URL, a file in a package (x.whl!libx.so), a member of an archive (libx.a(m.o)), or an address as
    reports print it (F#offset=0x10&size=0x20).
    """
    path = resolve_url(path)
    given = getattr(path, "full_url", path)
    if not is_address(given):
        source = open_source(path)
        return source, source.view()
    file, place = open_location(path, ranges=True)
    return file, place.view


def refuse_package(view: View, hint: str = "unpack it, edit the files in it, and pack it again") -> None:
    """Raise UsageError for a package: files in it cannot be edited in place. ``hint`` is the advice."""
    if detect_package(view):
        raise UsageError("this is a package, and packages are only read", hint=hint, chain=view.chain)


def find_location(view: View, address: Address) -> Location:
    """Return the location of an address in its file. Raises UsageError with the names that exist."""
    archives: list[tuple[View, int]] = []
    # A file in a package has its own name, without the path of the package.
    name, rest = getattr(view.source.name, "names", (view.source.name,))[-1], address.members
    while rest:
        site, rest = find_member(view, rest)
        archives.append((view, site.number))
        view, name = site.data, site.member or name
    return Location(view, name, tuple(archives))


def named_bytes(view: View, address: Address) -> View:
    """Return the bytes at the offset of an address in its file or member. Raises UsageError if outside."""
    offset = address.offset or 0
    end = view.end if address.size is None else offset + address.size
    if not view.start <= offset <= end <= view.end:
        whole = f"{view.start:#x} to {view.end:#x}" if view.start else f"{len(view):#x} bytes"
        raise UsageError(f"{view.chain[0]}: {offset:#x} to {end:#x} is outside the file ({whole})")
    return view.slice(offset - view.start, end - offset)
