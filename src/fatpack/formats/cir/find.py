"""The GPU binaries in any file of MLIR, text or bytecode, and what is wrong with their registration."""

from __future__ import annotations

from fatpack.findings import finding
from fatpack.formats.cir.bytecode.stream import is_bytecode
from fatpack.formats.cir.text.lexer import BLANK_EXPRESSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.embedded import EmbeddedBinary
    from fatpack.io.source import View
    from fatpack.model import Finding


def find_binaries(view: View) -> Iterator[EmbeddedBinary | Finding]:
    """Yield the GPU binaries in a file, damage if it is MLIR, and what is wrong with their registration.

    Raises FormatError for a binary that is none, and for damaged bytecode.
    """
    return _in_bytecode(view) if is_bytecode(view) else _in_text(view)


def _in_text(view: View) -> Iterator[EmbeddedBinary | Finding]:
    from fatpack.formats.cir.embedded import text_binaries
    from fatpack.formats.cir.gpu_binary import check_text_file
    from fatpack.formats.cir.modules.outline import Outliner
    from fatpack.formats.cir.text.faults import damage_finding

    outline = Outliner(view).outline()
    yield from text_binaries(outline)
    if outline.damage and (outline.modules or _is_certain(view)):
        yield damage_finding(view, outline.damage)
    for breach in check_text_file(outline):
        yield finding(breach.code, view.span(breach.at, 0), breach.text, breach.hint)


def _is_certain(view: View) -> bool:
    """Return whether a text without a whole module is MLIR all the same, so that damage in it is worth a finding."""
    head = view.head(0, 1 << 16)
    return head.lstrip(BLANK_EXPRESSION).startswith((b"module", b"builtin.module")) or b"!cir." in head


def _in_bytecode(view: View) -> Iterator[EmbeddedBinary | Finding]:
    from fatpack.formats.cir.bytecode.operations import IrWalker
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.embedded_bytecode import bytecode_binaries
    from fatpack.formats.cir.registration_bytecode import check_bytecode_file

    file = BytecodeFile(view)
    walker = IrWalker(file)
    root = walker.walk()
    yield from bytecode_binaries(file, root)
    if walker.damage:
        raise walker.damage
    for breach in check_bytecode_file(file, root):
        yield finding(breach.code, view.span(breach.at, 0), breach.text, breach.hint)
