"""fatpack: pack, inspect, extract and edit the files in which GPU device code travels.

The public names, imported when first used::

    open, scan, pack, convert, extract                     what one does with files
    embed, replace, remove                                 what one does with hosts
    Image, Container, Target, Span, Finding, ImageFile     the model
    Selector                                               which images are meant
    FatbinOptions                                          how CUDA fat binaries are made
    FatpackError and its subclasses                        what goes wrong

``docs/library.md`` shows them at work.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.api.editing import embed, remove, replace
    from fatpack.api.packing import ImageFile, convert, pack
    from fatpack.api.reading import File, extract, open, scan
    from fatpack.errors import (
        BadMagic,
        BadValue,
        FatpackError,
        FormatError,
        HostError,
        LimitExceeded,
        TargetError,
        Truncated,
        Unsupported,
        UsageError,
    )
    from fatpack.model import Container, Finding, Image, Span, Target
    from fatpack.ops.choose.select import Selector
    from fatpack.ops.pack.fatbin import FatbinOptions
    from fatpack.scanner import Found, FoundImage

#: public name → module that defines it
_HOMES = {
    **dict.fromkeys(("File", "extract", "open", "scan"), "api.reading"),
    **dict.fromkeys(("ImageFile", "convert", "pack"), "api.packing"),
    **dict.fromkeys(("embed", "remove", "replace"), "api.editing"),
    **dict.fromkeys(
        (
            "BadMagic",
            "BadValue",
            "FatpackError",
            "FormatError",
            "HostError",
            "LimitExceeded",
            "TargetError",
            "Truncated",
            "Unsupported",
            "UsageError",
        ),
        "errors",
    ),
    **dict.fromkeys(("Container", "Finding", "Image", "Span", "Target"), "model"),
    "FatbinOptions": "ops.pack.fatbin",
    "Selector": "ops.choose.select",
    **dict.fromkeys(("Found", "FoundImage"), "scanner"),
}

__all__ = [
    "BadMagic",
    "BadValue",
    "Container",
    "FatbinOptions",
    "FatpackError",
    "File",
    "Finding",
    "FormatError",
    "Found",
    "FoundImage",
    "HostError",
    "Image",
    "ImageFile",
    "LimitExceeded",
    "Selector",
    "Span",
    "Target",
    "TargetError",
    "Truncated",
    "Unsupported",
    "UsageError",
    "convert",
    "embed",
    "extract",
    "open",
    "pack",
    "remove",
    "replace",
    "scan",
]


def __getattr__(name: str) -> object:
    """Import a public name from its module (PEP 562), so that ``import fatpack`` itself costs nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fatpack' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"fatpack.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
