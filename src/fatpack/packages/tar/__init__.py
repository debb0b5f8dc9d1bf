"""Tar archives, plain or compressed as a whole: sdists, conda's ``.tar.bz2``, layers of containers, ``data.tar``.

::

    per file   a header of 512 bytes; longer names and further attributes are in headers of their own before it
               the bytes of the file, padded with zeros to 512
    the end    two blocks of zeros, more to fill a record of 10,240 bytes

A plain archive is read in place: each file is a range of it. A compressed one is inflated once, forwards; opened files
are kept, all others are skipped, so a listing takes as long as inflating, with little memory.

How we know: POSIX.1-2017 (pax), and GNU tar's manual and ``src/tar.h``, 1.34. Headers are read by Python's
``tarfile``; archives of GNU tar and bsdtar are compared with their listings in the reference tests.
"""

from __future__ import annotations

from fatpack.layout import FormatInfo
from fatpack.packages.names import detect_compression
from fatpack.packages.streams import inflate_stream_beginning
from fatpack.packages.tar.reader import FORMAT, HEADER, is_header

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View
    from fatpack.model import Finding
    from fatpack.packages import PackageMember

__all__ = ["DOC", "LAYOUTS", "detect", "members"]

DOC = FormatInfo(
    name=FORMAT,
    title="Tar archive",
    description=(
        "Files one after the other, each after a header: source distributions, packages of conda (`.tar.bz2`, and "
        "inside `.conda`), layers of container images and the archives that `docker save` writes, `data.tar` in "
        "Debian's packages."
    ),
    references=(
        "POSIX.1-2017, pax: ustar and pax Interchange Format",
        "GNU tar 1.34, src/tar.h and doc/tar.texi (sparse formats, long names)",
        "OCI Image Format Specification 1.1, layer.md and image-layout.md",
        "Python 3.11, Lib/tarfile.py",
    ),
    reads=(
        "ustar, GNU and pax archives and older ones, sparse files, uncompressed or compressed with gzip, bzip2, "
        "xz, LZMA (.lzma), zstd or lz4"
    ),
    writes=(
        "copies of plain archives in which the content of some files is another one; packages of conda are compressed "
        "with zstd or bzip2 again; layers of container images with gzip or zstd, as they were"
    ),
    limitations=(
        "A compressed archive is inflated up to the last file that is read, and files are read in order.",
        "Links are not followed: the target of a link is listed under its own name.",
        "Files that are parts of archives on several volumes are not joined.",
        "In a damaged archive, files after the damage are not searched.",
        "Several archives in one file are read up to the end of the first; the bytes after it are reported.",
        "Layers of a container image are listed one by one, under their digests, as they were saved: files that a "
        "later layer removes are still listed, with a finding; files that it replaces are listed twice.",
        "Names are read as UTF-8.",
    ),
)

LAYOUTS = (HEADER,)


def detect(view: View) -> bool:
    """Return whether the bytes are a tar archive, or inflate to one: the first header's checksum has to match."""
    method = detect_compression(view)
    head = view.head(0, HEADER.size) if method is None else inflate_stream_beginning(view, method, HEADER.size)
    return is_header(head)


def members(view: View) -> Iterator[PackageMember | Finding]:
    """Yield every file in stored order, and findings about the archive.

    Files of a compressed archive have to be opened before the next is requested (``is_lasting`` is false).
    """
    from fatpack.packages.tar.files import members

    return members(view)
