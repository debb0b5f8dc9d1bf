"""``fatpack embed``: a finished container → a copy of an object."""

from __future__ import annotations

import click

from fatpack import formats
from fatpack.cli.completion import FILE
from fatpack.cli.editing import Destination, check_output, output_options, refused, write_result
from fatpack.cli.options import limit_option, quiet_option, say
from fatpack.errors import UsageError
from fatpack.io.sources.opening import open_source
from fatpack.ops.choose.address import find, parse_address
from fatpack.ops.choose.presence import refuse_empty
from fatpack.ops.edit.embed import embed, embedding_note
from fatpack.ops.edit.in_place import can_grow


@click.command()
@click.argument("host", type=FILE)
@click.argument("container", type=FILE)
@output_options
@limit_option
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
    """Put a finished CONTAINER into a copy of HOST: a relocatable object, or a member of an archive (libx.a(m.o)).

    Only the tables that must change differ from the host. Embed before linking: what is put into a linked file can be
    inspected, but no program loads it.
    """
    to = Destination(output, in_place, break_links, force)
    check_output(host, to)
    address = parse_address(host)
    with open_source(address.path) as into, open_source(container) as content:
        for source in (into, content):
            refuse_empty(source.view())
        place = find(into.view(), address)
        found = formats.sniff(content.view().head(0, 24))
        if found is None and not force:
            is_swapped = formats.sniff(place.view.head(0, 24)) is not None
            hint = "the host comes first" if is_swapped else "pack it first, or --force to embed it all the same"
            raise UsageError(f"{container}: unknown container format", hint=hint)
        if found is None:
            say(f"fatpack: warning: {container}: unknown container format; no tool will find it", quiet=quiet)
        if code := refused(container, content.view(), force=force):
            return code
        only_growing = in_place and can_grow(into.view())
        pieces = place.around(embed(place.view, [content.view()], format=found, only_growing=only_growing))
        if note := embedding_note(found):
            say(f"fatpack: note: {note}", quiet=quiet)
        return write_result(
            into.view(),
            address.path,
            pieces,
            to,
            quiet=quiet,
            inputs=[content.view()],
        )
