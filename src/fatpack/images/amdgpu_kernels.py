"""Properties and digests of the kernels of a code object; :mod:`fatpack.images.kernel` defines what digests cover.

The code of a kernel NAME is the range of its symbol NAME; in code object v2, with the ``amd_kernel_code_t`` before it.
The rest of a section of code are functions that kernels may call, and padding: LLVM AMDGPUUsage, "Code Objects";
``s_nop 0``, ``s_code_end`` and zeros are padding. Only the metadata has the offsets of a kernel's parameters, under
``.args``.
"""

from __future__ import annotations

import re

from fatpack.binary.elf.device_elf import DeviceElfSections, SectionRelocations, check_program_headers
from fatpack.binary.elf.layout import DYNSYM, SYMTAB
from fatpack.binary.elf.quick_header import decode_name
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.images import amdgpu, amdgpu_metadata
from fatpack.images.hollow import amd_body
from fatpack.images.kernel import (
    KernelInfo,
    KernelNeeds,
    and_others_words,
    check_count,
    digest_parts,
    header_digest_text,
    strip_unit_suffix,
)
from fatpack.targets.triple import as_llvm22, same_triple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from fatpack.images.amdgpu_metadata import CodeObjectMetadata, Values
    from fatpack.io.source import View


# Properties: metadata from the notes, and descriptors, which the hardware reads. A kernel NAME has a symbol NAME.kd for
# its descriptor and a symbol NAME for its code. The descriptor has 64 bytes (LLVM AMDGPUUsage, "Kernel Descriptor";
# ``llvm/Support/AMDHSAKernelDescriptor.h``)::
#
#     0x00  u32  bytes of LDS                    0x2c  u32  compute_pgm_rsrc3
#     0x04  u32  bytes of scratch                0x30  u32  compute_pgm_rsrc1
#     0x08  u32  bytes of arguments              0x34  u32  compute_pgm_rsrc2
#     0x0c  4    reserved                        0x38  u16  properties: 0x400 wavefronts of 32, 0x800 dynamic stack
#     0x10  i64  offset of the code              0x3a  u16  arguments that are preloaded
#     0x18  20   reserved                        0x3c  4    reserved
#
# Its register counts are rounded up to the hardware's granularity, so metadata has precedence. Everything else must
# agree with the metadata; without metadata, the descriptor is used.

#: st_info types
_OBJECT, _FUNC, _HSA_KERNEL = 1, 2, 10

_DESCRIPTOR_SIZE = 64
_WAVE32, _DYNAMIC_STACK = 0x400, 0x800

#: e_type of a relocatable object
_RELOCATABLE = 1

#: field of KernelNeeds that metadata and descriptor both have → its name in sentences
_TWICE = {
    "shared": "bytes of LDS",
    "local": "bytes of scratch",
    "params": "bytes of arguments",
    "wavefront": "work-items in a wavefront",
}

#: the generation in the name of a processor: 9 of gfx90a, 11 of gfx1100 and of gfx11-generic
_GENERATION = re.compile(r"gfx(\d+?)(?:[0-9a-f]{2}$|-)")

#: LIMIT: bytes of ``.comment`` that are read. Compilers and linkers leave one line each, once.
_COMMENT = 4096


def facts(view: View) -> KernelInfo:
    """Return the kernels of a code object with their properties. Raises FormatError if a table or note is damaged."""
    sections = DeviceElfSections(view)
    check_program_headers(sections.elf)
    metadata = amdgpu_metadata.read_notes(sections)
    noted = metadata.kernels if metadata else {}
    descriptors, places = _symbols(view)
    generation = _GENERATION.match(amdgpu.identify_elf(sections.elf).arch)
    kernels: list[KernelNeeds] = []
    #: field → the kernels whose two sources differ, and both values of the first
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
        section, start, size = places.get(name, (0, 0, None))
        body = None
        # In code object v2 a header comes before the code.
        if generation is not None and place is not None and size:
            code = sections.at(section, start, min(size, 4), f"code of {name}").tobytes()
            body = amd_body(code, int(generation[1]))
        kernels.append(KernelNeeds(name, size=size, body=body, **values))  # type: ignore[arg-type]
    contradictions: list[str] = []
    if metadata:
        contradictions += _of_target(sections, metadata)
        contradictions += _of_names(descriptors, noted)
        # The linker may still change the descriptors of a relocatable object.
        if sections.elf.type != _RELOCATABLE:
            contradictions += [
                f"kernel {names[0]} {and_others_words(names)}needs {first} {_TWICE[field]} by its metadata, "
                f"{second} by its descriptor"
                for field, (names, first, second) in differing.items()
            ]
    return KernelInfo(tuple(kernels), tuple(_made_by(sections)), tuple(contradictions))


