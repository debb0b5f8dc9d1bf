"""``fatpack tool llvm-foreach``: one command for each file of some lists, as DPC++'s tool runs them.

Source: ``llvm/tools/llvm-foreach/llvm-foreach.cpp`` of intel/llvm. ``docs/tools/llvm-foreach.md`` lists all
differences.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # signal, which is the public name, imports enum
import os
import sys
import time

from fatpack.commands.wrap.file_table import read_names
from fatpack.concurrency.system import find_programs
from fatpack.concurrency.threads import core_count
from fatpack.errors import FatpackError, UsageError
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.printable import printable
from fatpack.record import Record
from fatpack.tools.llvm import cl_tool, command_line
from fatpack.tools.llvm.cl_tool import ToolError, strerror

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


# One command for every name of a list: words with names in the place of marks, and several programs that run.
#
# Commands share the streams of this process, and their output is passed through: ``fatpack map`` collects the output
# (:mod:`fatpack.commands.map.map`), llvm-foreach of DPC++ does not.

#: seconds between two looks at programs that run beside each other, at first and at most
_SHORTEST, _LONGEST = 0.0005, 0.01


class ProcessFailed(Record):
    """A program that ended: which command it was, and its exit code; negative: the signal, which ``words`` name."""

    number: int
    code: int
    words: str = ""


def substitute(word: str, values: Mapping[str, str]) -> str:
    """Return a word with values in the place of marks: each where it comes first; of overlapping ones the first."""
    places = sorted((word.find(mark), -len(mark), mark) for mark in values if mark and mark in word)
    parts: list[str] = []
    at = 0
    for start, _, mark in places:
        if start >= at:
            parts += [word[at:start], values[mark]]
            at = start + len(mark)
    return "".join((*parts, word[at:]))


def create_output(folder: str, stem: str, extension: str, *, mode: int = 0o666) -> str:
    """Create an empty file of a name that no other has, and return its path. Raises ``OSError`` if it cannot be."""
    while True:
        path = os.path.join(folder, f"{stem}-{os.urandom(3).hex()}.{extension}".removesuffix("."))
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        except FileExistsError:
            continue
        return path


class RunningPrograms:
    """Programs that run beside each other, at most ``count``; at the end of the block none does::

    with Running(4) as running:
        for number, arguments in enumerate(commands):
            ended = running.made_room()
            running.start(number, program, arguments)
        for ended in running.rest():
            …

    Raises UsageError on Windows, where processes are started in another way.
    """

    def __init__(self, count: int) -> None:
        if not hasattr(os, "posix_spawn"):
            raise UsageError("this system has no posix_spawn, by which programs are started here", hint="fatpack map")
        self._count = count
        self._numbers: dict[int, int] = {}

    def __enter__(self) -> RunningPrograms:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._numbers:
            os.kill(process, _signal.SIGTERM)
        for process in self._numbers:
            os.waitpid(process, 0)
        self._numbers.clear()

    def made_room(self) -> ProcessFailed | None:
        """Wait until one program more may run; return the one that ended for it, None if there was room."""
        return self._first() if len(self._numbers) == self._count else None

    def start(self, number: int, program: str, arguments: Sequence[str]) -> None:
        """Start a program, without a shell. Raises ``OSError`` if it cannot be run."""
        # Python ignores these two, and what it starts would, too.
        signals = [_signal.SIGPIPE, _signal.SIGXFSZ]
        process = os.posix_spawn(program, list(arguments), os.environ, setsigdef=signals)
        self._numbers[process] = number

    def rest(self) -> Iterator[ProcessFailed]:
        """Yield the programs that still run, in the order in which they were started, as they end."""
        while self._numbers:
            process = next(iter(self._numbers))
            yield self._ended(process, os.waitpid(process, 0)[1])

    def _first(self) -> ProcessFailed:
        """Wait for any of the programs."""
        if len(self._numbers) == 1:
            return next(self.rest())
        pause = _SHORTEST
        while True:
            for process in self._numbers:
                found, status = os.waitpid(process, os.WNOHANG)
                if found:
                    return self._ended(process, status)
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST)

    def _ended(self, process: int, status: int) -> ProcessFailed:
        code = os.waitstatus_to_exitcode(status)
        words = "" if code >= 0 else _signal.strsignal(-code) or f"Unknown signal {-code}"
        return ProcessFailed(
            self._numbers.pop(process), code, f"{words} (core dumped)" if os.WCOREDUMP(status) else words
        )


_O = command_line.ClOption
_TOOL = cl_tool.ClTool(
    "llvm-foreach",
    "DPC++",
    """\
