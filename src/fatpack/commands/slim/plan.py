"""The plan of a slimmed file: its pieces, the images that are kept and dropped, and notes for the user."""

from __future__ import annotations

from fatpack import binary
from fatpack.commands.slim.choose import choose_images, refuse_losses
from fatpack.commands.slim.keep_for_device import arch_label, dead_keys, is_host, matches_pattern
from fatpack.edit.selection import all_items, is_linked_program, rewrite, scan_tree, select_for_edit
from fatpack.edit.verify import content_findings
from fatpack.errors import FatpackError, FormatError, HostError, cli_or_api, pluralize
from fatpack.images.container_mismatch import image_words
from fatpack.model import Finding
from fatpack.printable import format_size
from fatpack.record import Record
from fatpack.scanner import FoundContainer, detect_host, scan
from fatpack.scanner.context import detect_package
from fatpack.scanner.standalone_images import standalone_image
from fatpack.selectors.no_match import nothing_selected, unread_findings
from fatpack.selectors.select import Selector
from fatpack.selectors.select import select_images as selected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Literal, TypeAlias

    from fatpack.binary.shrink import ReplacedBytes, ShrinkResult
    from fatpack.commands.slim.keep_for_device import ImageSelection, SlimImage
    from fatpack.commands.slim.linked import LinkedProgramFile
    from fatpack.commands.slim.options import SlimOptions
    from fatpack.commands.slim.used import UseReport
    from fatpack.edit.selection import FilePart
    from fatpack.edit.write_containers import ImageChanges
    from fatpack.io.source import Piece, View
    from fatpack.model import Image
    from fatpack.targets.devices import Device
    from fatpack.targets.name_based_libraries import NameBasedLibrary

    PlanMode: TypeAlias = Literal["", "edit", "shrink", "zero", "remove"]


# Images that stay, compressed anew: entries of fat binaries by another method, bundles as compressed ones.
#
# ===========  ==============================================================================================
# CUDA         ``zstd`` (drivers of CUDA 12.4 and newer inflate it), ``lz4`` (every driver), ``none``
# HIP          ``zstd``, ``zlib``: compressed bundles of version 2, or of the version that they have; ``none``
# ===========  ==============================================================================================
#
# An entry keeps all its stored fields except the method and the sizes. Members of groups (fatbinary ``-concat``)
# and obfuscated images stay as they are, and so do images that would not change.
#
# Source: zstd since CUDA 12.4 is documented with nvcc's ``--compress-mode``; what drivers before it say, and which
# versions of compressed bundles HIP's runtime reads, is reported by users (ml-explore/mlx#2407, ROCm/clr#99).

_FATBIN, _BUNDLE = "cuda-fatbin", "clang-offload-bundle"

#: format → methods that its images can have
_METHODS = {_FATBIN: ("zstd", "lz4", "none"), _BUNDLE: ("zstd", "zlib", "none")}

#: method → the level without ``--level``, so also that of ``--lossless``: fatbinary's for ``--compress-mode=size``.
#: Bundles get LLVM's level, in their writer.
_LEVELS = {"zstd": 19, "lz4": 12}

#: The version of compressed bundles that readers since LLVM 19 know; version 3 is written by ROCm 7.2.
_BUNDLE_VERSION = 2

#: what must be known about a method, by format
_FLOORS = {
    (_FATBIN, "zstd"): "zstd in fat binaries needs a driver of CUDA 12.4 or newer",
    (_BUNDLE, "zstd"): "compressed bundles need a HIP runtime that inflates them; its first version is not known",
    (_BUNDLE, "zlib"): "compressed bundles need a HIP runtime that inflates them; its first version is not known",
}


