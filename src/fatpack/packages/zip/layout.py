"""The records of a zip archive (PKWARE's APPNOTE.TXT 6.3.10, section 4.3), and the numbers in them."""

from __future__ import annotations

from fatpack.layout import Field, Layout

FORMAT = "zip"

END = Layout(
    FORMAT,
    "end of central directory",
    (
        Field("magic", "bytes[4]", "end of central dir signature: `PK`, 5, 6"),
        Field("disk", "u16", "number of this disk; 0"),
        Field("directory_disk", "u16", "number of the disk on which the directory starts; 0"),
        Field("disk_entries", "u16", "entries of the directory on this disk"),
        Field("entries", "u16", "entries of the directory; 0xffff: see the record of Zip64"),
        Field("directory_size", "u32", "bytes of the directory; 0xffffffff: see the record of Zip64"),
        Field("directory_offset", "u32", "where the directory starts, from the first byte of the archive"),
        Field("comment_size", "u16", "bytes of the comment behind this record, which ends the archive"),
    ),
)

LOCATOR = Layout(
    FORMAT,
    "Zip64 end of central directory locator",
    (
        Field("magic", "bytes[4]", "`PK`, 6, 7; the record lies right before the end of central directory"),
        Field("disk", "u32", "number of the disk that has the record of Zip64; 0"),
        Field("offset", "u64", "where that record starts, from the first byte of the archive"),
        Field("disks", "u32", "number of disks; 1"),
    ),
)

END_64 = Layout(
    FORMAT,
    "Zip64 end of central directory",
    (
        Field("magic", "bytes[4]", "`PK`, 6, 6"),
        Field("record_size", "u64", "bytes of the record behind this field"),
        Field("made_by", "u16", "version made by"),
        Field("needed", "u16", "version needed to extract"),
        Field("disk", "u32", "number of this disk; 0"),
        Field("directory_disk", "u32", "number of the disk on which the directory starts; 0"),
        Field("disk_entries", "u64", "entries of the directory on this disk"),
        Field("entries", "u64", "entries of the directory"),
        Field("directory_size", "u64", "bytes of the directory"),
        Field("directory_offset", "u64", "where the directory starts, from the first byte of the archive"),
    ),
)

ENTRY = Layout(
    FORMAT,
    "entry of the central directory",
    (
        Field("magic", "bytes[4]", "central file header signature: `PK`, 1, 2"),
        Field("made_by", "u16", "version made by; the upper byte says how to read external_attributes (3: Unix)"),
        Field("needed", "u16", "version needed to extract"),
        Field("flags", "u16", "general purpose bit flag: bit 0 encrypted, 3 sizes behind the data, 11 UTF-8"),
        Field("method", "u16", "compression method: 0 stored, 8 deflate, 12 bzip2, 14 LZMA, 93 zstd, 95 xz"),
        Field("time", "u16", "last modification, time of MS-DOS"),
        Field("date", "u16", "last modification, date of MS-DOS"),
        Field("crc", "u32", "CRC-32 of the inflated bytes"),
        Field("stored_size", "u32", "compressed size in bytes; 0xffffffff: see the extra field of Zip64"),
        Field("size", "u32", "uncompressed size in bytes; 0xffffffff: as above"),
        Field("name_size", "u16", "bytes of the name, which is behind this record"),
        Field("extra_size", "u16", "bytes of the extra fields, which are behind the name"),
        Field("comment_size", "u16", "bytes of the comment, which is behind the extra fields"),
        Field("disk", "u16", "disk number start; 0"),
        Field("internal_attributes", "u16", "bit 0: the file is text"),
        Field("external_attributes", "u32", "of Unix: the mode in the upper half"),
        Field("offset", "u32", "where the local header is; 0xffffffff: see the extra field of Zip64"),
    ),
)

LOCAL = Layout(
    FORMAT,
    "local file header",
    (
        Field("magic", "bytes[4]", "local file header signature: `PK`, 3, 4"),
        Field("needed", "u16", "version needed to extract"),
        Field("flags", "u16", "as in the directory"),
        Field("method", "u16", "as in the directory"),
        Field("time", "u16", "as in the directory"),
        Field("date", "u16", "as in the directory"),
        Field("crc", "u32", "as in the directory; with bit 3 of the flags it is 0 and stands behind the data"),
        Field("stored_size", "u32", "as in the directory, or 0 as above"),
        Field("size", "u32", "as in the directory, or 0 as above"),
        Field("name_size", "u16", "bytes of the name, which is behind this record"),
        Field("extra_size", "u16", "bytes of the extra fields, behind which the data start"),
    ),
)

LAYOUTS = (END, LOCATOR, END_64, ENTRY, LOCAL)

#: What a field holds whose number stands in the extra field of Zip64, and the number of that field
FULL_16, FULL, EXTRA_64 = 0xFFFF, 0xFFFFFFFF, 0x0001

#: Info-ZIP's extra field with a name in UTF-8
EXTRA_NAME = 0x7075

ENCRYPTED, SIZES_BEHIND, UTF_8, MASKED = 1 << 0, 1 << 3, 1 << 11, 1 << 13

#: number of a method → its name in :mod:`fatpack.packages.streams`; "" where nothing is compressed
METHODS = {0: "", 8: "deflate", 12: "bzip2", 14: "lzma in zip", 93: "zstd", 95: "xz"}

#: methods that nobody reads here, by what they are called
UNSUPPORTED_METHODS = {
    1: "shrunk",
    6: "imploded",
    9: "deflate64",
    19: "LZ77",
    97: "WavPack",
    98: "PPMd",
    99: "encrypted with AES",
}
