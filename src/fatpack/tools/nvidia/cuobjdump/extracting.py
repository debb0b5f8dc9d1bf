"""Extraction: files in the current directory, under the names of the lists.

An older file of the name is replaced, as the original does. QUIRK(cuobjdump 13): of two images with one name, which
identifiers easily give, it leaves the last one only. Here the second gets a number: ``k1.2.sm_80.cubin``.
"""

from __future__ import annotations

import os

from fatpack.budget import output_budget
from fatpack.errors import FormatError, Unsupported, UsageError
from fatpack.record import Record
from fatpack.tools.nvidia.cuobjdump.output import ExitTool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View
    from fatpack.tools.nvidia.cuobjdump.output import ToolOutput


class ExtractedFile(Record):
    """A file to write, and the line that says so, before and behind its name; or only a line (no ``data``)."""

    name: str
    data: View | None
    before: str
    behind: str = ""


def write_extractions(
    extractions: Sequence[ExtractedFile], file: View, used: dict[str, int], output: ToolOutput
) -> None:
    """Write everything, and print what was written.

    ``used`` holds the names of files that were written before, with how many of them share each.
    Raises Ended for the first file that cannot be written.
    """
    from fatpack.io.bulk import NewFile, write_files
    from fatpack.io.write import written_size

    given = {extraction.name for extraction in extractions}
    new = [(_free(each.name, given, used), each.data) for each in extractions if each.data is not None]
    files = [NewFile(_path(name), (data,)) for name, data in new]
    names = (name for name, _ in new)
    output_budget().check_output(written_size(data for _, data in new))
    with write_files(files, force=True, inputs=[file]) as sizes:
        for extraction in extractions:
            if extraction.data is None:
                output.line(extraction.before)
                continue
            name = next(names)
            try:
                next(iter(sizes))
            except (OSError, UsageError):
                output.fatal(f"File '{name}' could not be opened")
                raise ExitTool from None
            except Unsupported:
                output.obfuscated()
            except FormatError as error:
                output.damage(str(error), "Uncompress failed")
            else:
                output.line(f"{extraction.before}{name}{extraction.behind}")


def _path(name: str) -> str:
    """Return a name, which is bytes read as UTF-8, as the path of a file with these bytes in any locale."""
    return os.fsdecode(name.encode("utf-8", "surrogateescape"))


def _free(name: str, given: set[str], used: dict[str, int]) -> str:
    """Return a name, with a number ahead of its architecture if it is used already; that is nobody else's either."""
    if name not in used:
        used[name] = 1
        return name
    start, marker, end = name.rpartition(".sm_")
    numbered = name
    while numbered in used or numbered in given:
        used[name] += 1
        numbered = f"{start}.{used[name]}{marker}{end}"
    used[numbered] = 1
    return numbered
