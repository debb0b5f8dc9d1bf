"""What ``fatpack check`` does with a policy: options and files together, the check, and its outcome written."""

from __future__ import annotations

import os
import sys

from fatpack.answers.policy import config as configs
from fatpack.answers.policy import limits
from fatpack.answers.policy.check import Policy, check
from fatpack.answers.policy.requirements import forbidden, requirements
from fatpack.cli.many.summary import FilesMeter
from fatpack.cli.show import opened
from fatpack.errors import UsageError
from fatpack.record import Record
from fatpack.report.text import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from fatpack.answers.policy.outcome import Checked

#: the file to which GitHub Actions adds what a step says of itself
_SUMMARY = "GITHUB_STEP_SUMMARY"


class Asked(Record):
    """A policy, and the file that it comes from, "" for the command line alone."""

    policy: Policy
    source: str


def policy(
    given: Mapping[str, Any], config: str | None, *, no_config: bool, deep: bool, names_kernels: bool
) -> Asked | None:
    """Return the policy of the command line and of a file together, None if neither asks for anything.

    Raises UsageError and TargetError for what cannot be meant, ``OSError`` for a file that cannot be read.
    """
    file = configs.named(config) if config else None if no_config else configs.nearest()
    values = {**(file.values if file is not None else {}), **given}
    if not any(values.get(name) for name in configs.RULES):
        return None
    if bool(values.get("max-growth")) != bool(values.get("against")):
        raise UsageError("--max-growth and --against go together", hint="--max-growth 5% --against OLD")
    if values.get("max-growth"):
        limits.growth_of(values["max-growth"])
    if values.get("per", "unit") not in ("unit", "library"):
        raise UsageError(f"per is {values['per']!r}", hint="unit or library")
    made = Policy(
        require=requirements(values.get("require", ()), configs.presets(file)),
        forbid=forbidden(values.get("forbid", ())),
        max_size=limits.size_of(values["max-size"]) if values.get("max-size") else None,
        max_growth=values.get("max-growth") or "",
        against=values.get("against") or "",
        uniform=bool(values.get("uniform")),
        registered=bool(values.get("registered")),
        metadata=bool(values.get("metadata")),
        per=values.get("per") or "unit",
        exclude=tuple(values.get("exclude", ())),
        deep=deep,
        names_kernels=names_kernels,
    )
    return Asked(made, "" if file is None else file.path)


def run(paths: Sequence[str], asked: Asked, output: str, *, verbose: int) -> int:
    """Check the paths, print the outcome, and return its exit code."""
    if not paths:
        raise UsageError("no file is given", hint="name files, folders or packages: fatpack check dist/*.whl")
    meter = FilesMeter()
    try:
        checked = check(
            paths,
            asked.policy,
            on_file=lambda row: meter(bool(row.count)),
            opener=opened,
            config=os.path.relpath(asked.source) if asked.source else "",
        )
    finally:
        meter.finish()
    _write(checked, output, verbose)
    return checked.exit_code


def _write(checked: Checked, output: str, verbose: int) -> None:
    if output == "text":
        from fatpack.report.answers.policy.texts import render

        write_lines(render(checked, verbose=verbose), sys.stdout)
    elif output == "junit":
        from fatpack.report.answers.policy.junit import junit

        write_lines(junit(checked), sys.stdout)
    elif output == "github":
        from fatpack.report.answers.policy.github import summary, workflow_commands

        write_lines(workflow_commands(checked), sys.stdout)
        path = os.environ.get(_SUMMARY)
        if path:
            with open(path, "a", encoding="utf-8", errors="backslashreplace") as file:
                write_lines(summary(checked), file)
    else:
        from fatpack.report.json_text import json_pieces

        if output == "sarif":
            from fatpack.report.answers.policy.sarif import sarif

            document = sarif(checked)
        else:
            document = checked.to_dict()
        sys.stdout.writelines(json_pieces(document))
        sys.stdout.write("\n")
