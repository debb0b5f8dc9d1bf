"""Proofs of edited DLLs: every lie is found. True edits are proved where images are edited."""

from __future__ import annotations

import struct

import pytest
from tests.builders import linked_pe
from tests.proof.elf_forgeries import patched
from tests.proof.pe_forgeries import IMAGE, WHOLE, shrunk

from fatpack.errors import FatpackError, FormatError, Unsupported
from fatpack.io.source import BytesSource, View
from fatpack.proof import prove
from fatpack.proof.ledger import ProofResult
from fatpack.testing.formats import flip_bits


def view(data: bytes, name: str = "a.dll") -> View:
    return BytesSource(data, name).view()


def verdict(after: bytes, before: bytes = IMAGE.data) -> ProofResult:
    return prove(view(before), view(after, "b.dll"))


def is_found(after: bytes) -> bool:
    try:
        return not verdict(after).is_proved
    except (FormatError, Unsupported):
        return True


def _patched(at: int, data: bytes) -> bytes:
    return patched(shrunk(), at, data)


def test_the_edited_image_is_proved() -> None:
    found = verdict(shrunk())
    assert found.is_proved, found.differences
    assert [fact.fate for fact in found.containers] == ["reduced", "reduced"]


def test_no_byte_of_the_edited_image_can_lie() -> None:
    missed = [at for at in range(5, len(shrunk()), 37) if not is_found(flip_bits(shrunk(), at, 0x41))]
    assert not missed


@pytest.mark.slow
def test_no_byte_can_lie_anywhere() -> None:
    missed = [at for at in range(len(shrunk())) if not is_found(flip_bits(shrunk(), at, 0xFF))]
    assert not missed


def test_lies_are_named() -> None:
    gone = len(IMAGE.data) - len(shrunk())
    first, second = (IMAGE.places[".nvFatBi"][1] - gone + 24 * number + 8 for number in (0, 1))
    pointers = shrunk()[first : first + 8], shrunk()[second : second + 8]
    swapped = bytearray(shrunk())
    swapped[first : first + 8], swapped[second : second + 8] = pointers[1], pointers[0]
    lies = {
        "rights of what is loaded": _patched(IMAGE.optional + 240 + 40 * 3 + 36, struct.pack("<I", 0xE0000040)),
        "bytes in memory": _patched(IMAGE.optional + 16, struct.pack("<I", 0x1010)),
        "SizeOfInitializedData": _patched(IMAGE.optional + 8, struct.pack("<I", 1)),
        "CheckSum": _patched(IMAGE.optional + 64, struct.pack("<I", 1)),
        "PointerToRawData of debug information": _patched(IMAGE.places[".rdata"][1] - gone + 24, bytes(4)),
        "size of bytes after the last part": shrunk() + b"more",
        "pointer of a record": _patched(second, struct.pack("<Q", IMAGE.base + 0x1000)),
    }
    for what, lie in lies.items():
        assert what in [difference.what for difference in verdict(lie).differences], what


def test_a_checksum_that_is_right_is_proved() -> None:
    image = linked_pe.build(WHOLE)
    assert verdict(image.data, image.data).is_proved


def test_another_pointer_to_a_container_that_moved_is_found() -> None:
    """The word in .rdata is relocated, and no record."""
    at, reloc = IMAGE.places[".rdata"][1] + 0x180, IMAGE.places[".reloc"][1]
    block = struct.pack("<IIHH", IMAGE.places[".rdata"][0], 12, 10 << 12 | 0x180, 0)
    gone = len(IMAGE.data) - len(shrunk())
    word = struct.pack("<Q", IMAGE.base + IMAGE.containers[1])
    pair = []
    for data, shift in ((IMAGE.data, 0), (shrunk(), gone)):
        image = bytearray(data)
        image[at - shift : at - shift + 8] = word
        image[reloc - shift + 12 : reloc - shift + 24] = block
        struct.pack_into("<I", image, IMAGE.optional + 112 + 8 * 5 + 4, 24)
        pair.append(bytes(image))
    found = verdict(pair[1], pair[0])
    assert [each.what for each in found.differences] == ["pointer or symbol that no record is"]
    assert found.differences[0].address == IMAGE.places[".rdata"][0] + 0x180


def test_damage_gives_an_error_or_a_verdict_and_nothing_else() -> None:
    for at in [*range(0, 0x400, 5), *range(0x400, len(IMAGE.data), 97)]:
        try:
            verdict(shrunk(), flip_bits(IMAGE.data, at, 0x80))
        except FatpackError:
            pass
    for size in range(0, len(IMAGE.data), 211):
        try:
            assert not verdict(IMAGE.data[:size]).is_proved
        except FatpackError:
            pass


def _signed(content: bytes) -> bytes:
    """Return the image with a certificate behind it, to which its directory leads."""
    optional_at = int.from_bytes(content[0x3C:0x40], "little") + 24
    certificate = struct.pack("<IHH", 16, 0x200, 2) + b"signed.."
    return patched(content, optional_at + 112 + 8 * 4, struct.pack("<II", len(content), 16)) + certificate


def test_a_certificate_may_go_and_nothing_else_of_the_directories() -> None:
    before = _signed(IMAGE.data)
    found = verdict(shrunk(), before)
    assert found.is_proved, found.differences
    optional_at = int.from_bytes(IMAGE.data[0x3C:0x40], "little") + 24
    for number in range(16):
        if number != 4:
            at = optional_at + 112 + 8 * number
            other = patched(shrunk(), at, bytes([shrunk()[at] ^ 1]))
            try:
                assert not verdict(other, before).is_proved, number
            except (FormatError, Unsupported):
                pass
