"""DLLs of mingw-w64 with containers that no record names, slimmed: Windows' loader maps them under wine, and their code
finds the images that stay, at the same addresses."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests.builders.fatbin import of_words
from tests.reference import run, tool

from fatpack.main import main

pytestmark = [pytest.mark.reference, pytest.mark.slow]

REGISTERED = of_words("70 75 80 86 90")
#: containers of the program's own data; the first has nothing for the device
OWN = [of_words("100"), of_words("80 90"), of_words("75 90 100")]

#: a table of starts and ends, as cuBLASLt has
ASSEMBLY = """
    .section .nv_fatb,"dr"
    .p2align 3
    .globl fat
fat:
    .incbin "fat"
    .section .cask_re,"dr"
    .p2align 3
own0:
    .incbin "own0"
    .8byte 0
own1:
    .incbin "own1"
    .8byte 0
own2:
    .incbin "own2"
    .8byte 0
own3:
    .section .rdata,"dr"
    .p2align 3
    .globl table
table:
    .8byte own0, own1, own2, own3
"""
LIBRARY = """
extern const unsigned long long fat[];
extern const unsigned char *const table[];
struct record { unsigned magic, version; const unsigned long long *data; void *more; };
__attribute__((section(".nvFatBi"))) struct record record = {0x466243b1, 1, fat, 0};
__declspec(dllexport) unsigned long long registered(void) { return record.data[1]; }
__declspec(dllexport) unsigned sum(int n) {
  unsigned found = 0;
  for (const unsigned char *at = table[n]; at < table[n + 1]; at++) found = found * 31 + *at;
  return found;
}
"""
PROGRAM = """
#include <windows.h>
#include <stdio.h>
int main(int count, char **names) {
  HMODULE library = LoadLibraryA(names[1]);
  if (!library) { printf("error %lu\\n", GetLastError()); return 1; }
  unsigned long long (*registered)(void) = (void *)GetProcAddress(library, "registered");
  unsigned (*sum)(int) = (void *)GetProcAddress(library, "sum");
  printf("%llu %u %u %u", registered(), sum(0), sum(1), sum(2));
  return 0;
}
"""


def built(folder: Path) -> Path:
    for name, data in zip(("fat", "own0", "own1", "own2"), (REGISTERED, *OWN), strict=True):
        (folder / name).write_bytes(data)
    for name, text in (("library.c", LIBRARY), ("fat.s", ASSEMBLY), ("program.c", PROGRAM)):
        (folder / name).write_text(text)
    compiler = "x86_64-w64-mingw32-gcc"
    run(compiler, "-shared", "-o", folder / "before.dll", folder / "library.c", folder / "fat.s", cwd=folder)
    run(compiler, "-o", folder / "program.exe", folder / "program.c", cwd=folder)
    return folder / "before.dll"


def total(data: bytes) -> int:
    found = 0
    for byte in data:
        found = (found * 31 + byte) & 0xFFFFFFFF
    return found


def said(registered: bytes, own: list[bytes]) -> str:
    return " ".join(map(str, (len(registered) - 16, *map(total, own))))


def windows_prints(folder: Path, name: str) -> str:
    wine = Path("/usr/lib/wine/wine64")
    wine = wine if wine.exists() else Path(tool("wine64"))
    environment = {**os.environ, "WINEPREFIX": str(folder / "prefix"), "WINEDEBUG": "-all"}
    words = [str(wine), "program.exe", name]
    return subprocess.run(words, cwd=folder, env=environment, capture_output=True, timeout=300, text=True).stdout


def test_windows_loads_a_dll_whose_own_containers_were_zeroed(tmp_path: Path) -> None:
    before, after = built(tmp_path), tmp_path / "after.dll"
    assert main(["slim", str(before), "--for", "sm_90", "-o", str(after), "-q"]) == 0
    assert main(["slim", "--verify", str(before), str(after), "-q"]) == 0
    old, new = before.read_bytes(), after.read_bytes()
    moved = len(old) - len(new)  # what the section of the registered container lost, which is in front of the others
    assert moved == 512
    places = [(old.index(each), old.index(each) + len(each) + 8) for each in OWN]
    own = [old[start:end] for start, end in places]
    left = [new[start - moved : end - moved] for start, end in places]
    assert all(was.count(0) < now.count(0) for was, now in zip(own, left, strict=True))
    assert windows_prints(tmp_path, "before.dll") == said(REGISTERED, own)
    assert windows_prints(tmp_path, "after.dll") == said(of_words("90"), left)
