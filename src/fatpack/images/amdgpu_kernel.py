"""What code objects say of their kernels: metadata from the notes, and the descriptors that the hardware gets.

A kernel NAME has a symbol NAME.kd for its descriptor and a symbol NAME for its code. The descriptor is 64 bytes
(LLVM AMDGPUUsage, "Kernel Descriptor"; ``llvm/Support/AMDHSAKernelDescriptor.h``)::

    0x00  u32  bytes of LDS                    0x2c  u32  compute_pgm_rsrc3
    0x04  u32  bytes of scratch                0x30  u32  compute_pgm_rsrc1
    0x08  u32  bytes of arguments              0x34  u32  compute_pgm_rsrc2
    0x0c  4    reserved                        0x38  u16  properties: 0x400 wavefronts of 32, 0x800 dynamic stack
    0x10  i64  where the code is               0x3a  u16  arguments that are preloaded
    0x18  20   reserved                        0x3c  4    reserved

Its register counts are rounded up to what the hardware allocates, so they are not taken for the real ones. All else
must agree with the metadata; where there is none, the descriptor is the source.
"""

from __future__ import annotations

from fatpack.binary.elf.device_elf import DeviceElfSections
from fatpack.binary.elf.quick_header import DYNSYM, SYMTAB, decode_name
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.images import amdgpu, amdgpu_metadata
from fatpack.images.images_kernel import KernelInfo, KernelNeeds, and_others_words, check_count
from fatpack.targets.triple import as_llvm22, same_triple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fatpack.images.amdgpu_metadata import CodeObjectMetadata, Values
    from fatpack.io.source import View

#: st_info types
_OBJECT, _FUNC, _HSA_KERNEL = 1, 2, 10

_DESCRIPTOR_SIZE = 64
_WAVE32, _DYNAMIC_STACK = 0x400, 0x800

#: e_type of what a linker has not seen
_RELOCATABLE = 1

#: field of Kernel that metadata and descriptor both have → what a sentence calls it
_TWICE = {
    "shared": "bytes of LDS",
    "local": "bytes of scratch",
    "params": "bytes of arguments",
    "wavefront": "work-items in a wavefront",
}

#: LIMIT: bytes of ``.comment`` that are looked at. Compilers and linkers leave one line each, once.
_COMMENT = 4096


def facts(view: View) -> KernelInfo:
    """Return the kernels of a code object with what they need. Raises FormatError when a table or note is damaged."""
    sections = DeviceElfSections(view)
    metadata = amdgpu_metadata.read_notes(sections)
    noted = metadata.kernels if metadata else {}
    descriptors, sizes = _symbols(view)
    kernels: list[KernelNeeds] = []
    #: field → the kernels whose two sources differ, and what both say of the first
    differing: dict[str, tuple[list[str], object, object]] = {}
    for name, place in descriptors.items():
        described = _descriptor(sections, name, *place) if place is not None else {}
        stated = noted.get(name, {})
        for field in _TWICE:
            if field == "params" and not described.get(field):
                continue  # QUIRK(LLVM 10 and older): the word was reserved, and is 0
            if field in stated and field in described and stated[field] != described[field]:
                differing.setdefault(field, ([], stated[field], described[field]))[0].append(name)
        values: Values = {**described, **stated}
        kernels.append(KernelNeeds(name, size=sizes.get(name), **values))  # type: ignore[arg-type]
    contradictions: list[str] = []
    if metadata:
        contradictions += _of_target(sections, metadata)
        contradictions += _of_names(descriptors, noted)
        # The linker may still change what the descriptors of a relocatable object say.
        if sections.elf.type != _RELOCATABLE:
            contradictions += [
                f"kernel {names[0]} {and_others_words(names)}needs {first} {_TWICE[field]} by its metadata, "
                f"{second} by its descriptor"
                for field, (names, first, second) in differing.items()
            ]
    return KernelInfo(tuple(kernels), tuple(_made_by(sections)), tuple(contradictions))


def _symbols(view: View) -> tuple[dict[str, tuple[int, int] | None], dict[str, int]]:
    """Return section and value of each kernel's descriptor (None for a kernel of v2), and the sizes of functions."""
    symbols = ElfSymbolTable(view, (DYNSYM, SYMTAB))
    descriptors: dict[str, tuple[int, int] | None] = {}
    for index, (at, info, _, section) in enumerate(symbols):
        if section and info & 15 == _OBJECT:
            name = symbols.name(at)
            if name.endswith(b".kd"):
                descriptors[decode_name(name[:-3])] = section, symbols.place(index)[0]
        elif section and info & 15 == _HSA_KERNEL:
            descriptors[decode_name(symbols.name(at))] = None
        check_count(view, len(descriptors))
    sizes: dict[str, int] = {}
    for index, (at, info, _, section) in enumerate(symbols):
        if section and info & 15 == _FUNC:
            function = decode_name(symbols.name(at))
            if function in descriptors:
                sizes[function] = symbols.place(index)[1]
    return descriptors, sizes


def _descriptor(sections: DeviceElfSections, name: str, section: int, address: int) -> Values:
    """Return what the descriptor of a kernel says."""
    data = sections.at(section, address, _DESCRIPTOR_SIZE, f"descriptor of {name}").tobytes()
    shared, local, params = (sections.number(data[at : at + 4]) for at in (0, 4, 8))
    properties = sections.number(data[0x38:0x3A])
    values: Values = {"shared": shared, "local": local, "params": params}
    values["wavefront"] = 32 if properties & _WAVE32 else 64
    if properties & _DYNAMIC_STACK:
        # Compilers before code object v5 left the bit clear, whatever the stack.
        values["has_dynamic_stack"] = True
    return values


def _of_target(sections: DeviceElfSections, metadata: CodeObjectMetadata) -> Iterator[str]:
    """Yield a contradiction between the target IDs of the header and of the notes."""
    claimed = amdgpu.identify_elf(sections.elf)
    # arch-vendor-os-environment-target ID, the environment empty; target IDs have dashes of their own.
    # QUIRK(LLVM 23): amdgpu9.42-amd-amdhsa-unknown-gfx942 is what amdgcn-amd-amdhsa--gfx942 was.
    *parts, arch = metadata.target.split("-", 4)
    triple = as_llvm22("-".join(parts), arch)[0]
    if claimed.arch and metadata.target and (arch != claimed.arch or not same_triple(triple, claimed.triple)):
        yield f"its header says {claimed.triple}--{claimed.arch}, its metadata {metadata.target}"


def _of_names(descriptors: Collection[str], noted: Collection[str]) -> Iterator[str]:
    missing = [name for name in descriptors if name not in noted]
    if missing:
        yield f"kernel {missing[0]} {and_others_words(missing)}has a descriptor and no metadata"
    missing = [name for name in noted if name not in descriptors]
    if missing:
        yield f"kernel {missing[0]} {and_others_words(missing)}has metadata and no descriptor"


def _made_by(sections: DeviceElfSections) -> Iterator[str]:
    """Yield the lines that compilers and linkers left, each once."""
    for section in sections.rows:
        if section.name == ".comment":
            seen = dict.fromkeys(sections.content(section).head(0, _COMMENT).split(b"\0"))
            yield from (decode_name(line.removeprefix(b"Linker: ")) for line in seen if line)
            return
