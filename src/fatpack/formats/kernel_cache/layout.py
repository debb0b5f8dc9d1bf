"""The header of a database of SQLite, and the records of stored rows."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.formats.diagnostics import ErrorFactory
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Image

CACHE_FORMAT = "rocm-kernel-cache"
MAGIC = magic_numbers.SQLITE

HEADER = Layout(
    CACHE_FORMAT,
    "header",
    [
        Field("magic", "bytes[16]", "the letters SQLite format 3, and a NUL"),
        Field("page_size", "bytes[2]", "bytes of a page, big-endian; 1 means 65536"),
        Field("write_version", "u8", "1, or 2 with a write-ahead log"),
        Field("read_version", "u8", "the same"),
        Field("reserved", "u8", "bytes at the end of each page that are not used"),
        Field("fractions", "bytes[3]", "64, 32, 32"),
        Field("change_counter", "bytes[4]", "number of changes, big-endian"),
        Field("page_count", "bytes[4]", "number of pages, big-endian"),
        Field("free_pages", "bytes[8]", "first page of the list of unused ones, and their number"),
        Field("schema", "bytes[8]", "counter and format of the schema"),
        Field("cache_size", "bytes[4]", "suggested size of the page cache"),
        Field("vacuum_root", "bytes[4]", "largest root page, for automatic vacuum"),
        Field("text_encoding", "bytes[4]", "1 UTF-8, 2 and 3 UTF-16 in little and big endian, big-endian"),
        Field("user", "bytes[4]", "a number for programs"),
        Field("vacuum", "bytes[4]", "whether vacuum is incremental"),
        Field("application", "bytes[4]", "a number for programs"),
        Field("expansion", "bytes[20]", "zeros"),
        Field("valid_for", "bytes[4]", "the change counter when the version was written"),
        Field("library", "bytes[4]", "version of SQLite that wrote the file, big-endian"),
    ],
)

cache_errors = ErrorFactory(CACHE_FORMAT)


class CacheRow(Record):
    """A row with a kernel: its number, the blob as stored, and of MIOpen the MD5 of the object, in hexadecimal."""

    number: int
    blob: View
    digest: str = ""


class CacheFile(Record):
    """A database that was read: all of its bytes, and the images in it."""

    stored: View
    images: tuple[Image, ...]
