"""The options of stand-ins, for shells: what each takes by itself, or hands over.

``offered.list`` has a line for each name. `make docs` writes it from the tables of options in ``docs/tools``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def offered(program: str) -> Sequence[str]:
    """Return the options of a stand-in, as they are spelled; none for another name."""
    from fatpack.cli.tools import named

    tool = named(program)
    with open(os.path.join(os.path.dirname(__file__), "offered.list"), encoding="utf-8") as file:
        for line in file:
            name, *options = line.split()
            if tool is not None and name == tool[0]:
                return options
    return ()
