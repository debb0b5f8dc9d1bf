"""Converting between containers: every image with all that is stated about it, or a list of what would be lost.

An offload binary says more than a bundle: a kind of image, flags and any number of keys, where a bundle has one ID. The
ID itself, which an offload binary has no place for, travels as a key ``id`` unless triple, arch and kind give the same
one again; so a bundle becomes offload binaries and those the same bundle. How images are laid out (alignment,
compression, comments of text bundles) is not content: it is chosen anew. :mod:`fatpack.commands.convert.entries` has
what is special about CUDA fat binaries and SYCLBIN files.
"""

from __future__ import annotations

from collections import Counter

from fatpack.commands.pack.formats import PackedContainers, pack_as
from fatpack.edit.extract import image_pieces
from fatpack.edit.write_containers import PER_IMAGE_ERRORS, UnreadableImage, read_error, with_separate_streams
from fatpack.errors import FormatError, Unsupported, UsageError, cli_or_api, pluralize
from fatpack.exit_codes import FINDINGS
from fatpack.formats.clang_bundle.bundle_id import id_for, parse_bundle_id, stored_id
from fatpack.formats.offload_binary.image_option import OFFLOAD_WORDS, ImageOption, image_from
from fatpack.formats.offload_binary.layout import EXTENSIONS, FORMS, IMAGE_KINDS, OffloadBinaryEntry
from fatpack.io.source import PiecesSource, View
from fatpack.io.write import refuse_shared_bytes
from fatpack.model import Finding, Image
from fatpack.record import Record
from fatpack.scanner import FoundContainer
from fatpack.selectors.no_match import NothingSelected, available_values
from fatpack.selectors.select import describe_image, select_images
from fatpack.writer_options import BundleOptions, CirOptions, FatbinOptions, KpackOptions, SyclbinOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import TypeVar

    from fatpack.io.source import Piece
    from fatpack.scanner import FoundImage
    from fatpack.selectors.select import Selector
    from fatpack.writer_options import Options

    ConvertedT = TypeVar("ConvertedT")


#: image form → image kind of offload binaries
_KINDS = {form: kind for kind, form in FORMS.items()} | {"code-object": 1}


class Conversion(Record):
    """Images of one format as containers of another; ``losses`` are what does not come along, one line each.

    ``unreadable`` are the images that cannot be taken out, and are left out.
    """

    packed: PackedContainers
    image_count: int
    losses: tuple[str, ...] = ()
    unreadable: tuple[UnreadableImage, ...] = ()


class LossyConversion(UsageError):
    """A conversion that would lose what the other format cannot hold; nothing is written."""

    exit_code = FINDINGS

    def __init__(self, losses: Sequence[str]) -> None:
        lossy = cli_or_api("--lossy converts all the same", "lossy=True converts all the same")
        super().__init__(f"{pluralize(len(losses), 'thing')} would be lost: {'; '.join(losses)}", hint=lossy)


def convert_images(
    items: Sequence[FoundContainer | Finding],
    selector: Selector,
    options: Options,
    *,
    leaves_out: bool = False,
    distrusted: Collection[int] = (),
    read: bool = False,
) -> Conversion:
    """Return the selected images as containers of the format that the options are for.

    Offload binaries are made one by one. Of bundles there is one for each bundle the images come from and one for those
    of all other containers; where an ID would occur twice another one begins, as those of object files follow each
    other in a program; so it is with fat binaries. Of a fat object that was merged of several, the n-th images for all
    IDs make one bundle, and the object itself is in the first of them.

    Raises NothingSelected if there are no images, Unsupported for images that the format cannot hold, each of them or
    together, UsageError for options that mean nothing, FormatError for an image that cannot be taken out; with
    ``leaves_out`` it is left out instead, and the others are converted. Images of the containers with the numbers of
    ``distrusted`` are left out too. ``read`` finds damage first that shows only when all of an image is read.
    """
    copies = isinstance(options, FatbinOptions)
    chosen, losses, unreadable = _chosen(items, selector, distrusted, leaves_out=leaves_out, read=read, copies=copies)
    return _converted(chosen, losses, options).replace(unreadable=tuple(unreadable))


