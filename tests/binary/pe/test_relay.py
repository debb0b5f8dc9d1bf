"""Device code removed from synthetic PE images: changes, unchanged parts, and refusals."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import pytest
from tests.builders import linked_pe
from tests.builders.linked_elf import entry, fatbin
from tests.builders.linked_pe import Image

from fatpack.binary import pe
from fatpack.binary.shrink import ContainerMove, NewSectionContent, ShrinkRequest, ShrinkResult
from fatpack.errors import FormatError, HostError, UsageError
from fatpack.io.source import BytesSource, View
from fatpack.proof import prove

if TYPE_CHECKING:
    from fatpack.binary.shrink import ShrinkMode

SM80 = entry(2, 80, b"\x7fELF" + bytes(range(250)) * 8)
SM90 = entry(2, 90, b"\x7fELF" + bytes(range(90)))
WHOLE = [fatbin(SM80, SM90), fatbin(SM80, SM90)]
REDUCED = [fatbin(SM90), fatbin(SM90)]


def view(data: bytes) -> View:
    return BytesSource(data, "a.dll").view()


def change(image: Image, containers: list[bytes] = REDUCED, **facts: Any) -> ShrinkRequest:
    """Return the change that gives an image other containers."""
    start, new, moves, pointers = image.base + image.places[".nv_fatb"][0], b"", [], {}
    for number, (old, container) in enumerate(zip(image.containers, containers, strict=True)):
        place = start + len(new)
        moves.append(ContainerMove(image.base + old, len(WHOLE[number]), place, len(container)))
        if place != image.base + old:
            pointers[image.base + image.words[number]] = place
        new += container + bytes(-len(container) % 8)
    return ShrinkRequest([NewSectionContent(linked_pe.FAT, [new])], moves, pointers, **facts)


def joined(relayed: ShrinkResult) -> bytes:
    return b"".join(piece.tobytes() if isinstance(piece, View) else bytes(piece) for piece in relayed.pieces)


def relayed(image: Image, mode: ShrinkMode = "auto", **facts: Any) -> tuple[ShrinkResult, bytes]:
    found = pe.shrink(view(image.data), change(image, **facts), mode=mode)
    return found, joined(found)


IMAGES = {
    "64 bits": {},
    "32 bits": {"bits": 32},
    "no checksum": {"checksum": False},
    "no symbols": {"symbols": False},
    "no overlay": {"overlay": b""},
    "an overlay of odd size": {"overlay": b"odd"},
}


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("mode", ["shrink", "zero"])
def test_the_image_is_the_same_program(name: str, mode: ShrinkMode) -> None:
    options: dict[str, Any] = IMAGES[name]
    image = linked_pe.build(WHOLE, **options)
    found, after = relayed(image, mode)
    assert found.mode == mode and not found.why
    verdict = prove(view(image.data), view(after))
    assert verdict.is_proved, verdict.differences
    assert [each.title for each in verdict.kept] == ["cubin sm_90", "cubin sm_90"]
    gone = sum(size for _, size in found.cuts)
    assert len(after) == len(image.data) - gone and bool(gone) == (mode == "shrink")
    at = image.optional + 64
    (stored,) = struct.unpack_from("<I", after, at)
    assert stored == (linked_pe.total(after, at) if options.get("checksum", True) else 0)


def test_what_follows_is_found_where_it_went() -> None:
    image = linked_pe.build(WHOLE)
    found, after = relayed(image, "shrink")
    ((start, gone),) = found.cuts
    assert start == image.places[".nv_fatb"][1] + 0x200 and not gone % linked_pe.FILE_ALIGN
    (symbols,) = struct.unpack_from("<I", after, image.optional - 24 + 12)
    assert after[symbols + 36 :][:12] == b"fatbin0\0" + struct.pack("<I", 0)
    assert after[symbols + 54 :][:12] == b"fatbin1\0" + struct.pack("<I", len(REDUCED[0]))
    rdata = image.places[".rdata"][1] - gone
    debug = [struct.unpack_from("<16xIII", after, rdata + 28 * number) for number in (0, 1)]
    contents = [after[position:][:size] for size, _, position in debug]
    assert contents == [linked_pe.DEBUG_DATA, linked_pe.OVERLAY_DEBUG]
    before, now = (struct.unpack_from("<I", data, image.optional + 8)[0] for data in (image.data, after))
    assert before - now == gone


def test_an_edited_image_can_be_edited_again() -> None:
    image = linked_pe.build(WHOLE)
    _, once = relayed(image, "zero")
    _, twice = relayed(image._replace(data=once), "shrink")
    assert prove(view(image.data), view(twice)).is_proved
    assert len(twice) < len(once)


def test_a_small_saving_leaves_zeros_and_says_so() -> None:
    small = [fatbin(SM90, entry(1, 90, b"x")), fatbin(SM90)]
    image = linked_pe.build(small)
    content = NewSectionContent(linked_pe.FAT, [REDUCED[0]])
    found = pe.shrink(view(image.data), ShrinkRequest([content], [], {}))
    assert found.mode == "zero" and "FileAlignment" in found.why and len(joined(found)) == len(image.data)


def test_a_signature_is_refused_or_dropped() -> None:
    image = linked_pe.build(WHOLE, signature=b"certificates ...")
    with pytest.raises(HostError, match="signed"):
        relayed(image)
    for mode in ("shrink", "zero"):
        found = pe.shrink(view(image.data), change(image, drop_signature=True), mode=mode)
        after = joined(found)
        assert b"certificates" not in after and found.cuts[-1] == (len(image.data) - 16, 16)
        verdict = prove(view(image.data), view(after))
        assert verdict.is_proved, verdict.differences
        assert [each.what for each in verdict.changed][-1] == "signature, which is removed"


def test_certificates_elsewhere_than_at_the_end_are_refused() -> None:
    image = linked_pe.build(WHOLE, signature=b"certificates ...")
    longer = image._replace(data=image.data + b"more")
    with pytest.raises(HostError, match="not at the end"):
        pe.shrink(view(longer.data), change(image, drop_signature=True))


def test_an_exported_container_does_not_move() -> None:
    with pytest.raises(HostError, match="function 1 of the exports"):
        relayed(linked_pe.build(WHOLE, exported=1))
    assert relayed(linked_pe.build(WHOLE, exported=0))[0].mode == "shrink"


def test_images_that_are_mapped_as_they_are_keep_their_layout() -> None:
    image = linked_pe.build(WHOLE, section_align=0x200)
    with pytest.raises(HostError, match="cannot shrink"):
        relayed(image, "shrink")
    found, after = relayed(image)
    assert found.mode == "zero" and "aligned to 512" in found.why and len(after) == len(image.data)


def test_device_code_that_is_relocated_is_refused() -> None:
    image = linked_pe.build(WHOLE)
    at = image.places[".reloc"][1]
    moved = image.data[:at] + struct.pack("<I", image.places[".nv_fatb"][0]) + image.data[at + 4 :]
    with pytest.raises(HostError, match="base relocation"):
        relayed(image._replace(data=moved))


def test_debug_information_in_what_would_go_keeps_the_file_as_large() -> None:
    image = linked_pe.build(WHOLE)
    at, inside = image.places[".rdata"][1] + 24, image.places[".nv_fatb"][1] + 0x600
    data = image.data[:at] + struct.pack("<I", inside) + image.data[at + 4 :]
    found, _ = relayed(image._replace(data=data))
    assert found.mode == "zero" and "debug information" in found.why


def test_wrong_requests_are_named() -> None:
    image = linked_pe.build(WHOLE)
    data, word = view(image.data), image.base + image.words[0]

    def relay(contents: list[NewSectionContent], pointers: dict[int, int] | None = None) -> None:
        pe.shrink(data, ShrinkRequest(contents, [], pointers or {}))

    content = NewSectionContent(linked_pe.FAT, [b"x" * 8])
    with pytest.raises(UsageError, match="no section 9"):
        relay([NewSectionContent(9, [b""])])
    with pytest.raises(UsageError, match="twice"):
        relay([content, content])
    with pytest.raises(HostError, match="holds code"):
        relay([NewSectionContent(1, [b""])])
    with pytest.raises(HostError, match="has room for"):
        relay([NewSectionContent(linked_pe.FAT, [bytes(0x10000)])])
    with pytest.raises(HostError, match="no bytes of a pointer"):
        relay([content], {image.base + 0x900000: word})
    with pytest.raises(HostError, match="in the device code"):
        relay([content], {image.base + image.containers[0]: word})
    with pytest.raises(HostError, match="no address of the image"):
        relay([content], {word: 5})
    with pytest.raises(HostError, match="its bytes are zero"):
        relay([content], {word + image.word: word})


def test_damage_gives_an_error_or_an_image_and_nothing_else() -> None:
    image = linked_pe.build(WHOLE)
    wanted = change(image)
    for at in [*range(0, 0x400, 3), *range(len(image.data) - 0x600, len(image.data), 31)]:
        damaged = image.data[:at] + bytes([image.data[at] ^ 0xFF]) + image.data[at + 1 :]
        try:
            joined(pe.shrink(view(damaged), wanted))
        except (FormatError, HostError):
            pass
    for size in range(0, len(image.data), 97):
        try:
            joined(pe.shrink(view(image.data[:size]), wanted))
        except (FormatError, HostError):
            pass