llvm-foreach: Execute specified command as many times as
necessary to use up the list of input items.
Usage:
llvm-foreach --in-file-list=a.list --in-replace='{}' -- echo '{}'
NOTE: commands containig redirects are not supported by llvm-foreach
yet.""",
    "[options] <command>",
    (
        cl_tool.COLOR.replace(is_hidden=False),
        cl_tool.HELPING_H,
        *cl_tool.GENERIC,
        _O(
            "in-file-list",
            "list",
            "Input list of file names, file names must be delimited by a newline character.",
            "<filename>",
            is_required=True,
        ),
        _O(
            "in-replace",
            "list",
            "Specify input path in input command, this will be replaced with names read from corresponding input list "
            "of files.",
            "<R>",
            is_required=True,
        ),
        _O("j", "uint", "Alias for --jobs", is_hidden=True, alias_of="jobs"),
        _O(
            "jobs",
            "uint",
            "Specify the number of threads for launching input commands in parallel mode",
            "<uint>",
        ),
        _O(
            "out-dir",
            "string",
            "Specify directory for output files; If unspecified, assume system temporary directory.",
            "<R>",
        ),
        _O("out-ext", "string", "Specify extension for output files; If unspecified, assume .out", "<R>"),
        _O("out-file-list", "string", "Specify filename for list of outputs.", "<filename>"),
        _O(
            "out-increment",
            "string",
            "Specify output file which should be incrementally named with each pass.",
            "<R>",
        ),
        _O(
            "out-replace",
            "string",
            "Specify output path in input command, this will be replaced with name of temporary file created for "
            "writing command's outputs.",
            "<R>",
        ),
    ),
    least=1,
    groups=(("Color Options", ("color",)), ("General options", ()), ("Generic Options", cl_tool.GENERIC_NAMES)),
)

#: Results of LLVM's ``sys::Wait`` for signals, and for exit codes of a shell that could not run a program.
_CODES = {127: (-1, "No such file or directory"), 126: (-1, "Program could not be executed")}
_SIGNAL = -2


def main(program: str, arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code: that of the last command that failed, 0 if none did."""
    given = cl_tool.parse_or_help(_TOOL, program, arguments)
    if isinstance(given, int):
        return given
    try:
        return _ForeachRun(given).run() & 0xFF
    except (ToolError, FatpackError) as error:
        _say(str(error))
        return 1


