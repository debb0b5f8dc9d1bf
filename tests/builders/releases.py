"""Fat wheels for the tests of ``split``: libraries of registered fat binaries, in few words, for many devices."""

from __future__ import annotations

from collections.abc import Mapping

from tests.builders import linked_elf, offered, wheels

#: file name of the wheel, without its ending
NAME = "demo-1.5-py3-none-any"


def library(*containers: str) -> bytes:
    """Return a library in which each container is registered, in the words of :func:`offered.cuda`."""
    return linked_elf.build([offered.cuda(words) for words in containers]).data


def wheel(*containers: str, more: Mapping[str, bytes] | None = None) -> bytes:
    """Return a wheel with a library of these containers, ``more`` files and a module."""
    files = {"demo/__init__.py": b"value = 1\n", "demo/libdemo.so": library(*containers)}
    return wheels.wheel({**files, **(more or {})})
