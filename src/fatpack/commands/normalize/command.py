"""``fatpack normalize``: times and temporary names that no one reads are made the same in all builds."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_stderr, print_warnings
from fatpack.command_line.param_types import INPUT
from fatpack.command_line.shared_options import output_options, writing_options
from fatpack.errors import pluralize


@click.command("normalize", cls=Command)
@click.argument("file", type=INPUT)
@output_options
@click.option("-n", "--dry-run", is_flag=True, help="Only print the fields, with offsets and values.")
@writing_options
def command(
    file: str,
    output: str | None,
    in_place: bool,
    break_links: bool,
    force: bool,
    dry_run: bool,
    quiet: bool,
) -> int:
    """Make the builds of one source equal where a field is free: times, and numbers in temporary names.

    FILE is an object, a program, an archive, a container or a device image. The canonical digest and all other bytes
    stay; that is proved before the result gets its name. Compressed images are not changed: the exit code is 1 if one
    has such a field.
    """
    from fatpack.command_line.edit_io import EditDestination, check_output, write_result
    from fatpack.commands.normalize.request import plan_normalize
    from fatpack.io.open import open_source
    from fatpack.io.source import PiecesSource
    from fatpack.selectors.address import parse_address

    to = EditDestination(output, in_place, break_links, force)
    if not dry_run:
        check_output(file, to)
    address = parse_address(file)
    with open_source(address.path) as source:
        view = source.view()
        plan = plan_normalize(view)
        print_warnings(plan.left, quiet=quiet)
        if dry_run:
            plan.check(view, PiecesSource(plan.pieces, address.path).view())
            for field in plan.result.fields:
                print(f"{field.offset:#x}  {field.kind}  {field.where}  {field.before.hex()} → {field.after.hex()}")
            print_stderr(f"{pluralize(len(plan.result.fields), 'free field')} in {address.path}", quiet=quiet)
            return plan.result.exit_code
        if to.in_place and not plan.result.fields:
            print_stderr(f"{address.path}: no free field is to be changed", quiet=quiet)
            return plan.result.exit_code
        count = pluralize(len(plan.result.fields), "free field")
        code = write_result(
            view, address.path, plan.pieces, to, quiet=quiet, done=[f"normalized {count}"], check=plan.check
        )
        return code or plan.result.exit_code
