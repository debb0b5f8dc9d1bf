"""``fatpack embed``: a finished container → a copy of an object."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_stderr
from fatpack.command_line.options import (
    color_option,
    limit_option,
    max_inflated_option,
    max_output_option,
    output_options,
    quiet_option,
)
from fatpack.command_line.param_types import INPUT
from fatpack.errors import UsageError


@click.command("embed", cls=Command)
@click.argument("host", type=INPUT)
@click.argument("container", type=INPUT)
@output_options
@max_inflated_option
@max_output_option
@limit_option
@color_option
@quiet_option
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
    from fatpack import formats
    from fatpack.command_line.edit_io import EditDestination, open_edit, refuse_damaged
    from fatpack.edit.editor import can_grow
    from fatpack.edit.embed import embed_container, embedding_note

    to = EditDestination(output, in_place, break_links, force)
    with open_edit(host, container, to) as file:
        found = formats.format_at(file.content)
        if found is None and not force:
            is_swapped = formats.format_by_magic(file.place.view.head(0, 24)) is not None
            hint = "the host comes first" if is_swapped else "pack it first, or --force to embed it all the same"
            raise UsageError(f"{container}: unknown container format", hint=hint)
        if found is None:
            print_stderr(f"fatpack: warning: {container}: unknown container format; no tool will find it", quiet=quiet)
        if code := refuse_damaged(container, file.content, force=force):
            return code
        only_growing = in_place and can_grow(file.host)
        edited = embed_container(file.place.view, [file.content], format=found, only_growing=only_growing)
        if note := embedding_note(found):
            print_stderr(f"fatpack: note: {note}", quiet=quiet)
        return file.write(edited, quiet=quiet)
