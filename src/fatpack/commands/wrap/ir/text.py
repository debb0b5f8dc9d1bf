"""The text of a module of LLVM IR: bytes, texts, bounds of entries, lists of functions, in the order of the calls."""

from __future__ import annotations

from fatpack.commands.wrap.registration import UniqueNames
from fatpack.io.source import piece_parts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.commands.wrap.registration import EntryLayout
    from fatpack.commands.wrap.run import WrapHost
    from fatpack.io.source import Piece


# The spelling of LLVM IR: bytes, names and numbers of globals.

#: byte → its spelling between quotes: as it is if it can be printed, except the quote and the backslash
_SPELLED = [chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\{byte:02X}" for byte in range(256)]

#: The type of an offload entry.
ENTRY_TYPE = "%struct.__tgt_offload_entry"


def quote_bytes(data: bytes) -> str:
    """Return bytes as they are written between quotes."""
    return "".join(map(_SPELLED.__getitem__, data))


def global_name(text: str) -> str:
    """Return the name of a global, in quotes where it has other characters than LLVM writes without them."""
    plain = text.replace("_", "").replace(".", "").replace("$", "").replace("-", "")
    data = text.encode("utf-8", "surrogateescape")
    is_plain = plain.isascii() and (plain.isalnum() or not plain) and not text[:1].isdigit()
    return f"@{text}" if is_plain else f'@"{quote_bytes(data)}"'


def constant_array(pieces: Iterable[Piece], size: int) -> Iterator[bytes]:
    """Yield the type and the bytes of a constant array, in parts."""
    yield f"[{size} x i8] ".encode()
    parts = [bytes(part) for part in piece_parts(pieces)]
    if not any(any(part) for part in parts):
        yield b"zeroinitializer"
        return
    yield b'c"'
    for part in parts:
        yield quote_bytes(part).encode()
    yield b'"'


def element_pointer(size: int, symbol: str, offset: int, element: str = "i8") -> str:
    """Return a pointer to an element of an array that a global holds: the global itself for the first."""
    if not offset:
        return f"ptr {symbol}"
    return f"ptr getelementptr ([{size} x {element}], ptr {symbol}, i64 0, i64 {offset})"


#: Mach-O: segment and section of the entries; the linker makes bounds of the names that begin with \1.
_MACH_O_ENTRIES = "__LLVM,offload_entries"
_MACH_O_BOUNDS = ("\1section$start$__LLVM$offload_entries", "\1section$end$__LLVM$offload_entries")


class ModuleText:
    """The text of a module under way."""

    def __init__(self, host: WrapHost, called: str) -> None:
        from fatpack.commands.wrap.objects.contents import CODE_SECTIONS

        self.host = host
        self.code = "__TEXT,__StaticInit" if host.file == "mach-o" else CODE_SECTIONS
        self.fresh = UniqueNames()
        self._pieces: list[bytes] = []
        self.line(f"; ModuleID = '{called}'")
        self.line(f'source_filename = "{called}"')
        self.line(f'target triple = "{host.triple}"\n')

    def line(self, text: str) -> None:
        """Add a line, or several."""
        self._pieces.append(text.encode("utf-8", "surrogateescape") + b"\n")

    def types(self, *lines: str) -> None:
        """Add types, and an empty line after them."""
        self.line("\n".join((*lines, "")))

    def data(self, symbol: str, pieces: Iterable[Piece], size: int, suffix: str = "", attribute: str = "") -> None:
        """Add an array of bytes."""
        self._pieces.append(f"{global_name(symbol)} = internal {attribute}constant ".encode())
        self._pieces += constant_array(pieces, size)
        self.line(f", {suffix}" if suffix else "")

    def text(self, symbol: str, text: str, suffix: str = "") -> None:
        """Add a text that ends with a zero byte."""
        data = text.encode("utf-8", "surrogateescape") + b"\0"
        value = f'c"{quote_bytes(data)}"' if text else "zeroinitializer"
        self.line(f"{global_name(symbol)} = internal unnamed_addr constant [{len(data)} x i8] {value}{suffix}")

    def bounds_of(self, entries: EntryLayout) -> tuple[str, str]:
        """Return the names of the symbols at the start and the end of all offload entries."""
        start, stop = _MACH_O_BOUNDS if self.host.file == "mach-o" else (entries.start, entries.stop)
        return global_name(start), global_name(stop)

    def bounds(self, entries: EntryLayout) -> tuple[str, str]:
        """Add the bounds of all offload entries, and return what they are called."""
        pair = self.bounds_of(entries)
        if self.host.file == "coff":
            from fatpack.commands.wrap.objects.contents import COFF_START, COFF_STOP

            for symbol, suffix in zip(pair, (COFF_START, COFF_STOP), strict=True):
                section = entries.section + suffix
                self.line(
                    f'{symbol} = weak_odr hidden constant [0 x {ENTRY_TYPE}] zeroinitializer, section "{section}"'
                )
            return pair
        for symbol in pair:
            self.line(f"{symbol} = external hidden constant [0 x {ENTRY_TYPE}]")
        section = _MACH_O_ENTRIES if self.host.file == "mach-o" else entries.section
        dummy = global_name(f"__dummy.{section}")
        # Older entries are not aligned.
        align = ", align 8" if "kind" in entries.fields else ""
        self.line(f'{dummy} = internal constant [0 x {ENTRY_TYPE}] zeroinitializer, section "{section}"{align}')
        self.line(f'@llvm.compiler.used = appending global [1 x ptr] [ptr {dummy}], section "llvm.metadata"')
        return pair

    def runs(self, list_name: str, priority: int, *functions: str) -> None:
        """Add functions that run at start (``ctors``) or end (``dtors``)."""
        record = "{ i32, ptr, ptr }"
        records = ", ".join(f"{record} {{ i32 {priority}, ptr @{function}, ptr null }}" for function in functions)
        self.line(f"@llvm.global_{list_name} = appending global [{len(functions)} x {record}] [{records}]")

    def finished(self) -> tuple[Piece, ...]:
        """Return what was added."""
        return tuple(self._pieces)
