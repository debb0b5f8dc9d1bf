"""Reader of Metal libraries: the header, the list of functions, and the extension of the header.

The bitcode is not read: the list has everything that a listing says. :mod:`fatpack.formats.metallib.content` compares
the two. Every offset and size is checked before it is used.
"""

from __future__ import annotations

from struct import Struct

from fatpack import limits
from fatpack.errors import FormatError, format_hex, pluralize
from fatpack.formats.diagnostics import FindingCollector
from fatpack.formats.metallib.layout import (
    COUNT,
    END,
    FUNCTION_TYPES,
    HEADER,
    IS_MACOS,
    KINDS,
    LEAST_GROUP,
    MAGIC,
    METALLIB_FORMAT,
    PLATFORMS,
    TAG,
    MetalFunction,
    MetalHeader,
    metallib_errors,
)
from fatpack.model import Container, Image, Target

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.io.source import View

#: LIMIT: bytes of the extension of a header, whose tags have up to 24 bytes each, and of a dynamic section.
_EXTENSION = 1 << 20

_FIELDS = ("list", "public", "private", "bitcode")

_GROUP = Struct("<I")
_TAG_SIZE = Struct("<H")
_OFFSETS = Struct("<3Q")
_SIZE = Struct("<Q")
_POINTER = Struct("<2Q")
_VERSIONS = Struct("<4H")

#: system by which a triple names a library without a stated platform
_OLD_SYSTEMS = ("ios", "macosx")

#: language version → the first macOS and the first iOS that load it. Where only macOS is known, iOS is left out.
FIRST_SYSTEM = {
    (3, 0): {"macOS": (13, 0)},
    (3, 1): {"macOS": (14, 0), "iOS": (17, 0)},
    (3, 2): {"macOS": (15, 0), "iOS": (18, 0)},
    (4, 0): {"macOS": (26, 0)},
    (4, 1): {"macOS": (27, 0)},
}


def needed_system(image: Image) -> str:
    """Return the system that a function needs, ``macOS 14.0``; ``macOS`` alone where no version is known.

    That is the later of what its library states, which is in its triple, and what first loads its language. The
    languages before the first of :data:`FIRST_SYSTEM` are loaded by all systems that it names.
    """
    system = image.target.triple.partition("-apple-")[2]
    for name, words in PLATFORMS.values():
        start, _, end = words.partition("{}")
        numbers = system[len(start) :].removesuffix(end)
        if system.startswith(start) and system.endswith(end) and not numbers.strip("0123456789."):
            stated = tuple(int(part) for part in numbers.split(".") if part)
            language = tuple(int(part) for part in str(image.attrs.get("metal") or "0.0").split("."))
            first = FIRST_SYSTEM.get((language[0], language[1]), {}).get(name, ())
            version = max(stated, first)
            return f"{name} {version[0]}.{version[1]}" if len(version) > 1 else name
    return ""


def detect(view: View, at: int = 0) -> bool:
    """Return whether a Metal library seems to start at ``at``: the magic, and a list after the header."""
    head = view.head(at, HEADER.size)
    return head.startswith(MAGIC) and len(head) == HEADER.size and _seems_right(head)


