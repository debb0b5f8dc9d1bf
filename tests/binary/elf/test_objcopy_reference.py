"""ELF files with sections added and removed, compared with llvm-objcopy: every byte, and every message."""

from __future__ import annotations

import io
import itertools
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.builders import elf as build
from tests.objcopy import BUNDLES, PREFIX, added, every_name, fat_and_slim, removed
from tests.reference import run, tool

from fatpack.binary.elf.file import ElfFile
from fatpack.errors import HostError
from fatpack.io.source import BytesSource

pytestmark = pytest.mark.reference

C = """
extern int other(int);
static int hidden = 5;
static const char text[] = "hello";
int shared, table[3] = {1, 2, 3}, *inner = &table[1];
char zeros[4000];
__thread int own = 3, own_zero;
__attribute__((weak)) int perhaps;
__attribute__((section("special"))) int placed = 4;
const char *where(void) { return text; }
int use(int x) { shared += hidden++; return other(x) + *inner + where()[1] + own + own_zero; }
__attribute__((constructor)) static void start(void) { shared = placed; }
void _start(void) { for (;;) use(3); }
"""
#: Templates, inline variables and virtual tables make COMDAT groups, exceptions more sections
CPLUSPLUS = """
template <class T> T sum(T x) { static T s; s += x; return s; }
struct A { virtual ~A(); virtual int f() { return 1; } };
A::~A() {}
inline int shared = 5;
thread_local int mine = 4;
int used(int x) { try { if (x) throw 5; } catch (int y) { return y; } return sum(x) + sum<long>(x) + shared++ + mine; }
"""

TARGETS = ["x86_64-linux-gnu", "i386-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu", "powerpc-linux-gnu"]
TARGETS += ["s390x-linux-gnu", "mips64el-linux-gnuabi64"]
MORE_TARGETS = ["aarch64_be-linux-gnu", "armv7-linux-gnueabi", "hexagon-unknown-elf", "loongarch64-linux-gnu"]
MORE_TARGETS += ["mips-linux-gnu", "powerpc64le-linux-gnu", "riscv32-linux-gnu", "sparcv9-linux-gnu"]
#: options → languages to test them with
OPTIONS = {
    "": "c c++",
    "-g -ffunction-sections -fdata-sections": "c c++",
    "-g -gz=zlib -gdwarf-4 -fdebug-types-section": "c++",
    "-g -gz=zstd -fcommon": "c",
    "-faddrsig -fstack-size-section": "c",
}
SOURCES = {"c": C, "c++": CPLUSPLUS}


def compiled(folder: Path, options: str, language: str = "c", *, compiler: str = "clang", name: str = "") -> Path:
    path = folder / (name or f"{language}{'.'.join(options.split())}.o")
    command = [tool(compiler), *options.split(), "-c", "-O1", "-x", language, "-", "-o", str(path)]
    done = subprocess.run(command, input=SOURCES[language].encode(), capture_output=True)
    if done.returncode:
        pytest.fail(done.stderr.decode())
    return path


def assembled(folder: Path, name: str, source: str, *options: str) -> Path:
    path = folder / name
    command = [tool("llvm-mc"), "-filetype=obj", *(options or ("-triple=x86_64-linux-gnu",)), "-", "-o", str(path)]
    done = subprocess.run(command, input=source.encode(), capture_output=True)
    if done.returncode:
        pytest.fail(done.stderr.decode())
    return path


def described(folder: Path, name: str, yaml: str) -> Path:
    """Return a file from a description in YAML; ``FileHeader`` and ``Sections`` are added."""
    path = folder / name
    command = [tool("yaml2obj"), "-", "-o", str(path)]
    text = "--- !ELF\nFileHeader: {Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_REL, Machine: EM_X86_64}\n" + yaml
    done = subprocess.run(command, input=text.encode(), capture_output=True)
    if done.returncode:
        pytest.fail(done.stderr.decode())
    return path


def names(path: Path) -> list[str]:
    elf = ElfFile(BytesSource(path.read_bytes()).view())
    return sorted({elf.name(section) for section in elf.sections()} - {""})


