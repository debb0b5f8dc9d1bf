"""Attributes of containers on operations in bytecode that are no modules, which the CIR dialect's verifier refuses."""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.formats.cir.rules.verify import Breach
from fatpack.formats.cir.words import CONTAINER, KIND, MODULE_NAMES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.bytecode.operations import Node
    from fatpack.formats.cir.bytecode.tables import File


def misplaced(file: File, root: Node) -> Iterator[Breach]:
    """Yield a breach for every such attribute on an operation that lies directly in a module that is listed."""
    yield from _in(file, root, {})


def _in(file: File, outer: Node, cached: dict[int, tuple[bytes, ...]]) -> Iterator[Breach]:
    for start in outer.attributed:
        head = outer.head(file, start)
        if head.attributes is None or file.names[head.name] in (*MODULE_NAMES, CONTAINER):
            continue
        if head.attributes not in cached:
            cached[head.attributes] = _words(file, head.attributes)
        for word in cached[head.attributes]:
            yield Breach("FP1502", start, f"expects '{word.decode()}' attribute to be attached to 'builtin.module'")
    for inner in outer.modules:
        yield from _in(file, inner, cached)


def _words(file: File, number: int) -> tuple[bytes, ...]:
    try:
        attrs = file.attribute(number).dictionary()
    except FormatError:
        return ()  # damage that nothing else depends on
    return tuple(word for word in (CONTAINER, KIND) if word in attrs)
