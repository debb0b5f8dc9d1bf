"""Packing: files and what is said about them → containers → one output, alone or inside a copy of a host."""

from __future__ import annotations

from fatpack import formats, images
from fatpack.errors import UsageError
from fatpack.formats.offload_binary.key_order import llvm_order
from fatpack.formats.offload_binary.layout import BITCODE, FORMAT, FORMS, KIND_BY_EXTENSION, OFFLOAD_KINDS
from fatpack.formats.offload_binary.stored import Entry
from fatpack.io.source import open_source
from fatpack.model import Container, Image, Span, Target
from fatpack.record import Record
from fatpack.scan import disagreements

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from fatpack.io.source import Source, View
    from fatpack.model import Finding, Piece

#: Offload models by the word after ``kind=``; llvm-offload-binary 22 stores 0 for any other word.
OFFLOAD_WORDS = {name: kind for kind, name in OFFLOAD_KINDS.items() if kind}

_BITCODE_MAGICS = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")


class ImageOption(Record):
    """One ``--image=`` of the command line: keys in order of first appearance, with their values joined by commas.

    ``files`` are the values of ``file``, each an image of its own with the same metadata; ``text`` is the option as
    it was given.
    """

    files: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    text: str = ""

    def get(self, key: str) -> str | None:
        """Return a key's value, None if it was not given."""
        return dict(self.pairs).get(key)


def parse_image_option(text: str) -> ImageOption:
    """Return ``file=F,triple=T[,arch=A][,kind=K][,key=value…]`` taken apart as llvm-offload-binary 22 does.

    Parts are split at every comma and each at its first ``=``; a repeated key joins its values with commas, a key
    without ``=`` has an empty value.
    """
    values: dict[str, list[str]] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        values.setdefault(key, []).append(value)
    pairs = tuple((key, ",".join(parts)) for key, parts in values.items())
    return ImageOption(tuple(values.get("file", ())), pairs, text)


def image_kind(name: str, head: bytes) -> int:
    """Return the image kind llvm-offload-binary stores: bitcode by its magic, all else by the file's extension."""
    if head.startswith(_BITCODE_MAGICS):
        return BITCODE
    base = name.rpartition("/")[2]
    return KIND_BY_EXTENSION.get(base.rpartition(".")[2] if "." in base else "", 0)


def image_from(option: ImageOption, name: str, data: View) -> Image:
    """Return the image that one file of an option makes, its strings in the order LLVM stores them."""
    pairs = {key.encode("utf-8", "surrogateescape"): value for key, value in option.pairs}
    order = llvm_order(list(pairs))
    strings = tuple(
        (key, pairs[key].encode("utf-8", "surrogateescape")) for key in order if key not in (b"file", b"kind")
    )
    kind = image_kind(name, data.head(0, 4))
    offload = OFFLOAD_WORDS.get(option.get("kind") or "", 0)
    target = Target(option.get("triple") or "", option.get("arch") or "", OFFLOAD_KINDS[offload])
    attrs = {key: value for key, value in option.pairs if key not in ("file", "kind", "triple", "arch")}
    return Image(
        target,
        FORMS.get(kind, ""),
        data,
        len(data),
        len(data),
        data.span(),
        attrs=attrs,
        record=Entry(kind, offload, 0, strings),
    )


class Packed(Record):
    """Containers ready to be written, and what is odd about their images."""

    containers: tuple[Container, ...]
    findings: tuple[Finding, ...] = ()

    def pieces(self) -> list[Piece]:
        """Return the bytes of all containers, one after the other, as pieces; images are views of their files."""
        return [piece for container in self.containers for piece in formats.room(container.format).write(container)]


def open_images(options: Iterable[ImageOption], opened: list[Source]) -> Iterator[Image]:
    """Yield the images of the options; every file is appended to ``opened`` for the caller to close.

    Raises UsageError for an option without ``file``, ``OSError`` for a file that cannot be read.
    """
    for option in options:
        if not option.files:
            raise UsageError(
                f"--image={option.text} has no file=", hint="write --image=file=PATH,triple=TRIPLE,arch=ARCH"
            )
        for name in option.files:
            source = open_source(name, resting=True)
            opened.append(source)
            yield image_from(option, name, source.view())
            source.rest()


def pack(
    stored: Sequence[Image], *, version: int = 1, compression: str | None = None, level: int | None = None
) -> Packed:
    """Return offload binaries that hold the images: one each for version 1, one for all of them for 2 and 3.

    ``compression`` (version 3 only) is ``zlib`` or ``zstd``. Images whose bytes contradict what is said about them
    give findings; nothing is read of them but headers.
    """
    if version not in (1, 2, 3):
        raise UsageError(f"container version {version}", hint="offload binaries have versions 1, 2 and 3")
    if compression and version != 3:
        raise UsageError("only container version 3 can be compressed", hint="add --container-version=3")
    attrs = {"compression": compression} if compression else {}
    if compression and level is not None:
        attrs["compression_level"] = str(level)
    groups = [(image,) for image in stored] if version == 1 else [tuple(stored)] if stored else []
    containers = tuple(Container(FORMAT, version, group, Span(0, 0), attrs=attrs) for group in groups)
    findings = [found for image in stored for found in disagreements(image, images.recognise(image.data))]  # type: ignore[arg-type]
    return Packed(containers, tuple(findings))
