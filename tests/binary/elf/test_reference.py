"""Edited objects read by other tools: three linkers, two readelfs, LLVM's offloading tools, LIEF and pyelftools.

The strongest check is with linkers: an edited object must give the same output, byte for byte, as the object that was
never edited.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.builders import elf as build
from tests.reference import run, tool

from fatpack.binary import CodeSection, elf
from fatpack.binary.elf.editor.append import NewSection, embed_sections
from fatpack.binary.elf.file import ElfFile
from fatpack.io.atomic_write import file_mode, write_file
from fatpack.io.open import open_source

pytestmark = pytest.mark.reference

MAIN = """
extern int other(int);
static int hidden = 5;
static const char text[] = "hello";
int shared, table[3] = {1, 2, 3}, *inner = &table[1];
const char *where(void) { return text; }
int use(int x) { shared += hidden++; return other(x) + *inner + where()[1]; }
__attribute__((weak)) int perhaps;
"""
OTHER = "int other(int x) { return x * 2; } int more[100];"
START = "void _start(void) { for (;;) use(3); }"
PROGRAM = """
#include <stdio.h>
int use(int);
int main(void) { printf("%d\\n", use(4)); return 0; }
"""

#: target → linkers on an ordinary x86-64 machine that know it
TARGETS = {
    "x86_64-linux-gnu": ["ld.lld", "ld.bfd", "ld.gold"],
    "i386-linux-gnu": ["ld.lld", "ld.bfd -m elf_i386", "ld.gold -m elf_i386"],
    "aarch64-linux-gnu": ["ld.lld"],
    "armv7-linux-gnueabi": ["ld.lld"],
    "mips-linux-gnu": ["ld.lld"],
    "mips64el-linux-gnuabi64": ["ld.lld"],
    "powerpc-linux-gnu": ["ld.lld"],
    "powerpc64le-linux-gnu": ["ld.lld"],
    "riscv64-linux-gnu": ["ld.lld"],
    "s390x-linux-gnu": ["ld.lld"],
}
OPTIONS = [[], ["-g"], ["-ffunction-sections", "-fdata-sections"]]


def compiled(folder: Path, name: str, source: str, *options: str, compiler: str = "clang", language: str = "c") -> Path:
    path = folder / name
    command = [tool(compiler), "-c", "-O1", *options, "-x", language, "-", "-o", str(path)]
    done = subprocess.run(command, input=source.encode(), capture_output=True, cwd=folder)
    if done.returncode:
        pytest.fail(done.stderr.decode())
    return path


def edited(path: Path, name: str, changes: dict[int, list[bytes] | None] | None = None, embed: bytes = b"") -> Path:
    """Write a verified edit of an object next to it, and return its path."""
    result = path.with_name(name)
    with open_source(path) as source:
        before = source.view()
        pieces = elf.edit(before, changes) if changes is not None else elf.embed(before, [embed])  # type: ignore[arg-type]
        write_file(
            result,
            pieces,
            force=True,
            mode=file_mode(before),
            verify=lambda after: elf.verify(before, after, edited=list(changes or ())),
        )
    return result


def device_sections(path: Path) -> list[tuple[int, bytes]]:
    with open_source(path) as source:
        sites = [item for item in elf.locate(source.view()) if isinstance(item, CodeSection)]
        return [(site.index or 0, site.data.tobytes()) for site in sites]


def linked(linker: str, *inputs: Path, options: tuple[str, ...] = ()) -> bytes:
    name, *mode = linker.split()
    output = inputs[0].with_suffix(".linked")
    run(name, *mode, *options, "-o", output, *inputs)
    return output.read_bytes()


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An offload binary with one image, made by LLVM's tool."""
    folder = tmp_path_factory.mktemp("container")
    (folder / "image.o").write_bytes(bytes(range(256)) * 20)
    run(
        "llvm-offload-binary",
        "-o",
        folder / "one.bin",
        f"--image=file={folder}/image.o,triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=hip",
    )
    return folder / "one.bin"


@pytest.mark.sweep(4)
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "debug", "function-sections"])
@pytest.mark.parametrize("target", TARGETS)
def test_linkers_make_the_same_file_from_the_edited_object(
    target: str, options: list[str], container: Path, tmp_path: Path
) -> None:
    blob = container.read_bytes()
    freestanding = (f"--target={target}", "-ffreestanding", "-fno-stack-protector", *options)
    plain = compiled(tmp_path, "plain.o", MAIN + START, *freestanding)
    other = compiled(tmp_path, "other.o", OTHER, *freestanding)
    fat = compiled(tmp_path, "fat.o", MAIN + START, *freestanding, "-Xclang", f"-fembed-offload-object={container}")
    ((fat_index, stored),) = device_sections(fat)
    assert stored == blob

    with_section = edited(plain, "with.o", embed=blob)
    ((index, stored),) = device_sections(with_section)
    assert stored == blob
    objects = [
        with_section,
        edited(with_section, "without.o", {index: None}),
        edited(fat, "fat-without.o", {fat_index: None}),
        edited(fat, "fat-longer.o", {fat_index: [blob, blob]}),
        edited(fat, "fat-shorter.o", {fat_index: [blob[:8]]}),
    ]
    for linker in TARGETS[target]:
        for mode in ((), ("--gc-sections",), ("--emit-relocs",)):
            expected = linked(linker, plain, other, options=("-e", "_start", *mode))
            for path in objects:
                assert linked(linker, path, other, options=("-e", "_start", *mode)) == expected, (linker, mode, path)


