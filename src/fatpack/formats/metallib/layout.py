"""Byte layouts of Metal libraries, the words of their numbers, and the records of stored ones."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.formats.diagnostics import ErrorFactory
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

METALLIB_FORMAT = "metal-library"
MAGIC = magic_numbers.METALLIB

#: Bit of the word after the magic: the library is for macOS, and not for iOS and its relatives.
IS_MACOS = 0x8000

#: platform as in Mach-O → name, and how a triple spells the system with its version
PLATFORMS = {
    1: ("macOS", "macosx{}"),
    2: ("iOS", "ios{}"),
    3: ("tvOS", "tvos{}"),
    4: ("watchOS", "watchos{}"),
    5: ("bridgeOS", "bridgeos{}"),
    6: ("Mac Catalyst", "ios{}-macabi"),
    7: ("iOS simulator", "ios{}-simulator"),
    8: ("tvOS simulator", "tvos{}-simulator"),
    9: ("watchOS simulator", "watchos{}-simulator"),
    10: ("DriverKit", "driverkit{}"),
    11: ("visionOS", "xros{}"),
    12: ("visionOS simulator", "xros{}-simulator"),
}

#: low bits of the kind of a library → name
KINDS = {0: "executable", 1: "Core Image", 2: "dynamic library", 3: "symbol companion"}

#: number of a TYPE tag → name
FUNCTION_TYPES = {
    0: "vertex",
    1: "fragment",
    2: "kernel",
    3: "unqualified",
    4: "visible",
    5: "extern",
    6: "intersection",
}


def _platform(value: int) -> str:
    name = PLATFORMS.get(value & 0x7F, (f"platform {value & 0x7F}", ""))[0] if value & 0x7F else "not stated"
    return f"{name}, 64-bit" if value & 0x80 else name


def _kind(value: int) -> str:
    name = KINDS.get(value & 0x7F, f"kind {value & 0x7F}")
    return f"{name}, stub" if value & 0x80 else name


HEADER = Layout(
    METALLIB_FORMAT,
    "header",
    [
        Field("magic", "bytes[4]", "the letters MTLB"),
        Field("platform_word", "u16", "bit 15: for macOS, else for iOS and its relatives; the rest: format major, 1"),
        Field("minor", "u16", "format minor: 2"),
        Field("patch", "u16", "format patch: 6 of macOS 12, 7 of macOS 13 and 14, 8 of macOS 15"),
        Field("kind", "u8", "bit 7: stub; the rest: the kind of library, since 1.2.4", _kind),
        Field("platform", "u8", "bit 7: 64-bit; the rest: the platform as in Mach-O, since 1.2.6", _platform),
        Field("os_major", "u16", "the system that it needs, since 1.2.6: major"),
        Field("os_minor", "u8", "minor"),
        Field("os_patch", "u8", "patch"),
        Field("size", "u64", "bytes of the library"),
        Field("list_offset", "u64", "offset of the list of functions"),
        Field("list_size", "u64", "bytes of the list without its count, which are 4 more"),
        Field("public_offset", "u64", "offset of the public metadata, a group for each function"),
        Field("public_size", "u64", "bytes of it"),
        Field("private_offset", "u64", "offset of the private metadata: lines and paths of the build"),
        Field("private_size", "u64", "bytes of it"),
        Field("bitcode_offset", "u64", "offset of the bitcode of all functions"),
        Field("bitcode_size", "u64", "bytes of it"),
    ],
)

#: Before the groups of a list, and the first field of a group.
COUNT = Layout(METALLIB_FORMAT, "function count", [Field("count", "u32", "number of groups that follow")])
GROUP = Layout(METALLIB_FORMAT, "group", [Field("group_size", "u32", "bytes of the group, with these four")])

#: A tag of a group or of the header's extension; ENDT, the last, has no size.
TAG = Layout(
    METALLIB_FORMAT,
    "tag",
    [Field("tag", "bytes[4]", "four letters"), Field("tag_size", "u16", "bytes of the content that follows")],
)

#: The smallest group: its size, and ENDT.
LEAST_GROUP = 8

END = b"ENDT"

metallib_errors = ErrorFactory(METALLIB_FORMAT)


class MetalFunction(Record):
    """A function as its group states it.

    ``digest`` is the SHA-256 of the bitcode, ``air`` and ``language`` the versions (major, minor), None where the group
    has none. ``at`` and ``size`` are the place of the group, from the magic.
    """

    name: str
    type: str
    digest: bytes | None
    air: tuple[int, int] | None
    language: tuple[int, int] | None
    at: int
    size: int


class MetalHeader(Record):
    """The fields of a library's header and of its extension; kept in ``Container.record``.

    ``values`` are those of the layout. ``list_end`` is the offset of the first byte after the list of functions,
    ``extension_end`` that after the extension, the same if there is none. ``tags`` are the tags of the extension with
    the offset and size of their content. ``stored`` are the bytes of the library, ``count`` is how many
    functions were read.
    """

    values: tuple[int, ...]
    list_end: int
    extension_end: int
    tags: tuple[tuple[str, int, int], ...]
    install_name: str
    linked: tuple[str, ...]
    stored: View
    count: int = 0
