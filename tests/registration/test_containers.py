"""Programs of SYCL: images cut out of their sections by the program's table, whatever is wrong with it."""

from __future__ import annotations

import struct

import pytest
from tests.builders import elf as build
from tests.builders import sycl
from tests.builders.sycl import SPIR64, SPIR64_GEN, Stored, packed, program, spirv, windows_program

from fatpack import limits
from fatpack.errors import BadValue
from fatpack.io.source import BytesSource
from fatpack.limits import Budget
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan

ONE, TWO = spirv(20, 1), spirv(50, 2)
LARGE = spirv(50_000, 3)


def read(data: bytes | BytesSource) -> tuple[list[FoundContainer], list[Finding]]:
    source = data if isinstance(data, BytesSource) else BytesSource(data, "x.so")
    items = list(scan(source.view()))
    return [item for item in items if isinstance(item, FoundContainer)], [
        item for item in items if isinstance(item, Finding)
    ]


def images(found: list[FoundContainer]) -> list[bytes]:
    return [image.data.tobytes() for container in found for image in container.images]


def codes(findings: list[Finding]) -> list[str]:
    return [item.code for item in findings]


@pytest.mark.parametrize("kind", sycl.MACHINES)
@pytest.mark.parametrize("is_relocated", [False, True])
def test_images_come_out_of_programs_of_every_kind(kind: tuple[int, str], is_relocated: bool) -> None:
    bits, order = kind
    stored = [Stored(ONE), Stored(packed(LARGE), len(LARGE)), Stored(TWO)]
    found, findings = read(program(stored, bits=bits, order=order, is_relocated=is_relocated))
    assert findings == []
    (container,) = found
    assert images(found) == [ONE, LARGE, TWO]
    assert container.section == SPIR64
    assert container.container.attrs == {"flavour": "linked", "compression": "zstd"}
    assert [image.form for image in container.images] == ["spirv"] * 3
    first, second, _ = container.images
    assert (first.target.offload, first.target.triple, first.attrs) == ("sycl", "spir64", {"id": "sycl-spir64"})
    assert (first.size, first.stored_size, first.compression) == (len(ONE), len(ONE), None)
    assert (second.size, second.stored_size, second.compression) == (len(LARGE), len(packed(LARGE)), "zstd")
    assert container.view.tobytes()[second.span.start - container.view.start :][:4] == b"\x28\xb5\x2f\xfd"


@pytest.mark.parametrize("bits", [32, 64])
def test_windows_cuts_names_and_joins_sections(bits: int) -> None:
    found, findings = read(windows_program([Stored(ONE), Stored(packed(LARGE), len(LARGE))], bits=bits))
    assert findings == []
    assert images(found) == [ONE, LARGE]
    assert [image.target.triple for image in found[0].images] == ["", ""]
    assert found[0].images[0].target.offload == "sycl"


def test_every_section_is_a_container() -> None:
    stored = [Stored(b"!<arch>\n", None, SPIR64_GEN), Stored(ONE), Stored(TWO, None, SPIR64_GEN)]
    found, findings = read(program(stored, symbols=SYMBOLS))
    assert codes(findings) == []
    assert [(item.section, len(item.images)) for item in found] == [(SPIR64_GEN, 2), (SPIR64, 1)]
    assert found[0].images[0].form == "archive"
    assert [item.container.record.symbols.by_target() for item in found] == [  # type: ignore[attr-defined]
        {"sycl-spir64_gen-unknown-unknown": ["b"]},
        {"sycl-spir64-unknown-unknown": ["a", "c.d"]},
    ]


SYMBOLS = b"sycl-spir64-unknown-unknown.a\0sycl-spir64_gen-unknown-unknown.b\0sycl-spir64-unknown-unknown.c.d\0"


def test_newer_programs_name_the_section_otherwise() -> None:
    found, findings = read(program([Stored(ONE, None, "OFFLOAD_DEVICE_CODE")]))
    assert findings == []
    assert images(found) == [ONE]
    assert found[0].images[0].attrs == {}


