"""One module of a bytecode container → bytecode of its own.

Every index in an operation counts in tables of the whole file, and values are numbered anew in every module, so the
operation is copied as it is: the new file has the same tables, and an IR section with this operation alone. What it no
longer uses stays in the tables, which readers do not mind: a split device module still holds the host's strings.
"""

from __future__ import annotations

from fatpack.errors import Unsupported
from fatpack.formats.cir.bytecode.sections import IR, RESOURCES
from fatpack.formats.cir.bytecode.stream import encode_varint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.io.source import Piece

_ONE_OPERATION = b"\x05"
_PADDING = b"\xcb"


def split_bytecode(file: BytecodeFile, node: OperationNode) -> Iterator[Piece]:
    """Return the pieces of the file that a module becomes. Raises Unsupported for bytecode of an unknown version."""
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
            # A writer leaves the alignment out where the data happens to lie well, and here they lie elsewhere.
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
