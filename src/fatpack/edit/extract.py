"""Extract selected images, whole containers or plain byte ranges to files.

File names consist of the input's own name, triple and arch, with unsafe characters replaced. A stored name cannot lead
out of the output directory. All names are checked before the first byte is written.
"""

from __future__ import annotations

import errno
import os

from fatpack import binary, images
from fatpack.edit.write_containers import PER_IMAGE_ERRORS, UnreadableImage, read_error
from fatpack.errors import UsageError, cli_or_api
from fatpack.io.atomic_write import NewFile, refuse_inputs, refuse_special_file, write_files
from fatpack.io.output_names import file_stem, image_name, member_word, safe_word
from fatpack.io.source import PiecesSource, View
from fatpack.io.write import check_space, shared_size, written_size
from fatpack.record import Record
from fatpack.scanner import FoundContainer
from fatpack.selectors.select import describe_image, select_images, with_positions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from fatpack.io.source import Piece, Span
    from fatpack.io.write import Progress
    from fatpack.model import Finding
    from fatpack.scanner import FoundImage
    from fatpack.selectors.select import Selector


#: format → extension of a container as a file of its own, the same as for packing
_EXTENSIONS = {
    "llvm-offload-binary": "offload",
    "clang-offload-bundle": "bundle",
    "cuda-fatbin": "fatbin",
    "rocm-kpack": "kpack",
    "aotriton-aks2": "aks2",
    "rocm-kernel-cache": "db",
    "syclbin": "syclbin",
    "cir-offload-container": "cir",
}


class OutputFile(Record):
    """One file to write: its proposed name, its bytes in pieces, and a description.

    ``containers`` are the numbers of the outermost containers of its images, ``images`` the images in it; ``found`` is
    the container of an image.
    """

    name: str
    pieces: tuple[Piece, ...]
    what: str
    containers: frozenset[int] = frozenset()
    images: tuple[FoundImage, ...] = ()
    found: FoundContainer | None = None

    @property
    def size(self) -> int:
        """The number of bytes to write."""
        return sum(map(len, self.pieces))

    @property
    def views(self) -> list[View]:
        """The pieces that are ranges of files."""
        return [piece for piece in self.pieces if isinstance(piece, View)]

    @property
    def span(self) -> Span:
        """The span of the first of its images; of whole containers, their bytes."""
        return self.images[0].span if self.images else self.views[0].span()


def plan_images(
    items: Sequence[FoundContainer | Finding],
    selector: Selector,
    source: str,
    unreadable: list[UnreadableImage] | None = None,
) -> list[OutputFile]:
    """Return the files to write for the selected images, named ``<stem>-<triple>-<arch>.<number>.<extension>``.

    The number counts all images of the file, so that it does not depend on the selection. An image that only wraps
    containers is listed like any other; the images inside it come right after it. An image that cannot be made a file
    raises FormatError, HostError or Unsupported; with ``unreadable`` it is added there, and all others are planned.
    """
    numbers = {position: number for number, (position, _, _) in enumerate(with_positions(items))}
    plan = []
    for position, found, image in select_images(items, selector):
        target = image.target
        where = found.member or source
        extension = images.EXTENSIONS.get(image.form, "bin" if not image.form else image.form)
        name = image_name(where, target.triple, image.label, numbers[position], extension)
        containers = frozenset([int(position.partition(".")[0])])
        what = describe_image(position, image)
        try:
            pieces = tuple(image_pieces(found, image))
        except PER_IMAGE_ERRORS as error:
            if unreadable is None:
                raise
            unreadable.append(UnreadableImage(what, image.span, error))
        else:
            plan.append(OutputFile(name, pieces, what, containers, (image,), found))
    return plan


def source_containers(items: Sequence[FoundContainer | Finding], plan: Iterable[OutputFile]) -> list[FoundContainer]:
    """Return the outermost containers of the images of a plan, in file order."""
    wanted = frozenset[int]().union(*(item.containers for item in plan))
    containers = [item for item in items if isinstance(item, FoundContainer)]
    return [found for number, found in enumerate(containers) if number in wanted]


