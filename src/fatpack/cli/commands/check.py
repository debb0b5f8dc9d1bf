"""``fatpack check``: whether what is installed fits together."""

from __future__ import annotations

import os
import sys

from fatpack.cli.grammar.declared import argument, option, takes
from fatpack.cli.grammar.kinds import DIRECTORY, FILE, TARGET
from fatpack.cli.options import limit_option, max_inflated_option
from fatpack.errors import UsageError
from fatpack.report.answers.kpack import SCHEMA
from fatpack.report.problems import FINE, code_of
from fatpack.report.text import write_lines

#: Variables that ROCm's loader reads, and this command does not.
VARIABLES = ("ROCM_KPACK_PATH", "ROCM_KPACK_PATH_PREFIX", "ROCM_KPACK_DISABLE")


@takes(
    argument("folders", DIRECTORY, metavar="FOLDER", is_many=True),
    option("--kpack", is_flag=True, help="Check that programs find their device code in kpack archives."),
    option(
        "--device",
        multiple=True,
        type=TARGET,
        metavar="TARGET",
        help="A device that must be served, as gfx90a:xnack-; repeatable. Default: all for which there are archives.",
    ),
    option(
        "--newer-loader",
        is_flag=True,
        help="Only loaders since rocm-systems#9874 must find everything: they try all archives, not one.",
    ),
    option(
        "--kpack-path",
        multiple=True,
        type=FILE,
        metavar="FILE",
        help="An archive in the place of those that programs look for, as ROCM_KPACK_PATH sets; repeatable.",
    ),
    option("--json", name="as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}."),
    option("--schema", is_flag=True, help="Print the JSON schema of this output and exit."),
    max_inflated_option,
    limit_option,
    option("-v", "--verbose", count=True, help="Show what each program gets on each device, and from where."),
)
def command(
    folders: tuple[str, ...],
    *,
    kpack: bool,
    device: tuple[str, ...],
    newer_loader: bool,
    kpack_path: tuple[str, ...],
    as_json: bool,
    schema: bool,
    verbose: int,
) -> int:
    """Check that what is installed in a folder fits together.

    With --kpack: the programs and libraries of FOLDER (such as site-packages) whose device code was moved to kpack
    archives find all of it there, on every device, and it is for that device by its own header. Links are not followed.
    Nothing outside of FOLDER is read, but for --kpack-path.

    A device named without a feature stands for both of its settings: gfx90a for xnack off and on, where archives tell
    them apart. The variables ROCM_KPACK_PATH, ROCM_KPACK_PATH_PREFIX and ROCM_KPACK_DISABLE are not read; that they are
    set is said.

    The exit code is 0 if everything is found, 1 if something is missing, and 3 if something cannot be read.
    """
    if schema:
        from fatpack.report.schemas import text

        sys.stdout.write(text("check"))
        return FINE
    if not kpack:
        raise UsageError("nothing says what to check", hint="fatpack check --kpack FOLDER")
    if len(folders) != 1:
        raise UsageError(f"{len(folders)} folders given, one was expected", hint="fatpack check --kpack FOLDER")
    from fatpack.answers.kpack.check import Settings, check
    from fatpack.report.answers.kpack import record, render

    checked = check(folders[0], Settings(device, newer_loader, kpack_path))
    document = record(checked, [name for name in VARIABLES if os.environ.get(name)])
    code = code_of((item.severity, item.code) for item in checked.findings)
    if as_json:
        from fatpack.report.json_text import json_pieces

        sys.stdout.writelines(json_pieces({**document, "exit_code": code}))
        sys.stdout.write("\n")
    else:
        write_lines(render(document, verbose=verbose), sys.stdout)
    return code
