"""Contents of modules: operations by name, symbols, kernels, and the host functions that launch them.

A kernel is identified by its calling convention, ``cc(ptx_kernel)``, ``cc(amdgpu_kernel)`` or ``cc(spir_kernel)``; a
function that launches one by ``cu.kernel_name = #cir.cu.kernel_name<"kernel">``, which older ClangIR wrote without the
quotes (llvm-project#187636 and the passes of cir-offload-merge, which rely on both).
"""

from __future__ import annotations

from fatpack.formats.cir.modules.model import LaunchStub, ModuleContents, OffloadModule
from fatpack.formats.cir.text import region
from fatpack.formats.cir.text.lexer import MARGIN, Lexer
from fatpack.formats.cir.text.region import (
    ALL,
    FUNCTION_MATTERS,
    FUNCTIONS,
    GLOBAL_MATTERS,
    MODULES,
    NOTHING,
    find_region_end,
)
from fatpack.formats.cir.text.strings import unescape
from fatpack.formats.cir.vocabulary import BINARIES, GPU_MODULE, OFFLOAD_MODULE, OFFLOAD_SYMBOL, LazyExpression

TYPE_CHECKING = False
if TYPE_CHECKING:
    from re import Match

    from fatpack.formats.cir.modules.model import TextModule


#: LIMIT: bytes before and after the region of a function searched for its symbol and conventions.
_REACH = 1 << 16

_STRING_OR_SYMBOL = LazyExpression(rb'@([A-Za-z_][\w$.]*)|@"((?:[^"\\\n]|\\.)*)"|"(?:[^"\\\n]|\\.)*"')
#: A comment, or a string, which may contain text that looks like a comment.
_COMMENT = LazyExpression(rb'("(?:[^"\\\n]|\\.)*")|(?<!\S)//[^\r\n]*')
_SYM_NAME = LazyExpression(rb'\bsym_name = "((?:[^"\\\n]|\\.)*)"')
_KERNEL = LazyExpression(rb"cc\((?<!\wcc\()\w*kernel\)")
_OLD_KERNEL = LazyExpression(rb"\bcalling_conv = [^,}\n]*kernel")
_STUB = LazyExpression(rb'cu(?<!\wcu)\.kernel_name = #cir\.cu\.kernel_name<(?:"((?:[^"\\\n]|\\.)*)"|([^>"\n]*))>')
_TARGET = LazyExpression(rb'\b(?:target|chip) = "((?:[^"\\\n]|\\.)*)"')
#: A function of the gpu dialect, or of AMD's other representation, that is a kernel: a word after its arguments.
_WORD_KERNEL = LazyExpression(rb"(?:gpu|cir\.offload)\.func\b[^{}]*\)[^{}]*?\skernel\b")
_UNIT_KERNEL = LazyExpression(rb"[{,]\s*(?:gpu\.)?kernel\s*[,}]")

#: The start of a line before a function.
_FUNCTION = LazyExpression(rb"\n[ \t]*+(?=[\w$.]*+(?<=func)[ \t])")
#: A line that starts with an operation in generic form.
_GENERIC = LazyExpression(rb'[ \t]*+"([\w$.]++)"[ \t]*+\(')

#: Minimum size of a text for which compiling the expression for plain functions pays.
_WORTH = 1 << 12

#: Operations without a prefix: those of the builtin dialect and of the old func dialect.
_PLAIN = {b"module": "builtin.module", b"func": "func", b"return": "return"}


