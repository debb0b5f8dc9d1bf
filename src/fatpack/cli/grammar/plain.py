"""Arguments read without click, which takes longer to load than most commands to run.

What is not certain is left to click: it knows what to say of a word that no option has, of a value that is none, of
what is too much or missing. ``tests/laws/test_grammar.py`` holds that both read the same from what is read here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from fatpack.cli.grammar.declared import Argument, Command, Option


def parsed(command: Command, words: Sequence[str]) -> dict[str, Any] | None:
    """Return a value for each parameter of a command, by name; None where click has to look at the words."""
    split = _split(command, arranged(command, words))
    if split is None:
        return None
    texts, left = split
    try:
        values = {option.name: _value(option, texts.get(option.name, ())) for option in command.options}
        arguments = _arguments(command.arguments, left)
    except ValueError:
        return None
    return values | arguments if arguments is not None else None


def arranged(command: Command, words: Sequence[str]) -> list[str]:
    """Return the words with those that count by their places behind the others and a ``--``, in their order.

    These are the arguments, and options that are placed: as their first spelling, with their value as the next word.
    Behind a ``--`` in the words nothing is taken apart, and it stays there as a word of its own.
    """
    placed = {spelling: option for option in command.options if option.is_placed for spelling in option.spellings}
    if not placed:
        return list(words)
    options = {spelling: option for option in command.options for spelling in option.spellings}
    before: list[str] = []
    line: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            line += ["--", *rest]
        elif word[:1] != "-" or word == "-":
            line.append(word)
        else:
            *flags, (spelling, attached) = _uses(word, options)
            option = options.get(spelling)
            value = attached
            if option is not None and option.takes_value and attached is None:
                value = next(rest, None)
                if value is None:
                    return list(words)  # what is missing is said of the words as they are
            if option is None or not option.is_placed or (attached is not None and not option.takes_value):
                before += [word] if value is attached else [word, value or ""]
            else:
                before += [flag for flag, _ in flags]
                line += [option.spellings[0]] if value is None else [option.spellings[0], value]
    return [*before, "--", *line]


def _split(command: Command, words: Sequence[str]) -> tuple[dict[str, list[str]], list[str]] | None:
    """Return the texts that each option is given, by its name, and the words that belong to none."""
    options = {spelling: option for option in command.options for spelling in option.spellings}
    texts: dict[str, list[str]] = {}
    left: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            left += rest
        elif word[:1] != "-" or word == "-":
            left.append(word)
        else:
            for spelling, attached in _uses(word, options):
                option = options.get(spelling)
                if option is None or (attached is not None and not option.takes_value):
                    return None
                text = next(rest, None) if option.takes_value and attached is None else attached or ""
                if text is None:
                    return None
                texts.setdefault(option.name, []).append(text)
    return texts, left


def _uses(word: str, options: dict[str, Option]) -> Iterator[tuple[str, str | None]]:
    """Yield the options in a word, each with the value that the word has for it: ``--a=x``, ``-ox``, ``-vv``."""
    if word.startswith("--"):
        spelling, equals, text = word.partition("=")
        yield spelling, text if equals else None
        return
    for at, letter in enumerate(word[1:], 2):
        spelling = f"-{letter}"
        if spelling in options and options[spelling].takes_value:
            yield spelling, word[at:] or None
            return
        yield spelling, None


def _value(option: Option, texts: Sequence[str]) -> object:
    """Return what a function gets for an option. Raises ValueError for a text that is no value of it."""
    if not texts:
        return option.absent
    if option.use == "values":
        return tuple(map(option.kind.value, texts))
    if option.use == "value":
        return option.kind.value(texts[-1])
    return len(texts) if option.use == "count" else True


def _arguments(arguments: Sequence[Argument], words: Sequence[str]) -> dict[str, Any] | None:
    """Return the words by the arguments that they are for; None if some are missing, or too many."""
    is_open = bool(arguments) and arguments[-1].is_many
    single = arguments[:-1] if is_open else arguments
    if len(words) < len(single) or (len(words) > len(single) and not is_open):
        return None
    values: dict[str, Any] = {each.name: each.kind.value(word) for each, word in zip(single, words, strict=False)}
    if is_open:
        last = arguments[-1]
        values[last.name] = tuple(map(last.kind.value, words[len(single) :]))
    return values
