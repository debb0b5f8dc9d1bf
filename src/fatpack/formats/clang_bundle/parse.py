"""The reader's part of the door: which flavour starts here, and the model of it.

The readers of the flavours are loaded when one is met: who makes bundles needs none, and who lists them mostly one.
"""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.clang_bundle.layout import COMPRESSED_MAGIC, HEADER, MAGIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Container


def detect(view: View, at: int = 0) -> bool:
    """Return whether a bundle starts at ``at``: one of the two magics, or a marker line within 4 KiB."""
    head = view.head(at, HEADER.size)
    if head.startswith(MAGIC):
        return len(head) == HEADER.size
    if head.startswith(COMPRESSED_MAGIC):
        return len(head) >= 8
    from fatpack.formats.clang_bundle.text_reader import find_comment

    return find_comment(view, at) is not None


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the bundle at ``at`` takes, or None when nobody knows.

    A binary bundle ends behind its last image; version 1 of the compressed one stores no size and is measured by its
    stream. A text bundle takes the rest of the view.
    """
    try:
        head = view.head(at, len(MAGIC))
        if head == MAGIC:
            from fatpack.formats.clang_bundle import binary

            return binary.binary_extent(view, at)
        if head.startswith(COMPRESSED_MAGIC):
            from fatpack.formats.clang_bundle import compressed

            return compressed.compressed_extent(view, at)
        from fatpack.formats.clang_bundle.text_reader import find_comment

        return len(view) - at if find_comment(view, at) is not None else None
    except FormatError:
        return None


def parse(view: View, at: int = 0, *, strict: bool = False) -> Container:
    """Return the bundle that starts at ``at``. Images are spans of the view; nothing is copied unless compressed.

    Entries that are damaged are left out and reported as findings of severity ``error``; ``strict`` raises for the
    first of them instead. Raises BadMagic, Unsupported, Truncated, BadValue, LimitExceeded where the bundle as a
    whole cannot be read; offsets are absolute.
    """
    head = view.head(at, len(MAGIC))
    if head == MAGIC:
        from fatpack.formats.clang_bundle import fast_path

        found = fast_path.read_fast(view, at)
        if found is not None:
            return found
    from fatpack.formats.diagnostics import FindingCollector

    if head == MAGIC:
        from fatpack.formats.clang_bundle.binary import parse_binary

        return parse_binary(view, at, FindingCollector(strict))
    if head.startswith(COMPRESSED_MAGIC):
        from fatpack.formats.clang_bundle.compressed import parse_compressed

        return parse_compressed(view, at, FindingCollector(strict))
    from fatpack.formats.clang_bundle.text_reader import parse_text

    return parse_text(view, at, FindingCollector(strict))