def recompress_images(rows: Sequence[SlimImage], options: SlimOptions) -> dict[int, tuple[Image, ...]]:
    """Return the images of some rows that are stored in another way then, by the ``id()`` of what was found.

    Entries of fat binaries are compressed here, on all cores, and are in memory then. Of a bundle every image is
    returned as it is: its container is written anew. Raises FormatError for an image that does not inflate.
    """
    method = options.recompress
    if method is None:
        return {}
    from fatpack.concurrency.threads import ThreadTasks, thread_count

    changes: dict[int, tuple[Image, ...]] = {}
    entries = [row for row in rows if row.found.format == _FATBIN and _is_suited(row.image.as_stored, method)]
    tasks: list[Callable[[], Image]] = [_task(row.image.as_stored, method, options.level) for row in entries]
    with ThreadTasks(tasks, ahead=2 * thread_count(), may_be_left=True) as done:
        for number, (row, image) in enumerate(zip(entries, done, strict=True), 1):
            if not options.lossless or _stored_size(image) < _stored_size(row.image.as_stored):
                changes[id(row.image)] = (image,)
            if options.compressed is not None:
                options.compressed(number, len(entries))
    changes |= {id(row.image): (row.image.as_stored,) for row in rows if _is_reshaped(row.found, options)}
    return changes


def _stored_size(image: Image) -> int:
    return len(image.data) if image.stored_size is None else image.stored_size


def _is_suited(image: Image, method: str) -> bool:
    from fatpack.formats.cuda_fatbin.layout import FLAG_OBFUSCATED, CudaEntry

    entry = image.record
    if method not in _METHODS[_FATBIN] or not isinstance(entry, CudaEntry) or entry.group is not None:
        return False
    if entry.head.flags & FLAG_OBFUSCATED or entry.data.source.is_refused:
        return False
    return method != "none" or image.compression is not None


def _task(image: Image, method: str, level: int | None) -> Callable[[], Image]:
    from fatpack.formats.cuda_fatbin.layout import COMPRESSED, TEXTS, CudaEntry
    from fatpack.formats.cuda_fatbin.new_entry import METHOD_BITS
    from fatpack.io.source import BytesSource

    def run() -> Image:
        entry = image.record
        assert isinstance(entry, CudaEntry)
        content = image.data.tobytes()
        image.data.source.release_buffers()
        if entry.head.kind in TEXTS and not content.endswith(b"\0"):
            content += b"\0"
        stream, flag, sizes = content, 0, (0, 0)
        if method != "none":
            from fatpack.codecs.compress import compress

            chosen = _LEVELS[method] if level is None else level
            stream = compress([content], method, len(content), chosen, one_shot=True)
            flag, sizes = METHOD_BITS[method], (len(stream), len(content))
        head = entry.head.replace(
            flags=entry.head.flags & ~COMPRESSED | flag, compressed_size=sizes[0], inflated_size=sizes[1]
        )
        packed = BytesSource(stream, "").view()
        new = entry.replace(head=head, packed=packed)
        return image.replace(
            record=new, compression=None if method == "none" else method, stored_size=len(stream), data=image.data
        )

    return run


def _is_reshaped(found: FoundContainer, options: SlimOptions) -> bool:
    """Return whether a bundle is to be written in another way."""
    method = options.recompress
    if found.format != _BUNDLE or method not in _METHODS[_BUNDLE] or found.container.is_fat_object:
        return False
    flavour = found.container.attrs.get("flavour")
    if options.lossless:
        return False  # which HIP runtimes inflate a bundle is not known for each, and LLVM's level is the best there
    return flavour in ("binary", "compressed") and (method != "none" or flavour == "compressed")


def container_updater(options: SlimOptions) -> Callable[[FoundContainer], FoundContainer]:
    """Return the function that makes the requested form of a bundle: compressed or plain. Other containers stay."""

    def reshaped(found: FoundContainer) -> FoundContainer:
        if not _is_reshaped(found, options):
            return found
        container = found.container
        attrs = {key: value for key, value in container.attrs.items() if key not in ("compression", "level")}
        if options.recompress == "none":
            attrs = {key: value for key, value in attrs.items() if key != "inside"}
            return found.replace(container=container.replace(attrs={**attrs, "flavour": "binary"}, version=0))
        inside = attrs.get("inside", "binary")
        attrs |= {"flavour": "compressed", "compression": str(options.recompress), "inside": inside}
        if options.level is not None:
            attrs["level"] = str(options.level)
        version = container.version if container.version in (2, 3) else _BUNDLE_VERSION
        return found.replace(container=container.replace(attrs=attrs, version=version))

    return reshaped


