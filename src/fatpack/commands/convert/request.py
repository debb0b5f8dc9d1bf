"""``fatpack.convert``: images of a file as containers of another format."""

from __future__ import annotations

from fatpack.commands.pack.request import options_for
from fatpack.errors import UsageError
from fatpack.library.arguments import issue_warnings, make_budget, open_input, write_packed
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
    data: Input | Images,
    output: Output,
    *,
    format: Format | None = None,
    options: Options | None = None,
    lossy: bool = False,
    force: bool = False,
) -> int:
    """Write the images of a file as containers of another format; return the size in bytes.

    ``data`` is a file, all of whose images are meant, or what :meth:`File.images` returned of one: the selected ones.
    ``format`` and ``options`` are those of :func:`pack`; one is needed. Entries of fat binaries are copied into others
    as they are stored, unless :class:`FatbinOptions` say how to store them. What the format cannot say raises
    UsageError with the list of it, and damage FormatError, unless ``lossy``: then what is intact is converted, and what
    is not is told in Python warnings. More than both 1 GiB and 100 times the input is written only with ``force``; what
    :func:`open` says may be inflated of a file holds for its images. Raises HostError, ``OSError``.
    """
    options = options_for(format, options)
    budget = make_budget(force=force)
    if not isinstance(data, Images):
        with File(open_input("data", data, budget=budget)) as file:
            return _convert(file.images(), output, options, budget, lossy=lossy, force=force)
    budget.opened(data.file.path, data.file.size)
    return _convert(data, output, options, budget, lossy=lossy, force=force)


def _convert(images: Images, output: Output, options: Options, budget: Budget, *, lossy: bool, force: bool) -> int:
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
    return write_packed(output, conversion.packed, force=force, inputs=[file.view], budget=budget)
