"""References to a section and into it: the checks before an edit, each with its own message."""

from __future__ import annotations

import pytest
from tests.builders import elf as build

from fatpack.binary import elf
from fatpack.errors import BadValue, HostError

KINDS = [(32, "little"), (32, "big"), (64, "little"), (64, "big")]
each_kind = pytest.mark.parametrize(("bits", "order"), KINDS)
ADDRESS = {32: 1, 64: 1}


def hip_object(**facts: object) -> tuple[build.Elf, int, int]:
    """Return an object like clang's for HIP: (elf, index of .hip_fatbin, index of the wrapper that points to it)."""
    file = build.Elf(**facts)  # type: ignore[arg-type]
    fatbin = file.add(".hip_fatbin", b"H" * 64, flags=build.ALLOC, align=16)
    wrapper = file.add(".hipFatBinSegment", bytes(24), flags=build.ALLOC | build.WRITE, align=8)
    return file, fatbin, wrapper


def replace(file: build.Elf, index: int) -> bytes:
    view = build.as_view(file.build())
    result = build.as_bytes(elf.replace(view, index, [b"new"]))
    elf.verify(view, build.as_view(result))
    return result


@each_kind
def test_a_relocation_to_the_start_is_fine(bits: int, order: str) -> None:
    file, fatbin, wrapper = hip_object(bits=bits, order=order)
    section = file.symbol("", fatbin, info=build.SECTION_SYMBOL)
    file.relocations(wrapper, (8, section, 1, 0))
    assert replace(file, fatbin)


@each_kind
def test_a_relocation_into_the_inside_is_named(bits: int, order: str) -> None:
    file, fatbin, wrapper = hip_object(bits=bits, order=order)
    section = file.symbol("", fatbin, info=build.SECTION_SYMBOL)
    file.relocations(wrapper, (0, section, 1, 0), (8, section, 1, 4))
    with pytest.raises(
        HostError,
        match=r"relocation 1 of section 3 \(\.rela\.hipFatBinSegment\) points \+0x4 bytes from the start of "
        r"section 1 \(\.hip_fatbin\); only a section that is used as a whole",
    ):
        elf.replace(build.as_view(file.build()), fatbin, [b"new"])


def test_a_negative_addend_is_shown_as_such() -> None:
    file, fatbin, wrapper = hip_object()
    file.relocations(wrapper, (8, file.symbol("fatbin", fatbin, info=build.GLOBAL_OBJECT), 2, -4))
    with pytest.raises(HostError, match="points -0x4 bytes from the start"):
        elf.replace(build.as_view(file.build()), fatbin, [b"new"])


STORED = [
    (build.I386, "little", 1, b"\0\0\0\0", True),
    (build.I386, "little", 1, b"\4\0\0\0", False),
    (build.I386, "little", 20, b"\1\0", False),
    (build.ARM, "little", 2, b"\0\0\0\1", False),
    (build.ARM, "big", 42, b"\x80\0\0\0", True),
    (build.MIPS, "big", 2, b"\0\0\0\0", True),
    (build.MIPS, "big", 5, b"\x3c\x01\0\0", True),
    (build.MIPS, "big", 6, b"\x24\x21\0\x10", False),
]


@pytest.mark.parametrize(("machine", "order", "type", "stored", "fine"), STORED)
def test_addends_in_the_bytes_to_change_are_read(
    machine: int, order: str, type: int, stored: bytes, fine: bool
) -> None:
    file, fatbin, wrapper = hip_object(bits=32, order=order, machine=machine)
    section = file.symbol("", fatbin, info=build.SECTION_SYMBOL)
    file.relocations(wrapper, (8, section, type), type=build.REL)
    file.sections[wrapper].content = bytes(8) + stored + b"\xff" * (16 - len(stored))
    if fine:
        assert replace(file, fatbin)
    else:
        with pytest.raises(HostError, match=r"relocation 0 of section 3 \(\.rel\.hipFatBinSegment\) points \+0x"):
            elf.replace(build.as_view(file.build()), fatbin, [b"new"])


@pytest.mark.parametrize(
    ("machine", "type", "offset"), [(build.I386, 99, 8), (build.X86_64, 1, 8), (build.I386, 1, 21)]
)
def test_an_addend_that_cannot_be_read_is_a_reason_to_refuse(machine: int, type: int, offset: int) -> None:
    file, fatbin, wrapper = hip_object(bits=32, machine=machine)
    file.relocations(wrapper, (offset, file.symbol("fatbin", fatbin), type), type=build.REL)
    with pytest.raises(HostError, match=f"has type {type}, of which it is not known how far into section 1"):
        elf.replace(build.as_view(file.build()), fatbin, [b"new"])


def test_mips64_little_endian_keeps_its_symbol_number_in_another_place() -> None:
    file, fatbin, wrapper = hip_object(machine=build.MIPS)
    file.symbol("first", wrapper)
    section = file.symbol("", fatbin, info=build.SECTION_SYMBOL)
    relocations = file.relocations(wrapper, (8, 0, 0, 4))
    content = bytearray(file.sections[relocations].content)
    content[8:16] = section.to_bytes(4, "little") + bytes([0, 0, 0, 18])
    file.sections[relocations].content = bytes(content)
    with pytest.raises(HostError, match=r"points \+0x4 bytes"):
        elf.replace(build.as_view(file.build()), fatbin, [b"new"])


