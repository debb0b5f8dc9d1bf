"""COFF files with sections added and removed, compared with llvm-objcopy: every byte, and every message."""

from __future__ import annotations

import itertools
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest
from tests.builders.coff import Section, Symbol, build, section_symbol
from tests.objcopy import BUNDLES, PREFIX, added, every_name, fat_and_slim, removed
from tests.reference import run, tool

from fatpack.binary.coff.reader import CoffObject
from fatpack.errors import FatpackError, HostError
from fatpack.io.source import BytesSource

pytestmark = pytest.mark.reference

C = """
int counter;
static int hidden;
static char zeros[5000];
int data = 5;
extern int other(int);
extern void perhaps(void);
#pragma weak perhaps
__attribute__((weak)) int weak(int x) { return x; }
const char *text = "hello";
double real(double x) { return x * 3.25; }
static int minus(int x) { return x - 1; }
int (*table[])(int) = {weak, minus};
int twice(int x) { hidden += x; zeros[x] = 1; if (perhaps) perhaps(); return 2 * x + counter + other(x) + text[0]; }
int *a_function_with_a_long_name(void) { return &hidden; }
"""
CPLUSPLUS = """
template <class T> T sum(T x) { static T s; s += x; return s; }
struct A { virtual ~A(); virtual int f() { return 1; } };
A::~A() {}
inline int shared = 5;
int used(int x) { try { if (x) throw 5; } catch (int y) { return y; } return sum(x) + sum<long long>(x) + shared++; }
"""
SOURCES = {"c": C, "c++": CPLUSPLUS}

TARGETS = [
    "x86_64-pc-windows-msvc",
    "i686-pc-windows-msvc",
    "aarch64-pc-windows-msvc",
    "arm64ec-pc-windows-msvc",
    "thumbv7-pc-windows-msvc",
    "x86_64-w64-mingw32",
    "i686-w64-mingw32",
    "x86_64-unknown-uefi",
]
OPTIONS = ["", "-g -gcodeview", "-gdwarf -O2 -ffunction-sections -fdata-sections", "-fcommon"]
OPTIONS += ["-Xclang -cfguard -Xclang -ehcontguard"]


def compiled(folder: Path, target: str, options: str = "", language: str = "c", name: str = "plain.obj") -> Path:
    command = [tool("clang"), f"--target={target}", *options.split(), "-c", "-x", language, "-", "-o", folder / name]
    command += ["-mno-incremental-linker-compatible"]
    done = subprocess.run(command, input=SOURCES[language].encode(), capture_output=True)
    if done.returncode:
        pytest.fail(done.stderr.decode())
    return folder / name


def assembled(folder: Path, source: str) -> Path:
    path = folder / "assembled.obj"
    command = [tool("llvm-mc"), "-filetype=obj", "-triple=x86_64-w64-mingw32", "-", "-o", path]
    done = subprocess.run(command, input=source.encode(), capture_output=True)
    if done.returncode:
        pytest.fail(done.stderr.decode())
    return path


def written(folder: Path, data: bytes, name: str = "made.obj") -> Path:
    (folder / name).write_bytes(data)
    return folder / name


def names(path: Path) -> list[str]:
    coff = CoffObject(BytesSource(path.read_bytes()).view())
    strings = coff.strings()
    return sorted({coff.name(section.stored_name, strings).decode() for section in coff.sections()})


def header(data: bytes) -> CoffObject:
    return CoffObject(BytesSource(data).view())


#: Options and languages in two halves: a target is tried with one, and with the other in the sweep.
HALVES = [[(options, [*SOURCES][(n + half) % 2]) for n, options in enumerate(OPTIONS)] for half in (0, 1)]


@pytest.mark.sweep(4)
@pytest.mark.parametrize(("target", "half"), [(target, number % 2) for number, target in enumerate(TARGETS)])
def test_objects_of_clang(target: str, half: int, tmp_path: Path) -> None:
    _objects_of_clang(target, HALVES[half], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("target", "half"), [(target, 1 - number % 2) for number, target in enumerate(TARGETS)])
def test_more_objects_of_clang(target: str, half: int, tmp_path: Path) -> None:
    _objects_of_clang(target, HALVES[half], tmp_path)


def _objects_of_clang(target: str, cases: Iterable[tuple[str, str]], tmp_path: Path) -> None:
    for number, (options, language) in enumerate(cases):
        if language == "c++" and target.startswith(("thumb", "x86_64-unknown-uefi")):
            continue  # clang 22 does not compile exceptions for them
        path = compiled(tmp_path, target, options, language, f"{number}.obj")
        fat_and_slim(path)
        # Removing a section with references is refused; removing from the middle changes the numbers of sections and
        # symbols.
        every_name(path, itertools.islice(names(path), number % 2, None, 2))