def _symbols(view: View) -> tuple[dict[str, tuple[int, int] | None], dict[str, tuple[int, int, int]]]:
    """Return section and value of each kernel's descriptor (None for v2), and place and size of functions."""
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
    functions: dict[str, tuple[int, int, int]] = {}
    for index, (at, info, _, section) in enumerate(symbols):
        if section and info & 15 == _FUNC:
            function = decode_name(symbols.name(at))
            if function in descriptors:
                functions[function] = section, *symbols.place(index)
    return descriptors, functions


def _descriptor(sections: DeviceElfSections, name: str, section: int, address: int) -> Values:
    """Return the fields in the descriptor of a kernel."""
    data = sections.at(section, address, _DESCRIPTOR_SIZE, f"descriptor of {name}").tobytes()
    shared, local, params = (sections.number(data[at : at + 4]) for at in (0, 4, 8))
    properties = sections.number(data[0x38:0x3A])
    values: Values = {"shared": shared, "local": local, "params": params}
    values["wavefront"] = 32 if properties & _WAVE32 else 64
    if properties & _DYNAMIC_STACK:
        # Compilers before code object v5 never set this bit.
        values["has_dynamic_stack"] = True
    return values


def _of_target(sections: DeviceElfSections, metadata: CodeObjectMetadata) -> Iterator[str]:
    """Yield the contradiction between the target IDs of header and notes, if there is one."""
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
    """Yield the lines of compilers and linkers, each once."""
    for section in sections.rows:
        if section.name == ".comment":
            seen = dict.fromkeys(sections.content(section).head(0, _COMMENT).split(b"\0"))
            yield from (decode_name(line.removeprefix(b"Linker: ")) for line in seen if line)
            return


#: st_info types
_DIGEST_OBJECT, _DIGEST_FUNC, _DIGEST_HSA_KERNEL = 1, 2, 10

#: size of a descriptor, and position of the distance to the code
_DESCRIPTOR, _ENTRY = 64, slice(0x10, 0x18)

#: sh_type and sh_flags of loaded sections; names of loaded sections that linkers and assemblers make
_PROGBITS, _ALLOC, _EXECUTABLE = 1, 2, 4
_OF_THE_LINKER = (b".got", b".got.plt", b".relro_padding", b".eh_frame")

#: padding, in words of four bytes: zeros, s_nop 0, s_code_end
_PADDING = {bytes(4), b"\x00\x00\x80\xbf", b"\x00\x00\x9f\xbf"}


def codes(view: View) -> tuple[dict[str, bytes], bytes]:
    """Return the digest of each kernel's code, by its name, and that of the variables.

    A kernel whose code has no symbol or size has none. Raises FormatError if a table is damaged.
    """
    sections = DeviceElfSections(view)
    symbols = ElfSymbolTable(view, (DYNSYM, SYMTAB))
    rows = list(symbols)
    names = symbols.names([row[0] for row in rows])
    places = symbols.places(range(len(rows)))
    descriptors: dict[bytes, bytes] = {}
    functions: dict[bytes, tuple[int, int, int]] = {}
    places_of: dict[int, list[int]] = {}
    for name, (_, info, _, section), (value, size) in zip(names, rows, places, strict=True):
        if not section:
            continue
        if info & 15 == _DIGEST_OBJECT and name.endswith(b".kd"):
            data = bytearray(
                sections.at(section, value, _DESCRIPTOR, f"descriptor of {decode_name(name[:-3])}").tobytes()
            )
            data[_ENTRY] = bytes(8)
            descriptors[name[:-3]] = bytes(data)
            places_of.setdefault(section, []).append(value)
        elif info & 15 == _DIGEST_HSA_KERNEL:
            descriptors[name] = b""
        if info & 15 in (_DIGEST_FUNC, _DIGEST_HSA_KERNEL) and size and section < len(sections.headers):
            functions.setdefault(name, (section, value, size))
        check_count(view, len(descriptors))
    kernels = {name: functions[name] for name in descriptors if name in functions}
    stated, of_image = amdgpu_metadata.all_metadata(sections)
    moved = _RelocationText(sections, names)
    shared = {section: _between(sections, section, kernels) for section in {place[0] for place in kernels.values()}}
    left = len(view)
    found: dict[str, bytes] = {}
    for name, (section, value, size) in kernels.items():
        content = sections.at(section, value, size, f"code of {decode_name(name)}")
        left -= size
        if left < 0:  # symbols may share bytes: on average each is read at most once
            break
        start = value - sections.headers[section][3]
        said = stated.get(decode_name(name), b"")
        parts = descriptors[name], said, content.tobytes(), *moved.within(section, start, start + size), shared[section]
        found[decode_name(name)] = digest_parts(parts)
    sized = (
        f"{strip_unit_suffix(decode_name(name))} {decode_name(sections.names[section])} {size}".encode()
        for name, (_, info, _, section), (_, size) in zip(names, rows, places, strict=True)
        if info & 15 == _DIGEST_OBJECT and not name.endswith(b".kd") and 0 < section < len(sections.names)
    )
    elf = sections.elf
    header = header_digest_text(elf.osabi, elf.abi_version, elf.flags)
    return found, digest_parts((header, *of_image, *sorted(set(sized)), _variables(sections, places_of, moved)))


