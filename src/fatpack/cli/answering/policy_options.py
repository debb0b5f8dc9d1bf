"""The options of ``fatpack check`` that say a policy: the same names as in a file of configuration."""

from __future__ import annotations

import click

from fatpack.cli.grammar.command import option_group
from fatpack.cli.grammar.param_types import FILE, TARGET, Choice, Words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


def _presets() -> Iterable[str]:
    """Return the presets that fatpack brings, as ``--require`` takes them."""
    from fatpack.answers.policy.config import brought

    return (f"@{preset.name}" for preset in brought())


#: What may stand in a policy, and where it is read from.
policy_options = option_group(
    click.option(
        "--require",
        multiple=True,
        type=Words(TARGET.words, held="arch", beside=True, marked={"@": _presets}),
        metavar="LIST",
        help="Devices that every unit must serve, by the rules of their runtimes: sm_80,sm_120+ptx,gfx942 or "
        "'RTX 4090'; @NAME is a preset. Repeatable.",
    ),
    click.option(
        "--forbid",
        multiple=True,
        type=TARGET,
        metavar="PATTERN",
        help="No image may be for such an architecture, as sm_5*. Repeatable.",
    ),
    click.option(
        "--max-size",
        metavar="SIZE",
        help="The most bytes that each PATH may have, as 850MB (millions), or 800M or 800MiB (× 2^20).",
    ),
    click.option("--max-growth", metavar="GROWTH", help="With --against: how much PATH may be larger, as 5% or 20MB."),
    click.option(
        "--against", type=FILE, metavar="OLD", help="With --max-growth: the file or folder that PATH was before."
    ),
    click.option("--uniform", is_flag=True, help="Every kernel must be there for every architecture of its library."),
    click.option("--registered", is_flag=True, help="What libraries launch must be registered, and lead to images."),
    click.option(
        "--metadata",
        is_flag=True,
        help="What packages declare must be in them: variant.json, extras and classifiers of wheels, __cuda_arch of "
        "conda, X-ROCm-GPU-Architecture of Debian. Wheels and conda packages may lie unpacked in folders.",
    ),
    click.option(
        "--verify",
        is_flag=True,
        help="Everything must be whole: every image is read to its end, and every checksum, hash and RECORD compared, "
        "as fatpack doctor does it. Takes several times as long.",
    ),
    click.option(
        "--per",
        type=Choice(("unit", "library")),
        help="What must serve a device: each unit, the default, or something in each library.",
    ),
    click.option(
        "--config", type=FILE, metavar="FILE", help="A TOML file with a policy, instead of the nearest pyproject.toml."
    ),
    click.option("--no-config", is_flag=True, help="Read no pyproject.toml."),
    click.option("--presets", "list_presets", is_flag=True, help="List the presets, with what they require, and exit."),
)

#: Settings of a policy by their options; all have the same names in ``[tool.fatpack.check]``.
_SETTINGS = tuple("require forbid max-size max-growth against uniform registered metadata verify per exclude".split())


def settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a policy that are given, by the names that they have in files."""
    values = {name: options[name.replace("-", "_")] for name in _SETTINGS}
    return {name: value for name, value in values.items() if is_given(value)}


def is_given(value: object) -> bool:
    """Return whether an option or a setting asks for something; an empty text does, and cannot be meant."""
    return value is not None and value is not False and value != ()
