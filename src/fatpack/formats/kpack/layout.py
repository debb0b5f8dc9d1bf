"""Byte layouts of kpack archives, the words of their table of contents, and the records of stored ones."""

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

#: The target of every code object in an archive; the table of contents has only the processor.
TRIPLE = "amdgcn-amd-amdhsa"

HEADER = Layout(
    KPACK_FORMAT,
    "header",
    [
        Field("magic", "bytes[4]", "the letters KPAK"),
        Field("version", "u32", "version of the archive: 1"),
        Field("toc_offset", "u64", "offset of the table of contents, from the magic; it ends with the archive"),
    ],
)

#: For ``zstd-per-kernel``: the header before all frames, and the header of each.
COUNT = Layout(KPACK_FORMAT, "frame count", [Field("frame_count", "u32", "number of frames that follow")])
FRAME = Layout(KPACK_FORMAT, "frame", [Field("frame_size", "u32", "bytes of the zstd frame that follows")])

#: The images begin here, after the header and zeros.
DATA_OFFSET = 64

#: value of ``compression_scheme`` → name in the model
SCHEMES = {b"none": None, b"zstd-per-kernel": "zstd"}

#: The ``type`` of a code object's entry.
TYPE = "hsaco"

#: that type → the form of the image. Images with this type are listed without inflating them.
FORMS = {TYPE: "code-object"}


# Damage inside a kpack archive: the errors for its fields.

__all__ = ["kpack_errors"]

kpack_errors = ErrorFactory(KPACK_FORMAT)


# Stored data of a kpack archive beyond the common model, kept so that a rewrite loses nothing.


class KpackHeader(Record):
    """The archive's fields from header and table of contents; kept in ``Container.record``.

    ``toc_offset`` is the offset of the table, from the magic, and ``size`` the size of the archive. ``archs`` are the
    architectures that the table lists, ``served`` those of its images, which may differ. ``further`` are unknown pairs:
    keys, and values as stored. ``data_offset`` is the start of zstd frames, 0 if there are none.
    """

    version: int
    toc_offset: int
    size: int
    archs: tuple[str, ...]
    served: frozenset[str]
    further: tuple[tuple[bytes, bytes], ...] = ()
    data_offset: int = 0


class KpackEntry(Record):
    """One code object of the table: its blob's number, the bytes as stored, its further pairs.

    ``ordinal`` is negative for an image that was not read from an archive. ``at`` and ``end`` are the span of its key
    and value in the archive, from the magic.
    """

    ordinal: int
    stored: View
    further: tuple[tuple[bytes, bytes], ...] = ()
    at: int = 0
    end: int = 0
