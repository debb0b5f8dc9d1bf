"""Replacing and removing: later parts move, indices and meanings stay, and unsafe edits are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import elf as build

from fatpack.binary import CodeSection, elf
from fatpack.binary.elf.file import ElfFile
from fatpack.errors import BadValue, HostError, UsageError

FIXTURES = Path(__file__).parents[3] / "fixtures" / "elf"
KINDS = [(32, "little"), (32, "big"), (64, "little"), (64, "big")]
each_kind = pytest.mark.parametrize(("bits", "order"), KINDS)
DEVICE = 2  # the section of device code in build.device_object()


def replaced(data: bytes, content: bytes, index: int = DEVICE) -> bytes:
    before = build.as_view(data)
    result = build.as_bytes(elf.replace(before, index, [content]))
    elf.verify(before, build.as_view(result), edited=[index])
    elf.verify(before, build.as_view(result))
    return result


def removed(data: bytes, *indices: int) -> bytes:
    before = build.as_view(data)
    result = build.as_bytes(elf.remove(before, indices or (DEVICE,)))
    elf.verify(before, build.as_view(result), edited=indices or (DEVICE,))
    elf.verify(before, build.as_view(result))
    return result


def contents(data: bytes) -> dict[str, bytes]:
    """Return name → bytes of all sections except the file's own tables."""
    opened = ElfFile(build.as_view(data))
    return {opened.name(section): opened.contents(section).tobytes() for section in opened.sections()}


@each_kind
@pytest.mark.parametrize("size", [0, 1, 7, 40, 41, 5000])
@pytest.mark.parametrize("tables_first", [False, True])
def test_other_contents_leave_everything_else_as_it_was(bits: int, order: str, size: int, tables_first: bool) -> None:
    data = build.device_object(bits=bits, order=order, tables_first=tables_first).build()
    result = replaced(data, b"N" * size)
    assert contents(result) == {**contents(data), ".llvm.offloading": b"N" * size}
    start = build.section_field(data, DEVICE, "offset")
    assert result[64 + 64 * 9 * tables_first : start] == data[64 + 64 * 9 * tables_first : start]
    for index in range(1, 8):
        if index != 5:
            assert build.section_field(result, index, "offset") % build.section_field(data, index, "addralign") == 0


def test_contents_of_the_same_size_change_nothing_else() -> None:
    data = build.device_object(rubbish=b"kept").build()
    at, size = build.section_field(data, DEVICE, "offset"), build.section_field(data, DEVICE, "size")
    assert replaced(data, b"N" * size) == data[:at] + b"N" * size + data[at + size :]


@each_kind
@pytest.mark.parametrize("tables_first", [False, True])
def test_a_removed_section_leaves_a_null_header(bits: int, order: str, tables_first: bool) -> None:
    data = build.device_object(bits=bits, order=order, tables_first=tables_first).build()
    result = removed(data)
    fields = ("name", "type", "flags", "addr", "offset", "size", "link", "info", "addralign", "entsize")
    assert [build.section_field(result, DEVICE, name) for name in fields] == [0] * 10
    kept = contents(result)
    kept.pop("")
    assert kept == {name: bytes_ for name, bytes_ in contents(data).items() if name not in ("", ".llvm.offloading")}
    assert len(data) - len(result) in range(32, 56)
    assert list(elf.locate(build.as_view(result))) == []


@each_kind
def test_taking_out_what_was_embedded_gives_the_old_file(bits: int, order: str) -> None:
    data = build.device_object(bits=bits, order=order).build()  # it already has the name
    with_two = build.as_bytes(elf.embed(build.as_view(data), [b"second"]))
    assert removed(with_two, 9) == data


def test_headers_at_the_end_of_the_table_go_with_their_sections() -> None:
    file = build.device_object()
    data = build.as_bytes(
        elf.embed_sections(
            build.as_view(file.build()),
            [elf_section(b"a"), elf_section(b"b"), elf_section(b"c")],
        )
    )
    assert ElfFile(build.as_view(removed(data, 9, 11))).section_count == 11
    assert ElfFile(build.as_view(removed(data, 10, 11))).section_count == 10
    assert ElfFile(build.as_view(removed(data, 2, 9, 10, 11))).section_count == 9


def elf_section(content: bytes) -> object:
    from fatpack.binary.elf.editor.append import NewSection

    return NewSection([content])


def test_several_sections_change_in_one_pass() -> None:
    file = build.device_object()
    third = file.add(".hip_fatbin", b"H" * 100, flags=build.ALLOC, align=64)
    gone = file.add(".nv_fatbin", b"V" * 100, align=8)
    data = file.build()
    before = build.as_view(data)
    result = build.as_bytes(elf.edit(before, {DEVICE: [b"12", b"345"], third: [], gone: None}))
    elf.verify(before, build.as_view(result))
    kept = contents(result)
    assert (kept[".llvm.offloading"], kept[".hip_fatbin"]) == (b"12345", b"")
    assert ".nv_fatbin" not in kept
    assert kept[".data"] == contents(data)[".data"]


