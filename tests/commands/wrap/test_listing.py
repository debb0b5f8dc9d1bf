"""The listings against the assembler: every byte, every place for the linker and every frame is what llvm-mc makes of
the assembly that stands beside it.
"""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from tests.reference import package, run

from fatpack.commands.wrap.code.template import (
    FUNCTIONS,
    LinkerFixup,
    RegistrationCode,
    assemble,
    binary_program,
    descriptor_program,
    fatbin_program,
)
from fatpack.commands.wrap.code.unwinding import eh_frame, windows_unwind
from fatpack.commands.wrap.objects.coff import _RELOCATIONS
from fatpack.commands.wrap.objects.elf import _BEFORE_END, MACHINES
from fatpack.commands.wrap.registration import entry_layout

TRIPLES = {
    "x86_64": "x86_64-unknown-linux-gnu",
    "aarch64": "aarch64-unknown-linux-gnu",
    "x86_64-windows": "x86_64-pc-windows-msvc",
}
PROGRAMS = {
    "cuda": lambda processor: fatbin_program(processor, "cuda", entry_layout("cuda", 22).fields),
    "hip": lambda processor: fatbin_program(processor, "hip", entry_layout("hip", 22).fields),
    "cuda 19": lambda processor: fatbin_program(processor, "cuda", entry_layout("cuda", 19).fields),
    "hip 19": lambda processor: fatbin_program(processor, "hip", entry_layout("hip", 19).fields),
    "openmp": lambda processor: descriptor_program(processor, "__tgt", at_exit=True),
    "sycl 22": lambda processor: descriptor_program(processor, "__sycl", at_exit=False),
    "sycl 23": lambda processor: binary_program(processor, "__sycl", 0x1234ABCD),
}
each_program = pytest.mark.parametrize("kind", PROGRAMS)


def assembly(program: RegistrationCode, processor: str) -> str:
    """Return the right column of a listing, with its labels, as llvm-mc takes it."""
    begin, end = (".seh_proc {}", ".seh_endproc") if "windows" in processor else (".cfi_startproc", ".cfi_endproc")
    align = ".p2align 4, 0x90" if "x86" in processor else ".p2align 2"
    lines = [".intel_syntax noprefix"] if "x86" in processor else []
    open_function = False
    for line in program.listing.splitlines():
        left, _, right = line.strip().partition("  ")
        if left.endswith(":"):
            if left[:-1] in FUNCTIONS:
                lines += [end] * open_function + [align, left, begin.format(left[:-1])]
                open_function = True
            else:
                lines.append(left)
        else:
            lines.append(right.strip() or left)
    return "\n".join((*lines, end, ""))


def made(program: RegistrationCode, processor: str, tmp_path: Path) -> bytes:
    """Return the object that llvm-mc makes of the assembly."""
    source, target = tmp_path / "a.s", tmp_path / "a.o"
    source.write_text(assembly(program, processor))
    extra = ["-mattr=+pauth"] if processor == "aarch64" else []
    run("llvm-mc", f"-triple={TRIPLES[processor]}", *extra, "-filetype=obj", source, "-o", target)
    return target.read_bytes()


def relocations(elf: ELFFile, section: str) -> list[tuple[int, int, str, int]]:
    """Return offset, type, symbol and addend of what the linker fills in; a section's symbol is called ``code``."""
    table = elf.get_section_by_name(f".rela{section}")
    assert isinstance(table, RelocationSection)
    symbols = elf.get_section(table["sh_link"])
    return [
        (
            item["r_offset"],
            item["r_info_type"],
            symbols.get_symbol(item["r_info_sym"]).name or "code",
            item["r_addend"],
        )
        for item in table.iter_relocations()
    ]


@pytest.mark.parametrize("processor", ["x86_64", "aarch64"])
@each_program
def test_elf_code_is_what_llvm_mc_makes_of_its_assembly(processor: str, kind: str, tmp_path: Path) -> None:
    program = PROGRAMS[kind](processor)
    elf = ELFFile(io.BytesIO(made(program, processor, tmp_path)))
    code = program.code(processor)
    assert code.data.hex(" ") == elf.get_section_by_name(".text").data().hex(" ")
    functions = {item.name: item.offset for item in code.functions}
    numbers = MACHINES[processor].relocations

    def expected(fixup: LinkerFixup) -> tuple[int, int, str, int]:
        addend = fixup.addend + _BEFORE_END.get(fixup.kind, 0)
        # The assembler refers to local functions by their section.
        symbol, addend = (
            ("code", addend + functions[fixup.symbol]) if fixup.symbol in functions else (fixup.symbol, addend)
        )
        return fixup.offset, numbers[fixup.kind], symbol, addend

    assert [expected(item) for item in code.fixups] == relocations(elf, ".text")
    frames, fixups = eh_frame(code, processor)
    assert frames.hex(" ") == elf.get_section_by_name(".eh_frame").data().hex(" ")
    assert [expected(item) for item in fixups] == relocations(elf, ".eh_frame")


@each_program
def test_coff_code_is_what_llvm_mc_makes_of_its_assembly(kind: str, tmp_path: Path) -> None:
    lief = package("lief")
    program = PROGRAMS[kind]("x86_64-windows")
    coff = lief.COFF.parse(list(made(program, "x86_64-windows", tmp_path)))
    sections = {section.name: section for section in coff.sections}
    code = program.code("x86_64-windows")
    table, fixups, records = windows_unwind(code)
    assert code.data.hex(" ") == bytes(sections[".text"].content).hex(" ")
    assert records.hex(" ") == bytes(sections[".xdata"].content).hex(" ")
    # The addend of an address is stored in the bytes themselves.
    filled = bytearray(table)
    for item in fixups:
        filled[item.offset : item.offset + 4] = item.addend.to_bytes(4, "little")
    assert [(item.offset, _RELOCATIONS[item.kind][0]) for item in code.fixups] == [
        (item.address, item.type.value & 0xFFFF) for item in sections[".text"].relocations
    ]
    assert len(filled) == len(sections[".pdata"].content) == 12 * len(code.functions)


@pytest.mark.parametrize(
    ("listing", "error"),
    [
        ("register:\n90", ValueError),
        ("register:\ne9 <local32 nowhere>  jmp nowhere", KeyError),
        ("register:\nbe <u32 size>  mov esi, size", KeyError),
        ("register:\ne8 <call99 atexit>  call atexit", KeyError),
    ],
)
def test_mistakes_in_listings_are_errors(listing: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        assemble(listing, {}, align=16, padding=b"\x90")


def test_jumps_go_to_the_places_that_they_name() -> None:
    listing = "register:\n0f 84 <local32 done>  je done\nagain:\n90  nop\ne9 <local32 again>  jmp again\ndone:\nc3  ret"
    code = assemble(listing, {}, align=16, padding=b"\x90")
    assert code.data.hex(" ") == "0f 84 06 00 00 00 90 e9 fa ff ff ff c3"
    listing = "register:\n01 00 00 54 <branch19 done>  b.ne done\n00 00 00 14 <branch26 register>  b register\ndone:\n"
    code = assemble(listing, {}, align=4, padding=b"\0")
    assert code.data.hex(" ") == "41 00 00 54 ff ff ff 17"
