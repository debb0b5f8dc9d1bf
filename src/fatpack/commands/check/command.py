"""``fatpack check``: merges options with the policy file, runs the check, and writes the outcome."""

from __future__ import annotations

import os
import sys
from shlex import quote

import click

from fatpack.command_line.command import Command, option_group
from fatpack.command_line.param_types import FILE, INPUT, KERNEL, REQUIRED, TARGET, ChoiceType, SuggestionType
from fatpack.command_line.shared_options import cache_option, reading_options, schema_option
from fatpack.command_line.terminal import write_document, write_text
from fatpack.command_line.trees import FilesProgress
from fatpack.commands.check.policy import (
    builtin_presets,
    find_pyproject,
    has_value,
    make_policy,
    read_policy_file,
)
from fatpack.commands.check_kpack.text import SCHEMA
from fatpack.errors import UsageError
from fatpack.exit_codes import FINE
from fatpack.record import Record
from fatpack.text.style import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any

    from fatpack.commands.check.model import CheckResult
    from fatpack.commands.check.policy import Policy


def failing_kinds() -> list[str]:
    """Return the kinds of files that are not read and fail a check: the values of ``--allow-unread``."""
    from fatpack.scanner.unread_kinds import KINDS

    return [kind.name for kind in KINDS.values() if kind.fails]


# The options of ``fatpack check`` that say a policy: the same names as in a file of configuration.


def _presets() -> Iterable[str]:
    """Return the presets that fatpack brings, as ``--require`` takes them."""
    return (f"@{preset.name}" for preset in builtin_presets())


#: The options of a policy, and of the file that it is read from.
policy_options = option_group(
    click.option(
        "--require",
        multiple=True,
        type=SuggestionType(
            REQUIRED.words, held="arch", beside=True, marked={"@": _presets}, accepted=REQUIRED.accepted
        ),
        metavar="LIST",
        help="Devices that the code must run on: sm_80,sm_120+ptx,gfx942 or 'RTX 4090'; @NAME is a preset. Repeatable.",
    ),
    click.option(
        "--per",
        type=ChoiceType(("unit", "library")),
        help="Where --require must hold: in each unit (default; mostly a container) or library.",
    ),
    click.option(
        "--forbid",
        multiple=True,
        type=TARGET,
        metavar="PATTERN",
        help="Architectures that no image may be for, as sm_5*. Repeatable.",
    ),
    click.option(
        "--max-size",
        metavar="SIZE",
        help="The largest allowed size of each PATH, as 850MB or 800MiB.",
    ),
    click.option("--max-growth", metavar="GROWTH", help="With --against: how much PATH may grow, as 5% or 20MB."),
    click.option("--against", type=FILE, metavar="OLD", help="With --max-growth: the earlier file or folder."),
    click.option("--uniform", is_flag=True, help="Every kernel must exist for every architecture of its library."),
    click.option(
        "--no-hollow",
        is_flag=True,
        help="No kernel may be empty on one architecture and not on another.",
    ),
    click.option(
        "--allow-hollow",
        multiple=True,
        type=KERNEL,
        metavar="REGEX",
        help="With --no-hollow: kernels that may be empty. Repeatable.",
    ),
    click.option(
        "--allow-unread",
        multiple=True,
        type=ChoiceType(failing_kinds),
        metavar="KIND",
        help="Files of this kind (tensorrt, 7z) need not be read. Repeatable.",
    ),
    click.option("--registered", is_flag=True, help="Kernels that libraries launch must be registered, with images."),
    click.option(
        "--strict",
        is_flag=True,
        help="With --registered or --verify: what could not be judged fails.",
    ),
    click.option(
        "--metadata",
        is_flag=True,
        help="Packages must have the code that their metadata declares.",
    ),
    click.option(
        "--verify",
        is_flag=True,
        help="Also verify every file completely, as doctor does (slow).",
    ),
    click.option(
        "--config",
        type=FILE,
        metavar="FILE",
        help="Read the policy from this TOML file.",
    ),
    click.option("--no-config", is_flag=True, help="Do not read the nearest pyproject.toml."),
    click.option("--presets", "list_presets", is_flag=True, help="List the presets, and exit."),
)

#: Settings of a policy by their options; all have the same names in ``[tool.fatpack.check]``.
_SETTINGS = tuple(
    "require forbid max-size max-growth against uniform no-hollow allow-hollow allow-unread registered strict "
    "metadata verify per exclude".split()
)


