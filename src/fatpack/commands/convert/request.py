"""The request and the run of ``fatpack convert`` and ``fatpack.convert``: images of a file → another format."""

from __future__ import annotations

import os

from fatpack.errors import FormatError, UsageError, cli_or_api
from fatpack.model import Finding
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.scanner import FoundContainer

__all__ = ["convert"]

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fatpack.commands.convert.convert import Conversion
    from fatpack.commands.pack.formats import PackedContainers
    from fatpack.io.open import Input
    from fatpack.io.source import View
    from fatpack.library.arguments import Output
    from fatpack.library.file import Images
    from fatpack.limits import Budget
    from fatpack.literals import Format
    from fatpack.selectors.select import Selector
    from fatpack.writer_options import Options


class ConvertRequest(Record):
    """Images of a file to convert, and the options of the new container.

    ``damage`` is what :func:`find_damage` found in ``items``. With ``lossy`` the content of damaged containers is taken
    as it is; with ``leaves_out`` images that cannot be taken out, and those of damaged containers, are left out.
    """

    items: Sequence[FoundContainer | Finding]
    selector: Selector
    options: Options
    damage: Sequence[Finding]
    lossy: bool = False
    leaves_out: bool = False

    def convert(self) -> Conversion:
        """Return the conversion. Images are read to their ends only if one of them cannot be taken out.

        Raises FormatError for damage, unless it is left out, and what
        :func:`~fatpack.commands.convert.convert.convert_images` raises.
        """
        from fatpack.edit.write_containers import PER_IMAGE_ERRORS

        if not self.leaves_out:
            self._refuse_damage()
            return self._converted(read=False)
        try:
            return self._converted(read=False)
        except PER_IMAGE_ERRORS as error:
            try:
                conversion = self._converted(read=True)
            except PER_IMAGE_ERRORS:
                raise error from None
            if not conversion.unreadable:
                raise
            return conversion

    def write(
        self, conversion: Conversion, write: Callable[[PackedContainers], int], *, may_repeat: bool
    ) -> tuple[Conversion, int]:
        """Write a conversion; return what was written, and its size.

        If an image turns out to be damaged, and ``may_repeat`` and ``leaves_out`` say so, the others are written.
        """
        from fatpack.edit.write_containers import PER_IMAGE_ERRORS

        try:
            return conversion, write(conversion.packed)
        except PER_IMAGE_ERRORS:
            if not (may_repeat and self.leaves_out):
                raise
            rest = self._converted(read=True)
            if len(rest.unreadable) <= len(conversion.unreadable):
                raise
        return rest, write(rest.packed)

    def findings(self, conversion: Conversion) -> list[Finding]:
        """Return the damage that keeps something out of a conversion: in the file, and in single images."""
        from fatpack.edit.verify import CONTENT_CODES

        damage = [item for item in self.damage if not (self.lossy and item.code in CONTENT_CODES)]
        return [*damage, *(item.finding for item in conversion.unreadable)]

    def _converted(self, *, read: bool) -> Conversion:
        from fatpack.commands.convert.convert import convert_images

        distrusted = () if self.lossy else self._distrusted()
        return convert_images(
            self.items, self.selector, self.options, leaves_out=self.leaves_out, distrusted=distrusted, read=read
        )

    def _refuse_damage(self) -> None:
        for item in self.damage:
            hint = "; ".join(filter(None, (item.hint, "nothing was converted; extract gets out what is intact")))
            raise FormatError(item.message, offset=item.span.start, hint=hint, chain=item.span.source)

    def _distrusted(self) -> list[int]:
        """Return the numbers of damaged containers: a new hash over their content would make the damage look right."""
        from fatpack.edit.verify import CONTENT_CODES

        spans = [item.span for item in self.damage if item.code in CONTENT_CODES and item.severity == "error"]
        containers = [item for item in self.items if isinstance(item, FoundContainer)]
        return [
            number
            for number, around in enumerate(found.container.span for found in containers)
            if any(span.source == around.source and around.start <= span.start < around.end for span in spans)
        ]


def refuse_package(view: View, name: str, path: str) -> None:
    """Raise UsageError for a package, which has files of its own; ``path`` is what names of these begin with."""
    from fatpack.scanner.context import detect_package

    if detect_package(view):
        command = f"name one of them, as in {printable(path)}!lib/libx.so: fatpack inspect lists them"
        call = f"open one of them: convert(fatpack.open({path!r}, member='lib/libx.so').images(), …)"
        problem = f"{name} is a package of files, and convert makes one container of one"
        raise UsageError(problem, hint=cli_or_api(command, call))


def find_damage(items: Sequence[FoundContainer | Finding]) -> list[Finding]:
    """Return the parts of a file that cannot be read, and containers whose content is not what was stored."""
    from fatpack.edit.verify import content_findings

    read = [item for item in items if isinstance(item, Finding) and item.severity == "error"]
    content = content_findings([item for item in items if isinstance(item, FoundContainer)])
    return [*(item for item in read if item not in content), *content]


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
    is not is reported in Python warnings. ``overwrite`` and ``max_output`` are those of :func:`fatpack.extract`; what
    :func:`open` may inflate of a file holds for its images. Raises HostError, ``OSError``.
    """
    from fatpack.commands.pack.request import options_for
    from fatpack.library.arguments import check_bools, make_budget, open_input, refuse_tree
    from fatpack.library.file import File, Images

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
    from fatpack.commands.convert.convert import LossyConversion
    from fatpack.library.arguments import issue_warnings, write_packed_to
    from fatpack.selectors.no_match import refuse_empty

    file = images.file
    refuse_empty(file.view)
    refuse_package(file.view, file.path or "the file", file.path)
    file.view.source.check()
    request = ConvertRequest(
        file.items, images.selector, options, find_damage(file.items), lossy=lossy, leaves_out=lossy
    )
    conversion = request.convert()
    issue_warnings(finding.text for finding in conversion.packed.findings if finding.severity != "note")
    if conversion.losses and not lossy:
        raise LossyConversion(conversion.losses)
    conversion, size = request.write(
        conversion,
        lambda packed: write_packed_to(output, packed, overwrite=overwrite, inputs=[file.view], budget=budget),
        may_repeat=isinstance(output, (str, os.PathLike)),
    )
    issue_warnings(finding.text for finding in (*request.damage, *(item.finding for item in conversion.unreadable)))
    return size