def _converted(chosen: Sequence[_SelectedImage], losses: list[str], options: Options) -> Conversion:
    if not isinstance(options, SyclbinOptions) and any(_format(item) == "syclbin" for item in chosen):
        from fatpack.commands.convert.entries import syclbin_losses, without_position

        losses += syclbin_losses(_rows(chosen))
        chosen = [item.replace(found=without_position(item.found)) for item in chosen]
    if isinstance(options, CirOptions):
        modules = [_made(item, _for_cir) for item in chosen]
        return Conversion(pack_as(modules, options), len(modules), tuple(losses))
    if isinstance(options, FatbinOptions):
        return _fatbins(chosen, losses, options)
    if isinstance(options, BundleOptions):
        return _as_bundles(chosen, losses, options)
    if isinstance(options, KpackOptions):
        code = [_made(item, _for_kpack) for item in _without_host(chosen, losses)]
        return Conversion(_packed(code, options), len(code), tuple(losses))
    if isinstance(options, SyclbinOptions):
        from fatpack.commands.convert.entries import images_for_syclbin

        made = _made(chosen[0], lambda _: images_for_syclbin(_rows(chosen), losses))
        return Conversion(_packed(made, options), len(made), tuple(losses))
    images = [_made(item, lambda item: _for_offload_binary(item, losses)) for item in chosen]
    return Conversion(_packed(images, options), len(images), tuple(losses))


def _as_bundles(chosen: Sequence[_SelectedImage], losses: list[str], options: BundleOptions) -> Conversion:
    groups = _bundles(chosen, losses)
    tasks = [_bundle(group.values(), options) for group in groups]
    packed = _run_in_threads(tasks) if options.compression else [task() for task in tasks]
    if len(packed) == 1:
        return Conversion(packed[0], len(chosen), tuple(losses))
    if any(part.verify or part.is_text for part in packed):
        raise Unsupported(
            f"the images make {len(packed)} bundles, and only binary ones can follow each other in a file",
            hint=f"select those of one bundle with {cli_or_api('--container', 'Selector(container=…)')}",
        )
    pieces = tuple(piece for part in packed for piece in _aligned(part, options.align))
    findings = tuple(item for part in packed for item in part.findings)
    notes = _several(len(packed), "bundles")
    return Conversion(PackedContainers(pieces, findings, notes=notes), len(chosen), tuple(losses))


def _several(count: int, noun: str) -> tuple[str, ...]:
    """Return the note that an output has several containers, none for one."""
    one = cli_or_api("--container N converts one", "Selector(container=…) selects one")
    text = f"the output has {count} {noun}, one after the other, as linkers lay them: a loader reads the first; {one}"
    return (text,) if count > 1 else ()


def _run_in_threads(tasks: Sequence[Callable[[], PackedContainers]]) -> list[PackedContainers]:
    """Return the results of tasks that compress; packing without compression does not read the images."""
    from fatpack.concurrency.threads import ThreadTasks

    with ThreadTasks(tasks) as running:
        return list(running)


def _rows(chosen: Sequence[_SelectedImage]) -> list[tuple[str, FoundContainer, FoundImage, View]]:
    return [(item.position, item.container, item.found, item.data) for item in chosen]


def _fatbins(chosen: Sequence[_SelectedImage], losses: list[str], options: FatbinOptions) -> Conversion:
    from fatpack.commands.convert.entries import group_into_fatbins

    groups = _made(chosen[0], lambda _: group_into_fatbins(_rows(chosen), losses))
    parts = [pack_as(group, options) for group in groups]
    pieces = tuple(piece for part in parts for piece in part.pieces)
    findings = tuple(item for part in parts for item in part.findings)
    notes = tuple(
        dict.fromkeys((*(note for part in parts for note in part.notes), *_several(len(parts), "fat binaries")))
    )
    kept = sum(map(len, groups)) - sum(part.left_out for part in parts)
    return Conversion(PackedContainers(pieces, findings, notes=notes), kept, tuple(losses))


