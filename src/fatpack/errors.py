"""The exceptions that fatpack raises, and the words of their messages.

::

    FatpackError
    ├── FormatError        the bytes are wrong
    │   ├── Truncated      a read needs bytes that are not there
    │   ├── BadMagic       this is not the format it was taken for
    │   ├── BadValue       a field holds what the format does not allow
    │   └── LimitExceeded  refused on purpose, to stay within time and memory
    ├── Unsupported        the bytes may be right, this version cannot handle them
    ├── TargetError        an unknown or conflicting target
    ├── HostError          the host cannot be edited as asked
    ├── CommandFailed      a program that was run for an image failed
    └── UsageError         the caller's request is impossible

A message says what is wrong, where, what was expected and what to do::

    host.o → .llvm.offloading: llvm-offload-binary at 0x1a40: image size: 0x9000 + 0x2000 is past the end
    (expected at most 0xa400); the file looks cut short

Operating-system errors (a missing file, a full disk) stay ``OSError``. Exceptions of the libraries used inside
(zlib, zstandard, construct) never leave fatpack; they are the ``__cause__`` of one of these.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


def format_hex(number: int) -> str:
    """Return a number as errors and reports print offsets: ``0x1a40``."""
    return f"-{-number:#x}" if number < 0 else f"{number:#x}"


def pluralize(number: int, noun: str) -> str:
    """Return ``1 image``, ``2 images``, ``2 entries``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun[:-1]}ies" if noun.endswith("y") else f"{number} {noun}s"


def all_count_words(number: int, noun: str) -> str:
    """Return ``both images``, ``all 3 images``, for two or more."""
    return f"both {pluralize(2, noun)[2:]}" if number == 2 else f"all {pluralize(number, noun)}"


#: One entry for each running command.
_commands: list[None] = []


class option_names_in_messages:
    """Within the ``with`` statement, advice names options of the command line instead of Python arguments."""

    def __enter__(self) -> None:
        _commands.append(None)

    def __exit__(self, *_: object) -> None:
        _commands.pop()


def cli_or_api(option: str, python: str) -> str:
    """Return an option for users of the command line, or its Python equivalent: ``--lossy`` or ``lossy=True``.

    Call it when the advice is given, not when a module is imported: only then is it known who gets it.
    """
    return option if _commands else python


#: Longest word, and longest text, of a message. Longer ones are cut: names inside files can have megabytes.
_LONGEST_WORD, _LONGEST_TEXT = 256, 8192
#: Characters that remain at both ends of a text that is cut.
_HEAD, _TAIL = 120, 40


def truncate_words(text: str) -> str:
    """Return the text of a message with very long words, and a very long text, cut in the middle."""
    if len(text) <= _LONGEST_WORD:
        return text
    text = " ".join(word if len(word) <= _LONGEST_WORD else _cut(word) for word in text.split(" "))
    return text if len(text) <= _LONGEST_TEXT else _cut(text)


def _cut(text: str) -> str:
    return f"{text[:_HEAD]}…{len(text) - _HEAD - _TAIL} characters…{text[-_TAIL:]}"


class FatpackError(Exception):
    """The base class of all errors.

    ``problem``: what is wrong; ``hint``: what to do about it (both one line). ``chain``: the file and the containers
    inside it that lead to the error, outermost first. Very long names are cut in the middle, except that of the file.
    """

    #: Exit code of the command line; ``docs/cli.md`` documents the numbers.
    exit_code = 2

    def __init__(self, problem: str, *, hint: str = "", chain: Sequence[str] = ()) -> None:
        self.problem = truncate_words(problem)
        super().__init__(self.problem)
        self.hint = truncate_words(hint)
        self.chain = (*chain[:1], *map(truncate_words, chain[1:]))

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled with positional arguments only, and these have keyword arguments.
        return _unpickled, (type(self), self.args, vars(self))

    def _where(self) -> str:
        return " → ".join(self.chain)

    def __str__(self) -> str:
        text = ": ".join(part for part in (self._where(), self.problem) if part)
        return f"{text}; {self.hint}" if self.hint else text


