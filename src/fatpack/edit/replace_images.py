"""Replace images, or add others beside them, and verify the result."""

from __future__ import annotations

from fatpack import images
from fatpack.binary import archive
from fatpack.edit.container_file import has_same_bytes
from fatpack.edit.editor import verify_edited
from fatpack.edit.extract import image_pieces
from fatpack.edit.selection import all_items, rewrite, scan_tree, select_for_edit
from fatpack.errors import FormatError, HostError, Unsupported, UsageError, cli_or_api, pluralize
from fatpack.formats.clang_bundle.fat_object import is_host_marker
from fatpack.formats.offload_binary.layout import FORMS
from fatpack.images.container_mismatch import image_words, mismatch_findings
from fatpack.io.source import PiecesSource
from fatpack.model import Finding
from fatpack.record import Record
from fatpack.scanner import FoundContainer
from fatpack.selectors.no_match import unmatched_patterns, unread_findings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fatpack.edit.editor import EditCheck
    from fatpack.edit.selection import EditSelection
    from fatpack.edit.write_containers import ImageChanges
    from fatpack.formats.cir.bundle_id import CirBundleId
    from fatpack.formats.clang_bundle.bundle_id import BundleId
    from fatpack.io.source import Piece, View
    from fatpack.model import Container, Image, Target
    from fatpack.scanner import FoundImage
    from fatpack.selectors.address import Location
    from fatpack.selectors.select import Selector


# Labels of an image that replaces another, or is added beside it.
#
# Keys, identifiers and other metadata in the container are those of the old image. So are target and form, unless
# others are stated: then the metadata of the container has these, in the terms of its format.

#: form → the form of offload binaries for it, if that is another
_OBJECTS = {"code-object": "object", "archive": "object"}

#: Fields of a fat binary's entry that describe the old bytes.
_OF_OLD_BYTES = ("kind", "options", "obfuscated")


class ReplacementMetadata(Record):
    """The target and form of a new image: triple, arch and form; None keeps the old one's."""

    triple: str | None = None
    arch: str | None = None
    form: str | None = None

    def of(self, target: Target) -> Target:
        """Return a target with these labels in place of its own."""
        triple = target.triple if self.triple is None else self.triple
        arch = target.arch if self.arch is None else self.arch
        return target if (triple, arch) == (target.triple, target.arch) else target.replace(triple=triple, arch=arch)