def _made(item: _SelectedImage, make: Callable[[_SelectedImage], ConvertedT]) -> ConvertedT:
    """Return what is made of an image. Raises Unsupported, with file and image, where the format cannot hold it."""
    try:
        return make(item)
    except UsageError as error:
        problem, hint = error.problem, error.hint
        if not problem.startswith("image "):
            others = cli_or_api("--offload, --form or --arch", "offload=…, form=… or arch=…")
            problem, hint = f"{item.title}: {problem}", f"select the others, with {others}"
        raise Unsupported(problem, hint=hint, chain=item.container.view.chain) from error


def _bundle(images: Iterable[Image], options: BundleOptions) -> Callable[[], PackedContainers]:
    return lambda: _packed(list(with_separate_streams(images)), options)


def _packed(images: Sequence[Image], options: Options) -> PackedContainers:
    """Return images as containers. Raises Unsupported where they exclude each other, or one cannot be named there."""
    try:
        return pack_as(images, options)
    except UsageError as error:
        # With options that mean nothing, no images at all fail as well: that is the caller's fault.
        pack_as((), options)
        hint = error.hint or f"select the others, with {cli_or_api('--arch or --offload', 'arch=… or offload=…')}"
        raise Unsupported(error.problem, hint=hint, chain=error.chain) from error


def _bundles(chosen: Sequence[_SelectedImage], losses: list[str]) -> list[dict[str, Image]]:
    """Return the images of every bundle to make, by ID."""
    groups: list[dict[str, Image]] = []
    first, counts, last = 0, Counter[str](), None
    for item in chosen:
        image = _made(item, lambda item: _for_bundle(item, losses))
        id = image.attrs["id"]
        flavour, before = (found and found.container.attrs.get("flavour") for found in (item.container, last))
        if item.container is not last and (flavour or before):
            first, counts = len(groups), Counter()
        is_fat_object = item.container is not None and item.container.container.is_fat_object
        # Merged fat objects hold all images for one ID before those for the next.
        place = first + counts[id] if is_fat_object else max(first, len(groups) - 1)
        if not is_fat_object and place < len(groups) and id in groups[place]:
            place += 1
        if place == len(groups):
            groups.append({})
        groups[place][id] = image
        counts[id] += 1
        last = item.container
    return groups


def _aligned(packed: PackedContainers, align: int) -> Iterator[Piece]:
    """Yield a bundle so that the next one starts at a multiple of the alignment."""
    yield from packed.pieces
    yield bytes(-sum(map(len, packed.pieces)) % align)


class _SelectedImage(Record):
    """An image to convert: its position as text, its container, and its bytes."""

    position: str
    container: FoundContainer
    found: FoundImage
    data: View

    @property
    def title(self) -> str:
        return f"image {describe_image(self.position, self.found)}"


