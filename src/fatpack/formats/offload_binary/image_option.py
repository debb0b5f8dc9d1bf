"""The ``--image=key=value,…`` of llvm-offload-binary 22: how it is taken apart, and which entry it makes."""

from __future__ import annotations

from fatpack import magics
from fatpack.errors import UsageError
from fatpack.formats.offload_binary.key_order import llvm_order
from fatpack.formats.offload_binary.layout import BITCODE, FORMS, KIND_BY_EXTENSION, OFFLOAD_KINDS
from fatpack.formats.offload_binary.stored import Entry
from fatpack.model import Image, Target
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: Offload models by the word after ``kind=``; llvm-offload-binary 22 stores 0 for any other word.
OFFLOAD_WORDS = {name: kind for kind, name in OFFLOAD_KINDS.items() if kind}

_BITCODE_MAGICS = (magics.BITCODE, magics.WRAPPED_BITCODE)


class ImageOption(Record):
    """One ``--image=`` of the command line: keys in order of first appearance, with their values joined by commas.

    ``files`` are the values of ``file``, each an image of its own with the same metadata; ``text`` is the option as
    it was given.
    """

    files: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    text: str = ""

    @property
    def facts(self) -> dict[str, str]:
        """What is said about the images: all keys but ``file``, with their values."""
        return {key: value for key, value in self.pairs if key != "file"}

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


def _stored(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError(f"{text!r} is no text that a file can hold", hint="give it in UTF-8") from None


def image_from(option: ImageOption, name: str, data: View) -> Image:
    """Return the image that one file of an option makes, its strings in the order LLVM stores them.

    Raises UsageError for text that no file can hold.
    """
    pairs = {_stored(key): value for key, value in option.pairs}
    strings = tuple((key, _stored(pairs[key])) for key in llvm_order(list(pairs)) if key not in (b"file", b"kind"))
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
