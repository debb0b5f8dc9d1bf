"""The header of a tar archive's files, as POSIX.1-1988 (ustar) and GNU have it."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.layout import Field, Layout

FORMAT = "tar"


def _text(value: bytes) -> str:
    return repr(value.rstrip(b"\0 "))[2:-1]


HEADER = Layout(
    FORMAT,
    "header",
    (
        Field("name", "bytes[100]", "path of the file, ends with a NUL unless it fills the field", _text),
        Field("mode", "bytes[8]", "permissions, octal", _text),
        Field("user", "bytes[8]", "owner's number, octal", _text),
        Field("group", "bytes[8]", "group's number, octal", _text),
        Field(
            "size", "bytes[12]", "bytes of the file, octal; of GNU with the first bit set: a big-endian number", _text
        ),
        Field("time", "bytes[12]", "last modification, seconds since 1970, octal", _text),
        Field("checksum", "bytes[8]", "sum of all bytes of the header, blanks in this field, octal", _text),
        Field(
            "kind", "bytes[1]", "0 or NUL file, 1 hard link, 2 link, 5 folder, L long name, x and g extended headers"
        ),
        Field("link", "bytes[100]", "where a link leads", _text),
        Field("magic", "bytes[6]", "ustar and a NUL; of GNU ustar and a blank; nothing in older archives", _text),
        Field("version", "bytes[2]", "00; of GNU a blank and a NUL", _text),
        Field("user_name", "bytes[32]", "owner's name", _text),
        Field("group_name", "bytes[32]", "group's name", _text),
        Field("major", "bytes[8]", "of a device, octal", _text),
        Field("minor", "bytes[8]", "of a device, octal", _text),
        Field("prefix", "bytes[155]", "what stands before the name and a slash", _text),
        Field("padding", "bytes[12]", "zeros"),
    ),
)

_SUM_AT = HEADER.field_offset("checksum")


def is_header(block: bytes) -> bool:
    """Return whether a block is a header: it adds up to its checksum, and says that it is one or starts with a name.

    Some writers add up signed bytes.
    """
    if len(block) < HEADER.size:
        return False
    stored = block[_SUM_AT : _SUM_AT + 8].strip(b"\0 ")
    if not stored or not stored.isdigit() or b"8" in stored or b"9" in stored:
        return False
    rest = block[:_SUM_AT] + block[_SUM_AT + 8 : HEADER.size]
    unsigned = sum(rest) + 8 * 0x20
    signed = unsigned - 256 * sum(byte > 0x7F for byte in rest)
    is_marked = block.startswith(magic_numbers.TAR, magic_numbers.TAR_AT)
    return int(stored, 8) in (unsigned, signed) and (is_marked or block[0] != 0)
