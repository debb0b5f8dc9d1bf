"""``fatpack convert``: the images of one container format → another, without a loss, or not at all."""

from __future__ import annotations

import os

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import (
    CopyProgress,
    print_findings,
    print_stderr,
    print_warnings,
    warn_stale_temp_files,
)
from fatpack.command_line.options import (
    allow_any_output,
    check_output_name,
    color_option,
    deep_option,
    force_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    quiet_option,
    selector_from_options,
    selector_options,
)
from fatpack.command_line.param_types import FILE, INPUT
from fatpack.commands.pack.options import PACKING_KEYS, packing_from_options, packing_options
from fatpack.errors import FatpackError, UsageError, pluralize
from fatpack.exit_codes import FINDINGS, exit_code_for_findings
from fatpack.model import Finding
from fatpack.printable import format_size, printable
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fatpack.commands.convert.convert import Conversion
    from fatpack.edit.write_containers import UnreadableImage
    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Source, View
    from fatpack.options import Options
    from fatpack.scanner import FoundContainer
    from fatpack.selectors.address import Address
    from fatpack.selectors.select import Selector


#: lines of losses that are shown; the rest is counted
_SHOWN = 20


def convert_file(  # noqa: PLR0915  (imports inside count)
    file: str,
    output: str | None,
    options: dict[str, Any],
    *,
    lossy: bool,
    deep: bool,
    force: bool,
    quiet: bool,
) -> int:
    """Convert a file as the options say, write the result, and return the exit code.

    ``options`` are selectors and those of containers. Raises UsageError for options that exclude each other,
    FatpackError for what cannot be read or converted, ``OSError``.
    """
    from fatpack.edit.verify import CONTENT_CODES
    from fatpack.edit.write_containers import PER_IMAGE_ERRORS
    from fatpack.io.write import file_stem
    from fatpack.scanner import scan
    from fatpack.selectors.address import outermost_view
    from fatpack.selectors.no_match import NothingSelected, unmatched_patterns, unread_findings

    allow_any_output(force)
    check_output_name(output)
    packing = {key: options.pop(key) for key in PACKING_KEYS}
    chosen = packing_from_options(packing, output)
    source, address = _opened(file)
    with source:
        view = _place(file, source.view(), address)
        items = list(scan(view, deep=deep))
        print_warnings((item for item in unread_findings(items) if item.severity != "error"), quiet=quiet)
        wrong = _damage(items)
        print_findings(file, wrong)
        selected = selector_from_options(options)
        for text in unmatched_patterns(items, selected):
            print_stderr(f"fatpack: warning: {text}", quiet=quiet)
        request = _ConvertRequest(items, selected, chosen.options, () if lossy else _distrusted(items, wrong))
        try:
            conversion, unreadable = request.conversion()
        except FatpackError as error:
            error.chain = error.chain or (file,)
            if wrong and isinstance(error, NothingSelected):
                print_stderr(f"fatpack: {error}")
                return exit_code_for_findings((item.severity, item.code) for item in wrong)
            raise
        print_findings(file, [item.finding for item in unreadable])
        print_warnings(conversion.packed.findings, quiet=quiet)
        for note in conversion.packed.notes:
            print_stderr(note, quiet=quiet)
        for loss in conversion.losses[:_SHOWN]:
            print_stderr(f"not converted: {loss}", quiet=quiet and lossy)
        if len(conversion.losses) > _SHOWN:
            print_stderr(f"not converted: {len(conversion.losses) - _SHOWN} more things", quiet=quiet and lossy)
        if conversion.losses and not lossy:
            print_stderr(f"fatpack: {file}: nothing was written; --lossy converts all the same")
            return FINDINGS
        name = file_stem(file.rpartition("!")[2].removesuffix(")")) if file != "-" else "stdin"
        target = output or f"{name}.{chosen.extension}"
        if target != "-":
            warn_stale_temp_files(os.path.dirname(target), quiet=quiet)
        try:
            _write(conversion, target, outermost_view(source), force=force, quiet=quiet)
        except PER_IMAGE_ERRORS:
            again = request.without_unreadable(unreadable) if target != "-" else None
            if again is None:
                raise
            reported = {item.what for item in unreadable}
            print_findings(file, [item.finding for item in again[1] if item.what not in reported])
            conversion, unreadable = again
            _write(conversion, target, outermost_view(source), force=force, quiet=quiet)
    # Content with another hash is taken where that was asked for.
    left_out = [item for item in wrong if not (lossy and item.code in CONTENT_CODES)]
    return exit_code_for_findings(
        (item.severity, item.code) for item in (*left_out, *(item.finding for item in unreadable))
    )


def _opened(file: str) -> tuple[Source | NestedFile, Address]:
    from fatpack.io.open import is_tree
    from fatpack.selectors.address import open_file, parse_address

    if is_tree(file):
        raise UsageError(f"{file} means many files, and convert makes one container of one", hint="name one of them")
    return open_file(parse_address(file, packages=True))


