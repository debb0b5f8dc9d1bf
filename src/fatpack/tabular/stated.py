"""Columns of what is stated of an image beside its target and sizes: by its container, by itself, by its host."""

from __future__ import annotations

from fatpack.errors import FormatError
from fatpack.images import NOT_INFLATED
from fatpack.model import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from fatpack.io.source import Source, View
    from fatpack.model import Image
    from fatpack.scanner import FoundImage

#: Forms of entries in CUDA fat binaries whose headers say no more about them that is a column.
_PLAIN = ("cubin", "ltoir", "tileir")


def container_columns(image: Image, container_format: str) -> dict[str, Any]:
    """Return the columns of what the container says of an image beyond its target and sizes.

    Of most images of a library it says nothing: then what is made when it is asked for is not asked for.
    """
    if container_format == "cuda-fatbin" and image.form in _PLAIN:
        return {}
    return {
        "stored_kind": image.attrs.get("kind"),
        "ptx_version": _ptx_version(image),
        "binary": image.attrs.get("binary"),
        "module": image.attrs.get("am_index") if container_format == "syclbin" else None,
    }


def _ptx_version(image: Image) -> str | None:
    """Return the version of PTX as its entry in a fat binary states it; None for all else."""
    head = getattr(image.record, "head", None) if image.form == "ptx" else None
    return None if head is None else f"{head.code_major}.{head.code_minor}"


def image_columns(found: FoundImage, holder: Source) -> dict[str, Any]:
    """Return the columns of what an image says of itself beyond what its container, in ``holder``, does."""
    recognised = found.recognised
    if recognised.form == "code-object":
        version = recognised.detail.rpartition("code object v")[2].partition(",")[0]
        columns: dict[str, Any] = {"code_object": int(version) if version.isdigit() else None}
    else:
        columns = {}
    if any(isinstance(item, Finding) and item.code == "FP1102" for item in found.inside):
        if recognised is NOT_INFLATED:  # it was only compared, which is seldom in vain
            from fatpack.images import peek

            recognised = peek.identify_by_head(found.as_stored, holder)
        columns["claimed"] = recognised.arch or None
    return columns


def cuda_runtime(view: View) -> int | None:
    """Return the major version of the CUDA runtime library that an ELF file loads; None for none, and if damaged."""
    from fatpack.binary.elf.file import ElfFile
    from fatpack.binary.elf.segments import needed_libraries

    try:
        names = needed_libraries(ElfFile(view, sections=False))
    except FormatError:  # the scan has the finding
        return None
    for name in names:
        library, _, version = name.partition(".so.")
        major = version.partition(".")[0]
        if library == "libcudart" and major.isascii() and major.isdigit() and len(major) < 4:
            return int(major)
    return None
