"""``fatpack tool``, for help, completion, and stand-ins in their places: ``fatpack.main.main`` runs them."""

from __future__ import annotations

import click

from fatpack.command_line.command import Command
from fatpack.command_line.param_types import DIRECTORY, SuggestionType
from fatpack.errors import UsageError
from fatpack.tools import TOOLS, run_stand_in, versions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


def _versions() -> Iterable[str]:
    """Return all versions that some stand-in follows."""
    return dict.fromkeys(version for each in versions.FOLLOWED.values() for version in each.known)


def _names(given: Mapping[str, Sequence[str]]) -> Iterable[str]:
    """Return the names that may stand behind the options: those there are to remove, or that follow a version."""
    if "uninstall" in given:
        from fatpack.tools.install.links import list_placed

        return list_placed(given["uninstall"][-1])
    if "version" in given:
        return [name for name, each in versions.FOLLOWED.items() if given["version"][-1] in each.known]
    if "install" not in given:
        return TOOLS
    with_versions = (f"{name}-{version}" for name, each in versions.FOLLOWED.items() for version in each.known)
    return [*TOOLS, *with_versions]


@click.command(
    "tool",
    cls=Command,
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    add_help_option=False,
)
@click.option(
    "--as", "version", type=SuggestionType(_versions), metavar="VERSION", help="Follow this version of the original."
)
@click.option("--install", type=DIRECTORY, metavar="DIR", help="Place the stand-ins, or those named, in this folder.")
@click.option(
    "--uninstall", type=DIRECTORY, metavar="DIR", help="Remove the stand-ins, or those named, from this folder."
)
@click.option("--which", is_flag=True, help="Show the programs that the names start now, for PATH, clang and nvcc.")
@click.option("-v", "--verbose", count=True, help="With --which: show all names, with their files.")
@click.argument(
    "words",
    type=SuggestionType(lambda: TOOLS, given=_names),
    metavar="NAME [ARGS]...",
    nargs=-1,
)
def command(
    version: str | None,
    install: str | None,
    uninstall: str | None,
    which: bool,
    verbose: int,
    words: tuple[str, ...],
) -> int:
    """Run as a drop-in replacement for cuobjdump, clang-offload-bundler, fatbinary, ...

    `fatpack tool` lists the names; a name may end in a version: llvm-offload-binary-23. --install places links named
    after the tools, so that compilers and build systems call them. Only files of fatpack are overwritten.
    """
    if not (which or install is not None or uninstall is not None):
        return run_stand_in([*(["--as", version] if version else []), *words])
    if which + (install is not None) + (uninstall is not None) > 1:
        raise UsageError("--install, --uninstall and --which exclude each other")
    if version:
        raise UsageError("--as has no meaning here", hint=f"name the version: llvm-offload-binary-{version}")
    from fatpack.tools.install import messages

    if install is not None:
        return messages.install_and_report(install, words)
    return (
        messages.report_callers(words, verbose=verbose)
        if uninstall is None
        else messages.uninstall_and_report(uninstall, words)
    )