class _ForeachRun:
    """One command line: its words, where names go in them, and the lists of names."""

    def __init__(self, given: command_line.ClArguments) -> None:
        self._words = given.positional
        self._marks, lists = given.values["in-replace"], given.values["in-file-list"]
        if len(lists) != len(self._marks):
            raise ToolError("Number of input file lists and input path replaces don't match.")
        self._lists = [_names(name) for name in lists]
        self._out = given.last("out-replace")
        self._folder = given.last("out-dir")
        self._extension = given.last("out-ext") if "out-ext" in given.values else "out"
        self._list = given.last("out-file-list")
        self._increment = given.last("out-increment")
        self._out_word = self._last_word_with(self._out)
        self._increment_word = self._last_word_with(self._increment)
        if self._out and not self._out_word:
            raise ToolError("Couldn't find replace string for output in the command.")
        if self._increment and not self._increment_word:
            _say(f"warning: no argument of the command has '{self._increment}', which --out-increment names")
        found = _program(self._words[0])
        if found is None:
            raise ToolError(_failed(self._words, 0, "No such file or directory"))
        self._program = found
        if any(len(names) != len(self._lists[0]) for names in self._lists):
            raise ToolError("All input file lists must have same number of lines!")
        self._jobs = command_line.parse_integer(given.last("jobs") or "1", 0, (1 << 32) - 1) or 0
        if not self._jobs:
            raise ToolError("Number of parallel threads should be a positive integer")
        if self._jobs > core_count():
            self._jobs = core_count()
            sys.stdout.write(f"llvm-foreach: adjusted number of threads to {self._jobs} (max safe available).\n")
            sys.stdout.flush()

    def run(self) -> int:
        """Run the command for every line of the lists; return the code of the last that failed. Raises ToolError."""
        if not hasattr(os, "posix_spawn"):
            raise ToolError("fatpack runs commands only where the system has posix_spawn")
        if self._list not in ("", "-"):
            self._check_list()
        code = 0
        outputs: list[str] = []
        commands: dict[int, list[str]] = {}
        with RunningPrograms(self._jobs) as programs:
            for number in range(len(self._lists[0])):
                commands[number] = self._command(number, outputs)
                ended = programs.made_room()
                if ended is not None:
                    code = self._told(ended, commands) or code
                try:
                    programs.start(number, self._program, commands[number])
                except OSError as error:
                    _say(_failed(commands[number], 0, f"posix_spawn failed: {strerror(error)}"))
                    code = 1
            for ended in programs.rest():
                code = self._told(ended, commands) or code
        if self._list:
            self._write_list(outputs)
        return code

    def _last_word_with(self, mark: str) -> int:
        """Return the number of the last argument with a mark, 0 (which is the program) for none."""
        return max((number for number, word in enumerate(self._words) if number and mark and mark in word), default=0)

    def _command(self, number: int, outputs: list[str]) -> list[str]:
        """Return the words for one line of the lists; creates the file that its output goes to."""
        output = self._output() if self._out else ""
        names = {mark: names[number] for mark, names in zip(self._marks, self._lists, strict=True)}
        command = self._words[:1]
        for place, word in enumerate(self._words[1:], 1):
            # The file of the output first: its mark may hold another.
            values = {self._out: output, **names} if output and place == self._out_word else names
            suffix = f"_{number}" if number and place == self._increment_word else ""
            command.append(substitute(word, values) + suffix)
        if output:
            outputs.append(output)
        return command

    def _output(self) -> str:
        stem = os.path.basename(self._out) or "."
        if stem not in (".", ".."):
            stem = stem.rpartition(".")[0] if "." in stem else stem
        try:
            if self._folder:
                return create_output(self._folder, stem, self._extension)
            return create_output(_temporary_folder(), stem, self._extension, mode=0o600)
        except OSError as error:
            raise ToolError(f"Could not create a file for command output.: {strerror(error)}") from error

    def _told(self, ended: ProcessFailed, commands: dict[int, list[str]]) -> int:
        """Return the code of a program that ended as the original sees it, after saying that it failed."""
        command = commands.pop(ended.number)
        code, words = _CODES.get(ended.code, (ended.code, ""))
        if ended.code < 0:
            code, words = _SIGNAL, ended.words
        if code:
            _say(_failed(command, code, words))
        return code

    def _check_list(self) -> None:
        """See that the list can be written before any command runs."""
        try:
            with open(self._list, "ab"):
                pass
        except OSError as error:
            raise ToolError(f"error opening the file '{self._list}': {strerror(error)}") from error

    def _write_list(self, outputs: Sequence[str]) -> None:
        data = "".join(f"{name}\n" for name in outputs).encode("utf-8", "surrogateescape")
        if self._list == "-":
            sys.stdout.flush()
            os.write(1, data)
            return
        try:
            write_file(self._list, [data], force=True)
        except OSError as error:
            raise ToolError(f"error opening the file '{self._list}': {strerror(error)}") from error


def _names(name: str) -> list[str]:
    try:
        with open_source(name) as source:
            return read_names(source.view())
    except OSError as error:
        raise ToolError(f"'{name}': {strerror(error)}") from error


def _program(name: str) -> str | None:
    """Return the path of a program: as it is if it has a folder, else the first on PATH that can be run."""
    return name if "/" in name else next(find_programs([name]), None)


def _temporary_folder() -> str:
    names = ("TMPDIR", "TMP", "TEMP", "TEMPDIR")
    return next(filter(None, map(os.environ.get, names)), "/tmp")


def _failed(words: Sequence[str], code: int, text: str) -> str:
    first = "command failed" + (f" with error code: {code}" if code else "") + (f": {text}" if text else "")
    return f"{first}\nllvm-foreach: command: {' '.join(map(_quoted, words))}"


def _quoted(word: str) -> str:
    return '"' + "".join(f"\\{letter}" if letter in '"\\$' else letter for letter in word) + '"'


def _say(text: str) -> None:
    sys.stderr.write("".join(f"{printable(line)}\n" for line in f"llvm-foreach: {text}".split("\n")))
    sys.stderr.flush()