def not_recompressible(
    rows: Sequence[SlimImage], changes: dict[int, tuple[Image, ...]], options: SlimOptions
) -> list[str]:
    """Return what to know about images that were to be compressed anew: what readers it needs, and which stay."""
    if options.recompress is None:
        return []
    formats = dict.fromkeys(row.found.format for row in rows if id(row.image) in changes)
    notes = [_FLOORS[one, options.recompress] for one in formats if (one, options.recompress) in _FLOORS]
    unchanged = [row for row in rows if id(row.image) not in changes and row.found.format in _METHODS]
    unsuited = [row for row in unchanged if options.recompress not in _METHODS[row.found.format]]
    if unsuited:
        notes.append(
            f"{pluralize(len(unsuited), 'image')} cannot be compressed by {options.recompress}: stored as before"
        )
    reasons: dict[str, int] = {}
    for row in unchanged:
        if options.recompress in _METHODS[row.found.format]:
            reason = _why_unchanged(row, options)
            reasons[reason] = reasons.get(reason, 0) + 1
    notes += [f"{pluralize(count, 'image')} stored as before: {reason}" for reason, count in reasons.items()]
    return notes


def _why_unchanged(row: SlimImage, options: SlimOptions) -> str:
    """Return the reason why an image whose format has the requested compression is stored as before."""
    from fatpack.formats.cuda_fatbin.layout import FLAG_OBFUSCATED, CudaEntry

    if row.found.format == _BUNDLE:
        if options.lossless:
            option = cli_or_api("--recompress", "recompress=")
            return f"a bundle, and which HIP runtimes inflate another compression is not known; {option} writes it"
        return "in a bundle that is stored so already, or that a fat object or an archive holds"
    entry = row.image.as_stored.record
    if isinstance(entry, CudaEntry):
        if entry.group is not None:
            return "entries of a group are compressed together"
        if entry.head.flags & FLAG_OBFUSCATED:
            return "obfuscated"
    return "compressed as well already"


class SlimPlan(Record):
    """The plan for one file: its new ``pieces``, and the images that it keeps and loses.

    ``mode`` is "" where nothing changes (the pieces are the file then), ``edit`` for objects, archives and containers,
    ``shrink`` or ``zero`` for linked files: the bytes went, or are zeros now, ``remove`` for a file of a kernel store
    that may go as a whole. ``cuts`` are the ranges of the old file
    that a linked one lacks: offset and size. ``notes`` say what was not slimmed and why, and what to know about the
    rest; ``unread`` are findings about what was not read, ``damaged`` the damage of what stays as it is. ``vendors``
    are those for whose devices the file has code, ``unserved`` the devices of these that nothing in it is for.
    ``not_removed``: number of images that match ``drop`` but cannot be removed, because of their container or a record.
    ``use``: the fate of each container by the kernels that ran, None without profiles.
    ``needed`` are the ``id()`` of the images that devices of the list take. ``is_lossless``: it keeps every image, and
    is made for the size alone. ``is_image``: the file is a device image itself, of which nothing is taken.
    ``is_store``: it is a file of a kernel store, all of whose images stay.
    """

    pieces: tuple[Piece, ...]
    kept: tuple[SlimImage, ...]
    dropped: tuple[SlimImage, ...]
    notes: tuple[str, ...] = ()
    mode: PlanMode = ""
    cuts: tuple[tuple[int, int], ...] = ()
    unread: tuple[Finding, ...] = ()
    damaged: tuple[Finding, ...] = ()
    vendors: frozenset[str] = frozenset()
    unserved: tuple[Device, ...] = ()
    not_removed: int = 0
    use: UseReport | None = None
    needed: frozenset[int] = frozenset()
    is_lossless: bool = False
    is_image: bool = False
    is_store: bool = False

    @property
    def size(self) -> int:
        """The bytes of the slimmed file."""
        return sum(map(len, self.pieces))

    @property
    def is_changed(self) -> bool:
        """True if the file changes."""
        return bool(self.mode)


