"""Pack, inspect, extract and edit files with GPU device code.

The public names, imported when first used; ``__init__.pyi`` beside this file is their one list::

    open, scan, pack, convert, extract                     one file
    rows                                                   images and kernels of files as a table
    check, CheckResult                                     a policy for files
    diff                                                   the differences of two releases
    digest                                                 the canonical digests of the code of files
    explain                                                the images that a device loads, and why
    files                                                  many files: folders, patterns, packages
    doctor                                                 the health of files
    embed, replace, remove, slim, map_images               edits of objects, archives, programs
    normalize, NormalizeResult                             free fields made equal for all builds of one source
    slim_environment                                       installed packages with the code of some devices
    split, verify_split                                    a package for each kind of device
    link_inputs, LinkGroup                                 the images of a device link
    write_report                                           the content of files as a page or a picture
    wrap                                                   objects that register images when they are linked
    Image, Container, Target, Span, Finding, ImageFile     the model
    Selector                                               a choice of images
    OffloadBinaryOptions, BundleOptions, FatbinOptions, CirOptions, KpackOptions,
    SyclbinOptions                                                                  how containers are made
    Format, Form, Compression, …                           the words that arguments take, as types
    FatpackError and its subclasses                        errors

``docs/library.md`` shows them at work.
"""

from __future__ import annotations

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import a public name from its module (PEP 562), so that ``import fatpack`` itself costs nothing."""
    if name == "__all__":
        value: object = sorted(_homes())
    elif name in _homes():
        from importlib import import_module

        value = getattr(import_module(_homes()[name]), name)
    else:
        raise AttributeError(f"module 'fatpack' has no attribute {name!r}")
    globals()[name] = value
    return value


def _homes() -> dict[str, str]:
    """Return public name → its module, from the imports of the stub, which type checkers and editors read."""
    if not _HOMES:
        stub = __loader__.get_data(f"{__file__.removesuffix('c')}i").decode()
        lines = [line.split() for line in stub.splitlines() if line.startswith("from ")]
        _HOMES.update((words[-1], words[1]) for words in lines)
    return _HOMES


_HOMES: dict[str, str] = {}


def __dir__() -> list[str]:
    return sorted([*_homes(), "__version__"])
