"""``fatpack split``: make a package for each kind of device of a fat one, and prove what is there."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import CountedProgress, print_stderr
from fatpack.command_line.param_types import DIRECTORY, FILE, INPUT, ChoiceType, SuggestionType
from fatpack.command_line.shared_options import force_option, schema_option, writing_options
from fatpack.commands.split.model import SCHEMA, VERIFY_SCHEMA
from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


def _rules_and_devices() -> Iterable[str]:
    from fatpack.targets import device_arch_names

    return ("family", "device", *device_arch_names())


def _schema_versions() -> Iterable[str]:
    from fatpack.targets.installers.variant_documents import SCHEMAS

    return SCHEMAS


@click.command("split", cls=Command, schema=SCHEMA, schemas={"verify": VERIFY_SCHEMA})
@click.argument("files", type=INPUT, metavar="FILE...", nargs=-1)
@click.option(
    "--by",
    type=SuggestionType(_rules_and_devices),
    metavar="family|device|LIST",
    help="The labels: one for each generation (family, the default), for each architecture (device), or a list: "
    "sm_80,hopper=sm_90.",
)
@click.option(
    "-d", "--directory", type=DIRECTORY, metavar="DIR", help="Where to write all packages and the index file."
)
@click.option(
    "--null",
    type=ChoiceType(("fat", "rest", "none")),
    help="Package for other devices: fat (default), rest (their code), none.",
)
@click.option(
    "--insist", multiple=True, metavar="LABEL,…", help="Keep a label that devices without code for them would get."
)
@click.option(
    "--schema-version",
    type=ChoiceType(_schema_versions),
    metavar="VERSION",
    help="Version of the metadata of variants. Default: 0.2.0.",
)
@click.option(
    "--depend-on",
    type=ChoiceType(("cuda-arch", "__cuda_arch")),
    help="Conda: depend on the metapackage (default) or virtual package.",
)
@click.option("--config", type=FILE, metavar="FILE", help="Read [tool.fatpack.split] from this TOML file.")
@click.option("--no-config", is_flag=True, help="Do not read the nearest pyproject.toml.")
@click.option("--dry-run", is_flag=True, help="Only print what each device would get.")
@click.option("--verify", is_flag=True, help="Prove FAT... DIR: each package, and the code for every device.")
@force_option
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@schema_option
@writing_options
def command(files: tuple[str, ...], **options: Any) -> int:
    """Make a wheel or conda package for each kind of device.

    FILE is a wheel or a conda package with code for many devices. Each label gets a variant wheel, or a build of the
    conda package, with the code for its devices; `null` is for all other devices. Installers choose by an index file
    (uv: --preview-features wheel-variants). A label is narrowed or refused, with the reason, if an installer would
    give it to a device whose driver cannot load it.
    """
    from fatpack.command_line.terminal import get_style, write_document, write_text

    if options["verify"]:
        from fatpack.commands.split.prove import prove_split
        from fatpack.commands.split.text import render_verdict

        _check_proof_options(files, options)
        verdict = prove_split(files[:-1], files[-1])
        if options["as_json"]:
            write_document(verdict.to_dict())
        elif not options["quiet"]:
            write_text(render_verdict(verdict, get_style()))
        return verdict.exit_code
    from fatpack.commands.split.request import make_request, with_settings
    from fatpack.commands.split.run import split_packages
    from fatpack.commands.split.text import render_split

    names = ("by", "directory", "null", "schema_version", "depend_on")
    given = {**{name: options[name] for name in names}, "insist": list(options["insist"]) or None}
    settings, path = with_settings(given, options["config"], reads=not options["no_config"])
    if path:
        print_stderr(f"policy: {path}", quiet=options["quiet"])
    request = make_request(files, settings, dry_run=options["dry_run"], force=options["force"])
    request = request.replace(planned=CountedProgress("planning library", quiet=options["quiet"]))
    result = split_packages(request, lambda text: print_stderr(text, quiet=options["quiet"]))
    if options["as_json"]:
        write_document(result.to_dict())
    elif not options["quiet"]:
        write_text(render_split(result, get_style()))
    return result.exit_code


def _check_proof_options(files: tuple[str, ...], options: dict[str, Any]) -> None:
    """Raise UsageError unless ``--verify`` has packages and a folder, and no option that makes packages."""
    for name in (
        "by",
        "directory",
        "null",
        "insist",
        "schema_version",
        "depend_on",
        "config",
        "no_config",
        "dry_run",
        "force",
    ):
        if options[name]:
            option = f"--{name.replace('_', '-')}"
            hint = f"give {option} when you split; then prove with --verify"
            raise UsageError(f"{option} does nothing with --verify, which makes no package", hint=hint)
    if len(files) < 2:
        raise UsageError("--verify takes fat packages and a folder", hint="fatpack split --verify FAT.whl DIR")