def test_sections_of_symbol_numbers_follow_the_symbols(tmp_path: Path) -> None:
    path = compiled(tmp_path, "x86_64-pc-windows-msvc", OPTIONS[-1] + " -O1")
    assert ".gfids$y" in names(path)
    fat_and_slim(path)
    removed(path, ".llvm_addrsig")
    removed(path, ".drectve")  # its symbol is the first to go
    with pytest.raises(HostError):
        removed(path, ".text")


def test_big_objects_become_classic_when_they_fit(tmp_path: Path) -> None:
    symbols = [
        Symbol(b".file", -2, 0, 103, [b"a_source_with_a_long_name.c"]),
        section_symbol(b".text", 1, 4),
        section_symbol(b".data", 2, 8),
        Symbol(b"a_function_with_a_long_name", 1),
        Symbol(b"undefined", 0),
        Symbol(b"weak", 0, 0, 105, [struct.pack("<II", 8, 3)]),
        Symbol(b"absolute", -1, 7, 3),
    ]
    sections = [Section(b".text", b"\x90" * 4, 0x60000020, [(0, 6, 4)]), Section(b".data", b"d" * 8)]
    sections.append(Section(PREFIX.encode() + b"a", b"x", 0x40000800))
    path = written(tmp_path, build(sections, symbols, big=True))
    assert header(path.read_bytes()).is_big
    assert not header(fat_and_slim(path)).is_big
    every_name(path, names(path))


@pytest.mark.parametrize(
    "count", [pytest.param(65276, marks=pytest.mark.slow), 65277, pytest.param(65279, marks=pytest.mark.slow)]
)
def test_classic_objects_become_big_when_they_do_not_fit(count: int, tmp_path: Path) -> None:
    sections = [Section(b".d%d" % (number % 40), b"d") for number in range(count - 1)]
    sections.append(Section(b".last", b"l" * 4))
    path = _high(tmp_path, sections)
    assert header(fat_and_slim(path)).is_big == (count + len(BUNDLES) > 65279)


def _high(folder: Path, sections: list[Section]) -> Path:
    """Return an object whose symbol is in its last section, whose number looks negative in 16 bits."""
    symbols = [Symbol(b".file", -2, 0, 103, [b"a.c"]), Symbol(b"high", len(sections) - 0x10000, 0, 3, [b"definition"])]
    symbols.append(Symbol(b"absolute", -1))
    sections = [*sections[:-1], sections[-1]._replace(relocations=[(0, 2, 1)])]
    return written(folder, build(sections, symbols))


def _of_many_functions(folder: Path, every: int) -> Path:
    """Return an object of many sections; of ``every`` one holds a function that calls another."""
    lines = []
    for number in range(65_300):
        lines.append(f'.section .text$f{number},"xr"')
        if number % every == 0:
            lines.append(f".globl f{number}\nf{number}: call e{number % 9}")
    path = assembled(folder, "\n".join(lines) + "\n")
    assert header(path.read_bytes()).is_big
    return path


@pytest.mark.slow
def test_many_sections_of_a_big_object(tmp_path: Path) -> None:
    path = _of_many_functions(tmp_path, 50)
    added(path)
    assert not header(removed(path, ".text$f6")).is_big


@pytest.mark.slow
def test_many_functions_of_a_big_object(tmp_path: Path) -> None:
    path = _of_many_functions(tmp_path, 1)
    fat_and_slim(path)
    assert not header(removed(path, ".text$f6")).is_big


@pytest.mark.parametrize("count", [65534, 65535, 65536, 70000])
def test_more_relocations_than_a_header_counts(count: int, tmp_path: Path) -> None:
    relocations = [(4 * number, number % 2, 1) for number in range(count)]
    sections = [Section(b".text", b"t" * 99, relocations=relocations), Section(b".data", b"d", relocations=[(0, 1, 1)])]
    symbols = [Symbol(b"gone", 3), Symbol(b"a", 0), Symbol(b"b", 2)]
    sections.append(Section(PREFIX.encode(), b"x"))
    fat_and_slim(written(tmp_path, build(sections, [symbols[1], symbols[2], symbols[0]])))
    # The first symbol goes, so every relocation changes.
    sections = [
        section._replace(relocations=[(a, s + 1, t) for a, s, t in section.relocations]) for section in sections
    ]
    removed(written(tmp_path, build(sections, symbols)))


