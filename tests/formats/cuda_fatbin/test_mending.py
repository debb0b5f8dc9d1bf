"""One wrong size does not lose a whole image: the other sizes give its end."""

from __future__ import annotations

import pytest
import zstandard
from tests.builders.fatbin import PTX, cubin, entry, fatbin, ptx

from fatpack.formats.cuda_fatbin import labels, parse, write
from fatpack.model import Container
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import join_pieces, make_view

FIRST, LAST = cubin(75), cubin(90)
TEXT = ptx("// a text\n") + b"\0"
PACKED = zstandard.compress(TEXT)

#: form of an entry → the entry, and its image
ENTRIES = {
    "cubin": (lambda **wrong: entry(cubin(80), **wrong), cubin(80)),
    "cubin with a name": (lambda **wrong: entry(cubin(80), identifier=b"a name", **wrong), cubin(80)),
    "text": (lambda **wrong: entry(TEXT, PTX, options=b"-O1", **wrong), TEXT[:-1]),
    "compressed text": (
        lambda **wrong: entry(PACKED, PTX, flags=0x8011, inflated=len(TEXT), options=b"", **wrong),
        TEXT[:-1],
    ),
}


def sizes(data: bytes) -> tuple[int, int]:
    """Return header_size and padded_size of an entry."""
    return int.from_bytes(data[4:8], "little"), int.from_bytes(data[8:16], "little")


def images(container: Container) -> list[bytes]:
    return [image.data.tobytes() for image in container.images]


def check(data: bytes, container: Container, field: str, at: int) -> None:
    """Check the finding about one wrong field, and that every byte has a label."""
    (finding,) = container.findings
    assert finding.severity == "error"
    assert f"{field}: it is" in finding.message
    assert (finding.field.rpartition(".")[2], finding.span.start) == (field, at)
    assert sum(label.span.size for label in labels(container.record.stored, container)) == container.span.size  # type: ignore[attr-defined]


@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("field", ["header_size", "padded_size"])
@pytest.mark.parametrize("by", [8, 16, -8, 1 << 20])
@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_with_one_wrong_size_keeps_its_image(name: str, by: int, field: str, place: str) -> None:
    make, image = ENTRIES[name]
    right = sizes(make())
    values = {"header_size": right[0] + by, "padded_size": right[1] + by}
    wrong = make(**{field: values[field]})
    others = [entry(FIRST, sm=75), entry(LAST, sm=90)]
    at = 16 if place == "first" else 16 + sum(map(len, others))
    data = fatbin(wrong, *others) if place == "first" else fatbin(*others, wrong)
    container = parse(make_view(data))
    assert sorted(images(container)) == sorted([image, FIRST, LAST])
    check(data, container, field, at + {"header_size": 4, "padded_size": 8}[field])


@pytest.mark.parametrize("size", [0, 8, -8, -16])
def test_a_fat_binary_whose_size_is_too_small_keeps_its_entries(size: int) -> None:
    entries = entry(FIRST, sm=75) + entry(LAST, sm=90)
    following = fatbin(entry(cubin(80)))
    data = fatbin(entries, size=size if size >= 0 else len(entries) + size)
    found = [item for item in scan(make_view(data + following)) if isinstance(item, FoundContainer)]
    assert images(found[0].container) == [FIRST, LAST]
    assert images(found[1].container) == [cubin(80)]
    check(data, found[0].container, "entries_size", 8)


def test_a_size_that_ends_after_the_first_entry_keeps_the_second() -> None:
    first = entry(FIRST, sm=75)
    container = parse(make_view(fatbin(first, entry(LAST, sm=90), size=len(first))))
    assert images(container) == [FIRST, LAST]


def test_an_entry_does_not_reach_into_the_next_fat_binary() -> None:
    long = entry(b"x" * 64, 0x20, padded_size=64 + 16 + len(entry(FIRST)))
    found = [item for item in scan(make_view(fatbin(long) + fatbin(entry(FIRST)))) if isinstance(item, FoundContainer)]
    assert [images(item.container) for item in found] == [[], [FIRST]]


@pytest.mark.parametrize("size", [0, 24, 64])
def test_a_wrong_header_size_keeps_all_entries(size: int) -> None:
    data = fatbin(entry(FIRST, sm=75), entry(LAST, sm=90), header_size=size)
    container = parse(make_view(data))
    assert images(container) == [FIRST, LAST]
    check(data, container, "header_size", 6)


def test_an_entry_that_was_mended_gets_a_right_header_in_another_fat_binary() -> None:
    first = entry(FIRST, sm=75)
    container = parse(make_view(fatbin(entry(FIRST, sm=75, padded_size=sizes(first)[1] + 8), entry(LAST, sm=90))))
    written = join_pieces(write(container.replace(images=container.images[:1])))
    again = parse(make_view(written))
    assert (images(again), again.findings) == ([FIRST], ())


def test_an_image_that_is_cut_short_is_not_called_whole() -> None:
    container = parse(make_view(fatbin(entry(FIRST[:-8], sm=75, padded_size=len(FIRST)), entry(LAST, sm=90))))
    assert images(container) == [LAST]
    assert not any("whole" in finding.hint for finding in container.findings)
