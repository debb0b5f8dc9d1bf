"""Which arguments stand for a file with more of them: ``@FILE``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: the option behind which @NAME is a preset, and no file
_PRESETS = "--require"


def has_response_files(arguments: Sequence[str]) -> bool:
    """Return whether one of the arguments stands for a file."""
    return any(word.startswith("@") for word in arguments) and any(
        is_response_file(arguments, at) for at in range(len(arguments))
    )


def is_response_file(arguments: Sequence[str], at: int) -> bool:
    """Return whether the argument at a position stands for a file with more of them."""
    word = arguments[at]
    return word.startswith("@") and len(word) > 1 and not (at and arguments[at - 1] == _PRESETS)
