"""One module of a container → a file of its own: the definitions it needs, its text as stored, its resources.

Nothing is expanded or renamed, so that a split file is as small as its part of the container, and combining
split files again gives the same container.
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import FormatError, Unsupported, UsageError
from fatpack.formats.cir.bytecode.sections import IR, RESOURCES, encode_varint
from fatpack.formats.cir.files import identifiers
from fatpack.formats.cir.files.identifiers import AliasTable, find_needs
from fatpack.formats.cir.modules.model import BytecodeModuleRecord, OffloadModule, TextModuleRecord
from fatpack.io.source import PiecesSource, Source, View, VirtualName
from fatpack.model import lazy_image
from fatpack.record import is_pending

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.modules.model import FileOutline
    from fatpack.io.source import Piece
    from fatpack.model import Image, Target


class SplitFiles:
    """The files for the modules of a text; ``table`` are its aliases, read on demand."""

    def __init__(self, outline: FileOutline) -> None:
        self.outline = outline
        self._table: AliasTable | None = None

    @property
    def table(self) -> AliasTable:
        """The definitions of the text. Raises BadValue for an alias that is defined twice."""
        if self._table is None:
            self._table = AliasTable(self.outline)
        return self._table


class _Split(PiecesSource):
    """The file for one module."""

    record: TextModuleRecord | BytecodeModuleRecord | None = None


class _Refused(Source):
    """A module that cannot be split off: reading raises the error."""

    def __init__(self, size: int, error: FormatError) -> None:
        self.name, self.size, self.present, self._error = "", size, size, error

    def read(self, offset: int, size: int) -> bytes:
        """Raise the error that prevents splitting."""
        raise self._error


def module_image(
    target: Target,
    record: TextModuleRecord | BytecodeModuleRecord,
    stored: View,
    attrs: Mapping[str, str],
    files: SplitFiles | None = None,
) -> Image:
    """Return a module as an image whose bytes are its file, which is made on demand.

    ``stored`` are its bytes in the container: in a text without the aliases that it uses, in bytecode without any
    table. ``files`` are the files of the text that contains it.
    """
    parts = (_file, record, stored, files)
    return lazy_image(
        target, "cir", None, None, len(stored), None, *parts, span=stored.span(), attrs=attrs, record=record
    )


def _file(record: TextModuleRecord | BytecodeModuleRecord, stored: View, files: SplitFiles | None) -> dict[str, object]:
    """Return the file for a module, and its size."""
    try:
        pieces = list(_split(record, files))
    except Unsupported:  # it is listed nevertheless; extracting it raises the error
        return {"data": stored, "size": len(stored)}
    except FormatError as error:
        if isinstance(record, TextModuleRecord) and record.outline.damage is not None:
            return {"data": stored, "size": len(stored)}  # the container has the finding
        return {"data": View(_Refused(len(stored), error), 0, len(stored), stored.chain), "size": len(stored)}
    first = pieces[0]
    if isinstance(first, View) and pieces[1:] == [b"\n"]:
        # A module that needs nothing else, on lines of its own, lies in the container as it is written.
        whole = View(first.source, first.start, min(first.end + 1, stored.source.size), stored.chain)
        if whole.head(len(first), 1) == b"\n":
            return {"data": whole, "size": len(whole)}
    source = _Split(pieces)
    source.record, source.budget = record, stored.source.budget
    return {"data": View(source, 0, source.size, (*stored.chain, VirtualName("module"))), "size": source.size}


def is_as_read(image: Image) -> bool:
    """Return whether an image still has the bytes of the module in its record."""
    record = image.record
    if not isinstance(record, TextModuleRecord) or is_pending(image):
        return isinstance(record, TextModuleRecord)
    data, text, module = image.data, record.outline.text, record.module
    if isinstance(data.source, _Split):
        return data.source.record is record
    size = module.end - module.start
    is_in_place = data.source is text.source and data.start == text.start + module.start
    return isinstance(data.source, _Refused) or (is_in_place and len(data) in (size, size + 1))


def split_image(image: Image) -> Iterator[Piece]:
    """Return the pieces of the file for an image: text from text, bytecode from bytecode.

    Everything is checked before this returns. Raises BadValue for undefined aliases, Unsupported for
    modules in AMD's other representation and for bytecode of an unknown version.
    """
    record = image.record
    if isinstance(record, OffloadModule):
        raise Unsupported(
            "AMD's offload.module representation cannot be split",
            hint="its modules are operations of the host module and use its types",
            chain=image.span.source,
        )
    if not isinstance(record, (TextModuleRecord, BytecodeModuleRecord)):
        raise UsageError("this image is no module of a CIR container")
    return _split(record)


def _split(record: TextModuleRecord | BytecodeModuleRecord, files: SplitFiles | None = None) -> Iterator[Piece]:
    if isinstance(record, BytecodeModuleRecord):
        return split_bytecode(record.file, record.node)
    table = AliasTable(record.outline) if files is None else files.table
    needed = find_needs(table, [(record.module.start, record.module.end)])
    kept = identifiers.used_resources(identifiers.read_resources(record.outline), needed.resources)
    return _text_pieces(record, table, needed.aliases, kept)


def _text_pieces(
    record: TextModuleRecord, table: AliasTable, numbers: Iterable[int], kept: list[identifiers.ResourceEntry]
) -> Iterator[Piece]:
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
    yield from identifiers.write_resources(kept, sum(end - start for start, end in record.outline.metadata))


# A module of a bytecode container as bytecode of its own.
#
# Every index in an operation counts in tables of the whole file, and values are numbered anew in every module, so the
# operation is copied as it is: the new file has the same tables, and an IR section with this operation alone. Unused
# entries stay in the tables, which readers accept: a split device module still holds the host's strings.

_ONE_OPERATION = b"\x05"
_PADDING = b"\xcb"


def split_bytecode(file: BytecodeFile, node: OperationNode) -> Iterator[Piece]:
    """Return the pieces of the file for a module. Raises Unsupported for bytecode of an unknown version."""
    file.check_supported()
    if node.has_aligned:
        raise Unsupported(
            "a module in bytecode whose parts are aligned cannot be moved",
            hint="no released LLVM writes such files; convert it to text first: cir-opt in.cirbc -o in.cir",
            chain=file.view.chain,
        )
    return _bytecode_pieces(file, node)


def _bytecode_pieces(file: BytecodeFile, node: OperationNode) -> Iterator[Piece]:
    view = file.view
    yield view.slice(0, file.header.end)
    at = file.header.end
    for section in file.sections:
        is_ir = section.id == IR
        size = len(_ONE_OPERATION) + node.end - node.start if is_ir else section.end - section.data
        align = 0 if is_ir else section.align
        if section.id == RESOURCES and not align:
            # A writer omits the alignment if the data happens to be aligned; here the data has another position.
            align = section.data & -section.data
        head = (
            bytes((section.id | (0x80 if align else 0),))
            + encode_varint(size)
            + (encode_varint(align) if align else b"")
        )
        padding = -(at + len(head)) % align if align else 0
        yield head + _PADDING * padding
        if is_ir:
            yield _ONE_OPERATION
            yield view.slice(node.start, node.end - node.start)
        else:
            yield view.slice(section.data, size)
        at += len(head) + padding + size
