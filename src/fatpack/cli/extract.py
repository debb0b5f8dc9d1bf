"""``fatpack extract``: images, containers or byte ranges → files."""

from __future__ import annotations

import click

from fatpack.cli.options import Meter, force_option, quiet_option, say, selector, selector_options
from fatpack.errors import UsageError
from fatpack.io.sink import write_file, write_pieces
from fatpack.io.source import open_source
from fatpack.model import Finding
from fatpack.ops.extract import Extract, parse_address, plan_containers, plan_images, write_plan
from fatpack.ops.select import present_archs
from fatpack.report.problems import FINDINGS, FINE, MALFORMED
from fatpack.report.text import printable, size_words
from fatpack.scan import scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from fatpack.io.source import View


@click.command()
@click.argument("file")
@selector_options
@click.option("-o", "--output", metavar="FILE", help='Write the one selected image here; "-" is stdout.')
@click.option("-d", "--directory", metavar="DIR", help="Write the images here. Default: the current directory.")
@click.option("--containers", is_flag=True, help="The containers as they are stored, instead of their images.")
@force_option
@quiet_option
def command(
    file: str,
    output: str | None,
    directory: str | None,
    containers: bool,
    force: bool,
    quiet: bool,
    **selectors: Any,
) -> int:
    """Get images back out of anything, and print what was written.

    FILE is an object, a library, a container, "-", or an address as `inspect -v` prints it
    (lib.so#offset=0x1000&size=0x200). Names are STEM-TRIPLE-ARCH.NUMBER.EXTENSION with harmless characters only.
    Nothing is written if any output exists already, unless --force is given.
    """
    if output is not None and directory is not None:
        raise UsageError("-o and -d exclude each other", hint="-o names one file, -d a directory for many")
    address = parse_address(file)
    with open_source(address[0] if address else file) as source:
        view = source.view()
        if address:
            if containers or directory is not None or not selector(selectors).is_empty():
                raise UsageError("an address names its bytes already", hint="leave out selectors, --containers and -d")
            return _extract_range(view, address[1], address[2], output, force=force)
        wanted = selector(selectors)
        items = list(scan(view))
        damage = [item for item in items if isinstance(item, Finding) and item.severity == "error"]
        for item in damage:
            say(f"fatpack: error {item.code}: {file} at {item.span.start:#x}: {item.text}")
        plan = (plan_containers if containers else plan_images)(items, wanted, source.name.strip("<>"))
        if not plan:
            what = "containers" if containers else "images"
            asked = f" that match {wanted.describe()}" if not wanted.is_empty() else ""
            unread = [item.message for item in items if isinstance(item, Finding) and item.code == "FP1006"]
            archs = present_archs(items)
            present = f"; present are {', '.join(archs)}" if archs else ""
            say(f"fatpack: {file}: no {what}{asked}{present}{'; '.join(['', *unread])}", quiet=quiet and not damage)
            return MALFORMED if damage else FINDINGS
        _write(plan, output, directory, file, force=force, quiet=quiet)
    return MALFORMED if damage else FINE


def _write(
    plan: Sequence[Extract], output: str | None, directory: str | None, file: str, *, force: bool, quiet: bool
) -> None:
    meter = Meter(sum(len(item.data) for item in plan), "extracting", quiet=quiet)
    if output is None:
        try:
            paths = write_plan(plan, directory or "", force=force, progress=meter)
        finally:
            meter.finish()
        for path, item in zip(paths, plan, strict=True):
            click.echo(printable(f"{path}  {item.what}, {size_words(len(item.data))}") if not quiet else path)
        return
    if len(plan) > 1:
        named = "; ".join(item.what for item in plan[:4])
        more = f"; and {len(plan) - 4} more" if len(plan) > 4 else ""
        raise UsageError(
            f"{file}: {len(plan)} images match, and -o takes one: {named}{more}",
            hint="select one with --arch, --container and --index, or give -d DIR",
        )
    if output == "-":
        write_pieces(1, [plan[0].data])
        return
    try:
        write_file(output, [plan[0].data], force=force, inputs=[plan[0].data], progress=meter)
    finally:
        meter.finish()
    say(f"wrote {output}: {plan[0].what}, {size_words(len(plan[0].data))}", quiet=quiet)


def _extract_range(view: View, offset: int, size: int | None, output: str | None, *, force: bool) -> int:
    if offset > len(view) or (size is not None and offset + size > len(view)):
        raise UsageError(
            f"{view.chain[0]}: {offset:#x} to {offset + (size or 0):#x} is outside the file ({len(view):#x} bytes)"
        )
    data = view.slice(offset, len(view) - offset if size is None else size)
    if output is None:
        raise UsageError("an address needs an output", hint='name it with -o; "-" is stdout')
    if output == "-":
        write_pieces(1, [data])
    else:
        write_file(output, [data], force=force, inputs=[data])
    return FINE
