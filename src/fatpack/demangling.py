"""Names of C++ as people write them: ``_Z5scalePfi`` is ``scale(float*, int)``. Others demangle; this asks them.

The package cxxfilt (``fatpack[demangle]``) asks the C++ library of the system; without it, ``llvm-cxxfilt`` or
``c++filt`` on PATH are run once for all names.
"""

from __future__ import annotations

from fatpack.errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: programs that demangle the names that they are given, a line for each
_PROGRAMS = ("llvm-cxxfilt", "c++filt")

#: how mangled names begin (Itanium C++ ABI, 5.1)
_START = "_Z"


def demangle(names: Iterable[str]) -> dict[str, str]:
    """Return those of the names that are mangled, each with what it stands for.

    Names that nobody can demangle are left out. Raises Unsupported where there is nothing that demangles.
    """
    wanted = sorted({name for name in names if name.startswith(_START) and name.isprintable() and " " not in name})
    if not wanted:
        return {}
    found = _by_package(wanted)
    if found is None:
        found = _by_program(wanted)
    return {name: text for name, text in found.items() if text and text != name}


def check_available() -> None:
    """Raise Unsupported where there is nothing that demangles: before anything is read whose names are wanted."""
    try:
        __import__("cxxfilt")
    except (ImportError, OSError):
        _program()


def _by_package(names: list[str]) -> dict[str, str] | None:
    """Return the names by cxxfilt; None where it is not installed, or finds no C++ library."""
    try:
        import cxxfilt
    except (ImportError, OSError):
        return None
    found = {}
    for name in names:
        try:
            found[name] = str(cxxfilt.demangle(name))
        except (cxxfilt.Error, UnicodeError):
            continue
    return found


def _program() -> str:
    """Return the path of a program that demangles. Raises Unsupported without one."""
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
        done = subprocess.run([program], input=given, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unsupported(f"{program} does not demangle: {error}", hint="pip install cxxfilt") from error
    lines = done.stdout.splitlines()
    return dict(zip(names, lines, strict=True)) if len(lines) == len(names) else {}
