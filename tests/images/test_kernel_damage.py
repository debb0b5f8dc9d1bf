"""Facts about kernels from damaged images: an answer or one of our errors, and little work for much malice."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests.builders.device_elf import NOTE, device_elf

from fatpack import images, limits
from fatpack.errors import BadValue, FormatError, LimitExceeded
from fatpack.images import kernel
from fatpack.io.source import BytesSource

FIXTURES = Path(__file__).parents[1] / "fixtures"

IMAGES = {
    "cubin": FIXTURES / "kernels" / "needs.cuda13.0.sm_75.cubin",
    "linked cubin": FIXTURES / "kernels" / "needs.cuda13.0.linked.sm_90.cubin",
    "cubin of the old ABI": FIXTURES / "cuda" / "cubin" / "tiny.cuda11.2.sm_52.cubin",
    "code object v2": FIXTURES / "kernels" / "needs.v2.gfx900.o",
    "code object v3": FIXTURES / "kernels" / "needs.v3.gfx900.o",
    "code object v6": FIXTURES / "kernels" / "needs.v6.gfx90a.hsaco",
    "ptx": FIXTURES / "kernels" / "src" / "needs.ptx",
}
FORMS = {".cubin": "cubin", ".ptx": "ptx"}


def look(data: bytes, form: str) -> tuple[kernel.KernelNeeds, ...] | None:
    """Return the kernels of an image, None where one of our errors with a place says why not."""
    view = BytesSource(data).view()
    try:
        return images.kernel_facts(view, form)
    except FormatError as error:
        assert error.offset is not None
        assert error.offset >= 0
        assert error.format
        assert error.field
        return None


@pytest.mark.parametrize("name", IMAGES)
def test_facts_of_an_image_cut_anywhere(name: str) -> None:
    data, form = IMAGES[name].read_bytes(), FORMS.get(IMAGES[name].suffix, "code-object")
    whole = look(data, form)
    assert whole
    step = 1 if len(data) < 4000 else 7
    answers = [look(data[:size], form) for size in range(0, len(data), step)]
    if form != "ptx":
        # The tables are at the end, or the last symbols are.
        assert all(answer in (None, ()) or len(answer) <= len(whole) for answer in answers)
        assert None in answers


MASKS = [0x01, 0x80, 0xFF]


def flipped(name: str, mask: int, places: slice) -> None:
    data, form = bytearray(IMAGES[name].read_bytes()), FORMS.get(IMAGES[name].suffix, "code-object")
    answers = set()
    for at in range(len(data))[places]:
        data[at] ^= mask
        answers.add(look(bytes(data), form))
        data[at] ^= mask
    assert len(answers) > 3


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("mask", MASKS)
def test_facts_of_an_image_with_a_byte_flipped(name: str, mask: int) -> None:
    """Each mask with other bytes: no record of an image is so short that none of them would be hit."""
    flipped(name, mask, slice(5 * MASKS.index(mask), None, 15))


@pytest.mark.slow
@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("mask", MASKS)
def test_facts_of_an_image_with_any_byte_flipped(name: str, mask: int) -> None:
    flipped(name, mask, slice(None, None, 1 if IMAGES[name].stat().st_size < 4000 else 2))


def cubin(sections: list[tuple[int, bytes]], **options: object) -> bytes:
    return device_elf(190, 0x4B04, osabi=0x41, abi_version=8, sections=sections, **options)  # type: ignore[arg-type]


def test_sections_that_share_their_bytes_are_walked_once() -> None:
    note = struct.pack("<III", 4, 100_000, 7) + b"own\0" + bytes(100_000)
    data = bytearray(cubin([(NOTE, note)] + [(NOTE, b"")] * 40))
    (table,) = struct.unpack_from("<Q", data, 40)
    first = table + 64
    for row in range(40):
        at = first + 64 * (row + 1)
        data[at + 24 : at + 40] = data[first + 24 : first + 40]
    with pytest.raises(BadValue, match="overlaps"):
        images.facts(BytesSource(bytes(data)).view(), "cubin")


def test_a_note_cut_short_names_its_place() -> None:
    data = cubin([(NOTE, struct.pack("<III", 12, 0xFFFF, 2000) + b"NVIDIA Corp\0")])
    with pytest.raises(FormatError) as caught:
        images.facts(BytesSource(data).view(), "cubin")
    assert (caught.value.offset, caught.value.field) == (64, "note")


def test_zeros_after_the_last_note_are_padding() -> None:
    note = struct.pack("<III", 4, 4, 7) + b"own\0" + bytes(4)
    assert images.facts(BytesSource(cubin([(NOTE, note + bytes(8))])).view(), "cubin").kernels == ()
    with pytest.raises(FormatError):
        images.facts(BytesSource(cubin([(NOTE, note + b"\1" + bytes(7))])).view(), "cubin")


def test_the_number_of_kernels_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KERNELS", 3)
    symbols = [(b"k%d" % number, 0x12, 0x10, 1) for number in range(4)]
    with pytest.raises(LimitExceeded, match="more than 3 kernels"):
        images.facts(BytesSource(cubin([(1, b"")], symbols=symbols)).view(), "cubin")
    view = BytesSource(b".version 8.0\n.target sm_80\n" + b"".join(b".entry k%d(){}\n" % n for n in range(4))).view()
    with pytest.raises(LimitExceeded):
        images.facts(view, "ptx")


def test_the_size_of_a_section_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGE_SECTION_SIZE", 100)
    with pytest.raises(LimitExceeded, match=r"104 bytes \(expected at most 100\)"):
        images.facts(BytesSource(cubin([(NOTE, bytes(104))])).view(), "cubin")


def test_the_number_of_sections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGE_SECTIONS", 3)
    with pytest.raises(LimitExceeded, match="has 4 entries"):
        images.facts(BytesSource(cubin([(1, b"")] * 3)).view(), "cubin")


def test_the_header_of_a_ptx_kernel_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PTX_HEADER", 200)
    text = b".version 8.0\n.target sm_80\n.entry k(" + b" " * 300
    with pytest.raises(LimitExceeded, match="does not end"):
        images.facts(BytesSource(text).view(), "ptx")


def test_section_names_outside_their_table_are_named() -> None:
    data = bytearray((FIXTURES / "kernels" / "needs.cuda13.0.sm_75.cubin").read_bytes())
    (table,) = struct.unpack_from("<Q", data, 40)
    struct.pack_into("<I", data, table + 64 * 5, 0xFFFFFF)
    with pytest.raises(BadValue) as caught:
        images.facts(BytesSource(bytes(data)).view(), "cubin")
    assert (caught.value.offset, caught.value.field) == (table + 64 * 5, "section name")


def test_an_attribute_of_an_unknown_format_is_named() -> None:
    path = FIXTURES / "kernels" / "needs.cuda13.0.sm_75.cubin"
    data = path.read_bytes()
    at = data.index(bytes((4, 0x2F, 8, 0)))
    broken = data[:at] + b"\x09" + data[at + 1 :]
    with pytest.raises(BadValue) as caught:
        images.facts(BytesSource(broken).view(), "cubin")
    assert (caught.value.format, caught.value.field, caught.value.offset) == ("cubin", ".nv.info", at)
