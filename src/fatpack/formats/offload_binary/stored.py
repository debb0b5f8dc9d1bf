"""What an offload binary stores beyond the common model, kept so that a rewrite loses nothing."""

from __future__ import annotations

from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.layout import ByteOrder
    from fatpack.model import Container, Image


class OffloadBinaryHeader(Record):
    """What the header says, and how the binary was stored; kept in ``Container.record`` for lossless rewriting.

    ``size`` is the stored size in bytes, ``body`` the binary itself, or its inflated form when ``inflated_size`` is
    not 0. ``extension`` are bytes between header and entries (a longer header from the future), ``tail`` bytes
    behind the last part that are not zero padding: a rewrite keeps both.
    """

    version: int
    order: ByteOrder
    size: int
    entry_offset: int
    entry_count: int
    body: View
    inflated_size: int = 0
    compression: str | None = None
    extension: View | None = None
    tail: View | None = None


class OffloadBinaryEntry(Record):
    """One entry as stored: numbers as numbers, strings in stored order, even twice or no text.

    ``image_offset`` is below zero for an image that comes from elsewhere.
    """

    image_kind: int
    offload_kind: int
    flags: int
    strings: tuple[tuple[bytes, bytes], ...]
    string_offset: int = 0
    image_offset: int = 0


class NewOffloadBinaryEntry(Record):
    """An entry that was asked for and not laid out yet: image kind and order of strings follow the version written.

    ``name`` is the file's name and ``is_bitcode`` says what its first bytes are. ``pairs`` are all keys of the option
    with their values in order of first appearance; ``file`` and ``kind`` take part in the order and are not stored.
    """

    name: str
    is_bitcode: bool
    offload_kind: int
    pairs: tuple[tuple[bytes, bytes], ...]


def stored_header(container: Container) -> OffloadBinaryHeader:
    """Return what was stored of a container. Raises UsageError for one that was not read from a file."""
    if isinstance(container.record, OffloadBinaryHeader):
        return container.record
    from fatpack.formats.diagnostics import not_parsed_error

    raise not_parsed_error("container")


def stored_offload_entry(image: Image) -> OffloadBinaryEntry:
    """Return what was stored of an image. Raises UsageError for one that was not read from an offload binary."""
    if isinstance(image.record, OffloadBinaryEntry):
        return image.record
    from fatpack.formats.diagnostics import not_parsed_error

    raise not_parsed_error("image")
