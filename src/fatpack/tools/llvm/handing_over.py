"""Command lines that a stand-in leaves to the original: it is looked for, and takes the place of this process.

Beside the program as it was typed, then on PATH; with the version in its name, too. What is fatpack itself, or a script
that calls it, is passed over. Other files can lead back here: a variable of the environment has the paths that were
handed a command line on the way, and the search goes on behind them. So each is called once at most, and the search
ends.
"""

from __future__ import annotations

import os
import sys

from fatpack.concurrency.system import find_programs
from fatpack.tools.ours import is_command, is_script
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Has the paths that command lines were handed to on the way here, as PATH has folders.
_HANDED = "FATPACK_HANDED_OVER"


def exec_original(program: str, tool: str, arguments: Sequence[str], version: str, *, offered: str) -> int:
    """Become the original with these arguments; return 1 after saying where to get it if it is nowhere.

    ``offered`` says what the stand-in does itself.
    """
    handed = list(filter(None, os.environ.get(_HANDED, "").split(os.pathsep)))
    for path in _originals(program, tool, version):
        if path in handed:
            continue
        sys.stdout.flush()
        handed.append(path)
        os.environ[_HANDED] = os.pathsep.join(handed)
        try:
            os.execv(path, [path, *arguments])
        except OSError as error:
            # Made for another machine, or a script without an interpreter.
            handed.pop()
            sys.stderr.write(printable(f"{program}: warning: {path} cannot be run: {error.strerror}") + "\n")
    back = [path for path in handed if os.path.basename(path) in _names(tool, version)]
    known = f" ({', '.join(back)} leads back to fatpack)" if back else ""
    text = (
        f"{program}: error: fatpack offers {offered}; all else is {tool}'s of LLVM {version}, which is neither beside "
        f"this program nor on PATH{known}: install LLVM (on Debian the package llvm-{version}), or add its bin to PATH"
    )
    sys.stderr.write(printable(text) + "\n")
    return 1


def _names(tool: str, version: str) -> tuple[str, str]:
    return tool, f"{tool}-{version}"


def _originals(program: str, tool: str, version: str) -> Iterator[str]:
    """Yield the paths of programs that can be the original, each once."""
    folder = os.path.dirname(program)
    seen: set[str] = set()
    for path in map(os.path.abspath, find_programs(_names(tool, version), [folder])):
        if path not in seen and not is_command(path) and not is_script(path):
            yield path
        seen.add(path)