def _combinations(options: dict[str, str]) -> list[tuple[str, str]]:
    return [(option, language) for option, languages in options.items() for language in languages.split()]


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("number", "target"), list(enumerate(TARGETS)))
def test_objects_of_clang(number: int, target: str, tmp_path: Path) -> None:
    """Each target has every third of the options, from a different start: the sweep tries all."""
    _objects_of_clang(target, _combinations(OPTIONS)[number % 3 :: 3], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", [*TARGETS, *MORE_TARGETS])
def test_objects_of_clang_with_all_options(target: str, tmp_path: Path) -> None:
    _objects_of_clang(target, _combinations(OPTIONS), tmp_path)


def _objects_of_clang(target: str, cases: Iterable[tuple[str, str]], tmp_path: Path) -> None:
    for number, (options, language) in enumerate(cases):
        path = compiled(tmp_path, f"--target={target} -fexceptions {options}", language, name=f"{number}.o")
        fat_and_slim(path)
        # Removing a section with references is refused, others are removed; from the middle, numbers change.
        every_name(path, itertools.islice(names(path), number % 3, None, 3))


@pytest.mark.sweep(4)
@pytest.mark.parametrize(
    "options", ["", "-g -ffunction-sections", "-g -gz -m32", "-flto -ffat-lto-objects", "-fcommon"]
)
@pytest.mark.parametrize("language", ["c", "c++"])
def test_objects_of_gcc(options: str, language: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, options, language, compiler="gcc")
    fat_and_slim(path)
    every_name(path, names(path)[::2])


def test_relocations_in_crel_encoding(tmp_path: Path) -> None:
    for target in ("x86_64-linux-gnu", "i386-linux-gnu", "powerpc64-linux-gnu"):
        options = f"--target={target} -Wa,--crel,--allow-experimental-crel -ffunction-sections -g -fexceptions"
        for language in ("c", "c++"):
            path = compiled(tmp_path, options, language)
            fat_and_slim(path)
            every_name(path, names(path)[::3])


@pytest.mark.parametrize("linker", ["ld.lld", "ld.bfd", "ld.gold"])
def test_partially_linked_objects_have_symbols_of_the_sections_that_go(linker: str, tmp_path: Path) -> None:
    fat = tmp_path / "fat.o"
    fat.write_bytes(added(compiled(tmp_path, "--target=x86_64-linux-gnu -g")))
    other = compiled(tmp_path, "--target=x86_64-linux-gnu -ffunction-sections -fexceptions", "c++")
    run(linker, "-r", "-o", tmp_path / "both.o", fat, other)
    fat_and_slim(tmp_path / "both.o")
    slim = removed(tmp_path / "both.o")
    assert PREFIX.encode() not in slim


LINKED = {
    "executable": "",
    "shared": "-shared -z relro -z now --hash-style=sysv",
    "pie": "-pie",
    "with relocations": "--emit-relocs",
    "stripped": "-s",
    "one segment": "-N",
    "no separate code": "-z noseparate-code",
    "aligned": "-z max-page-size=65536 --image-base=0x10000000",
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("options", LINKED.values(), ids=LINKED)
@pytest.mark.parametrize(
    "target", ["x86_64-linux-gnu", "i386-linux-gnu", "powerpc64-linux-gnu", "mips-linux-gnu", "riscv64-linux-gnu"]
)
def test_programs_of_lld(target: str, options: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, f"--target={target} -g -fPIC -ffunction-sections")
    program = tmp_path / "program"
    run("ld.lld", *options.split(), "--unresolved-symbols=ignore-all", path, "-o", program)
    fat_and_slim(program)
    every_name(program, names(program)[::4])


@pytest.mark.sweep(3)
@pytest.mark.parametrize("options", ["", "-static-pie", "-fuse-ld=gold", "-shared -fPIC", "-s", "-no-pie -g"])
def test_programs_of_gnu_linkers(options: str, tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }")
    run("gcc", source, *options.split(), "-o", tmp_path / "program")
    fat_and_slim(tmp_path / "program")
    every_name(tmp_path / "program", names(tmp_path / "program")[::4])


def test_static_programs_whose_relocations_name_the_symbol_table_are_refused(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("int main(void) { return 0; }")
    run("gcc", tmp_path / "main.c", "-static", "-o", tmp_path / "program")
    with pytest.raises(HostError, match=r"section .rela.plt is not a symbol table"):
        added(tmp_path / "program")


def test_files_of_debug_information(tmp_path: Path) -> None:
    path = compiled(tmp_path, "--target=x86_64-linux-gnu -g -fPIC")
    run("ld.lld", "-shared", "--unresolved-symbols=ignore-all", path, "-o", tmp_path / "lib.so")
    run("llvm-objcopy", "--only-keep-debug", tmp_path / "lib.so", tmp_path / "lib.debug")
    run("llvm-strip", tmp_path / "lib.so", "-o", tmp_path / "lib.stripped")
    for name in ("lib.debug", "lib.stripped"):
        fat_and_slim(tmp_path / name)


#: around 0xff00, where section numbers no longer fit into symbols
@pytest.mark.sweep(99)
@pytest.mark.parametrize("count", [65276, 65270, 65290])
def test_section_numbers_that_do_not_fit_into_symbols(count: int, tmp_path: Path) -> None:
    lines = [f'.section {PREFIX}a,"e",@progbits\n.byte 1']
    lines += [f'.section .d{number % 50},"aw",@progbits,unique,{number}\n.byte 5' for number in range(count)]
    lines += [
        '.section last,"aw",@progbits\n.globl symbol\nsymbol: .byte 1',
        f'.section {PREFIX}b,"e",@progbits\n.byte 1',
    ]
    path = assembled(tmp_path, "many.o", "\n".join(lines))
    fat_and_slim(path)
    removed(path, ".d3")


def _of_many_functions(folder: Path, triple: str) -> Path:
    # Each with its relocations makes two sections.
    lines = [f'.section .text.f{n},"ax",@progbits\n.globl f{n}\nf{n}: .long e{n % 7}' for n in range(32700)]
    return assembled(folder, f"{triple}.o", "\n".join(lines), f"-triple={triple}")


@pytest.mark.slow
def test_more_sections_of_either_byte_order_than_a_header_counts(tmp_path: Path) -> None:
    added(_of_many_functions(tmp_path, "x86_64-linux-gnu"))
    removed(_of_many_functions(tmp_path, "powerpc-linux-gnu"), ".text.f32")


@pytest.mark.slow
@pytest.mark.parametrize("triple", ["x86_64-linux-gnu", "powerpc-linux-gnu"])
def test_so_many_sections_come_and_go(triple: str, tmp_path: Path) -> None:
    path = _of_many_functions(tmp_path, triple)
    fat_and_slim(path)
    removed(path, ".text.f32")


def test_names_that_end_or_repeat_each_other(tmp_path: Path) -> None:
    source = (
        ".globl ab, x, zab, cab\nab: x: zab: cab: .long missing_b\n.section b\n.byte 1\n.section .text.b\n.byte 2\n"
    )
    path = assembled(tmp_path, "names.o", source)
    sections = ["b", "ab", "cab", "cab", ".text.b", "shstrtab", ".strtab", "é", "x" * 3000, "text.b"]
    added(path, [(name, name.encode()) for name in sections])
    # Equal names, and the name of a section of zeros: both get the flags, and the zeros become bytes of the file.
    path = assembled(tmp_path, "zeros.o", '.bss\n.zero 100\n.section .tbss,"awT",@nobits\n.zero 9\n.data\n.byte 1\n')
    added(path, [(".bss", b"content"), (".tbss", b""), (".data", b"d"), (".data", b"e")])


@pytest.mark.parametrize(
    "content",
    [b"", bytes.fromhex("04000000 04000000 01000000 474e5500 61626364"), b"short", b"n" * 13, b"n" * 16],
)
def test_notes_are_checked(content: bytes, tmp_path: Path) -> None:
    path = assembled(tmp_path, "note.o", "nop")
    if content[1:] and content[0] != 4:
        with pytest.raises(HostError):
            added(path, [(".note.mine", content)])
    else:
        added(path, [(".note.mine", content), (".note.GNU-stack", b"x")])


SYMTAB = "{Name: .symtab, Type: SHT_SYMTAB, Link: .strtab}"
CODE = "{Name: .text, Type: SHT_PROGBITS, Flags: [SHF_ALLOC], Content: '90c3'}"
DESCRIBED = {
    "an empty group": f"[{CODE}, {{Name: .group, Type: SHT_GROUP, Link: .symtab, Info: s, Members: "
    "[{SectionOrType: GRP_COMDAT}]}]\nSymbols: [{Name: s, Section: .text}]",
    "a group without symbols": f"[{CODE}, {{Name: .group, Type: SHT_GROUP, Link: 0, Info: 0, Members: "
    "[{SectionOrType: GRP_COMDAT}, {SectionOrType: .text}]}]",
    "a group of a local symbol": f"[{CODE}, {{Name: .group, Type: SHT_GROUP, Link: .symtab, Info: s, Members: "
    "[{SectionOrType: GRP_COMDAT}, {SectionOrType: .text}]}]\nSymbols: [{Name: s, Section: .text}]",
    "locals behind globals": f"[{CODE}, {{Name: .addrsig, Type: SHT_LLVM_ADDRSIG, Link: .symtab, Content: '01'}}, "
    "{Name: .rela.text, Type: SHT_RELA, Link: .symtab, Info: .text, Relocations: [{Offset: 1, Symbol: b, "
    "Type: R_X86_64_32}]}]\nSymbols: [{Name: g, Section: .text, Binding: STB_GLOBAL}, {Name: a}, "
    "{Name: b, Section: .text}, {Name: h, Binding: STB_WEAK}]",
    "an order of sections": f"[{CODE}, {{Name: .ordered, Type: SHT_PROGBITS, Flags: [SHF_ALLOC, SHF_LINK_ORDER], "
    "Link: .text, Content: '00'}]",
    "strings nobody refers to": f"[{CODE}, {{Name: .mystr, Type: SHT_STRTAB, Content: '006100'}}, "
    "{Name: .loaded, Type: SHT_STRTAB, Flags: [SHF_ALLOC], Content: '006100'}]",
    "odd alignment": f"[{CODE}, {{Name: .a, Type: SHT_PROGBITS, AddressAlign: 24, Content: '01'}}, "
    "{Name: .b, Type: SHT_NOBITS, AddressAlign: 4096, Size: 9}, {Name: .c, Type: SHT_PROGBITS, AddressAlign: 0}]",
    "overlapping offsets": f"[{CODE}, {{Name: .a, Type: SHT_PROGBITS, Content: '0102030405060708'}}, "
    "{Name: .b, Type: SHT_PROGBITS, ShOffset: 0x42, ShSize: 4}, {Name: .c, Type: SHT_PROGBITS, Content: '09'}]",
    "an own entry size": f"[{CODE}, {{Name: .odd, Type: SHT_PROGBITS, EntSize: 0x100000007, Info: 2, Content: '01'}}]",
    "absolute and common symbols": f"[{CODE}]\nSymbols: [{{Name: a, Index: SHN_ABS, Value: 5}}, "
    "{Name: c, Index: SHN_COMMON, Value: 8, Binding: STB_GLOBAL}, {Name: f, Type: STT_FILE, Index: SHN_ABS}]",
    "no symbols at all": f"[{CODE}]",
    "no null symbol alone": f"[{CODE}]\nSymbols: []",
    "a note": f"[{CODE}, "
    "{Name: .note.x, AddressAlign: 4, Type: SHT_NOTE, Notes: [{Name: AB, Desc: '0123', Type: 3}]}]",
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("yaml", DESCRIBED.values(), ids=DESCRIBED)
def test_what_compilers_do_not_write(yaml: str, tmp_path: Path) -> None:
    path = described(tmp_path, "made.o", f"Sections: {yaml}\n")
    fat_and_slim(path)
    every_name(path, names(path))


def test_programs_with_an_empty_symbol_table_lose_it(tmp_path: Path) -> None:
    header = "{Class: ELFCLASS64, Data: ELFDATA2LSB, Type: ET_DYN}"
    text = f"--- !ELF\nFileHeader: {header}\nSections: [{CODE}]\nSymbols: []\n"
    done = subprocess.run([tool("yaml2obj"), "-"], input=text.encode(), capture_output=True)
    path = tmp_path / "empty.so"
    path.write_bytes(done.stdout)
    before, after = (len(list(ElfFile(BytesSource(data).view()).rows())) for data in (done.stdout, added(path)))
    assert after == before - 2 + len(BUNDLES)


@pytest.mark.sweep(99)
@pytest.mark.parametrize(("bits", "order"), [(32, "little"), (32, "big"), (64, "little"), (64, "big")])
def test_headers_that_lie(bits: int, order: str, tmp_path: Path) -> None:
    """Wrong fields of small objects, one after the other: the same file, or a refusal on both sides."""
    file = build.device_object(bits=bits, order=order, machine=build.AARCH64)
    file.add(".group", file.pack("2I", 1, 3), type=build.GROUP, align=4, link=-1, info=2, entsize=4)
    data = file.build()
    path = tmp_path / "lie.o"
    count = ElfFile(BytesSource(data).view()).section_count
    lies = {
        "type": (0, 1, 3, 7, 8, 17),
        "flags": (0, 2, 0x200, 0x800),
        "link": (0, 1, 7, count),
        "info": (0, 2, count),
        "addralign": (0, 3, 64),
        "entsize": (0, 8, 24),
        "addr": (0x1000,),
    }
    refused = 0
    for index, (field, values) in itertools.product(range(1, count), lies.items()):
        value = values[(index + len(field)) % len(values)]
        path.write_bytes(build.with_section(data, index, **{field: value}))
        try:
            added(path, [("__x", b"content")])
            removed(path, ".d")
        except Exception as error:  # noqa: BLE001  (any other exception is the failure)
            assert type(error).__module__ == "fatpack.errors", error
            refused += 1
    assert 0 < refused < count * len(lies)


def test_others_read_what_was_added(tmp_path: Path) -> None:
    lief = pytest.importorskip("lief")
    elftools = pytest.importorskip("elftools.elf.elffile")
    path = compiled(tmp_path, "--target=x86_64-linux-gnu -g")
    fat = added(path)
    parsed = elftools.ELFFile(io.BytesIO(fat))
    for name, content in BUNDLES:
        section = parsed.get_section_by_name(name)
        assert (section.data(), section["sh_flags"], section["sh_type"]) == (content, build.EXCLUDE, "SHT_PROGBITS")
    binary = lief.parse(list(fat))
    assert [section.name for section in binary.sections][-3:] == [name for name, _ in BUNDLES]
    old = elftools.ELFFile(io.BytesIO(path.read_bytes()))
    for table in (".symtab", ".rela.text"):
        before, after = (each.get_section_by_name(table) for each in (old, parsed))
        assert after.data_size == before.data_size
    symbols = [[symbol.name for symbol in each.get_section_by_name(".symtab").iter_symbols()] for each in (old, parsed)]
    assert symbols[0] == symbols[1]


@pytest.mark.parametrize("linker", ["ld.lld", "ld.bfd"])
def test_linkers_make_the_same_program_of_the_fat_object(linker: str, tmp_path: Path) -> None:
    path = compiled(tmp_path, "--target=x86_64-linux-gnu -ffreestanding -fno-stack-protector")
    programs = []
    for data in (path.read_bytes(), added(path)):
        path.write_bytes(data)
        run(linker, "--unresolved-symbols=ignore-all", "-o", tmp_path / "program", path)
        programs.append((tmp_path / "program").read_bytes())
    assert programs[0] == programs[1]
