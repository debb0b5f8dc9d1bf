"""``fatpack convert``: the images of one container format → another, without a loss, or not at all."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.options import (
    color_option,
    deep_option,
    force_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    quiet_option,
    selector_options,
)
from fatpack.command_line.param_types import FILE, INPUT
from fatpack.commands.pack.options import packing_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
    from fatpack.commands.convert.command import convert_file

    return convert_file(file, output, options, lossy=lossy, deep=deep, force=force, quiet=quiet)
