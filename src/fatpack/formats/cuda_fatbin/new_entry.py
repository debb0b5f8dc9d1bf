"""New entries of fat binaries: the header for an image, and its stored bytes."""

from __future__ import annotations

from _thread import allocate_lock

from fatpack import magic_numbers
from fatpack.binary.elf.layout import CUDA
from fatpack.binary.elf.quick_header import read_quick_header
from fatpack.errors import UsageError
from fatpack.formats.cuda_fatbin.entry import entry_image, is_refused, write_entry_strings
from fatpack.formats.cuda_fatbin.layout import (
    COMPRESSED,
    ELF,
    ENTRY,
    ENTRY_VERSION,
    FLAG_64_BIT,
    FLAG_ACCELERATED,
    FLAG_DEBUG,
    FLAG_FAMILY,
    FLAG_FINALIZABLE,
    FLAG_OBFUSCATED,
    GROUP,
    HOST_MASK,
    HOSTS,
    KIND_OF,
    KINDS,
    LTOIR,
    METHODS,
    TEXTS,
    TILE_IR,
    WITH_OPTIONS,
    CudaEntry,
    CudaEntryHeader,
    CudaEntryStrings,
    padded_size,
)
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Sequence

    from fatpack.formats.cuda_fatbin.writer import ProducerStyle
    from fatpack.io.source import Piece, View
    from fatpack.model import Image


# Facts of a cubin that fatbinary copies into its entry.

#: EI_OSABI of cubins since CUDA 12.8 (for SM 100 and later) and 13.0 (for all)
_NEW_OSABI = 0x41

#: bit of ``e_flags`` in the new ABI: the code can be finalized for other SMs
_FINALIZABLE = 2

#: sh_type of ``.nv.compat``: SHT_LOPROC + 0x86
_COMPAT = 0x70000086

#: LIMIT: bytes of ``.nv.compat``; real ones have 16 to 48.
_COMPAT_SIZE = 1 << 16


class CubinFacts(Record):
    """Facts of a cubin: SM number, word size, EI_VERSION and EI_ABIVERSION, whether it can be finalized.

    ``compat`` is the content of ``.nv.compat``, empty if the cubin cannot be finalized.
    """

    sm: int
    bits: int
    elf_version: int
    abi_version: int
    is_finalizable: bool
    compat: bytes


def read_cubin_facts(view: View) -> CubinFacts:
    """Return the facts of a cubin. Raises UsageError for anything else."""
    head = view.head(0, 64)
    elf = read_quick_header(view, head)
    if elf is None or elf.machine != CUDA:
        raise UsageError("this is no cubin", hint="other images need another form", chain=view.chain)
    is_new = elf.osabi == _NEW_OSABI
    is_finalizable = is_new and bool(elf.flags & _FINALIZABLE)
    compat = b""
    for _, at, size in elf.extent((_COMPAT,))[1] if is_finalizable else ():
        if size > _COMPAT_SIZE:
            raise UsageError(f"the section .nv.compat has {size} bytes", chain=view.chain)
        compat = view.read(at, size)
        break
    sm = elf.flags >> 8 & 0xFFFF if is_new else elf.flags & 0xFF
    return CubinFacts(sm, elf.shape.bits, head[6], head[8], is_finalizable, compat)


# PTX in fatbinary's form: its version, and the text without comments and blanks.
#
# How we know: random texts through fatbinary 13.0 to 13.5; the rules below give the same bytes.

_BLANKS = b" \t\n\r\v\f"
_DIGITS = b"0123456789"


def ptx_version(text: bytes) -> tuple[int, int]:
    """Return the PTX version: the number after the first ``.version``, in a comment or not, like fatbinary.

    QUIRK(fatbinary 13): after the dot it reads one digit. Raises UsageError for a text without a version.
    """
    at = text.find(b".version")
    words = text[at + 8 : at + 64].lstrip(_BLANKS) if at >= 0 else b""
    major = words[: len(words) - len(words.lstrip(_DIGITS))]
    minor = words[len(major) + 1 : len(major) + 2]
    if not major or words[len(major) : len(major) + 1] != b"." or not minor.isdigit() or int(major) > 0xFFFF:
        raise UsageError("this PTX states no version", hint="it needs a line such as .version 9.0")
    return int(major), int(minor)


