"""The code of the kernels of a code object, as digests: :mod:`fatpack.images.kernel` says what they cover.

The code of a kernel NAME is what its symbol NAME spans; in code object v2, that and the ``amd_kernel_code_t`` ahead of
it. What a section of code has beside its kernels are functions that they may call, and padding: LLVM AMDGPUUsage,
"Code Objects"; ``s_nop 0``, ``s_code_end`` and zeros fill up. Where a kernel expects its parameters is in the metadata
alone, under ``.args``.
"""

from __future__ import annotations

from fatpack.binary.elf.device_elf import DeviceElfSections
from fatpack.binary.elf.quick_header import DYNSYM, SYMTAB, decode_name
from fatpack.binary.elf.relocations import SectionRelocations
from fatpack.binary.elf.symbols import ElfSymbolTable
from fatpack.images import amdgpu_metadata
from fatpack.images.images_kernel import check_count
from fatpack.images.kernel import digest_parts, header_digest_text, strip_unit_suffix

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: st_info types
_DIGEST_OBJECT, _DIGEST_FUNC, _DIGEST_HSA_KERNEL = 1, 2, 10

#: bytes of a descriptor, and where it says how far the code is from it
_DESCRIPTOR, _ENTRY = 64, slice(0x10, 0x18)

#: sh_type and sh_flags of what is loaded; sections of it that a linker or assembler makes
_PROGBITS, _ALLOC, _EXECUTABLE = 1, 2, 4
_OF_THE_LINKER = (b".got", b".got.plt", b".relro_padding", b".eh_frame")

#: words of four bytes that fill up: zeros, s_nop 0, s_code_end
_PADDING = {bytes(4), b"\x00\x00\x80\xbf", b"\x00\x00\x9f\xbf"}


def codes(view: View) -> tuple[dict[str, bytes], bytes]:
    """Return the digest of each kernel's code, by its name, and that of the variables.

    There is none for a kernel whose code has no symbol or size.

    Raises FormatError when a table is damaged.
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
        if left < 0:  # symbols may share bytes: each is read once at most on average
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


def _variables(sections: DeviceElfSections, descriptors: dict[int, list[int]], moved: _RelocationText) -> bytes:
    """Return the digest of what is loaded beside code and descriptors, whose places are given by section."""
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
        # Linkers fill up between variables and descriptors.
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
        """Return those that change bytes of a section from ``start`` to ``end``."""
        if not self._relocations:
            return []
        from bisect import bisect_left

        if section not in self._of:
            rows = sorted(self._relocations.of(section))
            self._of[section] = [row[0] for row in rows], [self._text(*row) for row in rows]
        offsets, texts = self._of[section]
        first, last = bisect_left(offsets, start), bisect_left(offsets, end)
        return [b"%d %b" % (at - start, line) for at, line in zip(offsets[first:last], texts[first:last], strict=True)]

    def at(self, start: int, end: int) -> list[bytes]:
        """Return those that change addresses from ``start`` to ``end`` when a linked image is loaded."""
        return self.within(0, start, end)

    def _text(self, _: int, kind: int, symbol: int, addend: int) -> bytes:
        name = decode_name(self._names[symbol]) if symbol < len(self._names) else ""
        return f"{kind} {strip_unit_suffix(name)} {addend}".encode()


def _between(sections: DeviceElfSections, section: int, kernels: dict[bytes, tuple[int, int, int]]) -> bytes:
    """Return the digest of the code of a section that is no kernel's, without what fills up; nothing for none."""
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
    """Return the bytes of a gap between its padding."""
    data = view.tobytes()
    start, end = 0, len(data) - len(data) % 4
    while start < end and data[start : start + 4] in _PADDING:
        start += 4
    while end > start and data[end - 4 : end] in _PADDING:
        end -= 4
    return data[start:end]
