"""``fatpack extract``: images, containers or byte ranges → files."""

from __future__ import annotations

import os

import click

from fatpack.cli.options import (
    Meter,
    check_name,
    deep_option,
    force_option,
    quiet_option,
    say,
    selector,
    selector_options,
    tell_abandoned,
    warn,
)
from fatpack.errors import FormatError, Unsupported, UsageError, shortened
from fatpack.io.sink import write_file, write_pieces
from fatpack.io.sources.opening import open_source
from fatpack.model import Finding
from fatpack.ops.choose.address import find, named_bytes, parse_address
from fatpack.ops.choose.presence import instead, unseen
from fatpack.ops.choose.select import choices, present_ids
from fatpack.ops.extract import Extract, origins, plan_archive, plan_containers, plan_images, write_plan
from fatpack.ops.verify import Verification, verify
from fatpack.report.problems import FINDINGS, FINE, MALFORMED
from fatpack.report.text import printable, size_words
from fatpack.scanner import Found, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from fatpack.io.source import View
    from fatpack.ops.choose.select import Selector


@click.command()
@click.argument("file")
@selector_options
@click.option("-o", "--output", metavar="FILE", help='Write the one selected image here; "-" is stdout.')
@click.option("-d", "--directory", metavar="DIR", help="Write the images here. Default: the current directory.")
@click.option("--containers", is_flag=True, help="The containers as they are stored, instead of their images.")
@click.option("--archive", is_flag=True, help="All selected images as members of one archive, which -o names.")
@click.option("--allow-missing", is_flag=True, help="No error if there is nothing to extract; with -o an empty file.")
@click.option("--dry-run", is_flag=True, help="Only say what would be written; exit code 1 if nothing matches.")
@deep_option
@force_option
@quiet_option
def command(
    file: str,
    output: str | None,
    directory: str | None,
    containers: bool,
    archive: bool,
    allow_missing: bool,
    dry_run: bool,
    deep: bool,
    force: bool,
    quiet: bool,
    **selectors: Any,
) -> int:
    """Get images back out of anything, and print what was written.

    FILE is an object, a library, a container, "-", a member of an archive (libx.a(m.o)), or an address as `inspect -v`
    prints it (lib.so#offset=0x1000&size=0x200). Names are STEM-TRIPLE-ARCH.NUMBER.EXTENSION with harmless characters
    only. Nothing is written if any output exists already, unless --force is given.
    """
    check_name(output)
    if directory == "":
        raise UsageError("the directory has no name", hint='"." is the current one')
    if output is not None and directory is not None:
        raise UsageError("-o and -d exclude each other", hint="-o names one file, -d a directory for many")
    if archive and (output is None or containers):
        raise UsageError("--archive makes one file of images", hint="name it with -o, and leave out --containers")
    address = parse_address(file, ranges=True)
    with open_source(address.path) as source:
        place = find(source.view(), address)
        view = place.view
        if address.offset is not None:
            if containers or dry_run or directory is not None or not selector(selectors).is_empty():
                hint = "leave out selectors, --containers, --dry-run and -d"
                raise UsageError("an address names its bytes already", hint=hint)
            return _extract_range(named_bytes(view, address), output, force=force)
        wanted = selector(selectors)
        items = list(scan(view, deep=deep))
        damage = [item for item in items if isinstance(item, Finding) and item.severity == "error"]
        for item in damage:
            say(f"fatpack: error {item.code}: {file} at {item.span.start:#x}: {item.text}")
        warn(unseen(items), quiet=quiet)
        is_everything = wanted.is_empty() and not containers and not dry_run
        with Verification(items if is_everything else ()) as checks:
            lacking = _choose(items, wanted, quiet=quiet) if wanted.id else []
            plan: Sequence[Extract] = []
            if not lacking or allow_missing:
                plan = (plan_containers if containers else plan_images)(items, wanted, place.name.strip("<>"))
            if not plan and allow_missing and not damage:
                # What a build step asks for with --allow-missing has to be there afterwards, if with no content.
                plan = [Extract("", (), "no image")] if output is not None else []
            elif plan and archive:
                plan = [plan_archive(items, wanted, place.name.strip("<>"))]
            elif not plan:
                say(f"fatpack: {file}: {_nothing(items, wanted, lacking, containers)}", quiet=quiet and not damage)
                return MALFORMED if damage else FINDINGS
            if output is not None:
                _check_one(plan, source.view())
            if dry_run:
                paths = [os.path.join(directory or "", item.name) if output is None else output for item in plan]
                _print(paths, plan, quiet=quiet)
                return _outcome(file, damage, FINE, _doubts(items, plan))
            code = _write(plan, output, directory, source.view(), force=force, quiet=quiet)
            # Small compressed content was checked when it was read; what was found there is told with the rest.
            used = origins(items, plan)
            known = [item for found in used for item in found.container.findings if item.code in ("FP1304", "FP1305")]
            wrong = [*_doubts(items, plan), *known, *(checks.findings() if is_everything else verify(used))]
    return _outcome(file, damage, code, wrong)