def _seems_right(head: bytes) -> bool:
    values = HEADER.struct.unpack(head)
    size, start = values[HEADER.position("size")], values[HEADER.position("list_offset")]
    return bool(HEADER.size <= start < size)


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the header claims for the library at ``at``, if they are there."""
    head = view.head(at, HEADER.size)
    if not head.startswith(MAGIC) or len(head) < HEADER.size or not _seems_right(head):
        return None
    size: int = HEADER.struct.unpack(head)[HEADER.position("size")]
    if size > len(view) - at:
        return None
    try:
        body, values = _header(view, at)
        named = dict(zip((field.name for field in HEADER.fields), values, strict=True))
        end = named["list_offset"] + COUNT.size + named["list_size"]
        _check_size(view, at, named, _extension(body, end, named, FindingCollector())[0])
    except FormatError:
        return None
    return size


def parse(view: View, at: int = 0) -> Container:
    """Return the library that starts at ``at``, an image for each function in the order of the list.

    Raises BadMagic, Truncated, BadValue and LimitExceeded; offsets are absolute. A damaged function is a finding.
    """
    body, values = _header(view, at)
    faults = FindingCollector()
    named = dict(zip((field.name for field in HEADER.fields), values, strict=True))
    start, size = named["list_offset"], named["list_size"]
    end = start + COUNT.size + size
    count, data = _list(body, start, end)
    triples = _Triples(named)
    images = list(_functions(body, data, count, start, named, triples, faults))
    tags, extension_end = _extension(body, end, named, faults)
    _check_size(view, at, named, tags)
    texts, install_name, linked = _texts(body, named, tags, faults)
    header = MetalHeader(tuple(values), end, extension_end, tags, install_name, linked, body, len(images))
    _check_names(body, images, faults)
    _check_language(body, images, named, texts, faults)
    _check_paths(body, named, count, faults)
    return Container(
        format=METALLIB_FORMAT,
        version=0,
        images=tuple(images),
        span=body.span(),
        attrs=texts,
        findings=tuple(faults.findings),
        record=header,
    )


def _header(view: View, at: int) -> tuple[View, tuple[int, ...]]:
    """Return the bytes of the library, and the values of its header, whose ranges are inside."""
    head = view.head(at, HEADER.size)
    if not head or not MAGIC.startswith(head[: len(MAGIC)]):
        raise metallib_errors.magic(view, at, "not a Metal library", MAGIC.hex(" "))
    if len(head) < HEADER.size:
        raise metallib_errors.cut(view, at, "header", HEADER.size)
    values = HEADER.read(view, at)
    size, left = values[HEADER.position("size")], len(view) - at
    size_at = at + HEADER.field_offset("size")
    if size < HEADER.size or size > left:
        problem = f"the library says that it has {size} bytes, and {left} are there"
        hint = "get the file again" if size > left else ""
        raise metallib_errors.value(view, size_at, "size", problem, "the size of the file", hint)
    for name in _FIELDS:
        place = HEADER.position(f"{name}_offset")
        start, length = values[place], values[place + 1]
        length += COUNT.size if name == "list" else 0
        if start < HEADER.size or start + length > size:
            problem = f"{format_hex(start)} with {length} bytes is outside of the library"
            room = f"{format_hex(HEADER.size)} to {format_hex(size)}"
            raise metallib_errors.value(
                view, at + HEADER.field_offset(f"{name}_offset"), f"{name}_offset", problem, room
            )
    return view.slice(at, size), values


def _list(body: View, start: int, end: int) -> tuple[int, bytes]:
    """Return the number of groups of a list, and its bytes after the count."""
    (count,) = COUNT.read(body, start)
    most = (end - start - COUNT.size) // LEAST_GROUP
    if count > most:
        raise metallib_errors.value(
            body, start, "count", f"{count} functions", f"at most {most} in {end - start} bytes"
        )
    if count > limits.IMAGES:
        text = f"more than {pluralize(limits.IMAGES, 'function')}"
        raise metallib_errors.limit(body, start, "count", text, hint=limits.advice("IMAGES"))
    return count, body.read(start + COUNT.size, end - start - COUNT.size)


class _Triples:
    """The triples of functions: the version of AIR from the list, the system from the header."""

    def __init__(self, named: dict[str, int]) -> None:
        self._made: dict[tuple[int, int] | None, Target] = {}
        major, minor, patch = (named[f"os_{part}"] for part in ("major", "minor", "patch"))
        words = PLATFORMS.get(named["platform"] & 0x7F)
        old = _OLD_SYSTEMS[bool(named["platform_word"] & IS_MACOS)]
        self._system = words[1].format(f"{major}.{minor}.{patch}") if words and major else old

    def of(self, air: tuple[int, int] | None) -> Target:
        """Return the target of a function."""
        target = self._made.get(air)
        if target is None:
            version = f"_v{air[0]}{air[1]}" if air else ""
            target = self._made[air] = Target(f"air64{version}-apple-{self._system}", "air64", "none")
        return target


def _functions(
    body: View,
    data: bytes,
    count: int,
    start: int,
    named: dict[str, int],
    triples: _Triples,
    faults: FindingCollector,
) -> Iterator[Image]:
    """Yield the functions of the list; ends at damage in the sizes of groups, after which nothing can be read."""
    at, first = 0, start + COUNT.size
    for number in range(count):
        size = _GROUP.unpack_from(data, at)[0] if at + 4 <= len(data) else 0
        if size < LEAST_GROUP or at + size > len(data):
            problem = f"function {number} of {count} has a group of {size} bytes"
            error = metallib_errors.value(body, min(first + at, len(body) - 1), "group_size", problem)
            faults.add_error("FP2601", error, body.span(first + at, max(len(data) - at, 0)))
            return
        tags = _group_tags(data, at + 4, at + size)
        image = None if tags is None else _function(body, tags, first + at, size, named, triples)
        if image is None:
            error = metallib_errors.value(body, first + at, f"function[{number}]", _wrong(tags, named))
            faults.add_error("FP2601", error, body.span(first + at, size))
        else:
            yield image
        at += size
    if at < len(data) and any(data[at:]):
        text = f"{len(data) - at} bytes after the last function of the list"
        faults.add_warning("FP2604", body.span(first + at, len(data) - at), text)


def _group_tags(data: bytes, at: int, end: int) -> dict[bytes, bytes] | None:
    """Return the contents of the tags of a group; None if they do not end with ENDT inside of it."""
    tags: dict[bytes, bytes] = {}
    while at + 4 <= end:
        name = data[at : at + 4]
        if name == END:
            return tags
        if at + 6 > end:
            return None
        (size,) = _TAG_SIZE.unpack_from(data, at + 4)
        at += 6
        if at + size > end:
            return None
        tags[name] = data[at : at + size]
        at += size
    return None


#: Tags that a function with bitcode has, and the bytes of those of a fixed size.
_NEEDED = (b"NAME", b"MDSZ", b"OFFT", b"HASH")
_FIXED = {b"MDSZ": 8, b"OFFT": 24, b"HASH": 32, b"VERS": 8, b"TYPE": 1}


def _wrong(tags: dict[bytes, bytes] | None, named: dict[str, int]) -> str:
    """Return what is wrong with a group from which no function can be read."""
    if tags is None:
        return "its tags do not end inside of its group"
    missing = [tag.decode() for tag in _NEEDED if tag not in tags]
    if missing:
        return f"it has no {', '.join(missing)}"
    sizes = [tag.decode() for tag, size in _FIXED.items() if tag in tags and len(tags[tag]) != size]
    if sizes:
        return f"{', '.join(sizes)} has another size than it must have"
    offset, size = _OFFSETS.unpack(tags[b"OFFT"])[2], _SIZE.unpack(tags[b"MDSZ"])[0]
    return f"its bitcode of {size} bytes at {format_hex(offset)} is outside of the {named['bitcode_size']} bytes of all"


def _function(
    body: View, tags: dict[bytes, bytes], at: int, group_size: int, named: dict[str, int], triples: _Triples
) -> Image | None:
    """Return the image of a function, None if something that it needs is wrong."""
    try:
        name, digest = tags[b"NAME"], tags[b"HASH"]
        size, offsets = tags[b"MDSZ"], tags[b"OFFT"]
    except KeyError:
        return None
    versions, kind = tags.get(b"VERS", b""), tags.get(b"TYPE", b"")
    if len(size) != 8 or len(offsets) != 24 or len(digest) != 32 or len(versions) not in (0, 8) or len(kind) > 1:
        return None
    length, start = _SIZE.unpack(size)[0], _OFFSETS.unpack(offsets)[2]
    if start + length > named["bitcode_size"]:
        return None
    text = name.rstrip(b"\0").decode("utf-8", "backslashreplace")
    word = FUNCTION_TYPES.get(kind[0], f"type {kind[0]}") if kind else ""
    air = language = None
    attrs = {"name": text, "type": word}
    if versions:
        one, two, three, four = _VERSIONS.unpack(versions)
        air, language = (one, two), (three, four)
        attrs["air"], attrs["metal"] = f"{one}.{two}", f"{three}.{four}"
    record = MetalFunction(text, word, digest, air, language, at, group_size)
    data = body.slice(named["bitcode_offset"] + start, length)
    return Image(triples.of(air), "air", data, length, length, data.span(), None, attrs, record)


def _extension(
    body: View, start: int, named: dict[str, int], faults: FindingCollector
) -> tuple[tuple[tuple[str, int, int], ...], int]:
    """Return the tags of the header's extension with the places of their contents, and where it ends."""
    limit = min(named["public_offset"], start + _EXTENSION)
    if limit <= start:
        return (), start
    try:
        tags, end = _tags_at(body, start, limit)
    except FormatError as error:
        faults.add_error("FP2604", error, body.span(start, limit - start))
        return (), start
    return tuple(tags), end