def test_names_of_sections_after_ten_million_bytes(tmp_path: Path) -> None:
    sections = [Section(b".%d." % number + b"n" * 1000, b"d") for number in range(10_500)]
    path = written(tmp_path, build(sections, [Symbol(b"a_symbol_with_a_long_name", 1)]))
    fat = added(path)
    assert b"//" in fat[: header(fat).table_end]
    removed(path, ".99")


def test_names_that_end_or_repeat_each_other(tmp_path: Path) -> None:
    symbols = [Symbol(name, 1) for name in (b"a_long_name", b"another_a_long_name", b"long_name", b"12345678", b"")]
    symbols += [Symbol(b"9_and_more", 1), Symbol(b"another_a_long_name", 1)]
    sections = [Section(b"a_long_name", b"d"), Section(b"b", b""), Section(b"x_9_and_more", b"e", 0x42300040)]
    path = written(tmp_path, build(sections, symbols[:4] + symbols[5:]))
    wanted = ["9_and_more", "a_long_name", "a_long_name", "long_name", "b", "12345678", "x_9_and_more", "é" * 9]
    added(path, [(name, name.encode()) for name in wanted])
    every_name(path, names(path))


def test_uninitialised_data_and_code_get_bytes(tmp_path: Path) -> None:
    data = build([Section(b".bss", b"0" * 70000, 0xC0000080), Section(b".text", b"1" * 70, 0x60000020)], [])
    for at in (20, 60):  # no pointer to the contents: PointerToRawData is the sixth word of a section header
        data = data[: at + 20] + bytes(4) + data[at + 24 :]
    added(written(tmp_path, data))


def test_line_numbers_and_time_stay_as_they_are(tmp_path: Path) -> None:
    data = bytearray(build([Section(b".text", b"t" * 7, line_count=3), Section(b".data", b"d")], [Symbol(b"s", 1)]))
    struct.pack_into("<I", data, 4, 0x12345678)
    struct.pack_into("<I", data, 20 + 28, 200)
    added(written(tmp_path, bytes(data)))


def test_sections_that_go_together(tmp_path: Path) -> None:
    def definition(number: int, selection: int) -> bytes:
        return struct.pack("<IHHIHB3x", 1, 0, 0, 0, number, selection)

    sections = [Section(name, b"x", 0x40301040) for name in (b".keep", b".gone", b".with", b".second", b".other")]
    symbols = [
        Symbol(b".keep", 1, 0, 3, [definition(1, 2)]),
        Symbol(b".second", 4, 0, 3, [definition(3, 5)]),
        Symbol(b".with", 3, 0, 3, [definition(2, 5)]),
        Symbol(b".gone", 2, 0, 3, [definition(2, 2)]),
        Symbol(b".other", 5, 0, 3, [definition(1, 5)]),
        Symbol(b"tail", 5),
    ]
    path = written(tmp_path, build(sections, symbols))
    assert header(removed(path, ".gone")).section_count == 2
    assert header(removed(path, ".keep")).section_count == 3
    bad = [*symbols[:4], Symbol(b".other", 5, 0, 3, [definition(9, 5)])]
    with pytest.raises(FatpackError):
        added(written(tmp_path, build(sections, bad)))


def test_weak_symbols_whose_fallback_goes_are_refused(tmp_path: Path) -> None:
    symbols = [Symbol(b"fallback", 2), Symbol(b"weak", 0, 0, 105, [struct.pack("<II", 0, 3)])]
    path = written(tmp_path, build([Section(b".text", b"t"), Section(b".gone", b"g")], symbols))
    added(path)
    with pytest.raises(HostError, match="symbol 'weak' is missing its weak target"):
        removed(path, ".gone")


def test_an_object_without_symbols(tmp_path: Path) -> None:
    fat_and_slim(written(tmp_path, build([Section(b".text", b"t" * 5)], None)))
    fat_and_slim(written(tmp_path, build([Section(b".text", b"t" * 5)], [])))


def test_headers_and_symbols_that_lie(tmp_path: Path) -> None:
    """Wrong fields, one after the other: the same file, or a refusal on both sides."""
    data = compiled(tmp_path, "x86_64-pc-windows-msvc", "-g -gcodeview").read_bytes()
    coff = header(data)
    lies = [(coff.table_offset + 40 * n + at, lie) for n in range(coff.section_count) for at, lie in SECTION_LIES]
    lies += [(coff.symbol_offset + 18 * n + at, lie) for n in range(coff.symbol_count) for at, lie in SYMBOL_LIES]
    path = tmp_path / "lie.obj"
    refused = 0
    chosen = lies[::7]
    for at, lie in chosen:
        path.write_bytes(data[:at] + lie + data[at + len(lie) :])
        try:
            added(path, [("__x", b"content")])
            removed(path, ".debug")
        except FatpackError:
            refused += 1
    assert 0 < refused < len(chosen)


