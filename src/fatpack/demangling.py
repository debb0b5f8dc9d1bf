"""Demangling of C++ names: ``_Z5scalePfi`` is ``scale(float*, int)``.

Done by the package cxxfilt (``fatpack[demangle]``), which uses the system's C++ library; without it, by running
``llvm-cxxfilt`` or ``c++filt`` from PATH once for all names.
"""

from __future__ import annotations

import os

from fatpack.errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: programs that demangle names, one per line
_PROGRAMS = ("llvm-cxxfilt", "c++filt")

#: start of mangled names (Itanium C++ ABI, 5.1)
_START = "_Z"

#: the largest factor by which one reference to an earlier part lets a name grow: e ** (1 / e), for e references
#: to each of the parts
_GROWTH = 1.4423

#: LIMIT: characters that a name may stand for here; bytes and seconds of a process for names that may stand for more
_LARGE, _MEMORY, _SECONDS = 1 << 26, 1 << 29, 60

#: names that the process gets at once, which take it a second
_BATCH = 20_000

#: the program of that process: it reads names, and writes a list
_APART = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
import cxxfilt
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
except ImportError:
    pass
found = []
for name in sys.stdin.read().splitlines():
    try:
        text = str(cxxfilt.demangle(name))
    except (cxxfilt.Error, UnicodeError):
        text = ""
    found.append(text if len(text) < 1 << 20 else "")
json.dump(found, sys.stdout)
"""


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Return the mangled ones of the given names, with their demangled form.

    Names that cannot be demangled are left out. Raises Unsupported if no demangler is installed.
    """
    wanted = sorted({name for name in names if name.startswith(_START) and name.isprintable() and " " not in name})
    if not wanted:
        return {}
    found = _by_package(wanted)
    if found is None:
        found = _by_program(wanted)
    return {name: text for name, text in found.items() if text and text != name}


def check_available() -> None:
    """Raise Unsupported if no demangler is installed; called before files are read for their names."""
    try:
        __import__("cxxfilt")
    except (ImportError, OSError):
        _program()


def _by_package(names: list[str]) -> dict[str, str] | None:
    """Return the names demangled by cxxfilt; None if it is not installed, or finds no C++ library."""
    try:
        import cxxfilt
    except (ImportError, OSError):
        return None
    found = {}
    large = []
    for name in names:
        if _may_be_large(name):
            large.append(name)
            continue
        try:
            found[name] = str(cxxfilt.demangle(name))
        except (cxxfilt.Error, UnicodeError):
            continue
    for at in range(0, len(large), _BATCH):
        found |= _apart(large[at : at + _BATCH])
    return found


def _may_be_large(name: str) -> bool:
    """Return whether a name may stand for very many characters: each part of it may repeat all before it."""
    return len(name) * _GROWTH ** min(name.count("S") + name.count("T"), 200) > _LARGE


def _limit_memory() -> None:
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY if most < 0 else min(_MEMORY, most), most))


def _apart(names: list[str]) -> dict[str, str]:
    """Return names demangled by cxxfilt in a process with little memory and time. Raises Unsupported if it ends."""
    import json
    import subprocess
    import sys

    try:
        done = subprocess.run(
            [sys.executable, "-c", _APART, json.dumps(sys.path), str(_MEMORY)],
            input="".join(f"{name}\n" for name in names),
            capture_output=True,
            encoding="utf-8",
            check=True,
            timeout=_SECONDS,
        )
        lines = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise Unsupported(
            f"names of C++ that repeat their parts too often are not demangled: {type(error).__name__}",
            hint="use names as they are in the file, without demangling",
        ) from error
    return dict(zip(names, lines, strict=True))


def _program() -> str:
    """Return the path of a program that demangles. Raises Unsupported if there is none."""
    from shutil import which

    program = next((path for path in map(which, _PROGRAMS) if path), None)
    if program is None:
        raise Unsupported(
            "nothing here demangles names of C++",
            hint="pip install cxxfilt, or install llvm-cxxfilt or c++filt (binutils)",
        )
    return program


def _by_program(names: list[str]) -> dict[str, str]:
    import subprocess

    program = _program()
    given = "".join(f"{name}\n" for name in names)
    try:
        done = subprocess.run(
            [program],
            input=given,
            capture_output=True,
            text=True,
            errors="replace",
            check=True,
            timeout=60,
            preexec_fn=_limit_memory if os.name == "posix" else None,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unsupported(f"{program} does not demangle: {error}", hint="pip install cxxfilt") from error
    lines = done.stdout.splitlines()
    return dict(zip(names, lines, strict=True)) if len(lines) == len(names) else {}