def replacement_image(
    old: Image, format: str, data: View, labels: ReplacementMetadata | None = None, *, is_beside: bool = False
) -> Image:
    """Return an image with other bytes in place of an image of a container of a format.

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
    from fatpack.formats.offload_binary.layout import OffloadBinaryEntry, stored_offload_entry

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


#: Fields of an entry for an image that was not in its binary.
_ELSEWHERE = -1


def _of_bundle(new: Image, old: Image, is_beside: bool) -> Image:
    from fatpack.formats.clang_bundle.bundle_id import id_for, parse_bundle_id, stored_id

    def made(target: Target, spelling: str) -> str:
        kind = parse_bundle_id(spelling).kind
        return stored_id(kind + id_for(target).removeprefix("hipv4" if target.offload == "hip" else target.offload))

    new = _with_id(new, old, made, parse_bundle_id)
    return new.replace(record=None) if is_beside else new


def _of_cir(new: Image, old: Image, is_beside: bool) -> Image:
    from fatpack.formats.cir.bundle_id import id_for, parse_bundle_id

    new = _with_id(new, old, lambda target, _: id_for(target.replace(spelling="")), parse_bundle_id)
    return new.replace(record=None) if is_beside else new


def _with_id(
    new: Image, old: Image, made: Callable[[Target, str], str], parse: Callable[[str], BundleId | CirBundleId]
) -> Image:
    """Return an image whose bundle ID names its target: the old ID with another processor, if that is enough."""
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
    from fatpack.formats.kpack.layout import KpackEntry

    record = new.record
    if is_beside or not isinstance(record, KpackEntry):
        return new.replace(record=None)
    return new.replace(record=record.replace(ordinal=_ELSEWHERE))


#: format → the function that sets the labels of an image in the terms of the format
_OWN: dict[str, Callable[[Image, Image, bool], Image]] = {
    "llvm-offload-binary": _of_offload_binary,
    "clang-offload-bundle": _of_bundle,
    "cir-offload-container": _of_cir,
    "cuda-fatbin": _of_fatbin,
    "rocm-kpack": _of_kpack,
}


#: images that are listed if several match
_SHOWN = 12


#: the most zeros that a fat binary may put after an image
_PADDING = 16


class ImageSubstitution(Record):
    """A plan to put other bytes into a host: its pieces, the changes in words, and notes on the other images.

    ``unread``, ``unmatched`` and ``damaged`` are as in a :class:`fatpack.commands.slim.remove.ImageRemoval`.
    """

    selection: EditSelection
    changes: ImageChanges
    pieces: tuple[Piece, ...]
    changed: tuple[str, ...]
    unread: tuple[Finding, ...] = ()
    unmatched: tuple[str, ...] = ()
    damaged: tuple[Finding, ...] = ()

    def check_in(self, place: Location) -> EditCheck:
        """Return a check that raises HostError unless a file is unchanged except for the images that were to change.

        ``place`` is the location of the host in that file.
        """

        def check(before: View, after: View) -> None:
            verify_edited(before, after, in_containers=False)
            for _, number in place.archives:
                sites = (site for site in archive.locate(after) if not isinstance(site, Finding))
                inner = next((site.data for site in sites if site.number == number), None)
                if inner is None:
                    raise HostError(f"the edited file is wrong: it has no member {number}", chain=after.chain)
                after = inner
            _compare(self.selection, self.changes, after)

        return check


def replace_image(
    host: View,
    content: View,
    selector: Selector,
    *,
    every: bool = False,
    accept_damage: bool = False,
    accept_mismatch: bool = False,
) -> ImageSubstitution:
    """Return the host with other bytes for the one selected image; with ``every`` for all that are selected.

    All metadata of the image stays: target, ID, keys, position and compression. So the new bytes must agree with it
    unless ``accept_mismatch``, and be readable unless ``accept_damage``. Raises NothingSelected, UsageError for several
    images and for bytes that contradict the target, HostError for a host or an image that is not edited.
    """
    selection = select_for_edit(host, selector, "replace")
    if len(selection.images) > 1 and not every:
        rows = [selection.words(where, image) for where, _, image in selection.images]
        more = [f"… {len(rows) - _SHOWN} more"] if len(rows) > _SHOWN else []
        one = cli_or_api("--container and --index", "Selector(container=…, index=…)")
        raise UsageError(
            f"{pluralize(len(rows), 'image')} match, and one is replaced: {', '.join([*rows[:_SHOWN], *more])}",
            hint=f"select one with {one}, or all with {cli_or_api('--all', 'every=True')}",
            chain=host.chain,
        )
    changes, changed = {}, []
    for where, found, image in selection.images:
        words = selection.words(where, image)
        refuse_marker(words, image, host)
        new = replacement_image(image.as_stored, found.format, content)
        check_replacement(words, image, new, accept_damage=accept_damage, accept_mismatch=accept_mismatch)
        is_other = not has_same_bytes(content, image_as_file(found, image))
        if is_other:
            changes[id(image)] = (new,)
        changed.append(
            f"{words}: {pluralize(image.size, 'byte')} → {pluralize(len(content), 'byte') if is_other else 'the same'}"
        )
    return plan_substitution(selection, changes, changed, selector)


def plan_substitution(
    selection: EditSelection, changes: ImageChanges, changed: Sequence[str], selector: Selector
) -> ImageSubstitution:
    """Return the plan for changes to selected images. Raises the errors of :func:`rewrite`."""
    return ImageSubstitution(
        selection,
        changes,
        tuple(rewrite(selection, changes) or [selection.whole.view]),
        tuple(changed),
        tuple(unread_findings(selection.items)),
        tuple(unmatched_patterns(selection.items, selector)),
        selection.damaged,
    )


def image_as_file(found: FoundContainer, image: FoundImage) -> View:
    """Return the bytes that ``extract`` writes for an image."""
    pieces = list(image_pieces(found, image))
    return image.data if len(pieces) == 1 and pieces[0] is image.data else PiecesSource(pieces, "image").view()


def refuse_marker(words: str, image: FoundImage, host: View) -> None:
    """Raise HostError for the host's image of a fat object, which is the object itself."""
    if is_host_marker(image.as_stored):
        pack = cli_or_api(
            "fatpack pack --format=bundle --type=o --host", 'pack(…, host=…, options=BundleOptions(type="o"))'
        )
        raise HostError(
            f"{words} is the object itself",
            hint=f"extract the device images, and pack them with another object: {pack}",
            chain=host.chain,
        )


def _how_to_accept(argument: str) -> str:
    return f"nothing was written; {cli_or_api('--force', f'{argument}=True')} puts it there anyway"


