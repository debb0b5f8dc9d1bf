"""The GPU binaries in any file of MLIR, text or bytecode, and what is wrong with their registration."""

from __future__ import annotations

from fatpack.findings import finding
from fatpack.formats.cir.bytecode.stream import is_bytecode
from fatpack.formats.cir.text.window import BLANKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.gpu_binary.embedded import DeviceBinary
    from fatpack.io.source import View
    from fatpack.model import Finding


def binaries_in(view: View) -> Iterator[DeviceBinary | Finding]:
    """Yield the GPU binaries in a file, damage if it is MLIR, and what is wrong with their registration.

    Raises FormatError for a binary that is none, and for damaged bytecode.
    """
    return _in_bytecode(view) if is_bytecode(view) else _in_text(view)


def _in_text(view: View) -> Iterator[DeviceBinary | Finding]:
    from fatpack.formats.cir.gpu_binary.embedded import device_binaries
    from fatpack.formats.cir.gpu_binary.registration import check_file
    from fatpack.formats.cir.modules.outline import Outliner
    from fatpack.formats.cir.text.faults import damage

    outline = Outliner(view).outline()
    yield from device_binaries(outline)
    if outline.damage and (outline.modules or _is_certain(view)):
        yield damage(view, outline.damage)
    for breach in check_file(outline):
        yield finding(breach.code, view.span(breach.at, 0), breach.text, breach.hint)


def _is_certain(view: View) -> bool:
    """Return whether a text without a whole module is MLIR all the same, so that damage in it is worth a finding."""
    head = view.head(0, 1 << 16)
    return head.lstrip(BLANKS).startswith((b"module", b"builtin.module")) or b"!cir." in head


def _in_bytecode(view: View) -> Iterator[DeviceBinary | Finding]:
    from fatpack.formats.cir.bytecode.operations import Walker
    from fatpack.formats.cir.bytecode.tables import File
    from fatpack.formats.cir.gpu_binary.embedded_bytecode import device_binaries
    from fatpack.formats.cir.gpu_binary.registration_bytecode import check_file

    file = File(view)
    walker = Walker(file)
    root = walker.walk()
    yield from device_binaries(file, root)
    if walker.damage:
        raise walker.damage
    for breach in check_file(file, root):
        yield finding(breach.code, view.span(breach.at, 0), breach.text, breach.hint)
