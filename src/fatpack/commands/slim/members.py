"""The files of a package that slimming looks at, what it makes of each, and what that saves in the package."""

from __future__ import annotations

from fatpack.errors import FatpackError, FormatError, HostError, Unsupported
from fatpack.inputs.passed import is_skipped
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol, TypeAlias

    from fatpack.io.source import Piece, View

    class SlimmedMember(Protocol):
        """What is made of a file: its bytes, whether they are other ones, and whatever more is known of them.

        ``verify`` raises HostError unless a file is what this makes of the one before.
        """

        @property
        def pieces(self) -> Sequence[Piece]: ...  # noqa: D102
        @property
        def is_changed(self) -> bool: ...  # noqa: D102
        def verify(self, before: View, after: View) -> None: ...  # noqa: D102

    #: returns what a file becomes (``fatpack.commands.slim.plan.plan_slim`` with wishes); its pieces are read while it
    #: is open
    Slimming: TypeAlias = Callable[[View], SlimmedMember]


class PackageLibrary(Record):
    """A file of a package that was looked at.

    ``before`` and ``after`` are its size in bytes, ``stored_before`` and ``stored_after`` those that it takes in the
    package, compressed, None where files are compressed together. ``slimmed`` is what was made of it, whose pieces
    cannot be read any more; None where it stays because of an ``error``.
    """

    name: str
    before: int
    after: int
    stored_before: int | None
    stored_after: int | None
    slimmed: SlimmedMember | None
    error: FatpackError | OSError | None = None

    @property
    def is_changed(self) -> bool:
        """Whether the file is another one."""
        return self.slimmed is not None and self.slimmed.is_changed


def try_to_slim(slimming: Slimming, view: View) -> SlimmedMember | FatpackError:
    """Return what becomes of a file, or why it stays as it is: it is damaged, or its host is not edited.

    Raises what concerns all files: wishes that are impossible, and those that would take something away that is needed.
    """
    try:
        return slimming(view)
    except (FormatError, HostError, Unsupported) as error:
        return error


def may_hold_device_code(name: str) -> bool:
    """Return whether a file may hold device code, by its name: what describes an installed wheel holds none."""
    return ".dist-info/" not in name and not is_skipped(name)
