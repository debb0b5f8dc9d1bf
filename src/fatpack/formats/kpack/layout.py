"""Byte layouts of kpack archives, and the words of their table of contents."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.layout import Field, Layout

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
