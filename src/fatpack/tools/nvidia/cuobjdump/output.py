"""What the tool says: standard output, messages, and the exit code that they lead to."""

from __future__ import annotations

import os
import sys

from fatpack.budget import output_budget
from fatpack.tools.nvidia.command_line import print_message
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: LIMIT: characters that are held back before they are written.
_BLOCK = 1 << 16


class ExitTool(Exception):
    """The last line is printed, and nothing more is to be done."""


class ToolOutput:
    """Lines for standard output, and messages about a file; control characters in names become escapes.

    ``code`` is the exit code so far.
    """

    def __init__(self, name: str, path: str) -> None:
        self.path = path if os.path.isabs(path) or not path else f"{os.getcwd()}/{path}"
        self.code = 0
        self._name = name
        self._held: list[str] = []
        self._size = 0
        self._end = ""

    def line(self, text: str = "", indent: str = "") -> None:
        """Print a line."""
        self._held.append(indent + (text if text.isprintable() else printable(text)))
        self._size += len(text) + 1
        if self._size >= _BLOCK:
            self.flush()

    def lines(self, texts: Iterable[str]) -> None:
        """Print lines."""
        for text in texts:
            self.line(text)

    def raw(self, pieces: Iterable[bytes | memoryview]) -> None:
        """Print bytes as they are."""
        self.flush()
        sys.stdout.flush()
        budget = output_budget()
        for piece in pieces:
            budget.write(len(piece))
            sys.stdout.buffer.write(piece)

    def flush(self) -> None:
        """Print what was held back, so that messages come behind it; in UTF-8, in any locale, as names are."""
        if self._held:
            self._held.append("")
            sys.stdout.flush()
            sys.stdout.buffer.write("\n".join(self._held).encode())
            self._held.clear()
            self._size = 0

    def info(self, text: str) -> None:
        """Print something to know."""
        self._message("info", text)

    def warning(self, text: str) -> None:
        """Print a warning."""
        self._message("warning", text)

    def fatal(self, text: str) -> None:
        """Print what the original stops at; the exit code will be 1."""
        self._message("fatal", text)
        self.code = 1

    def damage(self, text: str, end: str) -> None:
        """Print what cannot be read. The original says ``end`` and stops there; here it is printed when all is done."""
        if text:
            self.warning(text)
        self._end = self._end or end

    def obfuscated(self) -> None:
        """Print that an image cannot be had at all, which is no damage."""
        self.warning(f"Can't deobfuscate entry '{self.path}' without obfuscation key")

    @property
    def is_damaged(self) -> bool:
        """Whether something could not be read."""
        return bool(self._end)

    def finish(self) -> int:
        """Print what is left to say, and return the exit code."""
        self.flush()
        if self._end:
            self.fatal(self._end)
        return self.code

    def _message(self, kind: str, text: str) -> None:
        self.flush()
        print_message(self._name, kind, text)
