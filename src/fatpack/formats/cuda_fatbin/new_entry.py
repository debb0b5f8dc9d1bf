"""An image on its way into a fat binary: what its entry says, and its bytes as they are stored."""

from __future__ import annotations

from _thread import allocate_lock

from fatpack.errors import UsageError
from fatpack.formats.cuda_fatbin.area import write_entry_strings
from fatpack.formats.cuda_fatbin.contents import new_entry_contents
from fatpack.formats.cuda_fatbin.entry import is_refused
from fatpack.formats.cuda_fatbin.layout import (
    COMPRESSED,
    ENTRY,
    ENTRY_VERSION,
    FLAG_64_BIT,
    FLAG_ACCELERATED,
    FLAG_DEBUG,
    FLAG_FAMILY,
    FLAG_OBFUSCATED,
    GROUP,
    HOST_MASK,
    HOSTS,
    KIND_OF,
    KINDS,
    METHODS,
    WITH_OPTIONS,
    padded_size,
)
from fatpack.formats.cuda_fatbin.reading_entry import entry_image
from fatpack.formats.cuda_fatbin.stored import CudaEntry, CudaEntryHeader, CudaEntryStrings
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from fatpack.formats.cuda_fatbin.styles import ProducerStyle
    from fatpack.io.source import Piece, View
    from fatpack.model import Image

#: The flags that a target and attributes decide.
_LABEL = FLAG_64_BIT | FLAG_DEBUG | HOST_MASK | FLAG_ACCELERATED | FLAG_FAMILY

#: held while one thread reads what cannot be read by several
_ONE_READER = allocate_lock()

_WIDTHS = {"nvptx64": FLAG_64_BIT, "nvptx": 0, "": FLAG_64_BIT}
_VARIANTS = {"": 0, "a": FLAG_ACCELERATED, "f": FLAG_FAMILY, "af": FLAG_ACCELERATED | FLAG_FAMILY}
_HOSTS = {"none": 0, **{host: bit for bit, host in HOSTS.items()}}
_KINDS = {word: kind for kind, word in KINDS.items()}
METHOD_BITS = {method: bit for bit, method in METHODS.items()}


class EntryDraft(Record):
    """An entry that is not laid out yet.

    ``copied`` are all bytes of an entry that is taken over, ``packed`` the compressed ones of an image that gets a new
    header, with the sizes and the key of the old; else ``data`` is the image. ``was_grouped`` says that it was a member
    of a group, where it was compressed, so that files do not grow when other members are taken out. ``like`` is how the
    image was compressed in whose place this one comes: None if it was not, and "" for an image that has no such place.
    """

    kind: int = 0
    flags: int = 0
    code_version: tuple[int, int] = (0, 0)
    sm: int = 0
    area: CudaEntryStrings = CudaEntryStrings()
    data: tuple[Piece, ...] = ()
    packed: View | None = None
    sizes: tuple[int, int] = (0, 0)
    key: int = 0
    copied: View | None = None
    was_grouped: bool = False
    like: str | None = ""

    @property
    def is_new(self) -> bool:
        """Whether its image is to be stored as the style says."""
        return self.copied is None and self.packed is None

    @property
    def is_debug(self) -> bool:
        """Whether it is of a debug compile."""
        return bool(self.flags & FLAG_DEBUG)

    def is_compressed(self, style: ProducerStyle) -> bool:
        """Return whether a new image is compressed in a style."""
        if self.like != "":
            return self.like is not None
        return style.method is not None and (self.was_grouped or style.compresses(self.kind, self.is_debug))

    @property
    def size(self) -> int:
        """The bytes of the image."""
        return sum(map(len, self.data))


