"""fatpack: pack, inspect, extract and edit the files in which GPU device code travels.

The public names, imported when first used::

    open, scan, pack, convert, extract                     what one does with files
    rows                                                   files as flat records
    check, Checked                                         whether files keep to a policy
    diff                                                   what differs between two releases
    explain                                                what a device loads of files, and why
    files                                                  many files: folders, patterns, packages
    doctor                                                 whether files are healthy
    embed, replace, remove, slim, map_images               what one does with hosts
    link_inputs, LinkGroup                                 what a device link gets
    write_report                                           what is in files as a page or a picture
    wrap                                                   objects that register images when they are linked
    Image, Container, Target, Span, Finding, ImageFile     the model
    Selector                                               which images are meant
    OffloadBinaryOptions, BundleOptions, FatbinOptions, CirOptions, KpackOptions,
    SyclbinOptions                                                                  how containers are made
    Format, Form, Compression, …                           the words that arguments take, as types
    FatpackError and its subclasses                        what goes wrong

``docs/library.md`` shows them at work.
"""

from __future__ import annotations

__version__ = "0.1.0"

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.answers.diff.facts import Diff
    from fatpack.answers.doctor.facts import Diagnosis
    from fatpack.answers.explain.records import Explained
    from fatpack.answers.overview.records import Overview
    from fatpack.api.answering.checking import Checked, check
    from fatpack.api.answering.diff import diff
    from fatpack.api.answering.doctor import doctor
    from fatpack.api.answering.explain import explain
    from fatpack.api.answering.report import write_report
    from fatpack.api.editing import embed, remove, replace
    from fatpack.api.linking import LinkGroup, link_inputs
    from fatpack.api.mapping import map_images
    from fatpack.api.packing import ImageFile, convert, pack
    from fatpack.api.reading import File, Images, extract, open, scan
    from fatpack.api.rows import rows
    from fatpack.api.slimming import Slimmed, slim
    from fatpack.api.trees import Files, files
    from fatpack.api.wrapping import wrap
    from fatpack.errors import (
        BadMagic,
        BadValue,
        CommandFailed,
        FatpackError,
        FormatError,
        HostError,
        LimitExceeded,
        TargetError,
        Truncated,
        Unsupported,
        UsageError,
    )
    from fatpack.facts.columns import ImageRow, KernelRow
    from fatpack.model import Container, Finding, Image, Span, Target
    from fatpack.ops.choose.select import Selector
    from fatpack.options import (
        BundleOptions,
        CirOptions,
        FatbinOptions,
        KpackOptions,
        OffloadBinaryOptions,
        Options,
        SyclbinOptions,
    )
    from fatpack.scanner import Found, FoundImage, NotSearched
    from fatpack.words.literals import (
        BundleType,
        CirForm,
        Compression,
        CompressMode,
        Emit,
        Form,
        Format,
        KeepPtx,
        Offload,
        Producer,
        Recompression,
        Runtime,
        SlimMode,
        SyclbinState,
    )

#: public name → module that defines it
_HOMES = {
    **dict.fromkeys(("File", "Images", "extract", "open", "scan"), "api.reading"),
    **dict.fromkeys(("ImageFile", "convert", "pack"), "api.packing"),
    "doctor": "api.answering.doctor",
    "Diagnosis": "answers.doctor.facts",
    **dict.fromkeys(("embed", "remove", "replace"), "api.editing"),
    **dict.fromkeys(
        (
            "BadMagic",
            "BadValue",
            "CommandFailed",
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
    **dict.fromkeys(
        (
            "BundleType",
            "CirForm",
            "CompressMode",
            "Compression",
            "Emit",
            "Form",
            "Format",
            "KeepPtx",
            "Offload",
            "Producer",
            "Recompression",
            "Runtime",
            "SlimMode",
            "SyclbinState",
        ),
        "words.literals",
    ),
    **dict.fromkeys(
        (
            "BundleOptions",
            "CirOptions",
            "FatbinOptions",
            "KpackOptions",
            "OffloadBinaryOptions",
            "Options",
            "SyclbinOptions",
        ),
        "options",
    ),
    **dict.fromkeys(("LinkGroup", "link_inputs"), "api.linking"),
    "map_images": "api.mapping",
    "write_report": "api.answering.report",
    "wrap": "api.wrapping",
    "rows": "api.rows",
    **dict.fromkeys(("Checked", "check"), "api.answering.checking"),
    "diff": "api.answering.diff",
    "Diff": "answers.diff.facts",
    "Overview": "answers.overview.records",
    "explain": "api.answering.explain",
    "Explained": "answers.explain.records",
    **dict.fromkeys(("Slimmed", "slim"), "api.slimming"),
    **dict.fromkeys(("Files", "files"), "api.trees"),
    **dict.fromkeys(("ImageRow", "KernelRow"), "facts.columns"),
    "Selector": "ops.choose.select",
    **dict.fromkeys(("Found", "FoundImage", "NotSearched"), "scanner"),
}

#: name that goes → the public name in its place, the version that said so first, and the first one without it
_OLD: dict[str, tuple[str, str, str]] = {}

__all__ = [
    "BadMagic",
    "BadValue",
    "BundleOptions",
    "BundleType",
    "Checked",
    "CirForm",
    "CirOptions",
    "CommandFailed",
    "CompressMode",
    "Compression",
    "Container",
    "Diagnosis",
    "Diff",
    "Emit",
    "Explained",
    "FatbinOptions",
    "FatpackError",
    "File",
    "Files",
    "Finding",
    "Form",
    "Format",
    "FormatError",
    "Found",
    "FoundImage",
    "HostError",
    "Image",
    "ImageFile",
    "ImageRow",
    "Images",
    "KeepPtx",
    "KernelRow",
    "KpackOptions",
    "LimitExceeded",
    "LinkGroup",
    "NotSearched",
    "Offload",
    "OffloadBinaryOptions",
    "Options",
    "Overview",
    "Producer",
    "Recompression",
    "Runtime",
    "Selector",
    "SlimMode",
    "Slimmed",
    "Span",
    "SyclbinOptions",
    "SyclbinState",
    "Target",
    "TargetError",
    "Truncated",
    "Unsupported",
    "UsageError",
    "check",
    "convert",
    "diff",
    "doctor",
    "embed",
    "explain",
    "extract",
    "files",
    "link_inputs",
    "map_images",
    "open",
    "pack",
    "remove",
    "replace",
    "rows",
    "scan",
    "slim",
    "wrap",
    "write_report",
]


def __getattr__(name: str) -> object:
    """Import a public name from its module (PEP 562), so that ``import fatpack`` itself costs nothing."""
    if name in _OLD:
        return _deprecated(name)
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'fatpack' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"fatpack.{home}"), name)
    globals()[name] = value
    return value


def _deprecated(name: str) -> object:
    """Return what took the place of a name that goes, with a warning."""
    from warnings import warn

    from fatpack.deprecations import Deprecated

    going = Deprecated(*_OLD[name])
    warn(going.words(f"fatpack.{name}"), DeprecationWarning, stacklevel=3)
    return __getattr__(going.instead)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