def plan_slim(view: View, options: SlimOptions) -> SlimPlan:
    """Return how a file is slimmed. A file without device code is left as it is, and a note says so.

    Raises SlimRefused where a container would serve a device no more, or where what was asked leaves nothing of one;
    FormatError and HostError for what is damaged or not edited.
    """
    if not options.exceptions and options.plan is None:
        return _plan(view, options)
    own = options.for_library(view)
    try:
        slimmed = _plan(view, own)
    except FatpackError as error:
        if options.plan is not None:
            options.plan.review(view, error)
        raise
    if options.plan is not None:
        options.plan.review(view, slimmed)
    if not own.drops and own.recompress is None and slimmed.kept:
        return slimmed.replace(notes=("the policy leaves it as it is", *slimmed.notes))
    return slimmed


def _plan(view: View, options: SlimOptions) -> SlimPlan:
    library = None
    if options.devices:
        from fatpack.targets.name_based_libraries import find_name_based_library

        library = find_name_based_library(view.chain[-1] if view.chain else "")
    slimmed = _linked(view, options, library) if is_linked_program(view) else _unlinked(view, options, library)
    if options.lossless and slimmed.is_changed:
        slimmed = slimmed.replace(is_lossless=not slimmed.dropped)
    if options.drop:
        not_removed = sum(not is_host(row.image) and matches_pattern(row.image, options.drop) for row in slimmed.kept)
        slimmed = slimmed.replace(not_removed=not_removed)
    if library is not None and slimmed.kept:
        note = f"{library.library} chooses by name ({library.reason}): all images that fit a device are kept"
        return slimmed.replace(notes=(*slimmed.notes, note))
    return slimmed


def _without_code(view: View, items: Sequence[FoundContainer | Finding], options: SlimOptions) -> SlimPlan:
    """Return the plan that leaves the file as it is. Raises NothingSelected if a selector names images to remove."""
    whole = _whole_file(view, items, options)
    if whole is not None:
        return whole
    if detect_package(view):
        # A package in a folder or in another package: it is not written, and the code in it is not passed over.
        from fatpack.commands.slim.packages import refuse_device_code

        refuse_device_code(view, view.chain[-1] if view.chain else view.source.name)
        # All files in it were looked at, so that it is none that was not read: ``.npz``, ``.jar``.
        items = [one for one in items if not (isinstance(one, Finding) and one.code == "FP1006")]
    seen, damaged = (
        tuple(unread_findings(items)),
        tuple(one for one in items if isinstance(one, Finding) and _is_damage(one)),
    )
    if options.selector is not None and not damaged:
        raise nothing_selected(view, items, options.selector, "remove")
    alone = None if damaged else standalone_image(view)
    if alone is not None:
        words = f"it is {image_words(alone)} itself: slim takes images out of files, and no whole files"
    else:
        from fatpack.tabular.image_sets import undecided_words

        nothing = "no device code in it can be read" if damaged else "it holds no device code"
        words = undecided_words(items) or nothing
    return SlimPlan((view,), (), (), (words,), unread=seen, damaged=damaged, is_image=alone is not None)


def _whole_file(view: View, items: Sequence[FoundContainer | Finding], options: SlimOptions) -> SlimPlan | None:
    """Return the plan for a file of a kernel store, which stays or goes as a whole; None for any other file."""
    if options.stores == "edit":
        return None
    from contextlib import ExitStack

    from fatpack.commands.slim.whole_files import choose_whole_file, scan_archives

    with ExitStack() as stack:
        found = scan_archives(view, stack) if detect_package(view) else items
        selection = choose_whole_file(view, found, options)
    if selection is None:
        return None
    facts = selection.vendors, selection.unserved
    if selection.dropped and options.stores == "keep":
        rows = (*selection.kept, *selection.dropped)
        note = "a file of a kernel store: only folders and wheels lose such files"
        return SlimPlan((view,), rows, (), (note,), "", (), (), (), *facts, is_store=True)
    if selection.dropped:
        return SlimPlan((), (), selection.dropped, (), "remove", (), (), (), *facts)
    return SlimPlan((view,), selection.kept, (), selection.notes, "", (), (), (), *facts, is_store=True)