def _place(file: str, view: View, address: Address) -> View:
    """Return the bytes that are converted. Raises UsageError for a package, and for what is empty or not there."""
    from fatpack.scanner.context import detect_package
    from fatpack.selectors.address import find_location
    from fatpack.selectors.no_match import refuse_empty

    if not address.members and detect_package(view):
        hint = f"name one of them, as in {printable(address.path)}!lib/libx.so: fatpack inspect lists them"
        raise UsageError(f"{file} is a package of files, and convert makes one container of one", hint=hint)
    view = find_location(view, address).view
    refuse_empty(view)
    return view


def _damage(items: Sequence[FoundContainer | Finding]) -> list[Finding]:
    """Return the parts of a file that cannot be read, and containers whose content is not what was stored."""
    from fatpack.edit.verify import content_findings
    from fatpack.scanner import FoundContainer

    read = [item for item in items if isinstance(item, Finding) and item.severity == "error"]
    content = content_findings([item for item in items if isinstance(item, FoundContainer)])
    return [*(item for item in read if item not in content), *content]


def _distrusted(items: Sequence[FoundContainer | Finding], wrong: Sequence[Finding]) -> list[int]:
    """Return the containers whose content is damaged: a new hash over it would make the damage look right."""
    from fatpack.edit.verify import CONTENT_CODES
    from fatpack.scanner import FoundContainer

    spans = [item.span for item in wrong if item.code in CONTENT_CODES and item.severity == "error"]
    containers = [item for item in items if isinstance(item, FoundContainer)]
    return [
        id(found)
        for found in containers
        for around in (found.container.span,)
        if any(span.source == around.source and around.start <= span.start < around.end for span in spans)
    ]


class _ConvertRequest(Record):
    """Which images to convert into what; ``distrusted`` are containers of which none is taken."""

    items: Sequence[FoundContainer | Finding]
    selector: Selector
    options: Options
    distrusted: Sequence[int]

    def conversion(self) -> tuple[Conversion, list[UnreadableImage]]:
        """Return what the images become, and those that cannot be taken out."""
        from fatpack.edit.write_containers import PER_IMAGE_ERRORS

        try:
            return self._made(read=False)
        except PER_IMAGE_ERRORS as error:
            try:
                made = self._made(read=True)
            except PER_IMAGE_ERRORS:
                raise error from None
            if not made[1]:
                raise
            return made

    def without_unreadable(self, before: Sequence[UnreadableImage]) -> tuple[Conversion, list[UnreadableImage]] | None:
        """Return the same with all images read to their ends before; None if that shows nothing new."""
        made = self._made(read=True)
        return made if len(made[1]) > len(before) else None

    def _made(self, *, read: bool) -> tuple[Conversion, list[UnreadableImage]]:
        from fatpack.commands.convert.convert import convert_images

        unreadable: list[UnreadableImage] = []
        made = convert_images(
            self.items, self.selector, self.options, unreadable=unreadable, distrusted=self.distrusted, read=read
        )
        return made, unreadable


def _write(conversion: Conversion, target: str, file: View, *, force: bool, quiet: bool) -> None:
    from fatpack.io.atomic_write import write_file
    from fatpack.io.write import write_pieces

    pieces = conversion.packed.pieces
    if target == "-":
        write_pieces(1, pieces)
        return
    meter = CopyProgress(sum(map(len, pieces)), f"writing {target}", quiet=quiet)
    try:
        size = write_file(
            target,
            pieces,
            force=force,
            inputs=[file],
            verify=conversion.packed.verify,
            mode=conversion.packed.mode,
            progress=meter,
        )
    finally:
        meter.finish()
    print_stderr(f"wrote {target}: {pluralize(conversion.image_count, 'image')}, {format_size(size)}", quiet=quiet)


# ``fatpack convert``: the images of one container format → another, without a loss, or not at all.


@click.command("convert", cls=Command)
@click.argument("file", type=INPUT)
@selector_options
@packing_options
@click.option(
    "-o",
    "--output",
    type=FILE,
    help='Output file; "-" is stdout. Default: STEM.offload, STEM.bundle, ...',
)
@click.option("--lossy", is_flag=True, help="Convert even if information is lost; the losses are listed.")
@max_inflated_option
@max_output_option
@deep_option
@limit_option
@color_option
@force_option
@quiet_option
def command(file: str, output: str | None, lossy: bool, deep: bool, force: bool, quiet: bool, **options: Any) -> int:
    """Convert the images of FILE, or the selected ones, to another container format.

    FILE is a container, or any file with containers in it, also in a package (x.whl!libx.so) or an archive
    (libx.a(m.o)). If the other format cannot hold everything, the losses are listed, nothing is written, and the exit
    code is 1; --lossy writes anyway. Layout and compression are not kept: set them with --bundle-align, --compress and
    so on.
    """

    return convert_file(file, output, options, lossy=lossy, deep=deep, force=force, quiet=quiet)
