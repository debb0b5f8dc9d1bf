"""GPU binaries inside host modules: finding them, and deciding whether the module registers them.

ClangIR makes the code that registers a fat binary while it lowers the host module, and only if the module knows the
binary: ``cir.cu.binary_handle`` (a path, older), ``cir.cu.device_binary`` (the bytes), or, lowered, the global
``@__cuda_fatbin_str`` (``@__hip_fatbin_str``) that the constructor ``@__cuda_module_ctor`` (``@__hip_module_ctor``)
registers. Without it the compilation succeeds, and the program launches nothing.
"""

from __future__ import annotations

from itertools import chain

from fatpack import limits
from fatpack.errors import BadValue, LimitExceeded
from fatpack.findings import finding
from fatpack.formats.cir.bytecode.operations import read_functions
from fatpack.formats.cir.bytecode.sections import is_bytecode
from fatpack.formats.cir.modules.contents import list_functions
from fatpack.formats.cir.text.header import read_short_text
from fatpack.formats.cir.text.lexer import BLANK_EXPRESSION, Lexer
from fatpack.formats.cir.text.strings import line_and_column, syntax_error, unescape_view
from fatpack.formats.cir.verify import RuleBreach
from fatpack.formats.cir.vocabulary import DEVICE_BINARY, LazyExpression
from fatpack.io.inflated import InflatedSource, PicklableCall
from fatpack.io.source import View, VirtualName
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.formats.cir.bytecode.operations import OperationNode
    from fatpack.formats.cir.bytecode.sections import BytecodeFile
    from fatpack.formats.cir.modules.model import FileOutline, TextModule
    from fatpack.io.source import Span
    from fatpack.model import Finding


# GPU binaries inside host modules: a complete fatbin or bundle as an MLIR string.
#
# Before lowering it is the module's attribute ``cir.cu.device_binary = "…" : !cir.array<!u8i x N>``, after it the
# global
# ``@__cuda_fatbin_str`` (CUDA) or ``@__hip_fatbin_str`` (HIP), ``#cir.const_array<"…" : !cir.array<!u8i x N>>`` with
# ``trailing_zeros`` where the string leaves zeros at the end out (llvm-project#216090, #187636).

_ARRAY = LazyExpression(rb'\s*:\s*!cir\.array<[^"{}]{1,200}?\sx\s*([0-9]{1,18})>\s*(,\s*trailing_zeros)?')
_CONSTANT = LazyExpression(rb"#cir\.const_array<[ \t\r\n]*(?=\")")


class EmbeddedBinary(Record):
    """A GPU binary in a module: the attribute or global that holds it, its literal, and its bytes."""

    holder: str
    span: Span
    data: View


def text_binaries(outline: FileOutline) -> Iterator[EmbeddedBinary]:
    """Yield the GPU binaries in all modules of a file. Raises BadValue if a binary does not have its stated size."""
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
    """Return the bytes of a string literal, with zeros up to ``least`` bytes."""
    return b"".join(_pieces(inside, least))


def _pieces(inside: View, least: int) -> Iterator[bytes]:
    data = unescape_view(inside)
    yield data
    for at in range(len(data), least, limits.CHUNK):
        yield bytes(min(limits.CHUNK, least - at))


