"""WebAssembly modules: objects and linked modules of clang, rustc and others, read but never edited.

::

    0x00  "\\0asm", version u32 = 1
    0x08  sections, each: id u8, size as LEB128, content; id 0 is a custom section, whose content starts with its name

clang puts offload binaries into a custom section ``.llvm.offloading``, which wasm-ld copies into linked modules. What
HIP and CUDA embed is data like any other: the data section is searched for it.

How we know: the WebAssembly core specification 2.0, binary format; what clang 22 writes for wasm32 and wasm64, and
wasm-ld 22 links, is compared with llvm-readobj 22 in the reference tests.
"""

from __future__ import annotations

from fatpack import magics
from fatpack.doc import Doc
from fatpack.errors import FormatError
from fatpack.findings import finding, unread
from fatpack.hosts import CONTAINER, Site
from fatpack.hosts.wasm.read import CODE, CUSTOM, DATA, FORMAT, HEADER, Section, sections_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from fatpack.hosts.usual import Division
    from fatpack.io.source import View
    from fatpack.model import Finding, Label

__all__ = [
    "DOC",
    "LAYOUTS",
    "REFUSAL",
    "detect",
    "divided_sections",
    "labels",
    "locate",
    "sections",
]

DOC = Doc(
    name=FORMAT,
    title="WebAssembly module",
    description="Objects and linked modules for WebAssembly. Written by clang, wasm-ld, rustc and Emscripten.",
    references=(
        "WebAssembly Core Specification 2.0, section 5.5 (modules)",
        "llvm/lib/Object/WasmObjectFile.cpp, LLVM 22.1",
        "WebAssembly tool conventions, Linking.md, read in 2026 (names of custom sections)",
    ),
    reads="modules of version 1, with memories of 32 and 64 bits",
    writes="nothing",
    limitations=(
        "Modules are never edited: indices of functions and places of data are part of the code. llvm-objcopy "
        "--add-section=.llvm.offloading=FILE adds a custom section.",
        "HIP's and CUDA's containers lie in the data section, and are found by what they start with.",
        "Components, which hold modules, are named and searched, not read.",
        "No runtime registers device code of WebAssembly programs, and LLVM's own tools find none in them.",
    ),
)

LAYOUTS = (HEADER,)

#: What LLVM calls the custom section of offload binaries, and those of relocatable links
_OFFLOADING = ".llvm.offloading"

#: Custom sections that compilers, linkers and debuggers write anyway: names, and how they begin.
_USUAL = frozenset(("name", "linking", "producers", "target_features", "dylink", "dylink.0", "build_id"))
_BEGINNINGS = ("reloc.", ".debug_", "sourceMappingURL", "external_debug_info", "metadata.code.", "__wasm_split")

#: Why such a file is not edited, and what would work.
REFUSAL = (
    "WebAssembly modules are not edited: symbols and relocations count their sections",
    "llvm-objcopy --add-section=.llvm.offloading=FILE adds one, --remove-section takes it out",
)


def detect(view: View) -> bool:
    """Say whether the bytes start as a module of version 1."""
    return view.head(0, HEADER.size) == magics.WASM + b"\1\0\0\0"


def locate(view: View) -> Iterator[Site | Finding]:
    """Yield the custom sections that hold containers; ``index`` counts all sections from 0, as symbols do."""
    for item in sections_of(view):
        if isinstance(item, FormatError):
            at = 0 if item.offset is None else min(item.offset - view.start, len(view))
            yield finding(unread("FP2601", item), view.span(at), item.describe(), item.hint, field=item.field)
        elif item.kind == CUSTOM and item.name.startswith(_OFFLOADING) and item.size:
            yield Site(view.slice(item.offset, item.size, item.name), item.name, item.number, expects=CONTAINER)


def _whole(view: View) -> Iterator[Section]:
    return (item for item in sections_of(view) if not isinstance(item, FormatError) and item.size)


def sections(view: View) -> list[tuple[int, int, str, int]]:
    """Return (start, end, name, number) of every section that has bytes, as far as they can be read."""
    return [(item.offset, item.offset + item.size, item.name, item.number) for item in _whole(view)]


def divided_sections(view: View, _places: object = None) -> Division:
    """Return the sections that have bytes, divided into those that modules have anyway and the others.

    The data section is one of the others: whatever a program embeds is in there.
    """
    from fatpack.hosts.usual import Division

    unusual: list[tuple[int, int]] = []
    opened: dict[str, tuple[int, int]] = {}
    for item in _whole(view):
        is_usual = item.name in _USUAL or item.name.startswith(_BEGINNINGS)
        if item.kind == DATA or (item.kind == CUSTOM and not is_usual):
            unusual.append((item.offset, item.offset + item.size))
        elif item.kind == CODE:
            count, size = opened.get(item.name, (0, 0))
            opened[item.name] = count + 1, size + item.size
    return Division(unusual, opened, {})


def labels(view: View) -> Iterator[Label]:
    """Yield a label for every byte: headers and names of sections field by field, contents whole."""
    from fatpack.hosts.wasm import byte_map

    return byte_map.labels(view)
