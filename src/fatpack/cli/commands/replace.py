"""``fatpack replace``: the device code of an object, exchanged."""

from __future__ import annotations

from fatpack.cli.editing import Destination, opened, output_options, refused
from fatpack.cli.grammar.declared import argument, option, takes
from fatpack.cli.grammar.kinds import INPUT
from fatpack.cli.options import limit_option, max_inflated_option, max_output_option, quiet_option
from fatpack.ops.edit.embed import replace


@takes(
    argument("host", INPUT),
    argument("container", INPUT),
    option("--section", metavar="NAME", help="The section to replace, by name or number, if HOST has several."),
    *output_options,
    max_inflated_option,
    max_output_option,
    limit_option,
    quiet_option,
)
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
    with opened(host, container, to) as file:
        if code := refused(container, file.content, force=force):
            return code
        return file.write(replace(file.place.view, file.content, section=section, force=force), quiet=quiet)
