"""Locating device code by section type, then by name; unreadable parts are reported, not skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import elf as build

from fatpack.binary import CodeSection
from fatpack.binary.elf import locate
from fatpack.binary.elf.device_sections import is_device_name, is_table_name
from fatpack.errors import BadValue, Truncated
from fatpack.findings import CODES
from fatpack.model import Finding

FIXTURES = Path(__file__).parents[2] / "fixtures" / "elf"
KINDS = [(32, "little"), (32, "big"), (64, "little"), (64, "big")]


def sites(data: bytes) -> list[CodeSection]:
    return [item for item in locate(build.as_view(data)) if isinstance(item, CodeSection)]


def findings(data: bytes) -> list[Finding]:
    return [item for item in locate(build.as_view(data)) if isinstance(item, Finding)]


@pytest.mark.parametrize(("bits", "order"), KINDS)
def test_the_section_type_is_enough(bits: int, order: str) -> None:
    elf = build.Elf(bits=bits, order=order)
    elf.add(".foo", b"device!!", type=build.OFFLOADING)
    (site,) = sites(elf.build())
    assert (site.section, site.index, site.data.tobytes()) == (".foo", 1, b"device!!")
    assert site.findings == ()
    assert site.content == "container"
    assert site.data.chain == ("test.o", ".foo")


@pytest.mark.parametrize(
    "name",
    [".hip_fatbin", ".nv_fatbin", "__nv_relfatbin", "__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx90a"],
)
def test_sections_of_cuda_hip_and_the_bundler_are_found_by_name(name: str) -> None:
    elf = build.Elf()
    elf.add(name, b"code", flags=build.ALLOC)
    (site,) = sites(elf.build())
    assert (site.section, site.findings) == (name, ())


@pytest.mark.parametrize(
    "name",
    [".llvm.lto", ".nvFatBinSegments", "my.hip_fatbin", ".nv_fatbin2", ".llvm.offloadings", ""],
)
def test_other_names_are_no_device_code(name: str) -> None:
    elf = build.Elf()
    elf.add(name, b"code")
    assert list(locate(build.as_view(elf.build()))) == []
    assert not is_device_name(name)


@pytest.mark.parametrize(
    "name",
    [
        ".hipFatBinSegment",
        ".nvFatBinSegment",
        "__nv_module_id",
        ".tgtimg",
        ".tgtsym",
        "__CLANG_OFFLOAD_BUNDLE_SIZE__sycl-spir64-unknown-unknown",
    ],
)
def test_what_is_reported_about_device_code_is_listed_as_a_table(name: str) -> None:
    elf = build.Elf()
    elf.add(name, b"facts")
    elf.add(name)
    elf.add(name, type=build.NOBITS, size=24)
    (site,) = locate(build.as_view(elf.build()))
    assert isinstance(site, CodeSection)
    assert (site.section, site.index, site.content, site.data.tobytes()) == (name, 1, "table", b"facts")
    assert is_table_name(name)
    assert not is_device_name(name)


def test_loaded_sections_of_the_bundler_hold_the_images_of_a_program() -> None:
    elf = build.Elf(type=build.SHARED)
    elf.add("__CLANG_OFFLOAD_BUNDLE__sycl-spir64", b"images", flags=build.ALLOC)
    elf.add("OFFLOAD_DEVICE_CODE", b"images", flags=build.ALLOC)
    assert [site.content for site in sites(elf.build())] == ["images", "images"]


def test_a_section_for_the_host_makes_loaded_sections_images_of_a_fat_object() -> None:
    elf = build.Elf()
    elf.add("__CLANG_OFFLOAD_BUNDLE__sycl-spir64-unknown-unknown", b"image", flags=build.ALLOC)
    elf.add("__CLANG_OFFLOAD_BUNDLE__host-x86_64-unknown-linux-gnu", b"\0", flags=build.ALLOC)
    assert [site.content for site in sites(elf.build())] == ["image", "image"]


@pytest.mark.parametrize("name", [".llvm.offloading", ".llvm.offloading.relocatable"])
def test_the_wrong_section_type_is_reported_because_llvm_does_not_see_the_section(name: str) -> None:
    elf = build.Elf()
    elf.add(name, b"code")
    (site,) = sites(elf.build())
    (odd,) = site.findings
    assert odd.code == "FP2001"
    assert f"({name}) has type progbits" in odd.message
    assert "--set-section-type" in odd.hint
    assert (odd.span.start, odd.span.size) == (64, 4)


def test_images_as_llvm_14_embedded_them_are_found() -> None:
    elf = build.Elf()
    elf.add(".llvm.offloading.nvptx64-nvidia-cuda.sm_70.cubin", b"code", flags=build.EXCLUDE)
    (site,) = sites(elf.build())
    assert site.findings[0].code == "FP2001"
    assert "LLVM 14" in site.findings[0].hint


def test_a_name_that_is_the_tail_of_another_is_found() -> None:
    elf = build.Elf()
    elf.add("prefix.hip_fatbin", b"longer")
    elf.add("x", b"code")
    data = elf.build()
    data = build.with_section(data, 2, name=build.section_field(data, 1, "name") + len("prefix"))
    assert [site.index for site in sites(data)] == [2]


def test_sites_come_in_the_order_of_their_bytes() -> None:
    elf = build.Elf()
    first = elf.add(".llvm.offloading", b"11111111", type=build.OFFLOADING)
    second = elf.add(".hip_fatbin", b"22222222")
    data = elf.build()
    at = {index: build.section_field(data, index, "offset") for index in (first, second)}
    data = build.with_section(build.with_section(data, first, offset=at[second]), second, offset=at[first])
    assert [site.index for site in sites(data)] == [second, first]


def test_a_section_outside_the_file_is_a_finding_and_the_next_is_read() -> None:
    elf = build.Elf()
    elf.add(".llvm.offloading", b"lost", type=build.OFFLOADING)
    elf.add(".hip_fatbin", b"here")
    data = build.with_section(elf.build(), 1, size=1 << 40)
    (lost,), (here,) = findings(data), sites(data)
    assert lost.code == "FP2002"
    assert here.section == ".hip_fatbin"
    (lost,) = findings(build.with_section(data, 1, offset=(1 << 64) - 2, size=4))
    assert lost.code == "FP2002"


def test_sections_without_bytes_or_compressed_ones_are_findings() -> None:
    elf = build.Elf()
    elf.add(".hip_fatbin", type=build.NOBITS, size=400)
    elf.add(".nv_fatbin", b"\1" * 24, flags=build.COMPRESSED)
    elf.add("__nv_relfatbin")
    assert [item.code for item in findings(elf.build())] == ["FP2003", "FP1006"]
    assert sites(elf.build()) == []


def test_sites_never_overlap() -> None:
    elf = build.Elf()
    for _ in range(100):
        elf.add(".hip_fatbin", b"")
    last = elf.add(".llvm.offloading", b"c" * 1000, type=build.OFFLOADING)
    data = elf.build()
    at = build.section_field(data, last, "offset")
    for index in range(1, 101):
        data = build.with_section(data, index, offset=at, size=500 + index)
    found = sites(data)
    assert len(found) == 1
    assert len(findings(data)) == 100
    assert {item.code for item in findings(data)} == {"FP1203"}


def test_a_file_without_a_section_table_says_so() -> None:
    data = build.with_header(build.with_header(build.device_object().build(), "shoff", 0), "shnum", 0)
    (note,) = locate(build.as_view(data))
    assert isinstance(note, Finding)
    assert note.code == "FP1006"
    assert "section table" in note.message


def test_without_names_sections_are_found_by_type_before_the_error() -> None:
    data = build.with_header(build.device_object().build(), "shstrndx", 1)
    items = locate(build.as_view(data))
    first = next(items)
    assert isinstance(first, CodeSection)
    assert (first.section, first.index) == ("", 2)
    with pytest.raises(BadValue, match="should hold the section names"):
        next(items)


def test_a_truncated_file_raises() -> None:
    with pytest.raises(Truncated):
        list(locate(build.as_view(build.device_object().build()[:-1])))


def test_names_across_the_blocks_of_a_long_table_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.binary.elf.device_sections._BLOCK", 32)
    elf = build.Elf()
    for length in range(40):
        elf.add("x" * length, b"")
        elf.add(".hip_fatbin", b"a")
        elf.add("__CLANG_OFFLOAD_BUNDLE__host-x86_64-unknown-linux-gnu-", b"b")
    assert len(sites(elf.build())) == 80


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("clang-22-openmp-gfx90a.o", [(".llvm.offloading", 12, 0x1D0, 6168)]),
        ("clang-22-openmp-gfx90a-aarch64.o", [(".llvm.offloading", 12, 0x1B0, 6168)]),
        ("clang-22-hip.o", [(".hip_fatbin", 7, 0x1000, 12816)]),
        (
            "clang-22-hip-rdc-bundler.o",
            [
                ("__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx1100", 18, 0x86A, 5824),
                ("__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx90a", 19, 0x1F2A, 6112),
                ("__CLANG_OFFLOAD_BUNDLE__host-x86_64-pc-linux-gnu-", 20, 0x370A, 1),
            ],
        ),
    ],
)
def test_objects_of_clang_hold_what_readelf_shows(name: str, expected: list[tuple[str, int, int, int]]) -> None:
    found = [site for site in sites((FIXTURES / name).read_bytes()) if site.content != "table"]
    assert [(site.section, site.index, site.data.start, len(site.data)) for site in found] == expected
    assert all(site.findings == () for site in found)


def test_all_codes_of_findings_are_known() -> None:
    assert {"FP1006", "FP1203", "FP2001", "FP2002", "FP2003"} <= set(CODES)


def test_what_is_remembered_of_names_is_distinguished_by_where_they_start() -> None:
    one, other = build.Elf(), build.Elf()
    one.add(".hip_fatbin", b"code", flags=build.ALLOC)
    other.add("_fatbin", b"code", flags=build.ALLOC)
    first, second = one.build(), other.build()
    for _ in range(2):
        assert [site.section for site in sites(first)] == [".hip_fatbin"]
        assert sites(second) == []
    # The same table of names, with the other section's name starting after ".hip".
    at = first.index(b".hip_fatbin\0")
    moved = build.with_section(first, 1, name=at + 4 - first.index(b"\0.hip_fatbin\0"))
    assert sites(moved) == []
    assert [site.section for site in sites(first)] == [".hip_fatbin"]
