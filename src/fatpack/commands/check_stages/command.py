"""``fatpack check-stages``: the files of one build compared, stage by stage."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import INPUT
from fatpack.command_line.shared_options import color_option, limit_options, schema_option
from fatpack.command_line.terminal import write_document, write_text
from fatpack.commands.check_stages.text import SCHEMA
from fatpack.errors import UsageError, pluralize
from fatpack.exit_codes import exit_code_for_findings


@click.command("check-stages", cls=Command, schema=SCHEMA)
@click.argument("files", type=INPUT, metavar="FILE FILE...", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@click.option("-v", "--verbose", count=True, help="List the kernels of each stage.")
@schema_option
@limit_options
@color_option
def command(files: tuple[str, ...], *, as_json: bool, verbose: int) -> int:
    """Compare the files of one build, and report the kernels and architectures that a later stage lost.

    FILEs are CIR or bitcode, device images, containers, objects and programs of one source file, in any order. The exit
    code is 0 if nothing is lost, 1 if something is, 3 if a file is damaged.
    """
    if len(files) < 2:
        raise UsageError(
            f"{pluralize(len(files), 'file')} given, several of one build were expected",
            hint="fatpack check-stages k.cir k.fatbin k.o",
        )
    from fatpack.commands.check_stages.run import check_stages
    from fatpack.commands.check_stages.text import render_stages, stages_record

    document = stages_record(check_stages(files))
    found = (*document["findings"], *document.get("unlisted_findings", ()))
    code = exit_code_for_findings((item["severity"], item["code"]) for item in found)
    if as_json:
        write_document({**document, "exit_code": code})
    else:
        write_text(render_stages(document, verbose=verbose))
    return code
