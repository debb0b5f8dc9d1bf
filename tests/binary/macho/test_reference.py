"""Files of clang and lld, also read by LIEF, llvm-readobj and llvm-objcopy."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, package, run, tool

from fatpack.binary import CodeSection, macho
from fatpack.io.open import open_source
from fatpack.scanner import FoundContainer, scan

pytestmark = pytest.mark.reference

CONTAINER = FIXTURES / "offload_binary" / "llvm-22-four.bin"
TARGETS = (
    "arm64-apple-macos13",
    "arm64e-apple-macos13",
    "x86_64-apple-macos13",
    "i386-apple-macos10.6",
    "armv7-apple-ios8",
    "arm64_32-apple-watchos5",
)
MADE = sorted(path for path in (FIXTURES / "macho").iterdir() if path.suffix != ".json")
SOURCE = 'int zeros[100]; int counter = 1; const char *name(void) { counter += zeros[1]; return "name"; }\n'


def compiled(folder: Path, target: str) -> Path:
    (folder / "x.c").write_text(SOURCE)
    run("clang", f"--target={target}", "-g", "-c", folder / "x.c", "-o", folder / "plain.o")
    section = f"--add-section=__LLVM,.llvm.offloading={CONTAINER}"
    run("llvm-objcopy", section, folder / "plain.o", folder / "x.o")
    return folder / "x.o"


def our_sections(path: Path) -> list[tuple[str, int, int]]:
    with open_source(path) as source:
        return [(name, start, end - start) for start, end, name, _ in macho.sections(source.view())]


def llvm_sections(path: Path) -> list[tuple[str, int, int]]:
    """Return name, offset and size of the sections that have bytes, from llvm-readobj."""
    text = run("llvm-readobj", "--sections", path).stdout.decode()
    rows = []
    for block in text.split("  Section {")[1:]:
        facts = dict(re.findall(r"^\s+(Name|Segment|Size|Offset|Type): (\S+)", block, re.MULTILINE))
        if "ZeroFill" not in facts["Type"] and int(facts["Size"], 0):
            rows.append((f"{facts['Segment']},{facts['Name']}", int(facts["Offset"], 0), int(facts["Size"], 0)))
    return rows


def lief_sections(path: Path) -> list[tuple[str, int, int]]:
    lief = package("lief")
    fat = lief.MachO.parse(str(path))  # it owns the binaries
    binary = fat.at(0)
    zerofill = {lief.MachO.Section.TYPE.ZEROFILL, lief.MachO.Section.TYPE.THREAD_LOCAL_ZEROFILL}
    rows = [row for row in binary.sections if row.type not in zerofill and row.size]
    return [(f"{row.segment_name},{row.name}", row.offset, row.size) for row in rows]


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_sections_of_the_fixtures_are_those_that_others_read(path: Path) -> None:
    assert our_sections(path) == llvm_sections(path)
    assert sorted(our_sections(path)) == sorted(lief_sections(path))


@pytest.mark.parametrize("target", TARGETS)
def test_sections_of_objects_are_those_that_others_read(tmp_path: Path, target: str) -> None:
    path = compiled(tmp_path, target)
    assert our_sections(path) == llvm_sections(path)
    assert sorted(our_sections(path)) == sorted(lief_sections(path))
    with open_source(path) as source:
        (site,) = [item for item in macho.locate(source.view()) if isinstance(item, CodeSection)]
        assert site.data.tobytes() == CONTAINER.read_bytes()
        found = [item for item in scan(source.view()) if isinstance(item, FoundContainer)]
    assert [item.section for item in found] == ["__LLVM,.llvm.offloading"] * 4


@pytest.mark.parametrize("path", MADE, ids=lambda path: path.name)
def test_contents_are_those_that_objcopy_dumps(path: Path, tmp_path: Path) -> None:
    with open_source(path) as source:
        for site in macho.locate(source.view()):
            assert isinstance(site, CodeSection)
            run("llvm-objcopy", f"--dump-section={site.section}={tmp_path / 'x'}", path, tmp_path / "copy")
            assert (tmp_path / "x").read_bytes() == site.data.tobytes()


def test_big_endian_objects_of_yaml2obj(tmp_path: Path) -> None:
    """No compiler of LLVM writes Mach-O for a big-endian processor any more."""
    text = """--- !mach-o
FileHeader: {magic: 0xFEEDFACE, cputype: 18, cpusubtype: 0, filetype: 1, ncmds: 1, sizeofcmds: 124, flags: 0}
LoadCommands:
  - {cmd: LC_SEGMENT, cmdsize: 124, segname: '', vmaddr: 0, vmsize: 4, fileoff: 152, filesize: 4, maxprot: 7,
     initprot: 7, nsects: 1, flags: 0,
     Sections: [{sectname: __nv_fatbin, segname: __NV_CUDA, addr: 0, size: 4, offset: 0x98, align: 2, reloff: 0,
                 nreloc: 0, flags: 0, reserved1: 0, reserved2: 0, content: 50ED55BA}]}
"""
    (tmp_path / "x.yaml").write_text(text)
    run(tool("yaml2obj"), tmp_path / "x.yaml", "-o", tmp_path / "x.o")
    assert our_sections(tmp_path / "x.o") == llvm_sections(tmp_path / "x.o") == [("__NV_CUDA,__nv_fatbin", 0x98, 4)]


def test_an_archive_of_objects_lists_its_members_as_one_of_elf_does(tmp_path: Path) -> None:
    compiled(tmp_path, "arm64-apple-macos13")
    run("llvm-ar", "rcs", "--format=darwin", tmp_path / "x.a", tmp_path / "plain.o", tmp_path / "x.o", tmp_path / "x.o")
    with open_source(tmp_path / "x.a") as source:
        found = [item for item in scan(source.view()) if isinstance(item, FoundContainer)]
    assert [(item.host, item.member, item.section) for item in found] == (
        [("macho", "x.o", "__LLVM,.llvm.offloading")] * 8
    )


@pytest.mark.parametrize("version", ["22", "23"])
def test_compilers_put_no_offload_binary_into_mach_o(tmp_path: Path, version: str) -> None:
    """The format's description says so: if this fails, check its names of sections again."""
    (tmp_path / "x.c").write_text(SOURCE)
    command = [llvm_tool("clang", version), "--target=arm64-apple-macos13", "-c", str(tmp_path / "x.c")]
    command += [
        "-fcrash-diagnostics=off",
        "-Xclang",
        f"-fembed-offload-object={CONTAINER}",
        "-o",
        str(tmp_path / "x.o"),
    ]
    ran = run(*command, check=False)
    assert b"invalid section specifier '.llvm.offloading'" in ran.stderr


@pytest.mark.parametrize("version", ["22", "23"])
def test_the_bundler_makes_no_fat_objects_of_mach_o(tmp_path: Path, version: str) -> None:
    host = compiled(tmp_path, "x86_64-apple-macos13")
    (tmp_path / "image").write_bytes(b"image")
    targets = "-targets=host-x86_64-apple-macos--,openmp-amdgcn-amd-amdhsa--gfx906"
    files = [f"-input={host}", f"-input={tmp_path / 'image'}", f"-output={tmp_path / 'fat.o'}"]
    ran = run(llvm_tool("clang-offload-bundler", version), "-type=o", targets, *files, check=False)
    assert (ran.returncode, b"'llvm-objcopy' tool failed" in ran.stderr) == (1, True)
