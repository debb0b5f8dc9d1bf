"""Binary bundles: facts of valid ones, and the readable rest of damaged ones."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.laws.rooms import FIXTURES

from fatpack.errors import BadMagic, BadValue, LimitExceeded, Truncated
from fatpack.formats import clang_bundle
from fatpack.formats.clang_bundle.layout import DESCRIPTOR, HEADER, MAGIC, BundleEntry
from fatpack.io.source import Span
from fatpack.model import Container, Finding, Target
from fatpack.scanner import FoundContainer, scan
from fatpack.testing.helpers import join_pieces, make_image, make_view

FOLDER = FIXTURES / "clang_bundle"
HIP = (FOLDER / "llvm-22-hip.bundle").read_bytes()
EMPTY_LAST = (FOLDER / "llvm-22-empty-last.bundle").read_bytes()
HOST_ID, GFX906, GFX90A = (
    "host-x86_64-unknown-linux-gnu-",
    "hipv4-amdgcn-amd-amdhsa--gfx906:xnack-",
    "hipv4-amdgcn-amd-amdhsa--gfx90a",
)
#: positions of the descriptors of HIP
PLACES = [32, 32 + 24 + len(HOST_ID), 32 + 48 + len(HOST_ID) + len(GFX906)]


def edited(data: bytes, field: str, value: int, *, entry: int | None = None) -> bytes:
    """Return a good bundle with one named field of its header, or of the descriptor of an entry, changed."""
    layout, at = (HEADER, 0) if entry is None else (DESCRIPTOR, PLACES[entry])
    at += layout.field_offset(field)
    return data[:at] + struct.pack("<Q", value) + data[at + 8 :]


def built(entries: Sequence[tuple[int, int, bytes]], count: int | None = None, tail: bytes = b"") -> bytes:
    """Return a bundle with a table as given, offsets included."""
    table = b"".join(DESCRIPTOR.pack(offset, size, len(name)) + name for offset, size, name in entries)
    return HEADER.pack(MAGIC, len(entries) if count is None else count) + table + tail


def listed(data: bytes) -> list[str]:
    return [item.attrs["id"] for item in clang_bundle.parse(make_view(data)).images]


def codes(data: bytes) -> list[str]:
    return [finding.code for finding in clang_bundle.parse(make_view(data)).findings]


def test_the_recorded_facts_of_a_hip_bundle() -> None:
    container = clang_bundle.parse(make_view(HIP), strict=True)
    host, first, second = container.images
    assert (container.version, container.span) == (0, Span(0, len(HIP), ("test",)))
    assert container.attrs == {"flavour": "binary", "align": "64"}
    assert host.target == Target("x86_64-unknown-linux-gnu", "", "host", HOST_ID)
    assert first.target == Target("amdgcn-amd-amdhsa", "gfx906:xnack-", "hip", GFX906)
    assert (host.size, host.span.start) == (0, 256)
    assert (first.data.tobytes(), first.span.start, first.stored_size) == (b"hello", 256, 5)
    assert (second.data.tobytes(), second.attrs, second.form) == (b"worldworld", {"id": GFX90A}, "")
    assert clang_bundle.describe(container) == {
        "entries": [{"id": HOST_ID, "offset": 256}, {"id": GFX906, "offset": 256}, {"id": GFX90A, "offset": 320}],
        "entry_count": 3,
        "table_size": PLACES[2] + 24 + len(GFX90A),
    }


def test_the_zeros_before_an_empty_last_image_belong_to_the_bundle() -> None:
    container = clang_bundle.parse(make_view(EMPTY_LAST + bytes(50)), strict=True)
    assert container.span.size == len(EMPTY_LAST) == 300
    assert container.attrs["align"] == "100"
    assert container.findings == ()


def test_a_file_of_llvm_16_that_ends_before_its_empty_image_is_whole() -> None:
    container = clang_bundle.parse(make_view(EMPTY_LAST[:208]), strict=True)
    assert [item.size for item in container.images] == [8, 0]
    assert [finding.code for finding in container.findings] == ["FP1309"]
    assert join_pieces(clang_bundle.write(container)) == EMPTY_LAST[:208]


def test_an_empty_image_does_not_reach_over_what_follows() -> None:
    short = EMPTY_LAST[:208]
    found = [item for item in scan(make_view(short + HIP)) if isinstance(item, FoundContainer)]
    assert [item.view.span().start for item in found] == [0, 208]


@pytest.mark.parametrize("size", range(24, 32))
def test_a_cut_header_is_truncated(size: int) -> None:
    with pytest.raises(Truncated, match="needs 32 bytes"):
        clang_bundle.parse(make_view(HIP[:size]))


@pytest.mark.parametrize("data", [b"", b"\x7fELF", MAGIC[:23], b"rubbish" * 9])
def test_anything_else_is_no_bundle(data: bytes) -> None:
    assert not clang_bundle.detect(make_view(data))
    assert clang_bundle.extent(make_view(data)) is None
    with pytest.raises(BadMagic, match="expected __CLANG_OFFLOAD_BUNDLE__"):
        clang_bundle.parse(make_view(data))


@pytest.mark.parametrize(
    ("entry", "field", "value", "lost", "message"),
    [
        (1, "image_size", 2**64 - 1, GFX906, r"0x100 \+ 0xffffffffffffffff is past the end"),
        (1, "image_offset", 2**64 - 1, GFX906, "past the end"),
        (2, "image_size", 11, GFX90A, r"0x140 \+ 0xb is past the end \(expected at most 0x14a"),
        (1, "image_offset", 0, GFX906, r"the image at 0x0 \+ 0x5 lies in the table of entries"),
        (1, "image_offset", 31, GFX906, "lies in the table"),
        (1, "image_offset", PLACES[2] + 3, GFX906, "lies in the table"),
        (2, "image_offset", PLACES[1], GFX90A, "lies in the table"),
    ],
)
def test_a_lying_range_costs_its_own_entry_only(entry: int, field: str, value: int, lost: str, message: str) -> None:
    data = edited(HIP, field, value, entry=entry)
    assert listed(data) == [name for name in (HOST_ID, GFX906, GFX90A) if name != lost]
    assert codes(data)[0] == "FP1301"
    with pytest.raises(BadValue, match=message) as caught:
        clang_bundle.parse(make_view(data), strict=True)
    assert caught.value.format == "clang-offload-bundle"
    assert caught.value.offset == PLACES[entry]
    assert str(caught.value).startswith("test: clang-offload-bundle at 0x")


@pytest.mark.parametrize("count", [4, 255, 2**32, 2**64 - 1])
def test_a_lying_count_keeps_the_entries_before_the_images(count: int) -> None:
    data = edited(HIP, "entry_count", count)
    assert listed(data) == [HOST_ID, GFX906, GFX90A]
    assert codes(data) == ["FP1302"]
    with pytest.raises(BadValue, match=rf"entry\[3\]: no descriptor is here, {count} entries are stored"):
        clang_bundle.parse(make_view(data), strict=True)


def test_a_count_too_small_leaves_bytes_that_belong_to_nothing() -> None:
    data = edited(HIP, "entry_count", 2)
    assert listed(data) == [HOST_ID, GFX906]
    assert codes(data) == ["FP1308"]
    container = clang_bundle.parse(make_view(data))
    assert join_pieces(clang_bundle.write(container)) == data[: container.span.size]


@pytest.mark.parametrize("value", [4097, 2**63, 2**64 - 1])
def test_an_id_that_cannot_be_as_long_ends_the_table(value: int) -> None:
    data = edited(HIP, "id_size", value, entry=1)
    assert listed(data) == [HOST_ID]
    assert "FP1302" in codes(data)


def test_an_id_that_reaches_into_an_image_ends_the_table() -> None:
    assert listed(edited(HIP, "id_size", 300, entry=2)) == [HOST_ID, GFX906]


def test_a_table_that_fills_the_file_is_cut_where_the_file_is() -> None:
    for size in range(32, PLACES[2] + 24 + len(GFX90A)):
        container = clang_bundle.parse(make_view(HIP[:size]))
        assert all(item.size == 0 for item in container.images)
        assert {"FP1302"} & {finding.code for finding in container.findings}
        assert container.span.size <= size


def test_every_image_before_the_cut_is_listed() -> None:
    assert listed(HIP[:329]) == [HOST_ID, GFX906]
    assert listed(HIP[:261]) == [HOST_ID, GFX906]
    assert listed(HIP[:260]) == [HOST_ID]


def test_a_bundle_may_be_empty() -> None:
    container = clang_bundle.parse(make_view(built([])), strict=True)
    assert (container.images, container.span.size, container.findings) == ((), 32, ())


def test_many_lying_entries_cost_neither_memory_nor_endless_findings() -> None:
    data = built([(2**63, 1, b"x")] * 5000)
    container = clang_bundle.parse(make_view(data))
    assert container.images == ()
    assert (len(container.findings), container.findings[-1].count) == (1001, 4000)


def test_more_entries_than_anybody_has_are_not_read() -> None:
    count = (1 << 16) + 1
    data = built([(32 + 25 * count, 0, b"x")] * count)
    container = clang_bundle.parse(make_view(data))
    assert len(container.images) == 1 << 16
    with pytest.raises(LimitExceeded, match=r"raise fatpack\.limits\.BUNDLE_ENTRIES"):
        clang_bundle.parse(make_view(data), strict=True)


def test_duplicates_stay_in_file_order_and_are_reported() -> None:
    end = 32 + 3 * 25
    data = built([(end, 1, b"x"), (end + 1, 1, b"y"), (end + 2, 1, b"x")], tail=b"abc")
    container = clang_bundle.parse(make_view(data), strict=True)
    assert [item.data.tobytes() for item in container.images] == [b"a", b"b", b"c"]
    assert [finding.code for finding in container.findings] == ["FP1307"]
    assert join_pieces(clang_bundle.write(container.replace(images=container.images[::-1])))[end:] == b"cba"


def test_overlaps_are_reported_once_and_shared_images_are_not() -> None:
    end = 32 + 3 * 25
    assert codes(built([(end, 2, b"x"), (end, 2, b"y"), (end + 1, 2, b"z")], tail=b"abc")) == ["FP1306"]
    assert codes(built([(end, 2, b"x"), (end, 2, b"y"), (end + 2, 1, b"z")], tail=b"abc")) == []


def test_bytes_between_images_are_reported_and_kept() -> None:
    end = 32 + 2 * 25
    data = built([(end + 4, 1, b"x"), (end + 9, 1, b"y")], tail=b"junkA\0\0\0\0B")
    container = clang_bundle.parse(make_view(data), strict=True)
    assert [finding.code for finding in container.findings] == ["FP1308"]
    assert [span.size for span in container.unknown] == [4]
    assert join_pieces(clang_bundle.write(container)) == data
    labels = [(label.kind, label.span.size) for label in clang_bundle.labels(make_view(data), container)]
    assert labels[-4:] == [("unknown", 4), ("data", 1), ("padding", 4), ("data", 1)]


def test_ids_that_are_no_utf8_survive() -> None:
    data = built([(32 + 24 + 4, 1, b"h\xff\xfe-")], tail=b"x")
    container = clang_bundle.parse(make_view(data), strict=True)
    assert join_pieces(clang_bundle.write(container.replace(record=None))) == data


def test_the_hip_runtime_warning_is_for_large_tables_of_hip_only() -> None:
    def with_ids(kind: str) -> bytes:
        ids = [f"{kind}-amdgcn-amd-amdhsa--gfx{number}" for number in range(80)]
        images = tuple(make_image(b"x", attrs={"id": spelling}) for spelling in ids)
        return join_pieces(clang_bundle.write(Container("", 0, images, Span(0, 0), attrs={"align": "4096"})))

    assert codes(with_ids("hipv4")) == ["FP1310"]
    assert codes(with_ids("openmp")) == []


@pytest.mark.parametrize(("offsets", "align"), [((), "1"), ((137,), "1"), ((4096,), "4096"), ((300, 500), "4")])
def test_the_alignment_is_inferred(offsets: tuple[int, ...], align: str) -> None:
    entries = [(offset, 1, b"i" * (81 if len(offsets) == 1 else 4) + b"%d" % offset) for offset in offsets]
    entries = entries if offsets != (137,) else [(137, 1, b"i" * 81)]
    assert clang_bundle.parse(make_view(built(entries, tail=bytes(5000)))).attrs["align"] == align


def test_bundles_of_a_section_are_walked_whatever_they_hold() -> None:
    """Padding to 4096, a NUL after a bundle, a nested bundle and a magic in an image do not confuse the walk."""
    nested = join_pieces(
        clang_bundle.write(
            Container(
                "",
                0,
                (make_image(HIP, attrs={"id": "hip-a"}), make_image(b"text " + MAGIC + b"CCOB", attrs={"id": "hip-b"})),
                Span(0, 0),
                attrs={"align": "512"},
            )
        )
    )
    section = b"".join(part + bytes(-len(part) % 4096) for part in (nested, HIP + b"\0", EMPTY_LAST, nested))
    items = list(scan(make_view(section)))
    assert [item.view.start for item in items if isinstance(item, FoundContainer)] == [0, 4096, 8192, 12288]
    assert [item.code for item in items if isinstance(item, Finding) and item.severity != "note"] == []
    first = items[0]
    assert isinstance(first, FoundContainer)
    assert [inner.container.span.size for inner in first.images[0].containers] == [len(HIP)]


def test_a_size_that_swallows_the_next_bundle_is_found_out() -> None:
    for size in (len(HIP) - 1, 200, 100):
        data = edited(HIP, "image_size", 10 + size, entry=2) + HIP + HIP
        found = [item for item in scan(make_view(data)) if isinstance(item, FoundContainer)]
        assert [item.view.start for item in found] == [0, len(HIP), 2 * len(HIP)]
        assert [len(item.images) for item in found] == [2, 3, 3]


def test_a_bundle_at_the_start_of_the_last_image_is_not_taken_for_the_next_one() -> None:
    model = Container("", 0, (make_image(HIP, attrs={"id": "hip-a"}),), Span(0, 0))
    data = join_pieces(clang_bundle.write(model))
    found = [item for item in scan(make_view(data + b"rubbish!" + HIP)) if isinstance(item, FoundContainer)]
    assert [item.container.images[0].size for item in found] == [len(HIP), 0]


@given(st.integers(32, len(HIP) - 1), st.binary(min_size=1, max_size=30))
def test_extent_and_parse_agree_on_damaged_bundles(at: int, patch: bytes) -> None:
    data = HIP[:at] + patch + HIP[at + len(patch) :] + HIP
    assert clang_bundle.extent(make_view(data)) == clang_bundle.parse(make_view(data)).span.size


def test_records_tell_where_each_descriptor_is() -> None:
    records = [item.record for item in clang_bundle.parse(make_view(HIP)).images]
    assert [record.at for record in records if isinstance(record, BundleEntry)] == PLACES


def test_a_bundle_that_is_cut_short_is_reported_to_be_cut_and_nothing_else() -> None:
    """The rest of its table or images is not reported as other bytes, nor an offset as a quirk of old producers."""
    for size in range(33, len(HIP)):
        found = [item.code for item in scan(make_view(HIP[:size])) if isinstance(item, Finding)]
        is_table_cut = size < PLACES[2] + DESCRIPTOR.size + len(GFX90A)
        assert found.count("FP1302") == is_table_cut, size
        # The rest of a cut image is not a separate fault.
        assert {*found} <= {"FP1301", "FP1302"}
        assert found, size


def test_bytes_after_a_whole_bundle_are_still_said_to_be_odd() -> None:
    """Bytes after a damaged one belong to it, until the next container starts."""
    for data, expected in ((HIP + b"rubbish!", ["FP1002"]), (HIP[:-9], []), (HIP[:-9] + HIP + b"rubbish!", ["FP1002"])):
        found = [item.code for item in scan(make_view(data)) if isinstance(item, Finding)]
        assert [code for code in found if code != "FP1301"] == expected