def policy_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a policy that are given, by the names that they have in files."""
    values = {name: options[name.replace("-", "_")] for name in _SETTINGS}
    return {name: value for name, value in values.items() if has_value(value)}


# ``fatpack check``: files against a policy.

#: Output formats.
OUTPUTS = ("text", "json", "github", "junit", "sarif")


@click.command(
    "check", cls=Command, schema=SCHEMA, headings={"config": "Policies", "kernels": "Options"}, further=("Policies",)
)
@click.argument("paths", type=INPUT, metavar="PATH...", nargs=-1)
@policy_options
@cache_option
@reading_options
@click.option("--kernels", is_flag=True, help="Also name kernels of large libraries that break a rule (slow).")
@click.option(
    "--output",
    type=ChoiceType(OUTPUTS),
    help="Output format; github also appends to GITHUB_STEP_SUMMARY.",
)
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@schema_option
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
    verbose: int,
    **options: Any,
) -> int:
    """Check files against a policy (architectures, size).

    PATH is a file, a folder, a package (wheel, ...), a URL or a pattern in quotes. The table [tool.fatpack.check] of
    the nearest pyproject.toml may hold the policy; options of the command line override it. Only image headers are
    read; --verify reads everything, and for sizes alone nothing is read. The exit code is 0 if all rules hold, 1 if one
    is broken, and 3, 4 or 5 if a file cannot be read.
    """
    if options["list_presets"]:
        write_presets(options["config"], read=not options["no_config"])
        return FINE
    if as_json and output not in (None, "json"):
        raise UsageError(f"--json and --output {output} contradict each other", hint="leave one of them out")

    if not paths:
        raise UsageError(
            "no file is given", hint="fatpack check PATH --require sm_80,sm_90+ptx; --help shows all rules"
        )
    example = f"fatpack check {quote(paths[0])}{' ...' if len(paths) > 1 else ''} --require sm_80,sm_90+ptx"
    if len(paths) > 1:
        example += "; fatpack check-stages compares the files of one build"
    policy = build_policy(policy_settings(options), options, example=example)
    return run_policy_check(paths, policy, "json" if as_json else output or "text", verbose=verbose)


#: the file to which GitHub Actions adds what a step says of itself
_SUMMARY = "GITHUB_STEP_SUMMARY"


class PolicySource(Record):
    """A policy, and the file that it comes from, "" for the command line alone."""

    policy: Policy
    source: str


def build_policy(given: Mapping[str, Any], options: Mapping[str, Any], *, example: str = "") -> PolicySource:
    """Return the policy of the command line and of a file together.

    ``given`` are the settings of the command line; ``options`` name the file with the policy, and how files are read.
    Raises what :func:`make_policy` raises, and ``OSError`` for a file that cannot be read.
    """
    config, no_config = options["config"], options["no_config"]
    if config is not None and no_config:
        raise UsageError("--config and --no-config contradict each other", hint="leave one of them out")
    file = read_policy_file(config) if config is not None else None if no_config else find_pyproject()
    made = make_policy(given, file, deep=options["deep"], names_kernels=options["kernels"], example=example)
    return PolicySource(made, "" if file is None else file.path)


def run_policy_check(paths: Sequence[str], asked: PolicySource, output: str, *, verbose: int) -> int:
    """Check the paths, print the outcome, and return its exit code."""
    from fatpack.commands.check.request import check_policy
    from fatpack.selectors.address import open_argument

    if not paths:
        raise UsageError("no file is given", hint="name files, folders or packages: fatpack check dist/*.whl")
    meter = FilesProgress()
    try:
        checked = check_policy(
            paths,
            asked.policy,
            on_file=lambda row: meter(bool(row.count)),
            opener=open_argument,
            config=os.path.relpath(asked.source) if asked.source else "",
        )
    finally:
        meter.finish()
    _write(checked, output, verbose)
    return checked.exit_code


def _write(checked: CheckResult, output: str, verbose: int) -> None:
    if output == "text":
        from fatpack.commands.check.text import render_check

        write_text(render_check(checked, verbose=verbose), verbose=verbose, wraps=True)
    elif output == "sarif":
        from fatpack.commands.check.formats import sarif_document

        write_document(sarif_document(checked))
    elif output == "junit":
        from fatpack.commands.check.formats import junit_lines

        write_lines(junit_lines(checked), sys.stdout)
    elif output == "github":
        from fatpack.commands.check.formats import github_summary, workflow_commands

        write_lines(workflow_commands(checked), sys.stdout)
        path = os.environ.get(_SUMMARY)
        if path:
            with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
                write_lines(github_summary(checked), file)
    else:
        write_document(checked.to_dict())


def write_presets(config: str | None, *, read: bool) -> None:
    """Print the presets of a project, from ``config`` or, if files are ``read``, the nearest one, and our own."""
    own = read_policy_file(config) if config else find_pyproject() if read else None
    rows = [[f"@{name}", ", ".join(value), own.path] for name, value in own.presets.items()] if own else []
    rows += [[f"@{each.name}", each.require, f"{each.what}: {each.source}"] for each in builtin_presets()]
    names, lists = (max(len(row[at]) for row in rows) for at in (0, 1))
    write_lines((f"{name:{names}}  {asked:{lists}}  {what}" for name, asked, what in rows), sys.stdout)
