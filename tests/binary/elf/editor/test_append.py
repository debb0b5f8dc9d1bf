"""Embedding: old parts do not move, the overhead is small, and a host that must not be edited is refused with a
reason."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import elf as build
from tests.builders.bulk import Untouchable

from fatpack.binary import CodeSection, elf
from fatpack.binary.elf.editor.append import NewSection, embed_sections
from fatpack.binary.elf.file import ElfFile, ElfSection
from fatpack.errors import BadValue, FatpackError, HostError, Truncated, UsageError
from fatpack.io.source import BytesSource, View

FIXTURES = sorted((Path(__file__).parents[3] / "fixtures" / "elf").glob("*.o"))
KINDS = [(32, "little"), (32, "big"), (64, "little"), (64, "big")]
each_kind = pytest.mark.parametrize(("bits", "order"), KINDS)
CONTENT = b"\x10\xff\x10\xadembedded"


def embedded(data: bytes, content: bytes = CONTENT, **options: object) -> bytes:
    before = build.as_view(data)
    result = build.as_bytes(elf.embed(before, [content], **options))  # type: ignore[arg-type]
    elf.verify(before, build.as_view(result))
    return result


def sections(data: bytes) -> list[tuple[str, ElfSection]]:
    opened = ElfFile(build.as_view(data))
    return [(opened.name(section), section) for section in opened.sections()]


@each_kind
@pytest.mark.parametrize("merged_names", [False, True])
@pytest.mark.parametrize("type", [build.RELOCATABLE, build.EXECUTABLE, build.SHARED])
def test_the_new_section_is_what_clang_makes(bits: int, order: str, type: int, merged_names: bool) -> None:
    data = build.device_object(bits=bits, order=order, type=type, merged_names=merged_names).build()
    result = embedded(data)
    name, section = sections(result)[-1]
    assert name == ".llvm.offloading"
    assert (section.type, section.flags, section.align) == (0x6FFF4C0B, 0x80000000, 8)
    assert (section.address, section.link, section.info, section.entry_size) == (0, 0, 0, 0)
    assert result[section.offset : section.end] == CONTENT
    assert section.offset % 8 == 0
    assert sections(result)[: len(sections(data))] == sections(data)


@each_kind
def test_only_the_place_and_length_of_the_table_change_in_the_header(bits: int, order: str) -> None:
    data = build.device_object(bits=bits, order=order).build()
    result = embedded(data)
    changed = [at for at in range(min(len(data), build.header_field(data, "shoff"))) if data[at] != result[at]]
    fields = build.HEADER_FIELDS[bits]
    allowed = {*range(fields["shoff"], fields["shoff"] + bits // 8), fields["shnum"], fields["shnum"] + 1}
    assert set(changed) <= allowed
    assert len(changed) <= 4


def test_a_name_that_is_there_costs_one_section_header() -> None:
    data = build.device_object().build()
    assert len(embedded(data)) - len(data) - len(CONTENT) <= 64 + 8


def test_a_new_name_moves_the_names_to_the_end_and_costs_itself() -> None:
    elf_file = build.Elf()
    elf_file.add(".text", b"\x90" * 16)
    data = elf_file.build()
    result = embedded(data)
    assert len(result) - len(data) - len(CONTENT) <= 64 + len(".llvm.offloading\0") + 16
    names = next(section for name, section in sections(result) if name == ".shstrtab")
    assert names.offset > build.header_field(data, "shoff") - 64


def test_a_name_is_found_as_the_tail_of_a_longer_one() -> None:
    elf_file = build.Elf()
    elf_file.add("old.llvm.offloading", b"1")
    data = elf_file.build()
    result = embedded(data)
    assert sections(result)[-1][0] == ".llvm.offloading"
    assert sections(result)[-1][1].name_offset == sections(data)[1][1].name_offset + 3


def test_a_table_of_names_without_its_last_nul_gets_one() -> None:
    elf_file = build.Elf()
    elf_file.add("a", b"1")
    data = elf_file.build()
    names = build.section_field(data, 2, "size")
    data = build.with_section(data, 2, size=names - 1)
    result = embedded(data)
    assert [name for name, _ in sections(result)] == ["", "a", ".shstrtab", ".llvm.offloading"]


def test_dead_bytes_are_left_where_a_table_is_not_at_the_end() -> None:
    data = build.device_object(tables_first=True).build()
    result = embedded(data)
    assert result[len(data) - 100 : len(data)] == data[-100:]
    assert sections(result)[-1][1].offset >= len(data)


def test_unreferenced_bytes_are_kept() -> None:
    data = build.device_object(rubbish=b"somebody's data").build()
    assert b"somebody's data" in embedded(data)


def test_bytes_of_a_segment_stay_even_where_the_names_lie_in_it() -> None:
    data = build.device_object(type=build.SHARED, segments=[(0, 0)]).build()
    end = build.section_field(data, 8, "offset") + build.section_field(data, 8, "size")
    covered = build.device_object(type=build.SHARED, segments=[(0, end)]).build()
    result = embedded(covered, name=".new")
    assert result[64:end] == covered[64:end]
    assert build.section_field(result, 8, "offset") > end
    assert [name for name, _ in sections(result)[-2:]] == [".shstrtab", ".new"]


def test_many_sections_are_added_in_one_pass() -> None:
    data = build.device_object().build()
    additions = [
        NewSection([b"first"], "__CLANG_OFFLOAD_BUNDLE__one", build.PROGBITS, build.EXCLUDE, 1),
        NewSection([], "__CLANG_OFFLOAD_BUNDLE__two", build.PROGBITS, build.EXCLUDE, 1),
        NewSection([b"thi", b"rd"], "OFFLOAD_BUNDLE__one", build.PROGBITS, build.EXCLUDE, 4096),
    ]
    before = build.as_view(data)
    result = build.as_bytes(embed_sections(before, additions))
    elf.verify(before, build.as_view(result))
    new = sections(result)[-3:]
    assert [name for name, _ in new] == [addition.name for addition in additions]
    assert [result[section.offset : section.end] for _, section in new] == [b"first", b"", b"third"]
    assert new[2][1].offset % 4096 == 0
    assert new[2][1].name_offset == new[0][1].name_offset + len("__CLANG_")


@pytest.mark.sweep(3)
@pytest.mark.parametrize("order", ["little", "big"])
@pytest.mark.parametrize("count", [0xFEFE, 0xFEFF, 0xFF00, 70000])
def test_the_count_moves_to_section_0_when_it_gets_too_large(count: int, order: str) -> None:
    big = build.Elf(order=order)
    big.sections += [build.Section("")] * (count - 2)
    result = embedded(big.build())
    assert ElfFile(build.as_view(result)).section_count == count + 1
    assert build.header_field(result, "shnum") == (count + 1 if count + 1 < 0xFF00 else 0)
    assert build.section_field(result, 0, "size") == (count + 1 if count + 1 >= 0xFF00 else 0)
    (site,) = elf.locate(build.as_view(result))
    assert isinstance(site, CodeSection)
    assert site.data.tobytes() == CONTENT


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.name)
def test_objects_of_clang_get_60_to_100_bytes_more_than_the_content(path: Path) -> None:
    data = path.read_bytes()
    result = embedded(data)
    # llvm-objcopy leaves a table of names before other sections in the object of the bundler: it stays as dead bytes.
    limit = 800 if "bundler" in path.name else 100
    assert 60 <= len(result) - len(data) - len(CONTENT) <= limit


def test_contents_are_passed_on_and_never_read() -> None:
    content = Untouchable(b"x" * 100).view()
    pieces = elf.embed(build.as_view(build.device_object().build()), [content])
    assert any(piece is content for piece in pieces)
    assert sum(map(len, pieces)) > 100


def test_an_existing_name_is_refused_on_request() -> None:
    data = build.device_object().build()
    with pytest.raises(HostError, match=r"section 2 is already called \.llvm\.offloading; replace or remove it"):
        elf.embed(build.as_view(data), [CONTENT], unique=True)
    assert embedded(data, name=".other", unique=True)


TRAILING = [b"squashfs", b"\0" * 8, b"\1"]


@pytest.mark.parametrize("trailing", TRAILING)
def test_bytes_after_the_image_are_refused_unless_asked_for(trailing: bytes) -> None:
    data = build.device_object(trailing=trailing).build()
    with pytest.raises(HostError, match=f"{len(trailing)} bytes follow the ELF image"):
        elf.embed(build.as_view(data), [CONTENT])
    result = embedded(data, keep_trailing=True)
    assert result[64 : len(data)] == data[64:]


def test_a_few_zero_bytes_after_the_image_are_padding() -> None:
    assert embedded(build.device_object(trailing=b"\0" * 7).build())


CORRUPTIONS = {
    "core file": (lambda data: build.with_header(data, "type", build.CORE), HostError, r"type core \(0x4\)"),
    "no type": (lambda data: build.with_header(data, "type", 0), HostError, r"type 0x0 \(unknown\)"),
    "no section table": (
        lambda data: build.with_header(build.with_header(data, "shoff", 0), "shnum", 0),
        HostError,
        "no section table",
    ),
    "table outside": (lambda data: build.with_header(data, "shoff", len(data)), Truncated, "needs 576 bytes, 0 left"),
    "table in the header": (lambda data: build.with_header(data, "shoff", 8), BadValue, "section table lies in"),
    "header size": (lambda data: build.with_header(data, "shentsize", 40), BadValue, "wrong size of a section header"),
    "string index": (lambda data: build.with_header(data, "shstrndx", 99), BadValue, "is no section of the file"),
    "no string index": (lambda data: build.with_header(data, "shstrndx", 0), BadValue, "expected 1 to 8, found 0"),
    "string type": (lambda data: build.with_header(data, "shstrndx", 1), BadValue, "should hold the section names"),
    "section outside": (lambda data: build.with_section(data, 3, size=1 << 33), BadValue, "section 3 .* inside"),
    "names outside": (lambda data: build.with_section(data, 8, offset=1 << 33), BadValue, "section 8 .* inside"),
}


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_host_that_must_not_be_edited_is_refused(name: str) -> None:
    corrupt, error, message = CORRUPTIONS[name]
    with pytest.raises(error, match=message):
        elf.embed(build.as_view(corrupt(build.device_object().build())), [CONTENT])


def test_a_segment_outside_the_file_is_refused() -> None:
    data = build.device_object(type=build.SHARED, segments=[(0, 1 << 30)]).build()
    with pytest.raises(BadValue, match="a segment does not lie inside the file"):
        elf.embed(build.as_view(data), [CONTENT])


def test_names_that_are_loaded_cannot_grow() -> None:
    data = build.device_object().build()
    data = build.with_section(data, 8, flags=build.ALLOC)
    with pytest.raises(HostError, match=r"section 8 \(\.shstrtab\), is loaded or compressed and cannot grow"):
        elf.embed(build.as_view(data), [CONTENT], name=".new")
    assert embedded(data)


def test_a_host_inside_an_archive_is_edited_by_its_own_offsets() -> None:
    data = build.device_object().build()
    member = build.as_view(b"!<arch>\n" + data + b"rest").slice(8, len(data), "member.o")
    assert build.as_bytes(elf.embed(member, [CONTENT])) == embedded(data)
    assert build.as_bytes(elf.remove(member, [2])) == build.as_bytes(elf.remove(build.as_view(data), [2]))


class Huge(BytesSource):
    """A source that claims to have many bytes."""

    def __init__(self, size: int) -> None:
        super().__init__(b"")
        self.size = size


def test_a_32_bit_file_cannot_grow_beyond_4_gib() -> None:
    content = View(Huge(1 << 32), 0, (1 << 32) - 1)
    for data, allowed in ((build.device_object(bits=32).build(), False), (build.device_object().build(), True)):
        view = build.as_view(data)
        if allowed:
            assert sum(map(len, elf.embed(view, [content]))) > 1 << 32
        else:
            with pytest.raises(HostError, match="more than a 32-bit ELF file can describe; use a 64-bit host"):
                elf.embed(view, [content])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": ""}, "cannot be the name"),
        ({"name": "a\0b"}, "cannot be the name"),
        ({"name": "\ud800"}, "cannot be the name"),
        ({"align": 0}, "cannot be aligned to 0"),
        ({"align": 24}, "cannot be aligned to 24"),
        ({"align": 1 << 40}, "give a power of two up to 65536"),
        ({"flags": build.ALLOC}, "loaded at run time"),
    ],
)
def test_an_impossible_section_is_the_callers_mistake(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        elf.embed(build.as_view(build.device_object().build()), [CONTENT], **options)  # type: ignore[arg-type]


def test_the_error_names_the_file() -> None:
    with pytest.raises(FatpackError, match=r"^test\.o: "):
        elf.embed(build.as_view(build.device_object(type=build.CORE).build()), [CONTENT])