def _tags_at(body: View, start: int, limit: int) -> tuple[list[tuple[str, int, int]], int]:
    """Return the tags between two offsets up to ENDT, and where they end. Raises BadValue."""
    tags: list[tuple[str, int, int]] = []
    at = start
    while at + len(END) <= limit:
        if body.read(at, len(END)) == END:
            return tags, at + len(END)
        if at + TAG.size > limit:
            break
        name, size = TAG.read(body, at)
        at += TAG.size
        if at + size > limit:
            break
        tags.append((name.decode("ascii", "backslashreplace"), at, size))
        at += size
    raise metallib_errors.value(body, start, "tags", f"the tags do not end before {format_hex(limit)}", "ENDT")


#: Tags of the extension that are offset and size of a part after the bitcode.
_POINTERS = ("RLST", "HDYN", "VLST", "ILST", "HSRC", "HSRD", "SLST")


def _check_size(view: View, at: int, named: dict[str, int], tags: Sequence[tuple[str, int, int]]) -> None:
    """Raise BadValue if another library begins after all parts of this one: then its size is wrong.

    Other bytes there may be a part that is not known.
    """
    ends = [named[f"{name}_offset"] + named[f"{name}_size"] for name in _FIELDS]
    ends.append(named["list_offset"] + COUNT.size + named["list_size"])
    for name, place, length in tags:
        if name in _POINTERS and length == _POINTER.size:
            ends.append(sum(_POINTER.unpack(view.read(at + place, length))))
    end = max(ends)
    if end >= named["size"]:
        return
    found = view.head(at + end, min(limits.CHUNK, named["size"] - end + len(MAGIC) - 1)).find(MAGIC)
    if found >= 0 and detect(view, at + end + found):
        problem = f"another library begins inside of it, at {format_hex(view.offset(at + end + found))}"
        size_at = at + HEADER.field_offset("size")
        raise metallib_errors.value(
            view, size_at, "size", problem, f"at most {end + found} bytes", "get the file again"
        )


