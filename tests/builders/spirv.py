"""SPIR-V modules built word by word, after the specification and not from fatpack's reader."""

from __future__ import annotations

import struct

CAPABILITY, MEMORY_MODEL, ENTRY_POINT, EXECUTION_MODE = 17, 14, 15, 16
GL_COMPUTE, KERNEL = 5, 6


def instruction(opcode: int, *words: int) -> list[int]:
    return [(len(words) + 1) << 16 | opcode, *words]


def literal(text: str) -> list[int]:
    data = text.encode() + b"\0"
    data += bytes(-len(data) % 4)
    return list(struct.unpack(f"<{len(data) // 4}I", data))


def module(entries: list[tuple[int, str]], addressing: int = 2, order: str = "<") -> bytes:
    """Return a module with entry points (execution model, name), as words in a byte order."""
    words = [0x07230203, 0x00010400, 0, 40, 0]
    words += instruction(CAPABILITY, 6) + instruction(CAPABILITY, 4) + instruction(MEMORY_MODEL, addressing, 2)
    for index, (model, name) in enumerate(entries):
        words += instruction(ENTRY_POINT, model, index + 5, *literal(name), 31, 32)
    words += instruction(EXECUTION_MODE, 5, 31)
    return struct.pack(f"{order}{len(words)}I", *words)
