"""``fatpack pack``: device images → a container, alone or inside a copy of a host object."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.options import (
    color_option,
    force_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    quiet_option,
)
from fatpack.command_line.param_types import FILE, IMAGE, INPUT, ChoiceType
from fatpack.commands.pack.options import cir_forms, packing_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@click.command("pack", cls=Command)
@click.option(
    "--image",
    "images",
    multiple=True,
    type=IMAGE,
    metavar="file=F,triple=T[,arch=A][,kind=K][,key=value…]",
    help="An image and its target. kind: cuda, hip, openmp, sycl or host; in fat binaries elf, ptx, nvvm or tileir. "
    "Repeatable.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help='Output file; "-" is stdout.',
)
@click.option(
    "--host",
    type=INPUT,
    metavar="OBJECT",
    help="Put the container into a copy of this object or archive (libx.a(m.o)).",
)
@packing_options
@click.option("--form", "short_form", type=ChoiceType(cir_forms), help="The same as --cir-form.")
@click.option("--dry-run", is_flag=True, help="Write nothing; print what would be packed.")
@force_option
@max_inflated_option
@max_output_option
@limit_option
@color_option
@quiet_option
def command(
    images: tuple[str, ...],
    output: str | None,
    host: str | None,
    short_form: str | None,
    dry_run: bool,
    force: bool,
    quiet: bool,
    **packing: Any,
) -> int:
    """Put images into a container, or with --host into a copy of an object.

    Without -o the output is named after the first image (STEM.offload, STEM.fatbin, ...) or after the host
    (STEM.offload.o), in the current directory.
    """
    from fatpack.commands.pack.command import pack_file

    if short_form:
        packing["cir_form"] = short_form
    return pack_file(images, output, host, packing, dry_run=dry_run, force=force, quiet=quiet)
