"""``fatpack map``: a program for every selected image, and what it makes put back, or kept in files."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import DIRECTORY, INPUT, TARGET, TRIPLE
from fatpack.command_line.shared_options import output_options, selector_options, writing_options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


@click.command("map", cls=Command)
@click.argument("file", type=INPUT)
@click.argument("command", metavar="-- COMMAND...", nargs=-1)
@selector_options
@click.option("--add", is_flag=True, help="Add each result next to its image.")
@click.option("--replace", is_flag=True, help="Replace each image by its result.")
@click.option("--directory", "-d", type=DIRECTORY, metavar="DIR", help="Keep the results as files here.")
@click.option(
    "--set-arch",
    type=TARGET,
    metavar="ARCH",
    help="With --add and --replace: the architecture of the results.",
)
@click.option(
    "--set-triple",
    type=TRIPLE,
    metavar="TRIPLE",
    help="With --add and --replace: the triple of the results.",
)
@output_options
@writing_options
def command(
    file: str,
    command: tuple[str, ...],
    add: bool,
    replace: bool,
    directory: str | None,
    set_arch: str | None,
    set_triple: str | None,
    output: str | None,
    in_place: bool,
    break_links: bool,
    force: bool,
    quiet: bool,
    **selectors: Any,
) -> int:
    """Run COMMAND on each selected image of FILE, for example ptxas or nvdisasm.

    In COMMAND, {in} is a file with the image and {out} the file to write; {arch}, {triple}, {form}, {id}, {container}
    and {index} describe the image; {{ is a brace. --add and --replace put the results back into FILE, -d keeps them as
    files. There is no shell. --jobs of them run at once. If one COMMAND fails, nothing is written.
    """
    from fatpack.command_line.edit_io import EditDestination
    from fatpack.commands.map.run import run_map

    return run_map(
        file,
        command,
        selectors,
        (set_triple, set_arch),
        EditDestination(output, in_place, break_links, force),
        put=[name for name, is_asked in (("add", add), ("replace", replace)) if is_asked],
        directory=directory,
        quiet=quiet,
    )
