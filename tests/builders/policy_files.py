"""Libraries for policies: containers in few words, whose images all have kernels."""

from __future__ import annotations

from collections.abc import Sequence

from tests.builders import fatbin, linked_elf
from tests.builders.device_elf import device_elf

_SUFFIXES = {"": 0, "a": 1 << 20, "f": 1 << 21}


def cubin(number: int, kernels: Sequence[str], suffix: str = "") -> bytes:
    """Return a cubin with kernels: functions that are marked as entries."""
    symbols = [(name.encode(), 0x12, 0x10, 1) for name in kernels]
    flags = number << 8 | 0x06000000 | (8 if suffix == "a" else 0)
    return device_elf(190, flags, osabi=0x41, abi_version=8, sections=[(1, bytes(64))], symbols=symbols)


def container(words: str, kernels: Sequence[str] = ("k",)) -> bytes:
    """Return a fat binary: ``90a`` is a cubin, ``p90`` PTX; ``90=k+m`` says which kernels an image has."""
    entries = []
    for word in words.split():
        name, _, own = word.partition("=")
        names = own.split("+") if own else kernels
        number = name.lstrip("p")
        digits = number.rstrip("af")
        flags = 0x11 | _SUFFIXES[number[len(digits) :]]
        if name.startswith("p"):
            body = "".join(f".visible .entry {each}() {{ ret; }}\n" for each in names)
            text = f".version 8.0\n.target sm_{number}\n.address_size 64\n{body}\0".encode()
            entries.append(fatbin.entry(text, fatbin.PTX, sm=int(digits), flags=flags, options=b"", code=(0, 8)))
        else:
            entries.append(fatbin.entry(cubin(int(digits), names, number[len(digits) :]), sm=int(digits), flags=flags))
    return fatbin.fatbin(*entries)


def library(*containers: str) -> bytes:
    """Return a shared library in which each container is registered."""
    return linked_elf.build([container(words) for words in containers]).data
