"""Demangling of C++ names: ``_Z5scalePfi`` is ``scale(float*, int)``.

Done by the package cxxfilt (``fatpack[demangle]``), which uses the system's C++ library; without it, by running
``llvm-cxxfilt`` or ``c++filt`` from PATH once for all names.
"""

from __future__ import annotations

from fatpack.errors import Unsupported

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: programs that demangle names, one per line
_PROGRAMS = ("llvm-cxxfilt", "c++filt")

#: start of mangled names (Itanium C++ ABI, 5.1)
_START = "_Z"


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
    for name in names:
        try:
            found[name] = str(cxxfilt.demangle(name))
        except (cxxfilt.Error, UnicodeError):
            continue
    return found


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
        done = subprocess.run([program], input=given, capture_output=True, text=True, errors="replace", check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Unsupported(f"{program} does not demangle: {error}", hint="pip install cxxfilt") from error
    lines = done.stdout.splitlines()
    return dict(zip(names, lines, strict=True)) if len(lines) == len(names) else {}
