"""Reading: unusual files, and every kind of damage, each of which loses only its own entry."""

from __future__ import annotations

import sys
import zlib

import lz4.block
import lz4.frame
import pytest
import zstandard
from tests.builders.fatbin import (
    ELF,
    GROUP,
    INDEX,
    LTOIR,
    PTX,
    RELOCATABLE_PTX,
    cubin,
    entry,
    fatbin,
    group,
    member,
    padded,
    ptx,
)

from fatpack import limits
from fatpack.errors import BadMagic, BadValue, FormatError, LimitExceeded, Truncated, Unsupported
from fatpack.formats.cuda_fatbin import describe, detect, extent, labels, parse, write
from fatpack.io.source import View
from fatpack.model import Container
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import join_pieces, make_view

CUBIN = cubin(80)
TEXT = ptx("// a text\n")
GOOD = entry(cubin(90), sm=90, identifier=b"intact")


def parsed(*entries: bytes, **header: int) -> Container:
    return parse(make_view(fatbin(*entries, **header)))


def codes(container: Container) -> list[str]:
    return [finding.code for finding in container.findings]


def intact(container: Container) -> list[bytes]:
    """Return the images that can be read; the labels cover everything even then."""
    assert sum(label.span.size for label in labels(container.record.stored, container)) == container.span.size  # type: ignore[attr-defined]
    found = []
    for image in container.images:
        try:
            found.append(image.data.tobytes())
        except LimitExceeded:
            assert image.size > 0
        except FormatError:
            assert image.size == 0
    return found


def test_the_header_tells_where_a_fat_binary_ends() -> None:
    data = fatbin(GOOD)
    assert detect(make_view(data))
    assert extent(make_view(data + b"rest")) == len(data)
    assert extent(make_view(data[:-1])) is None
    assert detect(make_view(fatbin(GOOD, header_size=24)))
    assert not detect(make_view(fatbin(b"no entry" * 20, header_size=24)))


def test_a_fat_binary_without_entries_is_one() -> None:
    container = parsed()
    assert (container.images, container.findings, container.span.size) == ((), (), 16)


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", BadMagic),
        (b"\x01\x5a\xe5\x1e" + bytes(12), BadMagic),  # an old container
        (fatbin(GOOD)[:15], Truncated),
        (fatbin(b"no entry" * 20, header_size=24), BadValue),
    ],
)
def test_what_has_no_header_is_refused(data: bytes, error: type[FormatError]) -> None:
    with pytest.raises(error) as raised:
        parse(make_view(data))
    assert raised.value.format == "cuda-fatbin"


@pytest.mark.parametrize(
    ("bits", "method", "packed"),
    [
        (0x1000, "zlib", zlib.compress(CUBIN)),
        (0x2000, "lz4", lz4.block.compress(CUBIN, store_size=False)),
        (0x4000, "lz4-frame", lz4.frame.compress(CUBIN)),
        (0x8000, "zstd", zstandard.compress(CUBIN)),
        (0x8000, "zstd", zstandard.compress(CUBIN[:100]) + zstandard.compress(CUBIN[100:])),
        (0x8000, "zstd", b"\x50\x2a\x4d\x18\3\0\0\0xyz" + zstandard.compress(CUBIN)),
        (0x8000, "zstd", zstandard.ZstdCompressor(write_content_size=False, write_checksum=True).compress(CUBIN)),
    ],
)
def test_every_compression_is_read(bits: int, method: str, packed: bytes) -> None:
    container = parsed(entry(packed, flags=0x11 | bits, inflated=len(CUBIN)))
    (image,) = container.images
    assert (image.compression, image.stored_size, image.size) == (method, len(packed), len(CUBIN))
    assert image.span.start == 16 + 64
    assert image.data.tobytes() == CUBIN
    assert codes(container) == []