def _unlinked(view: View, options: SlimOptions, library: NameBasedLibrary | None) -> SlimPlan:
    whole = scan_tree(view)
    items = all_items(whole)
    if not any(isinstance(item, FoundContainer) and item.images for item in items):
        return _without_code(view, items, options)
    alone = _whole_file(view, items, options)
    if alone is not None:
        return alone
    edit = select_for_edit(view, Selector(), "slim", whole)
    selection = choose_images(
        edit.items, options, all_minors=library is not None, removed_ids=_removed_ids(view, edit.items, options)
    )
    refuse_losses(selection, options, view)
    selection, use = _by_use_and_size(view, selection, options)
    anew = recompress_images(selection.kept, options)
    changes: ImageChanges = {**anew, **{id(row.image): () for row in selection.dropped}}
    pieces: tuple[Piece, ...] = (view,)
    if changes:
        reshaped = edit.replace(whole=_reshaped(edit.whole, container_updater(options)))
        may_empty = options.allow_empty or bool(selection.vacated) or bool(use is not None and use.lost)
        pieces = tuple(rewrite(reshaped, changes, allow_empty=may_empty))
    mode: PlanMode = "edit" if changes else ""
    notes = (*selection.notes, *_use_notes(use), *not_recompressible(selection.kept, anew, options))
    seen = tuple(unread_findings(edit.items))
    vendors_and_devices = selection.vendors, selection.unserved
    made = SlimPlan(
        pieces, selection.kept, selection.dropped, notes, mode, (), seen, edit.damaged, *vendors_and_devices
    )
    return made.replace(use=use, needed=selection.needed)


def _reshaped(part: FilePart, reshape: Callable[[FoundContainer], FoundContainer]) -> FilePart:
    """Return a file and what is in it, with every container as it is to be written."""
    items = tuple(reshape(item) if isinstance(item, FoundContainer) else item for item in part.items)
    members = tuple((number, _reshaped(member, reshape)) for number, member in part.members)
    return part.replace(items=items, members=members)


