"""DLLs of GNU ld and lld-link without most of their device code: other tools read them, and Windows' loader's rules
hold under wine.
"""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest
from tests.builders.linked_elf import entry, fatbin
from tests.reference import package, run, tool

from fatpack.binary import CodeSection, pe
from fatpack.binary.pe.reader import PeFile
from fatpack.binary.shrink import ContainerMove, NewSectionContent, ShrinkRequest
from fatpack.io.open import open_source
from fatpack.io.source import View
from fatpack.proof import prove

pytestmark = pytest.mark.reference

SM80 = entry(2, 80, b"\x7fELF" + bytes(range(250)) * 40)
SM90 = entry(2, 90, b"\x7fELF" + bytes(range(90)))
WHOLE = [fatbin(SM80, SM90), fatbin(SM80, SM90, SM90)]
REDUCED = [fatbin(SM90), fatbin(SM90, SM90)]

ASSEMBLY = """
    .section .nv_fatb,"dr"
    .p2align 3
    .globl {mark}fat0
{mark}fat0:
    .incbin "fat0"
    .p2align 3
    .globl {mark}fat1
{mark}fat1:
    .incbin "fat1"
"""
PROGRAM = """
extern const unsigned long long fat0[], fat1[];
struct record { unsigned magic, version; const unsigned long long *data; void *more; };
#ifdef _MSC_VER
#pragma section(".nvFatBi", read, write)
#define IN __declspec(allocate(".nvFatBi"))
#else
#define IN __attribute__((section(".nvFatBi")))
#endif
IN struct record first = {0x466243b1, 1, fat0, 0};
IN struct record second = {0x466243b1, 1, fat1, 0};
int words[5000] = {1, 2, 3};
__declspec(dllexport) unsigned long long size(int n) { return (n ? &second : &first)->data[1] + words[n] - words[n]; }
"""
LOADER = """
#include <windows.h>
#include <stdio.h>
int main(int count, char **names) {
  for (int number = 1; number < count; number++) {
    HMODULE library = LoadLibraryA(names[number]);
    if (!library) { printf("error %lu\\n", GetLastError()); return 1; }
    unsigned long long (*size)(int) = (void *)GetProcAddress(library, "size");
    printf("%llu %llu\\n", size(0), size(1));
  }
  return 0;
}
"""


def built(folder: Path, linker: str) -> Path:
    """Return a DLL by a linker; its sources are in the folder."""
    (folder / "fat0").write_bytes(WHOLE[0])
    (folder / "fat1").write_bytes(WHOLE[1])
    (folder / "library.c").write_text(PROGRAM)
    (folder / "fat.s").write_text(ASSEMBLY.format(mark="_" if linker == "i686" else ""))
    path = folder / f"{linker}.dll"
    if linker == "lld":
        target = "--target=x86_64-pc-windows-msvc"
        for name in ("library.c", "fat.s"):
            run("clang", target, "-g", "-gcodeview", "-c", folder / name, "-o", folder / f"{name}.obj", cwd=folder)
        objects = [folder / "library.c.obj", folder / "fat.s.obj"]
        run("lld-link", "/dll", "/noentry", "/debug", "/release", f"/out:{path}", *objects, cwd=folder)
    else:
        compiler = f"{linker}-w64-mingw32-gcc"
        run(compiler, "-shared", "-g", "-o", path, folder / "library.c", folder / "fat.s", cwd=folder)
    return path


def slimmed(path: Path, mode: str) -> Path:
    """Return the DLL with the images for sm_90 alone."""
    result = path.with_name(f"{path.stem}-{mode}.dll")
    with open_source(path) as source:
        view = source.view()
        image = PeFile(view)
        sites = {site.section: site for site in pe.locate(view) if isinstance(site, CodeSection)}
        starts = {section.number: image.base + section.virtual_address for section in image.sections()}
        fat, records = sites[".nv_fatb"], sites[".nvFatBi"]
        words = _words(records, starts[records.number], image.word)
        new, moves, pointers, old = b"", [], {}, starts[fat.number]
        for whole, reduced in zip(WHOLE, REDUCED, strict=True):
            place = starts[fat.number] + len(new)
            moves.append(ContainerMove(old, len(whole), place, len(reduced)))
            pointers[words[old]] = place
            new += reduced
            old += len(whole)
        relayed = pe.shrink(view, ShrinkRequest([NewSectionContent(fat.number, [new])], moves, pointers), mode=mode)
        assert relayed.mode == mode
        result.write_bytes(b"".join(bytes(p.tobytes() if isinstance(p, View) else p) for p in relayed.pieces))
    return result


def _words(records: CodeSection, start: int, word: int) -> dict[int, int]:
    """Return the targets of records, with the addresses of the pointers."""
    data, found = records.data.tobytes(), {}
    for at in range(0, len(data) - 8 - word + 1, 8):
        if struct.unpack_from("<I", data, at) == (0x466243B1,):
            found[int.from_bytes(data[at + 8 : at + 8 + word], "little")] = start + at + 8
    return found


@pytest.mark.parametrize("linker", ["x86_64", "i686", "lld"])
@pytest.mark.parametrize("mode", ["shrink", "zero"])
def test_other_tools_read_what_is_left(tmp_path: Path, linker: str, mode: str) -> None:
    path = built(tmp_path, linker)
    after = slimmed(path, mode)
    assert (after.stat().st_size < path.stat().st_size) == (mode == "shrink")
    options = ["--sections", "--symbols", "--coff-debug-directory", "--coff-imports", "--coff-exports"]
    old, new = (_readobj(each, *options) for each in (path, after))
    changing = ("PointerToRawData", "RawDataSize", "Size:", "Value:")
    assert [line for line in old if not line.startswith(changing)] == [
        line for line in new if not line.startswith(changing)
    ]
    lief = package("lief")
    whole, image = lief.PE.parse(str(path)), lief.PE.parse(str(after))
    assert image.optional_header.checksum in (0, image.compute_checksum())
    assert [bytes(item.payload) for item in whole.debug] == [bytes(item.payload) for item in image.debug]
    with open_source(path) as before, open_source(after) as now:
        verdict = prove(before.view(), now.view())
    assert verdict.is_proved, verdict.differences
    assert [image.title for image in verdict.kept] == ["cubin sm_90"] * 3


def _readobj(path: Path, *options: str) -> list[str]:
    done = run("llvm-readobj", *options, path)
    assert b"error" not in done.stderr and b"warning" not in done.stderr
    return [line.strip() for line in done.stdout.decode("latin-1").splitlines() if not line.startswith("File:")]


@pytest.mark.slow
def test_windows_loads_what_is_left(tmp_path: Path) -> None:
    wine = Path("/usr/lib/wine/wine64")
    wine = wine if wine.exists() else Path(tool("wine64"))
    paths = [built(tmp_path, linker) for linker in ("x86_64", "lld")]
    (tmp_path / "loader.c").write_text(LOADER)
    run("x86_64-w64-mingw32-gcc", "-o", tmp_path / "loader.exe", tmp_path / "loader.c")
    names = [each.name for path in paths for each in (path, slimmed(path, "shrink"), slimmed(path, "zero"))]
    environment = {**os.environ, "WINEPREFIX": str(tmp_path / "prefix"), "WINEDEBUG": "-all"}
    done = subprocess.run(
        [wine, "loader.exe", *names], cwd=tmp_path, env=environment, capture_output=True, timeout=300, check=True
    )
    sizes = [f"{len(each) - 16} {len(other) - 16}" for each, other in (WHOLE, REDUCED, REDUCED)]
    assert done.stdout.decode().split("\r\n")[:-1] == sizes * 2