class ContentsTracker:
    """Follows the operations directly in a module; the ``Sink`` of a module's body."""

    def __init__(self, text: Lexer, *, symbols: bool = False) -> None:
        self.counts: dict[bytes, int] = {}
        self.text = text
        self._wants_symbols = symbols
        self._symbols: list[str] = []
        self._functions: list[str] = []
        self._kernels: list[str] = []
        self._stubs: list[LaunchStub] = []
        self._offload_modules: list[OffloadModule] = []
        self._binaries: list[tuple[str, int, int]] = []
        self._may_register = self._has_words = self._has_modules = False
        self._looked_at = b""
        self._name = b""
        self._start = 0
        self._opened = self._closed = -1

    def wants(self, window: bytes, start: int, end: int) -> int:
        """Return which operations to report: all until the latest one is finished, then relevant ones."""
        if window is not self._looked_at:  # computed once: this is called again after every operation that matters
            self._looked_at = window
            has_bytes = self.text.has_bytes
            self._may_register = self._may_register or has_bytes(b"_module_ctor", window, start, end)
            self._has_words = has_bytes(b"kernel", window, start, end) or has_bytes(b"fatbin_str", window, start, end)
            self._has_modules = has_bytes(b"module", window, start, end)
        if self._name or self._wants_symbols:
            return ALL
        return FUNCTIONS if self._has_words else MODULES if self._has_modules else NOTHING

    def functions(self, window: bytes, base: int, start: int, end: int) -> int:
        """Note the functions that are plain in a part of the window at ``base``; return the index after the last."""
        if end - start < _WORTH or not (self._has_words or self._wants_symbols):
            return start
        if self._name:
            line = _FUNCTION.match(window, start, end)
            if line is None:
                return start
            self.finish(base + line.end())
        match = (region.NEXT_FUNCTION if self._wants_symbols else region.FUNCTION).match
        while found := match(window, start, end):
            start = found.end()
            head, symbol, body = found.groups()
            if self._wants_symbols:
                self._symbols.append(symbol.decode())
                if body:
                    self._functions.append(symbol.decode())
                continue
            if b"kernel" not in head or not body:
                continue
            stub = _STUB.search(head) if b"kernel_name" in head else None
            if stub:
                self._stubs.append(LaunchStub(symbol.decode(), _kernel(stub)))
            elif _is_kernel(head):
                self._kernels.append(symbol.decode())
        return start

    def child(self, name: bytes, start: int, name_end: int) -> int | None:
        """Note an operation directly in the module."""
        if self._name:
            self.finish(start)
        if self._wants_symbols or name in (OFFLOAD_MODULE, GPU_MODULE) or self._may_begin(name, name_end):
            self._name, self._start, self._opened, self._closed = name, start, -1, -1
        return None

    def _may_begin(self, name: bytes, name_end: int) -> bool:
        """Return whether an operation may be a kernel, launch one or hold a GPU binary, by the line it starts in.

        Only the beginning of a long line is read: many operations may start in it.
        """
        if b"func" not in name and b"global" not in name:
            return False
        if self.text.peek(name_end - 1) == b'"':  # in generic form the attributes follow the region
            return self._has_words or self.text.window is not self._looked_at
        index = self.text.seek(name_end)
        matters = FUNCTION_MATTERS if b"func" in name else GLOBAL_MATTERS
        return matters.match(self.text.window, index, index + MARGIN) is not None

    def opened(self, at: int) -> None:
        """Record that the latest operation opens a region, and find the operation if it is not known yet."""
        if not self._name:
            self._recall(at)
        if self._opened < 0:
            self._opened = at

    def _recall(self, at: int) -> None:
        """Record a function in generic form whose region starts at ``at``: its attributes may be in the next window."""
        window, base = self.text.window, self.text.base
        found = _GENERIC.match(window, window.rfind(b"\n", 0, max(at - base, 0)) + 1)
        if found and (b"func" in found[1] or b"global" in found[1]):
            self._name, self._start, self._opened, self._closed = found[1], base + found.start(1) - 1, -1, -1

    def closed(self, at: int) -> None:
        """Note that a region of the latest operation is closed."""
        self._closed = at

    def finish(self, end: int) -> None:
        """Examine the latest operation, which ends at ``end``."""
        name, self._name = self._name, b""
        if not name or not (self._wants_symbols or self._may_matter(name, end)):
            return
        head_end = end if self._opened < 0 else self._opened
        head = _plain(self._part(self._start, min(head_end - self._start, _REACH)))
        tail_at = self._closed if self._opened >= 0 and self._closed >= 0 else end
        tail = _plain(self._part(tail_at, min(end - tail_at, _REACH)))
        symbol = _symbol(head, tail)
        if symbol is None:
            return
        has_body = self._opened >= 0
        if self._wants_symbols:
            self._symbols.append(symbol)
            if has_body and b"func" in name:
                self._functions.append(symbol)
        if name in (OFFLOAD_MODULE, GPU_MODULE):
            if name == OFFLOAD_MODULE or symbol.startswith(OFFLOAD_SYMBOL):
                self._offload_modules.append(self._offload_module(symbol, end, _TARGET.search(head + tail)))
        elif b"global" in name:
            if symbol in BINARIES:
                self._binaries.append((symbol, self._start, end))
        elif has_body:
            stub = _STUB.search(head) or _STUB.search(tail)
            if stub:
                self._stubs.append(LaunchStub(symbol, _kernel(stub)))
            elif _is_kernel(head) or _is_kernel(tail):
                self._kernels.append(symbol)

    def _offload_module(self, symbol: str, end: int, target: Match[bytes] | None) -> OffloadModule:
        named = symbol.removeprefix(OFFLOAD_SYMBOL).removeprefix("_") if symbol.startswith(OFFLOAD_SYMBOL) else ""
        spelled = _decoded(unescape(target[1])) if target else named
        kernels: tuple[str, ...] = ()
        if self._opened >= 0:
            text = Lexer(self.text.view)
            inside = ContentsTracker(text)
            inside.finish(find_region_end(text, self._opened + 1, inside))
            kernels = inside.contents().kernels
        return OffloadModule(self._start, self.text.trimmed(end, self._start), symbol, spelled, kernels)

    def _part(self, start: int, size: int) -> bytes:
        """Return a part of the text, from the window if that contains it."""
        index = start - self.text.base
        if index >= 0 and index + size <= len(self.text.window):
            return self.text.window[index : index + size]
        return self.text.view.read(start, size)

    def _may_matter(self, name: bytes, end: int) -> bool:
        """Return whether the operation has the words of a kernel, a stub or a GPU binary in their place."""
        word = b"kernel" if b"func" in name else b"fatbin_str" if b"global" in name else b""
        if not word:
            return name in (OFFLOAD_MODULE, GPU_MODULE)
        window, base = self.text.window, self.text.base
        start, stop = self._start - base, end - base
        if start < 0 or stop > len(window):
            return True
        if self._opened < 0:
            return window.find(word, start, stop) >= 0
        if window.find(word, start, self._opened - base) >= 0:
            return True
        return self._closed >= 0 and window.find(word, self._closed - base, stop) >= 0

    def contents(self) -> ModuleContents:
        """Return the collected contents."""
        return ModuleContents(
            sorted_op_counts(self.counts),
            tuple(self._kernels),
            tuple(self._stubs),
            tuple(self._symbols),
            tuple(self._functions),
            tuple(self._offload_modules),
            tuple(self._binaries),
            self._may_register,
        )


