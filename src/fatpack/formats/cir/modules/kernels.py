"""The kernels of modules, by name: functions with a body and the calling convention of a kernel, and those that a stub
of the same file launches. Files of 2025 and hand-written ones do not always give the convention.
"""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.cir.modules.model import BytecodeModuleRecord, LaunchedKernels
from fatpack.formats.cir.modules.symbols import list_functions as functions_of
from fatpack.io.inflated import PicklableCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fatpack.formats.cir.bytecode.functions import ModuleFunctions
    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.modules.model import TextModule, TextModuleRecord


def kernels_launched_in_text(modules: Sequence[TextModule]) -> LaunchedKernels:
    """Return the kernels that modules of a text launch."""
    return LaunchedKernels(PicklableCall(_in_texts, modules))


def _in_texts(modules: Sequence[TextModule]) -> Iterator[str]:
    return (stub.kernel for module in modules for stub in module.contents.stubs)


def kernels_launched_in_bytecode(file: BytecodeFile, nodes: Sequence[OperationNode]) -> LaunchedKernels:
    """Return the kernels that modules in bytecode launch."""
    return LaunchedKernels(PicklableCall(_launches_in_bytecode, file, nodes))


def _launches_in_bytecode(file: BytecodeFile, nodes: Sequence[OperationNode]) -> Iterator[str]:
    from fatpack.formats.cir.bytecode.functions import read_functions

    for node in nodes:
        yield from (kernel for _, kernel in read_functions(file, node).launches)


def module_kernels(record: TextModuleRecord | BytecodeModuleRecord) -> tuple[str, ...] | None:
    """Return the kernels of a module, each once; None where they cannot be decoded."""
    if isinstance(record, BytecodeModuleRecord):
        from fatpack.formats.cir.bytecode.functions import read_functions

        return bytecode_kernels(record, read_functions(record.file, record.node))
    named = record.module.contents.kernels
    missing = () if record.role == "host" else record.launched.names.difference(named)
    if not missing:
        return named
    try:
        defined = functions_of(record.module)
    except FormatError:  # a body that does not end is damage, which the container's findings name
        return named
    return (*named, *(name for name in defined if name in missing))


def bytecode_kernels(record: BytecodeModuleRecord, read: ModuleFunctions) -> tuple[str, ...] | None:
    """Return what :func:`kernels` does for a module in bytecode whose functions were read.

    Where functions are registered operations, only their dialect could tell: that is None and not "no kernels".
    """
    if not read.has_all:
        return None
    missing = () if record.role == "host" else record.launched.names.difference(read.kernels)
    return (*read.kernels, *(name for name in read.defined if name in missing))
