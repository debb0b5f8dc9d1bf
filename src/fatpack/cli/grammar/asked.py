"""What words ask for that nobody has parsed yet, or that cannot be parsed: how their failure is to be told."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.cli.grammar.declared import Command


def schema_asked(command: Command, words: Sequence[str]) -> str:
    """Return the schema of the document that words behind a command ask for, which need not be right; "" for none."""
    given = dict(_given(command, words))
    if not any(option.asks_for_json(given.get(option.name)) for option in command.options):
        return ""
    return next((schema for name, schema in command.schemas if name in given), command.schema)


def _given(command: Command, words: Sequence[str]) -> Iterator[tuple[str, str | bool]]:
    """Yield options of a command that stand in words, by name, each with its value or that it is there."""
    spelled = {spelling: option for option in command.options for spelling in option.spellings}
    for at, word in enumerate(words):
        if word == "--":
            return
        spelling, equals, text = word.partition("=")
        option = spelled.get(spelling)
        if option is not None and not option.takes_value:
            yield option.name, True
        elif option is not None:
            yield option.name, text if equals else "".join(words[at + 1 : at + 2])