@pytest.mark.parametrize("linker", TARGETS["x86_64-linux-gnu"])
@pytest.mark.parametrize("options", OPTIONS, ids=["plain", "debug", "function-sections"])
def test_linkers_make_the_same_file_from_the_edited_object_of_gcc(
    linker: str, options: list[str], container: Path, tmp_path: Path
) -> None:
    plain = compiled(tmp_path, "plain.o", MAIN + OTHER + START, *options, compiler="gcc")
    fat = edited(plain, "fat.o", embed=container.read_bytes())
    index = device_sections(fat)[0][0]
    expected = linked(linker, plain, options=("-e", "_start"))
    for path in (fat, edited(fat, "lean.o", {index: None}), edited(fat, "other.o", {index: [b"12345678" * 99]})):
        assert linked(linker, path, options=("-e", "_start")) == expected


@pytest.mark.parametrize(
    ("target", "linker"),
    [*(("x86_64-linux-gnu", linker) for linker in TARGETS["x86_64-linux-gnu"]), ("aarch64-linux-gnu", "ld.lld")],
)
def test_relocatable_links_keep_what_was_embedded_and_it_can_be_removed_again(
    target: str, linker: str, container: Path, tmp_path: Path
) -> None:
    blob = container.read_bytes()
    first = compiled(tmp_path, "a.o", MAIN + START, f"--target={target}", "-ffreestanding")
    second = compiled(tmp_path, "b.o", OTHER, f"--target={target}", "-ffreestanding")
    fat_first, fat_second = edited(first, "fa.o", embed=blob), edited(second, "fb.o", embed=blob * 2)
    run(linker, "-r", "-o", tmp_path / "both.o", fat_first, fat_second)
    run(linker, "-r", "-o", tmp_path / "plain.o", first, second)
    ((index, stored),) = device_sections(tmp_path / "both.o")
    assert stored == blob * 3
    lean = edited(tmp_path / "both.o", "lean.o", {index: None})
    shorter = edited(tmp_path / "both.o", "shorter.o", {index: [blob]})
    expected = linked(linker, tmp_path / "plain.o", options=("-e", "_start"))
    assert linked(linker, lean, options=("-e", "_start")) == expected
    assert linked(linker, shorter, options=("-e", "_start")) == expected


def _complaints(reader: str, path: Path) -> str:
    done = run(reader, "-aW", path, check=False)
    assert done.returncode == 0
    return done.stderr.decode().replace(str(path), "FILE")


@pytest.mark.parametrize("compiler", ["clang", "gcc"])
@pytest.mark.parametrize("options", [*OPTIONS, ["-fPIC", "-shared"], ["-no-pie"], ["-static-pie"]], ids=str)
def test_readers_accept_edited_files_without_a_warning(
    compiler: str, options: list[str], container: Path, tmp_path: Path
) -> None:
    blob = container.read_bytes()
    path = compiled(tmp_path, "a.o", MAIN + OTHER + START, *options[:1], compiler=compiler)
    if options and options[-1] in ("-shared", "-no-pie", "-static-pie"):
        run(compiler, *options, "-nostdlib", path, "-o", tmp_path / "program")
        path = tmp_path / "program"
    with_section = edited(path, "with", embed=blob)
    ((index, _),) = device_sections(with_section)
    for result in (with_section, edited(with_section, "without", {index: None})):
        for reader in ("readelf", "llvm-readelf"):
            assert _complaints(reader, result) == _complaints(reader, path)


def test_llvm_lists_and_extracts_what_was_embedded(container: Path, tmp_path: Path) -> None:
    path = edited(compiled(tmp_path, "a.o", MAIN), "fat.o", embed=container.read_bytes() * 2)
    listing = run("llvm-objdump", "--offloading", path).stdout.decode()
    assert listing.count("OFFLOADING IMAGE") == 2
    assert "gfx90a" in listing
    run("llvm-offload-binary", path, f"--image=file={tmp_path}/out.o,arch=gfx90a")
    assert (tmp_path / "out.o").read_bytes() == (container.parent / "image.o").read_bytes()