def test_padding_of_a_whole_multiple_is_fine_and_more_of_it_is_odd() -> None:
    packed = padded(zlib.compress(CUBIN))  # a zlib stream is independent of the bytes after it
    for more, expected in ((8, []), (16, ["FP1405"])):
        row = entry(packed + bytes(more), flags=0x1011, inflated=len(CUBIN), compressed=len(packed))
        container = parsed(row, GOOD)
        assert intact(container) == [CUBIN, cubin(90)]
        assert codes(container) == expected


def test_of_several_bits_of_compression_the_first_counts() -> None:
    container = parsed(entry(zlib.compress(CUBIN), flags=0xF011, inflated=len(CUBIN)))
    assert intact(container) == [CUBIN]
    assert codes(container) == ["FP1405"]


def test_the_flags_are_printed_as_words() -> None:
    both = entry(CUBIN, flags=0x300011)
    windows = entry(CUBIN, flags=0x200043)
    narrow = entry(TEXT + b"\0", PTX, sm=52, flags=0x20, options=b"-O1")
    nowhere = entry(TEXT + b"\0", RELOCATABLE_PTX, flags=0x1, options=b"", identifier=b"_12_k\xff")
    container = parsed(both, windows, narrow, nowhere)
    rows = [(image.target.triple, image.target.arch, dict(image.attrs)) for image in container.images]
    wide = "nvptx64-nvidia-cuda"
    assert rows == [
        (wide, "sm_80af", {}),
        (wide, "sm_80f", {"host": "windows", "debug": "yes"}),
        ("nvptx-nvidia-cuda", "sm_52", {"host": "mac", "options": "-O1"}),
        (wide, "sm_80", {"host": "none", "kind": "relocatable-ptx", "identifier": "_12_k\udcff"}),
    ]
    assert [image.form for image in container.images] == ["cubin", "cubin", "ptx", "ptx"]
    assert {image.target.offload for image in container.images} == {"cuda"}


def test_padding_is_no_part_of_an_image_whose_form_tells_its_length() -> None:
    text = TEXT + b"x" * (-len(TEXT) % 8)  # so the NUL takes eight bytes
    odd = cubin(80, code=bytes(5))
    assert len(odd) % 8
    unsure = b"\xed\x43\x4e\x7f1"
    container = parsed(entry(text + b"\0", PTX, options=b""), entry(odd), entry(unsure, LTOIR, options=b""))
    assert intact(container) == [text, odd, padded(unsure)]
    assert [image.stored_size for image in container.images] == [len(text), len(odd), 8]


def test_a_text_that_is_compressed_ends_before_its_nul() -> None:
    packed = zstandard.compress(TEXT + b"\0")
    container = parsed(entry(packed, PTX, flags=0x8011, inflated=len(TEXT) + 1, options=b""))
    assert intact(container) == [TEXT]


def test_a_text_in_an_lz4_block_may_lack_its_nul_as_in_cuda_8() -> None:
    packed = lz4.block.compress(TEXT, store_size=False)
    container = parsed(entry(packed, PTX, flags=0x2015, inflated=len(TEXT)))
    assert container.images[0].size == len(TEXT)
    assert intact(container) == [TEXT]


def test_a_compressed_text_without_nul_is_damaged() -> None:
    (image,) = parsed(entry(zstandard.compress(TEXT), PTX, flags=0x8011, inflated=len(TEXT), options=b"")).images
    with pytest.raises(BadValue, match="does not end in NUL"):
        image.data.tobytes()


def test_unknown_kinds_and_versions_are_listed_and_kept() -> None:
    data = fatbin(entry(b"whatever", 0x200), entry(CUBIN, version=0x0102), entry(b"index..", INDEX, sm=0), version=2)
    container = parse(make_view(data))
    assert [image.form for image in container.images] == ["", "cubin", ""]
    assert [image.attrs.get("kind") for image in container.images] == ["0x200", None, "index"]
    assert container.images[2].target.arch == ""
    assert codes(container) == ["FP1407"] * 4
    assert join_pieces(write(container)) == data


