"""``fatpack remove``: device code taken out of an object, a container, or the members of an archive."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_stderr, print_warnings
from fatpack.command_line.param_types import INPUT
from fatpack.command_line.shared_options import output_options, selector_from_options, selector_options, writing_options
from fatpack.errors import pluralize
from fatpack.exit_codes import FINDINGS, FINE, MALFORMED
from fatpack.printable import format_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


#: Images that are listed; a library has thousands.
_LISTED = 40


@click.command("remove", cls=Command)
@click.argument("host", type=INPUT)
@selector_options
@output_options
@click.option("--allow-empty", is_flag=True, help="Leave an empty container where all images go.")
@writing_options
@click.option("--dry-run", is_flag=True, help="Only print what would be removed, and the size of the result.")
def command(
    host: str,
    output: str | None,
    in_place: bool,
    break_links: bool,
    force: bool,
    allow_empty: bool,
    dry_run: bool,
    quiet: bool,
    **selectors: Any,
) -> int:
    """Remove all device code, or the selected images, from a copy of HOST.

    HOST is an object, an archive, a member of one (libx.a(m.o)), a linked program or library, or a container. `fatpack
    slim --drop` removes architectures as --arch does here, and makes linked files smaller; use it for libraries and
    wheels.
    """
    from fatpack.command_line.edit_io import EditDestination, check_output, write_result
    from fatpack.command_line.messages import print_findings
    from fatpack.commands.slim import SlimRefused
    from fatpack.commands.slim.remove import remove_images
    from fatpack.edit.editor import locate_edit, verify_edited
    from fatpack.io.open import open_source
    from fatpack.io.source import PiecesSource
    from fatpack.selectors.address import parse_address
    from fatpack.selectors.no_match import NothingSelected

    to = EditDestination(output, in_place, break_links, force)
    if not dry_run:
        check_output(host, to)
    address = parse_address(host)
    with open_source(address.path) as source:
        try:
            place = locate_edit(source.view(), address, drop=",".join(selectors.get("arch") or ()))
            removal = remove_images(place.view, selector_from_options(selectors), allow_empty=allow_empty)
        except (NothingSelected, SlimRefused) as error:
            print_stderr(f"fatpack: {error}", quiet=quiet and isinstance(error, NothingSelected))
            return FINDINGS
        print_findings(address.path, removal.damaged)
        print_warnings(removal.unread, quiet=quiet)
        for text in removal.unmatched:
            print_stderr(f"fatpack: warning: {text}", quiet=quiet)
        pieces = list(place.around(removal.pieces))
        verb = "would remove" if dry_run else "removed"
        lines = [f"{verb} {what}" for what in removal.removed[:_LISTED]]
        if len(removal.removed) > _LISTED:
            lines.append(f"{verb} {pluralize(len(removal.removed) - _LISTED, 'more image')}")
        lines += [f"fatpack: note: {note}" for note in removal.notes]
        if dry_run:
            after = PiecesSource(pieces, address.path).view()
            (verify_edited if place.archives else removal.check)(source.view(), after)
            sizes = f"{format_size(len(source.view()))} → {format_size(len(after))}"
            for line in (*lines, f"{pluralize(len(removal.removed), 'image')}; {address.path}: {sizes}"):
                print_stderr(line, quiet=quiet)
            return MALFORMED if removal.damaged else FINE
        check = None if place.archives else removal.check
        code = write_result(source.view(), address.path, pieces, to, quiet=quiet, done=lines, check=check)
        return MALFORMED if removal.damaged and code == FINE else code
