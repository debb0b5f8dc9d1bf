"""The kernels of modules, by name: functions with a body and the calling convention of a kernel, and those that a stub
of the same file launches. Files of 2025 and hand-written ones do not always give the convention.
"""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.cir.modules.stored import BytecodeModule, Launched
from fatpack.formats.cir.modules.symbols import functions as functions_of
from fatpack.io.sources.inflated import Call

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.cir.bytecode.functions import Functions
    from fatpack.formats.cir.bytecode.operations import Node
    from fatpack.formats.cir.bytecode.tables import File
    from fatpack.formats.cir.modules.stored import Module, Nested


def launched_by(modules: Sequence[Module]) -> Launched:
    """Return the kernels that modules of a text launch."""
    return Launched(Call(_in_texts, modules))


def _in_texts(modules: Sequence[Module]) -> Iterator[str]:
    return (stub.kernel for module in modules for stub in module.contents.stubs)


def launched_in(file: File, nodes: Sequence[Node]) -> Launched:
    """Return the kernels that modules in bytecode launch."""
    return Launched(Call(_in_bytecode, file, nodes))


def _in_bytecode(file: File, nodes: Sequence[Node]) -> Iterator[str]:
    from fatpack.formats.cir.bytecode.functions import functions

    for node in nodes:
        yield from (kernel for _, kernel in functions(file, node).launches)


def kernels(record: Nested | BytecodeModule) -> tuple[str, ...] | None:
    """Return the kernels of a module, each once; None where they cannot be decoded."""
    if isinstance(record, BytecodeModule):
        from fatpack.formats.cir.bytecode.functions import functions

        return bytecode_kernels(record, functions(record.file, record.node))
    named = record.module.contents.kernels
    missing = () if record.role == "host" else record.launched.names.difference(named)
    if not missing:
        return named
    try:
        defined = functions_of(record.module)
    except FormatError:  # a body that does not end is damage, which the container's findings name
        return named
    return (*named, *(name for name in defined if name in missing))


def bytecode_kernels(record: BytecodeModule, read: Functions) -> tuple[str, ...] | None:
    """Return what :func:`kernels` does for a module in bytecode whose functions were read.

    Where functions are registered operations, only their dialect could tell: that is None and not "no kernels".
    """
    if not read.has_all:
        return None
    missing = () if record.role == "host" else record.launched.names.difference(read.kernels)
    return (*read.kernels, *(name for name in read.defined if name in missing))
