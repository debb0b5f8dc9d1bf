"""``fatpack.convert``: images of a file as containers of another format."""

from __future__ import annotations

from fatpack.commands.pack.request import options_for
from fatpack.errors import UsageError
from fatpack.library.arguments import check_bools, issue_warnings, make_budget, open_input, refuse_tree, write_packed
from fatpack.library.file import File, Images

__all__ = ["convert"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.edit.write_containers import UnreadableImage
    from fatpack.io.open import Input
    from fatpack.library.arguments import Output
    from fatpack.limits import Budget
    from fatpack.literals import Format
    from fatpack.options import Options


def convert(
    file: Input | Images,
    output: Output,
    *,
    format: Format | None = None,
    options: Options | None = None,
    lossy: bool = False,
    overwrite: bool = False,
    max_output: int | None = None,
) -> int:
    """Write the images of a file as containers of another format; return the size in bytes.

    ``file`` is a file, all of whose images are converted, or the selected images that :meth:`File.images` returned.
    ``format`` and ``options`` are those of :func:`pack`; one is needed. Entries of fat binaries are copied into others
    as they are stored, unless :class:`FatbinOptions` say how to store them. What the format cannot say raises
    UsageError with the list of it, and damage FormatError, unless ``lossy``: then what is intact is converted, and what
    is not is told in Python warnings. ``overwrite`` and ``max_output`` are those of :func:`fatpack.extract`; what
    :func:`open` may inflate of a file holds for its images. Raises HostError, ``OSError``.
    """
    check_bools(lossy=lossy, overwrite=overwrite)
    options = options_for(format, options)
    budget = make_budget(max_output=max_output)
    if not isinstance(file, Images):
        refuse_tree(file)
        with File(open_input("file", file, budget=budget)) as opened:
            return _convert(opened.images(), output, options, budget, lossy=lossy, overwrite=overwrite)
    budget.opened(file.file.path, file.file.size)
    return _convert(file, output, options, budget, lossy=lossy, overwrite=overwrite)


def _convert(images: Images, output: Output, options: Options, budget: Budget, *, lossy: bool, overwrite: bool) -> int:
    from fatpack.commands.convert.convert import convert_images

    file = images.file
    unreadable: list[UnreadableImage] | None = [] if lossy else None
    conversion = convert_images(file.items, images.selector, options, unreadable=unreadable)
    issue_warnings(finding.text for finding in conversion.packed.findings if finding.severity != "note")
    if conversion.losses and not lossy:
        raise UsageError(f"{len(conversion.losses)} things would be lost: {'; '.join(conversion.losses)}")
    if unreadable is not None:
        issue_warnings(finding.text for finding in file.findings if finding.severity == "error")
        issue_warnings(item.finding.text for item in unreadable)
    return write_packed(output, conversion.packed, overwrite=overwrite, inputs=[file.view], budget=budget)
