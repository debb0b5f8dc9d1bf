"""``fatpack slim``: remove device code that no device needs from libraries, objects, archives and containers."""

from __future__ import annotations

import sys

import click

from fatpack.command_line.command import Command
from fatpack.command_line.messages import print_stderr, print_warnings
from fatpack.command_line.param_types import DEVICE, DIRECTORY, FILE, FILE_TARGET, INPUT, ChoiceType, CountType
from fatpack.command_line.shared_options import force_option, schema_option, writing_options
from fatpack.text.schemas import SLIM

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_HEADINGS = {
    "drop_ptx": "Libraries and containers",
    "used": "Less than the devices could run",
    "recompress": "Compression",
    "output": "Result",
    "break_links": "Names, signatures and layers",
    "find_links": "Wheels of a lock, and installed packages",
    "config": "Policies and plans",
    "certificate": "Proof",
    "deflated": "Result",
}

#: headings below which ``--help`` only names the options
_FURTHER = [heading for heading in dict.fromkeys(_HEADINGS.values()) if heading != "Result"]


@click.command(
    "slim", cls=Command, schema=SLIM, schemas={"verify": "fatpack.certificate/1"}, headings=_HEADINGS, further=_FURTHER
)
@click.argument("files", type=INPUT, metavar="FILE...", nargs=-1)
@click.option(
    "--for",
    "for_",
    multiple=True,
    type=DEVICE,
    metavar="DEVICE,…",
    help="Keep the images that these GPUs would load: sm_86, 'RTX 4090', this-machine. Repeatable.",
)
@click.option(
    "--keep", multiple=True, type=FILE_TARGET, metavar="PATTERN,…", help="Keep these: 'sm_9*', gfx90a. Repeatable."
)
@click.option(
    "--drop",
    multiple=True,
    type=FILE_TARGET,
    metavar="PATTERN,…",
    help="Remove these: 'sm_5*,sm_6*'; PTX is compute_80. Repeatable.",
)
@click.option(
    "--keep-ptx",
    type=ChoiceType(("none", "newest", "all")),
    help="PTX and SPIR-V to keep. Default: newest with --for and --keep, else all.",
)
@click.option("--drop-ptx", is_flag=True, help="The same as --keep-ptx=none.")
@click.option("--allow-empty", is_flag=True, help="Let containers become empty; their kernels fail then.")
@click.option("--strict", is_flag=True, help="Refuse a package or folder if one library in it cannot be slimmed.")
@click.option(
    "--mode",
    type=ChoiceType(("auto", "shrink", "zero")),
    default="auto",
    help="Shrink linked files, or fill the freed bytes with zeros; auto shrinks if it can.",
    show_default=True,
)
@click.option(
    "--used",
    multiple=True,
    type=FILE,
    metavar="PROFILE",
    help="Keep what a recorded run used: Nsight Systems' SQLite, a torch.profiler trace, rocprofv3, or names. "
    "Repeatable.",
)
@click.option(
    "--widen",
    type=ChoiceType(("siblings", "none")),
    help="With --used: keep other instances of used templates with the same functor. Default: siblings.",
)
@click.option("--drop-unused", is_flag=True, help="With --used: remove unused code without PTX; its kernels fail then.")
@click.option(
    "--by-use-also",
    multiple=True,
    metavar="LIB",
    help="With --used: slim this library too, though it chooses kernels at run time.",
)
@click.option(
    "--accept-missing",
    type=CountType(0),
    metavar="N",
    help="With --drop-unused: exit with 0 if just N kernels are lost.",
)
@click.option(
    "--max-size", metavar="SIZE", help="Remove no more than a file of this size needs, what costs least first: 400MB."
)
@click.option(
    "--priority",
    multiple=True,
    type=DEVICE,
    metavar="DEVICE,…",
    help="With --max-size: devices to serve, of which the last may go.",
)
@click.option(
    "--recompress", type=ChoiceType(("zstd", "lz4", "zlib", "none")), help="Compress images anew by this method."
)
@click.option(
    "--lossless",
    is_flag=True,
    help="Remove nothing: compress the images of CUDA better. Takes minutes for a large wheel; --level 3 a tenth.",
)
@click.option("--drop-dead", is_flag=True, help="Remove what can never run; goes with --lossless. `report` lists it.")
@click.option(
    "--driver", metavar="VERSION", help="With --lossless or --max-size: the oldest driver that must load it, as 525."
)
@click.option(
    "--level",
    type=CountType(0, 22),
    metavar="N",
    help="With --recompress or --lossless: the level. Default for zstd: 19.",
)
@click.option("-o", "--output", type=FILE, help='Where to write the slimmed file; "-" is stdout.')
@click.option(
    "-d", "--directory", type=DIRECTORY, metavar="DIR", help="Where to write slimmed files under their names."
)
@click.option("--in-place", is_flag=True, help="Change each FILE itself.")
@click.option("--break-links", is_flag=True, help="With --in-place: other hard links keep the old file.")
@force_option
@click.option("--drop-signature", is_flag=True, help="Remove the signature of a signed Windows DLL or program.")
@click.option(
    "--build-tag",
    metavar="TAG",
    help="Build tag of a changed wheel or conda package. Default: from the options, 1sm90.",
)
@click.option("--local-version", metavar="LABEL", help="Local version of a changed wheel: sm90 makes 1.0+sm90.")
@click.option(
    "--keep-layers",
    type=CountType(1),
    metavar="N",
    help="Leave the N lowest layers of a container image as they are: its base.",
)
@click.option(
    "--find-links",
    type=DIRECTORY,
    metavar="DIR",
    help="Slim the wheels of DIR, that pip or uv downloaded, into -d with an index to install from.",
)
@click.option(
    "-r",
    "--requirements",
    multiple=True,
    type=FILE,
    metavar="LOCK",
    help="With --find-links: the wheels of this requirements.txt, pylock.toml or uv.lock only.",
)
@click.option(
    "--environment",
    type=DIRECTORY,
    metavar="DIR",
    help="Slim the installed packages of a venv or conda prefix in their place, with a journal.",
)
@click.option("--backup", type=DIRECTORY, metavar="DIR", help="With --environment: keep the originals here.")
@click.option("--undo", is_flag=True, help="With --environment: restore the originals, or say what installs them.")
@click.option("--config", type=FILE, metavar="FILE", help="Read [tool.fatpack.slim] from this TOML file.")
@click.option("--no-config", is_flag=True, help="Do not read the nearest pyproject.toml.")
@click.option("--save-plan", type=FILE, metavar="PLAN", help="Write what stays and goes as JSON, to review and apply.")
@click.option("--plan", type=FILE, metavar="PLAN", help="Apply a plan to files that are as they were.")
@click.option("--certificate", type=FILE, help="Prove the result, and write the proof as JSON.")
@click.option("--verify", is_flag=True, help="Compare BEFORE AFTER (or folders): only device code may be missing.")
@click.option("--sbom", type=FILE, help="Write a CycloneDX list of the remaining device code.")
@click.option("--deflated", is_flag=True, help="Also print the compressed size in a wheel.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SLIM}.")
@schema_option
@writing_options
def command(files: tuple[str, ...], **options: Any) -> int:
    """Remove GPU code for architectures you do not need.

    FILE is a library, a program, an object, an archive, a container, a wheel, a conda package, a container image, or a
    folder. A library stays as it is if a container of it would become empty; the exit code is 1 then, and if a device
    or pattern matches nothing. `fatpack remove` removes images by any property.
    """
    if options["verify"]:
        from fatpack.commands.slim.request import check_proof_options
        from fatpack.commands.slim.run import verify_files

        check_proof_options(options)
        to_files = {name: options[name] for name in ("as_json", "force", "quiet", "output")}
        return verify_files(files, options["certificate"], **to_files)
    if options["undo"]:
        from fatpack.commands.slim.request import check_undo_options
        from fatpack.commands.slim.run import undo_environment

        return undo_environment(check_undo_options(files, options), quiet=options["quiet"])
    from fatpack.command_line.edit_io import EditDestination
    from fatpack.command_line.messages import CountedProgress, print_findings
    from fatpack.commands.slim.options import NameChange
    from fatpack.commands.slim.outcome import exit_code_for, find_unmatched_patterns, find_unsupported_devices
    from fatpack.commands.slim.request import SlimRequest, find_rules, parse_slim_options
    from fatpack.commands.slim.run import plan_size, slim_all
    from fatpack.commands.slim.text import quiet_lines, render_slim, slim_record

    to = EditDestination(options["output"], options["in_place"], options["break_links"], options["force"])
    policy, plan = find_rules(options)
    parsed = parse_slim_options(options, policy).replace(
        compressed=CountedProgress("compressing image", quiet=options["quiet"])
    )
    request = SlimRequest(
        files=files,
        options=parsed if plan is None else parsed.replace(plan=plan),
        to=to,
        directory=options["directory"],
        dry_run=options["dry_run"],
        deflates=options["deflated"],
        as_json=options["as_json"],
        quiet=options["quiet"],
        is_strict=options["strict"] or (policy is not None and policy.values.get("strict", False)),
        save_plan=options["save_plan"],
        naming=NameChange(options["build_tag"] or "", options["local_version"] or ""),
        sbom=options["sbom"],
        certificate=options["certificate"],
        environment=options["environment"],
        backup=options["backup"],
        find_links=options["find_links"],
        requirements=options["requirements"],
        keep_layers=options["keep_layers"] or 0,
    )
    request.check()
    if policy is not None:
        print_stderr(f"policy: {policy.path}", quiet=request.quiet)
    size_plan = None
    if request.options.size is not None:
        size_plan = plan_size(request)
        request = request.replace(options=size_plan.options)
    outcomes = slim_all(request)
    for item in outcomes:
        if item.plan is not None:
            print_findings(item.path, item.plan.damaged)
            print_warnings(item.plan.unread, quiet=request.quiet)
    for pattern in find_unmatched_patterns(outcomes, request.options):
        print_stderr(f"fatpack: error: {pattern.words}; {pattern.hint}")
    unserved = find_unsupported_devices(outcomes, request.options.devices)
    code = exit_code_for(outcomes, request.options)
    if request.as_json:
        from fatpack.text.json import json_pieces

        document = slim_record(outcomes, request.options, code, unserved, is_written=not request.dry_run)
        if size_plan is not None:
            document["size"] = size_plan.record()
        sys.stdout.writelines(json_pieces(document))
        sys.stdout.write("\n")
    elif not request.quiet:
        from fatpack.command_line.terminal import get_style
        from fatpack.text.style import write_lines

        stream = sys.stderr if to.output == "-" else sys.stdout
        lines = render_slim(outcomes, unserved, request.options.devices, get_style(stream), request.options.use)
        write_lines(lines if size_plan is None else [*size_plan.lines(get_style(stream)), *lines], stream)
    else:
        # Errors are printed with --quiet, too: without them an exit code would say nothing.
        for line in quiet_lines(outcomes, unserved):
            print_stderr(f"fatpack: {line}")
    return code
