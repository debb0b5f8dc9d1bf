"""PE images: device code is found by the contents of sections, and editing is refused."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest
from tests.builders.pe import Section, build

from fatpack.binary import CodeSection, pe
from fatpack.binary.pe.reader import PeFile, block_relocations, relocation_blocks
from fatpack.errors import HostError
from fatpack.io.source import BytesSource, View
from fatpack.model import Finding

CONTAINER = b"\x10\xff\x10\xad" + b"the rest of it"
BUNDLE = b"__CLANG_OFFLOAD_BUNDLE__" + bytes(8)
FATBIN = b"\x50\xed\x55\xba" + bytes(12)
TEXT = Section(b".text", b"\x90" * 100)


def view(data: bytes) -> View:
    return BytesSource(data, "x.dll").view()


def sites(data: bytes) -> list[tuple[str | None, int | None, bytes, str]]:
    return [
        (site.section, site.index, site.data.tobytes(), site.content)
        for site in pe.locate(view(data))
        if isinstance(site, CodeSection)
    ]


def codes(data: bytes) -> list[str]:
    return [item.code for item in pe.locate(view(data)) if isinstance(item, Finding)]


def assert_labels_tile(data: bytes) -> None:
    at = 0
    for label in pe.labels(view(data)):
        assert label.span.start == at
        assert label.span.end > at
        at = label.span.end
    assert at == len(data)


@pytest.mark.parametrize("bits", [32, 64])
def test_sections_of_device_code_are_found_with_their_exact_size(bits: int) -> None:
    data = build([TEXT, Section(b".nv_fatb", FATBIN), Section(b".hip_fat", BUNDLE)], bits=bits)
    assert pe.detect(view(data))
    assert sites(data) == [(".nv_fatb", 2, FATBIN, "container"), (".hip_fat", 3, BUNDLE, "container")]
    assert codes(data) == []
    assert_labels_tile(data)


def test_sections_of_bundles_that_a_linker_would_remove_are_single_images() -> None:
    """A fat object that was made of an image: its sections hold one image each, and empty ones count."""
    names = b"".join(b"__CLANG_OFFLOAD_BUNDLE__%s\0" % end for end in (b"host-x", b"hip-y", b"sycl-z"))
    sections = [Section(b"/4", b"\0", 1, 0x40000800), Section(b"/35", b"", 0, 0x40000800), Section(b"/65", b"two")]
    found = [(site[0], site[3]) for site in sites(build([TEXT, *sections], strings=names))]
    prefix = "__CLANG_OFFLOAD_BUNDLE__"
    assert found == [(f"{prefix}host-x", "image"), (f"{prefix}hip-y", "image"), (f"{prefix}sycl-z", "images")]


@pytest.mark.parametrize("name", [b".llvm.of", b".hip_fat", b".nv_fatb", b"__nv_rel"])
def test_names_that_linkers_cut(name: bytes) -> None:
    assert sites(build([Section(name, CONTAINER)])) == [(name.decode(), 1, CONTAINER, "container")]


@pytest.mark.parametrize("name", [b".llvm.offloading", b".hip_fatbin", b".nv_fatbin", b"__nv_relfatbin"])
def test_whole_names_in_a_string_table(name: bytes) -> None:
    data = build([Section(b"/4", CONTAINER)], strings=name + b"\0")
    assert sites(data) == [(name.decode(), 1, CONTAINER, "container")]
    assert_labels_tile(data)


@pytest.mark.parametrize(
    "name", [b"__CLANG_", b"OFFLOAD_", b"OFFLOAD_DEVICE_CODE", b"__CLANG_OFFLOAD_BUNDLE__sycl-spir64"]
)
def test_images_of_sycl_are_listed_whole(name: bytes) -> None:
    data = build([Section(name if len(name) < 9 else b"/4", b"images")], strings=name + b"\0")
    assert sites(data) == [(name.decode(), 1, b"images", "images")]


@pytest.mark.parametrize(
    "name", [b".hipFatB", b".hipFatBinSegment", b".nvFatBi", b".nvFatBinSegment", b"__nv_mod", b".tgtimg", b".tgtsym"]
)
def test_what_is_reported_about_device_code_is_listed_as_a_table(name: bytes) -> None:
    data = build([Section(name if len(name) < 9 else b"/4", b"facts")], strings=name + b"\0")
    assert sites(data) == [(name.decode(), 1, b"facts", "table")]


@pytest.mark.parametrize("name", [b".rdata", b".nvFatB", b".llvm.xx", b".tgtsyms"])
def test_other_sections_are_not_looked_into(name: bytes) -> None:
    assert sites(build([Section(name, CONTAINER)])) == []


def test_what_lld_calls_llvm_is_mixed_with_other_data() -> None:
    data = build([Section(b".llvm", b"names\0\0\0" + CONTAINER + b"more names\0")])
    assert sites(data) == [(".llvm", 1, CONTAINER + b"more names\0", "mixed")]


def test_a_magic_counts_only_at_a_multiple_of_eight() -> None:
    assert sites(build([Section(b".llvm", b"CCOB" * 2 + b"1234" + CONTAINER)]))[0][2].startswith(b"CCOBCCOB")
    assert sites(build([Section(b".llvm", b"12345" + CONTAINER)])) == []


def test_a_magic_far_into_the_section_is_found() -> None:
    far = b"\1" * ((1 << 20) - 8) + BUNDLE
    assert sites(build([Section(b".llvm", far)])) == [(".llvm", 1, BUNDLE, "mixed")]


def test_names_without_containers_are_reported_where_only_containers_belong() -> None:
    assert codes(build([Section(b".nv_fatb", b"something else")])) == ["FP2302"]
    assert codes(build([Section(b".llvm", b"kernel names\0")])) == []


def test_a_section_larger_in_memory_ends_with_its_bytes_in_the_file() -> None:
    data = build([Section(b".nv_fatb", FATBIN, virtual_size=5000)])
    assert [len(content) for _, _, content, _ in sites(data)] == [512]


def test_a_size_of_zero_in_memory_means_that_of_the_file() -> None:
    data = build([Section(b".nv_fatb", FATBIN, virtual_size=0)])
    assert [len(content) for _, _, content, _ in sites(data)] == [512]


def test_sections_without_bytes_are_passed_over() -> None:
    data = build([Section(b".nv_fatb", b""), Section(b".hip_fat", BUNDLE, flags=0x80)])
    assert list(pe.locate(view(data))) == []


def test_a_section_outside_the_image_is_a_finding_and_the_others_are_listed() -> None:
    data = build([Section(b".nv_fatb", FATBIN), Section(b".hip_fat", BUNDLE)])
    assert codes(data[:-500]) == ["FP2301"]
    assert [name for name, *_ in sites(data[:-500])] == [".nv_fatb"]


def test_a_cut_section_table_is_a_finding() -> None:
    data = build([TEXT, Section(b".nv_fatb", FATBIN)])
    assert codes(data[: 120 + 24 + 240 + 60]) == ["FP2303"]
    assert codes(data[: 120 + 10]) == ["FP2303"]


def test_sections_over_the_same_bytes_are_read_once() -> None:
    data = build([Section(b".nv_fatb", FATBIN), Section(b".hip_fat", BUNDLE)])
    first, second = (120 + 24 + 240 + 40 * number + 20 for number in range(2))
    data = data[:second] + data[first : first + 4] + data[second + 4 :]
    assert codes(data) == ["FP1203"]
    assert len(sites(data)) == 1


@pytest.mark.parametrize(
    "data", [b"", b"MZ", b"MZ" + bytes(100), b"MZ" + bytes(58) + struct.pack("<I", 0xFFFFFFFF), b"PE\0\0" + bytes(100)]
)
def test_other_files_are_not_taken_for_images(data: bytes) -> None:
    assert not pe.detect(view(data))


def test_labels_name_stub_headers_sections_symbols_and_certificates() -> None:
    data = build([TEXT, Section(b".nv_fatb", FATBIN)], strings=b"name\0", certificates=b"signature")
    assert_labels_tile(data)
    names = [label.name for label in pe.labels(view(data)) if label.kind == "data"]
    assert names == ["stub", "optional header", "section[1].data", "section[2].data", "symbols", "certificates"]


@pytest.mark.parametrize("bits", [32, 64])
def test_only_counted_data_directories_are_there(bits: int) -> None:
    data = bytearray(build([TEXT], bits=bits, certificates=b"signature"))
    image = PeFile(view(bytes(data)))
    assert image.certificates() == (len(data) - 9, 9)
    assert image.directory_at(15) is not None
    assert image.directory_at(16) is None
    start = image.directories_offset
    assert start is not None
    data[start - 4] = 4
    assert PeFile(view(bytes(data))).certificates() == (0, 0)


def test_blocks_of_base_relocations_end_at_one_that_is_not_whole() -> None:
    blocks = struct.pack("<IIHHIIH", 0x1000, 12, 0xA008, 0x3010, 0x2000, 11, 0xA000) + b"x"
    found = [list(block_relocations(page, entries)) for page, entries in relocation_blocks(view(blocks))]
    assert found == [[(0x1008, 10), (0x1010, 3)], [(0x2000, 10)]]
    for cut in (blocks[:-1], blocks[:15], blocks[:12] + bytes(8)):
        assert len(list(relocation_blocks(view(cut)))) == 1


@pytest.mark.parametrize("pe_offset", [4, 64, 128])
def test_the_headers_may_overlap(pe_offset: int) -> None:
    # Tiny programs put the PE header into the DOS header; a field of the former then has the position.
    data = bytearray(build([Section(b".nv_fatb", FATBIN)], pe_offset=pe_offset))
    data[60:64] = struct.pack("<I", pe_offset)
    assert pe.detect(view(bytes(data)))
    assert_labels_tile(bytes(data))


EDITS: list[Callable[[View], object]] = [
    lambda host: pe.embed(host, [b"code"]),
    lambda host: pe.replace(host, 1, [b"code"]),
    lambda host: pe.remove(host, [1]),
]


@pytest.mark.parametrize("edit", EDITS, ids=["embed", "replace", "remove"])
def test_editing_is_refused_with_the_reason(edit: Callable[[View], object]) -> None:
    with pytest.raises(HostError, match=r"PE images are not edited: .*edit the objects") as refusal:
        edit(view(build([TEXT])))
    assert "signed" not in str(refusal.value)
    with pytest.raises(HostError, match="the image is signed"):
        edit(view(build([TEXT], certificates=b"signature")))


SMALL = build(
    [TEXT, Section(b".nv_fatb", FATBIN), Section(b"/4", CONTAINER), Section(b".llvm", b"12345678" + CONTAINER)],
    strings=b".llvm.offloading\0",
    certificates=b"signature",
    align=16,
)


def test_every_cut_gives_sections_or_findings_and_labels() -> None:
    for size in range(len(SMALL)):
        if pe.detect(view(SMALL[:size])):
            list(pe.locate(view(SMALL[:size])))
            assert_labels_tile(SMALL[:size])


def test_every_flipped_byte_gives_sections_or_findings_and_labels() -> None:
    for at in range(len(SMALL)):
        for change in (0x01, 0x80, 0xFF):
            damaged = SMALL[:at] + bytes([SMALL[at] ^ change]) + SMALL[at + 1 :]
            if pe.detect(view(damaged)):
                list(pe.locate(view(damaged)))
                assert_labels_tile(damaged)
