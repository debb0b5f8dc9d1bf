"""The reader's part of the door: text or bytecode, and the model of it."""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.cir.bytecode.stream import is_bytecode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View
    from fatpack.model import Container


def detect(view: View, at: int = 0) -> bool:
    """Return whether a container starts at ``at``: a module whose first operations mark it as one.

    Looks at the first 64 KiB, further only behind alias definitions and into bytecode and generic text that has the
    words of a container somewhere.
    """
    stored = view.slice(at, len(view) - at)
    try:
        if is_bytecode(stored):
            from fatpack.formats.cir.reader import is_bytecode_container

            return is_bytecode_container(stored)
        from fatpack.formats.cir import detection

        return detection.is_text_container(stored)
    except FormatError:
        return False


def extent(view: View, at: int = 0) -> int | None:
    """Return how many bytes the container at ``at`` takes: all that are left, as a file holds nothing else."""
    return len(view) - at if at <= len(view) and detect(view, at) else None


def parse(view: View, at: int = 0, *, strict: bool = False) -> Container:
    """Return the container that starts at ``at``. Images are the modules' spans of the view; nothing is copied.

    :func:`~fatpack.formats.cir.files.split.split_image` makes of an image a file with all that the module needs.
    Damage behind the first module, broken rules, duplicate and missing bundle IDs are findings; ``strict`` raises for
    the first that makes a container unusable. Raises BadValue, with line and column, where there is no container, and
    LimitExceeded.
    """
    stored = view.slice(at, len(view) - at)
    if is_bytecode(stored):
        from fatpack.formats.cir.reader import parse_bytecode

        return parse_bytecode(stored, strict=strict)
    from fatpack.formats.cir.from_text import parse_text

    return parse_text(stored, strict=strict)


def check_syntax(view: View) -> None:
    """Raise FormatError where a file of MLIR, container or not, is damaged as far as its syntax shows it."""
    if is_bytecode(view):
        from fatpack.formats.cir.bytecode.operations import IrWalker
        from fatpack.formats.cir.bytecode.sections import BytecodeFile

        walker = IrWalker(BytecodeFile(view))
        walker.walk()
        damage = walker.damage
    else:
        from fatpack.formats.cir.modules.outline import Outliner

        damage = Outliner(view).outline().damage
    if damage:
        raise damage
