"""``fatpack pack``: device images → a container, alone or inside a copy of a host object."""

from __future__ import annotations

import click

from fatpack.cli.grammar.command import Command
from fatpack.cli.grammar.param_types import FILE, IMAGE, INPUT, Choice
from fatpack.cli.options import (
    color_option,
    force_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    quiet_option,
)
from fatpack.cli.packing.options import cir_forms, packing_options

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
    help="An image and what it is for; repeatable. kind: cuda, hip, openmp or sycl; in bundles also host. "
    "Bundles and CIR containers also take id=BUNDLE-ID instead of triple, arch and kind. Offload binaries "
    "store any other key. Fat binaries need only file; there kind is elf, ptx, nvvm or tileir, they store "
    "ident, cmdline, debug=yes and host, and check=no packs a file whose contents contradict the other "
    "keys.",
)
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help='Where to write; "-" is stdout. Default: named after the first image, or after the host.',
)
@click.option(
    "--host",
    type=INPUT,
    metavar="OBJECT",
    help="Put the container into a copy of this object, or of an archive: libx.a(m.o).",
)
@packing_options
@click.option("--form", "short_form", type=Choice(cir_forms), help="The same as --cir-form.")
@click.option(
    "--dry-run", is_flag=True, help="Write nothing; print what would be packed, and what is renamed in CIR modules."
)
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
    """Pack device images into a container, or with --host into a copy of an object.

    For the same arguments the bytes are those of llvm-offload-binary 22 (23 with --container-version=2),
    clang-offload-bundler 22 (--format=bundle) and fatbinary 13 (--format=fatbin).

    Without -o the output goes into the current directory: STEM.offload, STEM.bundle, STEM.fatbin, STEM.cir, STEM.kpack
    or STEM.syclbin, where STEM is the name of the first image; with --host STEM.offload.o (.a for an archive), where
    STEM is the name of the host.
    """
    from fatpack.cli.packing.making import make

    if short_form:
        packing["cir_form"] = short_form
    return make(images, output, host, packing, dry_run=dry_run, force=force, quiet=quiet)
