"""Byte layouts of kpack archives, and the words of their table of contents."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.formats.diagnostics import ErrorFactory
from fatpack.layout import Field, Layout
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View


KPACK_FORMAT = "rocm-kpack"
MAGIC = magic_numbers.KPACK
VERSION = 1

#: What every code object in an archive is for; the table of contents names the processor alone.
TRIPLE = "amdgcn-amd-amdhsa"

HEADER = Layout(
    KPACK_FORMAT,
    "header",
    [
        Field("magic", "bytes[4]", "the letters KPAK"),
        Field("version", "u32", "version of the archive: 1"),
        Field(
            "toc_offset", "u64", "where the table of contents is, from the magic; it reaches to the end of the archive"
        ),
    ],
)

#: Of ``zstd-per-kernel``: what the frames begin with, and what stands before each.
COUNT = Layout(KPACK_FORMAT, "frame count", [Field("frame_count", "u32", "number of frames that follow")])
FRAME = Layout(KPACK_FORMAT, "frame", [Field("frame_size", "u32", "bytes of the zstd frame that follows")])

#: The images begin here, behind the header and zeros.
DATA_OFFSET = 64

#: value of ``compression_scheme`` → what the model calls it
SCHEMES = {b"none": None, b"zstd-per-kernel": "zstd"}

#: What the entry of a code object has as its ``type``.
TYPE = "hsaco"

#: that type → the form of the image. What its archive names so is listed without inflating it.
FORMS = {TYPE: "code-object"}


# Damage inside a kpack archive: the errors for its fields.

__all__ = ["kpack_errors"]

kpack_errors = ErrorFactory(KPACK_FORMAT)


# What a kpack archive stores beyond the common model, kept so that a rewrite loses nothing.


class KpackHeader(Record):
    """What header and table of contents say of the whole archive; kept in ``Container.record``.

    ``toc_offset`` is where the table is, from the magic, and ``size`` the bytes of the archive. ``archs`` are the
    architectures that the table lists, and ``served`` those that it had images for, which may be others. ``further``
    are pairs that no field of this version names: keys, and values as they are stored. ``data_offset`` is where zstd
    frames begin, 0 if there are none.
    """

    version: int
    toc_offset: int
    size: int
    archs: tuple[str, ...]
    served: frozenset[str]
    further: tuple[tuple[bytes, bytes], ...] = ()
    data_offset: int = 0


class KpackEntry(Record):
    """One code object as the table has it: which blob it is, the bytes as they are stored, its further pairs.

    ``ordinal`` is below zero for an image that comes from elsewhere. ``at`` and ``end`` are where its key and value
    stand in the archive, from the magic.
    """

    ordinal: int
    stored: View
    further: tuple[tuple[bytes, bytes], ...] = ()
    at: int = 0
    end: int = 0
