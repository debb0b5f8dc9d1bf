"""Which byte of a Mach-O file is what."""

from __future__ import annotations

from fatpack.binary.macho.layout import FORMAT, command_name
from fatpack.binary.macho.parts import list_ranges
from fatpack.binary.macho.reader import LoadCommand, MachOFile
from fatpack.byte_map import fill_gaps
from fatpack.errors import FormatError
from fatpack.model import Label

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.io.source import View


def label_macho(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers, segments and sections field by field, everything else whole."""
    try:
        file = MachOFile(view)
    except FormatError:
        yield from fill_gaps(view, [])
        return
    yield from file.shape.header.labels(view, 0, FORMAT)
    reached, number = file.commands_at, 1
    try:
        for command in file.commands():
            for label in _command(file, command, number):
                number += label.name.endswith("].name") and label.name.startswith("section[")
                yield label
            reached = command.at + command.size
    except FormatError:
        pass  # where the chain of commands breaks, what is left of them has no fields
    found = (
        Label(view.span(part.at, part.size), part.name, part.value, part.doc, "data") for part in list_ranges(file)
    )
    yield from fill_gaps(view, found, reached)


def _command(file: MachOFile, command: LoadCommand, number: int) -> Iterator[Label]:
    """Yield the labels of one load command; its sections are counted from ``number`` on."""
    view, prefix, shape = file.view, f"command[{command.number}]", file.shape
    at, end = command.at, command.at + command.size
    if command.kind == shape.segment_command and command.size >= shape.segment.size:
        yield from shape.segment.labels(view, at, prefix)
        count = shape.segment.read(view, at)[shape.segment.position("section_count")]
        at += shape.segment.size
        for place in range(min(count, (end - at) // shape.section.size)):
            yield from shape.section.labels(view, at + place * shape.section.size, f"section[{number + place}]")
        at += min(count, (end - at) // shape.section.size) * shape.section.size
    else:
        yield from shape.command.labels(view, at, prefix)
        at += shape.command.size
    if at < end:
        text = f"{command_name(command.kind)}, {end - at} bytes"
        yield Label(view.span(at, end - at), f"{prefix}.data", text, "the rest of the load command", "data")
