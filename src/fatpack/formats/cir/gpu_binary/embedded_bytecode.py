"""GPU binaries inside host modules in bytecode.

That of the attribute ``cir.cu.device_binary`` is raw bytes in the string table. After lowering the binary is in
``#cir.const_array``: found where that is text, as for operations that were not registered; ClangIR's own encoding is
numbered without versions and cannot be read.
"""

from __future__ import annotations

from itertools import chain

from fatpack.findings import finding
from fatpack.formats.cir.bytecode.functions import functions
from fatpack.formats.cir.bytecode.operations import Walker
from fatpack.formats.cir.bytecode.tables import File
from fatpack.formats.cir.container.from_bytecode import attributes
from fatpack.formats.cir.gpu_binary.embedded import ATTRIBUTE, DeviceBinary, literal
from fatpack.formats.cir.gpu_binary.registration import awaited, judged
from fatpack.formats.cir.gpu_binary.registration_bytecode import host_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.bytecode.operations import Node
    from fatpack.io.source import View
    from fatpack.model import Finding


def binaries(view: View) -> Iterator[DeviceBinary | Finding]:
    """Yield the GPU binaries of all modules of a file, and what is wrong with their registration.

    Raises BadValue for damage.
    """
    file = File(view)
    walker = Walker(file)
    root = walker.walk()
    yield from _in_modules(file, root)
    if walker.damage:
        raise walker.damage
    for node in root.modules:
        shown = host_facts(file, node)
        for breach in chain(judged(shown), awaited(shown)) if shown else ():
            yield finding(breach.code, view.span(breach.at, 0), breach.text, breach.hint)


def _in_modules(file: File, outer: Node) -> Iterator[DeviceBinary]:
    for node in outer.modules:
        number = attributes(file, node).get(ATTRIBUTE)
        if number is not None:
            place = file.attribute(number).string_span()
            if place:
                start, size = place
                yield DeviceBinary(ATTRIBUTE.decode(), file.view.span(start, size), file.view.slice(start, size))
        for symbol, number in functions(file, node).binaries:
            value = file.attribute(number)
            text = file.view.slice(0, value.end)
            quote = text.find(b'"', value.start)
            if quote >= 0:
                yield literal(text, quote, f"@{symbol}")
        yield from _in_modules(file, node)