def _texts(
    body: View, named: dict[str, int], tags: Sequence[tuple[str, int, int]], faults: FindingCollector
) -> tuple[dict[str, str], str, tuple[str, ...]]:
    """Return the attributes of the library, its install name, and the names of the libraries that it links."""
    is_macos = bool(named["platform_word"] & IS_MACOS)
    number = named["platform"] & 0x7F
    platform = PLATFORMS[number][0] if number in PLATFORMS else f"platform {number}"
    texts = {
        "format": f"{named['platform_word'] & 0x7FFF}.{named['minor']}.{named['patch']}",
        "platform": platform if number else "macOS" if is_macos else "iOS and its relatives",
        "kind": KINDS.get(named["kind"] & 0x7F, f"kind {named['kind'] & 0x7F}"),
    }
    if named["kind"] & 0x80:
        texts["stub"] = "yes"
    if named["os_major"]:
        patch = f".{named['os_patch']}" if named["os_patch"] else ""
        texts["needs"] = f"{named['os_major']}.{named['os_minor']}{patch}"
    install_name = ""
    linked: list[str] = []
    for name, at, size in tags:
        if name == "UUID" and size == 16:
            digits = body.read(at, 16).hex()
            parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:])
            texts["uuid"] = "-".join(parts)
        elif name == "HDYN" and size == 16:
            install_name, linked = _dynamic(body, at, faults)
    if install_name:
        texts["install_name"] = install_name
    return texts, install_name, tuple(linked)