def sorted_op_counts(counts: dict[bytes, int]) -> dict[str, int]:
    """Return counts by full name, in alphabetical order; bare words that are not operations are omitted."""
    full: dict[str, int] = {}
    for name, count in counts.items():
        if name.startswith(b'"'):
            spelled = _decoded(name[1:])
        elif b"." in name:
            spelled = _decoded(name)
        elif name in _PLAIN:
            spelled = _PLAIN[name]
        else:
            continue
        full[spelled] = full.get(spelled, 0) + count
    return dict(sorted(full.items()))


def _plain(part: bytes) -> bytes:
    """Return a part of the text without comments."""
    return _COMMENT.sub(rb"\1", part) if b"//" in part else part


def _symbol(head: bytes, tail: bytes) -> str | None:
    if head.startswith(b'"'):
        found = _SYM_NAME.search(head) or _SYM_NAME.search(tail)
        return _decoded(unescape(found[1])) if found else None
    for found in _STRING_OR_SYMBOL.finditer(head):
        if found.lastindex:
            return _decoded(found[1] if found[1] is not None else unescape(found[2]))
    return None


def _is_kernel(head: bytes) -> bool:
    """Return whether a part of a function gives it the calling convention of a kernel."""
    if _KERNEL.search(head) or (b"calling_conv" in head and _OLD_KERNEL.search(head)):
        return True
    return bool(_WORD_KERNEL.match(head) or (b"gpu.func" in head[:32] and _UNIT_KERNEL.search(head)))


def _kernel(stub: Match[bytes]) -> str:
    """Return the kernel that a stub launches."""
    return _decoded(unescape(stub[1] if stub[1] is not None else stub[2]))


def _decoded(name: bytes) -> str:
    return name.decode("utf-8", "backslashreplace")


# All symbols that a module itself defines: a second pass over it, for callers that need them all.


def list_symbols(module: TextModule) -> tuple[str, ...]:
    """Return the symbols of the operations directly in a module, in order."""
    return _contents(module).symbols


def list_functions(module: TextModule) -> tuple[str, ...]:
    """Return the symbols of the functions with a body directly in a module, in order."""
    return _contents(module).functions


def _contents(module: TextModule) -> ModuleContents:
    text = Lexer(module.text)
    tracker = ContentsTracker(text, symbols=True)
    tracker.finish(find_region_end(text, module.body[0], tracker))
    return tracker.contents()