def test_clang_linker_wrapper_finds_embedded_device_code_and_nothing_after_removal(tmp_path: Path) -> None:
    kernel = compiled(
        tmp_path,
        "kernel.bc",
        "void kernel(void) {}",
        "--target=amdgcn-amd-amdhsa",
        "-mcpu=gfx90a",
        "-nogpulib",
        "-emit-llvm",
    )
    run(
        "llvm-offload-binary",
        "-o",
        tmp_path / "k.bin",
        f"--image=file={kernel},triple=amdgcn-amd-amdhsa,arch=gfx90a,kind=hip",
    )
    plain = compiled(tmp_path, "a.o", MAIN)
    fat = edited(plain, "fat.o", embed=(tmp_path / "k.bin").read_bytes())
    lean = edited(fat, "lean.o", {device_sections(fat)[0][0]: None})
    wrapper = ("clang-linker-wrapper", "--dry-run", "--host-triple=x86_64-unknown-linux-gnu", "--linker-path=ld")

    def commands(path: Path) -> str:
        done = run(*wrapper, path, "-o", tmp_path / "out")
        return (done.stdout + done.stderr).decode()

    assert "-mcpu=gfx90a" in commands(fat)
    assert "gfx90a" not in commands(lean)


def test_the_linker_wrapper_sees_the_section_that_gas_writes_like_that_of_fatpack(
    tmp_path: Path, container: Path
) -> None:
    source = f'.text\nnop\n.section .llvm.offloading,"e",@0x6fff4c0b\n.p2align 3\n.incbin "{container}"\n'
    theirs = compiled(tmp_path, "gas.o", source, compiler="gcc", language="assembler")
    ours = edited(
        compiled(tmp_path, "a.o", ".text\nnop\n", compiler="gcc", language="assembler"),
        "fat.o",
        embed=container.read_bytes(),
    )

    def header(path: Path) -> tuple[object, ...]:
        with open_source(path) as source:
            opened = ElfFile(source.view())
            section = opened.section(device_sections(path)[0][0])
            return (opened.name(section), *section.replace(index=0, name_offset=0, offset=0)._values())

    assert header(ours) == header(theirs)


@pytest.mark.parametrize("stripper", ["strip", "llvm-strip --strip-unneeded", "objcopy", "llvm-objcopy"])
def test_other_tools_keep_the_section_when_they_rewrite_the_object(
    stripper: str, container: Path, tmp_path: Path
) -> None:
    blob = container.read_bytes()
    path = edited(compiled(tmp_path, "a.o", MAIN), "fat.o", embed=blob)
    run(*stripper.split(), path)
    ((_, stored),) = device_sections(path)
    assert stored == blob


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
@pytest.mark.parametrize("options", [[], ["-no-pie"], ["-static"]], ids=str)
@pytest.mark.parametrize("stripped", [False, True])
def test_programs_still_run_after_embedding(
    compiler: str, options: list[str], stripped: bool, container: Path, tmp_path: Path
) -> None:
    inputs = [
        compiled(tmp_path, "main.o", PROGRAM, compiler=compiler),
        compiled(tmp_path, "a.o", MAIN + OTHER, compiler=compiler),
    ]
    program = tmp_path / "program"
    run(compiler, *options, *inputs, "-o", program)
    if stripped:
        run("strip", program)
    expected = subprocess.run([program], capture_output=True, check=True).stdout
    blob = container.read_bytes()
    result = edited(program, "fat", embed=blob)
    assert os.access(result, os.X_OK)
    assert subprocess.run([result], capture_output=True, check=True).stdout == expected
    assert b"OFFLOADING IMAGE" in run("llvm-objdump", "--offloading", result).stdout
    ((index, _),) = device_sections(result)
    removed = edited(result, "lean", {index: None})
    assert subprocess.run([removed], capture_output=True, check=True).stdout == expected
    run("strip", result)
    assert subprocess.run([result], capture_output=True, check=True).stdout == expected
    assert device_sections(result)[0][1] == blob


def test_shared_libraries_still_load_after_embedding(container: Path, tmp_path: Path) -> None:
    library = tmp_path / "libuse.so"
    run("gcc", "-shared", "-o", library, compiled(tmp_path, "a.o", MAIN + OTHER, "-fPIC", compiler="gcc"))
    main = compiled(tmp_path, "main.o", PROGRAM, compiler="gcc")
    run("gcc", main, library, "-o", tmp_path / "program", f"-Wl,-rpath,{tmp_path}")
    expected = subprocess.run([tmp_path / "program"], capture_output=True, check=True).stdout
    shutil.move(edited(library, "fat.so", embed=container.read_bytes()), library)
    assert subprocess.run([tmp_path / "program"], capture_output=True, check=True).stdout == expected


