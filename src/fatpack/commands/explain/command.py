"""``fatpack explain``: what a device's runtime loads of files, which rule says so, and what fixes a failure."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import DEVICE, DIRECTORY, INPUT, KERNEL, ChoiceType, SuggestionType
from fatpack.command_line.shared_options import cache_option, reading_options, schema_option
from fatpack.command_line.terminal import get_style, write_document, write_text
from fatpack.commands.explain.model import INSTALLERS, SCHEMA
from fatpack.errors import UsageError
from fatpack.exit_codes import FINDINGS, FINE, worst_exit_code

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def _variables() -> Iterable[str]:
    from fatpack.targets.selection.runtime_settings import VARIABLES

    return (f"{name}=" for name in VARIABLES)


@click.command("explain", cls=Command, schema=SCHEMA)
@click.argument("files", type=INPUT, metavar="FILE...", nargs=-1)
@click.option(
    "--device",
    "devices",
    multiple=True,
    type=DEVICE,
    metavar="NAME",
    help="The GPU: sm_87, 8.7, 'RTX 4090', gfx90a:xnack-, pvc, this-machine. Repeatable.",
)
@click.option("--driver", metavar="VERSION", help="Version of NVIDIA's driver for Linux, as 535.104.05.")
@click.option("--cuda", metavar="VERSION", help="The driver's CUDA version (nvidia-smi prints it), as 12.2.")
@click.option("--rocm", metavar="VERSION", help="Version of ROCm, as 6.2.")
@click.option(
    "--env",
    "variables",
    multiple=True,
    type=SuggestionType(_variables),
    metavar="NAME=VALUE",
    help="An environment variable of the program, as HSA_XNACK=1. Repeatable.",
)
@click.option("--kernel", type=KERNEL, metavar="RE", help="Only containers with a kernel whose name matches.")
@click.option(
    "--installer",
    type=ChoiceType(INSTALLERS),
    help="First choose among FILE..., the builds of a release, as this installer does for a machine with all devices.",
)
@click.option(
    "--environment",
    metavar="DIR",
    type=DIRECTORY,
    help="Explain all packages installed in an environment, of pip, uv, conda or Debian, instead of files.",
)
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@schema_option
@cache_option
@reading_options
@click.option("-v", "--verbose", count=True, help="Show all images, addresses, and the rules with their sources.")
def command(
    files: tuple[str, ...],
    *,
    devices: tuple[str, ...],
    driver: str | None,
    cuda: str | None,
    rocm: str | None,
    variables: tuple[str, ...],
    kernel: str | None,
    installer: str | None,
    environment: str | None,
    as_json: bool,
    deep: bool,
    exclude: tuple[str, ...],
    verbose: int,
) -> int:
    """Show which code a GPU would load from files, and how to fix it if none fits.

    FILE is a library, program, object, container, image, package, folder or URL. `fatpack targets --boards` lists the
    names for --device. Without --driver or --cuda the driver's version is not checked. The exit code is 0 if
    everything runs on every device, 1 if something fails or may fail, 3 if a file is damaged.
    With --installer and --environment all devices are in one machine.
    """
    if not (files or environment) or not devices:
        what = "no device was named" if files or environment else "no file was named"
        asked_about = "--environment DIR" if environment else "libx.so"
        raise UsageError(what, hint=f"fatpack explain {asked_about} --device 'RTX 4090'")
    if environment and (files or installer):
        raise UsageError("--environment takes neither files nor --installer", hint="leave them out")
    from fatpack.commands.explain.request import explain_paths, parse_query

    query = parse_query(devices, driver=driver, cuda=cuda, rocm=rocm, variables=variables, kernel=kernel or "")
    explained, unmatched = explain_paths(
        files, query, installer=installer, environment=environment, deep=deep, exclude=exclude
    )
    code = worst_exit_code((explained.exit_code, FINDINGS if unmatched else FINE))
    if as_json:
        write_document({**explained.to_dict(), "exit_code": code})
    else:
        from fatpack.commands.explain.text import render_explain

        write_text(render_explain(explained, verbose=verbose, width=0 if verbose else get_style().width), verbose=True)
    left_out = "" if explained.unlooked.is_asked else explained.unlooked.sentence()
    if unmatched or left_out:
        from fatpack.command_line.messages import print_stderr

        for pattern in unmatched:
            print_stderr(f"no file matches {pattern}")
        if left_out:
            print_stderr(left_out)
    return code
