"""The entries of a bundle in the order in which the original walks them, by the reader that ``-type`` names.

Binary bundles are walked in the order of LLVM's hash map, where of equal IDs the last counts; text and object bundles
in file order, where the first counts. A file that is no bundle of the type has no entries, and that is no error.
"""

from __future__ import annotations

from fatpack.cli.tools.clang_offload_bundler import objects
from fatpack.cli.tools.clang_offload_bundler.settings import Refusal
from fatpack.errors import FormatError, LimitExceeded, Unsupported
from fatpack.formats.clang_bundle.layout import COMMENTS, COMPRESSED_MAGIC, MAGIC, METHODS, WRAPPERS
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import TypeIs

    from fatpack.cli.tools.clang_offload_bundler.settings import Settings
    from fatpack.io.source import View
    from fatpack.literals import BundleType
    from fatpack.model import Finding

#: type → comment token of its text bundles
TEXT = {type: comment for comment, types in COMMENTS.items() for type in types}

#: Types whose bundles are binary whatever is in them, and those where that depends on what the input is.
BINARY, OBJECT = ("bc", "gch", "ast"), ("o", "a")


class Entry(Record):
    """An entry: its ID and image.

    ``merged_count`` is not 0 for a mark that the object itself is the host's image; ``is_cut`` says that the end of the
    image is not known.
    """

    id: str
    data: View
    merged_count: int = 0
    is_cut: bool = False


class Entries(Record):
    """The entries of one bundle in the original's order; ``damage`` is what could not be read.

    ``carrier`` is what kind of object it is, "" for none (:func:`objects.carrier`).
    """

    entries: tuple[Entry, ...]
    damage: tuple[Finding, ...] = ()
    carrier: str = ""

    @property
    def merged_count(self) -> int:
        """The number of fat objects that ``ld -r`` merged into this one, 1 for any other bundle."""
        return max([1, *(entry.merged_count for entry in self.entries)])


def is_known(type: str) -> TypeIs[BundleType]:
    """Return whether the original knows a type."""
    return type in TEXT or type in BINARY or type in OBJECT


def read(view: View, type: str) -> Entries:
    """Return the entries of a bundle that is not compressed. Raises Refusal for an unknown type or a damaged file."""
    if not is_known(type):
        raise Refusal(f"'{type}': invalid file type specified")
    try:
        if type in TEXT:
            return _text(view, TEXT[type])
        carrier = objects.carrier(view) if type in OBJECT else ""
        return _sections(view, carrier) if carrier else _binary(view)
    except FormatError as error:
        raise Refusal(str(error)) from error


def _text(view: View, comment: str) -> Entries:
    from fatpack.formats.clang_bundle.faults import Faults
    from fatpack.formats.clang_bundle.plain.text import entries

    faults = Faults()
    found = [
        Entry(_text_of(entry.id), view.slice(entry.offset, end - entry.offset), is_cut=entry.end == end)
        for entry, end in entries(view, comment, faults)
    ]
    return Entries(tuple(found), _damage(faults.findings))


def _binary(view: View) -> Entries:
    if view.head(0, len(MAGIC)) != MAGIC:
        return Entries(())
    from fatpack.formats.clang_bundle.faults import Faults
    from fatpack.formats.clang_bundle.plain.binary import parse_binary
    from fatpack.formats.clang_bundle.plain.hash_order import listed

    container = parse_binary(view, 0, Faults(), is_inflated=view.source.is_streamed)
    found = [Entry(image.attrs["id"], image.data) for image in container.images]
    order = listed([entry.id.encode("utf-8", "surrogateescape") for entry in found])
    return Entries(tuple(found[at] for at in order), _damage(container.findings))


def _sections(view: View, carrier: str) -> Entries:
    parts, findings = objects.parts(view, carrier)
    entries = tuple(Entry(part.id, part.data, part.merged_count) for part in parts)
    return Entries(entries, _damage(findings), carrier)


def _text_of(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogateescape")


def _damage(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple(item for item in findings if item.severity == "error")


def inflated(view: View, settings: Settings, what: str) -> View:
    """Return what is in a compressed bundle, or the bytes as they are. ``what`` names them in errors (Refusal)."""
    head = view.head(0, 8)
    if len(head) < 8:
        return view
    if not head.startswith(COMPRESSED_MAGIC):
        if settings.is_verbose:
            from fatpack.cli.tools.clang_offload_bundler import verbose

            verbose.not_compressed()
        return view
    version, method = (int.from_bytes(head[at : at + 2], "little") for at in (4, 6))
    if version not in WRAPPERS or len(view) < WRAPPERS[version].size:
        raise Refusal(f"Failed to decompress {what}: Compressed bundle header size too small")
    if method not in METHODS:
        raise Refusal(f"Failed to decompress {what}: Unknown compressing method")
    try:
        return _inflated(view, settings)
    except (FormatError, Unsupported) as error:
        raise Refusal(not_inflated(what, error)) from error


def not_inflated(what: str, error: FormatError | Unsupported) -> str:
    """Return what the original says of a stream that is damaged; ``what`` names it."""
    reason = error.describe() if isinstance(error, FormatError) else str(error)
    hint = f"; {error.hint}" if isinstance(error, LimitExceeded) else ""
    return f"Failed to decompress {what}: Could not decompress embedded file contents: {reason}{hint}"


def _inflated(view: View, settings: Settings) -> View:
    from time import perf_counter

    from fatpack.formats.clang_bundle.compressed.read import inflate
    from fatpack.formats.clang_bundle.faults import Faults

    start = perf_counter()
    found = inflate(view, Faults())
    seconds = perf_counter() - start
    if settings.is_verbose:
        from fatpack.cli.tools.clang_offload_bundler import verbose
        from fatpack.formats.clang_bundle.compressed.digest import HASH_SIZE, new_digest

        digest = new_digest(len(found.body))
        for piece in found.body.pieces():
            digest.update(piece)
        measures = verbose.Measures(
            found.version, found.method, found.size, len(found.stream), found.inflated_size, found.hash, seconds
        )
        verbose.inflated(measures, digest.digest()[:HASH_SIZE])
    return found.body
