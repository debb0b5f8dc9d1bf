"""``fatpack check-kpack``: the programs of a folder, and the kpack archives in which they look for device code."""

from __future__ import annotations

import os

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import FILE, INPUT, ONLY_DEVICE
from fatpack.command_line.shared_options import color_option, limit_options, schema_option
from fatpack.command_line.terminal import write_document, write_text
from fatpack.commands.check_kpack.text import SCHEMA
from fatpack.exit_codes import exit_code_for_findings

#: Variables that ROCm's loader reads, and this command does not.
VARIABLES = ("ROCM_KPACK_PATH", "ROCM_KPACK_PATH_PREFIX", "ROCM_KPACK_DISABLE")


@click.command("check-kpack", cls=Command, schema=SCHEMA)
@click.argument("folder", type=INPUT)
@click.option(
    "--device",
    "devices",
    multiple=True,
    type=ONLY_DEVICE,
    metavar="TARGET",
    help="A device that must be served, as gfx90a:xnack-. Repeatable. Default: all devices of the archives.",
)
@click.option("--newer-loader", is_flag=True, help="Assume a loader with rocm-systems#9874, which tries all archives.")
@click.option(
    "--kpack-path",
    "archives",
    multiple=True,
    type=FILE,
    metavar="FILE",
    help="Use this archive instead of the programs' own. Repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@click.option("-v", "--verbose", count=True, help="Show the archives that each program gets.")
@schema_option
@limit_options
@color_option
def command(
    folder: str,
    *,
    devices: tuple[str, ...],
    newer_loader: bool,
    archives: tuple[str, ...],
    as_json: bool,
    verbose: int,
) -> int:
    """Check that the programs and libraries in FOLDER find their device code in kpack archives.

    FOLDER is an installation, such as site-packages. The exit code is 0 if all code is found, 1 if some is missing.
    """
    from fatpack.commands.check_kpack.run import LoaderSettings, check_folder
    from fatpack.commands.check_kpack.text import kpack_record, render_kpack

    checked = check_folder(folder, LoaderSettings(devices, newer_loader, archives))
    document = kpack_record(checked, [name for name in VARIABLES if os.environ.get(name)])
    found = (*document["findings"], *document.get("unlisted_findings", ()))
    code = exit_code_for_findings((item["severity"], item["code"]) for item in found)
    if as_json:
        write_document({**document, "exit_code": code})
    else:
        write_text(render_kpack(document, verbose=verbose))
    return code
