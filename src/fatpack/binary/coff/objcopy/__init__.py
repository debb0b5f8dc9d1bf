"""Sections added to and taken out of COFF objects exactly as llvm-objcopy 22 does it, for fat objects.

This is not how fatpack edits (``fatpack.binary.coff.editor`` leaves every byte in place that need not move).
llvm-objcopy takes an object apart and writes it anew::

    header │ section table │ contents and relocations, section by section │ symbols │ strings

Uninitialised data becomes zeros in the file, a big object becomes a classic one if its sections fit, and a classic
one that has too many sections becomes big. PE images are laid out again in the same way, at their file alignment.

Sources: ``llvm/lib/ObjCopy/COFF``, LLVM 22.1; the reference tests compare every byte.
"""

from __future__ import annotations

from fatpack import magic_numbers
from fatpack.binary.coff.objcopy.writer import CoffModel, PeImage, write_model
from fatpack.binary.coff.reader import CoffObject
from fatpack.binary.host_sections import encode_section_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from fatpack.io.source import Piece, View

__all__ = ["add_sections", "remove_sections"]


def add_sections(view: View, additions: Sequence[tuple[str, Sequence[Piece]]]) -> list[Piece]:
    """Return the object with sections added that linkers remove, as pieces; names may repeat.

    As ``llvm-objcopy --add-section=NAME=FILE --set-section-flags=NAME=readonly,exclude`` does: sections that have one
    of the names already get the flags too. Raises HostError for an object that llvm-objcopy refuses or would damage,
    FormatError for a damaged one, UsageError for an impossible name.
    """
    named = [(encode_section_name(name), content) for name, content in additions]
    model = _read(view)
    model.exclude({name for name, _ in named})
    for name, content in named:
        model.add(name, content)
    return write_model(model)


def remove_sections(view: View, prefix: str) -> list[Piece]:
    """Return the object without the sections whose names start with ``prefix``, as pieces.

    As ``llvm-objcopy --regex --remove-section='PREFIX.*'`` does: their symbols go too, and sections that are kept only
    with one of them. Raises HostError when something else needs one of them, and what :func:`add_sections` raises.
    """
    start = prefix.encode("utf-8", "surrogateescape")
    model = _read(view)
    model.remove(lambda part: part.name.startswith(start))
    return write_model(model)


def _read(view: View) -> CoffModel:
    """Return an object or image taken apart."""
    if view.head(0, 2) == magic_numbers.DOS:
        return CoffModel(PeImage(view))
    return CoffModel(CoffObject(view))
