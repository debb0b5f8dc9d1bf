"""Whether what is there fits options: what ``fatpack check`` does for stages of a unit, and for kpack archives."""

from __future__ import annotations

import os

import click

from fatpack.cli.grammar.command import option_group
from fatpack.cli.grammar.param_types import FILE, TARGET
from fatpack.cli.terminal import write_document
from fatpack.errors import UsageError, counted
from fatpack.outcomes import code_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

#: Variables that ROCm's loader reads, and this command does not.
VARIABLES = ("ROCM_KPACK_PATH", "ROCM_KPACK_PATH_PREFIX", "ROCM_KPACK_DISABLE")

#: What is compared where no policy is, and what belongs to that alone.
fitting_options = option_group(
    click.option(
        "--stages", is_flag=True, help="PATHs are files of one unit: what did later stages lose of earlier ones?"
    ),
    click.option(
        "--kpack",
        is_flag=True,
        help="PATH is a folder: check that its programs find their device code in kpack archives.",
    ),
    click.option(
        "--device",
        multiple=True,
        type=TARGET,
        metavar="TARGET",
        help="With --kpack: a device that must be served, as gfx90a:xnack-; repeatable. Default: all of the archives.",
    ),
    click.option(
        "--newer-loader",
        is_flag=True,
        help="With --kpack: only loaders since rocm-systems#9874 count, which try all archives, not one.",
    ),
    click.option(
        "--kpack-path",
        multiple=True,
        type=FILE,
        metavar="FILE",
        help="With --kpack: an archive in the place of those that programs look for; repeatable.",
    ),
)


def is_asked(options: Mapping[str, Any], others: Sequence[str]) -> bool:
    """Return whether options ask for stages or kpack archives.

    Raises UsageError for ``others``, names of options that were given and say nothing about either.
    """
    if not options["kpack"] and (options["device"] or options["newer_loader"] or options["kpack_path"]):
        raise UsageError("--device, --newer-loader and --kpack-path go with --kpack")
    if not (options["kpack"] or options["stages"]):
        return False
    if others:
        form = "--kpack" if options["kpack"] else "--stages"
        raise UsageError(f"--{others[0]} is for policies, and does not go with {form}")
    return True


def installed(folders: Sequence[str], options: Mapping[str, Any], *, as_json: bool, verbose: int) -> int:
    """Look for the kpack archives of the programs in a folder, print what was found, and return the exit code."""
    if len(folders) != 1:
        raise UsageError(f"{len(folders)} folders given, one was expected", hint="fatpack check --kpack FOLDER")
    from fatpack.answers.kpack.check import LoaderSettings, check
    from fatpack.report.answers.kpack import record, render

    checked = check(folders[0], LoaderSettings(options["device"], options["newer_loader"], options["kpack_path"]))
    document = record(checked, [name for name in VARIABLES if os.environ.get(name)])
    return _printed(document, render, as_json=as_json, verbose=verbose)


def stages(files: Sequence[str], *, as_json: bool, verbose: int, unasked: UsageError | None = None) -> int:
    """Compare the files of one unit, print what was lost on the way, and return the exit code.

    ``unasked`` is raised where nobody asked for it, and nothing can be compared: two programs are no unit.
    """
    if len(files) < 2:
        raise UsageError(
            f"{counted(len(files), 'file')} given, several of one unit were expected",
            hint="fatpack check k.cir k.fatbin k.o",
        )
    from fatpack.answers.stages.check import check
    from fatpack.report.answers.stages import record, render

    found = check(files)
    if unasked is not None and found.is_none:
        raise unasked
    return _printed(record(found), render, as_json=as_json, verbose=verbose)


def _printed(document: dict[str, Any], render: Callable[..., Any], *, as_json: bool, verbose: int) -> int:
    found = (*document["findings"], *document.get("unlisted_findings", ()))
    code = code_of((item["severity"], item["code"]) for item in found)
    if as_json:
        write_document({**document, "exit_code": code})
        return code
    from fatpack.cli.terminal import write_text

    write_text(render(document, verbose=verbose))
    return code
