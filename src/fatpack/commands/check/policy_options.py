"""The options of ``fatpack check`` that say a policy: the same names as in a file of configuration."""

from __future__ import annotations

import click

from fatpack.command_line.command import option_group
from fatpack.command_line.param_types import FILE, REQUIRED, TARGET, ChoiceType, SuggestionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


def _presets() -> Iterable[str]:
    """Return the presets that fatpack brings, as ``--require`` takes them."""
    from fatpack.commands.check.config import builtin_presets

    return (f"@{preset.name}" for preset in builtin_presets())


#: What may stand in a policy, and where it is read from.
policy_options = option_group(
    click.option(
        "--require",
        multiple=True,
        type=SuggestionType(
            REQUIRED.words, held="arch", beside=True, marked={"@": _presets}, accepted=REQUIRED.accepted
        ),
        metavar="LIST",
        help="Devices that the code must run on: sm_80,sm_120+ptx,gfx942 or 'RTX 4090'; 'sm_120!' demands machine "
        "code, compute_120 PTX; @NAME is a preset. Repeatable.",
    ),
    click.option(
        "--forbid",
        multiple=True,
        type=TARGET,
        metavar="PATTERN",
        help="Architectures that no image may be for, as sm_5*. Repeatable.",
    ),
    click.option(
        "--max-size",
        metavar="SIZE",
        help="The largest allowed size of each PATH, as 850MB or 800MiB.",
    ),
    click.option("--max-growth", metavar="GROWTH", help="With --against: how much PATH may grow, as 5% or 20MB."),
    click.option("--against", type=FILE, metavar="OLD", help="With --max-growth: the earlier file or folder."),
    click.option("--uniform", is_flag=True, help="Every kernel must exist for every architecture of its library."),
    click.option("--registered", is_flag=True, help="Kernels that libraries launch must be registered, with images."),
    click.option(
        "--strict",
        is_flag=True,
        help="With --registered: what could not be judged fails, as if code could not be read.",
    ),
    click.option(
        "--metadata",
        is_flag=True,
        help="Packages must contain the architectures that their metadata declares.",
    ),
    click.option(
        "--verify",
        is_flag=True,
        help="Also verify every file completely, as `fatpack doctor` does (slow).",
    ),
    click.option(
        "--per",
        type=ChoiceType(("unit", "library")),
        help="Where --require must hold: in each unit (default), or in each library as a whole.",
    ),
    click.option(
        "--config",
        type=FILE,
        metavar="FILE",
        help="Read the policy from this TOML file, not from the nearest pyproject.toml.",
    ),
    click.option("--no-config", is_flag=True, help="Read no pyproject.toml."),
    click.option("--presets", "list_presets", is_flag=True, help="List the presets, and exit."),
)

#: Settings of a policy by their options; all have the same names in ``[tool.fatpack.check]``.
_SETTINGS = tuple(
    "require forbid max-size max-growth against uniform registered strict metadata verify per exclude".split()
)


def policy_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a policy that are given, by the names that they have in files."""
    values = {name: options[name.replace("-", "_")] for name in _SETTINGS}
    return {name: value for name, value in values.items() if has_value(value)}


def has_value(value: object) -> bool:
    """Return whether an option or a setting asks for something; an empty text does, and cannot be meant."""
    return value is not None and value is not False and value != ()
