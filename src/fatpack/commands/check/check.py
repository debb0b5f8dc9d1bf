"""``fatpack check``: files against a policy."""

from __future__ import annotations

import sys
from shlex import quote

import click

from fatpack.command_line.command import Command
from fatpack.command_line.options import (
    color_option,
    deep_option,
    exclude_option,
    limit_option,
    max_inflated_option,
    schema_option,
)
from fatpack.command_line.param_types import INPUT, ChoiceType
from fatpack.commands.check.policy_options import policy_options, policy_settings
from fatpack.commands.check_kpack.text import SCHEMA
from fatpack.errors import UsageError
from fatpack.exit_codes import FINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: What the outcome of a policy is written as.
OUTPUTS = ("text", "json", "github", "junit", "sarif")


@click.command("check", cls=Command, schema=SCHEMA)
@click.argument("paths", type=INPUT, metavar="PATH...", nargs=-1)
@policy_options
@exclude_option
@deep_option
@click.option("--kernels", is_flag=True, help="Also name kernels of large libraries that break a rule (slow).")
@click.option(
    "--output",
    type=ChoiceType(OUTPUTS),
    help="Output format; github also appends to the file of GITHUB_STEP_SUMMARY.",
)
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@schema_option
@max_inflated_option
@limit_option
@color_option
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="Show all units and kernels.",
)
def command(
    paths: tuple[str, ...],
    *,
    output: str | None,
    as_json: bool,
    schema: bool,
    verbose: int,
    **options: Any,
) -> int:
    """Check files against a policy (architectures, size).

    PATH is a file, a folder, a package (wheel, ...), a URL or a pattern in quotes. The table [tool.fatpack.check] of
    the nearest pyproject.toml may hold the policy; options of the command line override it. Only image headers are
    read; --verify reads everything. The exit code is 0 if all rules hold, 1 if one is broken, and 3, 4 or 5 if a file
    cannot be read.
    """
    if schema:
        from fatpack.text.schemas import schema_text

        sys.stdout.write(schema_text("check"))
        return FINE
    if options["list_presets"]:
        from fatpack.commands.check.command import write_presets

        write_presets(options["config"], read=not options["no_config"])
        return FINE
    if as_json and output not in (None, "json"):
        raise UsageError(f"--json and --output {output} contradict each other", hint="leave one of them out")
    from fatpack.commands.check import command as check_command

    if not paths:
        raise UsageError(
            "no file is given", hint="fatpack check PATH --require sm_80,sm_90+ptx; --help shows all rules"
        )
    policy = check_command.build_policy(policy_settings(options), options)
    if policy is None:
        hint = f"fatpack check {quote(paths[0])}{' ...' if len(paths) > 1 else ''} --require sm_80,sm_90+ptx"
        if len(paths) > 1:
            hint += "; fatpack check-stages compares the files of one build"
        raise UsageError("no rules given: add --require, --forbid or --max-size", hint=hint)
    return check_command.run_policy_check(paths, policy, "json" if as_json else output or "text", verbose=verbose)