def test_images_among_the_constants_of_a_program_are_cut_out() -> None:
    stored = [
        Stored(b"constants of the program", 0, ".rodata"),
        Stored(ONE, None, ".rodata"),
        Stored(TWO, None, ".rodata"),
    ]
    data = program(stored, rows=[])
    found, findings = read(data.replace(struct.pack("<QQ", 0x10000, 0), bytes(16)))
    assert findings == []
    assert images(found) == [ONE, TWO]
    assert found[0].view.tobytes().startswith(ONE)
    assert found[0].section == ".rodata"


def test_raw_images_in_a_section_of_llvm_are_found_by_the_table() -> None:
    found, findings = read(program([Stored(ONE, None, ".llvm.offloading"), Stored(TWO, None, ".llvm.offloading")]))
    assert codes(findings) == ["FP2001"]
    assert images(found) == [ONE, TWO]


def test_a_section_of_llvm_without_images_is_reported_as_before() -> None:
    elf = build.Elf(type=build.SHARED)
    elf.add(".llvm.offloading", b"no container" * 4, type=build.OFFLOADING, flags=build.ALLOC, addr=0x1000)
    elf.add("__CLANG_OFFLOAD_BUNDLE__sycl-spir64", ONE, flags=build.ALLOC, addr=0x2000)
    assert codes(read(elf.build())[1]) == ["FP1002", "FP3013"]


def test_padding_in_the_table_is_skipped() -> None:
    found, findings = read(program([Stored(ONE)], rows=[(0, 0), (0, 80), (0, 0)]))
    assert findings == []
    assert len(found[0].images) == 1


def test_images_that_share_bytes_are_listed_each() -> None:
    found, findings = read(program([Stored(ONE)], rows=[(0x10000, len(ONE))]))
    assert findings == []
    assert images(found) == [ONE, ONE]


@pytest.mark.parametrize("table", [b"", bytes(32)])
def test_without_a_table_a_section_is_one_image(table: bytes) -> None:
    found, findings = read(program([Stored(ONE), Stored(TWO)], table=table))
    assert codes(findings) == ["FP3013"]
    assert images(found) == [ONE + TWO]
    assert found[0].images[0].form == "spirv"


def test_without_a_table_compressed_images_tell_where_they_end() -> None:
    stored = [Stored(packed(LARGE)), Stored(packed(TWO)), Stored(packed(ONE))]
    found, findings = read(program(stored, table=b""))
    assert codes(findings) == ["FP3013"]
    assert images(found) == [LARGE, TWO, ONE]
    found, _ = read(program([*stored, Stored(ONE)], table=b""))
    assert images(found) == [LARGE, TWO, ONE, ONE]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((0x500000, 16), "0x500000, where the file has no bytes"),
        ((1 << 63, 1 << 63), "where the file has no bytes"),
        (((1 << 64) - 1, (1 << 64) - 1), "where the file has no bytes"),
    ],
)
def test_rows_that_lead_nowhere_are_reported_and_the_others_read(row: tuple[int, int], words: str) -> None:
    found, findings = read(program([Stored(ONE)], rows=[row]))
    assert codes(findings) == ["FP3011"]
    assert findings[0].message.startswith("row 1 points to ")
    assert words in findings[0].message
    assert images(found) == [ONE]


def test_a_table_that_is_cut_is_read_as_far_as_it_goes() -> None:
    table = struct.pack("<QQQ", 0x10000, len(ONE), 0x10000)
    found, findings = read(program([Stored(ONE)], table=table))
    assert codes(findings) == ["FP3011"]
    assert images(found) == [ONE]


@pytest.mark.parametrize("size", [len(ONE) + 1, 1 << 63, (1 << 64) - 1])
def test_a_size_past_the_section_is_cut_and_reported(size: int) -> None:
    found, findings = read(program([Stored(TWO), Stored(ONE, size)]))
    assert codes(findings) == ["FP3012"]
    assert images(found) == [TWO, ONE]


def test_images_that_overlap_are_reported_once() -> None:
    found, findings = read(program([Stored(ONE, len(ONE) + 16), Stored(TWO, len(TWO)), Stored(ONE)]))
    assert codes(findings) == ["FP1306"]
    assert images(found)[1:] == [TWO, ONE]


def test_bytes_that_belong_to_no_image_are_reported() -> None:
    found, findings = read(program([Stored(ONE), Stored(b"rest of something else", 0), Stored(TWO)]))
    # The row of size 0 is an image without bytes.
    assert codes(findings) == ["FP1308"]
    assert images(found) == [ONE, b"", TWO]
    assert found[0].container.unknown[0].size == 32


