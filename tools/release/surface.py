"""The public surface as lines of text, one promise each, and the version that a change of them requires.

``surface.txt`` beside this module is the surface of the last release, or of the one in preparation. A recorded line
that
is missing now is a broken promise; a new one is an addition, unless it requires more than before::

    library check: takes paths
    library check: requires paths
    command extract: --output
    schema check: .violations[].code always
    finding FP1001: error
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click

import fatpack
from fatpack import exit_codes
from fatpack.commands import COMMANDS, load_command
from fatpack.findings import CODES
from fatpack.record import Record
from fatpack.tabular.columns import ImageRow, KernelRow
from fatpack.text import schemas
from fatpack.tools import TOOLS

RECORDED = Path(__file__).with_name("surface.txt")

#: Part of lines with requirements for callers: a new one breaks callers, as a lost line of any other kind does.
_ASKS = " requires "

#: Modules of records that callers make; new fields in other records, which callers only get, break no caller.
_MADE_BY_CALLERS = (
    "fatpack.commands.pack.request",
    "fatpack.model",
    "fatpack.selectors.select",
    "fatpack.writer_options",
)


class Broken(NamedTuple):
    """The lines that callers of the recorded surface would miss, and the new requirements."""

    lost: list[str]
    asked: list[str]


def lines() -> list[str]:
    """Return the surface of this code, sorted, each line once."""
    found = [*_library(), *_commands(), *_outputs()]
    found += [f"tool {name}" for name in TOOLS]
    found += [f"finding {code}: {severity}" for code, (severity, _) in CODES.items()]
    found += [f"exit code {name.lower()}: {getattr(exit_codes, name)}" for name in _EXIT_CODES]
    return sorted(set(found))


_EXIT_CODES = ("FINE", "FINDINGS", "USAGE", "MALFORMED", "UNSUPPORTED", "INPUT_OUTPUT")


def recorded() -> tuple[str, list[str]]:
    """Return the version of ``surface.txt``, and its lines."""
    version, *rest = RECORDED.read_text(encoding="utf-8").splitlines()
    return version.removeprefix("fatpack "), rest


def record() -> None:
    """Write the surface of this code as that of its version."""
    RECORDED.write_text("\n".join((f"fatpack {fatpack.__version__}", *lines())) + "\n", encoding="utf-8")


def broken(before: list[str], now: list[str]) -> Broken:
    """Return the broken promises for a caller of one surface who gets the other."""
    lost = [line for line in sorted(set(before) - set(now)) if _ASKS not in line]
    known = {line.partition(_ASKS)[0].removesuffix(":") for line in before}
    news = [line for line in sorted(set(now) - set(before)) if _ASKS in line]
    return Broken(lost, [line for line in news if line.partition(_ASKS)[0].removesuffix(":") in known])


def may_break(before: str, now: str) -> bool:
    """Return whether promises of one version may be broken by another.

    By https://semver.org: a greater major version may, and below 1.0 a greater minor one.
    """
    old, new = _numbers(before), _numbers(now)
    return new[:1] > old[:1] if old[0] else new[:2] > old[:2]


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.partition("+")[0].split(".")[:3] if part.isdigit()]


def _library() -> list[str]:
    found = []
    for name in sorted(set(dir(fatpack)) - {"__version__"}):
        value = getattr(fatpack, name)
        found.append(f"library {name}")
        if inspect.isclass(value):
            found += _members(name, value)
        elif inspect.isroutine(value):
            found += _parameters(name, value)
    return found


def _members(name: str, cls: type) -> list[str]:
    """Return the lines of a class: fields of a record in their order, methods, properties."""
    found = []
    if issubclass(cls, Record):
        found += [f"library {name}: field {field}" for field in cls._fields]
        if cls.__module__ in _MADE_BY_CALLERS:
            found += [f"library {name}: requires {field}" for field in cls._fields if field not in cls._defaults]
    members: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("fatpack") and base is not Record:
            members |= vars(base)
    for member, value in members.items():
        if member.startswith("_") or (issubclass(cls, Record) and member in cls._fields):
            continue
        found.append(f"library {name}: .{member}")
        function = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if inspect.isfunction(function):
            found += _parameters(f"{name}.{member}", function)
    return found


def _parameters(name: str, function: Any) -> list[str]:
    found = []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        kind = " by name" if parameter.kind is parameter.KEYWORD_ONLY else ""
        found.append(f"library {name}: takes {parameter.name}{kind}")
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL:
            found.append(f"library {name}: requires {parameter.name}")
    return found


def _commands() -> list[str]:
    found = []
    for name in COMMANDS:
        found.append(f"command {name}")
        for parameter in load_command(name).params:
            if isinstance(parameter, click.Argument):
                found.append(f"command {name}: {parameter.metavar or (parameter.name or '').upper()}")
            else:
                found += [f"command {name}: {spelling}" for spelling in parameter.opts]
    return found


def _outputs() -> list[str]:
    """Return the lines of the machine-readable output of commands: properties of JSON outputs, columns of rows."""
    found = [f"columns {kind.__name__}: {field}" for kind in (ImageRow, KernelRow) for field in kind._fields]
    for path in sorted(Path(schemas.__file__).parent.glob("*.schema.json")):
        name = path.name.removesuffix(".schema.json")
        root = json.loads(path.read_text(encoding="utf-8"))
        found.append(f"schema {name}: {root['title']}")
        found += _properties(f"schema {name}: ", root, root, ())
    return found


def _properties(place: str, schema: Any, root: Any, within: tuple[str, ...]) -> list[str]:
    """Return the lines of the properties of a schema. A recursive definition is followed once."""
    found: list[str] = []
    if not isinstance(schema, dict):
        return found
    reference = schema.get("$ref", "")
    if reference and reference not in within:
        target = root
        for part in reference.removeprefix("#/").split("/"):
            target = target[part]
        found += _properties(place, target, root, (*within, reference))
    for word in ("anyOf", "oneOf", "allOf"):
        for choice in schema.get(word, ()):
            found += _properties(place, choice, root, within)
    found += _properties(f"{place}[]", schema.get("items"), root, within)
    required = _required(schema)
    for name, inner in schema.get("properties", {}).items():
        always = " always" if name in required else ""
        found += [f"{place}.{name}", *([f"{place}.{name}{always}"] if always else ())]
        found += _properties(f"{place}.{name}", inner, root, within)
    return found


def _required(schema: Mapping[str, Any]) -> set[str]:
    """Return the properties that are always there: those of a document without a failure, too."""
    choices = [set(choice.get("required", ())) for choice in schema.get("anyOf", ())]
    answers = [choice for choice in choices if "error" not in choice]
    return {*schema.get("required", ()), *(set.intersection(*answers) if answers else ())}
