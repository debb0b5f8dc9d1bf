"""``fatpack tool``, for help and completion: ``fatpack.cli.main`` runs the stand-ins themselves, without click."""

from __future__ import annotations

import click

from fatpack.cli.completion import FILE, Words
from fatpack.cli.tools import TOOLS, run


@click.command(context_settings={"ignore_unknown_options": True}, add_help_option=False)
@click.option("--as", "version", metavar="VERSION", help="Follow this version of the original.")
@click.argument("name", type=Words(*TOOLS))
@click.argument("arguments", nargs=-1, type=FILE, metavar="ARGS...")
def command(version: str | None, name: str, arguments: tuple[str, ...]) -> int:
    """Behave as another tool, or as one version of it: take its options, print its messages, exit as it does.

    NAME is one of those that `fatpack tool` lists.
    """
    return run([*(["--as", version] if version else []), name, *arguments])