def _chosen(
    items: Sequence[FoundContainer | Finding],
    selector: Selector,
    distrusted: Collection[int],
    *,
    leaves_out: bool,
    read: bool,
    copies: bool,
) -> tuple[list[_SelectedImage], list[str], list[UnreadableImage]]:
    """Return the selected images with their containers and bytes, what is lost of the containers around them, and the
    images that are left out.

    ``copies`` tells that entries of fat binaries are copied as they are stored, which does not show their damage.
    """
    chosen, losses = [], []
    unreadable: list[UnreadableImage] = []
    glued = {item.span for item in items if isinstance(item, Finding) and item.code == "FP1314"}
    seen: set[str] = set()
    for position, found, image in select_images(items, selector):
        number = position.partition(".")[0]
        # Containers inside an image go with it.
        if "/" in position or int(number) in distrusted:
            continue
        try:
            data = _bytes_of(found, image)
            # Entries that cannot be had are copied all the same; what is wrong with them was reported.
            is_checked = _is_readable_entry(data) if copies and found.container.format == "cuda-fatbin" else read
            if is_checked and (error := read_error([data])) is not None:
                raise error
        except PER_IMAGE_ERRORS as error:
            if not leaves_out:
                raise
            unreadable.append(UnreadableImage(describe_image(position, image), image.span, error))
            continue
        chosen.append(_SelectedImage(position, found, image, data))
        if image.span in glued:
            losses.append(f"{chosen[-1].title}: that it is several images, which ld -r has glued together")
        if number not in seen:
            seen.add(number)
            unknown = sum(span.size for span in found.container.unknown)
            is_damaged = any(item.severity == "error" for item in found.container.findings)
            if unknown and not is_damaged:  # what is left of an entry that cannot be read was reported as damage
                losses.append(f"container {number}: {unknown} bytes that no field of the format describes")
            if any(item.code == "FP1407" and item.span == found.container.span for item in found.container.findings):
                version = found.container.version
                losses.append(f"container {number}: that it is a {found.container.format} of version {version}")
    if not chosen:
        if unreadable:
            raise next((item.error for item in unreadable if isinstance(item.error, FormatError)), unreadable[0].error)
        if distrusted:
            hint = f"{cli_or_api('--lossy', 'lossy=True')} converts it all the same"
            raise FormatError("none of the selected images is intact", hint=hint)
        asked = f" that match {selector.describe()}" if not selector.is_empty() else ""
        raise NothingSelected(f"no images to convert{asked}", hint=available_values(items, selector))
    refuse_shared_bytes(item.data for item in chosen)
    return chosen, losses, unreadable


def _is_readable_entry(data: View) -> bool:
    from fatpack.formats.cuda_fatbin.entry import is_refused

    return not is_refused(data)


def _bytes_of(found: FoundContainer, image: FoundImage) -> View:
    """Return an image as a file of its own, which is not always the bytes that the container holds."""
    pieces = list(image_pieces(found, image))
    if len(pieces) == 1 and isinstance(pieces[0], View):
        return pieces[0]
    return PiecesSource(pieces, found.view.chain[-1] if found.view.chain else "").view()


def _for_offload_binary(item: _SelectedImage, losses: list[str]) -> Image:
    found, image = item.found, item.found.as_stored
    if isinstance(image.record, OffloadBinaryEntry):
        return image
    target = image.target
    pairs = {"triple": target.triple, "arch": target.arch, **_keys(item, losses)}
    if target.offload in OFFLOAD_WORDS:
        pairs["kind"] = target.offload
    elif target.offload not in ("host", "none") and "id" not in pairs:
        losses.append(f"{item.title}: the programming model {target.offload!r}")
    if "id" in pairs and pairs["id"] == _derived_id(image):
        del pairs["id"]
    kept = tuple((key, value) for key, value in pairs.items() if value)
    # The image kind follows the file's extension, as in everything else that makes offload binaries.
    name = f"image.{EXTENSIONS.get(_KINDS.get(found.form, 0), '')}"
    return image_from(ImageOption((name,), (("file", name), *kept)), name, item.data)


def _keys(item: _SelectedImage, losses: list[str]) -> Mapping[str, str]:
    """Return the attributes of an image as keys of an offload binary; what is no key is a loss."""
    if _format(item) != "cuda-fatbin":
        return item.found.as_stored.attrs
    from fatpack.commands.convert.entries import offload_binary_keys

    return offload_binary_keys(item.position, item.found, losses)


def _format(item: _SelectedImage) -> str:
    """Return the name of the format that an image comes from."""
    return item.container.container.format