def _linked(view: View, options: SlimOptions, library: NameBasedLibrary | None) -> SlimPlan:
    from fatpack.commands.slim import linked

    items = linked.drop_empty(list(scan(view, checks_registration=False)))
    seen, damaged = (
        tuple(unread_findings(items)),
        tuple(one for one in items if isinstance(one, Finding) and _is_damage(one)),
    )
    if not any(isinstance(item, FoundContainer) for item in items):
        return _without_code(view, items, options)
    host = detect_host(view)
    file = linked.take_apart(view, host, items)
    erasable = linked.zeroable_images(view, host, file.elsewhere)
    in_data = linked.containers_in_data(file) if options.devices else []
    editable = set(map(id, in_data))
    fixed = [
        item
        for item in file.elsewhere
        if len(item.images) and id(item) not in editable and not any(id(image) in erasable for image in item.images)
    ]
    removed_ids = _removed_ids(view, items, options)
    _refuse_fixed(fixed, removed_ids, view)
    selection = choose_images(
        items,
        options,
        all_minors=library is not None,
        same_archs=file.same_arch_ids,
        untouched=frozenset(map(id, fixed)),
        removed_ids=removed_ids,
        in_data=editable,
    )
    _refuse_linked_together([row for row in selection.kept if id(row.image) in removed_ids], view)
    refuse_losses(selection, options, view)
    selection, use = _by_use_and_size(view, selection, options, file)
    notes = [*selection.notes, *_fixed_notes(fixed)]
    elsewhere = set(map(id, file.elsewhere))
    selection = _keep_unrecorded(selection, elsewhere - editable, erasable, notes)
    in_sections = [row for row in selection.kept if id(row.found) not in elsewhere]
    anew = recompress_images(in_sections, options)
    notes += not_recompressible(in_sections, anew, options)
    changes: ImageChanges = {**anew, **{id(row.image): () for row in selection.dropped}}
    if not changes:
        return _unchanged(view, selection, [*notes, *_use_notes(use)], seen, damaged).replace(use=use)
    zeroed = [erasable[id(row.image)] for row in selection.dropped if id(row.image) in erasable]
    _refuse_wrong([row for row in (*selection.dropped, *in_sections) if id(row.found) not in elsewhere], changes, view)
    shrinker = binary.get_shrinker(host)
    if shrinker is None:
        problem, hint = f"linked files of kind {host} are not slimmed", "slim the objects, and link them again"
        raise HostError(problem, hint=hint, chain=view.chain)
    change = linked.plan_shrink(file, changes, container_updater(options))
    notes += change.notes
    selection, use = _keep_unchanged(selection, use, change.unchanged)
    notes += _use_notes(use)
    contents = (*change.relay.contents, *linked.zero_patches(view, host, zeroed))
    replaced = linked.replaced_in_data(in_data, view.start, changes)
    if not contents and not replaced:
        return _unchanged(view, selection, notes, seen, damaged).replace(use=use)
    new = change.relay.replace(contents=contents, drop_signature=options.drop_signature, replaced=replaced)
    relayed = shrinker.shrink(view, new, mode=options.mode)
    if zeroed:
        notes.append(f"{pluralize(len(zeroed), 'image')} of OpenMP or SYCL: filled with zeros")
    if replaced:
        notes.append(_replaced_note(replaced, selection, editable))
    if relayed.why and change.relay.contents:
        notes.append(f"{_zeros(relayed)}: {relayed.why}")
    pieces, cuts = tuple(relayed.pieces), tuple(relayed.cuts)
    vendors_and_devices = selection.vendors, selection.unserved
    made = SlimPlan(
        pieces, selection.kept, selection.dropped, tuple(notes), relayed.mode, cuts, seen, damaged, *vendors_and_devices
    )
    return made.replace(use=use, needed=selection.needed)


def _by_use_and_size(
    view: View, selection: ImageSelection, options: SlimOptions, file: LinkedProgramFile | None = None
) -> tuple[ImageSelection, UseReport | None]:
    if options.drop_dead:
        selection = selection.without(dead_keys(view, selection.kept, file))
    if options.removed:
        selection = selection.without(options.removed)
    if options.use is None:
        return selection, None
    from fatpack.commands.slim.used import apply_use

    return apply_use(view, selection, options, file)


def _use_notes(use: UseReport | None) -> Sequence[str]:
    return () if use is None else use.words


def _keep_unrecorded(
    selection: ImageSelection, fixed: Collection[int], erasable: Collection[int], notes: list[str]
) -> ImageSelection:
    """Return a selection that keeps images of ``fixed`` containers, except those in whose place zeros may be."""
    staying = {id(row.image) for row in selection.dropped if id(row.found) in fixed and id(row.image) not in erasable}
    if staying:
        notes.append(f"{pluralize(len(staying), 'image')} of OpenMP or SYCL stay: compressed, or no record leads there")
    return selection.kept_too(staying)


def _keep_unchanged(
    selection: ImageSelection, use: UseReport | None, unchanged: Collection[int]
) -> tuple[ImageSelection, UseReport | None]:
    """Return what is selected and used if some containers stay as they are: the ``id()`` of each."""
    back = [row for row in selection.dropped if id(row.found) in unchanged]
    selection = selection.kept_too({id(row.image) for row in back})
    return selection, use if use is None else use.with_kept({row.number for row in back})


def _refuse_fixed(fixed: Sequence[FoundContainer], removed_ids: frozenset[int], view: View) -> None:
    """Raise HostError for containers that cannot be edited where they are, and have images that are to go."""
    for found in fixed:
        if any(id(image) in removed_ids for image in found.images):
            place = f"{found.format} at {found.container.span.start:#x} in {found.section or 'no section'}"
            raise HostError(
                f"the {place} lies among the program's own data, which is not edited",
                hint="code or tables may refer to it; build the program without it",
                chain=view.chain,
            )