@pytest.mark.parametrize("kind", [0x04, 0x10, 0x20])
@pytest.mark.parametrize("image", [CUBIN, b"no device code" * 8])
def test_an_unknown_kind_is_a_warning_regardless_of_its_content(kind: int, image: bytes) -> None:
    (finding,) = parsed(entry(padded(image), kind)).findings
    assert (finding.code, finding.severity) == ("FP1407", "warning")
    assert f"{kind:#x}" in finding.message


def test_obfuscated_images_are_named_and_never_read() -> None:
    container = parsed(
        entry(b"scramble", LTOIR, flags=0x18011, inflated=100, key=7, options=b""),
        entry(b"scramble", LTOIR, flags=0x10011, options=b""),
        GOOD,
    )
    assert [image.size for image in container.images] == [100, 8, len(cubin(90))]
    assert codes(container) == ["FP1408"]
    assert "2 images are obfuscated" in container.findings[0].message
    for image in container.images[:2]:
        with pytest.raises(Unsupported, match="obfuscated by its producer"):
            image.data.tobytes()
    items = list(scan(make_view(fatbin(entry(b"scramble", 0x200, flags=0x10011)))))
    assert any(isinstance(item, FoundContainer) for item in items)


def test_what_was_cut_off_is_named_by_the_header_that_is_left() -> None:
    whole = fatbin(entry(CUBIN), entry(cubin(90), sm=90))
    cut = list(parse(make_view(whole[:-8])).findings)
    assert [(item.code, item.hint) for item in cut] == [
        ("FP1402", "the file looks cut short"),
        ("FP1401", "the cubin for sm_90 is cut short"),
    ]
    (wrong,) = parse(make_view(fatbin(entry(CUBIN[:-8], padded_size=1 << 20)))).findings
    assert (wrong.code, wrong.hint) == ("FP1401", "")