def _derived_id(image: Image) -> str:
    """Return the bundle ID that the target gives when it comes back from an offload binary; "" for none."""
    if image.target.offload == "host":
        return ""
    try:
        return id_for(image.target)
    except UsageError:
        return ""


def _for_cir(item: _SelectedImage) -> Image:
    """Return a module of a CIR container as it is, any other image as a module if it is MLIR text."""
    image = item.found.as_stored
    if _format(item) == "cir-offload-container":
        return image
    if item.found.form != "cir":
        raise UsageError(f"{item.title} is no MLIR module", hint="a CIR container holds nothing else")
    from fatpack.selectors.bundle_id_match import bundle_id

    return image.replace(data=item.data, attrs={"id": bundle_id(image)}, record=None)


def _without_host(chosen: Sequence[_SelectedImage], losses: list[str]) -> Sequence[_SelectedImage]:
    """Return the images without the places that HIP's bundles keep for the host, which are empty."""
    code: list[_SelectedImage] = []
    empty: list[_SelectedImage] = []
    for item in chosen:
        is_empty = not len(item.data) and item.found.as_stored.target.offload == "host"
        (empty if is_empty else code).append(item)
    if not code:
        return chosen  # and say that none of them can be held
    losses += [f"{item.title}: that there is an empty place for the host" for item in empty]
    return code


def _for_kpack(item: _SelectedImage) -> Image:
    """Return a code object with the key that the marker in its library would ask for."""
    image = item.found.as_stored
    if image.record is not None and "binary" in image.attrs and image.target.offload == "hip":
        return image
    from fatpack.targets.triple import is_amdgpu

    if image.target.offload != "hip" or not is_amdgpu(image.target.triple):
        others = cli_or_api("--offload=hip", 'offload="hip"')
        hint = f"a kpack archive holds nothing else; {others} selects what is for HIP"
        raise UsageError(f"{item.title} is no code for HIP", hint=hint)
    chain, number = item.container.view.chain, item.position.partition(".")[0]
    name = (chain[0] if chain else "image").rpartition("/")[2]
    attrs = {"binary": f"{name}#{number}"}  # its type is the writer's default
    return Image(image.target, "", item.data, len(item.data), len(item.data), item.data.span(), attrs=attrs)


def _for_bundle(item: _SelectedImage, losses: list[str]) -> Image:
    image, data = item.found.as_stored, item.data
    attrs = dict(_keys(item, losses))
    target, record = image.target, image.record
    if target.offload == "cuda" and "id" not in attrs:
        # Bundles of NVIDIA's images are OpenMP's; no bundle knows CUDA.
        losses.append(f"{item.title}: the programming model 'cuda', in place of which the bundle has openmp")
        target = target.replace(offload="openmp")
    if _format(item) == "cuda-fatbin":
        losses += [f"{item.title}: the key {key}={value}" for key, value in attrs.items()]
    if "binary" in attrs:
        losses.append(f"{item.title}: the library that it belongs to, {attrs['binary']}")
    spelling = attrs.pop("id", None) or id_for(target)
    if parse_bundle_id(spelling).kind == "cuda":
        losses.append(f"{item.title}: the kind of its ID {spelling}, in place of which the bundle has openmp")
        spelling = stored_id(f"openmp{spelling.removeprefix('cuda')}")
    if isinstance(record, OffloadBinaryEntry):
        losses += [f"{item.title}: the key {key}={value}" for key, value in attrs.items()]
        if record.flags:
            losses.append(f"{item.title}: the flags {record.flags:#x}")
        if record.image_kind and record.image_kind != _KINDS.get(item.found.info.form):
            name = IMAGE_KINDS.get(record.image_kind, "unknown")
            losses.append(f"{item.title}: that its kind is {record.image_kind} ({name}), which its bytes do not show")
    return Image(parse_bundle_id(spelling).target, "", data, len(data), len(data), data.span(), attrs={"id": spelling})
