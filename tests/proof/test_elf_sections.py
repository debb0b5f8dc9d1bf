"""Section headers of an edited library: which sizes and offsets they may have, in full; and words of fixed programs."""

from __future__ import annotations

import struct

import pytest
from tests.builders import linked_elf
from tests.proof.elf_forgeries import (
    FILE_SIZE,
    LIBRARY,
    PTX,
    REDUCED,
    SHRUNK,
    SM80,
    SM90,
    WHOLE,
    ZEROED,
    header,
    patched,
    section_at,
)

from fatpack.io.source import BytesSource
from fatpack.proof import prove

CUT = len(LIBRARY.data) - len(SHRUNK)
SIZE, OFFSET = 32, 24


def differences(before: bytes, after: bytes) -> set[str]:
    found = prove(BytesSource(before, "a.so").view(), BytesSource(after, "b.so").view())
    return {each.what for each in found.differences}


@pytest.mark.parametrize("align", [0, 8, 64])
def test_the_section_of_device_code_ends_with_its_content(align: int) -> None:
    """It ends after its last container, or after what was moved behind that, or at a multiple of its alignment."""
    start, old_size = LIBRARY.places[".nv_fatbin"]
    containers = sum(map(len, REDUCED))
    tables = sum(LIBRARY.places[name][1] for name in (".note.gnu.build-id", ".gnu.hash"))
    at = section_at(LIBRARY, ".nv_fatbin") + SIZE
    for after, cut, ends in ((ZEROED, 0, [containers]), (SHRUNK, CUT, [containers, containers + tables])):
        rounded = [end + -(start + end) % max(align, 1) for end in ends]
        # The segment of the shrunk library ends with the tables.
        allowed = {*ends, *rounded, old_size}
        sizes = {*range(0, old_size + 9, 64), *(size + step for size in allowed for step in (-8, -1, 0, 1, 8))}
        before = patched(LIBRARY.data, at + 16, struct.pack("<Q", align))
        proved = {
            size
            for size in sizes
            if not differences(before, patched(after, at - cut, struct.pack("<QIIQ", size, 0, 0, align)))
        }
        assert proved == allowed


def test_the_section_may_end_where_its_segment_does() -> None:
    """The loader's bytes end with the moved tables, whatever the alignment."""
    start, _ = LIBRARY.places[".nv_fatbin"]
    filled = int.from_bytes(header(SHRUNK, 0)[FILE_SIZE:][:8], "little")
    at = section_at(LIBRARY, ".nv_fatbin") + SIZE - CUT
    assert not differences(LIBRARY.data, patched(SHRUNK, at, struct.pack("<Q", filled - start)))


def test_a_section_without_bytes_is_where_its_neighbours_are() -> None:
    """``.bss`` has the offset of its address, that of the bytes before it, or one moved as far as others were."""
    at = section_at(LIBRARY, ".bss") + OFFSET
    old, _ = LIBRARY.places[".bss"]
    for after, cut in ((ZEROED, 0), (SHRUNK, CUT)):
        offsets = {step + place for place in (0, old - CUT, old, old + CUT) for step in (-8, -1, 0, 1, 8)}
        proved = {
            offset
            for offset in offsets
            if offset >= 0 and not differences(LIBRARY.data, patched(after, at - cut, struct.pack("<Q", offset)))
        }
        assert proved == {old, old - cut}


def _images(start: int, *images: bytes) -> set[int]:
    """Return where the images of a fat binary at an address begin."""
    found, at = set(), start + 16
    for image in images:
        found.add(at + 64)
        at += len(image)
    return found


def fixed(data: bytes) -> bytes:
    """Return a library as a program that is loaded where it is linked for: nothing in it is relocated."""
    at, size = LIBRARY.places[".rela.dyn"]
    return patched(patched(data, 16, b"\2"), at, bytes(size))


