"""Facts and refusals of the reader."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from tests.builders.device_elf import device_elf
from tests.builders.kpack import archive
from tests.laws.rooms import FIXTURES

from fatpack import limits
from fatpack.commands.inspect.record import InspectOptions, make_file_record
from fatpack.errors import BadMagic, BadValue, FormatError, LimitExceeded, Truncated, Unsupported
from fatpack.formats import kpack
from fatpack.formats.kpack import toc
from fatpack.formats.kpack.layout import HEADER
from fatpack.limits import Budget
from fatpack.model import Container, Finding, Target
from fatpack.scanner import FoundContainer, inflate_image, scan
from fatpack.testing.helpers import make_view

CODE = [("lib/a.so#0", "gfx900", b"one"), ("lib/a.so#0", "gfx906", b"three"), ("bin/b#0", "gfx900", b"seven" * 9)]


def parsed(data: bytes) -> Container:
    return kpack.parse(make_view(data))


def codes(container: Container) -> list[str]:
    return [finding.code for finding in container.findings]


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
def test_the_facts_of_an_archive(scheme: str) -> None:
    container = parsed(archive(CODE, scheme=scheme))
    compression = None if scheme == "none" else "zstd"
    assert container.attrs.get("compression") == compression
    assert (container.attrs["group"], container.attrs["family"]) == ("test", "gfx900X")
    assert [image.target for image in container.images] == [
        Target("amdgcn-amd-amdhsa", arch, "hip") for _, arch, _ in CODE
    ]
    assert [image.attrs["binary"] for image in container.images] == [binary for binary, *_ in CODE]
    assert [image.data.tobytes() for image in container.images] == [data for *_, data in CODE]
    assert [image.compression for image in container.images] == [compression] * 3
    assert codes(container) == []
    assert kpack.describe(container)["archs"] == ["gfx900", "gfx906"]


def test_images_of_a_real_archive_are_recognised() -> None:
    (found,) = scan(make_view((FIXTURES / "kpack" / "needs.zstd.kpack").read_bytes()))
    assert isinstance(found, FoundContainer)
    assert [image.form for image in found.images] == ["code-object"] * 2
    images = [inflate_image(image, found.container.images) for image in found.images]
    assert [image.info.arch for image in images] == ["gfx90a", "gfx1100"]
    assert [image.items for image in images] == [(), ()]


def test_listing_an_archive_inflates_nothing() -> None:
    """The table has the facts of its blobs: a frame of a few kilobytes may inflate to gigabytes."""
    code = [(f"lib/x.so#{number}", "gfx90a", device_elf(224, 0x3F, osabi=64) + bytes(1 << 20)) for number in range(8)]
    view = make_view(archive(code, scheme="zstd-per-kernel"))
    view.source.budget = Budget()
    record = make_file_record(view, InspectOptions(inflate=False))
    assert [image["form"] for image in record["containers"][0]["images"]] == ["code-object"] * 8
    assert view.source.budget.drawn == 0
    make_file_record(view, InspectOptions(inflate=True))
    assert view.source.budget.drawn > 8 << 20


def test_what_is_no_code_object_is_not_called_one() -> None:
    (found,) = scan(make_view(archive([("lib/x.so#0", "gfx90a", b"BC\xc0\xde" + bytes(60))])))
    assert isinstance(found, FoundContainer)
    assert [image.form for image in found.images] == ["bitcode"]
    assert [item.code for item in found.images[0].findings] == ["FP1101"]


def test_another_beginning_is_no_archive() -> None:
    with pytest.raises(BadMagic, match="not a kpack archive"):
        parsed(b"PKAK" + bytes(60))


def test_a_version_that_is_not_known_is_named() -> None:
    with pytest.raises(Unsupported, match="version 2"):
        parsed(b"KPAK" + struct.pack("<IQ", 2, 64) + bytes(64))


@pytest.mark.parametrize(("value", "problem"), [(2**63, "past the end"), (8, "in the header")])
def test_a_table_outside_of_the_archive_is_refused_at_its_field(value: int, problem: str) -> None:
    data = bytearray(archive(CODE))
    at = HEADER.field_offset("toc_offset")
    data[at : at + 8] = struct.pack("<Q", value)
    with pytest.raises(BadValue, match=problem) as caught:
        parsed(bytes(data))
    assert (caught.value.offset, caught.value.field) == (at, "toc_offset")


def test_a_cut_table_is_refused_where_it_ends() -> None:
    data = archive(CODE)
    with pytest.raises(Truncated) as caught:
        parsed(data[:-3])
    assert caught.value.format == "rocm-kpack"
    assert caught.value.field == "table of contents"


def test_a_table_that_is_no_map_is_refused() -> None:
    with pytest.raises(BadValue, match="expected map"):
        parsed(b"KPAK" + struct.pack("<IQ", 1, 64) + bytes(48) + b"\x01")


def test_a_scheme_that_is_not_known_is_named() -> None:
    with pytest.raises(Unsupported, match="lzma"):
        parsed(archive(CODE, compression_scheme="lzma"))


def row(**changes: Any) -> dict[str, dict[str, dict[str, Any]]]:
    """Return a table of two code objects, the first of them changed."""
    first = {"type": "hsaco", "ordinal": 0, "original_size": 3} | changes
    return {"lib/a.so#0": {"gfx900": first, "gfx906": {"type": "hsaco", "ordinal": 1, "original_size": 5}}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ordinal": 9}, "it is blob 9, and there are 2 blobs"),
        ({"ordinal": None}, "has a value of type nil"),
        ({"ordinal": -1}, "ordinal of the entry of lib/a.so#0 for gfx900: -1"),
        ({"ordinal": "first"}, "string"),
    ],
)
def test_a_damaged_entry_leaves_the_others(changes: dict[str, Any], words: str) -> None:
    data = archive(CODE[:2], toc=row(**changes), archs=["gfx906"])
    container = parsed(data)
    assert [image.target.arch for image in container.images] == ["gfx906"]
    assert codes(container) == ["FP1601"]
    assert words in container.findings[0].message


def test_a_damaged_entry_is_reported_with_its_offset() -> None:
    data = archive(CODE[:2], toc=row(ordinal=9), archs=["gfx906"])
    (finding,) = parsed(data).findings
    assert data[finding.span.start : finding.span.end].startswith(b"\xa6gfx900\x83")


def test_a_blob_outside_of_the_archive_leaves_the_others() -> None:
    blobs = [{"offset": 2**40, "size": 3}, {"offset": 67, "size": 5}]
    container = parsed(archive(CODE[:2], blobs=blobs, archs=["gfx906"]))
    assert [image.data.tobytes() for image in container.images] == [b"three"]
    assert "FP1601" in codes(container)


def test_a_frame_past_the_end_leaves_those_before() -> None:
    data = bytearray(archive(CODE[:2], scheme="zstd-per-kernel", archs=["gfx900"]))
    (first,) = struct.unpack_from("<I", data, 68)
    data[72 + first : 76 + first] = struct.pack("<I", 2**31)
    container = parsed(bytes(data))
    assert [image.data.tobytes() for image in container.images] == [b"one"]
    assert codes(container) == ["FP1602", "FP1601"]


def test_frames_outside_of_the_archive_are_refused() -> None:
    with pytest.raises(BadValue, match="take 4096 bytes"):
        parsed(archive(CODE, scheme="zstd-per-kernel", zstd_size=4096))


def test_a_size_that_is_not_the_inflated_one_is_reported_when_it_is_read() -> None:
    container = parsed(archive(CODE[:2], scheme="zstd-per-kernel", toc=row(original_size=7)))
    with pytest.raises(FormatError, match="another size"):
        container.images[0].data.tobytes()
    assert container.images[1].data.tobytes() == b"three"


def test_without_a_size_the_frame_tells_it() -> None:
    changed = row()
    del changed["lib/a.so#0"]["gfx900"]["original_size"]
    assert parsed(archive(CODE[:2], scheme="zstd-per-kernel", toc=changed)).images[0].data.tobytes() == b"one"


def test_a_size_that_contradicts_the_blob_is_a_warning() -> None:
    container = parsed(archive(CODE[:2], toc=row(original_size=4)))
    assert codes(container) == ["FP1603"]
    assert container.images[0].data.tobytes() == b"one"


@pytest.mark.parametrize(
    ("archs", "words"),
    [
        (["gfx900", "gfx906", "gfx90a:xnack-"], "lists gfx90a:xnack- and has no code object"),  # ROCm/TheRock#7620
        (["gfx900"], "code objects for gfx906 and does not list it"),
    ],
)
def test_a_list_of_architectures_that_is_wrong_is_a_warning(archs: list[str], words: str) -> None:
    container = parsed(archive(CODE, archs=archs))
    assert codes(container) == ["FP1605"]
    assert words in container.findings[0].message


def test_bytes_that_belong_to_nothing_are_reported() -> None:
    blobs = [{"offset": 64, "size": 3}]
    container = parsed(archive([("a#0", "gfx900", b"one rest")], blobs=blobs, archs=["gfx900"]))
    assert codes(container) == ["FP1603", "FP1604"]
    assert [span.size for span in container.unknown] == [5]


def test_a_key_that_is_repeated_counts_once_as_the_runtime_does() -> None:
    data = archive(CODE)
    toc = data.index(b"\xaeformat_version") - 1
    twice = data[:toc] + bytes([data[toc] + 1]) + data[toc + 1 :] + b"\xaagroup_name\xa5other"
    container = parsed(twice)
    assert container.attrs["group"] == "test"
    assert codes(container) == ["FP1603"]


def test_more_code_objects_than_the_limit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGES", 2)
    with pytest.raises(LimitExceeded, match="more than 2 code objects"):
        parsed(archive(CODE))


@pytest.mark.parametrize("scheme", ["none", "zstd-per-kernel"])
def test_more_blobs_than_the_limit_are_refused_used_or_not(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGES", 2)
    one = {"lib/a.so#0": {"gfx900": {"type": "hsaco", "ordinal": 0, "original_size": 3}}}
    with pytest.raises(LimitExceeded, match="more than 2 code objects"):
        parsed(archive(CODE, scheme=scheme, toc=one))


@pytest.mark.parametrize("size", [(1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_a_size_that_no_memory_has_is_reported_when_it_is_read(size: int) -> None:
    table = {"lib/a.so#0": {"gfx900": {"type": "hsaco", "ordinal": 0, "original_size": size}}}
    (image,) = parsed(archive(CODE[:1], scheme="zstd-per-kernel", toc=table)).images
    with pytest.raises(LimitExceeded, match=f"claim to inflate to {size}"):
        image.data.tobytes()


def test_an_architecture_that_is_listed_twice_is_reported_once() -> None:
    assert codes(parsed(archive(CODE, archs=["gfx900", "gfx906", *["gfx1100"] * 3]))) == ["FP1605"]


@pytest.mark.parametrize(
    "table",
    [
        pytest.param(b"\xdf\0\xff\xff\xff" + b"\xa0" * (1 << 20), id="cut behind many pairs"),
        pytest.param(b"\x81\xdb\0\x20\0\0" + bytes(1 << 20), id="cut in a long string"),
        pytest.param(bytes(1 << 20), id="no map"),
    ],
)
def test_magics_with_tables_that_reach_far_do_not_read_them_again(
    table: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    real = toc.MessagePackReader
    monkeypatch.setattr(toc, "MessagePackReader", lambda view, *how: read.append(len(view)) or real(view, *how))
    count = 2000
    data = b"".join(struct.pack("<4sIQ", b"KPAK", 1, 16 * (count - number)) for number in range(count)) + table
    assert any(isinstance(found, Finding) for found in scan(make_view(data)))
    assert sum(read) < 20 * len(data)


def test_a_table_longer_than_the_limit_is_no_cut_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "KPACK_TOC", 100)
    with pytest.raises(LimitExceeded, match="too long"):
        parsed(archive(CODE))