@pytest.mark.parametrize("size", [len(packed(LARGE)), len(LARGE)])
def test_the_table_may_have_either_size_of_a_compressed_image(size: int) -> None:
    found, findings = read(program([Stored(packed(LARGE), size), Stored(ONE)]))
    assert findings == []
    assert images(found) == [LARGE, ONE]


def test_another_size_of_a_compressed_image_is_reported() -> None:
    found, findings = read(program([Stored(packed(LARGE), 5)]))
    assert codes(findings) == ["FP3012"]
    assert images(found) == [LARGE]


def test_a_frame_without_its_size_takes_that_of_the_table() -> None:
    frame = packed(LARGE, write_content_size=False)
    found, findings = read(program([Stored(frame, len(LARGE))]))
    assert findings == []
    assert images(found) == [LARGE]


@pytest.mark.parametrize("cut", [5, 12, 20])
def test_a_frame_that_is_cut_is_listed_as_it_is_stored(cut: int) -> None:
    frame = packed(bytes(range(256)) * 100)[:cut]
    found, findings = read(program([Stored(frame, 25600), Stored(packed(ONE), len(ONE))]))
    assert codes(findings) == ["FP3014"]
    assert images(found) == [frame.ljust(-(-cut // 16) * 16, b"\0"), ONE]
    assert found[0].images[0].compression is None


def test_a_frame_that_does_not_inflate_does_not_hide_its_neighbours() -> None:
    frame = packed(bytes(range(256)) * 100)[:-6] + b"\xff" * 6
    found, findings = read(program([Stored(frame, 25600), Stored(ONE)]))
    damaged, intact = found[0].images
    assert (damaged.form, [item.code for item in damaged.items]) == ("", ["FP1001"])  # type: ignore[union-attr]
    assert (intact.form, findings) == ("spirv", [])
    with pytest.raises(BadValue, match="zstd stream is damaged"):
        damaged.data.tobytes()


def test_a_frame_that_claims_too_much_is_listed_as_it_is_stored() -> None:
    size = 1 << 20
    frame = packed(bytes(size))
    source = BytesSource(program([Stored(frame, size)]), "x")
    source.budget = Budget(inflated=size - 1)
    found, findings = read(source)
    assert codes(findings) == ["FP1005"]
    assert f"use max_inflated={size}" in findings[0].hint
    assert images(found) == [frame]
    source.budget = Budget(inflated=size)
    found, findings = read(source)
    assert (codes(findings), images(found)) == ([], [bytes(size)])


def test_listing_inflates_no_more_than_the_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> bytearray:
        raise AssertionError("inflated as a whole")

    monkeypatch.setattr("fatpack.formats.clang_bundle.compressed.decompress", refuse)
    found, findings = read(program([Stored(packed(LARGE), len(LARGE))] * 3))
    assert findings == []
    assert [image.form for image in found[0].images] == ["spirv"] * 3
    with pytest.raises(AssertionError, match="as a whole"):
        found[0].images[0].data.tobytes()


def test_more_rows_than_the_limit_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "IMAGES", 3)
    found, findings = read(program([Stored(ONE)] * 5))
    assert codes(findings) == ["FP1005", "FP1308"]
    assert images(found) == [ONE] * 3


def test_no_more_tables_are_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.registration.sycl_images._MOST_TABLES", 1)
    elf = build.Elf(type=build.SHARED)
    elf.add(SPIR64, ONE, flags=build.ALLOC, addr=0x1000)
    for number in range(3):
        elf.add(".tgtimg", struct.pack("<QQ", 0x1000, len(ONE)), flags=build.ALLOC, addr=0x2000 + 16 * number)
    found, findings = read(elf.build())
    assert codes(findings) == ["FP1005"]
    assert images(found) == [ONE]


def test_any_cut_or_flip_gives_images_or_findings() -> None:
    good = program([Stored(ONE), Stored(packed(LARGE), len(LARGE))], is_relocated=True, symbols=SYMBOLS)
    for at in range(0, len(good), 3):
        for damaged in (good[:at], good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]):
            for found in read(damaged)[0]:
                for image in found.images:
                    assert image.size <= limits.INFLATED
