"""The symbols that an object notes of its device code, as modules that refer to all of them.

A device link takes objects out of archives only where something needs their symbols. A module with undefined
references to what the host's objects say of their device code makes it take them.
"""

from __future__ import annotations

from fatpack import binary
from fatpack.commands.wrap.ir.ir_text import global_name, quote_bytes
from fatpack.errors import FormatError, Unsupported
from fatpack.formats.clang_bundle.fat_object import symbols_for_id
from fatpack.model import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import View

_SECTION = ".tgtsym"
_HOLDER = "offload.symbols"

#: Variables that LLVM gives a meaning and a type of its own: nothing can refer to them.
_LLVM_OWN = (b"llvm.used", b"llvm.compiler.used", b"llvm.global_ctors", b"llvm.global_dtors")


def read_target_symbols(view: View, ids: Sequence[str]) -> dict[str, list[bytes]]:
    """Return bundle ID → the symbols that an object or program notes for it, each once, in stored order.

    Raises Unsupported for what is no such file, FormatError for a damaged one, HostError for a section too large.
    """
    host = binary.detect_host(view)
    if host not in ("elf", "coff", "pe", "macho"):
        raise Unsupported("The file was not recognized as a valid object file", chain=view.chain)
    found: dict[str, dict[bytes, None]] = {id: {} for id in ids}
    for site in binary.get_host(host).locate(view):
        if isinstance(site, Finding):
            if site.severity == "error":
                raise FormatError(site.text, offset=site.span.start, hint=site.hint, chain=view.chain)
        elif (site.section or "").partition("$")[0] == _SECTION:
            for id, symbols in found.items():
                symbols.update(dict.fromkeys(symbols_for_id(site.data, id)))
    return {id: list(symbols) for id, symbols in found.items()}


def reference_module(triple: str, symbols: Sequence[bytes], *, is_linked_as_ir: bool) -> bytes:
    """Return LLVM IR for a target with an undefined reference to each symbol.

    ``is_linked_as_ir`` says that the device link takes IR: ``llvm.used`` is enough then; code for other targets needs a
    variable that holds the addresses. Raises Unsupported for a symbol to which nothing can refer.
    """
    bad = next((symbol for symbol in symbols if symbol in _LLVM_OWN), None)
    if bad is not None:
        raise Unsupported(f"the symbol {bad.decode()} is LLVM's own: nothing can refer to it")
    names = [global_name(symbol.decode("utf-8", "surrogateescape")) for symbol in symbols]
    lines = [
        "; ModuleID = 'offload-deps'",
        'source_filename = "offload-deps"',
        f'target triple = "{quote_bytes(triple.encode("utf-8", "surrogateescape"))}"',
        "",
        *(f"{symbol} = external global ptr" for symbol in names),
    ]
    if names:
        array = f"[{len(names)} x ptr] [{', '.join(f'ptr {symbol}' for symbol in names)}]"
        if is_linked_as_ir:
            lines.append(f'@llvm.used = appending global {array}, section "llvm.metadata"')
        else:
            lines.append(f"{_free(names)} = hidden local_unnamed_addr global {array}")
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def _free(names: Sequence[str]) -> str:
    """Return what the variable is called that holds the addresses: a name that no symbol has."""
    taken, number, holder = set(names), 0, f"@{_HOLDER}"
    while holder in taken:
        number += 1
        holder = f"@{_HOLDER}.{number}"
    return holder
