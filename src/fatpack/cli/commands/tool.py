"""``fatpack tool``, for help and completion: ``fatpack.cli.main`` runs the stand-ins themselves."""

from __future__ import annotations

from fatpack.cli.grammar.declared import argument, option, takes
from fatpack.cli.grammar.kinds import FILE, Words
from fatpack.cli.tools import TOOLS, run


@takes(
    option("--as", name="version", metavar="VERSION", help="Follow this version of the original."),
    argument("name", Words(lambda: TOOLS)),
    argument("arguments", FILE, metavar="ARGS...", is_many=True),
    forwards=True,
)
def command(version: str | None, name: str, arguments: tuple[str, ...]) -> int:
    """Behave as another tool, or as one version of it: take its options, print its messages, exit as it does.

    NAME is one of those that `fatpack tool` lists.
    """
    return run([*(["--as", version] if version else []), name, *arguments])
