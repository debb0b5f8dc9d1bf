"""How a package that changes is called: two different files never have one name."""

from __future__ import annotations

from fatpack.record import Record


class Naming(Record):
    """How a changed package differs from the old one by name: a build tag, a local version (of wheels), or both."""

    build_tag: str = ""
    local_version: str = ""


def takes_name(path: str) -> bool:
    """Return whether a file is a wheel or conda package by its name: if it changes it gets another one."""
    return path.endswith((".whl", ".conda", ".tar.bz2"))
