"""``fatpack convert``: the images of one container format → another, without a loss, or not at all."""

from __future__ import annotations

import os

import click

from fatpack.cli.completion import FILE
from fatpack.cli.options import (
    Meter,
    check_name,
    deep_option,
    force_option,
    limit_option,
    max_inflated_option,
    quiet_option,
    say,
    selector,
    selector_options,
    tell_abandoned,
    warn,
)
from fatpack.cli.packing import PACKING_KEYS, chosen_packing, packing_options
from fatpack.errors import FatpackError
from fatpack.io.names import stem
from fatpack.io.sink import write_file, write_pieces
from fatpack.io.sources.opening import open_source
from fatpack.ops.choose.presence import refuse_empty, unseen
from fatpack.ops.convert.convert import convert
from fatpack.ops.verify import content_findings
from fatpack.report.problems import FINDINGS, FINE, MALFORMED
from fatpack.report.text import count, size_words
from fatpack.scanner import Found, scan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: lines of losses that are shown; the rest is counted
_SHOWN = 20


@click.command()
@click.argument("file", type=FILE)
@selector_options
@packing_options
@click.option(
    "-o",
    "--output",
    type=FILE,
    help='Where to write; "-" is stdout. Default: STEM.offload, .bundle, .cir or .fatbin.',
)
@click.option("--lossy", is_flag=True, help="Convert even if information is lost; the losses are listed.")
@max_inflated_option
@deep_option
@limit_option
@force_option
@quiet_option
def command(file: str, output: str | None, lossy: bool, deep: bool, force: bool, quiet: bool, **options: Any) -> int:
    """Convert the images of FILE, or the selected ones, into another container.

    FILE is a container, or any file with containers in it. If the other format cannot hold everything, the losses are
    listed, nothing is written, and the exit code is 1; --lossy writes all the same.

    Layout and compression are not carried over; set them with --bundle-align, --compress and so on.
    """
    check_name(output)
    packing = {key: options.pop(key) for key in PACKING_KEYS}
    chosen = chosen_packing(packing)
    with open_source(file) as source:
        refuse_empty(source.view())
        items = list(scan(source.view(), deep=deep))
        warn(unseen(items), quiet=quiet)
        wrong = content_findings([item for item in items if isinstance(item, Found)])
        for item in wrong:
            say(f"fatpack: {item.severity} {item.code}: {file} at {item.span.start:#x}: {item.text}")
        if wrong and not lossy:
            say(f"fatpack: {file}: nothing was written; --lossy converts all the same")
            return MALFORMED
        try:
            conversion = convert(items, selector(options), chosen.options)
        except FatpackError as error:
            error.chain = error.chain or (file,)
            raise
        warn(conversion.packed.findings, quiet=quiet)
        for note in conversion.packed.notes:
            say(note, quiet=quiet)
        for loss in conversion.losses[:_SHOWN]:
            say(f"lost: {loss}", quiet=quiet and lossy)
        if len(conversion.losses) > _SHOWN:
            say(f"lost: {len(conversion.losses) - _SHOWN} more things", quiet=quiet and lossy)
        if conversion.losses and not lossy:
            say(f"fatpack: {file}: nothing was written; --lossy converts all the same")
            return FINDINGS
        name = stem(file) if file != "-" else "stdin"
        target = output or f"{name}.{chosen.extension}"
        pieces = conversion.packed.pieces
        if target == "-":
            write_pieces(1, pieces)
            return FINE
        tell_abandoned(os.path.dirname(target), quiet=quiet)
        meter = Meter(sum(map(len, pieces)), f"writing {target}", quiet=quiet)
        try:
            size = write_file(
                target,
                pieces,
                force=force,
                inputs=[source.view()],
                verify=conversion.packed.verify,
                mode=conversion.packed.mode,
                progress=meter,
            )
        finally:
            meter.finish()
        say(f"wrote {target}: {count(conversion.image_count, 'image')}, {size_words(size)}", quiet=quiet)
    return FINE