def _unpickled(kind: type[FatpackError], args: tuple[object, ...], facts: dict[str, object]) -> FatpackError:
    error = kind.__new__(kind, *args)
    vars(error).update(facts)
    return error


class FormatError(FatpackError):
    """The bytes are wrong.

    ``format``: the name of the format. ``offset``: the absolute offset of the error in bytes (in the file itself, or in
    the innermost decompressed member of ``chain``). ``field``: the layout's field. ``expected`` and ``found``: the
    values in words.
    """

    exit_code = 3

    def __init__(
        self,
        problem: str,
        *,
        format: str = "",
        offset: int | None = None,
        field: str = "",
        expected: str = "",
        found: str = "",
        hint: str = "",
        chain: Sequence[str] = (),
    ) -> None:
        super().__init__(problem, hint=hint, chain=chain)
        self.format = format
        self.offset = offset
        self.field = truncate_words(field)
        self.expected = truncate_words(expected)
        self.found = truncate_words(found)

    def describe(self) -> str:
        """Return the message without file, format, offset and hint, which a finding has as separate fields."""
        text = ": ".join(part for part in (self.field, self.problem) if part)
        facts = [f"expected {self.expected}"] if self.expected else []
        facts += [f"found {self.found}"] if self.found else []
        return f"{text} ({', '.join(facts)})" if facts else text

    def __str__(self) -> str:
        place = self.format
        if self.offset is not None:
            place = f"{place} at {format_hex(self.offset)}".strip()
        text = ": ".join(part for part in (self._where(), place, self.describe()) if part)
        return f"{text}; {self.hint}" if self.hint else text


class Truncated(FormatError):
    """A read needs ``needed`` bytes at ``offset``, and only ``left`` remain; ``hint`` if it may be intact."""

    def __init__(
        self,
        *,
        needed: int,
        left: int,
        format: str = "",
        offset: int | None = None,
        field: str = "",
        hint: str = "",
        chain: Sequence[str] = (),
    ) -> None:
        super().__init__(
            f"needs {needed} bytes, {max(left, 0)} left",
            format=format,
            offset=offset,
            field=field,
            hint=hint or "the file looks cut short",
            chain=chain,
        )
        self.needed = needed
        self.left = left


class BadMagic(FormatError):
    """The bytes do not start with the magic of this format."""


class BadValue(FormatError):
    """A field holds a value that the format does not allow, or that contradicts another."""


class LimitExceeded(FormatError):
    """Refused to bound time and memory; the message names the limit and how to raise it."""


class Unsupported(FatpackError):
    """The bytes may be right, but this version of fatpack cannot do what was requested."""

    exit_code = 4


class TargetError(FatpackError):
    """A target is unknown or contradicts another; ``nearest`` lists the known names closest to it."""

    def __init__(self, problem: str, *, nearest: Sequence[str] = (), hint: str = "", chain: Sequence[str] = ()) -> None:
        if nearest and not hint:
            hint = f"did you mean {', '.join(nearest)}?"
        super().__init__(problem, hint=hint, chain=chain)
        self.nearest = tuple(nearest)


class HostError(FatpackError):
    """The host cannot be edited as asked; the message says why and what would work."""

    exit_code = 4


class UsageError(FatpackError):
    """The request is impossible for any file."""


class CommandFailed(FatpackError):
    """A program that was run for an image failed, or wrote no output.

    ``words``: the description of the image. ``returncode``: the exit code, or the negative number of the signal.
    ``output``: the end of the program's output, before which ``dropped`` bytes are left out.
    """

    exit_code = 5

    def __init__(self, problem: str, *, words: str, returncode: int = 0, output: str = "", dropped: int = 0) -> None:
        super().__init__(problem)
        self.words, self.returncode, self.output, self.dropped = words, returncode, output, dropped