def draft_entry(image: Image, style: ProducerStyle) -> EntryDraft:
    """Return the entry for an image. Raises UsageError for what an entry cannot say."""
    old = image.record if isinstance(image.record, CudaEntry) and image.record.data == image.data else None
    is_kept = old is not None and old.group is None and (not style.recompresses or is_refused(old.data))
    # An entry whose sizes were mended gets a header that is right.
    if (
        old is not None
        and is_kept
        and image == entry_image(old)
        and CudaEntryHeader(*ENTRY.read(old.stored, 0)) == old.head
    ):
        return EntryDraft(copied=old.stored)
    kind = _kind(image)
    sm, variant = _architecture(image)
    label = _label(image) | variant
    identifier, options = (_stored(image, name) for name in ("identifier", "options"))
    if options and kind not in WITH_OPTIONS:
        raise UsageError(
            f"options {image.attrs['options']!r} of an entry of kind {KINDS.get(kind, kind)}", hint="PTX has options"
        )
    if old is not None and old.head.kind == kind:
        head, version = old.head, (old.head.code_minor, old.head.code_major)
        flags = head.flags & ~(_LABEL | COMPRESSED) | label
        area = CudaEntryStrings(identifier, options, old.area.compat)
        if is_kept:
            flags |= head.flags & COMPRESSED
            sizes = (head.compressed_size, head.inflated_size)
            return EntryDraft(kind, flags, version, sm, area, packed=old.packed, sizes=sizes, key=head.key)
    else:
        flags, version, area = label, (0, 0), CudaEntryStrings(identifier, options)
    like: str | None = ""
    if old is None and isinstance(image.record, CudaEntry):  # other bytes in the place of an entry
        like = "" if style.recompresses else image.compression
    if flags & FLAG_OBFUSCATED or image.attrs.get("obfuscated"):
        raise UsageError("nothing but NVIDIA's tools can obfuscate an image", hint="leave out the attr obfuscated")
    contents = new_entry_contents(image, kind, sm, is_64_bit=bool(flags & FLAG_64_BIT), minifies=style.minifies)
    source = image.data.source
    if source.is_file:
        source.rest()
    area = area.replace(compat=contents.compat)
    was_grouped = old is not None and old.group is not None and not style.recompresses
    version, flags = contents.code_version or version, flags | contents.flags
    return EntryDraft(kind, flags, version, sm, area, contents.data, was_grouped=was_grouped, like=like)


def _kind(image: Image) -> int:
    word = image.attrs.get("kind")
    if word is None:
        if image.form not in KIND_OF:
            what = f"form {image.form!r}" if image.form else "unknown form"
            raise UsageError(f"an image of {what} in a fat binary", hint=f"choose from {', '.join(KIND_OF)}")
        return KIND_OF[image.form]
    digits = word.removeprefix("0x")
    is_number = word != digits and digits.isalnum() and len(digits) <= 4 and not set(digits.lower()) - _HEX
    kind = _KINDS.get(word, int(digits, 16) if is_number else -1)
    if kind in (-1, GROUP):
        raise UsageError(
            f"kind {word!r} of an entry", hint=f"choose from {', '.join(_KINDS)} and numbers such as 0x200"
        )
    return kind


_HEX = set("0123456789abcdef")


def _architecture(image: Image) -> tuple[int, int]:
    """Return the number of the architecture and the flags of its variant."""
    arch = image.target.arch
    number = arch.removeprefix("sm_").removeprefix("compute_").removeprefix("lto_")
    digits = number.rstrip("af")
    if not arch and "kind" in image.attrs:
        return 0, 0
    if not digits.isascii() or not digits.isdigit() or len(digits) > 5 or number[len(digits) :] not in _VARIANTS:
        raise UsageError(f"architecture {arch!r} in a fat binary", hint="write sm_90, sm_90a or sm_100f")
    return int(digits), _VARIANTS[number[len(digits) :]]


