"""``fatpack embed``: a finished container → a copy of an object."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_stderr
from fatpack.command_line.param_types import INPUT
from fatpack.command_line.shared_options import output_options, writing_options


@click.command("embed", cls=Command)
@click.argument("host", type=INPUT)
@click.argument("container", type=INPUT)
@output_options
@writing_options
def command(
    host: str,
    container: str,
    output: str | None,
    in_place: bool,
    break_links: bool,
    force: bool,
    quiet: bool,
) -> int:
    """Put a finished CONTAINER into a copy of HOST: an object, or a member of an archive (libx.a(m.o)).

    Embed before linking: no program loads a container that is put into a linked file.
    """
    from fatpack.command_line.edit_io import EditDestination, open_edit, refuse_damaged
    from fatpack.edit.editor import can_grow
    from fatpack.edit.embed import embed_file

    to = EditDestination(output, in_place, break_links, force)
    with open_edit(host, container, to) as file:
        if code := refuse_damaged(container, file.content, force=force):
            return code
        growing = in_place and can_grow(file.host)
        embedded = embed_file(file.place.view, file.content, accept_damage=force, only_growing=growing)
        if embedded.format is None:
            print_stderr(f"fatpack: warning: {container}: unknown container format; no tool will find it", quiet=quiet)
        if embedded.note:
            print_stderr(f"fatpack: note: {embedded.note}", quiet=quiet)
        return file.write(embedded.pieces, quiet=quiet)
