"""Facts about the machine beside its device: settings, selection rules and errors, and CUDA versions of drivers."""

from __future__ import annotations

import os
from importlib import import_module

from fatpack.errors import UsageError, cli_or_api
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any


# fatpack's own environment is never read: the user states the environment of the program.


class RuntimeSettings(Record):
    """Versions and environment variables that a runtime reads.

    ``driver`` is the CUDA version of NVIDIA's driver, (13, 0), ``rocm`` that of ROCm, (6, 3); None: unknown.
    ``forces_ptx`` and ``disables_ptx`` are CUDA's variables, ``forces_spirv`` is HIP's. ``xnack`` is "+" or "-" if
    HSA_XNACK is set, ``override`` the processor of HSA_OVERRIDE_GFX_VERSION, "" if they are not set.
    """

    driver: tuple[int, int] | None = None
    rocm: tuple[int, int] | None = None
    forces_ptx: bool = False
    disables_ptx: bool = False
    forces_spirv: bool = False
    xnack: str = ""
    override: str = ""


#: variable → the boolean field that it sets
_SWITCHES = {
    "CUDA_FORCE_PTX_JIT": "forces_ptx",
    "CUDA_FORCE_JIT": "forces_ptx",
    "CUDA_DISABLE_PTX_JIT": "disables_ptx",
    "CUDA_DISABLE_JIT": "disables_ptx",
    "HIP_FORCE_SPIRV_CODEOBJECT": "forces_spirv",
}

#: the variables in the rules
VARIABLES = (*_SWITCHES, "HSA_XNACK", "HSA_OVERRIDE_GFX_VERSION")


def with_variables(settings: RuntimeSettings, variables: Iterable[str]) -> RuntimeSettings:
    """Return settings with variables, each as ``NAME=VALUE``. Raises UsageError for one that no rule has."""
    for text in variables:
        name, _, value = text.partition("=")
        if name in _SWITCHES:
            if value not in ("0", "1"):
                raise UsageError(f"{text[:80]!r} is neither {name}=0 nor {name}=1")
            settings = settings.replace(**{_SWITCHES[name]: value == "1"})
        elif name == "HSA_XNACK":
            if value not in ("0", "1"):
                raise UsageError(f"{text[:80]!r} is neither HSA_XNACK=0 nor HSA_XNACK=1")
            settings = settings.replace(xnack="-+"[int(value)])
        elif name == "HSA_OVERRIDE_GFX_VERSION":
            settings = settings.replace(override=_processor(value))
        else:
            raise UsageError(f"no rule knows the variable {name[:80]!r}", hint=f"known are {', '.join(VARIABLES)}")
    return settings


def _processor(value: str) -> str:
    """Return the processor of a version: gfx1030 for 10.3.0, gfx90a for 9.0.10."""
    parts = value.split(".")
    if len(parts) != 3 or not all(part.isascii() and part.isdigit() and len(part) <= 2 for part in parts):
        raise UsageError(f"{value[:40]!r} is no version for HSA_OVERRIDE_GFX_VERSION", hint="write it as 10.3.0")
    major, minor, stepping = map(int, parts)
    return f"gfx{major}{minor:x}{stepping:x}"


# Selection rules with their sources, and the errors of runtimes.


class SelectionRule(Record):
    """A line of ``data/rules.toml``.

    ``mark`` is the evidence: S the runtime's source, D a vendor's document, F reports, O observed on a device, U
    unknown. ``source`` is the full citation.
    """

    name: str
    says: str
    mark: str
    source: str


class RuntimeFailure(Record):
    """An error of a runtime: ``code`` is its number, ``names`` its names in the interfaces, ``text`` the message."""

    runtime: str
    code: int
    names: tuple[str, ...]
    text: str
    source: str


#: mark → the evidence in words
MARKS = {
    "S": "read in the runtime's source",
    "D": "the vendor's document",
    "F": "reported by users",
    "O": "observed on one device",
    "U": "not known to anybody",
}

_loaded_rules: list[tuple[dict[str, SelectionRule], tuple[RuntimeFailure, ...]]] = []