def test_no_change_gives_the_same_bytes() -> None:
    data = build.device_object().build()
    assert build.as_bytes(elf.remove(build.as_view(data), [])) == data


def test_unknown_bytes_after_the_section_move_along() -> None:
    file = build.device_object(rubbish=b"somebody's data")
    assert b"somebody's data" in removed(file.build())
    assert b"somebody's data" in replaced(file.build(), b"x" * 999)


def test_a_removed_section_of_many_megabytes_leaves_views_and_no_copies() -> None:
    data = build.device_object(b"D" * (4 << 20)).build()
    pieces = elf.remove(build.as_view(data), [DEVICE])
    assert sum(len(piece) for piece in pieces if isinstance(piece, bytes)) < 2000
    assert len(pieces) < 12


def test_an_empty_section_can_be_filled_and_removed() -> None:
    data = build.device_object(b"").build()
    assert contents(replaced(data, b"new"))[".llvm.offloading"] == b"new"
    assert build.section_field(removed(data), DEVICE, "type") == 0


def test_symbols_that_span_the_section_get_its_new_size() -> None:
    for bits, order in KINDS:
        file = build.device_object(bits=bits, order=order)
        spanning = file.symbol("fatbin", DEVICE, size=40, info=build.GLOBAL_OBJECT)
        part = file.symbol("header", DEVICE, size=16, info=build.GLOBAL_OBJECT)
        result = replaced(file.build(), b"N" * 1000)
        rows = symbol_rows(result)
        assert (rows[spanning]["size"], rows[part]["size"]) == (1000, 16)