def minify_ptx(text: bytes) -> bytes:
    """Return a text as fatbinary 13 stores it: without comments and blanks at the start of lines, runs of blanks as
    one.

    Strings stay as they are. A ``"`` after a backslash neither starts nor ends one, regardless of the text before the
    backslash.
    """
    import re

    pattern = re.compile(
        rb"""((?<!\\)"(?:[^"]|(?<=\\)")*"?)"""  # a string, to its end or the end of the text
        rb"""|//[^\n\r]*"""
        rb"""|/\*(?:/|.*?\*/|.*)"""  # QUIRK(fatbinary 13): /*/ is a whole comment
        rb"""|(?<=[ \t\n\r\v\f])[ \t]+""",
        re.DOTALL,
    )
    return pattern.sub(lambda match: match[1] or b"", text)


# Fields of a new entry that depend on the image's bytes: the code version, and facts copied from a cubin.


class NewEntryContents(Record):
    """The bytes to store and the fields for them; ``code_version`` is (minor, major), None if unknown."""

    data: tuple[Piece, ...]
    code_version: tuple[int, int] | None = None
    flags: int = 0
    compat: bytes = b""


def new_entry_contents(image: Image, kind: int, sm: int, *, is_64_bit: bool, minifies: bool) -> NewEntryContents:
    """Return the contents of a new entry of that kind for an image. Raises UsageError if the image is of another
    kind."""
    data = image.data
    if kind in TEXTS:
        # NVRTC's output ends in a NUL, and fatbinary compresses a file's NUL along with its own.
        text = data.tobytes().rstrip(b"\0")
        if b"\0" in text:
            raise UsageError("this PTX contains a NUL byte, where readers would end it", chain=data.chain)
        major, minor = ptx_version(text)
        return NewEntryContents((minify_ptx(text) if minifies else text, b"\0"), (minor, major))
    if kind == ELF:
        return _cubin(data, sm, is_64_bit=is_64_bit)
    head = data.head(0, 12)
    if kind == LTOIR:
        _check(head, magic_numbers.LTO_IR, "LTO-IR", data)
        return NewEntryContents((data,), (head[5], head[4]))
    if kind == TILE_IR:
        _check(head, magic_numbers.TILE_IR, "Tile IR", data)
        return NewEntryContents((data,), (int.from_bytes(head[10:12], "little"), head[8] << 8 | head[9]))
    return NewEntryContents((data,))


def _cubin(data: View, sm: int, *, is_64_bit: bool) -> NewEntryContents:
    cubin = read_cubin_facts(data)
    if cubin.sm != sm:
        raise UsageError(f"a cubin for sm_{cubin.sm} as one for sm_{sm}", chain=data.chain)
    if (cubin.bits == 64) != is_64_bit:
        raise UsageError(f"a cubin of {cubin.bits} bits as one of {64 if is_64_bit else 32}", chain=data.chain)
    flags = FLAG_FINALIZABLE if cubin.is_finalizable else 0
    return NewEntryContents((data,), (cubin.abi_version, cubin.elf_version), flags, cubin.compat)


def _check(head: bytes, magic: bytes, what: str, data: View) -> None:
    if not head.startswith(magic) or len(head) < 12:
        raise UsageError(f"this is no {what}", hint="other images need another form", chain=data.chain)


#: The flags that depend on target and attributes.
_LABEL = FLAG_64_BIT | FLAG_DEBUG | HOST_MASK | FLAG_ACCELERATED | FLAG_FAMILY

#: held while a thread reads a source that several threads cannot read
_ONE_READER = allocate_lock()

_WIDTHS = {"nvptx64": FLAG_64_BIT, "nvptx": 0, "": FLAG_64_BIT}
_VARIANTS = {"": 0, "a": FLAG_ACCELERATED, "f": FLAG_FAMILY, "af": FLAG_ACCELERATED | FLAG_FAMILY}
_HOSTS = {"none": 0, **{host: bit for bit, host in HOSTS.items()}}
_KINDS = {word: kind for kind, word in KINDS.items()}
METHOD_BITS = {method: bit for bit, method in METHODS.items()}