@pytest.mark.sweep(99)
@pytest.mark.parametrize("count", [65270, 70000])
def test_objects_with_very_many_sections_still_link(count: int, container: Path, tmp_path: Path) -> None:
    lines = [f'.section .d.{number},"aw"\n.byte {number & 255}' for number in range(count)]
    source = "\n".join([*lines, ".text\n.globl _start\n_start: ret\n.quad .d.1+0"]) + "\n"
    path = compiled(tmp_path, "many.o", source, "--target=x86_64-linux-gnu", language="assembler")
    with open_source(path) as opened:
        sections = ElfFile(opened.view()).section_count
    # One pass across the step from 65279 to 65280, from which the count is not in the header.
    blob = container.read_bytes()
    fat = tmp_path / "fat.o"
    with open_source(path) as opened:
        before = opened.view()
        additions = [NewSection([blob])] * 12
        write_file(fat, embed_sections(before, additions), verify=lambda after: elf.verify(before, after))
    indices = [index for index, _ in device_sections(fat)]
    assert indices == list(range(sections, sections + 12))
    lean = edited(fat, "lean.o", dict.fromkeys(indices))
    assert b"OFFLOADING IMAGE [11]" in run("llvm-objdump", "--offloading", fat).stdout
    for linker in ("ld.lld", "ld.bfd", "ld.gold"):
        expected = linked(linker, path)
        assert linked(linker, fat) == expected
        assert linked(linker, lean) == expected
    assert _complaints("llvm-readelf", fat) == _complaints("llvm-readelf", path)


@pytest.mark.filterwarnings("ignore:.*is not a valid TYPE")  # LIEF does not know LLVM's section type
@pytest.mark.parametrize("target", TARGETS)
def test_lief_and_pyelftools_see_the_same_sections_before_and_after(
    target: str, container: Path, tmp_path: Path
) -> None:
    path = compiled(tmp_path, "a.o", MAIN + OTHER, f"--target={target}", "-ffreestanding", "-g")
    fat = edited(path, "fat.o", embed=container.read_bytes())
    lean = edited(fat, "lean.o", {device_sections(fat)[0][0]: None})
    for reader in (_pyelftools, _lief):
        old, new, without = reader(path), reader(fat), reader(lean)
        grown = {name for name, *_ in old} & {".strtab", ".shstrtab"}
        assert [row for row in new if row[0] not in grown][:-1] == [row for row in old if row[0] not in grown]
        assert new[-1][0] == ".llvm.offloading"
        assert new[-1][-1] == container.read_bytes()
        assert [row[0] for row in without] == [row[0] for row in old]
        assert without == old
    assert lean.read_bytes() == path.read_bytes()


def _pyelftools(path: Path) -> list[tuple[object, ...]]:
    from elftools.elf.elffile import ELFFile

    elf_file = ELFFile(io.BytesIO(path.read_bytes()))
    return [
        (
            section.name,
            section["sh_type"],
            section["sh_flags"],
            section["sh_link"],
            section["sh_info"],
            section["sh_addralign"],
            section["sh_entsize"],
            section.data() if section["sh_type"] != "SHT_NOBITS" else b"",
        )
        for section in elf_file.iter_sections()
    ]


def _lief(path: Path) -> list[tuple[object, ...]]:
    import lief

    parsed = lief.ELF.parse(str(path))
    assert parsed is not None
    return [
        (
            section.name,
            int(section.type),
            int(section.flags),
            section.link,
            section.information,
            section.alignment,
            section.entry_size,
            bytes(section.content),
        )
        for section in parsed.sections
    ]


def test_a_hip_object_links_with_its_device_code_replaced(tmp_path: Path) -> None:
    """The wrapper of a HIP object finds the new device code: the linked program has it at the target of the pointer."""
    source = """
    .section .hip_fatbin,"a",@progbits
    .p2align 12
    .zero 5000, 1
    .section .hipFatBinSegment,"aw",@progbits
    .p2align 3
    .globl wrapper
    wrapper:
    .long 0x48495046, 1
    .quad .hip_fatbin
    .quad 0
    .text
    .globl _start
    _start: lea wrapper(%rip), %rax
    """
    path = compiled(tmp_path, "hip.o", source, "--target=x86_64-linux-gnu", language="assembler")
    for size in (100, 5000, 30000):
        content = b"N" * size
        result = edited(path, "replaced.o", {device_sections(path)[0][0]: [content]})
        for linker in TARGETS["x86_64-linux-gnu"]:
            program = linked(linker, result)
            view = build.as_view(program)
            opened = ElfFile(view)
            by_name = {opened.name(section): section for section in opened.sections()}
            wrapper, fatbin = by_name[".hipFatBinSegment"], by_name[".hip_fatbin"]
            pointer = int.from_bytes(program[wrapper.offset + 8 : wrapper.offset + 16], "little")
            assert pointer == fatbin.address
            assert opened.contents(fatbin).tobytes() == content
