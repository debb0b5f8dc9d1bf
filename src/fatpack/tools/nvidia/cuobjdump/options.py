"""The options of cuobjdump 13.5, what they ask for, and the help."""

from __future__ import annotations

import os
import sys

from fatpack.limits import output_budget
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.tools.nvidia.command_line import NvidiaArguments, NvidiaCommandLineError, NvidiaOption, print_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


_NAMES = "<partial file name>,..."


def is_arch(text: str) -> bool:
    """Return whether a word is an architecture: ``sm_90``, ``sm_90a``. The original knows a list of them."""
    number = text[3:-1] if text.endswith(("a", "f")) else text[3:]
    return text.startswith("sm_") and number.isascii() and number.isdecimal() and len(number) < 9


#: In the order of the help.
OPTIONS = (
    NvidiaOption(
        "all-fatbin",
        "all",
        "flag",
        "Look at __nv_relfatbin, too, where an object has .nv_fatbin.",
    ),
    NvidiaOption("dump-elf", "elf", "flag", "Not offered here: the toolkit's cuobjdump shows the sections of cubins."),
    NvidiaOption("dump-elf-symbols", "symbols", "flag", "Print the symbols of every cubin."),
    NvidiaOption("dump-ptx", "ptx", "flag", "Print every PTX text."),
    NvidiaOption("dump-resource-usage", "res-usage", "flag", "Print what the functions of every cubin need."),
    NvidiaOption("dump-sass", "sass", "flag", "Print the code of every cubin, which nvdisasm disassembles."),
    NvidiaOption("extract-elf", "xelf", "list", "Write the cubins with one of these in their names, or all.", _NAMES),
    NvidiaOption(
        "extract-ptx", "xptx", "list", "Write the PTX texts with one of these in their names, or all.", _NAMES
    ),
    NvidiaOption("extract-text", "xtext", "list", "Write the code of functions, named as -ltext does, or all.", _NAMES),
    NvidiaOption("function", "fun", "list", "Only these functions, with -res-usage and -sass.", "<function name>,..."),
    NvidiaOption(
        "function-index", "findex", "number", "Only the function of this symbol, with -res-usage and -sass.", "<index>"
    ),
    NvidiaOption(
        "gpu-architecture",
        "arch",
        "string",
        "Only what is for this architecture.",
        "<architecture>",
        is_allowed=is_arch,
    ),
    NvidiaOption("help", "h", "flag", "Print this help."),
    NvidiaOption("list-elf", "lelf", "flag", "List the cubins by the names that -xelf gives them."),
    NvidiaOption("list-ptx", "lptx", "flag", "List the PTX texts by the names that -xptx gives them."),
    NvidiaOption("list-text", "ltext", "flag", "List the functions of the cubins by the names that -xtext gives them."),
    NvidiaOption("options-file", "optf", "list", "Read more options from these files.", "<file>,..."),
    NvidiaOption("sort-functions", "sort", "flag", "Order functions by name, with -res-usage and -sass."),
    NvidiaOption("version", "V", "flag", "Print the version."),
)

#: The column of short names in the help.
HELP_WIDTH = 44

#: option → what does it
_REFUSED = {"dump-elf": "the toolkit's cuobjdump"}


class CuobjdumpRequest(Record):
    """The options: names to extract (None: do not extract), what to list, and what a dump shows besides headings.

    ``arch`` is the number of the architecture: of entries, sm_90, sm_90a and sm_90f are the same.
    """

    path: str
    extract_elf: tuple[str, ...] | None
    extract_ptx: tuple[str, ...] | None
    extract_text: tuple[str, ...] | None
    lists_elf: bool
    lists_ptx: bool
    lists_text: bool
    shows_ptx: bool
    shows_resources: bool
    shows_symbols: bool
    shows_code: bool
    functions: tuple[str, ...] | None
    function_index: int | None
    arch: int | None
    wants_accelerated: bool
    wants_all: bool
    is_sorted: bool

    @property
    def extracts(self) -> bool:
        """True if anything is extracted; lists and dumps are ignored then."""
        return (self.extract_elf, self.extract_ptx, self.extract_text) != (None, None, None)

    @property
    def lists(self) -> bool:
        """True if anything is listed; dumps are ignored then."""
        return self.lists_elf or self.lists_ptx or self.lists_text

    def takes(self, arch: str) -> bool:
        """Return whether a cubin that is a file of its own is of the requested architecture.

        QUIRK(cuobjdump 13): any will do, unless one of both, and only one, is a variant ``a`` of another number.
        """
        number, is_accelerated = int(arch[3:].rstrip("a")), arch.endswith("a")
        return self.arch in (None, number) or self.wants_accelerated == is_accelerated


def parse_cuobjdump_request(given: NvidiaArguments) -> CuobjdumpRequest:
    """Return what a command line with one file asks for. Raises NvidiaCommandLineError."""

    def names(option: str) -> tuple[str, ...] | None:
        return tuple(given.values[option]) if option in given.values else None

    def has(option: str) -> bool:
        return bool(given.last(option))

    index = int(given.last("function-index")) if "function-index" in given.values else None
    if index is not None and index < 0:
        raise NvidiaCommandLineError("Option 'function-index' must be non-negative")
    arch = given.last("gpu-architecture")
    request = CuobjdumpRequest(
        given.positional[0],
        names("extract-elf"),
        names("extract-ptx"),
        names("extract-text"),
        has("list-elf"),
        has("list-ptx"),
        has("list-text"),
        has("dump-ptx"),
        has("dump-resource-usage"),
        has("dump-elf-symbols"),
        has("dump-sass"),
        names("function"),
        index,
        int(arch[3:].rstrip("af")) if arch else None,
        arch.endswith("a"),
        has("all-fatbin"),
        has("sort-functions"),
    )
    if not request.extracts and not request.lists:
        for option, instead in _REFUSED.items():
            if has(option):
                raise NvidiaCommandLineError(f"Option '{option}' is not offered by fatpack: use {instead}")
    return request


# The output of the tool: standard output, messages, and the exit code that follows from them.

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
        """Print the buffered output, so that messages come after it; in UTF-8 in any locale, as names are."""
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
        """True if something could not be read."""
        return bool(self._end)

    def finish(self) -> int:
        """Print the remaining messages, and return the exit code."""
        self.flush()
        if self._end:
            self.fatal(self._end)
        return self.code

    def _message(self, kind: str, text: str) -> None:
        self.flush()
        print_message(self._name, kind, text)
