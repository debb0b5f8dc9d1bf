"""Writer of SYCLBIN files of either version."""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import Unsupported, UsageError
from fatpack.formats import offload_binary
from fatpack.formats.offload_binary.layout import OFFLOAD_BINARY_FORMAT, OffloadBinaryEntry
from fatpack.formats.syclbin.layout import (
    ABSTRACT,
    AM_METADATA,
    GLOBAL_METADATA,
    GLOBAL_SET,
    HEADER,
    IMAGE_KINDS,
    IR,
    IR_MODULE,
    IR_SET,
    IR_TYPES,
    MAGIC,
    NATIVE,
    NATIVE_IMAGE,
    NATIVE_SET,
    OFFLOAD_KIND,
    PAYLOAD,
    STATES,
    VERSION_2,
    NewModules,
    SyclbinEntry,
    SyclbinHeader,
    padded_size,
)
from fatpack.formats.syclbin.properties import write_property_set
from fatpack.io.source import PiecesSource, Span, View
from fatpack.model import Container, Image, Target
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from fatpack.io.source import Piece
    from fatpack.writer_options import SyclbinOptions


#: The default state: that of ``clang -fsyclbin``.
STATE = "executable"


class SyclbinPart(Record):
    """An image to write: its role, its abstract module (None: of no module), and the text of its metadata."""

    image: Image
    role: str
    module: int | None
    metadata: Piece


def global_metadata(stored: SyclbinHeader | None, state: str | None) -> Piece:
    """Return the global metadata of a file in a state; stored metadata with the same state is returned unchanged.

    Raises UsageError for an unknown state.
    """
    numbers = {word: number for number, word in STATES.items()}
    state = state or (None if stored else STATE)
    number = numbers.get(state or "")
    if number is None and state is not None:
        if not (state.isascii() and state.isdigit() and len(state) < 10):
            raise UsageError(f"state {state!r} of a SYCLBIN file", hint=f"choose from {', '.join(numbers)}")
        number = int(state)
    if stored is not None and stored.global_metadata is not None and number == stored.state:
        return stored.global_metadata
    return write_property_set(GLOBAL_SET, [("state", number)] if number is not None else [])


def make_parts(images: Sequence[Image], first: int = 0, *, keeps_alone: bool = False) -> list[SyclbinPart]:
    """Return images with role and module, in the order of their modules; those without a module come last.

    An image that names no module gets one of its own, numbered from ``first``; with ``keeps_alone`` an image that had
    no module in its file still has none. Raises UsageError for an invalid role or module.
    """
    found: list[SyclbinPart] = []
    numbers = [_number(image) for image in images]
    following = max((first - 1, *(number for number in numbers if number is not None))) + 1
    for image, number in zip(images, numbers, strict=True):
        entry = image.record if isinstance(image.record, SyclbinEntry) else None
        role = image.attrs.get("role") or (NATIVE if image.target.arch else IR)
        if role not in (IR, NATIVE):
            raise UsageError(f"role {role!r} of an image in a SYCLBIN file", hint=f"choose {IR} or {NATIVE}")
        module = number
        if module is None and not (keeps_alone and entry is not None):
            module, following = following, following + 1
        metadata = entry.metadata if entry is not None and entry.role == role else _metadata(image, role)
        found.append(SyclbinPart(image, role, module, metadata))
    return sorted(found, key=lambda part: (following if part.module is None else part.module, part.role != IR))


def _number(image: Image) -> int | None:
    text = image.attrs.get("am_index")
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) < limits.IMAGES):
        raise UsageError(f"am_index {text!r} of an image in a SYCLBIN file", hint="number abstract modules from 0 on")
    return int(text)


