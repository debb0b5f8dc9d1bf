"""Fat wheels for the tests of ``split``: libraries of registered fat binaries, in few words, for many devices."""

from __future__ import annotations

from collections.abc import Mapping

from tests.builders import linked_elf, offered, wheels

#: file name of the wheel, without its ending
NAME = "demo-1.5-py3-none-any"


def library(*containers: str, toolkit: int | None = None) -> bytes:
    """Return a library in which each container is registered, in the words of :func:`offered.cuda`.

    It loads the CUDA runtime library of the major version ``toolkit``, if that is given.
    """
    needed = () if toolkit is None else (f"libcudart.so.{toolkit}".encode(),)
    return linked_elf.build([offered.cuda(words) for words in containers], needed=needed).data


def wheel(*containers: str, more: Mapping[str, bytes] | None = None, toolkit: int | None = None) -> bytes:
    """Return a wheel with a library of these containers, ``more`` files and a module."""
    files = {"demo/__init__.py": b"value = 1\n"}
    if containers:
        files["demo/libdemo.so"] = library(*containers, toolkit=toolkit)
    return wheels.wheel({**files, **(more or {})})
