"""GPU binaries inside host modules: a complete fatbin or bundle as an MLIR string.

Before lowering it is the module's attribute ``cir.cu.device_binary = "…" : !cir.array<!u8i x N>``, after it the global
``@__cuda_fatbin_str`` (CUDA) or ``@__hip_fatbin_str`` (HIP), ``#cir.const_array<"…" : !cir.array<!u8i x N>>`` with
``trailing_zeros`` where the string leaves zeros at the end out (llvm-project#216090, #187636).
"""

from __future__ import annotations

from fatpack import limits
from fatpack.errors import BadValue, LimitExceeded
from fatpack.formats.cir.expressions import LazyExpression
from fatpack.formats.cir.text.faults import syntax_error
from fatpack.formats.cir.text.header import read_short_text
from fatpack.formats.cir.text.lexer import Lexer
from fatpack.formats.cir.text.strings import unescape_view
from fatpack.formats.cir.vocabulary import DEVICE_BINARY
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import View, VirtualName
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.modules.model import FileOutline, TextModule
    from fatpack.io.source import Span

_ARRAY = LazyExpression(rb'\s*:\s*!cir\.array<[^"{}]{1,200}?\sx\s*([0-9]{1,18})>\s*(,\s*trailing_zeros)?')
_CONSTANT = LazyExpression(rb"#cir\.const_array<[ \t\r\n]*(?=\")")


class EmbeddedBinary(Record):
    """A GPU binary in a module: the attribute or global that holds it, its literal, and its bytes."""

    holder: str
    span: Span
    data: View


def text_binaries(outline: FileOutline) -> Iterator[EmbeddedBinary]:
    """Yield the GPU binaries in all modules of a file. Raises BadValue for one that has not the size it claims."""
    for module in outline.modules:
        yield from _in_module(module)


def _in_module(module: TextModule) -> Iterator[EmbeddedBinary]:
    attr = module.attr(DEVICE_BINARY)
    if attr and attr.value and read_short_text(Lexer(module.text), (attr.value[0], attr.value[0] + 1)) == b'"':
        yield binary_at(module.text, attr.value[0], DEVICE_BINARY.decode())
    for symbol, start, end in module.contents.binaries:
        text = Lexer(module.text.slice(0, end))
        found = text.search(_CONSTANT, start)
        if found:
            yield binary_at(module.text, text.end(found), f"@{symbol}")
    for inner in module.modules:
        yield from _in_module(inner)


def _bytes(inside: View, least: int) -> bytes:
    """Return what a string stands for, with zeros up to a least size."""
    return b"".join(_pieces(inside, least))


def _pieces(inside: View, least: int) -> Iterator[bytes]:
    data = unescape_view(inside)
    yield data
    for at in range(len(data), least, limits.CHUNK):
        yield bytes(min(limits.CHUNK, least - at))


def binary_at(view: View, at: int, holder: str) -> EmbeddedBinary:
    """Return the GPU binary whose string starts at ``at``.

    Raises BadValue where its type or its size is wrong, LimitExceeded for more zeros than a command may inflate to.
    """
    text = Lexer(view)
    end = text.string_end(at)
    inside = view.slice(at + 1, end - at - 2)
    found = text.match(_ARRAY, end)
    if not found:
        raise syntax_error(view, end, "a GPU binary without its type", expected="': !cir.array<!u8i x SIZE>'")
    size, has_zeros = int(found[1]), found[2] is not None
    most = view.source.budget.inflatable
    if has_zeros and size > most:
        raise LimitExceeded(
            f"a GPU binary of {size} bytes in {len(inside)} bytes of text",
            format="cir-offload-container",
            offset=view.offset(at),
            expected=f"at most {most} for all that a command inflates",
            hint=limits.inflated_hint(size),
            chain=view.chain,
        )
    if size > len(inside) and not has_zeros:
        raise BadValue(
            f"a GPU binary of {size} bytes in {len(inside)} bytes of text",
            format="cir-offload-container",
            offset=view.offset(at),
            chain=view.chain,
        )
    name = VirtualName(holder)
    least = size if has_zeros else 0
    make, stream = PicklableCall(_bytes, inside, least), PicklableCall(_pieces, inside, least)
    source = InflatedSource(size, make, name, present=len(inside), origin=view.source, stream=stream)
    return EmbeddedBinary(holder, view.span(at, end - at), View(source, 0, size, (*view.chain, name)))
