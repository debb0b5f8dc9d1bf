"""Attributes of containers on operations in bytecode that are no modules, which the CIR dialect's verifier refuses."""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.cir.verify import RuleBreach
from fatpack.formats.cir.vocabulary import CONTAINER, KIND, MODULE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile


def misplaced_in_bytecode(file: BytecodeFile, root: OperationNode) -> Iterator[RuleBreach]:
    """Yield a breach for every such attribute on an operation that lies directly in a module that is listed."""
    yield from _in(file, root, {})


def _in(file: BytecodeFile, outer: OperationNode, cached: dict[int, tuple[bytes, ...]]) -> Iterator[RuleBreach]:
    for start in outer.attributed:
        head = outer.head(file, start)
        if head.attributes is None or file.names[head.name] in (*MODULE_NAMES, CONTAINER):
            continue
        if head.attributes not in cached:
            cached[head.attributes] = _misplaced_in_bytecode_message(file, head.attributes)
        for word in cached[head.attributes]:
            yield RuleBreach("FP1502", start, f"expects '{word.decode()}' attribute to be attached to 'builtin.module'")
    for inner in outer.modules:
        yield from _in(file, inner, cached)


def _misplaced_in_bytecode_message(file: BytecodeFile, number: int) -> tuple[bytes, ...]:
    try:
        attrs = file.attribute(number).dictionary()
    except FormatError:
        return ()  # damage that nothing else depends on
    return tuple(word for word in (CONTAINER, KIND) if word in attrs)