def test_relocations_of_other_symbols_do_not_matter() -> None:
    file, fatbin, wrapper = hip_object()
    file.symbol("", fatbin, info=build.SECTION_SYMBOL)
    other = file.symbol("", wrapper, info=build.SECTION_SYMBOL)
    file.relocations(wrapper, (8, other, 1, 12))
    assert replace(file, fatbin)


def test_a_symbol_inside_the_section_is_named() -> None:
    file, fatbin, _ = hip_object()
    file.symbol("second_image", fatbin, value=32, info=build.GLOBAL_OBJECT)
    with pytest.raises(HostError, match=r"symbol second_image lies inside section 1 \(\.hip_fatbin\), at 0x20"):
        elf.replace(build.as_view(file.build()), fatbin, [b"new"])


def test_a_symbol_without_a_name_is_called_by_its_number() -> None:
    file, fatbin, _ = hip_object()
    file.symbol("", fatbin, value=32)
    with pytest.raises(HostError, match="symbol number 1 lies inside"):
        elf.replace(build.as_view(file.build()), fatbin, [b"new"])


def test_a_section_that_is_relocated_itself_has_no_finished_contents() -> None:
    file, fatbin, wrapper = hip_object()
    file.relocations(fatbin, (0, file.symbol("", wrapper, info=build.SECTION_SYMBOL), 1, 0))
    for edit in (lambda view: elf.replace(view, fatbin, [b"new"]),):
        with pytest.raises(HostError, match=r"\.rela\.hip_fatbin\) relocates section 1 \(\.hip_fatbin\)"):
            edit(build.as_view(file.build()))


def test_packed_relocations_are_refused_when_a_symbol_may_need_them() -> None:
    file, fatbin, _ = hip_object()
    file.add(".crel.data", b"\0\0", type=build.CREL)
    assert replace(file, fatbin)
    file, fatbin, _ = hip_object()
    file.symbol("fatbin", fatbin)
    file.add(".crel.data", b"\0\0", type=build.CREL)
    with pytest.raises(HostError, match="holds relocations as crel, and one of them may go through symbol fatbin"):
        elf.replace(build.as_view(file.build()), fatbin, [b"new"])


def device(**facts: object) -> tuple[build.Elf, int]:
    file = build.Elf(**facts)  # type: ignore[arg-type]
    index = file.add(".llvm.offloading", b"D" * 64, type=build.OFFLOADING, flags=build.EXCLUDE, align=8)
    file.add(".data", bytes(24), flags=build.ALLOC, align=8)
    return file, index


def refused(file: build.Elf, index: int, message: str) -> None:
    with pytest.raises(HostError, match=message):
        elf.remove(build.as_view(file.build()), [index])


def test_a_symbol_keeps_its_section() -> None:
    file, index = device()
    file.symbol("start", index, info=build.GLOBAL_OBJECT)
    refused(file, index, r"symbol start is defined in section 1 \(\.llvm\.offloading\); replace the contents")


def test_a_relocation_keeps_its_section() -> None:
    file, index = device()
    file.relocations(2, (8, file.symbol("", index, info=build.SECTION_SYMBOL), 1, 0))
    refused(file, index, r"relocation 0 of section 3 \(\.rela\.data\) needs section 1")


@each_kind
def test_a_group_keeps_its_members(bits: int, order: str) -> None:
    file, index = device(bits=bits, order=order)
    signature = file.symbol("signature", 2)
    words = file.pack("3I", 1, 2, index)
    file.add(".group", words, type=build.GROUP, align=4, link=-1, info=signature, entsize=4)
    refused(file, index, r"section 3 \(\.group\) refers to section 1 \(\.llvm\.offloading\)")


def test_a_group_keeps_the_section_it_is_named_after() -> None:
    file, index = device()
    signature = file.symbol("", index, info=build.SECTION_SYMBOL)
    file.add(".group", file.pack("2I", 1, 2), type=build.GROUP, align=4, link=-1, info=signature, entsize=4)
    refused(file, index, r"section 3 \(\.group\) refers to section 1")


def test_a_link_keeps_its_section() -> None:
    file, index = device()
    file.add(".order", b"1234", link=index, flags=0x80)
    refused(file, index, r"section 3 \(\.order\) refers to section 1 .*; a section that others need")
    file, index = device()
    file.add(".info", b"1234", info=index, flags=build.INFO_LINK)
    refused(file, index, r"section 3 \(\.info\) refers to section 1")
    file, index = device()
    file.add(".count", b"1234", info=index)
    assert elf.remove(build.as_view(file.build()), [index])


def test_sections_that_go_together_may_need_each_other() -> None:
    file, index = device()
    other = file.add(".llvm.offloading", b"1234", type=build.OFFLOADING, link=index)
    assert elf.remove(build.as_view(file.build()), [index, other])


@pytest.mark.parametrize(("field", "value"), [("entsize", 0), ("entsize", 23), ("size", 25)])
def test_a_table_with_odd_records_is_damaged(field: str, value: int) -> None:
    file, index = device()
    file.symbol("x", 2)
    data = build.with_section(file.build(), 3, **{field: value})
    with pytest.raises(BadValue, match=r"section 3 \(\.symtab\) is no table of records of 24 bytes"):
        elf.remove(build.as_view(data), [index])


def test_too_few_wide_indices_are_damage() -> None:
    file, index = device()
    file.symbol("x", 2)
    file.add(".symtab_shndx", bytes(4), type=build.SYMTAB_SHNDX, link=-1)
    with pytest.raises(BadValue, match="has fewer indices than the table has symbols"):
        elf.remove(build.as_view(file.build()), [index])
