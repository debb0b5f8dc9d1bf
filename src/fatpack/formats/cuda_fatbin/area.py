"""The variable area of an entry: identifier, and options or the copy of ``.nv.compat``.

::

    identifier   at identifier_offset: the bytes, NUL, zeros to a multiple of 8
    options      at options_offset: a descriptor, then the bytes, NUL, zeros to a multiple of 8
    compat       the same descriptor, then one zero byte (the empty options), the section, zeros to a multiple of 8

QUIRK(fatbinary 8): what fills a multiple of 8 is not always zero.
QUIRK(fatbinary 11 and older): options come first, and are eight zero bytes if there are none.
QUIRK(fatbinary 12.4): an identifier that is empty takes eight zero bytes, and its offset is 0 all the same.
QUIRK(fatbinary 13): the size of ``compat`` does not count the zero byte in front of it.
"""

from __future__ import annotations

from fatpack.errors import format_hex
from fatpack.formats.cuda_fatbin.faults import fatbin_error
from fatpack.formats.cuda_fatbin.layout import DESCRIPTOR, ELF, ENTRY, WITH_OPTIONS, padded_string_size
from fatpack.formats.cuda_fatbin.stored import CudaEntryHeader, CudaEntryStrings
from fatpack.formats.diagnostics import FindingCollector

TYPE_CHECKING = False
if TYPE_CHECKING:
    from fatpack.io.source import View

#: of an entry without strings
NO_STRINGS = CudaEntryStrings()


def read_entry_strings(entry: View, head: CudaEntryHeader, faults: FindingCollector) -> CudaEntryStrings:
    """Return the strings of an entry; ``entry`` starts with it and ends where strings must have ended.

    A string that lies elsewhere is a fault and read as empty.
    """
    identifier, end = b"", ENTRY.size
    if head.identifier_offset and _is_inside(
        entry, head.identifier_offset, head.identifier_size, "identifier", "identifier_offset", faults
    ):
        identifier = entry.read(head.identifier_offset, head.identifier_size)
        end = max(end, head.identifier_offset + padded_string_size(head.identifier_size))
    options, compat = b"", b""
    if head.options_offset and _is_inside(
        entry, head.options_offset, DESCRIPTOR.size, "options", "options_offset", faults
    ):
        at, size = DESCRIPTOR.read(entry, head.options_offset)
        lead = 1 if head.kind == ELF else 0
        end = max(end, head.options_offset + DESCRIPTOR.size)
        if (at or size) and _is_inside(entry, at, lead + size, "options", "options_offset", faults):
            found = entry.read(at + lead, size)
            options, compat = (b"", found) if lead else (found, b"")
            end = max(end, at + padded_string_size(size))
    return CudaEntryStrings(identifier, options, compat, end)


def _is_inside(entry: View, at: int, size: int, what: str, field: str, faults: FindingCollector) -> bool:
    if ENTRY.size <= at and at + size <= len(entry):
        return True
    where = f"{format_hex(at)} + {format_hex(size)}"
    error = fatbin_error(
        entry,
        ENTRY.field_offset(field),
        what,
        f"{where} is outside of the header",
        expected=f"{ENTRY.size:#x} to {format_hex(len(entry))}",
        hint="read as if there were none; the entry is copied as it is",
    )
    faults.unreadable("FP1406", error, entry.span(0, min(ENTRY.size, len(entry))))
    return False


def write_entry_strings(kind: int, area: CudaEntryStrings) -> tuple[bytes, int, int]:
    """Return a variable area as CUDA 12.5 and later lay it out, with identifier_offset and options_offset.

    Kinds with options have their block even if they are empty.
    """
    stored, identifier_at, options_at = b"", 0, 0
    if area.identifier:
        identifier_at = ENTRY.size
        stored += _field(area.identifier)
    if area.compat or kind in WITH_OPTIONS:
        text = area.compat or area.options
        lead = b"\0" if area.compat else b""
        options_at = ENTRY.size + len(stored)
        stored += DESCRIPTOR.pack(options_at + DESCRIPTOR.size, len(text)) + lead
        stored += text + bytes(padded_string_size(len(text)) - len(lead) - len(text))
    return stored, identifier_at, options_at


def _field(text: bytes) -> bytes:
    return text + bytes(padded_string_size(len(text)) - len(text))
