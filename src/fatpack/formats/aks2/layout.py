"""Byte layouts of AKS2 archives, and the records of stored ones."""

from __future__ import annotations

import re

from fatpack import magic_numbers
from fatpack.formats.diagnostics import ErrorFactory
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

AKS2_FORMAT = "aotriton-aks2"
MAGIC = magic_numbers.AKS2

HEADER = Layout(
    AKS2_FORMAT,
    "header",
    [
        Field("magic", "bytes[4]", "the letters AKS2"),
        Field("total_size", "u32", "bytes of the directory and the images together, uncompressed"),
        Field("entry_count", "u32", "number of entries in the directory"),
        Field("directory_size", "u32", "bytes of the directory, uncompressed"),
    ],
)

#: An entry of the directory, which is compressed with the images; its name and a NUL follow.
ENTRY = Layout(
    AKS2_FORMAT,
    "entry",
    [
        Field("shared_memory", "u32", "bytes of memory that a block shares"),
        Field("threads", "u32", "threads of a block: warps times the size of a warp"),
        Field("offset", "u32", "offset of the image, from the end of the directory"),
        Field("image_size", "u32", "bytes of the image; 0 if the kernel was not compiled for the target"),
        Field("name_size", "u32", "bytes of the name that follows, with a NUL at its end"),
    ],
)

aks2_errors = ErrorFactory(AKS2_FORMAT)

#: a target, or a family of them, in the name of a folder (amd-gfx11xx) or of an archive (…___gfx942.aks2)
TARGET_IN_PATH = re.compile(r"(?<![^/\\!])amd-(gfx[0-9a-fx]+)(?=[/\\])|___(?:amd-)?(gfx[0-9a-fx]+)(?=\.aks2\Z)")


def path_without_target(path: str) -> str:
    """Return the path of an archive without its target: the archives of one kernel have the same.

    A ZIP of archives is for one target or family, as a folder is: ``amd-gfx942.zip``.
    """
    return TARGET_IN_PATH.sub("", path.replace(".zip!", "/"))


class Aks2Entry(Record):
    """An entry of the directory as stored; ``name`` is the key by which the library finds it."""

    name: bytes
    shared_memory: int
    threads: int
    offset: int
    size: int


class Aks2Archive(Record):
    """An archive that was read: all entries, also those without code, and the bytes of header and stream."""

    entries: tuple[Aks2Entry, ...]
    total_size: int
    directory_size: int
    stored: View
