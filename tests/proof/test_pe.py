"""Proofs of edited DLLs: every lie is found. True edits are proved where images are edited."""

from __future__ import annotations

import struct
from typing import NamedTuple

import pytest
from tests.builders import linked_pe
from tests.proof.elf_forgeries import patched
from tests.proof.pe_forgeries import CUT, IMAGE, REDUCED, WHOLE, shrunk

from fatpack.errors import FatpackError, FormatError, Truncated, Unsupported
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


@pytest.mark.parametrize("count", range(10))
def test_zeros_in_front_of_a_certificate_may_go_with_it(count: int) -> None:
    """They are those up to the next multiple of eight: no more, and no other bytes."""
    for last in (b"\0", b"\1"):
        padding = (bytes(count) + last)[1:]
        found = verdict(shrunk(), _signed(IMAGE.data + padding))
        assert found.is_proved == (count < 8 and not any(padding)), found.differences
        kept = verdict(shrunk() + padding, _signed(IMAGE.data + padding))
        assert kept.is_proved, kept.differences


def test_more_sections_than_bytes_are_told_with_what_they_need() -> None:
    count, table = 5000, IMAGE.optional + 240
    with pytest.raises(Truncated) as caught:
        verdict(_patched(IMAGE.optional - 18, struct.pack("<H", count)))
    assert (caught.value.offset, caught.value.field) == (table, "NumberOfSections")
    assert str(table + count * 40) in caught.value.describe()


def test_a_lie_in_the_headers_is_found_at_its_place() -> None:
    """The difference is at the byte, or at the number or the section header that the byte is in."""
    end = IMAGE.optional + 240 + 40 * len(IMAGE.places)
    far = {}
    for at in range(IMAGE.optional - 24, end, 3):
        try:
            found = verdict(flip_bits(shrunk(), at, 0x21)).differences
        except (FormatError, Unsupported):
            continue
        start = IMAGE.optional + 240
        first = start + (at - start) // 40 * 40 if at >= start else at - at % 4
        places = {each.address for each in found if each.address is not None}
        if not any(first <= place <= at for place in places):
            far[at - IMAGE.optional] = found
    # The difference is in what the number leads to: symbols, and tables of the data directories.
    assert all(far.values())
    assert far.keys() <= {*range(-12, -8), *range(112, 240)}


@pytest.mark.parametrize(("what", "field"), [("SizeOfInitializedData", 8), ("CheckSum", 64)])
def test_a_number_of_the_headers_has_its_values(what: str, field: int) -> None:
    at = IMAGE.optional + field
    was, now = (struct.unpack_from("<I", data, at)[0] for data in (IMAGE.data, shrunk()))
    for value in {0, 1, was, now, was - 1, was + 1, now - 1, now + 1, 0xFFFFFFFF, was | 1 << 31}:
        if not 0 <= value < 1 << 32:
            continue
        found = verdict(_patched(at, struct.pack("<I", value))).differences
        assert bool(found) == (value not in (was, now)), hex(value)
        assert all((each.what, each.address) == (what, at) for each in found)


@pytest.mark.parametrize("index", range(1, 7))
def test_sizes_and_places_of_sections_in_the_file(index: int) -> None:
    """Each is what it is: another one gives another section."""
    header = IMAGE.optional + 240 + 40 * (index - 1)
    for field in (16, 20):
        now = struct.unpack_from("<I", shrunk(), header + field)[0]
        for value in {0, 0x100, 0x200, now - 0x200, now + 0x200, now + 1, now * 2 + 0x200} - {now}:
            if value >= 0:
                assert is_found(_patched(header + field, struct.pack("<I", value))), (field, hex(value))


class Symbol(NamedTuple):
    """A COFF symbol; its value counts from the begin of its section."""

    name: bytes
    value: int
    section: int
    type: int = 0
    storage: int = 3
    records: int = 0

    def row(self) -> bytes:
        return struct.pack("<8sIhHBB", *self)


@pytest.mark.parametrize("section", [1, linked_pe.FAT, linked_pe.RECORDS, 6, 0, -1, -2, 7])
def test_a_symbol_follows_the_container_that_it_names(section: int) -> None:
    """Any other symbol stays, and so does one without a section."""
    at = struct.unpack_from("<I", IMAGE.data, IMAGE.optional - 24 + 12)[0] + 3 * 18
    first, second = IMAGE.containers
    new = first + len(REDUCED[0])
    base = list(IMAGE.places.values())[section - 1][0] if 0 < section < 7 else 0

    def symbol(address: int) -> Symbol:
        return Symbol(b"fatbin1", (address - base) % (1 << 32), section)

    def is_right(was: Symbol, now: Symbol) -> bool:
        found = verdict(_patched(at - CUT, now.row()), patched(IMAGE.data, at, was.row())).differences
        assert all((each.what, each.offset) == ("symbol", at - CUT) for each in found)
        return not found

    for was in (first, second, second + 1, second + 64, second + len(WHOLE[1]), 0):
        for now in {was, new, new + was - second, second, first, new + 1}:
            is_moved = was == second and now == new and 0 < section < 7 and base <= now
            assert is_right(symbol(was), symbol(now)) == (was == now or is_moved), (was, now)
    followed = symbol(new)
    others = [followed._replace(name=b"fatbin2"), followed._replace(section=section + 8), followed._replace(type=1)]
    for other in (*others, followed._replace(storage=2), followed._replace(records=1)):
        assert not is_right(symbol(second), other)
