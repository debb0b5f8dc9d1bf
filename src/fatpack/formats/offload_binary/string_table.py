"""The string table: an ELF-style table with shared tails, built as LLVM's StringTableBuilder builds it.

Source: llvm/lib/MC/StringTableBuilder.cpp (kind ELF); byte-compared with llvm-offload-binary 22 and yaml2obj 22.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def _tail_order(text: bytes) -> list[int]:
    # Descending by the reversed bytes; the closing 1 puts a string before its own suffixes.
    return [-byte for byte in reversed(text)] + [1]


def build_string_table(strings: Iterable[bytes]) -> tuple[bytes, dict[bytes, int]]:
    """Return the table and the offset of every string in it.

    It starts with a NUL (the empty string), every string ends in NUL, and a string that ends the one stored before
    it takes no space. Its bytes depend only on the set of strings.
    """
    table = bytearray(b"\0")
    offsets = {b"": 0}
    stored = b""
    for text in sorted({text for text in strings if text}, key=_tail_order):
        if stored.endswith(text):
            offsets[text] = len(table) - 1 - len(text)
            continue
        offsets[text] = len(table)
        table += text + b"\0"
        stored = text
    return bytes(table), offsets
