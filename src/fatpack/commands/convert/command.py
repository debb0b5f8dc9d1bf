"""``fatpack convert``: the images of one container format → another, without a loss, or not at all."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_findings, print_stderr, print_warnings
from fatpack.command_line.param_types import FILE, INPUT
from fatpack.command_line.shared_options import (
    allow_any_output,
    check_output_name,
    deep_option,
    force_option,
    selector_from_options,
    selector_options,
    writing_options,
)
from fatpack.commands.pack.format_options import PACKING_KEYS, packing_from_options, packing_options
from fatpack.errors import FatpackError, UsageError, pluralize
from fatpack.exit_codes import FINDINGS, exit_code_for_findings
from fatpack.printable import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.inputs.nested import NestedFile
    from fatpack.io.source import Source, View
    from fatpack.selectors.address import Address


#: lines of losses that are shown; the rest is counted
_SHOWN = 20


def convert_file(
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
    from fatpack.commands.convert.request import ConvertRequest, find_damage
    from fatpack.commands.pack.formats import write_packed
    from fatpack.io.output_names import file_stem
    from fatpack.scanner import scan
    from fatpack.selectors.address import outermost_view
    from fatpack.selectors.no_match import NothingSelected, unmatched_patterns, unread_findings

    allow_any_output(force)
    check_output_name(output)
    packing = {key: options.pop(key) for key in PACKING_KEYS}
    chosen = packing_from_options(packing, output)
    source, address = _open_file(file)
    with source:
        view = _place(file, source.view(), address)
        source.check()
        items = list(scan(view, deep=deep))
        print_warnings((item for item in unread_findings(items) if item.severity != "error"), quiet=quiet)
        damage = find_damage(items)
        print_findings(file, damage)
        selected = selector_from_options(options)
        for text in unmatched_patterns(items, selected):
            print_stderr(f"fatpack: warning: {text}", quiet=quiet)
        request = ConvertRequest(items, selected, chosen.options, damage, lossy=lossy, leaves_out=True)
        try:
            conversion = request.convert()
        except FatpackError as error:
            error.chain = error.chain or (file,)
            if damage and isinstance(error, NothingSelected):
                print_stderr(f"fatpack: {error}")
                return exit_code_for_findings((item.severity, item.code) for item in damage)
            raise
        print_findings(file, [item.finding for item in conversion.unreadable])
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
        inputs = [outermost_view(source)]
        written, size = request.write(
            conversion,
            lambda packed: write_packed(packed, target, doing="writing", force=force, quiet=quiet, inputs=inputs),
            may_repeat=target != "-",
        )
        reported = {item.what for item in conversion.unreadable}
        print_findings(file, [item.finding for item in written.unreadable if item.what not in reported])
    if target != "-":
        print_stderr(f"wrote {target}: {pluralize(written.image_count, 'image')}, {format_size(size)}", quiet=quiet)
    return exit_code_for_findings((item.severity, item.code) for item in request.findings(written))


def _open_file(file: str) -> tuple[Source | NestedFile, Address]:
    from fatpack.io.open import is_tree
    from fatpack.selectors.address import open_file, parse_address

    if is_tree(file):
        raise UsageError(f"{file} means many files, and convert makes one container of one", hint="name one of them")
    return open_file(parse_address(file, packages=True))


def _place(file: str, view: View, address: Address) -> View:
    """Return the bytes that are converted. Raises UsageError for a package, and for what is empty or not there."""
    from fatpack.commands.convert.request import refuse_package
    from fatpack.selectors.address import find_location
    from fatpack.selectors.no_match import refuse_empty

    if not address.members:
        refuse_package(view, file, address.path)
    view = find_location(view, address).view
    refuse_empty(view)
    return view


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
@writing_options
@deep_option
@force_option
def command(file: str, output: str | None, lossy: bool, deep: bool, force: bool, quiet: bool, **options: Any) -> int:
    """Convert the images of FILE, or the selected ones, to another container format.

    FILE is a container, or any file with containers in it, also in a package (x.whl!libx.so) or an archive
    (libx.a(m.o)). Each container is converted on its own. If the other format cannot hold everything, the losses are
    listed, nothing is written, and the exit code is 1. Layout and compression are not kept: set them anew.
    """

    return convert_file(file, output, options, lossy=lossy, deep=deep, force=force, quiet=quiet)
