"""What objects and programs register, in numbers: the lines of ``inspect``, and the same as plain data.

::

    registered: 12 kernels, 2 variables, by clang ≥ 21 entries
    845 records of CUDA register containers; --runtime follows the code
    a.o: registered: 3 kernels, by nvcc calls
"""

from __future__ import annotations

from fatpack.errors import pluralize
from fatpack.registration.analysis.counts import CALLS
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from fatpack.registration.analysis.counts import RegistrationCounts

#: findings that say: there are offload entries, and nothing registers them
_UNREGISTERED = ("FP3049",)

#: how the makers of units are called whose tables others hand to a runtime
_ENTRIES = "entries"

#: Members of an archive with a line each; of more, those that were made alike have one together.
_SHOWN = 4

#: what is called as its makers call it
_TITLES = {"cuda": "CUDA", "hip": "HIP", "openmp": "OpenMP", "sycl": "SYCL"}


def unit_records(units: Iterable[RegistrationCounts]) -> list[dict[str, Any]]:
    """Return what units register as plain data."""
    return [
        {
            "member": unit.member,
            **({"member_numbers": list(unit.numbers)} if unit.numbers else {}),
            "models": list(unit.models),
            "kernels": unit.kernels,
            "variables": unit.variables,
            "records": unit.records,
            "by": unit.by,
        }
        for unit in units
    ]


def has_registration(findings: Iterable[Mapping[str, Any]]) -> bool:
    """Return whether something registers what a file has for that, as far as its findings say."""
    return not any(item["code"] in _UNREGISTERED for item in findings)


def registration_lines(
    records: Sequence[Mapping[str, Any]], indent: str, *, is_registered: bool = True
) -> Iterator[str]:
    """Yield a line for each unit, or for those that were made alike where there are many.

    Without ``is_registered`` there are entries for a runtime, and nothing that hands them over.
    """
    if len(records) <= _SHOWN:
        for record in records:
            name = f"{record['member']}: " if record["member"] else ""
            yield printable(f"{indent}{name}{registration_words(record, is_registered=is_registered)}")
        return
    groups: dict[tuple[str, bool], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault((record["by"], record["kernels"] is None), []).append(record)
    for (by, is_counted), group in groups.items():
        total = {
            "models": list(dict.fromkeys(model for record in group for model in record["models"])),
            "kernels": None if is_counted else sum(record["kernels"] for record in group),
            "variables": None if is_counted else sum(record["variables"] for record in group),
            "records": sum(record["records"] for record in group),
            "by": by,
        }
        yield f"{indent}{registration_words(total, is_registered=is_registered)}, in {pluralize(len(group), 'member')}"


def registration_words(record: Mapping[str, Any], *, is_registered: bool = True) -> str:
    """Return what a unit registers, or declares for nobody."""
    if record["kernels"] is None:
        models = " and ".join(_TITLES[model] for model in record["models"])
        if record["by"] != CALLS:
            return f"registered: {pluralize(record['records'], 'record')} of {models}, by {record['by']}"
        verb = "registers" if record["records"] == 1 else "register"
        return f"{pluralize(record['records'], 'record')} of {models} {verb} containers; --runtime follows the code"
    parts = [pluralize(record["kernels"], "kernel")]
    if record["variables"]:
        parts.append(pluralize(record["variables"], "variable"))
    if record["by"]:
        parts.append(f"by {record['by']}")
    if not is_registered and record["by"].endswith(_ENTRIES):
        return f"declared, and registered by nobody: {', '.join(parts)}"
    return f"registered: {', '.join(parts)}"
