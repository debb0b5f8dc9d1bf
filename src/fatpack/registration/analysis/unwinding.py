"""Where functions start, by the tables of unwinding, which ``strip`` keeps.

``.eh_frame_hdr`` has them in order; without it ``.eh_frame`` itself is walked. (LSB, "Exception Frames".)
"""

from __future__ import annotations

from array import array

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fatpack.registration.analysis.registers import LinkedProgram

#: LIMIT: functions that a table of unwinding names
_MAX_FUNCTIONS = 1 << 21

_DATAREL_SDATA4, _UDATA4 = 0x3B, 3

#: DW_EH_PE: how an address is stored, and that it is relative to its own place
_PCREL, _SIZES, _SIGNED = 0x10, {0: 8, 2: 2, 3: 4, 4: 8, 10: 2, 11: 4, 12: 8}, 8


def function_starts(program: LinkedProgram) -> Iterable[int]:
    """Return where the functions start that the tables of an ELF program name."""
    by_name = {section.name: section for section in program.sections}
    header, frames = by_name.get(".eh_frame_hdr"), by_name.get(".eh_frame")
    if header is not None:
        data = program.content(header)
        if len(data) >= 12 and data[2] == _UDATA4 and data[3] == _DATAREL_SDATA4:
            count = min(int.from_bytes(data[8:12], "little"), (len(data) - 12) // 8, _MAX_FUNCTIONS)
            if count:
                base = header.address
                return [base + start for start in array("i", data[12 : 12 + 8 * count])[::2]]
    if frames is not None:
        return _walked(program.content(frames), frames.address)
    return ()


def _walked(data: bytes, base: int) -> Iterator[int]:
    """Yield the starts that the records of ``.eh_frame`` have, each with the encoding of the one it refers to."""
    encodings: dict[int, int] = {}
    at, left = 0, _MAX_FUNCTIONS
    while at + 8 <= len(data) and left:
        size, head = int.from_bytes(data[at : at + 4], "little"), 4
        if size == 0xFFFFFFFF:
            size, head = int.from_bytes(data[at + 4 : at + 12], "little"), 12
        if not size or at + head + size > len(data):
            return
        body = at + head
        lead = int.from_bytes(data[body : body + 4], "little")
        if not lead:
            encodings[at] = _encoding(data[body + 4 : body + size])
        else:
            how = encodings.get(body - lead, -1)
            place = body + 4
            width = _SIZES.get(how & 15, 0)
            if how >= 0 and width and place + width <= body + size:
                value = int.from_bytes(data[place : place + width], "little", signed=bool(how & _SIGNED))
                yield value + (base + place if how & 0x70 == _PCREL else 0)
                left -= 1
        at = body + size


def _encoding(body: bytes) -> int:
    """Return how the addresses of a common record's functions are stored: absolute without augmentation."""
    end = body.find(b"\0", 1)
    augmentation = body[1:end] if end > 0 else b""
    if not augmentation.startswith(b"z"):
        return 0 if not augmentation else -1
    at = end + 1
    for _ in range(3):  # code alignment, data alignment, register of the return address; then the length
        at = _behind(body, at)
    at = _behind(body, at)
    for letter in augmentation[1:]:
        if letter == 0x52:  # R
            return body[at] if at < len(body) else -1
        if letter == 0x50:  # P: how, and the address of the personality
            at += 1 + _SIZES.get(body[at] & 15 if at < len(body) else 0, 8)
        elif letter == 0x4C:  # L
            at += 1
    return 0


def _behind(body: bytes, at: int) -> int:
    """Return the place behind a LEB128 number."""
    while at < len(body) and body[at] & 0x80:
        at += 1
    return at + 1
