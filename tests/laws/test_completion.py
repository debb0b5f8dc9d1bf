"""The law of completion: a value is offered on TAB, unless it is a number, or is listed here with the reason."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import click
import pytest
from tools.docs import stand_ins

from fatpack import tools
from fatpack.command_line.param_types import (
    ChoiceType,
    CountType,
    FileType,
    OffsetType,
    PairsType,
    SizeType,
    SuggestionType,
)
from fatpack.commands import COMMANDS, load_command
from fatpack.tools import TOOLS
from fatpack.tools.command import VALUES, option_spellings
from fatpack.tools.llvm.cl_tool import ClTool
from fatpack.tools.llvm.command_line import ClOption as LlvmOption
from fatpack.tools.nvidia.command_line import NvidiaOption

#: Values that cannot be guessed.
FREE = {
    "--address": "of a cluster",
    "--build-tag": "the user's",
    "--by-use-also": "the name of a library, with wildcards",
    "--cir-ids": "the user's, in the order of modules",
    "--cuda": "a version: any driver may be meant",
    "--driver": "a version: any driver may be meant",
    "--exclude": "a pattern",
    "--insist": "a label, the user's",
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


def _kinds() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name in COMMANDS:
        declared = load_command(name)
        for option in declared.options:
            if not (option.is_flag or option.count):
                found.setdefault(max(option.opts, key=len), []).append(option.type)
        for argument in declared.arguments:
            found.setdefault(argument.name or "", []).append(argument.type)
    return found


def _is_offered(kind: Any) -> bool:
    if isinstance(kind, SuggestionType):
        return bool(kind.held or kind.given or list(kind.words()))
    return isinstance(kind, (FileType, ChoiceType, PairsType))


def test_values_are_offered() -> None:
    kinds = _kinds()
    for name, those in kinds.items():
        for kind in those:
            is_number = isinstance(kind, (click.types.IntParamType, CountType, OffsetType, SizeType))
            is_free = name in FREE or (
                name == "--image" and isinstance(kind, click.types.StringParamType)
            )  # the number of an image in a file
            assert is_number or _is_offered(kind) != is_free, f"{name}: declare what it may be, or say why not"
    assert FREE.keys() <= kinds.keys(), "FREE has what is no option any more"


@pytest.mark.parametrize("name", TOOLS)
def test_the_options_of_every_stand_in_are_offered(name: str) -> None:
    options = option_spellings(name)
    assert "--version" in options or "-h" in options
    assert all(option.startswith("-") for option in options)
    assert f"{name} {' '.join(options)}\n" in stand_ins.offered()
    assert option_spellings(f"/some/where/{name}") == options
    assert option_spellings("nvcc") == ()


@pytest.mark.parametrize("name", VALUES)
def test_values_belong_to_options_of_their_stand_in(name: str) -> None:
    options = {option.lstrip("-") for option in option_spellings(name)}
    assert VALUES[name].keys() <= options
    assert all(map(_is_offered, VALUES[name].values()))


def test_options_of_stand_ins_with_few_values_offer_them() -> None:
    """Of options whose tables list values or keywords, shells know them too."""
    offering = {option for values in VALUES.values() for option in values}
    listing = set()
    for found in pkgutil.walk_packages(tools.__path__, f"{tools.__name__}."):
        for each in vars(importlib.import_module(found.name)).values():
            table = each.options if isinstance(each, ClTool) else each
            for option in table if isinstance(table, tuple) else ():
                if isinstance(option, LlvmOption) and option.choices:
                    listing.add(option.name)
                if isinstance(option, NvidiaOption) and (option.keywords or option.kind == "boolean"):
                    listing |= {option.name, option.short}
    assert {"kind", "image3", "compress", "gencode"} <= listing
    assert listing <= offering, "tools/command.py: VALUES lacks some"
