"""``fatpack replace``: the device code of an object, exchanged."""

from __future__ import annotations

import click

from fatpack.cli.completion import FILE
from fatpack.cli.editing import Destination, check_output, output_options, refused, write_result
from fatpack.cli.options import limit_option, quiet_option
from fatpack.io.sources.opening import open_source
from fatpack.ops.choose.address import find, parse_address
from fatpack.ops.choose.presence import refuse_empty
from fatpack.ops.edit.embed import replace


@click.command()
@click.argument("host", type=FILE)
@click.argument("container", type=FILE)
@click.option("--section", metavar="NAME", help="The section to replace, by name or number, if HOST has several.")
@output_options
@limit_option
@quiet_option
def command(
    host: str,
    container: str,
    section: str | None,
    output: str | None,
    in_place: bool,
    break_links: bool,
    force: bool,
    quiet: bool,
) -> int:
    """Replace the device code in a copy of HOST by CONTAINER, which must have the format of what is there.

    HOST is an object, or a member of an archive (libx.a(m.o)). Of an archive, all is written, with the new member.
    """
    to = Destination(output, in_place, break_links, force)
    check_output(host, to)
    address = parse_address(host)
    with open_source(address.path) as into, open_source(container) as content:
        for source in (into, content):
            refuse_empty(source.view())
        place = find(into.view(), address)
        if code := refused(container, content.view(), force=force):
            return code
        pieces = place.around(replace(place.view, content.view(), section=section, force=force))
        return write_result(
            into.view(),
            address.path,
            pieces,
            to,
            quiet=quiet,
            inputs=[content.view()],
        )
