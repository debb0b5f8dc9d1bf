"""``fatpack inspect``: what is in a file, for people, for scripts, and byte by byte."""

from __future__ import annotations

import sys

import click

from fatpack.cli.options import deep_option
from fatpack.cli.show import opened, show, show_sums, write_lines
from fatpack.errors import FatpackError, UsageError
from fatpack.report.inspection import SCHEMA
from fatpack.report.problems import FINE, exit_code, message
from fatpack.report.sums import KEYS


def _offset(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    if value is None:
        return None
    try:
        return int(value, 0)
    except ValueError:
        raise click.BadParameter(f"{value!r} is no number; write 0x1a40 or 6720") from None


@click.command()
@click.argument("files", nargs=-1, metavar="FILE...")
@click.option("--json", "as_json", is_flag=True, help=f"One JSON document, schema {SCHEMA}.")
@click.option("--schema", is_flag=True, help="Print the JSON schema and exit.")
@click.option("--bytes", "as_bytes", is_flag=True, help="An annotated hexdump: what every byte is.")
@click.option("--at", callback=_offset, metavar="OFFSET", help="What the byte at this offset is.")
@deep_option
@click.option("--kernels", is_flag=True, help="What each kernel needs: registers, bytes of memory, threads.")
@click.option("--by", type=click.Choice(KEYS), help="Sums over all files instead: images, bytes stored and inflated.")
@click.option("--verify", is_flag=True, help="Check the content of compressed bundles against their hashes too.")
@click.option("--one-program", is_flag=True, help="Warn if the files are not all for the same architectures.")
@click.option("-v", "--verbose", count=True, help="Addresses, attributes and all kernel names.")
def command(
    files: tuple[str, ...],
    *,
    as_json: bool,
    schema: bool,
    as_bytes: bool,
    at: int | None,
    deep: bool,
    kernels: bool,
    by: str | None,
    verify: bool,
    one_program: bool,
    verbose: int,
) -> int:
    """Show hosts, containers, images and kernels of any file, with sizes, offsets and findings.

    FILE may also be a member of an archive (libx.a(m.o)), or bytes in a file as -v prints their address
    (lib.so#offset=0x1000&size=0x200).

    The first column is the position CONTAINER.IMAGE, which `extract --container N --index M` takes. Exit code 1 if
    there are warnings, 3 if something is damaged; what can be read is shown all the same.

    The plain listing takes the images of large compressed bundles from their tables; -v, --json, --kernels and
    --verify inflate the bundles and look at the images. --by arch and --by file take all from the tables, whatever the
    size: what is wrong with compressed images goes unnoticed, and those that hold containers count as one image.

    With --one-program the files are parts of one program, objects and archives that are to be linked: whichever has
    device code for other architectures, or in other forms (PTX, cubin, LTO-IR), than the first is told.
    """
    if schema:
        from fatpack.report.schema import text

        click.echo(text(), nl=False)
        return FINE
    if not files:
        raise UsageError("no file given", hint="fatpack inspect FILE...")
    if (as_bytes or at is not None) and as_json:
        raise UsageError("--json shows no bytes", hint="leave out --json, or --bytes and --at")
    if as_bytes or at is not None:
        return max(_show_bytes(path, at) for path in files)
    if by is not None:
        return show_sums(files, by, as_json=as_json, deep=deep)
    return show(
        files, as_json=as_json, verbose=verbose, deep=deep, kernels=kernels, verify=verify, one_program=one_program
    )


def _show_bytes(path: str, at: int | None) -> int:
    from fatpack.report.bytes_text import annotated, at_offset

    try:
        source, view = opened(path)
        with source:
            write_lines(annotated(view) if at is None else at_offset(view, at))
    except BrokenPipeError:
        raise
    except (FatpackError, OSError) as error:
        sys.stderr.write(f"fatpack: error: {message(error)}\n")
        return exit_code(error)
    return FINE
