"""``fatpack doctor``: whether files are healthy, and what of that cannot be known."""

from __future__ import annotations

import sys

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import DEVICE, INPUT
from fatpack.command_line.shared_options import reading_options, schema_option
from fatpack.command_line.terminal import write_document, write_text
from fatpack.commands.doctor.model import SCHEMA
from fatpack.errors import UsageError
from fatpack.exit_codes import FINE


@click.command("doctor", cls=Command, schema=SCHEMA)
@click.argument("files", type=INPUT, metavar="FILE...", nargs=-1)
@click.option(
    "--device",
    "devices",
    multiple=True,
    type=DEVICE,
    metavar="NAME",
    help="A GPU of the machine that an environment is for. Repeatable; without it, those of this machine.",
)
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@click.option("--list", "lists", is_flag=True, help="List all checks, and exit.")
@schema_option
@reading_options
@click.option("-v", "--verbose", count=True, help="Show all findings, and checks that did not apply.")
def command(
    files: tuple[str, ...],
    *,
    devices: tuple[str, ...],
    as_json: bool,
    lists: bool,
    deep: bool,
    exclude: tuple[str, ...],
    verbose: int,
) -> int:
    """Verify files completely: parse, decompress, compare all checksums.

    FILE is a file, a folder, a package (wheel, zip, tar, deb, rpm), a URL or a pattern in quotes. The first line is
    the verdict; findings follow, then everything that could not be verified, with the reason. The exit code is 0 if
    nothing is wrong, 1 for warnings or if no device code was found, 3 for damage, 4 for an unsupported file, 5 for a
    missing one.
    """
    from fatpack.commands.doctor.text import check_list_lines, render_diagnosis

    if lists:
        sys.stdout.writelines(f"{line}\n" for line in check_list_lines())
        return FINE
    if not files:
        raise UsageError("no file given", hint="fatpack doctor FILE...")
    from fatpack.command_line.trees import FilesProgress
    from fatpack.commands.doctor.run import diagnose
    from fatpack.selectors.address import open_argument

    unmatched: list[str] = []
    meter = FilesProgress()
    try:
        found = diagnose(
            files,
            devices=devices,
            exclude=exclude,
            deep=deep,
            opener=open_argument,
            unmatched=unmatched,
            on_file=meter,
        )
    finally:
        meter.finish()
    if unmatched:
        raise UsageError(f"no file matches {unmatched[0]}")
    if as_json:
        write_document(found.to_dict())
    else:
        write_text(render_diagnosis(found, verbose=verbose), verbose=verbose, wraps=True)
    return found.exit_code
