"""Proofs of edited shared libraries: true edits hold, and every lie is found."""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import pairwise

import pytest
from tests.builders import linked_elf
from tests.builders.linked_elf import PAGE, entry, fatbin
from tests.proof.elf_forgeries import (
    FLAGS,
    LIBRARY,
    PTX,
    REDUCED,
    SHRUNK,
    SM80,
    SM90,
    ZEROED,
    patched,
    section_at,
    with_header,
    without_record,
)

from fatpack.binary import section_names
from fatpack.errors import FatpackError, FormatError, Unsupported
from fatpack.io.source import BytesSource, View
from fatpack.proof import elf, pe, prove
from fatpack.proof.elf.reader import ProofElfSegment
from fatpack.proof.ledger import ProofResult
from fatpack.testing.formats import flip_bits


def view(data: bytes, name: str = "lib.so") -> View:
    return BytesSource(data, name).view()


def verdict(after: bytes, before: bytes = LIBRARY.data) -> ProofResult:
    return prove(view(before), view(after, "slim.so"))


def is_found(after: bytes, before: bytes = LIBRARY.data) -> bool:
    """Return whether a lie is found: by a difference, or because the file is no program any more."""
    try:
        return not verdict(after, before).is_proved
    except (FormatError, Unsupported):
        return True


def test_a_file_is_the_same_program_as_itself() -> None:
    found = verdict(LIBRARY.data)
    assert found.is_proved and not found.dropped
    assert [fact.fate for fact in found.containers] == ["kept", "kept"]
    titles = ["cubin sm_80", "cubin sm_90", "ptx sm_90", "cubin sm_80", "cubin sm_90"]
    assert [image.title for image in found.kept] == titles


@pytest.mark.parametrize("after", [ZEROED, SHRUNK], ids=["zero", "shrink"])
def test_a_true_edit_is_proved(after: bytes) -> None:
    found = verdict(after)
    assert found.is_proved, found.differences
    assert [image.title for image in found.kept] == ["cubin sm_90", "ptx sm_90", "cubin sm_90"]
    assert [image.title for image in found.dropped] == ["cubin sm_80", "cubin sm_80"]
    first, second = found.containers
    assert (first.fate, second.fate) == ("reduced", "reduced")
    assert first.new == first.old == LIBRARY.containers[0]
    assert second.old == LIBRARY.containers[1] and second.new == first.old + len(REDUCED[0])
    assert found.before.size == len(LIBRARY.data) and found.after.size == len(after)


def test_an_emptied_container_is_reported() -> None:
    found = verdict(linked_elf.shrunk(LIBRARY, [fatbin(), fatbin(SM90)]))
    assert found.is_proved, found.differences
    assert [fact.fate for fact in found.containers] == ["emptied", "reduced"]


def test_an_edit_of_an_edit_is_proved_against_both() -> None:
    again = linked_elf.zeroed(LIBRARY, [fatbin(PTX), fatbin(SM90)])
    assert verdict(again).is_proved
    assert verdict(again, ZEROED).is_proved


def test_no_byte_of_the_edited_file_can_lie() -> None:
    missed = [at for at in range(3, len(SHRUNK), 23) if not is_found(flip_bits(SHRUNK, at, 0x41))]
    assert not missed


@pytest.mark.slow
@pytest.mark.parametrize(("after", "bits"), [(ZEROED, 0x01), (SHRUNK, 0xFF)], ids=["zero", "shrink"])
def test_no_byte_can_lie_anywhere(after: bytes, bits: int) -> None:
    missed = [at for at in range(len(after)) if not is_found(flip_bits(after, at, bits))]
    assert not missed


def _addend(number: int) -> int:
    return LIBRARY.places[".rela.dyn"][0] + 24 * number + 16


def _swapped_pointers() -> bytes:
    first, second = (ZEROED[_addend(number) :][:8] for number in (0, 1))
    return patched(patched(ZEROED, _addend(0), second), _addend(1), first)


