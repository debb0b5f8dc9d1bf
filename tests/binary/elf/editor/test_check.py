"""The check after an edit: a valid edit passes, and each kind of damage is reported."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.builders import elf as build

from fatpack.binary import elf
from fatpack.binary.elf.file import ElfFile
from fatpack.errors import HostError

DEVICE, DATA, RELOCATIONS, SYMBOLS, NAMES, ADDED = 2, 3, 4, 6, 8, 9


@pytest.fixture
def before() -> bytes:
    return build.device_object().build()


@pytest.fixture
def after(before: bytes) -> bytes:
    return build.as_bytes(elf.embed(build.as_view(before), [b"embedded"], name=".new"))


def verify(before: bytes, after: bytes, **options: object) -> None:
    elf.verify(build.as_view(before, "before.o"), build.as_view(after, "after.o"), **options)  # type: ignore[arg-type]


def test_a_sound_edit_passes(before: bytes, after: bytes) -> None:
    verify(before, after)
    verify(before, after, edited=[])


def test_the_unchanged_file_passes(before: bytes) -> None:
    verify(before, before, edited=[])


SPOILED: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "machine": (lambda data: build.with_header(data, "machine", 3), "machine in the header is 3, was 62"),
    "type": (lambda data: build.with_header(data, "type", 2), "type in the header is 2, was 1"),
    "names index": (lambda data: build.with_header(data, "shstrndx", 7), "names_index in the header is 7, was 8"),
    "section type": (
        lambda data: build.with_section(data, DATA, type=7),
        r"type of section 3 \(\.data\) is 0x7, was 0x1",
    ),
    "flags": (lambda data: build.with_section(data, DATA, flags=2), "flags of section 3"),
    "address": (lambda data: build.with_section(data, DATA, addr=8), "address of section 3"),
    "link": (lambda data: build.with_section(data, RELOCATIONS, link=5), "link of section 4"),
    "info": (lambda data: build.with_section(data, RELOCATIONS, info=2), "info of section 4"),
    "align": (lambda data: build.with_section(data, DATA, addralign=16), "align of section 3"),
    "entry size": (lambda data: build.with_section(data, SYMBOLS, entsize=16), "entry_size of section 6"),
    "name": (lambda data: build.with_section(data, DATA, name=1), "name_offset of section 3"),
    "size": (lambda data: build.with_section(data, SYMBOLS, size=24), r"section 6 \(\.symtab\) has 24 bytes, had 72"),
    "outside": (lambda data: build.with_section(data, ADDED, size=1 << 40), "after the end of the file"),
    "overlap": (lambda data: build.with_section(data, ADDED, offset=64), "parts overlap at"),
    "over the header": (lambda data: build.with_section(data, ADDED, offset=8), "parts overlap at"),
    "loaded": (lambda data: build.with_section(data, ADDED, flags=2), r"section 9 \(\.new\) is new and loaded"),
    "moved": (
        lambda data: build.with_section(data, DATA, offset=build.section_field(data, DATA, "offset") + 4),
        "which is no multiple of 8",
    ),
    "moved to other bytes": (
        lambda data: build.with_section(data, DATA, offset=build.section_field(data, DATA, "offset") + 8),
        r"section 3 \(\.data\) moved, and its contents changed",
    ),
    "cut": (lambda data: data[:-1], "the edited file is damaged: after.o: elf at .*section table"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_a_spoiled_edit_is_noticed(before: bytes, after: bytes, name: str) -> None:
    spoil, message = SPOILED[name]
    with pytest.raises(HostError, match=message) as caught:
        verify(before, spoil(after))
    assert caught.value.chain == ("after.o",)
    assert "please report" in caught.value.hint


def test_changed_names_are_noticed(before: bytes, after: bytes) -> None:
    at = build.section_field(after, NAMES, "offset") + 3
    with pytest.raises(HostError, match="the table of section names changed"):
        verify(before, after[:at] + b"X" + after[at + 1 :])
    with pytest.raises(HostError, match="the table of section names is shorter"):
        verify(before, build.with_section(before, NAMES, size=4))


def test_a_section_that_vanished_is_noticed(before: bytes) -> None:
    after = build.as_bytes(elf.embed(build.as_view(before), [b"embedded"]))
    with pytest.raises(HostError, match=r"section 9 \(\.llvm\.offloading\) is gone"):
        verify(after, before, edited=[DEVICE])
    # Removed data could be an edit, removed symbols cannot.
    verify(after, before)
    with pytest.raises(HostError, match=r"section 8 \(\.shstrtab\) is gone|names_index"):
        verify(before, build.with_header(before, "shnum", 8))


def test_a_removed_section_must_have_been_asked_for(before: bytes) -> None:
    after = build.as_bytes(elf.remove(build.as_view(before), [DEVICE]))
    verify(before, after)
    verify(before, after, edited=[DEVICE])
    with pytest.raises(HostError, match=r"section 2 \(\.llvm\.offloading\) was removed"):
        verify(before, after, edited=[DATA])
    spoiled = build.with_section(after, DEVICE, link=1)
    with pytest.raises(HostError, match="was removed, but its header is not empty"):
        verify(before, spoiled)


def test_a_loaded_section_cannot_have_been_removed(before: bytes) -> None:
    fields = dict.fromkeys(("name", "type", "flags", "offset", "size", "addralign"), 0)
    with pytest.raises(HostError, match=r"section 3 \(\.data\) was removed"):
        verify(before, build.with_section(before, DATA, **fields))


def test_another_size_must_have_been_asked_for(before: bytes) -> None:
    after = build.as_bytes(elf.replace(build.as_view(before), DEVICE, [b"longer" * 100]))
    verify(before, after, edited=[DEVICE])
    with pytest.raises(HostError, match=r"section 2 \(\.llvm\.offloading\) has 600 bytes, had 40"):
        verify(before, after, edited=[])


def test_loaded_sections_of_linked_files_stay() -> None:
    before = build.device_object(type=build.SHARED).build()
    after = build.as_bytes(elf.embed(build.as_view(before), [b"x"]))
    at = build.section_field(before, DATA, "offset")
    with pytest.raises(HostError, match=r"section 3 \(\.data\) is loaded at run time and moved"):
        verify(before, build.with_section(after, DATA, offset=at + 8))


def test_changed_program_headers_are_noticed() -> None:
    before = build.device_object(type=build.SHARED, segments=[(0, 64)]).build()
    with pytest.raises(HostError, match="the program headers changed"):
        verify(before, before[:70] + b"\1" + before[71:])


def test_parts_that_overlapped_before_may_overlap_after(before: bytes) -> None:
    odd = build.with_section(before, DATA, offset=build.section_field(before, DEVICE, "offset"))
    verify(odd, build.as_bytes(elf.embed(build.as_view(odd), [b"x"])))


def test_only_tables_are_read() -> None:
    class Counting(build.BytesSource):
        count = 0

        def read(self, offset: int, size: int) -> bytes:
            Counting.count += size
            return super().read(offset, size)

    data = build.device_object(b"D" * (1 << 20)).build()
    after = build.as_bytes(elf.replace(build.as_view(data), DEVICE, [b"N" * (2 << 20)]))
    elf.verify(Counting(data).view(), Counting(after).view())
    assert Counting.count < 20_000
    assert ElfFile(build.as_view(after)).section(DEVICE).size == 2 << 20