def _choose(items: Sequence[Found | Finding], wanted: Selector, *, quiet: bool) -> list[str]:
    """Say what the bundle IDs mean, and return those that mean nothing."""
    from fatpack.ops.choose.by_id import missing

    chosen = choices(items, wanted)
    for choice in chosen:
        say(choice.text, quiet=quiet)
    return missing(chosen, wanted.id)


def _doubts(items: Sequence[Found | Finding], plan: Sequence[Extract]) -> list[Finding]:
    """Return what is doubtful about the very bytes that are written: several images glued together, or a cut one."""
    written = {view.span() for item in plan for view in item.views}
    doubts = [item for item in items if isinstance(item, Finding) and item.severity == "warning"]
    # A container that is written as it is stored was not looked into for that.
    whole = {item.container.span for item in items if isinstance(item, Found)} & written
    images = (image for found in origins(items, plan) if found.container.span not in whole for image in found.images)
    cut = [item for image in images for item in image.inside if isinstance(item, Finding) and item.code == "FP1104"]
    return [item for item in (*doubts, *cut) if item.span in written]


def _outcome(file: str, damage: Sequence[Finding], code: int, wrong: Sequence[Finding]) -> int:
    """Say what is wrong with images and with the content of compressed bundles, and return the exit code."""
    wrong = [item for item in wrong if item.severity != "note"]
    for item in wrong:
        say(f"fatpack: {item.severity} {item.code}: {file} at {item.span.start:#x}: {item.text}")
    if damage or any(item.severity == "error" for item in wrong):
        return MALFORMED
    return max(code, FINDINGS if wrong else FINE)


def _nothing(items: Sequence[Found | Finding], wanted: Selector, lacking: Sequence[str], containers: bool) -> str:
    """Return why nothing is written, and what there is instead."""
    if lacking:
        from fatpack.ops.choose.by_id import reason

        ids = present_ids(items)
        what = f"no image for the bundle ID {' nor '.join(lacking)}{reason(lacking)}"
        present = f"; present are {', '.join(ids)}" if ids else ""
    else:
        asked = f" that match {wanted.describe()}" if not wanted.is_empty() else ""
        what = f"no {'containers' if containers else 'images'}{asked}"
        words = instead(items, wanted)
        present = f"; {words}" if words else ""
    return shortened(f"{what}{present}")


def _check_one(plan: Sequence[Extract], file: View) -> None:
    """Raise UsageError if there is more than -o takes."""
    if len(plan) > 1:
        named = "; ".join(item.what for item in plan[:4])
        more = f"; and {len(plan) - 4} more" if len(plan) > 4 else ""
        raise UsageError(
            f"{file.chain[0]}: {len(plan)} images match, and -o takes one: {named}{more}",
            hint="select one with --arch, --form, or --container and --index, or give -d DIR",
        )


def _print(paths: Iterable[str], plan: Iterable[Extract], *, quiet: bool) -> None:
    """Print what goes where: scripts read the paths."""
    for path, item in zip(paths, plan, strict=True):
        click.echo(printable(f"{path}  {item.what}, {size_words(item.size)}") if not quiet else path)


def _write(
    plan: Sequence[Extract], output: str | None, directory: str | None, file: View, *, force: bool, quiet: bool
) -> int:
    """Write the plan; return the exit code: images may be lost to damage, or be what nobody can inflate."""
    lost: list[tuple[Extract, FormatError | Unsupported]] = []
    if output != "-":
        tell_abandoned(os.path.dirname(output) if output is not None else directory or "", quiet=quiet)
    meter = Meter(sum(item.size for item in plan), "extracting", quiet=quiet)
    if output is None:
        try:
            paths = write_plan(plan, directory or "", force=force, inputs=[file], progress=meter, lost=lost)
        finally:
            meter.finish()
        for item, error in lost:
            if isinstance(error, Unsupported):
                say(f"fatpack: left out: {item.what}: {error.problem}", quiet=quiet)
            else:
                say(f"fatpack: error FP1001: {item.what}: {error.describe()}")
        lost_items = {id(item) for item, _ in lost}
        written = (item for item in plan if id(item) not in lost_items)
        _print(paths, written, quiet=quiet)
        return max([FINE, *(MALFORMED if isinstance(error, FormatError) else FINDINGS for _, error in lost)])
    if output == "-":
        write_pieces(1, plan[0].pieces)
        return FINE
    try:
        write_file(output, plan[0].pieces, force=force, inputs=[file, *plan[0].views], progress=meter)
    finally:
        meter.finish()
    say(f"wrote {output}: {plan[0].what}, {size_words(plan[0].size)}", quiet=quiet)
    return FINE


def _extract_range(data: View, output: str | None, *, force: bool) -> int:
    if output is None:
        raise UsageError("an address needs an output", hint='name it with -o; "-" is stdout')
    if output == "-":
        write_pieces(1, [data])
    else:
        write_file(output, [data], force=force, inputs=[data])
    return FINE
