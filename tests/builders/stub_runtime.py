"""Libraries that stand for the ones a program needs and this machine lacks: a GPU runtime that records, and the rest.

Everything that is missing becomes a function that returns 0, or zeros where it is data. What registers fat binaries
follows the record to the container, ends the process where there is none, and counts.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

from elftools.elf.elffile import ELFFile

_RECORDER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct record { unsigned magic, version; const unsigned char *data; void *names; };
static int binaries, functions;
static void *container(const struct record *record, unsigned magic, int is_one) {
    if (record->magic != magic || !is_one) { fprintf(stderr, "no container behind a record\n"); abort(); }
    binaries++;
    static void *handles[65536];
    return &handles[binaries];
}
void *__cudaRegisterFatBinary(const struct record *record) {
    return container(record, 0x466243b1, *(const unsigned *)record->data == 0xba55ed50);
}
void *__hipRegisterFatBinary(const struct record *record) {
    const void *data = record->data;
    return container(record, 0x48495046, !memcmp(data, "__CLANG_OFFLOAD_BUNDLE__", 24) || !memcmp(data, "CCOB", 4));
}
void __cudaRegisterFunction(void **handle, const void *host, char *name, const char *device) { functions += !!*device; }
void __hipRegisterFunction(void **handle, const void *host, char *name, const char *device) { functions += !!*device; }
int stub_binaries(void) { return binaries; }
int stub_functions(void) { return functions; }
"""

_RECORDED = (
    "__cudaRegisterFatBinary",
    "__hipRegisterFatBinary",
    "__cudaRegisterFunction",
    "__hipRegisterFunction",
)

#: how libraries are called that are replaced even where this machine has them
_RUNTIMES = ("libcudart", "libcublas", "libcusparse", "libamdhip", "libhip", "libroc")

_LOAD = """
import ctypes, sys
stub = ctypes.CDLL(sys.argv[1], mode=ctypes.RTLD_GLOBAL)
ctypes.CDLL(sys.argv[2])
print(stub.stub_binaries(), stub.stub_functions())
"""


def missing(library: Path) -> tuple[list[str], list[str]]:
    """Return the libraries that one needs and that are not here, and the symbols that no library here has."""
    with library.open("rb") as file:
        elf = ELFFile(file)
        needed = [tag.needed for tag in elf.get_section_by_name(".dynamic").iter_tags("DT_NEEDED")]
        symbols = elf.get_section_by_name(".dynsym").iter_symbols()
        undefined = [
            symbol.name
            for symbol in symbols
            if symbol.name and symbol["st_shndx"] == "SHN_UNDEF" and symbol["st_info"]["bind"] != "STB_WEAK"
        ]
    here, absent = [ctypes.CDLL(None)], []
    for name in needed:
        if name.startswith(_RUNTIMES):
            absent.append(name)
            continue
        try:
            here.append(ctypes.CDLL(name))
        except OSError:
            absent.append(name)
    return absent, [name for name in undefined if not any(hasattr(one, name) for one in here)]


def stubs(folder: Path, library: Path) -> Path:
    """Build what is missing for a library into a folder; return the library that has all symbols."""
    absent, symbols = missing(library)
    folder.mkdir(parents=True, exist_ok=True)
    lines = [".text"]
    for name in symbols:
        if name not in _RECORDED:
            body = ".zero 512" if name.startswith(("_ZTV", "_ZTI", "_ZTS")) else "xorl %eax, %eax; ret"
            lines.append(f'.globl "{name}"\n"{name}": {body}')
    (folder / "stubs.s").write_text("\n".join([*lines, '.section .note.GNU-stack,"",@progbits', ""]))
    (folder / "recorder.c").write_text(_RECORDER)
    whole = folder / "libstub.so"
    gcc = ["gcc", "-shared", "-fPIC", "-w"]
    subprocess.run([*gcc, "-o", whole, folder / "recorder.c", folder / "stubs.s"], check=True)
    for name in absent:
        subprocess.run([*gcc, "-o", folder / name, "-xc", "/dev/null", f"-Wl,-soname,{name}"], check=True)
    return whole


def registered(library: Path, folder: Path) -> tuple[int, int]:
    """Load a library with stubs for what it needs; return how many containers and functions it registers."""
    stub = stubs(folder, library)
    done = subprocess.run(
        [sys.executable, "-c", _LOAD, stub, library],
        check=True,
        capture_output=True,
        text=True,
        env={"LD_LIBRARY_PATH": str(folder), "PATH": "/usr/bin:/bin"},
    )
    binaries, functions = map(int, done.stdout.split())
    return binaries, functions