def binary_at(view: View, at: int, holder: str) -> EmbeddedBinary:
    """Return the GPU binary whose string starts at ``at``.

    Raises BadValue if its type or size is wrong, LimitExceeded for more zeros than a command may inflate to.
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


# GPU binaries inside host modules in bytecode.
#
# The attribute ``cir.cu.device_binary`` is raw bytes in the string table. After lowering the binary is in
# ``#cir.const_array``: it is found if that is text, as for unregistered operations; ClangIR's own encoding has numbers
# without versions and cannot be read.


def bytecode_binaries(file: BytecodeFile, outer: OperationNode) -> Iterator[EmbeddedBinary]:
    """Yield the GPU binaries of all modules in ``outer``. Raises BadValue for damage."""
    for node in outer.modules:
        number = node.attrs(file).get(DEVICE_BINARY)
        if number is not None:
            place = file.attribute(number).string_span()
            if place:
                start, size = place
                yield EmbeddedBinary(DEVICE_BINARY.decode(), file.view.span(start, size), file.view.slice(start, size))
        for symbol, number in read_functions(file, node).binaries:
            value = file.attribute(number)
            text = file.view.slice(0, value.end)
            quote = text.find(b'"', value.start)
            if quote >= 0:
                yield binary_at(text, quote, f"@{symbol}")
        yield from bytecode_binaries(file, node)


# GPU binaries in any file of MLIR, text or bytecode, and findings about their registration.


def find_binaries(view: View) -> Iterator[EmbeddedBinary | Finding]:
    """Yield the GPU binaries in a file, damage if it is MLIR, and findings about their registration.

    Raises FormatError for an invalid GPU binary, and for damaged bytecode.
    """
    return _in_bytecode(view) if is_bytecode(view) else _in_text(view)


def _in_text(view: View) -> Iterator[EmbeddedBinary | Finding]:
    from fatpack.formats.cir.modules.outline import Outliner
    from fatpack.formats.cir.text.strings import damage_finding

    outline = Outliner(view).outline()
    yield from text_binaries(outline)
    if outline.damage and (outline.modules or _is_certain(view)):
        yield damage_finding(view, outline.damage)
    for breach in check_text_file(outline):
        yield finding(breach.code, view.span(breach.at, 0), breach.text, breach.hint)


def _is_certain(view: View) -> bool:
    """Return whether a text without a whole module is certainly MLIR, so that damage in it is worth a finding."""
    head = view.head(0, 1 << 16)
    return head.lstrip(BLANK_EXPRESSION).startswith((b"module", b"builtin.module")) or b"!cir." in head


def _in_bytecode(view: View) -> Iterator[EmbeddedBinary | Finding]:
    from fatpack.formats.cir.bytecode.operations import IrWalker
    from fatpack.formats.cir.bytecode.sections import BytecodeFile

    file = BytecodeFile(view)
    walker = IrWalker(file)
    root = walker.walk()
    yield from bytecode_binaries(file, root)
    if walker.damage:
        raise walker.damage
    for breach in check_bytecode_file(file, root):
        yield finding(breach.code, view.span(breach.at, 0), breach.text, breach.hint)


#: Attributes of a host module that name its GPU binary or hold it.
KNOWING = (b"cir.cu.binary_handle", DEVICE_BINARY)
_MODELS = ("cuda", "hip")
_HINT = "the program would launch nothing: compile the host once more with -foffload-include-binary"


class HostModuleFacts(Record):
    """Facts of a host module: its start, the globals that hold a GPU binary, its functions with a body, how
    many stubs launch kernels, and whether an attribute names a GPU binary."""

    start: int
    holders: frozenset[str]
    defined: frozenset[str]
    stub_count: int
    knows: bool


def unregistered_binary_findings(module: TextModule) -> Iterator[RuleBreach]:
    """Yield findings about the registration of a host module that was lowered, or that has a GPU binary."""
    contents = module.contents
    holders = frozenset(symbol for symbol, _, _ in contents.binaries)
    if holders or contents.may_register:
        yield from check_registration(
            HostModuleFacts(
                module.start, holders, frozenset(list_functions(module)), len(contents.stubs), _knows(module)
            )
        )


def check_registration(host: HostModuleFacts) -> Iterator[RuleBreach]:
    """Yield findings about the registration of a lowered host module."""
    for model in _MODELS:
        binary, constructor, table = (f"__{model}_{name}" for name in ("fatbin_str", "module_ctor", "register_globals"))
        text = ""
        if binary in host.holders and constructor not in host.defined:
            text = f"the GPU binary in @{binary} is not registered: there is no @{constructor}"
        elif constructor in host.defined and binary not in host.holders and not host.knows:
            text = f"@{constructor} has nothing to register: there is no @{binary}"
        elif constructor in host.defined and host.stub_count and table not in host.defined:
            text = f"@{constructor} registers no kernels: there is no @{table}, and {_stubs(host.stub_count)}"
        if text:
            yield RuleBreach("FP1513", host.start, text, _HINT)


def missing_binary_note(host: HostModuleFacts) -> Iterator[RuleBreach]:
    """Yield a note for a host module that launches kernels but neither contains, registers nor names a GPU binary."""
    is_lowered = any(f"__{model}_module_ctor" in host.defined for model in _MODELS)
    if host.stub_count and not host.holders and not host.knows and not is_lowered:
        text = f"{_stubs(host.stub_count)}, and the module knows no GPU binary"
        yield RuleBreach(
            "FP1514", host.start, text, "right before -foffload-include-binary brings it in, and wrong after"
        )


def check_text_file(outline: FileOutline) -> Iterator[RuleBreach]:
    """Yield a note for every module of a non-container file that launches kernels and names no GPU binary.

    Every host module is like that before the step that adds the binary; after that step it is an error.
    """
    for module in outline.modules:
        yield from (
            breach.replace(text=f"{line_and_column(outline.text, breach.at)}: {breach.text}")
            for breach in unregistered_binary_findings(module)
        )
        contents = module.contents
        if contents.may_register:
            continue  # checked by unregistered()
        holders = frozenset(symbol for symbol, _, _ in contents.binaries)
        for breach in missing_binary_note(
            HostModuleFacts(module.start, holders, frozenset(), len(contents.stubs), _knows(module))
        ):
            yield breach.replace(text=f"{line_and_column(outline.text, module.start)}: {breach.text}")


def _knows(module: TextModule) -> bool:
    return any(module.attr(name) is not None for name in KNOWING)


def _stubs(count: int) -> str:
    return "one stub launches a kernel" if count == 1 else f"{count} stubs launch kernels"


# Registration in bytecode, if the symbols of the host module can be read.

#: Text in the strings of a lowered host module: the end of its constructor's name, or of its binary's.
_WORDS = (b"_module_ctor\0", b"_fatbin_str\0")


def is_lowered(file: BytecodeFile) -> bool:
    """Return whether any module of a file may have been lowered."""
    return any(file.mentions(word) for word in _WORDS)


def check_bytecode_file(file: BytecodeFile, root: OperationNode) -> Iterator[RuleBreach]:
    """Yield findings about the registration of the readable modules of a non-container file."""
    for node in root.modules:
        host = read_host_facts(file, node)
        if host:
            yield from chain(check_registration(host), missing_binary_note(host))


def read_host_facts(file: BytecodeFile, node: OperationNode) -> HostModuleFacts | None:
    """Return the facts of a host module, None if not all of its symbols can be read."""
    found = read_functions(file, node)
    if not found.has_all:
        return None
    defined = frozenset(found.defined)
    knows = any(key in node.attrs(file) for key in KNOWING)
    return HostModuleFacts(node.start, found.holders, defined, len(found.launches), knows)
