"""What may stand at the cursor: commands, options, words and files, by the grammar and by the files that were typed."""

from __future__ import annotations

from fatpack.cli import commands
from fatpack.cli.grammar.declared import Argument, Option
from fatpack.cli.grammar.kinds import FILE, TEXT, Choice, FileName, Pairs, Words
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from fatpack.cli.grammar.declared import Command
    from fatpack.cli.grammar.kinds import Text

    #: (what is asked for, such as ``arch``, files) → the words in them; None where they are not known
    Held = Callable[[str, Sequence[str]], Iterable[str] | None]

#: LIMIT: characters of what stands beside an answer: it has a line of the terminal.
_LONGEST = 70


class Answer(Record):
    """One answer: a ``plain`` word with what it is, or a ``file`` or ``dir`` for the shell to complete.

    Of a file, ``value`` is as much of its name as was typed, and ``help`` what stands in front of that in its word:
    ``--output=``.
    """

    kind: str
    value: str
    help: str = ""


class Typed(Record):
    """The words in front of the cursor, sorted: the option that waits for its value, arguments, and what is used up."""

    waiting: Option | None
    arguments: tuple[tuple[Argument, str], ...]
    options: tuple[Option, ...]
    is_open: bool  # behind a ``--``
    values: tuple[tuple[str, str], ...] = ()  # names of options, each with a value

    def given(self) -> dict[str, list[str]]:
        """Return the values of options and arguments by their names."""
        found: dict[str, list[str]] = {}
        for name, text in (*self.values, *((argument.name, word) for argument, word in self.arguments)):
            found.setdefault(name, []).append(text)
        return found


def answers(words: Sequence[str], current: str, held: Held) -> Iterator[Answer]:
    """Yield what may stand in the place of ``current``, behind words: those of the line without the program.

    ``held`` tells what the files hold that the words name.
    """
    if not words:
        if current.startswith("-"):
            yield from _beginning(current, [("--version", "Show the version and exit."), _HELP])
        else:
            yield from _beginning(current, commands.COMMANDS.items())
        return
    if words[0] not in commands.COMMANDS:
        return
    command = commands.command(words[0])
    typed = _typed(command, words[1:])
    if typed is None:
        return
    if typed.waiting:
        yield from _values(typed.waiting.kind, current, typed, held)
    elif current.startswith("--") and "=" in current and not typed.is_open:
        yield from _attached(command, typed, current, held)
    elif current.startswith("-") and not typed.is_open:
        yield from _options(command, typed, current)
    else:
        yield from _arguments(command, typed, current, held)


_HELP = ("--help", "Show this message and exit.")


def _typed(command: Command, words: Sequence[str]) -> Typed | None:
    """Return words sorted by what takes them; None if the grammar takes one of them not at all."""
    spelled = {spelling: option for option in command.options for spelling in option.spellings}
    waiting: Option | None = None
    arguments: list[tuple[Argument, str]] = []
    options: list[Option] = []
    values: list[tuple[str, str]] = []
    is_open = False
    for word in words:
        if waiting:
            values.append((waiting.name, word))
            waiting = None
        elif word == "--" and not is_open:
            is_open = True
        elif word.startswith("-") and word != "-" and not is_open and not (command.forwards and arguments):
            option = spelled.get(word.partition("=")[0]) or spelled.get(word[:2])
            if option is None:
                return None
            options.append(option)
            is_whole = "=" in word if word.startswith("--") else len(word) > 2
            waiting = option if option.takes_value and not is_whole else None
            if option.takes_value and is_whole:
                values.append((option.name, word.partition("=")[2] if word.startswith("--") else word[2:]))
        else:
            argument = _next(command, Typed(None, tuple(arguments), (), is_open))
            if argument is None:
                return None
            arguments.append((argument, word))
    is_open |= bool(command.forwards and arguments)
    return Typed(waiting, tuple(arguments), tuple(options), is_open, tuple(values))


def _next(command: Command, typed: Typed) -> Argument | None:
    """Return the argument that a word is for, behind those that are there."""
    taken = len(typed.arguments)
    if taken < len(command.arguments):
        return command.arguments[taken]
    last = command.arguments[-1:]
    return last[0] if last and last[0].is_many else None


def _options(command: Command, typed: Typed, current: str) -> Iterator[Answer]:
    """Yield options that can still be given; the short spelling only where it was begun alone."""
    used = {option.name for option in typed.options if option.use in ("value", "flag")}
    rows = []
    for option in command.options:
        if option.name not in used:
            spellings = [each for each in option.spellings if each.startswith("--")] or option.spellings
            rows += [(spelling, option.help) for spelling in spellings]
    yield from _beginning(current, [*rows, _HELP])


