"""``fatpack embed``: a finished container → a copy of an object."""

from __future__ import annotations

import click

from fatpack import formats
from fatpack.cli.editing import check_output, output_options, write_result
from fatpack.cli.options import quiet_option, say
from fatpack.errors import UsageError
from fatpack.io.source import open_source
from fatpack.ops import edit


@click.command()
@click.argument("host")
@click.argument("container")
@output_options
@quiet_option
def command(host: str, container: str, output: str | None, in_place: bool, force: bool, quiet: bool) -> int:
    """Put a finished CONTAINER into a copy of the relocatable object HOST.

    Only the tables that must change differ from the host. Linking is how device code reaches a program: embedding
    into a linked file serves inspection only.
    """
    check_output(host, output, in_place=in_place)
    with open_source(host) as into, open_source(container) as content:
        found = formats.sniff(content.view().head(0, 24))
        if found is None and not force:
            raise UsageError(
                f"{container} is no container we know", hint="pack it first, or --force to embed it all the same"
            )
        if found != "llvm-offload-binary":
            say(f"fatpack: warning: {container} is no LLVM offload binary; LLVM tools will not read it", quiet=quiet)
        pieces = edit.embed(into.view(), [content.view()])
        return write_result(into.view(), host, pieces, output, in_place=in_place, force=force, quiet=quiet)
