"""One module of a container → a file of its own: the definitions it needs, its text as it stands, its resources.

Nothing is expanded and nothing renamed, so that a split file is as small as its part of the container, and combining
split files again gives the same container.
"""

from __future__ import annotations

from fatpack.errors import Unsupported, UsageError
from fatpack.formats.cir.combine import resources
from fatpack.formats.cir.combine.aliases import AliasTable, needs
from fatpack.formats.cir.modules.stored import BytecodeModule, Nested, OffloadModule
from fatpack.io import limits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.io.source import Piece
    from fatpack.model import Image


def split(image: Image) -> Iterator[Piece]:
    """Return the pieces of the file that an image becomes: text from text, bytecode from bytecode.

    Everything is checked before this returns. Raises BadValue for aliases that are not defined, Unsupported for
    modules in AMD's other representation and for bytecode of an unknown version.
    """
    record = image.record
    if isinstance(record, OffloadModule):
        raise Unsupported(
            "AMD's offload.module representation cannot be split",
            hint="its modules are operations of the host module and use its types",
            chain=image.span.source,
        )
    if isinstance(record, BytecodeModule):
        from fatpack.formats.cir.combine.split_bytecode import split_bytecode

        return split_bytecode(record.file, record.node)
    if not isinstance(record, Nested):
        raise UsageError("this image is no module of a CIR container")
    table = AliasTable(record.outline)
    module = record.module
    needed = needs(table, [(module.start, module.end)])
    kept = resources.used(resources.entries(record.outline), needed.resources)
    return _pieces(record, table, needed.aliases, kept)


def _pieces(record: Nested, table: AliasTable, numbers: Iterable[int], kept: list[resources.Entry]) -> Iterator[Piece]:
    view, module = record.outline.text, record.module
    lines: list[bytes] = []
    size = 0
    for number in numbers:
        start, end = table.span(number)
        if end - start > limits.CHUNK:
            yield b"".join(lines)
            yield view.slice(start, end - start)
            lines, size = [b"\n"], 0
            continue
        lines += (view.read(start, end - start), b"\n")
        size += end - start
        if size > limits.CHUNK:
            yield b"".join(lines)
            lines, size = [], 0
    if lines:
        yield b"".join(lines)
    yield view.slice(module.start, module.end - module.start)
    yield b"\n"
    yield from resources.write(kept, sum(end - start for start, end in record.outline.metadata))