def image_pieces(found: FoundContainer, image: FoundImage) -> Iterable[Piece]:
    """Return the bytes of an image as a file of its own.

    These are the bytes of the image, with two exceptions: the host's image of a fat object is the object without the
    sections of the bundle, and a module of a CIR container needs the definitions that all modules share.
    """
    if found.container.format == "clang-offload-bundle":
        from fatpack.formats.clang_bundle.fat_object import is_host_marker
        from fatpack.formats.clang_bundle.layout import MAGIC

        if is_host_marker(image.as_stored):
            return binary.get_objcopy(found.host).remove_sections(found.view, MAGIC.decode())
    if found.container.format == "cir-offload-container":
        from fatpack.formats import cir

        return cir.split_image(image.as_stored)
    return [image.data]


def plan_archive(
    plan: Sequence[OutputFile], source: str, unreadable: list[UnreadableImage] | None = None
) -> OutputFile:
    """Return an archive of the planned images, in their order, with member names like those of clang-offload-bundler.

    An image that cannot be a member raises FormatError, HostError or Unsupported; with ``unreadable`` it is added
    there, and the archive has all others.
    """
    from fatpack.binary import archive

    members = [_member(item, source) for item in plan]
    try:
        pieces = archive.build_archive(members)
    except PER_IMAGE_ERRORS:
        if unreadable is None:
            raise
        plan, members = _alone(plan, members, unreadable)
        pieces = archive.build_archive(members)
    chosen = tuple(image for item in plan for image in item.images)
    containers = frozenset[int]().union(*(item.containers for item in plan))
    return OutputFile("", tuple(pieces), f"an archive of {len(members)} images", containers, chosen)


def _member(item: OutputFile, source: str) -> tuple[bytes, View]:
    """Return the name and the bytes of an image as a member."""
    from fatpack.formats.clang_bundle.bundle_id import member_name
    from fatpack.selectors.bundle_id_match import bundle_id

    (image,) = item.images
    assert item.found is not None
    spelling = bundle_id(image.as_stored)
    name = member_word(member_name(item.found.member or source, spelling)) if spelling else item.name
    data = image.data if len(item.pieces) == 1 else PiecesSource(item.pieces, name).view()
    return name.encode("utf-8", "surrogateescape"), data


def _alone(
    plan: Sequence[OutputFile], members: Sequence[tuple[bytes, View]], unreadable: list[UnreadableImage]
) -> tuple[list[OutputFile], list[tuple[bytes, View]]]:
    """Return the images that can be members, each tried separately; add the others to ``unreadable``."""
    from fatpack.binary import archive

    kept = []
    for item, member in zip(plan, members, strict=True):
        try:
            archive.build_archive([member])
        except PER_IMAGE_ERRORS as error:
            unreadable.append(UnreadableImage(item.what, item.span, error))
        else:
            kept.append((item, member))
    return [item for item, _ in kept], [member for _, member in kept]


def readable_images(plan: Sequence[OutputFile], unreadable: list[UnreadableImage]) -> list[OutputFile]:
    """Return the images of a plan that can be read to their last byte; add the others to ``unreadable``.

    This reads everything, to find the reason that an archive of them could not be written.
    """
    kept = []
    for item in plan:
        error = read_error(item.pieces)
        if error is None:
            kept.append(item)
        else:
            unreadable.append(UnreadableImage(item.what, item.span, error))
    return kept


def plan_containers(items: Sequence[FoundContainer | Finding], selector: Selector, source: str) -> list[OutputFile]:
    """Return the files to write for whole containers, as stored, with at least one selected image (or no images)."""
    plan = []
    containers = [item for item in items if isinstance(item, FoundContainer)]
    for number, found in enumerate(containers):
        if selector.container is not None and number != selector.container:
            continue
        if not selector.replace(container=None).is_empty() and not any(
            True for _ in select_images([found], selector.replace(container=None))
        ):
            continue
        container = found.container
        is_object = container.is_fat_object
        extension = "o" if is_object else _EXTENSIONS.get(container.format, container.format)
        if container.format == "bare-image":
            extension = images.EXTENSIONS[container.images[0].form]
        name = f"{safe_word(file_stem(found.member or source)) or 'container'}.{number}.{extension}"
        version = f" v{container.version}" if container.version else ""
        plan.append(OutputFile(name, (found.view,), f"{number} {container.format}{version}"))
    return plan