LIES: dict[str, tuple[Callable[[], bytes], str]] = {
    "swapped pointers": (_swapped_pointers, "image"),
    "a relocation less": (lambda: patched(ZEROED, _addend(0) - 8, bytes(8)), "pointer of a record"),
    "rights of a segment": (lambda: with_header(ZEROED, 0, FLAGS, 5, 4), "flags of a loaded segment"),
    "an image of another": (lambda: linked_elf.zeroed(LIBRARY, [fatbin(SM90), fatbin(PTX)]), "image"),
    "images in another order": (lambda: linked_elf.zeroed(LIBRARY, [fatbin(PTX, SM90), fatbin(SM90)]), "image"),
    "a byte after the end": (lambda: ZEROED + b"\0", "size of bytes after the last part"),
    "a section's name": (lambda: patched(ZEROED, LIBRARY.places[".shstrtab"][0] + 2, b"N"), "section header"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_named(lie: str) -> None:
    make, what = LIES[lie]
    found = verdict(make())
    assert not found.is_proved and found.difference_count >= len(found.differences) > 0
    assert what in [difference.what for difference in found.differences]


def test_an_uncompressed_image_may_not_state_a_compressed_size() -> None:
    at = LIBRARY.containers[0] + 16 + 16
    assert is_found(patched(ZEROED, at, b"\1"))


def test_an_image_that_is_compressed_otherwise_is_the_same_image() -> None:
    zstandard = pytest.importorskip("zstandard")
    text = b".version 8.0\n" * 40 + b"\0"
    plain, packed = entry(1, 90, text), zstandard.compress(text)
    squeezed = bytearray(entry(1, 90, packed, 0x8011))
    struct.pack_into("<I", squeezed, 16, len(packed))
    struct.pack_into("<Q", squeezed, 56, len(text))
    library = linked_elf.build([fatbin(SM80, plain)])
    found = verdict(linked_elf.zeroed(library, [fatbin(bytes(squeezed))]), library.data)
    assert found.is_proved, found.differences
    assert [(image.title, image.recompressed) for image in found.kept] == [("ptx sm_90", True)]
    assert [image.recompressed for image in verdict(library.data, library.data).kept] == [False, False]
    damaged = bytes(squeezed).replace(packed, packed[:-1] + bytes([packed[-1] ^ 1]))
    assert is_found(linked_elf.zeroed(library, [fatbin(damaged)]), library.data)


def test_an_entry_that_is_compressed_anew_may_lose_an_empty_identifier() -> None:
    """fatbinary of CUDA 12.4 writes eight zero bytes for it: libbitsandbytes_cuda124.so of bitsandbytes 0.48.2."""
    zstandard = pytest.importorskip("zstandard")
    text = b".version 8.0\n" * 40 + b"\0"
    packed = zstandard.compress(text)

    def with_area(area: bytes, *, compressed: bool, option: int | None = None) -> bytes:
        made = bytearray(entry(1, 90, packed if compressed else text, 0x8011 if compressed else 0x11))
        struct.pack_into("<I", made, 4, 64 + len(area))
        if compressed:
            struct.pack_into("<I", made, 16, len(packed))
            struct.pack_into("<Q", made, 56, len(text))
        if option is not None:
            made[20 + option] = 1
        return bytes(made[:64]) + area + bytes(made[64:])

    library = linked_elf.build([fatbin(SM80, with_area(bytes(8), compressed=False))])
    after = linked_elf.zeroed(library, [fatbin(with_area(b"", compressed=True))])
    found = verdict(after, library.data)
    assert found.is_proved, found.differences
    written = linked_elf.build([fatbin(SM80, with_area(b"words\0\0\0", compressed=False))])
    assert is_found(linked_elf.zeroed(written, [fatbin(with_area(b"", compressed=True))]), written.data)
    for option in range(4):  # a field that leads there
        led = linked_elf.build([fatbin(SM80, with_area(bytes(8), compressed=False, option=option))])
        edited = linked_elf.zeroed(led, [fatbin(with_area(b"", compressed=True, option=option))])
        assert is_found(edited, led.data), option


def test_a_container_without_a_record_may_go_where_nothing_refers_to_it() -> None:
    lonely = without_record(LIBRARY.data)
    found = verdict(without_record(SHRUNK), lonely)
    assert found.is_proved, found.differences
    assert [fact.records for fact in found.containers][1] == ()


def test_other_files_are_refused() -> None:
    with pytest.raises(Unsupported, match="only linked programs"):
        prove(view(b"text"), view(b"text"))
    with pytest.raises(Unsupported, match="is not"):
        prove(view(LIBRARY.data), view(b"MZ" + bytes(62)))
    with pytest.raises(Unsupported, match="not linked"):
        verdict(_of_type(SHRUNK, 1), _of_type(LIBRARY.data, 1))


def _of_type(data: bytes, number: int) -> bytes:
    return data[:16] + bytes([number]) + data[17:]


@pytest.mark.parametrize("name", ["before", "after"])
def test_a_cut_file_gives_an_error_or_a_difference(name: str) -> None:
    for size in range(0, len(LIBRARY.data), 111):
        pair = (LIBRARY.data[:size], ZEROED) if name == "before" else (LIBRARY.data, ZEROED[:size])
        try:
            assert not prove(view(pair[0]), view(pair[1])).is_proved
        except FatpackError:
            pass


def test_a_damaged_file_gives_an_error_or_a_verdict_and_nothing_else() -> None:
    for at in range(0, len(LIBRARY.data), 13):
        try:
            verdict(ZEROED, flip_bits(LIBRARY.data, at, 0x80))
        except FatpackError:
            pass


def test_thousands_of_segments_are_compared_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    count, compared = 1500, []
    rows = [struct.pack("<IIQQQQQQ", 1, 4, 0, *[0x100000 + number * 0x1000] * 2, 16, 16, 1) for number in range(count)]
    data = bytearray(LIBRARY.data)
    struct.pack_into("<Q", data, 32, len(data))
    struct.pack_into("<H", data, 56, count)
    equal = ProofElfSegment.__eq__
    monkeypatch.setattr(ProofElfSegment, "__eq__", lambda one, other: compared.append(None) or equal(one, other))
    assert verdict(bytes(data) + b"".join(rows), bytes(data) + b"".join(rows)).is_proved
    assert len(compared) < 5 * count


def test_the_proof_names_the_sections_of_containers_that_the_editors_name() -> None:
    """The proof has lists of its own: a section that only the editors know is called a difference."""
    assert set(elf._SECTIONS) == set(section_names.FATBINS)
    assert set(pe._SECTIONS) == {name.encode() for name in section_names.with_cut(*section_names.FATBINS)}


@pytest.mark.parametrize("code", ["", ".note.gnu.build-id", ".rela.dyn", ".data"])
@pytest.mark.parametrize("flags", [2, 4, 6, 7])
def test_a_fat_binary_between_instructions_is_no_container(code: str, flags: int) -> None:
    """One in the program's own data is; whatever sections of instructions there are elsewhere."""
    library = linked_elf.build([fatbin(SM90)], more_relocations=20)
    at = library.places[".data"][0] + 64 + -library.places[".data"][0] % 8
    before = patched(library.data, at, fatbin(SM80, SM90))
    after = patched(library.data, at, fatbin(SM90).ljust(len(fatbin(SM80, SM90)), b"\0"))
    if code:
        before, after = (patched(data, section_at(library, code) + 8, bytes([flags])) for data in (before, after))
    assert verdict(after, before).is_proved == (code != ".data" or flags == 2)


def _with_table_at_the_end(count: int, second: int, zeros: int = 0) -> bytes:
    """Return a file whose first segment ends with the program headers; another follows, in ``count - 2`` parts."""
    first = 64 + 56 * count
    starts = [second, second // PAGE * PAGE + PAGE][: count - 2]
    parts = [(start, end - start) for start, end in pairwise([*starts, second + 3 * PAGE])]
    rows = [(1, 4, 0, 0, 0, first, first + zeros, PAGE), *((1, 4, at, at, at, size, size, PAGE) for at, size in parts)]
    rows.append((linked_elf.STACK, 6, 0, 0, 0, 0, 0, 16))
    ident = b"\x7fELF\2\1\1".ljust(16, b"\0")
    head = struct.pack("<16sHHIQQQIHHHHHH", ident, 3, 62, 1, second, 64, 0, 0, 64, 56, count, 64, 0, 0)
    head += b"".join(struct.pack("<IIQQQQQQ", *row) for row in rows)
    return head.ljust(second, b"\0") + bytes(range(1, 256)) * 3 + b"end"


@pytest.mark.parametrize(("second", "zeros", "is_right"), [
    (2 * PAGE, 0, True), (3 * PAGE, 0, True), (3 * PAGE + 8, 0, True),
    (2 * PAGE, 8, False), (2 * PAGE - 8, 0, False), (PAGE + 64, 0, False),
])  # fmt: skip
def test_the_table_may_grow_into_pages_that_nothing_else_has(second: int, zeros: int, is_right: bool) -> None:
    before, after = (_with_table_at_the_end(count, second, zeros) for count in (3, 4))
    assert verdict(before, before).is_proved
    found = verdict(after, before)
    assert ("loaded segment" not in [each.what for each in found.differences]) == is_right
    assert found.is_proved == is_right, found.differences