def functions(view: View) -> tuple[dict[str, bytes], list[bytes]]:
    """Return no function by its name, and texts about the code of sections in which no kernel is, sorted.

    The digest of each kernel covers the functions in its section. Raises FormatError if a table is damaged.
    """
    sections = DeviceElfSections(view)
    symbols = ElfSymbolTable(view, (DYNSYM, SYMTAB))
    rows = list(symbols)
    names = symbols.names([row[0] for row in rows])
    described = {name[:-3] for name, row in zip(names, rows, strict=True) if name.endswith(b".kd") and row[3]}
    with_kernels = {
        section
        for name, (_, info, _, section) in zip(names, rows, strict=True)
        if info & 15 == _DIGEST_HSA_KERNEL or (info & 15 == _DIGEST_FUNC and name in described)
    }
    moved = _RelocationText(sections, names)
    found: list[bytes] = []
    for index, row in enumerate(sections.headers):
        if row[1] == _PROGBITS and row[2] & _EXECUTABLE and index not in with_kernels:
            plain = strip_unit_suffix(decode_name(sections.names[index])).encode()
            parts = (plain, _between(sections, index, {}), *moved.within(index, 0, row[5]))
            found.append(digest_parts(parts).hex().encode())
    return {}, sorted(found)


def _variables(sections: DeviceElfSections, descriptors: dict[int, list[int]], moved: _RelocationText) -> bytes:
    """Return the digest of loaded bytes other than code and descriptors, which are given by section."""
    found: list[tuple[bytes, bytes]] = []
    for index, (name, (_, kind, flags, start, _, _, _, _)) in enumerate(
        zip(sections.names, sections.headers, strict=True)
    ):
        if kind != _PROGBITS or not flags & _ALLOC or flags & _EXECUTABLE or name in _OF_THE_LINKER:
            continue
        data, at = sections.bytes_of(index), 0
        parts: list[bytes] = []
        for place in sorted(descriptors.get(index, ())):
            if place - start >= at:
                parts.append(data[at : place - start])
                at = place - start + _DESCRIPTOR
        parts.append(data[at:])
        # Linkers pad between variables and descriptors.
        parts = [part for part in parts if part.strip(b"\0")]
        parts += moved.within(index, 0, len(data)) or moved.at(start, start + len(data))
        if parts:
            found.append((name, digest_parts(parts)))
    return digest_parts(part for pair in sorted(found) for part in pair)


class _RelocationText:
    """The relocations of sections as text, in the order of their offsets."""

    def __init__(self, sections: DeviceElfSections, names: list[bytes]) -> None:
        self._relocations, self._names = SectionRelocations(sections), names
        self._of: dict[int, tuple[list[int], list[bytes]]] = {}

    def within(self, section: int, start: int, end: int) -> list[bytes]:
        """Return the relocations of bytes of a section from ``start`` to ``end``."""
        if not self._relocations:
            return []
        from bisect import bisect_left

        if section not in self._of:
            rows = sorted(self._relocations.for_section(section))
            self._of[section] = [row[0] for row in rows], [self._text(*row) for row in rows]
        offsets, texts = self._of[section]
        first, last = bisect_left(offsets, start), bisect_left(offsets, end)
        return [b"%d %b" % (at - start, line) for at, line in zip(offsets[first:last], texts[first:last], strict=True)]

    def at(self, start: int, end: int) -> list[bytes]:
        """Return the dynamic relocations of addresses from ``start`` to ``end``."""
        return self.within(0, start, end)

    def _text(self, _: int, kind: int, symbol: int, addend: int) -> bytes:
        name = decode_name(self._names[symbol]) if symbol < len(self._names) else ""
        return f"{kind} {strip_unit_suffix(name)} {addend}".encode()


def _between(sections: DeviceElfSections, section: int, kernels: dict[bytes, tuple[int, int, int]]) -> bytes:
    """Return the digest of a section's code outside of kernels, without padding; nothing if there is none."""
    row = sections.row(section)
    content = sections.content(row)
    spans = sorted((value - row.address, size) for number, value, size in kernels.values() if number == section)
    parts: list[bytes] = []
    at = 0
    for start, size in (*spans, (len(content), 0)):
        if at < start <= len(content):
            parts.append(_code(content.slice(at, start - at)))
        at = max(at, start + size)
    parts = [part for part in parts if part]
    return digest_parts(parts) if parts else b""


def _code(view: View) -> bytes:
    """Return the bytes of a gap without padding at its ends."""
    data = view.tobytes()
    start, end = 0, len(data) - len(data) % 4
    while start < end and data[start : start + 4] in _PADDING:
        start += 4
    while end > start and data[end - 4 : end] in _PADDING:
        end -= 4
    return data[start:end]