def write_plan(
    plan: Sequence[OutputFile],
    directory: str,
    *,
    force: bool = False,
    inputs: Sequence[View] = (),
    progress: Progress | None = None,
    unreadable: list[UnreadableImage] | None = None,
    any_size: bool | None = None,
) -> list[str]:
    """Write everything into ``directory`` (made if missing); return the paths in order.

    Nothing is written if any file exists already and ``force`` is not given, if two would get one name, or if one is a
    file of ``inputs``: names come from the archive, and could be its own. ``any_size`` is that of :func:`check_paths`.
    Damaged streams raise FormatError, and unsupported compression raises Unsupported; with ``unreadable`` such an image
    is added there, and all others are written.
    """
    paths = check_paths(plan, directory, inputs, force=force, any_size=any_size)
    if directory:
        os.makedirs(directory, exist_ok=True)
    written = []
    files = [NewFile(path, item.pieces) for path, item in zip(paths, plan, strict=True)]
    with write_files(files, force=force, inputs=inputs, progress=progress, is_checked=True) as sizes:
        for path, item in zip(paths, plan, strict=True):
            try:
                next(iter(sizes))
            except PER_IMAGE_ERRORS as error:
                if unreadable is None:
                    raise
                unreadable.append(UnreadableImage(item.what, item.span, error))
            else:
                written.append(path)
    return written


def check_size(
    plan: Sequence[OutputFile], inputs: Sequence[View] = (), *, force: bool = False, any_size: bool = False
) -> None:
    """Raise UsageError if a plan writes the same bytes again and again, or far more than the inputs explain.

    ``any_size`` accepts images that share bytes: the caller stated an output limit, which still holds. ``force``
    accepts any number of bytes.
    """
    if force:
        return
    total = 0 if any_size else shared_size(view for item in plan for view in item.views)
    if total:
        raise UsageError(
            f"the images share bytes: {total} bytes would be written",
            hint=f"select what you need, or {cli_or_api('--force', f'max_output={total}')}",
        )
    for view in inputs[:1]:
        view.source.budget.check_output(sum(written_size(item.pieces) for item in plan))


def check_paths(
    plan: Sequence[OutputFile],
    directory: str,
    inputs: Sequence[View] = (),
    *,
    force: bool = False,
    any_size: bool | None = None,
) -> list[str]:
    """Return the paths of all files; refuse paths that must not be written. Nothing is made or written.

    ``force`` accepts files that exist, ``any_size`` (by default ``force``) images that share bytes.
    """
    if "\0" in directory:
        raise UsageError("a path cannot contain a NUL character")
    paths = [os.path.join(directory, item.name) for item in plan]
    seen: set[str] = set()
    for path in paths:
        if path in seen:
            raise UsageError(
                f"two images would be written to {path}",
                hint=f"extract them one by one, with {cli_or_api('-o', 'image.data')}",
            )
        seen.add(path)
    check_size(plan, inputs, force=force and any_size is None, any_size=bool(any_size))
    check_space(directory, sum(written_size(item.pieces) for item in plan))
    if not force and (not directory or os.path.lexists(directory)):
        existing = [path for path in paths if os.path.lexists(path)]
        if existing:
            verb = f"and {len(existing) - 1} more exist" if len(existing) > 1 else "exists"
            hint = cli_or_api(
                "give another directory with -d, or --force to overwrite", "give another one, or overwrite=True"
            )
            raise UsageError(f"{existing[0]} {verb}", hint=hint)
    for path in paths if force else ():
        refuse_special_file(path)
        refuse_inputs(path, inputs)
    if directory and os.path.lexists(directory) and not os.path.isdir(directory):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), directory)
    return paths
