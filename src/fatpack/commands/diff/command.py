"""``fatpack diff``: what differs between the device code of two releases."""

from __future__ import annotations

import sys

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import INPUT, SuggestionType
from fatpack.command_line.shared_options import cache_option, reading_options, schema_option
from fatpack.command_line.terminal import write_document
from fatpack.commands.diff.model import DIFFERENCES, KINDS, SCHEMA
from fatpack.errors import UsageError, pluralize
from fatpack.exit_codes import FINDINGS, FINE, worst_exit_code
from fatpack.text.style import write_lines


@click.command("diff", cls=Command, schema=SCHEMA)
@click.argument("releases", type=INPUT, metavar="OLD NEW", nargs=-1)
@click.option(
    "--kernels",
    is_flag=True,
    help="Compare kernels by their code: rebuilt images with the same kernels are equal.",
)
@click.option("--demangle", is_flag=True, help="With --kernels: demangle C++ names.")
@click.option(
    "--fail-on",
    type=SuggestionType(lambda: KINDS),
    metavar="KINDS",
    help=f"Differences that exit 1: {','.join(KINDS)}, or none. Default: {','.join(DIFFERENCES)}.",
)
@click.option("--json", "as_json", is_flag=True, help=f"Print one JSON document, schema {SCHEMA}.")
@schema_option
@cache_option
@reading_options
@click.option("-v", "--verbose", count=True, help="Also show equal libraries, and all kernels.")
def command(
    releases: tuple[str, ...],
    *,
    kernels: bool,
    demangle: bool,
    fail_on: str | None,
    as_json: bool,
    deep: bool,
    exclude: tuple[str, ...],
    verbose: int,
) -> int:
    """Compare the GPU code of two releases: files, folders, wheels or other packages.

    The first line says what was lost, added and changed, and how many bytes. A table follows for each library that
    differs. The exit code is 0 if nothing differs, 1 if device code was lost, added, changed or moved, 3 if something
    cannot be read.
    """
    if len(releases) != 2:
        raise UsageError(
            f"{pluralize(len(releases), 'file')} given, two were expected", hint="fatpack diff old.whl new.whl"
        )
    if releases[0] == releases[1] == "-":
        raise UsageError("stdin is one input, and two are compared", hint="fatpack diff old.whl - < new.whl")
    failing = _failing(fail_on)
    if demangle and not kernels:
        raise UsageError("--demangle goes with --kernels", hint="fatpack diff OLD NEW --kernels --demangle")
    if demangle:
        from fatpack.demangling import check_available

        check_available()
    from fatpack.commands.diff.release import Release
    from fatpack.commands.diff.run import compare_releases
    from fatpack.selectors.address import open_argument

    sides = (Release(name, exclude, deep, opener=open_argument, raises=not as_json) for name in releases)
    found = compare_releases(*sides, kernels=kernels)
    if demangle:
        from fatpack.commands.diff.run import with_demangled_kernels

        found = with_demangled_kernels(found)
    fails = not failing.isdisjoint(found.kinds)
    code = worst_exit_code((FINDINGS if fails else FINE, *(item.exit_code for item in found.unread)))
    if as_json:
        write_document({**found.to_dict(), "exit_code": code})
        return code
    from fatpack.command_line.terminal import get_style
    from fatpack.commands.diff.text import render_diff
    from fatpack.text.style import colorize

    write_lines(colorize(render_diff(found, verbose=verbose), get_style()), sys.stdout)
    return code


def _failing(words: str | None) -> frozenset[str]:
    """Return the kinds of differences that fail a run. Raises UsageError for a word that is none."""
    if words is None:
        return frozenset(DIFFERENCES)
    kinds = [word.strip() for word in words.split(",")]
    wrong = [word for word in kinds if word not in KINDS]
    if kinds == ["none"]:
        return frozenset()
    if wrong:
        raise UsageError(f"--fail-on: {wrong[0]!r} is no kind of difference", hint=f"one of {', '.join(KINDS)}, none")
    return frozenset(kinds)
