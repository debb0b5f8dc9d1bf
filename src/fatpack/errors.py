"""Everything fatpack raises on purpose.

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


#: One for each command that runs.
_commands: list[None] = []


class option_names_in_messages:
    """Within the ``with`` statement, advice names options of the command line: whoever reads it typed a command."""

    def __enter__(self) -> None:
        _commands.append(None)

    def __exit__(self, *_: object) -> None:
        _commands.pop()


def cli_or_api(option: str, python: str) -> str:
    """Return how advice names what a user and a program do alike: ``--lossy`` to one, ``lossy=True`` to the other.

    Call it where the advice is given, not when a module is loaded: who asks is known only then.
    """
    return option if _commands else python


#: Words of a message are printed whole up to this length, and messages too. Names inside files can take megabytes.
_LONGEST_WORD, _LONGEST_TEXT = 256, 8192
#: What is left of both ends of a longer one.
_HEAD, _TAIL = 120, 40


def truncate_words(text: str) -> str:
    """Return the text of a message with words that are very long cut in their middle, and the text itself if it is."""
    if len(text) <= _LONGEST_WORD:
        return text
    text = " ".join(word if len(word) <= _LONGEST_WORD else _cut(word) for word in text.split(" "))
    return text if len(text) <= _LONGEST_TEXT else _cut(text)


def _cut(text: str) -> str:
    return f"{text[:_HEAD]}…{len(text) - _HEAD - _TAIL} characters…{text[-_TAIL:]}"


class FatpackError(Exception):
    """The root of the tree.

    ``problem`` is what is wrong, ``hint`` what to do about it (both one line); ``chain`` names the file and the
    containers inside it that lead to the place, outermost first. Names that are very long are cut in their middle,
    except that of the file.
    """

    #: What the command line exits with; the numbers are documented in ``docs/cli.md``.
    exit_code = 2

    def __init__(self, problem: str, *, hint: str = "", chain: Sequence[str] = ()) -> None:
        self.problem = truncate_words(problem)
        super().__init__(self.problem)
        self.hint = truncate_words(hint)
        self.chain = (*chain[:1], *map(truncate_words, chain[1:]))

    def __reduce__(self) -> tuple[object, ...]:
        # What raises it takes keywords, which exceptions are not pickled with by themselves.
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

    ``format`` is the name of the format, ``offset`` the absolute offset of the fault in bytes (in the innermost
    member of ``chain`` that holds bytes as such: the file itself, or the result of a decompression), ``field`` the
    layout's field, ``expected`` and ``found`` the values in words.
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
        """Return the message without file, format, offset and hint: for a finding, which carries those itself."""
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
    """A read needs ``needed`` bytes at ``offset``, and only ``left`` are there; a ``hint`` if it may be no cut."""

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
    """The bytes do not start as this format does."""


class BadValue(FormatError):
    """A field holds a value that the format does not allow, or that contradicts another."""


class LimitExceeded(FormatError):
    """Refused on purpose; the message names the limit and how to raise it."""


class Unsupported(FatpackError):
    """The bytes may be right, but this version of fatpack cannot do what was asked with them."""

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
    """The request is impossible whatever the files hold."""


class CommandFailed(FatpackError):
    """A program that was run for an image failed, or made nothing.

    ``words`` name the image, ``returncode`` is what the program ended with (negative: the signal that ended it), and
    ``said`` the end of what it printed, in front of which ``dropped`` bytes are left out.
    """

    exit_code = 5

    def __init__(self, problem: str, *, words: str, returncode: int = 0, said: str = "", dropped: int = 0) -> None:
        super().__init__(problem)
        self.words, self.returncode, self.said, self.dropped = words, returncode, said, dropped
