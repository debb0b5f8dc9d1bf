"""``fatpack map``: a program for every selected image, and what it makes put back, or kept in files."""

from __future__ import annotations

import click

from fatpack.cli.grammar.command import Command
from fatpack.cli.grammar.param_types import DIRECTORY, INPUT, TARGET, TRIPLE
from fatpack.cli.options import (
    color_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    output_options,
    quiet_option,
    selector_options,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@click.command("map", cls=Command)
@click.argument("file", type=INPUT)
@click.argument("command", metavar="-- COMMAND...", nargs=-1)
@selector_options
@click.option("--add", is_flag=True, help="Put each result beside the image that it was made of.")
@click.option("--replace", is_flag=True, help="Put each result in the place of the image that it was made of.")
@click.option("--directory", "-d", type=DIRECTORY, metavar="DIR", help="Keep the results as files here.")
@click.option(
    "--set-arch",
    type=TARGET,
    metavar="ARCH",
    help="With --add and --replace: the architecture that the results are for.",
)
@click.option(
    "--set-triple",
    type=TRIPLE,
    metavar="TRIPLE",
    help="The same for the triple. Default: what each result says of itself.",
)
@click.option("--jobs", "-j", type=click.IntRange(1), metavar="N", help="Run N at once. Default: one for each core.")
@output_options
@max_inflated_option
@max_output_option
@limit_option
@color_option
@quiet_option
def command(
    file: str,
    command: tuple[str, ...],
    add: bool,
    replace: bool,
    directory: str | None,
    set_arch: str | None,
    set_triple: str | None,
    jobs: int | None,
    output: str | None,
    in_place: bool,
    break_links: bool,
    force: bool,
    quiet: bool,
    **selectors: Any,
) -> int:
    """Run COMMAND for every selected image of FILE: map x.o --form ptx --add -o y.o -- ptxas -arch=sm_90 {in} -o {out}

    With --add or --replace the results go back into FILE (an object, an archive, a container), for what each says that
    it is for; with -d they become files, of any FILE that can be read. Without these, COMMAND only looks at images.

    In each argument {in} is a file with the image, {out} the file to write; {arch}, {processor}, {triple}, {offload},
    {form}, {id}, {container} and {index} are what the image says; {{ is a brace. There is no shell. Images for a host
    are passed over, unless --offload or --id means them. If one COMMAND fails, nothing is written.
    """
    from fatpack.cli.editing import Destination
    from fatpack.cli.mapping import run

    return run(
        file,
        command,
        selectors,
        (set_triple, set_arch),
        Destination(output, in_place, break_links, force),
        put=[name for name, is_asked in (("add", add), ("replace", replace)) if is_asked],
        directory=directory,
        jobs=jobs,
        quiet=quiet,
    )
