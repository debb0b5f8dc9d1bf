"""``fatpack inspect``: what is in a file, for people, for scripts, and byte by byte."""

from __future__ import annotations

import sys

import click

from fatpack.errors import FatpackError, UsageError
from fatpack.io.source import open_source
from fatpack.report.inspect_text import render
from fatpack.report.inspection import SCHEMA, failure, inspection
from fatpack.report.problems import FINDINGS, FINE, MALFORMED, exit_code, message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any


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
@click.option("-v", "--verbose", count=True, help="Addresses, attributes and all kernel names.")
def command(files: tuple[str, ...], as_json: bool, schema: bool, as_bytes: bool, at: int | None, verbose: int) -> int:
    """Show hosts, containers, images and kernels of any file, with sizes, offsets and findings.

    The first column is the position CONTAINER.IMAGE, which `extract --container N --index M` takes. Exit code 1 if
    there are warnings, 3 if something is damaged; what can be read is shown all the same.
    """
    if schema:
        from fatpack.report.schema import text

        click.echo(text(), nl=False)
        return FINE
    if not files:
        raise UsageError("no file given", hint="fatpack inspect FILE...")
    if as_bytes or at is not None:
        return max(_show_bytes(path, at) for path in files)
    code = FINE
    records = []
    for path in files:
        record, problem = _inspect(path)
        code = max(code, problem)
        if as_json:
            records.append(record)
        elif record.get("error"):
            sys.stderr.write(f"fatpack: error: {record['error']['message']}\n")
        else:
            _print(render(record, verbose=verbose))
    if as_json:
        import json

        click.echo(json.dumps({"schema": SCHEMA, "files": records}, indent=1))
    return code


def _inspect(path: str) -> tuple[dict[str, Any], int]:
    """Return the record of one file and the exit code it stands for."""
    try:
        with open_source(path) as source:
            record = inspection(source.view())
    except (FatpackError, OSError) as error:
        return failure(path, error), exit_code(error)
    severities = {item["severity"] for item in record["findings"]}
    return record, MALFORMED if "error" in severities else FINDINGS if "warning" in severities else FINE


def _show_bytes(path: str, at: int | None) -> int:
    from fatpack.report.bytes_text import annotated, at_offset

    try:
        with open_source(path) as source:
            _print(annotated(source.view()) if at is None else at_offset(source.view(), at))
    except (FatpackError, OSError) as error:
        sys.stderr.write(f"fatpack: error: {message(error)}\n")
        return exit_code(error)
    return FINE


def _print(lines: Iterable[str]) -> None:
    sys.stdout.writelines(f"{line}\n" for line in lines)
