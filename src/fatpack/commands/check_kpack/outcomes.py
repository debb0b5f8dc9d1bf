"""What programs get from kpack archives, as plain data: alike for ``inspect`` and ``check``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from fatpack.commands.check_kpack.kpack_lookup import LookupResult
    from fatpack.registration.kpack_marker import KpackMarker

#: Names of what is missing; the number is that of all.
_NAMED = 100


def marker_names(markers: Sequence[KpackMarker]) -> dict[str, Any]:
    """Return what a program is called in archives, and where it looks for them, each once."""
    return {
        "names": list(dict.fromkeys(marker.reference.kernel_name for marker in markers)),
        "search_paths": list(dict.fromkeys(path for marker in markers for path in marker.reference.search_paths)),
    }


def lookup_records(outcomes: Iterable[LookupResult], shown: Callable[[str], str]) -> list[dict[str, Any]]:
    """Return what a program gets on each device; ``shown`` is how paths are written."""
    return [
        {
            "device": each.device,
            "resolved": each.resolved,
            "missing": [marker.key for _, marker in each.missing[:_NAMED]],
            "missing_count": len(each.missing),
            "only_newer": len(each.older),
            "wrong": len(each.wrong),
            "archives": [shown(archive.path) for archive in each.used],
        }
        for each in outcomes
        if each.device
    ]
