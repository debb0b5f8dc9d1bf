"""What ``--help`` of NVIDIA's tools prints."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from fatpack.tools.nvidia.command_line import NvidiaOption


def help_page(usage: str, options: Iterable[NvidiaOption], width: int) -> str:
    """Return the help: options that have a text, in the original's layout. Short names begin behind ``width``."""
    lines = ["", f"Usage  : {usage}", "", "Options", "=======", ""]
    for option in options:
        if option.help:
            spelled = f"--{option.name} {option.value}".rstrip()
            lines += [f"{spelled.ljust(width)}(-{option.short})", f"        {option.help}", ""]
    return "\n".join([*lines, ""])