def symbol_rows(data: bytes) -> list[dict[str, int]]:
    opened = ElfFile(build.as_view(data))
    table = next(section for section in opened.sections() if section.type == build.SYMTAB)
    layout = opened.layouts.symbol
    names = [field.name for field in layout.fields]
    return [
        dict(zip(names, row, strict=True)) for row in opened.records(layout, table.offset, table.size // layout.size)
    ]


@pytest.mark.parametrize(("machine", "name"), [(build.X86_64, ""), (build.AARCH64, "$d"), (build.ARM, "$d.7")])
def test_markers_that_nothing_uses_go_with_the_section(machine: int, name: str) -> None:
    file = build.device_object(machine=machine)
    info = build.SECTION_SYMBOL if not name else build.LOCAL_NOTYPE
    number = file.symbol(name, DEVICE, value=8 if name else 0, info=info)
    data = file.build()
    assert set(symbol_rows(removed(data))[number].values()) == {0}
    moved = symbol_rows(replaced(data, b"12"))[number]
    assert (moved["section_index"], moved["value"]) == (DEVICE, 0)
    assert symbol_rows(replaced(data, b"N" * 40))[number] == symbol_rows(data)[number]


def test_a_marker_of_another_processor_is_a_symbol() -> None:
    file = build.device_object(machine=build.X86_64)
    file.symbol("$d", DEVICE)
    with pytest.raises(HostError, match=r"symbol \$d is defined in section 2"):
        elf.remove(build.as_view(file.build()), [DEVICE])


def test_wide_indices_are_followed_and_cleared() -> None:
    for order in ("little", "big"):
        file = build.Elf(order=order, machine=build.AARCH64)
        file.sections += [build.Section("")] * 0xFEFF
        device = file.add(".llvm.offloading", b"device!!", type=build.OFFLOADING, flags=build.EXCLUDE)
        other = file.add(".data", b"12345678", flags=build.ALLOC)
        assert device == 0xFF00
        number = file.symbol("$d", device)
        file.symbol("known", other, info=build.GLOBAL_OBJECT)
        data = file.build()
        result = removed(data, device)
        assert set(symbol_rows(result)[number].values()) == {0}
        opened = ElfFile(build.as_view(result))
        table = next(section for section in opened.sections() if section.type == build.SYMTAB_SHNDX)
        words = opened.contents(table).tobytes()
        assert int.from_bytes(words[4 * number : 4 * number + 4], order) == 0
        assert int.from_bytes(words[4 * number + 4 : 4 * number + 8], order) == other
        file.symbols[number] = build.Symbol("kernel", device)
        with pytest.raises(HostError, match="symbol kernel is defined in section 65280"):
            elf.remove(build.as_view(file.build()), [device])


def test_absolute_symbols_are_no_symbols_of_section_65521() -> None:
    file = build.Elf()
    file.sections += [build.Section("")] * 0xFFF0
    device = file.add(".llvm.offloading", b"device!!", type=build.OFFLOADING)
    assert device == 0xFFF1
    file.symbol("marker", 1)
    data = file.build()
    opened = ElfFile(build.as_view(data))
    table = next(section for section in opened.sections() if section.type == build.SYMTAB)
    absolute = data[: table.offset + 24 + 6] + b"\xf1\xff" + data[table.offset + 24 + 8 :]
    assert removed(absolute, device)


def test_the_count_moves_back_into_the_header_when_it_fits_again() -> None:
    file = build.Elf()
    file.sections += [build.Section("")] * 0xFEFD
    before = file.build()
    assert build.header_field(before, "shnum") == 0xFEFF
    embedded = build.as_bytes(elf.embed(build.as_view(before), [b"x"]))
    assert build.header_field(embedded, "shnum") == 0
    after = removed(embedded, 0xFEFF)
    assert build.header_field(after, "shnum") == 0xFEFF
    assert build.section_field(after, 0, "size") == 0


REFUSED_SECTIONS = {
    "symbols": ({"type": build.SYMTAB}, "has type symtab: it is no section of device code"),
    "nobits": ({"type": build.NOBITS}, "has type nobits"),
    "null": ({"type": build.NULL}, "has type null"),
    "compressed": ({"flags": build.COMPRESSED}, "is compressed by its section flags; decompress it first"),
    "strings": ({"flags": build.MERGE | build.STRINGS}, "may be merged with others by the linker"),
}


@pytest.mark.parametrize("name", REFUSED_SECTIONS)
def test_sections_that_are_not_plain_device_code_are_refused(name: str) -> None:
    values, message = REFUSED_SECTIONS[name]
    view = build.as_view(build.with_section(build.device_object().build(), DEVICE, **values))
    for edit in (lambda: elf.replace(view, DEVICE, [b"x"]), lambda: elf.remove(view, [DEVICE])):
        with pytest.raises(HostError, match=message):
            edit()


@pytest.mark.parametrize("index", [0, -1, 9, 1 << 40])
def test_an_index_that_is_none_is_the_callers_mistake(index: int) -> None:
    with pytest.raises(UsageError, match="there is no section"):
        elf.remove(build.as_view(build.device_object().build()), [index])


def test_a_loaded_section_is_replaced_in_objects_and_never_removed() -> None:
    file = build.Elf()
    loaded = file.add(".hip_fatbin", b"H" * 100, flags=build.ALLOC, align=4096)
    file.add(".data", b"12345678", flags=build.ALLOC, align=8)
    data = file.build()
    assert contents(replaced(data, b"N" * 9000, loaded))[".hip_fatbin"] == b"N" * 9000
    with pytest.raises(HostError, match="is loaded at run time; code refers to it when the program starts"):
        elf.remove(build.as_view(data), [loaded])
    linked = build.with_header(data, "type", build.SHARED)
    for edit in (
        lambda: elf.replace(build.as_view(linked), loaded, [b"x"]),
        lambda: elf.remove(build.as_view(linked), [loaded]),
    ):
        with pytest.raises(HostError, match="it has its place in memory since the link; edit the object and link"):
            edit()


def test_linked_files_give_back_what_was_embedded() -> None:
    for type in (build.EXECUTABLE, build.SHARED):
        data = build.device_object(type=type, segments=[(0, 200)]).build()
        before = build.as_bytes(elf.embed(build.as_view(data), [b"label" * 9]))
        assert removed(before, 9) == data
        assert contents(replaced(before, b"other", 9))[".shstrtab"] == contents(data)[".shstrtab"]


@pytest.mark.parametrize("type", [build.RELOCATABLE, build.EXECUTABLE, build.SHARED])
def test_the_name_of_what_was_embedded_goes_with_it(type: int) -> None:
    data = build.device_object(type=type).build()
    before = build.as_bytes(elf.embed(build.as_view(data), [b"label"], name=".a.name.of.its.own"))
    assert b".a.name.of.its.own\0" in before
    assert removed(before, 9) == data


def test_a_name_stays_that_another_section_has_too() -> None:
    data = build.device_object(type=build.SHARED).build()
    once = build.as_bytes(elf.embed(build.as_view(data), [b"label"], name=".a.name"))
    twice = build.as_bytes(elf.embed(build.as_view(once), [b"other"], name=".name"))
    assert removed(twice, 10) == once
    assert contents(removed(twice, 9))[".name"] == b"other"
    assert removed(twice, 9, 10) == data


def test_a_table_that_lacks_a_name_in_use_is_not_sound() -> None:
    data = build.device_object(type=build.SHARED).build()
    before = build.as_bytes(elf.embed(build.as_view(data), [b"label"], name=".a.name"))
    names = ElfFile(build.as_view(before)).names_section()
    after = build.with_section(before, names.index, size=names.size - len(".a.name") - 1)
    with pytest.raises(HostError, match="the table of section names is shorter"):
        elf.verify(build.as_view(before), build.as_view(after))


def test_loaded_sections_without_bytes_keep_their_place_in_linked_files() -> None:
    """As in files of debug information, where their place is after the end of the file."""
    file = build.device_object(type=build.SHARED)
    data = build.with_section(file.build(), 5, offset=0x1000, addr=0x1000)
    result = removed(build.as_bytes(elf.embed(build.as_view(data), [b"label"])), 9)
    assert build.section_field(result, 5, "offset") == 0x1000


def test_nothing_that_is_loaded_moves_in_a_linked_file() -> None:
    data = build.device_object(type=build.EXECUTABLE, segments=[(0, 300)]).build()
    with pytest.raises(HostError, match=r"that are loaded at run time follow section 2 \(\.llvm\.offloading\)"):
        elf.remove(build.as_view(data), [DEVICE])
    without_segment = build.device_object(type=build.EXECUTABLE).build()
    with pytest.raises(HostError, match="that are loaded at run time follow"):
        elf.replace(build.as_view(without_segment), DEVICE, [b"x"])


def test_program_headers_after_the_section_stay() -> None:
    data = build.device_object(segments=[(0, 0)]).build()
    moved = build.with_header(data + bytes(56), "phoff", len(data))
    with pytest.raises(HostError, match="cannot move"):
        elf.remove(build.as_view(moved), [DEVICE])


def test_trailing_bytes_are_refused() -> None:
    with pytest.raises(HostError, match="9 bytes follow the ELF image"):
        elf.remove(build.as_view(build.device_object(trailing=b"signature").build()), [DEVICE])


def test_overlapping_parts_are_refused_by_name() -> None:
    data = build.device_object().build()
    at = build.section_field(data, DEVICE, "offset")
    for values, message in (
        ({"index": 3, "offset": at + 8}, r"section 2 \(\.llvm\.offloading\) and section 3 \(\.data\) overlap"),
        ({"index": DEVICE, "offset": 0}, r"the ELF header and section 2 \(\.llvm\.offloading\) overlap"),
        ({"index": DEVICE, "offset": build.header_field(data, "shoff")}, "the section table overlap"),
    ):
        index = values.pop("index")
        view = build.as_view(build.with_section(data, index, **values))
        for content in (None, [b"x"], [b"D" * 40]):
            with pytest.raises(HostError, match=message):
                elf.edit(view, {DEVICE: content})


def test_an_empty_section_outside_the_file_is_not_filled() -> None:
    data = build.with_section(build.device_object(b"").build(), DEVICE, offset=1 << 50)
    with pytest.raises(BadValue, match="does not lie inside the file"):
        elf.replace(build.as_view(data), DEVICE, [b"x"])
    assert removed(data)


def test_alignment_is_kept_only_where_the_producer_kept_it() -> None:
    file = build.device_object()
    data = file.build()
    odd = build.with_section(data, 3, addralign=1 << 40)
    assert build.section_field(replaced(odd, b"N" * 9), 3, "offset") < len(data)
    odd = build.with_section(data, 3, addralign=24)
    assert contents(replaced(odd, b"N" * 9))[".data"] == contents(data)[".data"]


@pytest.mark.parametrize("name", ["clang-22-openmp-gfx90a.o", "clang-22-openmp-gfx90a-aarch64.o"])
def test_openmp_objects_lose_their_device_code(name: str) -> None:
    data = (FIXTURES / name).read_bytes()
    (site,) = (
        site for site in elf.locate(build.as_view(data)) if isinstance(site, CodeSection) and site.content != "table"
    )
    assert isinstance(site, CodeSection)
    assert site.index is not None
    result = removed(data, site.index)
    assert len(data) - len(result) == len(site.data)


def test_the_device_code_of_a_hip_object_is_replaced_and_its_wrapper_still_points_to_it() -> None:
    data = (FIXTURES / "clang-22-hip.o").read_bytes()
    (site,) = (
        site for site in elf.locate(build.as_view(data)) if isinstance(site, CodeSection) and site.content != "table"
    )
    assert isinstance(site, CodeSection)
    assert site.index == 7
    for size in (0, 100, 12816, 50000):
        result = replaced(data, b"N" * size, 7)
        assert contents(result) == {**contents(data), ".hip_fatbin": b"N" * size}
        assert build.section_field(result, 7, "offset") % 4096 == 0


def test_the_sections_of_the_bundler_go_with_their_headers() -> None:
    data = (FIXTURES / "clang-22-hip-rdc-bundler.o").read_bytes()
    sites = [site for site in elf.locate(build.as_view(data)) if isinstance(site, CodeSection)]
    indices = [site.index for site in sites if site.content != "table"]
    result = removed(data, *[index for index in indices if index is not None])
    assert ElfFile(build.as_view(result)).section_count == 18
