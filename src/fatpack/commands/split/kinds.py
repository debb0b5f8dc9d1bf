"""Kinds of packages: the choice of one for a file. ``plan`` has the interface that each of them has."""

from __future__ import annotations

from fatpack.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from contextlib import ExitStack

    from fatpack.commands.split.plan import SplitPackage
    from fatpack.io.source import View


def open_package(view: View, path: str, stack: ExitStack) -> SplitPackage:
    """Return the package in a file, whose libraries ``stack`` closes.

    Every file is compared with what the package says of it. Raises UsageError for another kind of file, HostError for
    a signed package, and FormatError for a damaged one.
    """
    if path.endswith(".whl"):
        from fatpack.commands.split.wheels import FatWheel

        return FatWheel(view, path, stack)
    if path.endswith((".conda", ".tar.bz2")):
        from fatpack.commands.split.conda import FatConda

        return FatConda(view, path, stack)
    raise UsageError(
        f"{path} is no wheel and no conda package", hint="fatpack slim FILE --for DEVICE takes other files"
    )
