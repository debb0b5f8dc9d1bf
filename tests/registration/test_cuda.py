"""The records that register CUDA's fat binaries, compared with those of the same file and followed to others."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest
from tests.builders import coff as build_coff
from tests.builders import elf as build
from tests.builders import pe as build_pe
from tests.builders.device_elf import device_elf
from tests.builders.fatbin import entry, fatbin
from tests.laws.rooms import FIXTURES

from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan

ABSOLUTE, RELATIVE = 1, 8
MAGIC = 0x466243B1

#: one PTX entry, and none
FATBIN = (FIXTURES / "cuda_fatbin" / "v130_ptx32.fatbin").read_bytes()
EMPTY = (FIXTURES / "cuda_fatbin" / "v130_empty.fatbin").read_bytes()
STEP = len(FATBIN)


def record(pointer: int = 0, magic: int = MAGIC, version: int = 1, second: int = 0) -> bytes:
    return struct.pack("<IIQQ", magic, version, pointer, second)


def library(
    targets: Sequence[int | None],
    *,
    fatbins: bytes = FATBIN * 2,
    records: bytes | None = None,
    others: Sequence[build.Section] = (),
) -> bytes:
    """Return a library with fat binaries from 0x10000 on, and a record whose pointer a relocation fills per target."""
    elf = build.Elf(type=build.SHARED)
    elf.add(".nv_fatbin", fatbins, flags=build.ALLOC, align=8, addr=0x10000)
    content = b"".join(record() for _ in targets) if records is None else records
    elf.add(".nvFatBinSegment", content, flags=build.ALLOC | build.WRITE, align=8, addr=0x20000)
    rows = [(0x20008 + 24 * number, RELATIVE, to) for number, to in enumerate(targets) if to is not None]
    elf.add(".rela.dyn", b"".join(struct.pack("<QQq", *row) for row in rows), type=build.RELA, flags=build.ALLOC)
    elf.sections += others
    return elf.build()


def items(data: bytes, *, deep: bool = False) -> list[FoundContainer | Finding]:
    return list(scan(BytesSource(data, "x.so").view(), deep=deep))


def findings_of(data: bytes) -> list[tuple[str, str]]:
    return [(item.code, item.message) for item in items(data) if isinstance(item, Finding)]


def places(data: bytes, *, deep: bool = False) -> list[tuple[str | None, int]]:
    found = [item for item in items(data, deep=deep) if isinstance(item, FoundContainer)]
    return [(item.section, item.container.span.start) for item in found]


HOSTS = FIXTURES / "cuda_fatbin" / "hosts"
MADE = sorted(path.name for path in HOSTS.iterdir() if path.suffix != ".json")


@pytest.mark.parametrize("name", MADE)
def test_real_files_register_all_that_they_have(name: str) -> None:
    data = (HOSTS / name).read_bytes()
    # The object for Windows was given the fat binary of another source.
    expected = {"librel.bare.so": ["FP1006"], "clang_win.obj": ["FP3046"]}.get(name, [])
    assert [code for code, _ in findings_of(data)] == expected
    assert len(places(data)) == data.count(FATBIN[:8])


def test_tile_code_has_records_in_a_section_of_its_own() -> None:
    alone = library([0x10000])
    assert [code for code, _ in findings_of(alone)] == ["FP3032"]
    more = build.Section(".nvFatBinSegmentAlt", record(0x10000 + STEP), flags=build.ALLOC | build.WRITE, addr=0x30000)
    assert findings_of(library([0x10000], others=[more])) == []


def test_a_program_without_sections_has_the_same_fat_binaries() -> None:
    whole, bare = ((HOSTS / name).read_bytes() for name in ("librel.so", "librel.bare.so"))
    assert [at for _, at in places(bare)] == [at for _, at in places(whole)]
    assert {section for section, _ in places(bare)} == {None}


def test_records_in_mach_o_are_not_compared() -> None:
    data = (HOSTS / "mac.o").read_bytes()
    found = [("__NV_CUDA,__nv_fatbin", data.index(FATBIN[:8]))]
    assert findings_of(data) == []
    assert places(data) == places(data, deep=True) == found


def test_a_record_for_every_fat_binary_is_nothing_to_tell() -> None:
    data = library([0x10000, 0x10000 + STEP])
    assert len(places(data)) == 2
    assert findings_of(data) == []


@pytest.mark.parametrize("second", [0, 0x90000], ids=["null", "in memory"])
def test_records_of_a_device_link_lead_to_their_fat_binary_too(second: int) -> None:
    records = record(0x10000) + record(0x10000 + STEP, version=2, second=second)
    assert findings_of(library([], records=records)) == []


def test_the_second_pointer_of_version_1_means_nothing() -> None:
    assert findings_of(library([], records=record(0x10000, second=0x20000), fatbins=FATBIN)) == []


def test_prelinked_fat_binaries_are_registered_by_the_list_of_a_device_link() -> None:
    lists = struct.pack("<QQ", 0x10000 + STEP, 0)
    others = [build.Section(".data", lists, flags=build.ALLOC | build.WRITE, addr=0x30000)]
    records = record(0x10000, version=2, second=0x30000)
    assert findings_of(library([], records=records, others=others)) == []
    others[0].content = struct.pack("<QQQ", 0x10008, 0, 0x10000 + STEP)
    codes = findings_of(library([], records=records, others=others))
    assert [code for code, _ in codes] == ["FP3033", "FP3032"]
    assert codes[0][1].startswith("a prelinked fat binary of record 0 of .nvFatBinSegment points to ")


@pytest.mark.parametrize(
    ("symbols", "options", "codes"),
    [
        ([(b".nv.callgraph", 3, 0, 1)], {}, []),
        ([(b"variable", 0x11, 0, 1)], {}, ["FP3032"]),
        ([(b"kernel", 0x12, 0x10, 1)], {}, ["FP3032"]),
        ([(b".nv.callgraph", 3, 0, 1)], {"kind": 1}, ["FP3032"]),
    ],
    ids=["nothing", "a variable", "a kernel", "PTX"],
)
def test_what_a_device_link_of_nothing_leaves_needs_no_record(symbols, options, codes) -> None:
    image = device_elf(190, 80, osabi=0x33, abi_version=7, sections=[(1, bytes(8))], symbols=symbols)
    data = library([0x10000], fatbins=FATBIN + fatbin(entry(image, **options)))
    assert [code for code, _ in findings_of(data) if code == "FP3032"] == codes


def test_a_fat_binary_without_a_record_is_reported() -> None:
    data = library([0x10000])
    ((code, message),) = findings_of(data)
    assert code == "FP3032"
    at = build.section_field(data, 1, "offset")
    assert message == f"1 of 2 fat binaries is not registered: no record points to {at + STEP:#x}"


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (0x10010, "where no fat binary starts"),
        (0x90000, "0x90000, where the file has no bytes"),
        (None, "a null pointer"),
    ],
)
def test_a_pointer_that_leads_to_no_fat_binary_is_reported(target: int | None, words: str) -> None:
    ((code, message),) = findings_of(library([0x10000, 0x10000 + STEP, target]))
    assert code == "FP3033"
    assert message.startswith("record 2 of .nvFatBinSegment ")
    assert words in message


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (record(magic=0x48495046), "has magic 0x48495046, 0x466243b1 was expected"),
        (record(0x10000, version=3), "is of version 3, 1 or 2 was expected"),
        (b"\1" * 7, "7 bytes of .nvFatBinSegment are no whole record"),
    ],
)
def test_records_that_are_wrong_are_reported(bad: bytes, words: str) -> None:
    ((code, message),) = findings_of(library([], records=record(0x10000) + record(0x10000 + STEP) + bad))
    assert code == "FP3031"
    assert words in message


def test_a_damaged_fat_binary_is_reported_once() -> None:
    damaged = FATBIN[:6] + b"\x20" + FATBIN[7:]
    codes = [code for code, _ in findings_of(library([0x10000, 0x10000 + STEP], fatbins=FATBIN + damaged))]
    assert codes == ["FP1402"]


@pytest.mark.parametrize("name", [".rodata", ".data", "nv_code"])
def test_a_fat_binary_elsewhere_is_found_by_its_record(name: str) -> None:
    others = [build.Section(name, bytes(24) + FATBIN + b"more data", flags=build.ALLOC, addr=0x40000)]
    data = library([0x10000, 0x10000 + STEP, 0x40018], others=others)
    at = build.section_field(data, 4, "offset") + 24
    assert places(data)[2:] == [(name, at)]
    assert findings_of(data) == []
    assert places(data, deep=True) == places(data)
    (last,) = [item for item in items(data) if isinstance(item, FoundContainer) and item.section == name]
    assert (last.view.tobytes(), last.index) == (FATBIN, 4)
    assert [image.form for image in last.images] == ["ptx"]


def test_a_cubin_that_a_record_registers_without_a_fat_binary_is_found() -> None:
    cubin = (FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_90.cubin").read_bytes()
    others = [build.Section(".rodata", bytes(24) + cubin + b"more data", flags=build.ALLOC, addr=0x40000)]
    data = library([0x10000, 0x10000 + STEP, 0x40018], others=others)
    ((code, message),) = findings_of(data)
    assert (code, message[:9]) == ("FP3034", "record 2 ")
    (last,) = [item for item in items(data) if isinstance(item, FoundContainer) and item.section == ".rodata"]
    assert (last.format, last.view.tobytes()) == ("bare-image", cubin)
    assert [(image.form, image.target.arch) for image in last.images] == [("cubin", "sm_90")]
    assert places(data, deep=True) == places(data)
    cut = library([0x10000, 0x40018], others=[build.Section(".data", bytes(24) + cubin[:-64], flags=3, addr=0x40000)])
    assert "FP3034" in {code for code, _ in findings_of(cut)}


def test_fat_binaries_elsewhere_that_overlap_are_read_once() -> None:
    inner = FATBIN[:40] + EMPTY + FATBIN[56:]
    others = [build.Section(".rodata", inner, flags=build.ALLOC, addr=0x40000)]
    data = library([0x10000, 0x10000 + STEP, 0x40000, 0x40028, 0x40028], others=others)
    assert [section for section, _ in places(data)].count(".rodata") == 1
    codes = findings_of(data)
    assert ("FP3033", "record 3 of .nvFatBinSegment points into a fat binary") in codes


def test_a_fat_binary_elsewhere_that_is_cut_short_is_reported() -> None:
    others = [build.Section(".rodata", FATBIN[:-8], flags=build.ALLOC, addr=0x40000)]
    data = library([0x10000, 0x10000 + STEP, 0x40000], others=others)
    assert {code for code, _ in findings_of(data)} == {"FP1401", "FP1402"}


def cuda_object(*, is_defined: bool, type: int = ABSOLUTE) -> bytes:
    elf = build.Elf()
    elf.add("__nv_relfatbin", FATBIN if is_defined else b"", align=8)
    segment = elf.add(".nvFatBinSegment", record(), flags=build.ALLOC | build.WRITE, align=8)
    symbol = elf.symbol("", 1, info=build.SECTION_SYMBOL) if is_defined else elf.symbol("fatbin", 0, info=0x10)
    elf.relocations(segment, (8, symbol, type, 0))
    return elf.build()


@pytest.mark.parametrize("is_defined", [True, False])
def test_objects_have_their_fat_binary_or_get_it_when_they_are_linked(is_defined: bool) -> None:
    assert findings_of(cuda_object(is_defined=is_defined)) == []


def test_relocations_that_are_not_understood_leave_the_counts() -> None:
    assert findings_of(cuda_object(is_defined=True, type=99)) == []
    elf = build.Elf()
    elf.add(".nv_fatbin", FATBIN * 2, align=8)
    segment = elf.add(".nvFatBinSegment", record(), align=8)
    elf.relocations(segment, (8, elf.symbol("", 1, info=build.SECTION_SYMBOL), 99, 0))
    assert findings_of(elf.build()) == [("FP3032", "2 fat binaries are here, and records register 1")]


@pytest.mark.parametrize("name", [b".nvFatBinSegment", b".nvFatBinSegment$b"])
def test_objects_for_windows_have_relocations(name: bytes) -> None:
    sections = [
        build_coff.Section(b".nv_fatbin", FATBIN * 2),
        build_coff.Section(name, record() * 2, relocations=[(8, 0, 1), (32, 1, 1)]),
    ]
    symbols = [build_coff.Symbol(b"a", 1, 0), build_coff.Symbol(b"b", 1, STEP)]
    assert findings_of(build_coff.build(sections, symbols)) == []
    symbols[1] = build_coff.Symbol(b"b", 1, 8)
    assert [code for code, _ in findings_of(build_coff.build(sections, symbols))] == ["FP3033", "FP3032"]


@pytest.mark.parametrize("second", [0x180010000 + STEP, 0x180010008])
def test_images_of_windows_have_the_addresses_in_place(second: int) -> None:
    records = record(0x180010000) + bytes(24) + record(second, version=2)
    sections = [
        build_pe.Section(b".nv_fatb", FATBIN * 2, address=0x10000),
        build_pe.Section(b".nvFatBi", records, address=0x20000),
    ]
    codes = [code for code, _ in findings_of(build_pe.build(sections))]
    assert codes == ([] if second == 0x180010000 + STEP else ["FP3033", "FP3032"])


def test_a_host_without_records_is_not_judged() -> None:
    elf = build.Elf()
    elf.add(".nv_fatbin", FATBIN)
    assert findings_of(elf.build()) == []


def test_no_more_tables_are_read_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.registration.records._MOST_TABLES", 1)
    elf = build.Elf(type=build.SHARED)
    elf.add(".nv_fatbin", FATBIN, flags=build.ALLOC, align=8, addr=0x10000)
    for _ in range(3):
        elf.add(".nvFatBinSegment", record(0x10000), flags=build.ALLOC)
    assert findings_of(elf.build()) == [("FP1005", "3 sections of records; only the first 1 are read")]


def test_a_hundred_thousand_wrong_records_are_bounded() -> None:
    found = items(library([], records=record(1 << 63, version=2, second=1 << 63) * 100_000))
    findings = [item for item in found if isinstance(item, Finding)]
    assert len(findings) < 2100
    assert sum(item.count for item in findings if item.code == "FP3033") == 65536
    assert "FP1005" in {item.code for item in findings}