def _attached(command: Command, typed: Typed, current: str, held: Held) -> Iterator[Answer]:
    """Yield values of the option in ``--option=text``, behind it."""
    spelling, _, text = current.partition("=")
    for option in command.options:
        if spelling in option.spellings and option.takes_value:
            for answer in _values(option.kind, text, typed, held):
                yield _behind(f"{spelling}=", answer)


def _arguments(command: Command, typed: Typed, current: str, held: Held) -> Iterator[Answer]:
    """Yield what the next argument may be. Behind the name of a stand-in come its arguments, behind options names."""
    argument = _next(command, typed)
    if argument:
        is_first = all(each != argument for each, _ in typed.arguments)
        kind = argument.kind
        places = any(isinstance(option.kind, FileName) or option.use == "flag" for option in typed.options)
        if isinstance(kind, Words) and kind.then and not is_first and not places:
            words = [word for each, word in typed.arguments if each == argument]
            yield from _forwarded(kind, words[0], words[1:], current, held)
        else:
            yield from _values(kind, current, typed, held)


def _forwarded(kind: Words, first: str, words: Sequence[str], current: str, held: Held) -> Iterator[Answer]:
    """Yield what may stand behind the name of a stand-in: its options, their values, files."""
    then = kind.then or TEXT
    files = [word.partition("=")[2] if word.startswith("-") else word for word in words]
    typed = Typed(None, tuple((Argument("", FILE, "", True), file) for file in files if file), (), False)
    option, equals, text = current.partition("=")
    if current.startswith("-") and equals:
        value = kind.value_of(first, option) if kind.value_of else None
        yield from (_behind(f"{option}=", answer) for answer in _values(value or then, text, typed, held))
    elif current.startswith("-"):
        yield from _beginning(current, ((each, "") for each in (kind.options(first) if kind.options else ())))
    else:
        value = kind.value_of(first, words[-1]) if kind.value_of and words and words[-1].startswith("-") else None
        yield from _values(value or then, current, typed, held)


def _values(kind: Text, text: str, typed: Typed, held: Held) -> Iterator[Answer]:
    """Yield values of a kind: of several words with commas between them, the last one."""
    if isinstance(kind, FileName):
        yield Answer(kind.name, text)
    elif isinstance(kind, Choice):
        yield from _beginning(text, ((word, "") for word in kind.words))
    elif isinstance(kind, Words):
        before, comma, last = text.rpartition(",")
        before += comma
        if kind.held and not kind.beside and last.startswith("!"):
            before, last = f"{before}!", last[1:]
        words = kind.marked[last[0]]() if last[:1] in kind.marked else _words(kind, typed, held)
        for word in words:
            if word.startswith(last):
                yield Answer("plain", before + word)
    elif isinstance(kind, Pairs):
        yield from _pairs(kind, text, typed, held)


def _words(kind: Words, typed: Typed, held: Held) -> Iterable[str]:
    """Return the words of a kind: those that files hold, that depend on what was typed, or that are known."""
    files = [word for argument, word in typed.arguments if isinstance(argument.kind, FileName)]
    found = held(kind.held, files) if kind.held and files else None
    if found is not None and kind.accepted:
        found = kind.accepted(found)
    if found is not None and not kind.beside:
        return found
    known = kind.given(typed.given()) if kind.given else kind.words()
    return known if found is None else dict.fromkeys((*found, *known))


def _pairs(kind: Pairs, text: str, typed: Typed, held: Held) -> Iterator[Answer]:
    """Yield the keys that are not there yet, or values of the last one."""
    before, comma, last = text.rpartition(",")
    key, equals, value = last.partition("=")
    if not equals:
        used = {each.partition("=")[0] for each in before.split(",")}
        yield from (
            Answer("plain", f"{before}{comma}{each}=")
            for each in kind.keys
            if each.startswith(key) and each not in used
        )
    elif key in kind.keys:
        for answer in _values(kind.keys[key], value, typed, held):
            yield _behind(f"{before}{comma}{key}=", answer)


def _behind(before: str, answer: Answer) -> Answer:
    """Return an answer for the end of a word as one for the word."""
    if answer.kind == "plain":
        return answer.replace(value=before + answer.value)
    return answer.replace(help=before + answer.help)


def _beginning(text: str, rows: Iterable[tuple[str, str]]) -> Iterator[Answer]:
    for word, what in rows:
        if word.startswith(text):
            yield Answer("plain", word, _short(what))


def _short(text: str) -> str:
    """Return the first sentence of a text, if it is not too long for a line."""
    text = " ".join(text.partition(". ")[0].split()).removesuffix(".")
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1].rstrip()}…"
