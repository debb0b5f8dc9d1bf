"""The law of completion: a value is offered on TAB, unless it is a number, or is listed here with the reason."""

from __future__ import annotations

import pytest
from tools.docs import stand_ins

from fatpack.cli.commands import COMMANDS, command
from fatpack.cli.grammar.kinds import Choice, FileName, Number, Offset, Pairs, Size, Text, Words
from fatpack.cli.tools import TOOLS
from fatpack.cli.tools.offered import offered

#: Values that nobody can guess.
FREE = {
    "--address": "of a cluster",
    "--build-tag": "the user's",
    "--cir-ids": "the user's, in the order of modules",
    "--cuda": "a version: any driver may be meant",
    "--driver": "a version: any driver may be meant",
    "--exclude": "a pattern",
    "--kpack-family": "the user's",
    "--kpack-group": "the user's",
    "--local-version": "the user's",
    "--max-growth": "a number with a unit",
    "--max-size": "a number with a unit",
    "--rocm": "a version: any driver may be meant",
    "--section": "a name in the host, where it has several alone",
    "-l": "the name of a library without its beginning and its end",
    "command": "a command of the user's, with its own options",
}


def _kinds() -> dict[str, list[Text]]:
    found: dict[str, list[Text]] = {}
    for name in COMMANDS:
        declared = command(name)
        for option in declared.options:
            if option.takes_value:
                found.setdefault(max(option.spellings, key=len), []).append(option.kind)
        for argument in declared.arguments:
            found.setdefault(argument.name, []).append(argument.kind)
    return found


def _is_offered(kind: Text) -> bool:
    if isinstance(kind, Words):
        return bool(kind.held or kind.given or list(kind.words()))
    return isinstance(kind, (FileName, Choice, Pairs))


def test_values_are_offered() -> None:
    kinds = _kinds()
    for name, those in kinds.items():
        for kind in those:
            is_number = isinstance(kind, (Number, Offset, Size))
            assert is_number or _is_offered(kind) != (name in FREE), f"{name}: declare what it may be, or say why not"
    assert FREE.keys() <= kinds.keys(), "FREE has what is no option any more"


@pytest.mark.parametrize("name", TOOLS)
def test_the_options_of_every_stand_in_are_offered(name: str) -> None:
    options = offered(name)
    assert "--version" in options or "-h" in options
    assert all(option.startswith("-") for option in options)
    assert f"{name} {' '.join(options)}\n" in stand_ins.offered()
    assert offered(f"/some/where/{name}") == options
    assert offered("nvcc") == ()
