"""The modules at file level, of a file that need not be a container, each as one of a container is read."""

from __future__ import annotations

from fatpack.formats.cir.bytecode.stream import is_bytecode
from fatpack.formats.cir.modules.contents import sorted_op_counts
from fatpack.formats.cir.modules.facts import read_bytecode_facts, read_module_facts
from fatpack.formats.cir.modules.kernels import kernels_launched_in_bytecode, kernels_launched_in_text
from fatpack.formats.cir.modules.model import BytecodeModuleRecord, TextModuleRecord
from fatpack.formats.cir.modules.outline import Outliner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.modules.facts import ModuleFacts
    from fatpack.formats.cir.modules.model import FileOutline, LaunchedKernels
    from fatpack.io.source import View


def plain_modules(view: View) -> tuple[tuple[TextModuleRecord | BytecodeModuleRecord, ModuleFacts], ...]:
    """Return the modules at file level, with what they state. Raises FormatError for damaged bytecode.

    Of damaged text the modules up to the damage are returned; the outline of each has it.
    """
    return tuple(_modules_in_bytecode(view) if is_bytecode(view) else modules_in_text(Outliner(view).outline()))


def modules_in_text(outline: FileOutline) -> Iterator[tuple[TextModuleRecord, ModuleFacts]]:
    """Yield the modules at file level of a text, with what they state."""
    modules = [module for module in outline.modules if not module.is_op]
    launched = kernels_launched_in_text(modules)
    for module in modules:
        facts = read_module_facts(module, outline)
        yield TextModuleRecord(outline, module, facts.kind, launched), facts


def _modules_in_bytecode(view: View) -> Iterator[tuple[BytecodeModuleRecord, ModuleFacts]]:
    from fatpack.formats.cir.bytecode.operations import IrWalker
    from fatpack.formats.cir.bytecode.sections import BytecodeFile

    file = BytecodeFile(view)
    nodes = [node for node in IrWalker(file).walk().modules if not node.is_op]
    launched = kernels_launched_in_bytecode(file, nodes)
    for node in nodes:
        facts = read_bytecode_facts(file, node)
        yield make_bytecode_module(file, node, facts, launched), facts


def make_bytecode_module(
    file: BytecodeFile, node: OperationNode, facts: ModuleFacts, launched: LaunchedKernels
) -> BytecodeModuleRecord:
    """Return the record of a module in bytecode."""
    counts = sorted_op_counts({file.names[number]: count for number, count in node.counts.items()})
    return BytecodeModuleRecord(file, node, facts.name, facts.kind, counts, launched)