def _dynamic(body: View, at: int, faults: FindingCollector) -> tuple[str, list[str]]:
    """Return the install name and the linked libraries of a dynamic section, to which the extension points."""
    start, size = _POINTER.unpack(body.read(at, 16))
    install_name = ""
    linked: list[str] = []
    try:
        if start + size > len(body) or size > _EXTENSION:
            raise metallib_errors.value(body, at, "HDYN", f"{format_hex(start)} with {size} bytes is outside")
        for name, place, length in _tags_at(body, start, start + size)[0]:
            text = body.read(place, length).rstrip(b"\0").decode("utf-8", "backslashreplace")
            if name == "NAME":
                install_name = text
            elif name == "DYNL":
                linked.append(text)
    except FormatError as error:
        faults.add_error("FP2604", error, body.span(at, 16))
    return install_name, linked


def _check_names(body: View, images: Sequence[Image], faults: FindingCollector) -> None:
    if len({image.attrs["name"] for image in images}) == len(images):
        return
    seen: set[str] = set()
    for image in images:
        name = image.attrs["name"]
        if name in seen:
            faults.add_warning("FP2603", image.span, f"{name} is in the list before")
        seen.add(name)


def _check_language(
    body: View, images: Sequence[Image], named: dict[str, int], texts: dict[str, str], faults: FindingCollector
) -> None:
    """Report functions whose language is later than the system that the header names."""
    if "needs" not in texts:
        return
    stamp = named["os_major"], named["os_minor"]
    counts: dict[str, int] = {}
    for image in images:
        language = image.attrs.get("metal")
        if language:
            counts[language] = counts.get(language, 0) + 1
    for language, count in counts.items():
        major, _, minor = language.partition(".")
        first = FIRST_SYSTEM.get((int(major), int(minor)), {}).get(texts["platform"])
        if first and first > stamp:
            name = texts["platform"]
            text = f"{pluralize(count, 'function')} in Metal {language}, which {name} {first[0]} is the first to load"
            said = f"the library says that it needs {name} {texts['needs']}"
            hint = f"link with the minimum {name} {first[0]}, or compile them with -std=metal of an earlier version"
            faults.add_warning("FP2605", body.span(0, HEADER.size), f"{text}: {said}", hint)


def _check_paths(body: View, named: dict[str, int], count: int, faults: FindingCollector) -> None:
    """Report paths of the build in the private metadata; a group of a function without any has 8 bytes."""
    start, size = named["private_offset"], named["private_size"]
    if size <= LEAST_GROUP * count:
        return
    head = body.head(start, min(size, limits.CHUNK))
    tags = [tag for tag in (b"DEBI", b"DEPF") if tag in head]
    if tags:
        names = " and ".join(tag.decode() for tag in tags)
        hint = "link without debugging information before you publish it"
        faults.add_warning(
            "FP2606", body.span(start, size), f"the private metadata has paths of the build ({names})", hint
        )