def check_replacement(
    words: str, old: FoundImage, new: Image, *, accept_damage: bool = False, accept_mismatch: bool = False
) -> None:
    """Raise UsageError for an image that contradicts its container's metadata, FormatError for a damaged one.

    Bytes of an unknown form may replace bytes of an unknown form.
    """
    recognised = images.identify_image(new.data)
    for item in mismatch_findings(new, recognised):
        is_cut = item.code == "FP1104"
        if accept_damage if is_cut else accept_mismatch:
            continue
        problem = "the new image is truncated: " if is_cut else "the new image does not fit: "
        hint = _how_to_accept("accept_damage" if is_cut else "accept_mismatch")
        raise UsageError(f"{words}: {problem}{item.message}", hint=hint, chain=new.data.chain)
    was = old.form
    if was and was not in ("empty", "object") and recognised.form != was and not accept_mismatch:
        now = image_words(recognised) if recognised.form else "bytes of an unknown form"
        hint = _how_to_accept("accept_mismatch")
        raise UsageError(f"{words}: the image there is {was}, the new one is {now}", hint=hint, chain=new.data.chain)
    if accept_damage:
        return
    try:
        images.kernels(new.data, recognised.form)
    except FormatError as error:
        hint = "; ".join(filter(None, (error.hint, _how_to_accept("accept_damage"))))
        raise FormatError(
            error.problem, offset=error.offset, field=error.field, hint=hint, chain=error.chain or new.data.chain
        ) from error


def _compare(selection: EditSelection, changes: ImageChanges, after: View) -> None:
    """Raise HostError unless a file holds the expected images, in their order."""
    containers = [item for item in all_items(scan_tree(after)) if isinstance(item, FoundContainer)]
    there = [
        image for found in containers for image in _in_order(found.format, found.container, found.container.images)
    ]
    wanted = list(_wanted(selection, changes))
    if len(there) != len(wanted):
        problem = f"{pluralize(len(there), 'image')} where {len(wanted)} were written"
        raise HostError(f"the edited file is wrong: {problem}", chain=after.chain)
    for image, (expected, format) in zip(there, wanted, strict=True):
        what = expected.target.spelling or expected.target.canonical or "without a target"
        if _labels(image) != _labels(expected):
            raise HostError(f"the edited file is wrong: the target of image {what}", chain=after.chain)
        if format and not _has_same_bytes(image, expected, format):
            raise HostError(f"the edited file is wrong: the bytes of image {what}", chain=after.chain)


def _labels(image: Image) -> tuple[str, str, str]:
    return image.target.triple, image.target.arch, image.target.offload


def _has_same_bytes(image: Image, expected: Image, format: str) -> bool:
    if format == "cir-offload-container":
        return True  # its modules are written again
    here, there = image.data, expected.data
    try:
        if format == "cuda-fatbin":  # texts end in a NUL there, and uncompressed images in zeros up to 8 bytes
            here, there = _trimmed(here), _trimmed(there)
            if image.compression is None and image.form == "cubin":  # it ends at the end of its headers' tables
                there = there.slice(0, min(len(here), len(there)))
        return has_same_bytes(here, there)
    except Unsupported:  # it cannot be decompressed
        return image.stored_size == expected.stored_size


def _trimmed(view: View) -> View:
    """Return bytes without up to 16 zeros at their end."""
    tail = view.head(max(0, len(view) - _PADDING), _PADDING)
    return view.slice(0, len(view) - len(tail) + len(tail.rstrip(b"\0")))


def _wanted(selection: EditSelection, changes: ImageChanges) -> Iterator[tuple[Image, str]]:
    """Yield the images that the file has after the edit, and the format of those in rewritten containers."""
    for found in selection.items:
        if isinstance(found, Finding):
            continue
        is_written = any(id(image) in changes for image in found.images)
        rows = [new for image in found.images for new in changes.get(id(image), (image.as_stored,))]
        for image in _in_order(found.format, found.container, rows):
            yield image, found.format if is_written else ""


def _in_order(format: str, container: Container, rows: Sequence[Image]) -> Sequence[Image]:
    """Return images in an order that does not change when their container is written: some formats sort them."""
    if format == "rocm-kpack":
        return sorted(rows, key=lambda image: (image.attrs.get("binary", ""), image.target.arch))
    if format == "cir-offload-container":
        return sorted(rows, key=lambda image: image.target.offload != "host")
    return sorted(rows, key=lambda image: image.attrs["id"]) if container.is_fat_object else rows
