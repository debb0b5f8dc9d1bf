"""What was made of images, put back: in their place, or beside them; or into files of its own."""

from __future__ import annotations

from collections import Counter

from fatpack import images
from fatpack.edit.container_file import has_same_bytes
from fatpack.edit.extract import OutputFile
from fatpack.edit.replace_images import image_as_file, plan_substitution, refuse_marker
from fatpack.edit.successor import replacement_image
from fatpack.errors import FormatError, UsageError, cli_or_api, pluralize
from fatpack.images.container_mismatch import image_words, mismatch_findings
from fatpack.io.names import image_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.commands.map.map import MappedImage
    from fatpack.edit.replace_images import ImageSubstitution
    from fatpack.edit.selection import EditSelection
    from fatpack.model import Image
    from fatpack.selectors.select import Selector

#: formats whose entries are found by target alone, or by target and binary: two of one cannot be told apart
_BY_TARGET = ("clang-offload-bundle", "cir-offload-container", "rocm-kpack")


def plan_put_back(
    meant: EditSelection, made: Sequence[MappedImage], selector: Selector, *, is_beside: bool, force: bool = False
) -> ImageSubstitution:
    """Return the plan that puts what was made of images into their places, or behind them in the same containers.

    Raises UsageError for what contradicts its target, for a target that is there already, and for bytes of which nobody
    knows what they are for, unless ``force`` takes them; FormatError for damaged ones.
    """
    changes: dict[int, tuple[Image, ...]] = {}
    changed = []
    for item in made:
        job = item.job
        assert item.data is not None
        refuse_marker(job.words, job.image, meant.whole.view)
        old = job.image.as_stored
        new = replacement_image(old, job.found.format, item.data, item.labels, is_beside=is_beside)
        is_other = (
            is_beside or new.target != old.target or not has_same_bytes(item.data, image_as_file(job.found, job.image))
        )
        if is_other:
            if not force:
                _check(item, new)
            changes[id(job.image)] = (old, new) if is_beside else (new,)
        what = image_words(item.recognised) if item.recognised.form else "bytes of no known form"
        place = "added beside it" if is_beside else "in its place" if is_other else "the same bytes"
        changed.append(f"{job.words}: {what}, {pluralize(len(item.data), 'byte')}, {place}")
    _refuse_twice(meant, made, changes, force=force)
    return plan_substitution(meant, changes, changed, selector)


def _check(item: MappedImage, new: Image) -> None:
    words, data = item.job.words, new.data
    advice = f"nothing was written; {cli_or_api('--force', 'force=True')} takes it all the same"
    if not item.recognised.form and item.labels.arch is None and item.labels.triple is None:
        given = cli_or_api("--set-arch or --set-triple", "ImageFile(…, triple=…, arch=…)")
        raise UsageError(f"{words}: nobody knows what the new image is, or what it is for", hint=f"say it with {given}")
    for finding in mismatch_findings(new, item.recognised):
        raise UsageError(f"{words}: the new image: {finding.message}", hint=advice)
    try:
        images.kernels(data, item.recognised.form)
    except FormatError as error:
        hint = "; ".join(filter(None, (error.hint, advice)))
        raise FormatError(
            error.problem, offset=error.offset, field=error.field, hint=hint, chain=error.chain or data.chain
        ) from error


def _refuse_twice(
    meant: EditSelection, made: Sequence[MappedImage], changes: dict[int, tuple[Image, ...]], *, force: bool
) -> None:
    """Raise UsageError for two images of one target in a container, where there are more of them than before."""
    for found in {id(item.job.found): item.job.found for item in made}.values():
        if force and found.format not in _BY_TARGET:
            continue
        before = Counter(_key(found.format, image.as_stored) for image in found.images)
        rows = [new for image in found.images for new in changes.get(id(image), (image.as_stored,))]
        now = Counter(_key(found.format, image) for image in rows)
        for image in rows:
            key = _key(found.format, image)
            if now[key] > max(1, before[key]):
                name = image.target.spelling or image.target.canonical
                given = cli_or_api("--set-arch and --set-triple", "ImageFile(…, triple=…, arch=…)")
                raise UsageError(
                    f"{meant.titles.get(id(found), '')}there would be {now[key]} images for {name} in one container",
                    hint=f"say what the new ones are for with {given}, or put them in the place of the old ones",
                    chain=meant.whole.view.chain,
                )


def _key(format: str, image: Image) -> tuple[str, ...]:
    target = image.target
    if format in _BY_TARGET:
        return (image.attrs.get("binary", ""), image.attrs.get("id", ""), target.triple, target.arch)
    return (target.triple, target.arch, target.offload, image.form)


def files_to_write(made: Sequence[MappedImage], source: str) -> list[OutputFile]:
    """Return what was made as files to write, named as ``extract`` names images: after target and position."""
    plan = []
    for item in made:
        assert item.data is not None
        target = item.labels.of(item.job.image.target)
        form = item.recognised.form
        name = image_name(
            item.job.found.member or source,
            target.triple,
            target.arch,
            item.job.number,
            images.EXTENSIONS.get(form, "bin"),
        )
        what = image_words(item.recognised) if form else "bytes of no known form"
        plan.append(OutputFile(name, (item.data,), f"{item.job.words}: {what}", found=item.job.found))
    return plan