FIRST, SECOND = LIBRARY.containers
IN_FIRST, IN_SECOND = _images(FIRST, SM80, SM90, PTX), _images(SECOND, SM80, SM90)


@pytest.mark.parametrize(
    ("containers", "lost"),
    [
        (REDUCED, {SECOND} | IN_FIRST | IN_SECOND),
        ([WHOLE[0], REDUCED[1]], IN_SECOND),
        ([REDUCED[0], WHOLE[1]], {SECOND} | IN_FIRST | IN_SECOND),
        (WHOLE, set()),
    ],
    ids=["both", "the second", "the first", "none"],
)
def test_words_of_a_fixed_program_hold_no_place_of_device_code_that_changed(
    containers: list[bytes], lost: set[int]
) -> None:
    """Any word of a program that is not relocated may be an address: of a container that moved, or of its images."""
    before, after = fixed(LIBRARY.data), fixed(linked_elf.zeroed(LIBRARY, containers))
    end = SECOND + len(WHOLE[1])
    at = LIBRARY.places[".data"][0]
    found = set()
    for address in {*range(FIRST, end + 8, 56), *(each + step for each in lost for step in (-1, 0, 1)), FIRST, SECOND}:
        word = struct.pack("<Q", address)
        what = differences(patched(before, at, word), patched(after, at, word))
        if what:
            assert what == {"container that moved or shrank, led to by no record"}
            found.add(address)
    assert found == lost


@pytest.mark.parametrize(("at", "is_found"), [(0, True), (8, True), (40, True), (4, False), (1, False)])
def test_words_lie_at_multiples_of_their_size(at: int, is_found: bool) -> None:
    place, word = LIBRARY.places[".data"][0] + at, struct.pack("<Q", SECOND)
    before, after = fixed(LIBRARY.data), fixed(ZEROED)
    assert bool(differences(patched(before, place, word), patched(after, place, word))) == is_found


#: parts of the file that nothing loads, in their order
PARTS = {name: LIBRARY.places[name][0] for name in (".comment", ".symtab", ".strtab", ".shstrtab")}
PARTS["section headers"] = LIBRARY.table


def _inserted(at: int, new: bytes) -> bytes:
    """Return the library with bytes in front of a part that nothing loads."""
    data = bytearray(LIBRARY.data[:at] + new + LIBRARY.data[at:])
    table = LIBRARY.table + len(new)
    struct.pack_into("<Q", data, 40, table)
    for name, start in PARTS.items():
        if start >= at and name in LIBRARY.places:
            number = list(LIBRARY.places).index(name) + 1
            struct.pack_into("<Q", data, table + 64 * number + OFFSET, start + len(new))
    return bytes(data)


@pytest.mark.parametrize("part", PARTS)
def test_only_zeros_may_come_between_parts_of_a_file(part: str) -> None:
    at = PARTS[part]
    for new in (bytes(8), bytes(64), LIBRARY.data[at : at + 16], LIBRARY.data[at - 16 : at], b"\1" + bytes(7)):
        found = differences(LIBRARY.data, _inserted(at, new))
        assert found == ({"bytes between parts of the file"} if any(new) else set()), new


@pytest.mark.parametrize("size", [16, (1 << 20) + 64])
def test_bytes_between_parts_stay_but_for_zeros(size: int) -> None:
    at = PARTS[".symtab"]
    before = _inserted(at, b"\1" * size)
    what = {"bytes between parts of the file"}
    for new, found in (
        (b"\1" * size, set()),
        (b"\1" * (size - 1) + b"\2", what),
        (b"\2" + b"\1" * (size - 1), what),
        (b"\1" * size + bytes(8), set()),
        (b"\1" * size + b"\1" + bytes(7), what),
        (b"\1" * size + bytes(7) + b"\1", what),
        (b"\1" * (size - 1) + bytes(9), what),
    ):
        assert differences(before, _inserted(at, new)) == found, new[-16:]
