"""GPU binaries inside host modules in bytecode.

That of the attribute ``cir.cu.device_binary`` is raw bytes in the string table. After lowering the binary is in
``#cir.const_array``: found where that is text, as for operations that were not registered; ClangIR's own encoding is
numbered without versions and cannot be read.
"""

from __future__ import annotations

from fatpack.formats.cir.bytecode.functions import read_functions
from fatpack.formats.cir.embedded import EmbeddedBinary, binary_at
from fatpack.formats.cir.vocabulary import DEVICE_BINARY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile


def bytecode_binaries(file: BytecodeFile, outer: OperationNode) -> Iterator[EmbeddedBinary]:
    """Yield the GPU binaries of all modules in one. Raises BadValue for damage."""
    for node in outer.modules:
        number = node.attrs(file).get(DEVICE_BINARY)
        if number is not None:
            place = file.attribute(number).string_span()
            if place:
                start, size = place
                yield EmbeddedBinary(DEVICE_BINARY.decode(), file.view.span(start, size), file.view.slice(start, size))
        for symbol, number in read_functions(file, node).binaries:
            value = file.attribute(number)
            text = file.view.slice(0, value.end)
            quote = text.find(b'"', value.start)
            if quote >= 0:
                yield binary_at(text, quote, f"@{symbol}")
        yield from bytecode_binaries(file, node)