class EntryDraft(Record):
    """An entry before layout.

    ``copied`` are all bytes of an entry that is copied, ``packed`` the compressed ones of an image that gets a new
    header, with the sizes and the key of the old; else ``data`` is the image. ``was_grouped``: it was a member of a
    group, where it was compressed; it is compressed again, so that files do not grow when other members are removed.
    ``stored_area`` is the variable area as stored, with the offsets of identifier and options, for an entry that keeps
    both. ``like`` is the compression method of the image that this one replaces: None if that was uncompressed, "" if
    it replaces none.
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
    stored_area: tuple[bytes, int, int] | None = None

    @property
    def is_new(self) -> bool:
        """True if its image is stored according to the style."""
        return self.copied is None and self.packed is None

    @property
    def is_debug(self) -> bool:
        """True if the image is from a debug compile."""
        return bool(self.flags & FLAG_DEBUG)

    def is_compressed(self, style: ProducerStyle) -> bool:
        """Return whether a style compresses a new image."""
        if self.like != "":
            return self.like is not None
        return style.method is not None and (self.was_grouped or style.compresses(self.kind, self.is_debug))

    @property
    def size(self) -> int:
        """The size of the image in bytes."""
        return sum(map(len, self.data))


def draft_entry(image: Image, style: ProducerStyle) -> EntryDraft:
    """Return the entry for an image. Raises UsageError for values that an entry cannot store."""
    old = image.record if isinstance(image.record, CudaEntry) and image.record.data == image.data else None
    is_kept = old is not None and old.group is None and (not style.recompresses or is_refused(old.data))
    # An entry whose sizes were corrected gets a correct header.
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
            stored_area = _stored_area(old) if area == old.area.replace(end=area.end) else None
            return EntryDraft(
                kind, flags, version, sm, area, packed=old.packed, sizes=sizes, key=head.key, stored_area=stored_area
            )
    else:
        flags, version, area = label, (0, 0), CudaEntryStrings(identifier, options)
    like: str | None = ""
    if old is None and isinstance(image.record, CudaEntry):  # other bytes in place of an entry's
        like = "" if style.recompresses else image.compression
    if flags & FLAG_OBFUSCATED or image.attrs.get("obfuscated"):
        raise UsageError("nothing but NVIDIA's tools can obfuscate an image", hint="leave out the attr obfuscated")
    contents = new_entry_contents(image, kind, sm, is_64_bit=bool(flags & FLAG_64_BIT), minifies=style.minifies)
    source = image.data.source
    if source.is_file:
        source.release_buffers()
    area = area.replace(compat=contents.compat)
    was_grouped = old is not None and old.group is not None and not style.recompresses
    version, flags = contents.code_version or version, flags | contents.flags
    return EntryDraft(kind, flags, version, sm, area, contents.data, was_grouped=was_grouped, like=like)


def _stored_area(old: CudaEntry) -> tuple[bytes, int, int] | None:
    """Return the variable area of an entry as stored, with the two offsets into it; None if its header was corrected.

    Writers differ in it: an empty identifier takes eight zero bytes in CUDA 12.4 and none since.
    """
    head = old.head
    stored = CudaEntryHeader(*ENTRY.read(old.stored, 0))
    same = ("place", "options_offset", "identifier_offset", "identifier_size")
    if any(getattr(stored, name) != getattr(head, name) for name in same) or old.area.end > head.place:
        return None
    return old.stored.read(ENTRY.size, head.place - ENTRY.size), head.identifier_offset, head.options_offset


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
    """Return the flags for the attributes of an image."""
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
    """Return the bytes of an entry: its header, its image (compressed if the style says so), and padding."""
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
    """Return pieces as one compressed stream of a style. Raises UsageError for a size that an entry cannot store."""
    from fatpack.codecs.compress import compress

    parts = _parts(pieces)
    try:
        stream = compress(parts, style.method or "", sum(map(len, pieces)), style.level, one_shot=True)
    finally:
        parts.close()  # otherwise the traceback of an error keeps it, and with it the lock that other threads wait for
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
            source.release_buffers()
        elif source.is_concurrent:
            yield from piece.pieces()
        else:
            # Threads that read pieces of one stream in turn would each inflate it from its beginning again.
            with _ONE_READER:
                yield from piece.pieces()


def _laid_out(draft: EntryDraft, flags: int, pieces: Sequence[Piece], sizes: tuple[int, int]) -> Sequence[Piece]:
    size = sum(map(len, pieces))
    header = entry_header(draft, flags, None, padded_size(size), sizes)
    return [header, *pieces, bytes(-size % 8)]


def entry_header(
    draft: EntryDraft, flags: int, place: int | None, padded_size: int, sizes: tuple[int, int] = (0, 0)
) -> bytes:
    """Return the header of an entry with its variable area; ``place`` is the offset of a member in its group."""
    area, identifier_at, options_at = draft.stored_area or write_entry_strings(draft.kind, draft.area)
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
