"""Linked programs and libraries with less device code, run by loaders and read by other tools.

Each prints the device code that it finds through its records. It must print the same afterwards, also after strip,
objcopy, llvm-strip and patchelf changed it further; readelf, llvm-readobj and eu-elflint must not report new problems.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.builders.linked_device import MAGIC, USUAL, Layout, assembly, c_source, fat_assembly, pointer, smaller
from tests.builders.linked_elf import entry, fatbin
from tests.reference import run, tool

from fatpack.binary import elf
from fatpack.binary.elf.file import ElfFile
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import plan_slim
from fatpack.io.atomic_write import write_file
from fatpack.io.open import open_source
from fatpack.proof import prove

if TYPE_CHECKING:
    from fatpack.binary.shrink import ShrinkMode, ShrinkResult

pytestmark = pytest.mark.reference

#: three sections of one segment
SEVERAL: Layout = {**USUAL, "__nv_relfatbin": (20000, 40000), ".hip_fatbin": (90000, 90000)}
LARGE: Layout = {".nv_fatbin": (300000, 160, 500000, 24000)}

LINKERS = {"bfd": ("gcc",), "gold": ("gcc", "-fuse-ld=gold"), "mold": ("gcc", "-fuse-ld=mold"), "lld": ()}
OPTIONS = {
    "pie": ("-pie", "-fPIE"),
    "no-pie": ("-no-pie", "-fno-pie"),
    "static": ("-static",),
    "static-pie": ("-static-pie", "-fPIE"),
    "library": ("-shared", "-fPIC"),
    "now": ("-pie", "-fPIE", "-Wl,-z,relro,-z,now"),
    "relr": ("-pie", "-fPIE", "-Wl,-z,pack-relative-relocs"),
    "sysv": ("-pie", "-fPIE", "-Wl,--hash-style=sysv"),
    "both": ("-shared", "-fPIC", "-Wl,--hash-style=both"),
    "no-build-id": ("-shared", "-fPIC", "-Wl,--build-id=none"),
    "build-id": ("-shared", "-fPIC", "-Wl,--build-id"),
    "separate-code": ("-pie", "-fPIE", "-Wl,-z,separate-code"),
    "noseparate-code": ("-pie", "-fPIE", "-Wl,-z,noseparate-code"),
    "debug": ("-g", "-pie", "-fPIE"),
}
#: options that a linker does not support, or whose output the C library does not load
UNKNOWN = {("gold", "static-pie"), ("gold", "relr"), ("gold", "separate-code"), ("gold", "noseparate-code")}
UNKNOWN |= {("mold", "relr")}

AFTERWARDS = (
    ("strip",),
    ("objcopy", "--strip-debug"),
    ("llvm-strip",),
    ("patchelf", "--set-rpath", "/somewhere" * 40),
)


def compiler(linker: str) -> list[str]:
    """Return the command of a C compiler that links with a linker."""
    if linker == "lld":
        return [tool("clang"), f"--ld-path={tool('ld.lld')}"]
    if linker in ("gold", "mold"):
        tool(linker)
    return [tool(LINKERS[linker][0]), *LINKERS[linker][1:]]


def built(folder: Path, command: list[str], layout: Layout = USUAL, *, main: bool = True, word: int = 8) -> Path:
    """Return a program, or a library, that a compiler made of device code and its records."""
    sources, path = [folder / "device.s", folder / "host.c"], folder / "linked"
    sources[0].write_text(assembly(layout, word), encoding="ascii")
    sources[1].write_text(c_source(layout, main=main), encoding="ascii")
    done = subprocess.run([*command, *map(str, sources), "-o", str(path)], capture_output=True)
    assert not done.returncode, done.stderr.decode()
    return path


def edited(
    path: Path, mode: ShrinkMode = "auto", kept: int = 64, name: str = "edited/linked"
) -> tuple[Path, ShrinkResult]:
    """Return the file with less device code, in a folder of its own under the same name, and the result."""
    result = elf.shrink(open_source(path).view(), smaller(path, kept), mode=mode)
    target = path.parent / name
    target.parent.mkdir(exist_ok=True)
    write_file(target, result.pieces, mode=0o755, force=True)
    return target, result


def printed(path: Path, *, is_library: bool, emulator: tuple[str, ...] = ()) -> tuple[int, bytes]:
    """Return the exit status and output of a program, or of one that calls a library."""
    if is_library:
        code = f"import ctypes; raise SystemExit(ctypes.CDLL({str(path)!r}).show())"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    else:
        done = subprocess.run([*emulator, str(path)], capture_output=True)
    return done.returncode, done.stdout


def complaints(path: Path) -> list[bytes]:
    """Return the complaints of readers of ELF files about one."""
    read = run("readelf", "-aW", path, check=False).stderr
    listed = run("llvm-readobj", "--all", path, check=False).stderr.replace(os.fsencode(path), b"")
    return [read, listed]


def lint(path: Path) -> set[bytes]:
    """Return what eu-elflint finds, without the numbers and places of segments.

    Two complaints about split segments are not faults: a part of an executable segment without code stays executable,
    and mold gives sections without bytes the offset 0, where the first segment now ends earlier.
    """
    found = set()
    for line in run("eu-elflint", "--gnu-ld", path, check=False).stdout.splitlines():
        if b"is executable but contains no executable" not in line and b"'.relro_padding' not fully" not in line:
            found.add(re.sub(rb"\[ *\d+\]|(entry|offset|at) (0x[0-9a-f]+|\d+)", b"", line))
    return found - {b"No errors"}


def check(path: Path, tmp_path: Path, *, is_library: bool, after: tuple[tuple[str, ...], ...] = ()) -> ShrinkResult:
    """Fail unless a file behaves and looks the same with less device code, and after other tools changed it."""
    expected = printed(path, is_library=is_library)
    assert expected[0] == 0 and expected[1].count(b"ba55ed50") >= 4
    new, result = edited(path)
    assert printed(new, is_library=is_library) == expected
    assert complaints(new) == complaints(path)
    assert lint(new) <= lint(path)
    for command in after:
        results = []
        for each in (path, new):
            copy = each.with_name("changed")
            shutil.copy(each, copy)
            done = run(command[0], *command[1:], copy, check=False)
            results.append((done.returncode, printed(copy, is_library=is_library), complaints(copy)))
        assert results[0] == results[1], command
    return result


@pytest.mark.parametrize(("linker", "option"), [("bfd", "pie"), ("lld", "library")])
def test_linked_files_shrink_and_do_the_same(linker: str, option: str, tmp_path: Path) -> None:
    path = built(tmp_path, [*compiler(linker), *OPTIONS[option]], main=option != "library")
    result = check(path, tmp_path, is_library=option == "library", after=AFTERWARDS)
    assert (result.mode, result.why) == ("shrink", "")
    assert sum(size for _, size in result.cuts) == path.stat().st_size - (tmp_path / "edited/linked").stat().st_size


@pytest.mark.slow
@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("linker", LINKERS)
def test_whatever_linker_and_options(linker: str, option: str, tmp_path: Path) -> None:
    if (linker, option) in UNKNOWN:
        pytest.skip("the linker does not know the option, or what it makes is not loaded")
    is_library = "-shared" in OPTIONS[option]
    path = built(tmp_path, [*compiler(linker), *OPTIONS[option]], main=not is_library)
    result = check(path, tmp_path, is_library=is_library, after=AFTERWARDS)
    assert (result.mode, result.why) == ("shrink", "")


@pytest.mark.slow
@pytest.mark.parametrize("option", ["pie", "library"])
@pytest.mark.parametrize("linker", LINKERS)
def test_what_patchelf_rewrote_before(linker: str, option: str, tmp_path: Path) -> None:
    """As most wheels have it: strings and notes are at the end, and bytes after the program headers are free."""
    path = built(tmp_path, [*compiler(linker), *OPTIONS[option]], main=option != "library")
    run("patchelf", "--set-rpath", "/somewhere" * 40, path)
    assert check(path, tmp_path, is_library=option == "library", after=AFTERWARDS).mode == "shrink"


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("-static",)], ids=["dynamic", "static"])
def test_programs_of_musl(options: tuple[str, ...], tmp_path: Path) -> None:
    path = built(tmp_path, [tool("musl-gcc"), *options])
    assert check(path, tmp_path, is_library=False, after=AFTERWARDS[:3]).mode == "shrink"


@pytest.mark.slow
@pytest.mark.parametrize("options", [("-pie",), ("-no-pie",), ("-static",)], ids=lambda options: options[0][1:])
def test_programs_for_aarch64(options: tuple[str, ...], tmp_path: Path) -> None:
    path = built(tmp_path, [tool("aarch64-linux-gnu-gcc"), *options], LARGE)
    emulator = (tool("qemu-aarch64-static"), "-L", "/usr/aarch64-linux-gnu")
    expected = printed(path, is_library=False, emulator=emulator)
    assert expected[0] == 0 and expected[1].count(b"ba55ed50") == 4
    new, result = edited(path)
    assert result.mode == "shrink" and result.cuts[0][1] % 65536 == 0
    assert printed(new, is_library=False, emulator=emulator) == expected
    run("aarch64-linux-gnu-strip", new)
    assert printed(new, is_library=False, emulator=emulator) == expected


def proved(folder: Path, linker: str, option: str, more: str = "") -> Path:
    """Fail unless a program keeps the code for one device, and a second implementation finds no other change.

    ``more`` is additional C source. Returns the slimmed program.
    """
    is_library = "-shared" in OPTIONS[option]
    images = [b"\x7fELF\x02\x01\x01".ljust(30000 * scale, bytes([scale])) for scale in (1, 2, 8)]
    containers = [fatbin(entry(2, 80, image), entry(2, 90, image[:400]), entry(2, 86, image)) for image in images]
    sources, path = [folder / "device.s", folder / "host.c"], folder / "linked"
    sources[0].write_text(fat_assembly(folder, containers), encoding="ascii")
    text = c_source({".nv_fatbin": containers}, main=not is_library)
    sources[1].write_text(text.replace("data[4] != (unsigned)at", "0") + more, encoding="ascii")
    done = subprocess.run([*compiler(linker), *OPTIONS[option], *sources, "-o", path], capture_output=True)
    assert not done.returncode, done.stderr.decode()
    before = open_source(path).view()
    slimmed = plan_slim(before, SlimOptions(keep=("sm_90",)))
    write_file(folder / "slim", slimmed.pieces, mode=0o755)
    assert slimmed.mode == "shrink" and len(slimmed.dropped) == 6
    assert printed(folder / "slim", is_library=is_library)[0] == 0
    verdict = prove(before, open_source(folder / "slim").view())
    assert verdict.is_proved, verdict.differences
    return folder / "slim"


def test_only_device_code_changed(tmp_path: Path) -> None:
    proved(tmp_path, "bfd", "static")


@pytest.mark.parametrize("option", ["pie", "library"])
def test_a_relro_segment_that_has_no_bytes_where_it_says(option: str, tmp_path: Path) -> None:
    """mold gives it the offset of its first section, 0 for variables of threads that start as zeros (as in cudart)."""
    slim = proved(tmp_path, "mold", option, "\n__thread long many[4096]; long *of_thread(void) { return many; }\n")
    relro = next(line.split() for line in run("readelf", "-lW", slim).stdout.splitlines() if b"GNU_RELRO" in line)
    assert int(relro[1], 16) == 0 and int(relro[4], 16)


@pytest.mark.slow
@pytest.mark.parametrize("option", ["pie", "no-pie", "static", "library", "sysv", "no-build-id", "noseparate-code"])
@pytest.mark.parametrize("linker", LINKERS)
def test_only_device_code_changed_by_any_linker(linker: str, option: str, tmp_path: Path) -> None:
    if (linker, option) in UNKNOWN:
        pytest.skip("the linker does not know the option, or what it makes is not loaded")
    proved(tmp_path, linker, option)


#: processor → bytes of an address
PROCESSORS = {
    "i386-linux-gnu": 4,
    "x86_64-linux-gnux32": 4,
    "armv7-linux-gnueabi": 4,
    "mips-linux-gnu": 4,
    "mips64-linux-gnuabi64": 8,
    "powerpc-linux-gnu": 4,
    "powerpc64-linux-gnu": 8,
    "powerpc64le-linux-gnu": 8,
    "riscv64-linux-gnu": 8,
    "s390x-linux-gnu": 8,
    "aarch64-linux-gnu": 8,
    "aarch64_be-linux-gnu": 8,
}
#: processor → emulator, and how a program ends with the status that is the first operand
CALLS = {
    "i386-linux-gnu": ("qemu-i386-static", "mov %0, %%ebx; mov $1, %%eax; int $0x80"),
    "armv7-linux-gnueabi": ("qemu-arm-static", "mov r0, %0; mov r7, #1; svc 0"),
    "powerpc-linux-gnu": ("qemu-ppc-static", "mr 3, %0; li 0, 1; sc"),
    "powerpc64le-linux-gnu": ("qemu-ppc64le-static", "mr 3, %0; li 0, 1; sc"),
    "riscv64-linux-gnu": ("qemu-riscv64-static", "mv a0, %0; li a7, 93; ecall"),
    "s390x-linux-gnu": ("qemu-s390x-static", "lgr 2, %0; svc 1"),
    "aarch64-linux-gnu": ("qemu-aarch64-static", "mov x0, %0; mov x8, 93; svc 0"),
    "aarch64_be-linux-gnu": ("qemu-aarch64_be-static", "mov x0, %0; mov x8, 93; svc 0"),
}
_START = """
__attribute__((section(".note.mine"), used)) static const unsigned note[] = {4, 48, 1, [15] = 1};
extern const struct { unsigned magic, version; const unsigned *data; void *name; } records[];
void _start(void) {
    long found = 40;
    for (unsigned at = 0; at < 4; at++)
        found += records[at].data[0] == 0xBA55ED50u && records[at].data[4] == at;
    CALL;
}
"""

KINDS = {
    "library": ("-shared", "-fPIC"),
    "pie": ("-pie", "-fPIE"),
    "program": ("-static", "-fno-pic"),
    "relr": ("-shared", "-fPIC", "-Wl,-z,pack-relative-relocs"),
}


def freestanding(folder: Path, processor: str, kind: str) -> Path:
    """Return a file that lld linked for a processor, without any library."""
    word = PROCESSORS[processor]
    sources, path = [folder / "device.s", folder / "host.c"], folder / "linked"
    text = assembly(LARGE, word, "%" if processor.startswith("arm") else "@")
    sources[0].write_text(text, encoding="ascii")
    call = CALLS.get(processor, ("", ""))[1]
    sources[1].write_text(_START.replace("CALL", f'__asm__ volatile("{call}" :: "r"(found))'), encoding="ascii")
    options = ("-nostdlib", f"--target={processor}", f"--ld-path={tool('ld.lld')}", *KINDS[kind])
    run("clang", *options, *sources, "-o", path)
    return path


def memory(path: Path) -> dict[int, bytes]:
    """Return address → bytes of the loaded sections, except device code, records and space made for headers."""
    file = ElfFile(open_source(path).view())
    return {
        section.address: file.contents(section).tobytes()
        for section in file.sections()
        if section.flags & 2 and section.stored_size and file.name(section) in (".text", ".rodata", ".eh_frame", ".got")
    }


def held(path: Path) -> list[tuple[int, int]]:
    """Return the magic and number of the container that each record points to."""
    file = ElfFile(open_source(path).view())
    by_name = {file.name(section): section for section in file.sections()}
    table, code, word = by_name[".nvFatBinSegment"], by_name[".nv_fatbin"], file.layouts.word
    found = []
    for place in range(8, table.size, 8 + 2 * word):
        at = pointer(file, table, place) - code.address
        data = file.contents(code).read(at, 20)
        found.append((int.from_bytes(data[:4], file.layouts.order), int.from_bytes(data[16:], file.layouts.order)))
    return found


def check_other(processor: str, kind: str, tmp_path: Path) -> None:
    path = freestanding(tmp_path, processor, kind)
    new, result = edited(path)
    assert (result.mode, result.why) == ("shrink", "")
    assert held(new) == held(path) == [(MAGIC, number) for number in range(4)]
    assert memory(new) == memory(path)
    if kind == "program" and processor in CALLS:
        emulator = (tool(CALLS[processor][0]),)
        assert printed(new, is_library=False, emulator=emulator) == (44, b"")
    assert complaints(new) == complaints(path)
    assert lint(new) <= lint(path)


@pytest.mark.parametrize(("processor", "kind"), [("i386-linux-gnu", "library"), ("s390x-linux-gnu", "program")])
def test_files_of_other_words_and_byte_orders(processor: str, kind: str, tmp_path: Path) -> None:
    check_other(processor, kind, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("processor", PROCESSORS)
def test_files_for_any_processor(processor: str, kind: str, tmp_path: Path) -> None:
    check_other(processor, kind, tmp_path)


def test_several_sections_of_one_segment_take_one_pass(tmp_path: Path) -> None:
    path = built(tmp_path, [*compiler("lld"), *OPTIONS["pie"]], SEVERAL)
    result = check(path, tmp_path, is_library=False)
    assert len(result.cuts) == 3


def test_zeros_change_no_layout(tmp_path: Path) -> None:
    path = built(tmp_path, [*compiler("bfd"), *OPTIONS["pie"]])
    new, result = edited(path, "zero")
    assert (result.mode, result.cuts, result.why) == ("zero", [], "")
    assert printed(new, is_library=False) == printed(path, is_library=False)
    for option in ("-lW", "-SW"):
        assert run("readelf", option, new).stdout == run("readelf", option, path).stdout
    assert lint(new) <= lint(path)


@pytest.mark.parametrize("first", ["shrink", "zero"])
def test_what_was_edited_is_edited_again(first: ShrinkMode, tmp_path: Path) -> None:
    path = built(tmp_path, [*compiler("lld"), *OPTIONS["library"]], LARGE, main=False)
    expected = printed(path, is_library=True)
    once, _ = edited(path, first, kept=200000)
    again, result = edited(once, "shrink", kept=64, name="again/linked")
    assert result.mode == "shrink"
    assert printed(again, is_library=True) == expected
    at_once, _ = edited(path, "shrink", kept=64, name="at_once/linked")
    assert again.stat().st_size <= at_once.stat().st_size + 4096
    assert complaints(again) == complaints(path) and lint(again) <= lint(path)


@pytest.mark.slow
def test_a_process_loads_many_of_them(tmp_path: Path) -> None:
    path = built(tmp_path, [*compiler("lld"), *OPTIONS["library"]], main=False)
    new, _ = edited(path)
    data = new.read_bytes()
    for number in range(300):
        (tmp_path / f"{number}.so").write_bytes(data)
    code = (
        "import ctypes\n"
        f"loaded = [ctypes.CDLL({str(tmp_path)!r} + f'/{{number}}.so') for number in range(300)]\n"
        "raise SystemExit(any(each.show() for each in loaded))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.count(b"ba55ed50") == 1200
