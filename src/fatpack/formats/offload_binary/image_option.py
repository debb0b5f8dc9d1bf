"""The ``--image=key=value,…`` of llvm-offload-binary: parsing it, and making the entry."""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.errors import UsageError
from fatpack.formats.offload_binary.layout import (
    BITCODE,
    FORMS,
    OFFLOAD_KINDS,
    NewOffloadBinaryEntry,
    OffloadBinaryEntry,
    kinds_by_extension,
)
from fatpack.model import Image, Target
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.io.source import View


# The order in which llvm-offload-binary stores the keys of an image.
#
# The tool keeps the keys of one ``--image`` in a hash map and writes them in the map's order, so byte identity needs
# its hash and its probing. LLVM 23 has another hash than LLVM 19 to 22, and probes in steps of one.
#
# Facts: llvm/include/llvm/ADT/DenseMap.h and Hashing.h of LLVM 19 to 22 and of main in 2026; the orders are compared
# with llvm-offload-binary 22 and 23.1 on thousands of command lines.

#: The constant that LLVM 23 combines with the hash of a key, low half.
_SEED_23 = 0xED558CCD


def llvm_key_order(keys: Sequence[bytes], version: int) -> list[bytes]:
    """Return keys (first appearances, ``file`` and ``kind`` included) in the order in which LLVM stores them in that
    container version: LLVM 22 for version 1, LLVM 23 for later ones.
    """
    hash_key, growth = (_hash_22, 1) if version == 1 else (_hash_23, 0)
    slots: list[bytes | None] = [None] * 64
    for count, key in enumerate(keys):
        if 4 * (count + 1) >= 3 * len(slots):
            old, slots = slots, [None] * (2 * len(slots))
            for kept in old:
                if kept is not None:
                    _place(slots, kept, hash_key, growth)
        _place(slots, key, hash_key, growth)
    return [key for key in slots if key is not None]


def _hash_22(key: bytes) -> int:
    # Each version loads its own hash only.
    from fatpack.codecs.hashes import hash_key

    return hash_key(key)


def _hash_23(key: bytes) -> int:
    from fatpack.codecs.hashes import xxh3

    return (xxh3(key) ^ _SEED_23) & 0xFFFFFFFF


def _place(slots: list[bytes | None], key: bytes, hash_key: Callable[[bytes], int], growth: int) -> None:
    """Put a key into the first free slot, starting at its hash's; every step is longer by ``growth``."""
    at, step = hash_key(key) % len(slots), 1
    while slots[at] is not None:
        at = (at + step) % len(slots)
        step += growth
    slots[at] = key


#: Offload models by the word after ``kind=``; llvm-offload-binary stores 0 for any other word.
OFFLOAD_WORDS = {name: kind for kind, name in OFFLOAD_KINDS.items() if kind}

_BITCODE_MAGICS = (magic_numbers.BITCODE, magic_numbers.WRAPPED_BITCODE)


class ImageOption(Record):
    """One ``--image=`` of the command line: keys in order of first appearance, with their values joined by commas.

    ``files`` are the values of ``file``, each an image of its own with the same metadata; ``text`` is its name in
    messages: the option as typed, or the image if there was no option.
    """

    files: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    text: str = ""

    @property
    def facts(self) -> dict[str, str]:
        """The metadata of the option's images: all keys except ``file``, with their values."""
        return {key: value for key, value in self.pairs if key != "file"}

    def get(self, key: str) -> str | None:
        """Return a key's value, None if it was not given."""
        return dict(self.pairs).get(key)


def parse_image_option(text: str) -> ImageOption:
    """Parse ``file=F,triple=T[,arch=A][,kind=K][,key=value…]`` like llvm-offload-binary.

    Parts are split at every comma and each at its first ``=``; a repeated key joins its values with commas, a key
    without ``=`` has an empty value.
    """
    values: dict[str, list[str]] = {}
    for part in text.split(","):
        key, _, value = part.partition("=")
        values.setdefault(key, []).append(value)
    pairs = tuple((key, ",".join(parts)) for key, parts in values.items())
    return ImageOption(tuple(values.get("file", ())), pairs, f"--image={text}")


def check_file_key(option: ImageOption) -> None:
    """Raise UsageError for an option that names no file; people often try a path without ``file=`` first."""
    if not option.files:
        first = option.text.removeprefix("--image=").partition(",")[0]
        path = first if first and "=" not in first else "PATH"
        hint = f"write --image=file={path}, with ,triple=TRIPLE,arch=ARCH if the image does not state them"
        raise UsageError(f"{option.text} has no file=", hint=hint)


def llvm_image_kind(name: str, is_bitcode: bool, version: int) -> int:
    """Return the image kind that LLVM stores in that container version: that of bitcode by its magic (``is_bitcode``),
    that of any other by the file's extension.
    """
    if is_bitcode:
        return BITCODE
    base = name.rpartition("/")[2]
    return kinds_by_extension(version).get(base.rpartition(".")[2] if "." in base else "", 0)


def lay_out_entry(new: NewOffloadBinaryEntry, version: int) -> OffloadBinaryEntry:
    """Return an entry as stored by the LLVM that writes that container version."""
    pairs = dict(new.pairs)
    order = llvm_key_order(list(pairs), version)
    strings = tuple((key, pairs[key]) for key in order if key not in (b"file", b"kind"))
    return OffloadBinaryEntry(llvm_image_kind(new.name, new.is_bitcode, version), new.offload_kind, 0, strings)


def _stored(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise UsageError(f"{text!r} cannot be stored as text", hint="give it in UTF-8") from None


def image_from(option: ImageOption, name: str, data: View) -> Image:
    """Return the image for one file of an option; its entry is laid out when it is written.

    Raises UsageError for text that cannot be stored.
    """
    pairs = tuple((_stored(key), _stored(value)) for key, value in option.pairs)
    offload = OFFLOAD_WORDS.get(option.get("kind") or "", 0)
    new = NewOffloadBinaryEntry(name, data.head(0, 4).startswith(_BITCODE_MAGICS), offload, pairs)
    target = Target(option.get("triple") or "", option.get("arch") or "", OFFLOAD_KINDS[offload])
    attrs = {key: value for key, value in option.pairs if key not in ("file", "kind", "triple", "arch")}
    form = FORMS.get(llvm_image_kind(name, new.is_bitcode, version=1), "")
    return Image(target, form, data, len(data), len(data), data.span(), attrs=attrs, record=new)