def _label(image: Image) -> int:
    """Return the flags for what is stated about an image."""
    target, attrs = image.target, image.attrs
    if target.offload not in ("cuda", "none"):
        raise UsageError(f"a fat binary cannot say offload model {target.offload!r}", hint="it is for CUDA alone")
    width = target.triple.partition("-")[0]
    if width not in _WIDTHS:
        raise UsageError(f"triple {target.triple!r} in a fat binary", hint="it knows nvptx64-nvidia-cuda and nvptx")
    host = attrs.get("host", "linux")
    if host not in _HOSTS:
        raise UsageError(f"host {host!r} of a fat binary", hint=f"choose from {', '.join(_HOSTS)}")
    debug = attrs.get("debug", "no")
    if debug not in ("yes", "no"):
        raise UsageError(f"debug {debug!r} of an image", hint="choose from yes and no")
    return _WIDTHS[width] | _HOSTS[host] | (FLAG_DEBUG if debug == "yes" else 0)


def _stored(image: Image, name: str) -> bytes:
    text = image.attrs.get(name, "").encode("utf-8", "surrogateescape")
    if b"\0" in text:
        raise UsageError(f"the {name} of an image contains a NUL byte")
    return text


def finish_entry(draft: EntryDraft, style: ProducerStyle) -> Sequence[Piece]:
    """Return the bytes of an entry: its header, its image, compressed if the style says so, and padding."""
    if draft.copied is not None:
        return [draft.copied]
    if draft.packed is not None:
        return _laid_out(draft, draft.flags, [draft.packed], draft.sizes)
    if not draft.is_compressed(style):
        return _laid_out(draft, draft.flags, draft.data, (0, 0))
    style = style.like(draft.like) if draft.like else style
    stream = compress_image(draft.data, style)
    flags = draft.flags | METHOD_BITS[style.method or ""]
    return _laid_out(draft, flags, [stream], (len(stream), draft.size))


def compress_image(pieces: Sequence[Piece], style: ProducerStyle) -> bytes:
    """Return pieces as one compressed stream of a style. Raises UsageError for more than an entry can say."""
    from fatpack.codecs.compress import compress

    parts = _parts(pieces)
    try:
        stream = compress(parts, style.method or "", sum(map(len, pieces)), style.level, one_shot=True)
    finally:
        parts.close()  # the traceback of an error keeps it, and with it the lock that other threads wait for
    if len(stream) >= 1 << 32:
        raise UsageError(f"{len(stream)} compressed bytes in one entry", hint="use compress_mode none")
    return stream


def _parts(pieces: Iterable[Piece]) -> Generator[bytes | bytearray | memoryview]:
    for piece in pieces:
        if isinstance(piece, (bytes, bytearray, memoryview)):
            yield piece
            continue
        source = piece.source
        if source.is_file:
            yield from piece.pieces()
            source.rest()
        elif source.is_concurrent:
            yield from piece.pieces()
        else:
            # Threads that take pieces of one stream in turn would each inflate it from its beginning again.
            with _ONE_READER:
                yield from piece.pieces()


def _laid_out(draft: EntryDraft, flags: int, pieces: Sequence[Piece], sizes: tuple[int, int]) -> Sequence[Piece]:
    size = sum(map(len, pieces))
    header = entry_header(draft, flags, None, padded_size(size), sizes)
    return [header, *pieces, bytes(-size % 8)]


def entry_header(
    draft: EntryDraft, flags: int, place: int | None, padded_size: int, sizes: tuple[int, int] = (0, 0)
) -> bytes:
    """Return the header of an entry with its variable area; ``place`` is that of a member in its group."""
    area, identifier_at, options_at = write_entry_strings(draft.kind, draft.area)
    minor, major = draft.code_version
    compressed_size, inflated_size = sizes
    head = ENTRY.pack(
        draft.kind,
        ENTRY_VERSION,
        ENTRY.size + len(area) if place is None else place,
        padded_size,
        compressed_size,
        options_at,
        minor,
        major,
        draft.sm,
        identifier_at,
        len(draft.area.identifier),
        flags,
        draft.key,
        inflated_size,
    )
    return head + area