#: (place in the record, bytes)
SECTION_LIES = [(0, b".gfids$y"), (0, b"/4\0\0\0\0\0\0"), (8, b"\xff" * 8), (28, b"\x10\x20"), (34, b"\x03")]
SECTION_LIES += [(36, b"\x80\0\0\xc0"), (36, b"\x20\0\x50\x60"), (36, b"\xff\xff\x3f\xff")]
SYMBOL_LIES = [(0, bytes(8)), (0, b"\0\0\0\0\x05\0\0\0"), (0, b"a\0b\0c\0d\0"), (8, b"\xff" * 4), (12, b"\x02\0")]
SYMBOL_LIES += [(12, b"\xfe\xff"), (12, b"\x70\0"), (16, b"\x03"), (16, b"\x69"), (16, b"\x68")]


def test_others_read_what_was_added(tmp_path: Path) -> None:
    lief = pytest.importorskip("lief")
    path = compiled(tmp_path, "x86_64-pc-windows-msvc", "-g -gcodeview")
    fat = added(path)
    parsed = lief.COFF.parse(list(fat))  # its sections live no longer than it does
    sections = list(parsed.sections)[-len(BUNDLES) :]
    assert [bytes(section.content) for section in sections] == [content for _, content in BUNDLES]
    (tmp_path / "fat.obj").write_bytes(fat)
    assert run("llvm-nm", tmp_path / "fat.obj").stdout == run("llvm-nm", path).stdout
    listed = run("clang-offload-bundler", "-list", "-type=o", f"-input={tmp_path / 'fat.obj'}").stdout.decode().split()
    assert listed == [name.removeprefix(PREFIX) for name, _ in BUNDLES]


def test_the_linker_makes_the_same_program_of_the_fat_object(tmp_path: Path) -> None:
    path = compiled(tmp_path, "x86_64-pc-windows-msvc", "-O1")
    programs = []
    for data in (path.read_bytes(), added(path)):
        path.write_bytes(data)
        run("lld-link", "/dll", "/noentry", "/force:unresolved", "/Brepro", f"/out:{tmp_path / 'a.dll'}", path)
        programs.append((tmp_path / "a.dll").read_bytes())
    assert programs[0] == programs[1]


IMAGES = {
    "plain": "/dll /noentry",
    "debug": "/dll /noentry /debug",
    "file alignment": "/subsystem:console /entry:twice /filealign:4096 /debug",
    "symbols": "/dll /noentry /debug:symtab",
    "dwarf": "/subsystem:console /entry:twice /debug:dwarf",
}


@pytest.mark.sweep(4)
@pytest.mark.parametrize("options", IMAGES.values(), ids=IMAGES)
@pytest.mark.parametrize("target", ["x86_64-pc-windows-msvc", "i686-pc-windows-msvc", "aarch64-pc-windows-msvc"])
def test_images(target: str, options: str, tmp_path: Path) -> None:
    if target.startswith("i686"):
        options = options.replace(":twice", ":_twice").replace("/dll", "/safeseh:no /dll")
    path = compiled(tmp_path, target, "-gdwarf" if "dwarf" in options else "-gcodeview -g")
    image = tmp_path / "image.dll"
    run("lld-link", *options.split(), "/nodefaultlib", "/force:unresolved", "/safeseh:no", f"/out:{image}", path)
    fat_and_slim(image)
    # One of them holds the debug directory, without which it cannot be written.
    every_name(image, [".text", ".rdata", ".data", ".reloc", ".debug", ".build", ".pdata"])


@pytest.mark.parametrize("emulation", ["i386pep", "i386pe"])
def test_images_of_mingw(emulation: str, tmp_path: Path) -> None:
    target = "x86_64-w64-mingw32" if emulation == "i386pep" else "i686-w64-mingw32"
    path = compiled(tmp_path, target, "-g")
    (tmp_path / "other.c").write_text("int other(int x) { return x; } void perhaps(void) {}")
    run("clang", f"--target={target}", "-c", tmp_path / "other.c", "-o", tmp_path / "other.o")
    image = tmp_path / "image.dll"
    run("ld.lld", "-m", emulation, "-shared", "-e", "twice", path, tmp_path / "other.o", "-o", image)
    fat_and_slim(image)
    every_name(image, [".text", ".debug_info", ".reloc"])