#: fault → the entry, and the codes of its findings; an intact entry follows
DAMAGED = {
    "header size 0": (entry(CUBIN, header_size=0), ["FP1401"]),
    "header size below 64": (entry(CUBIN, header_size=56), ["FP1401"]),
    "header size odd": (entry(CUBIN, header_size=65), ["FP1401"]),
    "header size past the end": (entry(CUBIN, header_size=1 << 31), ["FP1401"]),
    "size past the end": (entry(CUBIN, padded_size=1 << 20), ["FP1401"]),
    "size of 2**63": (entry(CUBIN, padded_size=1 << 63), ["FP1401"]),
    "size odd": (entry(CUBIN, padded_size=len(CUBIN) + 1), ["FP1401"]),
    "no image": (entry(b""), ["FP1403"]),
    "zeros": (bytes(256), ["FP1404"]),
    "compressed size 0": (entry(zlib.compress(CUBIN), flags=0x1011, compressed=0, inflated=9), ["FP1403"]),
    "compressed size too large": (entry(zlib.compress(CUBIN), flags=0x1011, compressed=999, inflated=9), ["FP1403"]),
    "inflated size 0": (entry(zlib.compress(CUBIN), flags=0x1011, compressed=len(zlib.compress(CUBIN))), ["FP1403"]),
    "bomb": (entry(zlib.compress(CUBIN), flags=0x1011, inflated=1 << 60), ["FP1005"]),
    "zlib for zstd": (entry(zlib.compress(CUBIN), flags=0x8011, inflated=len(CUBIN)), ["FP1403"]),
    "zstd for zlib": (entry(zstandard.compress(CUBIN), flags=0x1011, inflated=len(CUBIN)), ["FP1403"]),
    "zstd for an LZ4 frame": (entry(zstandard.compress(CUBIN), flags=0x4011, inflated=len(CUBIN)), ["FP1403"]),
    "more than the header says": (entry(zstandard.compress(CUBIN), flags=0x8011, inflated=7), ["FP1403"]),
    "a frame that says more": (
        entry(lz4.frame.compress(CUBIN, content_checksum=True), flags=0x4011, inflated=7),
        ["FP1403"],
    ),
    "no flag": (entry(zstandard.compress(CUBIN), flags=0x11, inflated=len(CUBIN)), ["FP1403"]),
    "identifier outside": (entry(CUBIN, identifier=b"name", identifier_offset=0x1000), ["FP1406"]),
    "identifier in the numbers": (entry(CUBIN, identifier=b"name", identifier_offset=8), ["FP1406"]),
    "identifier too long": (entry(CUBIN, identifier=b"name", identifier_size=9), ["FP1406"]),
    "options outside": (entry(TEXT + b"\0", PTX, options=b"-O1", options_offset=0xFFFFFFF0), ["FP1406"]),
    "a group that is none": (entry(CUBIN, GROUP), ["FP1403", "FP1409"]),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_damage_to_one_entry_costs_no_other(name: str) -> None:
    damaged, expected = DAMAGED[name]
    first = entry(cubin(75), sm=75)
    data = fatbin(first, damaged, GOOD)
    container = parse(make_view(data))
    assert codes(container) == expected
    whole = intact(container)
    assert whole[0] == cubin(75)
    assert whole[-1] == cubin(90)
    assert container.images[-1].attrs["identifier"] == "intact"
    assert join_pieces(write(container)) == data


@pytest.mark.parametrize("name", [name for name, (_, found) in DAMAGED.items() if set(found) - {"FP1404", "FP1405"}])
def test_strict_reading_raises_for_the_first_damage(name: str) -> None:
    with pytest.raises(FormatError) as raised:
        parse(make_view(fatbin(DAMAGED[name][0], GOOD)), strict=True)
    assert raised.value.offset is not None
    assert raised.value.format == "cuda-fatbin"


def test_wrong_sizes_that_only_inflating_shows_are_reported_when_the_image_is_read() -> None:
    text, stream = TEXT + b"\0", zstandard.ZstdCompressor(write_content_size=False).compress(TEXT + b"\0")
    damaged = stream[:-4]
    for packed, size in ((stream, len(text) + 1), (stream, len(text) - 1), (damaged, len(text))):
        container = parsed(entry(packed, PTX, flags=0x8011, inflated=size, options=b""), GOOD)
        assert codes(container) == []
        with pytest.raises(BadValue) as raised:
            container.images[0].data.tobytes()
        assert raised.value.format == "cuda-fatbin"
        assert container.images[1].data.tobytes() == cubin(90)


def test_an_lz4_block_never_costs_more_memory_than_it_can_fill() -> None:
    (image,) = parsed(entry(bytes(16), flags=0x2011, inflated=4 << 20)).images
    with pytest.raises(BadValue, match="cannot hold"):
        image.data.tobytes()


def test_a_bomb_is_named_with_its_limit() -> None:
    with pytest.raises(LimitExceeded, match="claim to inflate to 1152921504606846976"):
        parse(make_view(fatbin(DAMAGED["bomb"][0])), strict=True)


@pytest.mark.parametrize("size", [1 << 60, (1 << 64) - 1])
def test_what_a_limit_keeps_from_being_inflated_has_its_stated_size(size: int) -> None:
    container = parsed(entry(zlib.compress(CUBIN), flags=0x1011, inflated=size))
    (image,) = container.images
    assert image.size == len(image.data) == min(size, sys.maxsize)
    assert f"use max_inflated={size}" in container.findings[0].hint


@pytest.mark.parametrize("size", [1, 40, 63, 64, 100])
def test_a_cut_file_lists_what_is_whole(size: int) -> None:
    data = fatbin(entry(CUBIN), GOOD)
    container = parse(make_view(data[: len(data) - len(GOOD) + size]))
    assert codes(container) == ["FP1402", "FP1401"]
    assert intact(container) == [CUBIN]
    assert container.span.size == len(data) - len(GOOD) + size


def test_a_size_that_is_too_large_ends_where_the_next_fat_binary_starts() -> None:
    first = fatbin(entry(CUBIN), size=1 << 12)
    for gap in (b"", bytes(8), bytes(200)):
        items = list(scan(make_view(first + gap + fatbin(GOOD))))
        found = [item for item in items if isinstance(item, FoundContainer)]
        assert [image.target.arch for item in found for image in item.container.images] == ["sm_80", "sm_90"]
        assert found[1].view.start == len(first + gap)
        assert "FP1402" in codes(found[0].container)


@pytest.mark.parametrize(("count", "expected"), [(0, []), (15, []), (16, ["FP1410"]), (4096, ["FP1410"])])
def test_zeros_after_the_last_fat_binary_of_a_file_are_reported(count: int, expected: list[str]) -> None:
    items = list(scan(make_view(fatbin(GOOD) + bytes(count))))
    assert [item.code for item in items if not isinstance(item, FoundContainer)] == expected


def test_an_entry_is_found_again_only_where_all_of_it_holds() -> None:
    """After a damaged header any bytes may look like an entry; here it is one inside the image of the damaged one."""
    fake = entry(b"", padded_size=1 << 40) + entry(CUBIN, identifier=b"n", identifier_offset=1 << 20)
    container = parsed(entry(fake + b"\2\0\1\1" * 8, header_size=0), GOOD)
    assert [image.target.arch for image in container.images] == ["sm_90"]
    assert codes(container) == ["FP1401"]


def test_the_container_of_long_ago_is_recognised_and_refused() -> None:
    items = list(scan(make_view(b"\x01\x5a\xe5\x1e" + bytes(100))))
    assert [(item.code, item.message) for item in items if not isinstance(item, FoundContainer)] == [
        ("FP1008", "cuda-fatbin-old: this version does not read these")
    ]
    assert len(items) == 1


def test_the_search_for_the_next_entry_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.formats.cuda_fatbin.fast_path._FALSE_HITS", 10)
    container = parsed(entry(b"\2\0\1\1\0\0\0\0" * 20, header_size=0), GOOD)
    assert container.images == ()
    assert codes(container) == ["FP1401"]


def test_no_more_entries_are_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGES", 3)
    container = parsed(*[GOOD] * 5)
    assert (len(container.images), codes(container)) == (3, ["FP1005"])
    assert intact(container) == [cubin(90)] * 3
    assert "raise fatpack.limits.IMAGES" in container.findings[0].hint


def test_no_more_members_of_a_group_are_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGES", 2)
    container = parsed(_group(TEXT_MEMBER, CUBIN_MEMBER, CUBIN_MEMBER))
    assert (len(container.images), codes(container)) == (2, ["FP1005"])
    assert "raise fatpack.limits.IMAGES" in container.findings[0].hint


def _group(*members: bytes, images: bytes = padded(TEXT + b"\0") + CUBIN, **changed: int) -> bytes:
    return group(zstandard.compress(images), len(images), members, **changed)


TEXT_MEMBER = member(0, len(padded(TEXT + b"\0")), PTX, options=b"-O2", identifier=b"a")  # type: ignore[arg-type]
CUBIN_MEMBER = member(len(padded(TEXT + b"\0")), len(CUBIN), sm=86)


def test_members_of_a_group_are_images() -> None:
    container = parsed(_group(TEXT_MEMBER, CUBIN_MEMBER), GOOD)
    assert codes(container) == []
    assert intact(container) == [TEXT, CUBIN, cubin(90)]
    assert [image.target.arch for image in container.images] == ["sm_80", "sm_86", "sm_90"]
    assert [image.stored_size for image in container.images] == [None, None, len(cubin(90))]
    assert container.images[0].attrs == {"identifier": "a", "options": "-O2"}
    assert "inflated zstd" in container.images[1].span.source[-1]
    assert [facts.get("group") for facts in describe(container)["entries"]] == [0, 0, None]  # type: ignore[attr-defined]


#: fault → the group, the number of its two images that can be read, the codes
GROUPS = {
    "a group inside": (_group(TEXT_MEMBER, member(0, 8, GROUP), CUBIN_MEMBER), 2, ["FP1409"]),
    "a member without an image": (_group(TEXT_MEMBER, member(0, 0), CUBIN_MEMBER), 2, ["FP1409"]),
    "a group that holds itself": (_group(*[member(0, 8, GROUP)] * 3), 0, ["FP1409"] * 3),
    "an image past the end": (_group(TEXT_MEMBER, member(8, 1 << 40), CUBIN_MEMBER), 2, ["FP1409"]),
    "fewer than it says": (_group(TEXT_MEMBER, CUBIN_MEMBER, count=3), 2, ["FP1409"]),
    "more than it says": (_group(TEXT_MEMBER, CUBIN_MEMBER, count=1), 1, ["FP1409"]),
    "2**32 members": (_group(TEXT_MEMBER, CUBIN_MEMBER, count=0xFFFFFFFF), 2, ["FP1409"]),
    "a table too short": (_group(TEXT_MEMBER, CUBIN_MEMBER, table_size=100), 1, ["FP1409"]),
    "a table too long": (_group(TEXT_MEMBER, CUBIN_MEMBER, table_size=1 << 20), 2, ["FP1409"]),
    "a table of nothing": (_group(TEXT_MEMBER, CUBIN_MEMBER, table_size=0), 0, ["FP1409"]),
    "a table outside": (_group(TEXT_MEMBER, CUBIN_MEMBER, table_at=1 << 20), 0, ["FP1409"]),
    "not compressed": (_group(TEXT_MEMBER, CUBIN_MEMBER, flags=0x11), 0, ["FP1403"]),
    "another method": (_group(TEXT_MEMBER, CUBIN_MEMBER, flags=0x1011), 0, ["FP1403"]),
    "a bomb": (group(zstandard.compress(bytes(1 << 20)), 1 << 60, [member(0, 1 << 60, PTX)]), 0, ["FP1005"]),
    "a damaged stream": (group(zstandard.compress(TEXT)[:-3], 900, [TEXT_MEMBER, CUBIN_MEMBER]), 0, ["FP1403"]),
}


@pytest.mark.parametrize("name", GROUPS)
def test_damage_to_a_group_costs_no_more_than_it_must(name: str) -> None:
    damaged, count, expected = GROUPS[name]
    data = fatbin(damaged, GOOD)
    container = parse(make_view(data))
    assert sorted(set(codes(container))) == sorted(set(expected))
    assert len(intact(container)) == count + 1
    assert container.images[-1].attrs == {"identifier": "intact"}
    assert join_pieces(write(container)) == data


@pytest.mark.parametrize(
    ("wrong", "field", "at"),
    [
        (member(1 << 20, len(CUBIN), sm=86), "image_offset", 4),
        (member(len(padded(TEXT + b"\0")) + 64, len(CUBIN), sm=86), "image_offset", 4),
        (member(len(padded(TEXT + b"\0")), 1 << 20, sm=86), "padded_size", 8),
    ],
)
def test_the_wrong_field_of_a_member_is_named(wrong: bytes, field: str, at: int) -> None:
    (finding,) = parsed(_group(TEXT_MEMBER, wrong)).findings
    assert (finding.code, finding.field) == ("FP1409", field)
    assert finding.message.startswith(f"{field}: it is ")
    assert finding.span.start == 16 + 64 + 8 + len(TEXT_MEMBER) + at


def test_members_that_share_bytes_do_not_multiply_them() -> None:
    whole = member(0, len(CUBIN), ELF)
    container = parsed(_group(*[whole] * 50, images=CUBIN))
    assert len({id(image.data.source) for image in container.images}) == 1  # type: ignore[attr-defined]
    assert intact(container) == [CUBIN] * 50


def test_headers_that_all_claim_the_rest_do_not_search_it_each(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    find = View.find

    def counted(view: View, needle: bytes, at: int = 0) -> int:
        hit = find(view, needle, at)
        searched.append((hit if hit >= 0 else len(view)) - at)
        return hit

    monkeypatch.setattr(View, "find", counted)
    data = fatbin(entry(b"", padded_size=1 << 39), size=1 << 40) * 100 + b"\1" * 100_000
    assert len(list(scan(make_view(data)))) > 100
    assert sum(searched) < 20 * len(data)
