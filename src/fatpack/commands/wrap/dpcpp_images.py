"""Images as DPC++'s build steps hand them to clang-offload-wrapper, with the facts that other files have about them.

Source: ``clang/tools/clang-offload-wrapper/ClangOffloadWrapper.cpp`` of intel/llvm at 02bb9ec032e1. The records of
SYCL's images have a format, options, names of entries, property sets and a manifest; those of other kinds, bytes
alone.
"""

from __future__ import annotations

from fatpack.commands.wrap.file_table import read_names
from fatpack.errors import BadValue
from fatpack.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from fatpack.io.source import Piece, View

#: The kinds in the order in which their descriptors are written. All but SYCL's are OpenMP's descriptor.
DPCPP_KINDS = ("openmp", "sycl", "host", "hip")

#: The form of an image, by the number in its record.
FORMATS = ("none", "native", "spirv", "llvmbc")


class DpcppImage(Record):
    """An image: what it is for, its file and bytes, and what its record says of it.

    ``entries`` are names of kernels, None where no file lists them; so are ``property_sets``, by their names: numbers,
    or bytes after the eight that say how many bits they are.
    """

    kind: str
    file: str
    content: View
    target: str = ""
    format: str = "none"
    compile_options: str = ""
    link_options: str = ""
    manifest_file: str = ""
    manifest: View | None = None
    entries: tuple[str, ...] | None = None
    property_sets: Mapping[str, Mapping[str, int | bytes]] | None = None


class DpcppOutput(Record):
    """LLVM IR in pieces; ``added`` has each image, followed by the names of its globals."""

    pieces: tuple[Piece, ...]
    added: tuple[str | DpcppImage, ...]


def read_entry_names(view: View) -> tuple[str, ...]:
    """Return the names in a file that has one on each line. Raises BadValue for one with a NUL."""
    return tuple(read_names(view))


def read_property_sets(view: View) -> dict[str, dict[str, int | bytes]]:
    """Return the property sets of a file in the order of their names, also empty ones.

    Raises BadValue for a line that is none, and for a file without a property set.
    """

    from fatpack.formats.syclbin import properties

    def refuse(at: int, _size: int, problem: str) -> None:
        expected = "[set], or name=1|number or name=2|bytes below it"
        raise BadValue(
            problem, format="property sets", offset=view.offset(at), expected=expected, found=problem, chain=view.chain
        )

    parts, size = [], 0
    for block in view.pieces():
        parts.append(bytes(block))
        if b"\0" in parts[-1]:
            refuse(size + parts[-1].index(b"\0"), 1, "a NUL, which no text has")
        size += len(block)
    text = b"".join(parts)
    sets: dict[str, dict[str, int | bytes]] = {name: {} for name in properties.property_set_names(text)}
    for item in properties.read_properties(text, refuse):
        sets[item.set][item.name] = properties.stored_value(text, item)
    if not sets:
        refuse(0, 0, "invalid property set registry")
    return sets