def ir_type(image: Image) -> int:
    """Return the type number of an IR module, from its attributes or else its form."""
    text = image.attrs.get("ir_type", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else IR_TYPES.get(image.form, 0)


def _metadata(image: Image, role: str) -> bytes:
    target = image.target
    if role == NATIVE:
        return write_property_set(NATIVE_SET, [("arch", target.arch), ("target", target.triple)])
    if target.arch:
        raise UsageError(
            f"an IR module in a SYCLBIN file is for no architecture, and this is for {target.arch}",
            hint="leave the architecture out, or store it as native code",
        )
    return write_property_set(IR_SET, [("type", ir_type(image)), ("target", target.triple)])


def module_texts(container: Container, parts: Sequence[SyclbinPart]) -> list[Piece]:
    """Return the texts of all abstract modules, by their numbers; missing ones are empty."""
    record = container.record
    known: Mapping[int, Piece] = {}
    if isinstance(record, SyclbinHeader):
        known = {module.number: module.metadata for module in record.modules}
    elif isinstance(record, NewModules):
        known = record.metadata
    last = max((*known, *(part.module for part in parts if part.module is not None)), default=-1)
    return [known.get(number, b"") for number in range(last + 1)]


def group_by_module(parts: Sequence[SyclbinPart]) -> dict[int | None, list[SyclbinPart]]:
    """Return parts by their modules, in order."""
    groups: dict[int | None, list[SyclbinPart]] = {}
    for part in parts:
        groups.setdefault(part.module, []).append(part)
    return groups


# Writing in the layout of DPC++'s ``SYCLBIN::write`` of either version.


def write(container: Container, options: SyclbinOptions | None = None) -> Iterator[Piece]:
    """Yield the pieces of one file; images are copied without reading them.

    ``container.version`` is 1 or 2, and ``attrs["state"]`` the state of the file, unless ``options`` set another. The
    abstract module of an image is its ``attrs["am_index"]``; one without gets a module of its own. An image with an
    architecture is native code, any other an IR module, unless ``attrs["role"]`` says otherwise. Raises UsageError for
    contents that the format cannot store, Unsupported for images of a file that share their bytes.
    """
    stored = container.record if isinstance(container.record, SyclbinHeader) else None
    if container.version not in (1, 2):
        raise UsageError(f"SYCLBIN of version {container.version}", hint="choose 1 or 2")
    state = options.state if options is not None else None
    text = global_metadata(stored, state or container.attrs.get("state"))
    if container.version == 2 and stored is not None and stored.outer is not None:
        return rewrite_version2(container, stored, stored.outer, text)
    parts = make_parts(container.images, keeps_alone=container.version == 1 and stored is not None)
    modules = module_texts(container, parts)
    if container.version == 2:
        return write_version2(parts, modules, text)

    return iter(write_version1(parts, modules, text, stored))


# Version 2: entries of an offload binary, with the strings that DPC++ gives them.

#: The version of the offload binary that is written: LLVM 23 reads it.
_OUTER_VERSION = 2

#: Keys of an entry that keep DPC++'s position instead of that of the image's attributes.
_PLACED = ("role", "am_index", "ir_type", "arch", "triple", "sycl_format_version")


def write_version2(parts: Sequence[SyclbinPart], modules: Sequence[Piece], global_text: Piece) -> Iterator[Piece]:
    """Yield the pieces of a file: global metadata, then of each abstract module its metadata and its images."""
    images = [_entry(GLOBAL_METADATA, {}, [global_text])]
    groups = group_by_module(parts)
    for number, metadata in enumerate(modules):
        images += _of_module(number, metadata, groups.get(number, ()))
    return offload_binary.write(Container(OFFLOAD_BINARY_FORMAT, _OUTER_VERSION, tuple(images), Span(0, 0)))


def rewrite_version2(
    container: Container, stored: SyclbinHeader, outer: Container, global_text: Piece
) -> Iterator[Piece]:
    """Yield the pieces of a file that was read, in stored order, without images that were removed.

    New images come last, each with an abstract module of its own.
    """
    # The images themselves are meant: two that are equal are stored twice.
    own = {id(image) for image in outer.images}
    kept = {id(_outer(image)): image for image in container.images}
    new = [image for image in container.images if id(_outer(image)) not in own]
    numbers = [module.number for module in stored.modules]
    images = []
    for image in outer.images:
        if image.attrs.get("role") == GLOBAL_METADATA and image.data is stored.global_metadata:
            images.append(image if global_text is stored.global_metadata else _with_data(image, global_text))
        elif id(image) in kept:
            images.append(_with_changes(image, kept[id(image)]))
        elif image.attrs.get("role") in (GLOBAL_METADATA, AM_METADATA):
            images.append(image)
    alone = [
        image.replace(attrs={key: text for key, text in image.attrs.items() if key != "am_index"}) for image in new
    ]
    for part in make_parts(alone, max(numbers, default=-1) + 1):
        if part.module is not None:
            images += _of_module(part.module, b"", [part])
    return offload_binary.write(outer.replace(images=tuple(images)))


def _alone(image: Image) -> Image:
    return image.replace(attrs={key: text for key, text in image.attrs.items() if key != "am_index"})


def _outer(image: Image) -> Image | None:
    return image.record.outer if isinstance(image.record, SyclbinEntry) else None


def _with_changes(outer: Image, image: Image) -> Image:
    """Return the entry of an image: its stored one, unless the image has other bytes now; its metadata stay."""
    entry = image.record
    if not isinstance(entry, SyclbinEntry) or image.data is entry.data:
        return outer
    if entry.role not in (IR, NATIVE):
        return _with_data(outer, image.data)
    return _with_data(outer, PAYLOAD.pack(len(entry.metadata)), entry.metadata, image.data)


def _with_data(image: Image, *pieces: Piece) -> Image:
    view = PiecesSource(pieces).view()
    record = image.record
    if isinstance(record, OffloadBinaryEntry):
        record = record.replace(image_offset=-1)  # it shares no bytes with stored ones
    return image.replace(data=view, size=len(view), stored_size=len(view), span=view.span(), record=record)


def _of_module(number: int, metadata: Piece, parts: Sequence[SyclbinPart]) -> Iterator[Image]:
    """Yield the entries of an abstract module: its metadata, and its images, each after its own metadata."""
    yield _entry(AM_METADATA, {"am_index": str(number)}, [metadata])
    for part in parts:
        image = part.image
        strings = {"am_index": str(number)}
        if part.role == IR:
            strings["ir_type"] = str(ir_type(image))
        else:
            strings["arch"] = image.target.arch
        strings["triple"] = image.target.triple
        strings |= {key: value for key, value in image.attrs.items() if key not in _PLACED}
        yield _entry(part.role, strings, [PAYLOAD.pack(len(part.metadata)), part.metadata, image.data])


def _entry(role: str, strings: Mapping[str, str], pieces: Sequence[Piece]) -> Image:
    pairs = {"sycl_format_version": VERSION_2, "role": role, **strings}
    try:
        stored = tuple((_encoded(key), _encoded(value)) for key, value in pairs.items())
    except UnicodeEncodeError as error:
        raise UsageError(f"{error.object!r} cannot be stored as text", hint="give it in UTF-8") from None
    view = PiecesSource(pieces).view()
    record = OffloadBinaryEntry(IMAGE_KINDS[0], OFFLOAD_KIND, 0, stored)
    return Image(Target(), "syclbin", view, len(view), len(view), view.span(), record=record)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


# Version 1: headers, the metadata table, the table of images.
#
# DPC++'s tools put the text of a module before those of its images, its runtime those of all modules before all others.
# Stored parts are written in stored order.


def write_version1(
    parts: Sequence[SyclbinPart], modules: Sequence[Piece], global_text: Piece, stored: SyclbinHeader | None
) -> list[Piece]:
    """Return a file of version 1 in pieces. Raises Unsupported for images of a file that share their bytes."""
    _refuse_shared(parts, stored)
    texts, images = _BlobTable(stored), _BlobTable(stored)
    rows: dict[str, list[tuple[int, int, int, int]]] = {IR: [], NATIVE: []}
    abstract = []
    groups = group_by_module(parts)
    global_at = texts.add(global_text)
    for number, metadata in enumerate(modules):
        firsts = len(rows[IR]), len(rows[NATIVE])
        text = texts.add(metadata)
        _add_images(groups.pop(number, ()), rows, texts, images)
        counts = len(rows[IR]) - firsts[0], len(rows[NATIVE]) - firsts[1]
        abstract.append((text, len(metadata), counts[0], firsts[0], counts[1], firsts[1]))
    _add_images(groups.pop(None, ()), rows, texts, images)
    text_pieces, text_at, text_size = texts.laid_out()
    image_pieces, image_at, image_size = images.laid_out()
    front = [
        HEADER.pack(
            int.from_bytes(MAGIC, "little"),
            1,
            len(abstract),
            len(rows[IR]),
            len(rows[NATIVE]),
            stored.padding if stored is not None else 0,
            text_size,
            image_size,
            text_at[global_at],
            len(global_text),
        )
    ]
    front += [ABSTRACT.pack(text_at[text], *rest) for text, *rest in abstract]
    for role, layout in ((IR, IR_MODULE), (NATIVE, NATIVE_IMAGE)):
        for text, size, image, image_bytes in rows[role]:
            front.append(layout.pack(text_at[text], size, image_at[image], image_bytes))
    end = padded_size(image_size) - image_size if stored is None or stored.is_padded else 0
    return [b"".join(front), *text_pieces, bytes(padded_size(text_size) - text_size), *image_pieces, bytes(end)]


def _add_images(
    parts: Sequence[SyclbinPart],
    rows: dict[str, list[tuple[int, int, int, int]]],
    texts: _BlobTable,
    images: _BlobTable,
) -> None:
    for part in parts:
        data = part.image.data
        rows[part.role].append((texts.add(part.metadata), len(part.metadata), images.add(data), len(data)))


def _refuse_shared(parts: Sequence[SyclbinPart], stored: SyclbinHeader | None) -> None:
    if stored is None:
        return
    places = {
        (data.start, data.end) for data in (part.image.data for part in parts) if data.source is stored.body.source
    }
    if sum(end - start for start, end in places) > len(stored.body):
        raise Unsupported(
            "images of this file share their bytes; one by one they would take more than all of it",
            hint="extract the one you need and pack it again",
            chain=stored.body.chain,
        )


class _BlobTable:
    """Bytes and views one after the other: stored ones in stored order, then new ones."""

    def __init__(self, stored: SyclbinHeader | None) -> None:
        self._source = stored.body.source if stored is not None else None
        self._pieces: dict[tuple[int, int, int], Piece] = {}
        self._keys: list[tuple[int, int, int]] = []

    def add(self, piece: Piece) -> int:
        """Add a piece, and return its number; pieces with the same span are written once."""
        if isinstance(piece, View) and piece.source is self._source:
            key = (0, piece.start, piece.end)
        else:
            key = (1, len(self._keys), 0)
        self._pieces[key] = piece
        self._keys.append(key)
        return len(self._keys) - 1

    def laid_out(self) -> tuple[list[Piece], list[int], int]:
        """Return the pieces in order, the start of each added one, and their total size."""
        places: dict[tuple[int, int, int], int] = {}
        at, ordered = 0, []
        for key in sorted(self._pieces):
            piece = self._pieces[key]
            places[key] = at
            ordered.append(piece)
            at += len(piece)
        return ordered, [places[key] for key in self._keys], at
