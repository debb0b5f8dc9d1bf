"""What ``inspect`` says of a program whose device code was moved: which archives it looks for, and what is beside it.

The record is ``kpack`` of a file in ``fatpack.inspect/1``.
"""

from __future__ import annotations

import os

from fatpack.commands.check_kpack.outcomes import lookup_records, marker_names
from fatpack.errors import pluralize
from fatpack.model import Finding
from fatpack.registration import hip
from fatpack.text.text import align_columns
from fatpack.words_printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from fatpack.io.source import View

#: LIMIT: markers of which the record says where they are; ``count`` is the number of all.
_MOST = 1000

#: names of missing code objects in the text
_NAMED = 3


def marker_record(view: View, host: str) -> dict[str, Any] | None:
    """Return the record of a program with markers that can be read, None if there is none.

    What is beside it is looked at where it was opened by its path. Damage is not told here: a scan has told it.
    """
    markers = [item for item in hip.kpack_markers(view, host) if not isinstance(item, Finding)]
    if not markers:
        return None
    record: dict[str, Any] = {
        **marker_names(markers),
        "count": len(markers),
        "markers": [{"key": marker.key, "offset": marker.span.start} for marker in markers[:_MOST]],
    }
    path = view.source.path
    if path is None or len(view) != view.source.size:
        return {**record, "beside": None}
    from fatpack.commands.check_kpack.neighbours import find_siblings

    found = find_siblings(path, markers)
    home = os.path.dirname(os.path.realpath(path))

    def shown(real: str) -> str:
        return os.path.relpath(real, home)

    return {
        **record,
        "beside": {
            "archives": [
                {"path": shown(item.path), "size": item.size, "archs": list(item.archs), "objects": len(item.objects)}
                for item in found.archives
            ],
            "devices": lookup_records(found.outcomes, shown),
            "problems": [{"path": given, "problem": problem} for given, problem in found.problems],
        },
    }


def marker_lines(record: Mapping[str, Any], indent: str) -> Iterator[str]:
    """Yield the lines about such a program."""
    names = ", ".join(record["names"])
    yield printable(f"{indent}device code in kpack archives: {pluralize(record['count'], 'code object')} of {names}")
    yield from (printable(f"{indent}  looks for {path}") for path in record["search_paths"])
    beside = record["beside"]
    if beside is None:
        yield f"{indent}  what is beside it was not looked at: this is no file on a disk"
        return
    rows = []
    for row in beside["devices"]:
        missing = row["missing_count"]
        more = f" and {missing - _NAMED} more" if missing > _NAMED else ""
        sources = f"from {', '.join(row['archives'])}" if row["archives"] else ""
        notes = [sources] if sources else []
        notes += [f"missing: {', '.join(row['missing'][:_NAMED])}{more}"] if missing else []
        notes += [f"{row['only_newer']} only by loaders since rocm-systems#9874"] if row["only_newer"] else []
        cells = [row["device"], f"{row['resolved']} of {record['count']}", "; ".join(notes)]
        rows.append([printable(cell) for cell in cells])
    yield from align_columns(rows, indent=f"{indent}  ")
    yield from (printable(f"{indent}  {item['path']}: {item['problem']}") for item in beside["problems"])