def _tables() -> tuple[dict[str, SelectionRule], tuple[RuntimeFailure, ...]]:
    if not _loaded_rules:
        path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "rules.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        sources = data["sources"]
        rules = {
            row["rule"]: SelectionRule(row["rule"], row["says"], row["mark"], sources[row["source"]])
            for row in data["rules"]
        }
        errors = tuple(
            RuntimeFailure(row["runtime"], row["code"], tuple(row["names"]), row["text"], sources[row["source"]])
            for row in data["errors"]
        )
        _loaded_rules.append((rules, errors))
    return _loaded_rules[0]


def rule_named(name: str) -> SelectionRule:
    """Return the rule with a name, ``C2``. Raises KeyError if there is none."""
    return _tables()[0][name]


def all_rules() -> tuple[SelectionRule, ...]:
    """Return all rules, in the order of the table."""
    return tuple(_tables()[0].values())


def all_failures() -> tuple[RuntimeFailure, ...]:
    """Return all errors, in the order of the table."""
    return _tables()[1]


def failure_with_code(runtime: str, code: int) -> RuntimeFailure:
    """Return the error of ``cuda`` or ``hip`` with a number. Raises KeyError if it is not in the table."""
    for row in all_failures():
        if (row.runtime, row.code) == (runtime, code):
            return row
    raise KeyError((runtime, code))


class DriverBranch(Record):
    """A line of ``data/drivers.toml``: ``cuda`` is the version of its drivers, (12, 2) for branch 535.

    ``windows`` are the first numbers of its versions on Windows besides ``branch``, ``first`` is the first driver on
    Linux, ``source`` the full citation.
    """

    branch: int
    cuda: tuple[int, int]
    first: str
    source: str
    windows: tuple[int, ...] = ()


_loaded_branches: list[tuple[DriverBranch, ...]] = []


def driver_branches() -> tuple[DriverBranch, ...]:
    """Return all lines of ``drivers.toml``, oldest first; it is read by the first call."""
    if not _loaded_branches:
        path = os.path.join(os.path.dirname(os.path.dirname(__file__)), "data", "drivers.toml")
        with open(path, "rb") as file:
            data: Mapping[str, Any] = import_module("tomllib").load(file)
        _loaded_branches.append(
            tuple(
                DriverBranch(
                    row["branch"],
                    parse_version(row["cuda"]),
                    row["first"],
                    data["sources"][row["source"]],
                    tuple(row.get("windows", ())),
                )
                for row in data["drivers"]
            )
        )
    return _loaded_branches[0]


def parse_version(text: str, what: str = "CUDA version") -> tuple[int, int]:
    """Return a version as numbers: (12, 2) for ``12.2`` and ``12.2.140``, (13, 0) for ``13``. Raises UsageError."""
    parts = text.strip().split(".")
    if not 1 <= len(parts) <= 3 or not all(part.isascii() and part.isdigit() and len(part) <= 4 for part in parts):
        raise UsageError(f"{text[:40]!r} is no {what}", hint="write it as 12.2")
    return int(parts[0]), int(parts[1]) if len(parts) > 1 else 0


def driver_cuda(text: str) -> tuple[int, int]:
    """Return the CUDA version of a driver: (12, 2) for ``535`` and ``535.104.05``.

    Raises UsageError for a branch that is not in the table.
    """
    number = text.strip().partition(".")[0]
    if number.isascii() and number.isdigit() and len(number) <= 4:
        for row in driver_branches():
            if int(number) in (row.branch, *row.windows):
                return row.cuda
    known = ", ".join(str(row.branch) for row in driver_branches()[-6:])
    raise UsageError(
        f"driver {text[:40]!r} is of no branch that is known ({known} are the last)",
        hint="nvidia-smi prints the CUDA version of a driver: name that, " + cli_or_api("--cuda 12.2", "cuda='12.2'"),
    )


def first_branch_with(cuda: tuple[int, int]) -> DriverBranch | None:
    """Return the first branch whose drivers have a CUDA version or a newer one; None if there is none yet."""
    return next((row for row in driver_branches() if row.cuda >= cuda), None)
