"""The image that takes the place of another, or stands beside it: which labels of the old one it keeps.

Keys, identifiers and whatever else a container stores of an image are those of the old one. Target and form are, too,
but for what is stated to be different: then the labels of the container say so in its own words.
"""

from __future__ import annotations

from fatpack.formats.offload_binary.layout import FORMS
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from fatpack.formats.cir.bundle_id import CirBundleId as CirId
    from fatpack.formats.clang_bundle.bundle_id import BundleId
    from fatpack.io.source import View
    from fatpack.model import Image, Target

#: form → the word of offload binaries for it, where that is another
_OBJECTS = {"code-object": "object", "archive": "object"}

#: What a fat binary stores of an image that says what the old bytes were.
_OF_OLD_BYTES = ("kind", "options", "obfuscated")


class ReplacementMetadata(Record):
    """What a new image is for, and what it is: the target's triple and arch, and a form; None keeps the old one's."""

    triple: str | None = None
    arch: str | None = None
    form: str | None = None

    def of(self, target: Target) -> Target:
        """Return a target with these labels in the place of its own."""
        triple = target.triple if self.triple is None else self.triple
        arch = target.arch if self.arch is None else self.arch
        return target if (triple, arch) == (target.triple, target.arch) else target.replace(triple=triple, arch=arch)


def replacement_image(
    old: Image, format: str, data: View, labels: ReplacementMetadata | None = None, *, is_beside: bool = False
) -> Image:
    """Return an image with other bytes in the place of one that was read from a container of a format.

    With ``is_beside`` the old one stays, and this is another entry of the same container. Raises UsageError for a
    target that the format cannot name.
    """
    labels = labels or ReplacementMetadata()
    target = labels.of(old.target)
    new = old.replace(
        target=target,
        form=old.form if labels.form is None else labels.form,
        data=data,
        size=len(data),
        stored_size=None if old.stored_size is None else len(data),
        span=data.span(),
    )
    own = _OWN.get(format)
    return own(new, old, is_beside) if own else new


def _of_offload_binary(new: Image, old: Image, _is_beside: bool) -> Image:
    from fatpack.formats.offload_binary.stored import OffloadBinaryEntry, stored_offload_entry

    form = _OBJECTS.get(new.form, new.form)
    stored = stored_offload_entry(old)
    strings = stored.strings
    for key, before, now in (
        (b"triple", old.target.triple, new.target.triple),
        (b"arch", old.target.arch, new.target.arch),
    ):
        if now != before:
            value = now.encode("utf-8", "surrogateescape")
            is_there = any(name == key for name, _ in strings)
            strings = tuple((name, value if name == key else text) for name, text in strings)
            strings = strings if is_there else (*strings, (key, value))
    kind = stored.image_kind
    if new.form != old.form:
        kind = next((number for number, name in FORMS.items() if name == form), 0)
    entry = OffloadBinaryEntry(kind, stored.offload_kind, stored.flags, strings, stored.string_offset, _ELSEWHERE)
    return new.replace(form=form, record=entry)


#: What an entry says of an image that its binary did not hold.
_ELSEWHERE = -1


def _of_bundle(new: Image, old: Image, is_beside: bool) -> Image:
    from fatpack.formats.clang_bundle.bundle_id import id_for, parse_id, stored_id

    def made(target: Target, spelling: str) -> str:
        kind = parse_id(spelling).kind
        return stored_id(kind + id_for(target).removeprefix("hipv4" if target.offload == "hip" else target.offload))

    new = _with_id(new, old, made, parse_id)
    return new.replace(record=None) if is_beside else new


def _of_cir(new: Image, old: Image, is_beside: bool) -> Image:
    from fatpack.formats.cir.bundle_id import id_for, parse_id

    new = _with_id(new, old, lambda target, _: id_for(target.replace(spelling="")), parse_id)
    return new.replace(record=None) if is_beside else new


def _with_id(
    new: Image, old: Image, made: Callable[[Target, str], str], parse: Callable[[str], BundleId | CirId]
) -> Image:
    """Return an image whose bundle ID names its target: the old ID with another processor, where that is all."""
    if new.target == old.target:
        return new
    spelling = old.attrs.get("id") or old.target.spelling
    same_triple = new.target.triple == old.target.triple
    if spelling and old.target.arch and same_triple and spelling.endswith(f"-{old.target.arch}"):
        spelling = spelling.removesuffix(old.target.arch) + new.target.arch
    else:
        spelling = made(new.target, spelling)
    return new.replace(attrs={**old.attrs, "id": spelling}, target=parse(spelling).target)


def _of_fatbin(new: Image, old: Image, is_beside: bool) -> Image:
    gone = _OF_OLD_BYTES if new.form != old.form else ()
    attrs = {key: value for key, value in old.attrs.items() if key not in gone}
    return new.replace(attrs=attrs, record=None if is_beside or gone else old.record)


def _of_kpack(new: Image, _old: Image, is_beside: bool) -> Image:
    from fatpack.formats.kpack.stored import KpackEntry

    record = new.record
    if is_beside or not isinstance(record, KpackEntry):
        return new.replace(record=None)
    return new.replace(record=record.replace(ordinal=_ELSEWHERE))


#: format → what says in its words what an image is for
_OWN: dict[str, Callable[[Image, Image, bool], Image]] = {
    "llvm-offload-binary": _of_offload_binary,
    "clang-offload-bundle": _of_bundle,
    "cir-offload-container": _of_cir,
    "cuda-fatbin": _of_fatbin,
    "rocm-kpack": _of_kpack,
}
