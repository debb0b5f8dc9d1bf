"""What ``fatpack check`` does with a policy: options and files together, the check, and its outcome written."""

from __future__ import annotations

import os
import sys

from fatpack.command_line.terminal import write_document, write_text
from fatpack.command_line.trees import FilesProgress
from fatpack.commands.check import config as configs
from fatpack.commands.check import limits
from fatpack.commands.check.policy import parse_forbidden, parse_requirements
from fatpack.commands.check.policy_check import check_policy
from fatpack.commands.check.policy_options import has_value
from fatpack.commands.check.policy_policy import Policy
from fatpack.commands.inspect.run import open_argument
from fatpack.errors import UsageError
from fatpack.record import Record
from fatpack.text.text import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from fatpack.commands.check.model import CheckResult

#: the file to which GitHub Actions adds what a step says of itself
_SUMMARY = "GITHUB_STEP_SUMMARY"


class PolicySource(Record):
    """A policy, and the file that it comes from, "" for the command line alone."""

    policy: Policy
    source: str


def build_policy(given: Mapping[str, Any], options: Mapping[str, Any]) -> PolicySource | None:
    """Return the policy of the command line and of a file together, None if neither asks for anything.

    ``given`` are the settings of the command line, ``options`` say which file is read, and how files are.
    Raises UsageError and TargetError for what cannot be meant, ``OSError`` for a file that cannot be read.
    """
    config, no_config = options["config"], options["no_config"]
    if config is not None and no_config:
        raise UsageError("--config and --no-config contradict each other", hint="leave one of them out")
    file = configs.read_policy_file(config) if config is not None else None if no_config else configs.find_pyproject()
    values = {**(file.values if file is not None else {}), **given}
    if not any(has_value(values.get(name)) for name in configs.RULES):
        return None
    if "per" in given and not values.get("require"):
        raise UsageError("--per says what must serve the devices of --require, and none are given")
    if values.get("strict") and not values.get("registered"):
        raise UsageError("--strict says how --registered is judged", hint="give both: --registered --strict")
    if ("max-growth" in values) != ("against" in values):
        raise UsageError("--max-growth and --against go together", hint="--max-growth 5% --against OLD")
    if "max-growth" in values:
        limits.parse_growth(values["max-growth"])
    if values.get("per", "unit") not in ("unit", "library"):
        raise UsageError(f"per is {values['per']!r}", hint="unit or library")
    made = Policy(
        require=parse_requirements(values.get("require", ()), configs.all_presets(file)),
        forbid=parse_forbidden(values.get("forbid", ())),
        max_size=limits.parse_size_limit(values["max-size"]) if "max-size" in values else None,
        max_growth=values.get("max-growth") or "",
        against=values.get("against") or "",
        uniform=bool(values.get("uniform")),
        registered=bool(values.get("registered")),
        strict=bool(values.get("strict")),
        metadata=bool(values.get("metadata")),
        per=values.get("per") or "unit",
        exclude=tuple(values.get("exclude", ())),
        deep=options["deep"],
        names_kernels=options["kernels"],
        verify=bool(values.get("verify")),
    )
    return PolicySource(made, "" if file is None else file.path)


def run_policy_check(paths: Sequence[str], asked: PolicySource, output: str, *, verbose: int) -> int:
    """Check the paths, print the outcome, and return its exit code."""
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
        from fatpack.commands.check.texts import render_check

        write_text(render_check(checked, verbose=verbose), verbose=verbose, wraps=True)
    elif output == "sarif":
        from fatpack.commands.check.sarif import sarif_document

        write_document(sarif_document(checked))
    elif output == "junit":
        from fatpack.commands.check.junit import junit_lines

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
    own = configs.read_policy_file(config) if config else configs.find_pyproject() if read else None
    rows = [[f"@{name}", ", ".join(value), own.path] for name, value in own.presets.items()] if own else []
    rows += [[f"@{each.name}", each.require, f"{each.what}: {each.source}"] for each in configs.builtin_presets()]
    names, lists = (max(len(row[at]) for row in rows) for at in (0, 1))
    write_lines((f"{name:{names}}  {asked:{lists}}  {what}" for name, asked, what in rows), sys.stdout)