def _refuse_linked_together(stuck: Sequence[SlimImage], view: View) -> None:
    """Raise HostError for images that were selected and stay, because other containers of a device link have the arch.

    A device link (``nvcc -rdc=true``) registers its containers together: kernels of one may call code of another.
    """
    if stuck:
        first, more = stuck[0], f" and {pluralize(len(stuck) - 1, 'other')}" if len(stuck) > 1 else ""
        arch = arch_label(first.image)
        raise HostError(
            f"image {first.position} ({arch}){more} cannot go alone: other containers of its device link keep {arch}",
            hint=f"{cli_or_api(f'--arch {arch}', f'arch={arch!r}')} removes it from all of them",
            chain=view.chain,
        )


def _fixed_notes(fixed: Sequence[FoundContainer]) -> Iterator[str]:
    """Yield messages about containers that stay because they cannot be edited where they are."""
    from fatpack.commands.slim.linked import may_be_described

    measured = sum(map(may_be_described, fixed))
    if measured:
        words = "no record says where images of OpenMP or SYCL begin and end"
        yield f"{pluralize(measured, 'container')} not slimmed: {words}"
    if len(fixed) > measured:
        yield f"{pluralize(len(fixed) - measured, 'container')} among the program's own data: not slimmed"


def _replaced_note(replaced: Sequence[ReplacedBytes], selection: ImageSelection, editable: set[int]) -> str:
    """Return the messages about containers in data that lost images at their places."""
    freed = sum(each.end - each.start - sum(map(len, each.pieces)) for each in replaced)
    sections = ", ".join(
        dict.fromkeys(row.found.section or "" for row in selection.dropped if id(row.found) in editable)
    )
    number = pluralize(len(replaced), "container")
    return f"{number} in {sections} that the program's own code loads: {format_size(freed)} that no device takes zeroed"


def _unchanged(
    view: View, selection: ImageSelection, notes: Sequence[str], seen: tuple[Finding, ...], damaged: tuple[Finding, ...]
) -> SlimPlan:
    vendors_and_devices = selection.vendors, selection.unserved
    return SlimPlan((view,), selection.kept, (), tuple(notes), "", (), seen, damaged, *vendors_and_devices)


def _zeros(relayed: ShrinkResult) -> str:
    """Return which of the freed bytes are zeros. Only certificates are cut from a file that did not shrink."""
    if relayed.mode == "shrink":
        return "some of the freed bytes were zeroed"
    return "the freed bytes were zeroed" if relayed.cuts else "file size unchanged, the freed bytes were zeroed"


def _removed_ids(view: View, items: Sequence[FoundContainer | Finding], options: SlimOptions) -> frozenset[int]:
    """Return the ``id()`` of the images that go by ``selector`` and ``goes``.

    Raises NothingSelected where the selector means none.
    """
    asked_for = frozenset(
        id(image)
        for item in (items if options.goes is not None else ())
        if isinstance(item, FoundContainer)
        for image in item.images
        if options.goes is not None and options.goes(item, image)
    )
    if options.selector is None:
        return asked_for
    rows = list(selected(items, options.selector))
    found = frozenset(id(image) for position, _, image in rows if "/" not in position)
    if not found:
        raise nothing_selected(view, items, options.selector, "remove", [position for position, _, _ in rows])
    return found | asked_for


def _is_damage(item: Finding) -> bool:
    return item.severity == "error" and item.code != "FP1008"


def _refuse_wrong(rows: Sequence[SlimImage], changes: ImageChanges, view: View) -> None:
    """Raise FormatError for a compressed container that is not what its hash says: it would get a new one."""
    changed = {
        id(row.found): row.found
        for row in rows
        if id(row.image) in changes and "compression" in row.found.container.attrs
    }
    for wrong in content_findings(list(changed.values())):
        raise FormatError(
            wrong.message, offset=wrong.span.start, hint=wrong.hint, chain=wrong.span.source or view.chain
        )
