"""Words for people: safe printing, aligned columns, lines of text. No colour, no width guessing."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, TextIO


#: LIMIT: cells are aligned up to this width, more than paths have; a longer one pushes its own line only: a name of
#: 64 KiB must not make all lines as long.
WIDEST = 240


def align_columns(rows: Sequence[Sequence[str]], right: Sequence[int] = (), indent: str = "") -> list[str]:
    """Return rows as lines with aligned columns two blanks apart; ``right`` are the columns aligned to the right."""
    return list(column_lines(rows, right, indent))


def column_lines(rows: Sequence[Sequence[str]], right: Sequence[int] = (), indent: str = "") -> Iterator[str]:
    """Yield what :func:`columns` returns."""
    if len(rows) < 2:  # nothing to align: most places of an archive hold one image
        yield from ((indent + "  ".join(filter(None, row))).rstrip() for row in rows)
        return
    widths = [_width(list(map(len, column))) for column in zip(*rows, strict=True)]
    # One format for all rows; a column in which nothing is takes no place.
    cells = [f"{{{n}:{'>' if n in right else '<'}{width}}}" for n, width in enumerate(widths) if width]
    line = (indent.replace("{", "{{").replace("}", "}}") + "  ".join(cells)).format
    for row in rows:
        yield line(*row).rstrip()


def _width(lengths: Sequence[int]) -> int:
    """Return the length of the longest cell that others are aligned with; 0 if nothing is in any."""
    return max((length for length in lengths if length <= WIDEST), default=0) or min(1, max(lengths))


def write_lines(lines: Iterable[str], out: TextIO) -> None:
    """Write lines to a stream of text; characters its encoding lacks are escaped."""
    for line in lines:
        try:
            out.write(f"{line}\n")
        except UnicodeEncodeError:
            encoding = out.encoding or "utf-8"
            out.write(line.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def is_fat_object(container: dict[str, Any]) -> bool:
    """Return :attr:`fatpack.model.Container.is_fat_object` of the container that a JSON record shows."""
    flavour: str = container["attrs"].get("flavour", "")
    return flavour == "object"


def target_word(arch: str, form: str) -> str:
    """Return what an image is for as people write it: ``compute_90`` for PTX of ``sm_90``."""
    number = arch.removeprefix("sm_")
    return f"compute_{number}" if form == "ptx" and number != arch else arch
