"""The modules at file level, of a file that need not be a container, each as one of a container is read."""

from __future__ import annotations

from fatpack.formats.cir.bytecode.stream import is_bytecode
from fatpack.formats.cir.modules.contents import op_counts
from fatpack.formats.cir.modules.facts import bytecode_facts, module_facts
from fatpack.formats.cir.modules.kernels import launched_by, launched_in
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.modules.stored import BytecodeModule, Nested

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.bytecode.operations import Node
    from fatpack.formats.cir.bytecode.tables import File
    from fatpack.formats.cir.modules.facts import ModuleFacts
    from fatpack.formats.cir.modules.stored import Launched, Outline
    from fatpack.io.source import View


def modules_alone(view: View) -> tuple[tuple[Nested | BytecodeModule, ModuleFacts], ...]:
    """Return the modules at file level, with what they state. Raises FormatError for damaged bytecode.

    Of damaged text the modules up to the damage are returned; the outline of each has it.
    """
    return tuple(_in_bytecode(view) if is_bytecode(view) else modules_in(Outliner(view).outline()))


def modules_in(outline: Outline) -> Iterator[tuple[Nested, ModuleFacts]]:
    """Yield the modules at file level of a text, with what they state."""
    modules = [module for module in outline.modules if not module.is_op]
    launched = launched_by(modules)
    for module in modules:
        facts = module_facts(module, outline)
        yield Nested(outline, module, facts.kind, launched), facts


def _in_bytecode(view: View) -> Iterator[tuple[BytecodeModule, ModuleFacts]]:
    from fatpack.formats.cir.bytecode.operations import Walker
    from fatpack.formats.cir.bytecode.tables import File

    file = File(view)
    nodes = [node for node in Walker(file).walk().modules if not node.is_op]
    launched = launched_in(file, nodes)
    for node in nodes:
        facts = bytecode_facts(file, node)
        yield bytecode_module(file, node, facts, launched), facts


def bytecode_module(file: File, node: Node, facts: ModuleFacts, launched: Launched) -> BytecodeModule:
    """Return the record of a module in bytecode."""
    counts = op_counts({file.names[number]: count for number, count in node.counts.items()})
    return BytecodeModule(file, node, facts.name, facts.kind, counts, launched)
