"""``fatpack check``: whether what is installed, or what is made of one source, fits together."""

from __future__ import annotations

import os
import sys

from fatpack.cli.grammar.declared import argument, option, takes
from fatpack.cli.grammar.kinds import FILE, TARGET
from fatpack.cli.options import limit_option, max_inflated_option
from fatpack.errors import UsageError, counted
from fatpack.outcomes import FINE, code_of, worst
from fatpack.report.answers.kpack import SCHEMA
from fatpack.report.text import write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Variables that ROCm's loader reads, and this command does not.
VARIABLES = ("ROCM_KPACK_PATH", "ROCM_KPACK_PATH_PREFIX", "ROCM_KPACK_DISABLE")


@takes(
    argument("files", FILE, metavar="FILE...", is_many=True),
    option(
        "--kpack",
        is_flag=True,
        help="FILE is a folder: check that its programs find their device code in kpack archives.",
    ),
    option(
        "--device",
        multiple=True,
        type=TARGET,
        metavar="TARGET",
        help="With --kpack: a device that must be served, as gfx90a:xnack-; repeatable. Default: all of the archives.",
    ),
    option(
        "--newer-loader",
        is_flag=True,
        help="With --kpack: only loaders since rocm-systems#9874 count, which try all archives, not one.",
    ),
    option(
        "--kpack-path",
        multiple=True,
        type=FILE,
        metavar="FILE",
        help="With --kpack: an archive in the place of those that programs look for; repeatable.",
    ),
    option("--json", name="as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}."),
    option("--schema", is_flag=True, help="Print the JSON schema of this output and exit."),
    max_inflated_option,
    limit_option,
    option(
        "-v",
        "--verbose",
        count=True,
        help="Show the kernels of each stage; with --kpack, what each program gets, and from where.",
    ),
)
def command(
    files: tuple[str, ...],
    *,
    kpack: bool,
    device: tuple[str, ...],
    newer_loader: bool,
    kpack_path: tuple[str, ...],
    as_json: bool,
    schema: bool,
    verbose: int,
) -> int:
    """Check that the files of one unit, or what is installed in a folder, fit together.

    FILES are of one unit, at several stages: CIR or bitcode, device images, containers of them, objects, programs.
    What a file is, its bytes tell. Whatever a later stage lost of an earlier one is reported: kernels, architectures,
    registration. Several files of one stage (the cubins of all architectures) count as one.

    With --kpack: the programs and libraries of FILE, a folder such as site-packages, whose device code was moved to
    kpack archives find all of it there, on every device, and it is for that device by its own header. Links are not
    followed. Nothing outside of the folder is read, but for --kpack-path. A device named without a feature stands for
    both of its settings. The variables ROCM_KPACK_PATH, ROCM_KPACK_PATH_PREFIX and ROCM_KPACK_DISABLE are not read;
    that they are set is said.

    The exit code is 0 if nothing is missing, 1 if something is, and 3 if something cannot be read.
    """
    if schema:
        from fatpack.report.schemas import text

        sys.stdout.write(text("check"))
        return FINE
    if kpack:
        document = _installed(files, device, newer_loader, kpack_path)
    elif device or newer_loader or kpack_path:
        raise UsageError("--device, --newer-loader and --kpack-path go with --kpack")
    else:
        document = _stages(files)
    code = code_of((item["severity"], item["code"]) for item in document["findings"])
    code = worst((code, code_of((item["severity"], item["code"]) for item in document.get("unlisted_findings", ()))))
    if as_json:
        from fatpack.report.json_text import json_pieces

        sys.stdout.writelines(json_pieces({**document, "exit_code": code}))
        sys.stdout.write("\n")
        return code
    if kpack:
        from fatpack.report.answers.kpack import render
    else:
        from fatpack.report.answers.stages import render
    write_lines(render(document, verbose=verbose), sys.stdout)
    return code


def _installed(
    folders: tuple[str, ...], device: tuple[str, ...], newer_loader: bool, kpack_path: tuple[str, ...]
) -> dict[str, Any]:
    """Return the document of a folder in which programs look for kpack archives."""
    if len(folders) != 1:
        raise UsageError(f"{len(folders)} folders given, one was expected", hint="fatpack check --kpack FOLDER")
    from fatpack.answers.kpack.check import Settings, check
    from fatpack.report.answers.kpack import record

    checked = check(folders[0], Settings(device, newer_loader, kpack_path))
    return record(checked, [name for name in VARIABLES if os.environ.get(name)])


def _stages(files: tuple[str, ...]) -> dict[str, Any]:
    """Return the document of the files of one unit."""
    if len(files) < 2:
        raise UsageError(
            f"{counted(len(files), 'file')} given, several of one unit were expected",
            hint="fatpack check k.cir k.fatbin k.o, or fatpack check --kpack FOLDER",
        )
    from fatpack.answers.stages.check import check
    from fatpack.report.answers.stages import record

    return record(check(files))
