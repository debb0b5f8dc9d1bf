"""Bytes of an image that its digests cover: each class of bytes is changed, and the table has the expected effect.

``moves``: every byte counts, because a launch or its result depends on it. ``quiet``: none does, because it states the
where code came from, or where it lies. ``some``: numbers that are looked at beside others that are not.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fatpack import images
from fatpack.binary.elf.device_elf import DeviceElfSections
from fatpack.binary.elf.layout import NOBITS
from fatpack.errors import FatpackError
from fatpack.io.source import BytesSource

KERNELS = Path(__file__).parents[1] / "fixtures" / "kernels"

#: section, what must follow when its bytes change, why
CUBIN = (
    (r"\.text\..*", "moves", "what runs"),
    (r"\.nv\.constant\d.*", "moves", "constants, and the place of parameters"),
    (r"\.nv\.info\..*", "some", "parameters, bounds, barriers; not the version of CUDA's API, nor a symbol's number"),
    (r"\.nv\.info", "moves", "registers and stack of each function"),
    (r"\.nv\.global\.init", "moves", "initial values of variables"),
    (r"\.nv\.callgraph", "some", "what a kernel calls counts by what that does"),
    (r"\.(str|sym)tab|\.shstrtab", "some", "names and sizes of kernels and variables; not those of debug sections"),
    (r"\.rela?\.text.*|\.rela?\.nv\.constant.*", "some", "what is put into code and constants"),
    (r"\.note\.nv\..*", "some", "the head of notes; not tools, their versions and options"),
    (r"\.debug_.*|\.rela?\.debug_.*|\.nv_debug_.*", "quiet", "lines, names of files, and how to unwind"),
    (r"\.nv\.rel\.action|\.nv\.prototype", "quiet", "how a linker treats relocations and calls through pointers"),
    (r"\.nv\.compat", "quiet", "for which SM, which is told apart from other architectures already"),
)
CODE_OBJECT = (
    (r"\.text", "moves", "what runs"),
    (r"\.rodata", "some", "descriptors and constants; not where the code is from a descriptor"),
    (r"\.note", "some", "parameters, registers, memory, bounds; not names of parameters, nor the version of notes"),
    (r"\.dynsym|\.dynstr", "some", "names and places of kernels"),
    (r"\.hash|\.gnu\.hash|\.dynamic", "quiet", "how symbols are found faster"),
    (r"\.comment", "quiet", "tools and their versions"),
    (r"\.symtab|\.strtab", "quiet", "symbols for debuggers, where there are dynamic ones"),
    (r"\.shstrtab", "some", "names of sections that are read"),
)

#: bytes of each section that are changed, spread over it
SAMPLES = 14


def answer(data: bytes, form: str) -> object:
    try:
        view = BytesSource(data).view()
        return images.code_digests(view, form, images.kernel_facts(view, form))
    except FatpackError as error:
        return type(error)


@pytest.mark.parametrize("name", ["needs.cuda13.0.sm_75.cubin", "needs.v5.gfx1100.hsaco", "needs.v6.gfx90a.hsaco"])
def test_each_class_of_bytes(name: str) -> None:
    form, table = ("cubin", CUBIN) if name.endswith(".cubin") else ("code-object", CODE_OBJECT)
    data = bytearray((KERNELS / name).read_bytes())
    before = answer(bytes(data), form)
    assert isinstance(before, tuple)
    covered: dict[str, set[bool]] = {}
    for row in DeviceElfSections(BytesSource(bytes(data)).view()).rows:
        if not row.size or row.type in (0, NOBITS):
            continue
        (expected,) = (what for pattern, what, _ in table if re.fullmatch(pattern, row.name))
        moves = covered.setdefault(f"{row.name}: {expected}", set())
        for at in range(row.offset, row.offset + row.size, max(row.size // SAMPLES, 1)):
            data[at] ^= 1
            moves.add(answer(bytes(data), form) != before)
            data[at] ^= 1
    wrong = {
        section: moves
        for section, moves in covered.items()
        if moves != {"moves": {True}, "quiet": {False}}.get(section.rpartition(" ")[2], moves)
    }
    assert not wrong
    assert len(covered) > 8


@pytest.mark.parametrize("name", ["needs.cuda13.0.sm_75.cubin", "needs.v5.gfx1100.hsaco"])
@pytest.mark.parametrize(("at", "moves"), [(7, True), (8, True), (49, True), (20, False), (24, False)])
def test_the_header_counts_as_far_as_a_driver_asks(name: str, at: int, moves: bool) -> None:
    """EI_OSABI, EI_ABIVERSION and e_flags say how code is loaded, and where; e_version and e_entry do not."""
    data = bytearray((KERNELS / name).read_bytes())
    form = "cubin" if name.endswith(".cubin") else "code-object"
    before = answer(bytes(data), form)
    data[at] ^= 2
    assert (answer(bytes(data), form) != before) == moves
