"""The records of an RPM package and of the cpio archive in it."""

from __future__ import annotations

from fatpack.layout import Field, Layout

FORMAT = "rpm"


def _text(value: bytes) -> str:
    return repr(value.rstrip(b"\0"))[2:-1]


LEAD = Layout(
    FORMAT,
    "lead",
    (
        Field("magic", "bytes[4]", "ed ab ee db"),
        Field("major", "u8", "format of the package: 3 for all since 1995, whatever their version"),
        Field("minor", "u8", "0"),
        Field("kind", "u16", "0 binary, 1 source"),
        Field("arch", "u16", "number of the architecture; nobody reads it any more"),
        Field("name", "bytes[66]", "name, version and release", _text),
        Field("os", "u16", "number of the system"),
        Field("signature_kind", "u16", "5: a header of its own"),
        Field("reserved", "bytes[16]", "zeros"),
    ),
    "big",
)

HEADER = Layout(
    FORMAT,
    "header",
    (
        Field("magic", "bytes[3]", "8e ad e8"),
        Field("version", "u8", "1"),
        Field("reserved", "bytes[4]", "zeros"),
        Field("count", "u32", "number of tags behind this record, 16 bytes each"),
        Field("size", "u32", "bytes of the values behind the tags"),
    ),
    "big",
)

TAG = Layout(
    FORMAT,
    "tag",
    (
        Field("tag", "u32", "what the value is: 1117 names of files, 1124 format of the payload"),
        Field("kind", "u32", "3 numbers of 16 bits, 4 of 32, 5 of 64; 6 text, 8 texts"),
        Field("offset", "u32", "where the value starts, from the first value"),
        Field("count", "u32", "number of numbers or texts"),
    ),
    "big",
)


def _hexadecimal(name: str, doc: str) -> Field:
    return Field(name, "bytes[8]", f"{doc}, hexadecimal", _text)


CPIO = Layout(
    FORMAT,
    "cpio header",
    (
        Field("magic", "bytes[6]", "070701; 070702 with sums in `check`", _text),
        _hexadecimal("inode", "number that links to one file share"),
        _hexadecimal("mode", "kind and permissions"),
        _hexadecimal("user", "owner's number"),
        _hexadecimal("group", "group's number"),
        _hexadecimal("links", "number of names of the file; its bytes are behind the last of them"),
        _hexadecimal("time", "last modification, seconds since 1970"),
        _hexadecimal("size", "bytes of the file, behind the name, both padded to 4"),
        _hexadecimal("device_major", "device that the file was on"),
        _hexadecimal("device_minor", "the same"),
        _hexadecimal("of_major", "of a device, its number"),
        _hexadecimal("of_minor", "the same"),
        _hexadecimal("name_size", "bytes of the name behind the header, its NUL included"),
        _hexadecimal("check", "sum of the bytes of the file, or zero"),
    ),
    "big",
)

#: how a header starts that has no more than the number of a file in the package's header: magic, 8 digits, 2 of padding
STRIPPED, STRIPPED_SIZE = b"07070X", 16

LAYOUTS = (LEAD, HEADER, TAG, CPIO)
