"""``fatpack check``: whether files keep to a policy, whether what is installed or made of one source fits options."""

from __future__ import annotations

import os
import sys

import click

from fatpack.cli.answering.fitting import fitting_options
from fatpack.cli.answering.policy_options import policy_options, settings
from fatpack.cli.grammar.command import Command
from fatpack.cli.grammar.param_types import INPUT, Choice
from fatpack.cli.options import (
    color_option,
    deep_option,
    exclude_option,
    limit_option,
    max_inflated_option,
    schema_option,
)
from fatpack.errors import UsageError, counted
from fatpack.outcomes import FINE
from fatpack.report.answers.kpack import SCHEMA

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
@click.option(
    "--kernels", is_flag=True, help="Name the kernels that lack something of large libraries too, which takes longer."
)
@click.option(
    "--output",
    type=Choice(OUTPUTS),
    help="What a policy's outcome is printed as; github also appends to the file of GITHUB_STEP_SUMMARY.",
)
@fitting_options
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@schema_option
@max_inflated_option
@limit_option
@color_option
@click.option(
    "-v",
    "--verbose",
    count=True,
    help="Show all units and kernels; with --stages those of each stage, with --kpack what each program gets.",
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
    """Hold files against a policy, compare the stages of one unit, or check an installation with kpack archives.

    A policy: PATHs are files, folders, packages (wheels, …), URLs and patterns. With --require every unit of device
    code must serve each device: an sm_80 cubin serves 8.6, sm_100a serves 10.0 only. A unit is what a runtime chooses
    one image from: a fat binary, a bundle, the loose images of a folder. +ptx asks for PTX that later devices compile;
    a name with a or f, as sm_90a, asks also for an image of exactly that name. What cannot be read fails the check, and
    so does a PATH without device code: then nothing was checked. Of each image the first bytes are compared with what
    its container says of it, whatever it is compressed with: kind, machine and architecture; what is behind them is
    believed but for --verify, which reads all of it. The table [tool.fatpack.check] of the nearest pyproject.toml has
    the same options by the same names; those of the command line come before it.

    With --stages, or with files of different stages and no policy: they are of one unit at several stages: CIR or
    bitcode, device images, containers of them, objects, programs. What a file is, its bytes tell. Whatever a later
    stage lost of an earlier one is reported: kernels, architectures, registration. Several files of one stage (the
    cubins of all architectures) count as one. Files that are all of one stage, as two programs, need a policy.

    With --kpack: the programs and libraries of a folder such as site-packages, whose device code was moved to kpack
    archives, find all of it there, on every device, and it is for that device by its own header. Links are not
    followed. Nothing outside of the folder is read, but for --kpack-path. A device named without a feature stands for
    both of its settings. The variables ROCM_KPACK_PATH, ROCM_KPACK_PATH_PREFIX and ROCM_KPACK_DISABLE are not read;
    that they are set is said.

    The exit code is 0 if all is well, 1 if something is missing or breaks the policy; 3, 4 or 5 if something cannot be
    read: because it is damaged, not supported, or not there.
    """
    if schema:
        from fatpack.report.schemas import text

        sys.stdout.write(text("check"))
        return FINE
    if options["list_presets"]:
        from fatpack.cli.answering.policies import write_presets

        write_presets(options["config"], read=not options["no_config"])
        return FINE
    if as_json and output not in (None, "json"):
        raise UsageError(f"--json and --output {output} contradict each other", hint="leave one of them out")
    from fatpack.cli.answering import fitting

    given = settings(options)
    others = [name for name, value in (("config", options["config"]), ("output", output)) if value is not None]
    if not fitting.is_asked(options, [*given, *others]):
        from fatpack.cli.answering import policies

        policy = policies.policy(given, options)
        if policy is not None:
            return policies.run(paths, policy, "json" if as_json else output or "text", verbose=verbose)
        if others or len(paths) < 2 or any(map(os.path.isdir, paths)):
            raise _nothing_asked(paths)
    if options["kpack"]:
        return fitting.installed(paths, options, as_json=as_json, verbose=verbose)
    unasked = None if options["stages"] else _nothing_asked(paths)
    return fitting.stages(paths, as_json=as_json, verbose=verbose, unasked=unasked)


def _nothing_asked(paths: tuple[str, ...]) -> UsageError:
    if not paths:
        return UsageError("no file is given", hint="fatpack check PATH --require sm_80,sm_90+ptx; --help shows all")
    from shlex import quote

    name = os.path.basename(paths[0].rstrip("/")) or paths[0]
    more = counted(len(paths) - 1, "other file")
    return UsageError(
        f"nothing says what {name} {'is' if len(paths) == 1 else f'and {more} are'} to be checked for",
        hint=f"fatpack check {quote(paths[0])}{' ...' if len(paths) > 1 else ''} --require sm_80,sm_90+ptx; "
        "--help shows the other rules, --stages and --kpack",
    )
