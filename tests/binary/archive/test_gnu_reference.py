"""Our archives compared byte for byte with llvm-ar 22's archives of the same files."""

from __future__ import annotations

import os
import random
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.effort import some
from tests.laws.rooms import FIXTURES
from tests.reference import run, tool

from fatpack.binary import CodeSection, archive
from fatpack.binary.archive import writer
from fatpack.errors import FormatError
from fatpack.io.open import open_source
from fatpack.testing.helpers import join_pieces

pytestmark = pytest.mark.reference

#: Definitions and references of all kinds: common, weak, hidden, local, undefined, aliased, in a section of its own
C = """
int global = 1; static int local; int common; extern int elsewhere; int *uses = &local;
__attribute__((weak)) int weak(void) { return elsewhere; }
__attribute__((visibility("hidden"))) int hidden(void) { return weak() + local; }
static int unseen(void) { return 1; } int caller(void) { return unseen(); }
int placed __attribute__((section(".foo,bar"))) = 3;
"""
ALIAS = 'int one(void) { return 1; } extern int two(void) __attribute__((alias("one")));'
CXX = """
template <class T> struct A { virtual ~A() {} static int x; };
template <class T> int A<T>::x = 1;
A<int> a; inline int count() { static int n; return n++; } int use() { return count() + A<char>::x; }
"""
ASSEMBLY = """
__asm__(".globl as1\\nas1: nop\\n.weak as2\\nas2:\\n.globl undefined\\n.set as3, 5\\n.globl as3\\n");
int z(void) { return 1; }
"""
STDCALL = """
int __stdcall s(int a, int b) { return a; } int __fastcall f(int a) { return a; } int c(void) { return 1; }
__declspec(dllimport) int imported(void); __declspec(dllexport) int exported(void) { return imported(); }
"""
DEVICE = "amdgcn-amd-amdhsa"
ELF_TARGETS = [
    f"{machine}-linux-gnu" for machine in ("x86_64", "i386", "aarch64", "armv7", "riscv64", "mips", "powerpc64le")
]
COFF_TARGETS = ["x86_64-pc-windows-msvc", "i686-pc-windows-msvc", "aarch64-pc-windows-msvc", "x86_64-w64-mingw32"]

#: name → target, language, source, further options
COMPILED = {
    **{f"{target}.o": (target, "c", C, ["-fcommon", "-g"]) for target in ELF_TARGETS},
    **{f"{target}.obj": (target, "c", C.replace("foo,bar", "foo"), ["-fcommon"]) for target in COFF_TARGETS},
    **{f"{target}.big.obj": (target, "c++", CXX, ["-Wa,-mbig-obj"]) for target in COFF_TARGETS[-1:]},
    **{
        f"{target}.bc": (target, "c", C, ["-emit-llvm", "-fcommon"])
        for target in (ELF_TARGETS[0], *COFF_TARGETS[:2], DEVICE, "nvptx64-nvidia-cuda", "spirv64-unknown-unknown")
    },
    "cxx.o": (ELF_TARGETS[0], "c++", CXX, ["-O1"]),
    "cxx.obj": (COFF_TARGETS[0], "c++", CXX, []),
    "cxx.bc": (ELF_TARGETS[0], "c++", CXX, ["-emit-llvm"]),
    "alias.bc": (ELF_TARGETS[0], "c", ALIAS, ["-emit-llvm"]),
    "thin.bc": (ELF_TARGETS[0], "c++", CXX, ["-flto=thin"]),
    "split.bc": (
        ELF_TARGETS[0],
        "c++",
        CXX,
        ["-flto=thin", "-fsplit-lto-unit", "-fvisibility=hidden", "-fwhole-program-vtables"],
    ),
    "assembly.bc": (ELF_TARGETS[0], "c", ASSEMBLY, ["-emit-llvm"]),
    "stdcall.obj": (COFF_TARGETS[1], "c", STDCALL, []),
    "stdcall.bc": (COFF_TARGETS[1], "c", STDCALL, ["-emit-llvm"]),
    "fat-lto.o": (ELF_TARGETS[0], "c", C, ["-flto", "-ffat-lto-objects"]),
    "darwin.bc": ("arm64-apple-macos", "c", C.replace(".foo,bar", "A,b"), ["-emit-llvm"]),
}


def _compile(folder: Path, name: str) -> None:
    target, language, source, options = COMPILED[name]
    command = [tool("clang"), f"--target={target}", "-nogpulib", "-w", "-c", "-x", language, "-", "-o", name, *options]
    subprocess.run(command, input=source.encode(), check=True, cwd=folder)


def _bitcode(folder: Path) -> None:
    """Write bitcode for which LLVM's tools make no table of symbols, in wrappers, padded, and damaged."""
    for number, names in enumerate([("cxx.bc", "thin.bc", "alias.bc"), ("i686-pc-windows-msvc.bc",), ("darwin.bc",)]):
        run("llvm-cat", "-b", "-o", f"joined{number}.bc", *names, cwd=folder)
    data = (folder / f"{DEVICE}.bc").read_bytes()
    for count in (1, 4, 8, 12):
        (folder / f"padded{count}.bc").write_bytes(data + bytes(count))
    header = struct.pack("<5I", 0x0B17C0DE, 0, 20, len(data), 7)
    (folder / "wrapped.bc").write_bytes(header + data)
    (folder / "wrapped-padded.bc").write_bytes(header + data + bytes(12))
    (folder / "wrapped-cut.bc").write_bytes(header + data[:-4])
    for size in (4, 8, 16, 2000):
        (folder / f"cut{size}.bc").write_bytes(data[:size])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of every kind that may be a member."""
    folder = tmp_path_factory.mktemp("files")
    for name in COMPILED:
        _compile(folder, name)
    _bitcode(folder)
    run("ld.lld", "-shared", "x86_64-linux-gnu.o", "-o", "shared.so", "--unresolved-symbols=ignore-all", cwd=folder)
    run("llvm-strip", "shared.so", "-o", "stripped.so", cwd=folder)
    (folder / "imports.def").write_text("LIBRARY x.dll\nEXPORTS\n f\n d DATA\n n @5 NONAME\n a=b\n")
    for machine in ("i386:x86-64", "i386", "arm64ec"):
        library = f"{machine.replace(':', '_')}.lib"
        run("llvm-dlltool", "-m", machine, "-d", "imports.def", "-l", library, cwd=folder)
        with open_source(folder / library) as source:
            for number, site in enumerate(archive.locate(source.view())):
                assert isinstance(site, CodeSection)
                (folder / f"{library}.{number}.import").write_bytes(site.data.tobytes())
        (folder / library).unlink()
    for path in (*(FIXTURES / "cuda").rglob("*.cubin"), *(FIXTURES / "cuda").rglob("*.ptx")):
        (folder / path.name).write_bytes(path.read_bytes())
    for room in ("pe", "offload_binary", "clang_bundle"):
        for path in (FIXTURES / room).iterdir():
            if path.is_file():
                (folder / path.name).write_bytes(path.read_bytes())
    contents = {"zeros": bytes(100), "three": bytes(3), "empty": b"", "odd": b"hello", "a name with spaces": b"text"}
    contents |= {"fifteen.bytes.o": b"", "sixteen.bytes.oo": b"x", "seventeen.bytes.o": b"xy", "elf": b"\x7fELFxx"}
    for name, data in contents.items():
        (folder / name).write_bytes(data)
    return folder


def theirs(folder: Path, names: Sequence[str], **environment: str) -> bytes:
    output = folder / "theirs.a"
    output.unlink(missing_ok=True)
    command = [tool("llvm-ar"), "--format=gnu", "qcD", output.name, *names]
    subprocess.run(command, check=True, cwd=folder, capture_output=True, env={**os.environ, **environment})
    data = output.read_bytes()
    output.unlink()
    return data


def ours(folder: Path, names: Sequence[str]) -> bytes:
    """Return our archive of the files; members have their base names, as with llvm-ar."""
    sources = [open_source(folder / name, may_close=True) for name in names]
    pieces = archive.build_archive(
        [(os.path.basename(name).encode(), source.view()) for name, source in zip(names, sources, strict=True)]
    )
    data = join_pieces(pieces)
    for source in sources:
        source.close()
    return data


def test_every_kind_of_file_alone_gives_the_same_archive(files: Path) -> None:
    names = sorted(path.name for path in files.iterdir() if path.is_file())
    assert len(names) > 60
    assert {name for name in some(names) if ours(files, [name]) != theirs(files, [name])} == set()


def test_random_lists_of_files_give_the_same_archive(files: Path) -> None:
    names = sorted(path.name for path in files.iterdir() if path.is_file())
    for folder in ("a", "b"):
        (files / folder).mkdir(exist_ok=True)
        for name in ("cxx.o", "cxx.bc", "seventeen.bytes.o", "odd"):
            (files / folder / name).write_bytes((files / name).read_bytes() + folder.encode() * (folder == "b"))
    equal = [f"{folder}/{name}" for folder in "ab" for name in ("cxx.o", "cxx.bc", "seventeen.bytes.o", "odd")]
    source = random.Random(5)
    for _ in some(range(40)):
        chosen = [source.choice([*names, *equal]) for _ in range(source.randrange(13))]
        assert ours(files, chosen) == theirs(files, chosen), chosen


@pytest.mark.parametrize("threshold", [0, 100, 3000, 1 << 20])
def test_offsets_that_outgrow_32_bits_get_a_table_of_64(
    files: Path, monkeypatch: pytest.MonkeyPatch, threshold: int
) -> None:
    names = ["cxx.o", "cxx.bc", "odd", "seventeen.bytes.o", "cxx.obj"]
    monkeypatch.setattr(writer, "LARGEST_OFFSET", threshold)
    data = ours(files, names)
    assert data == theirs(files, names, SYM64_THRESHOLD=str(threshold))
    assert (b"/SYM64/" in data) == (threshold < 1 << 20)


def test_the_exact_threshold_is_llvms(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["cxx.o", "odd"]
    last = theirs(files, names).index(b"odd/")
    for threshold in range(last - 2, last + 3):
        monkeypatch.setattr(writer, "LARGEST_OFFSET", threshold)
        assert ours(files, names) == theirs(files, names, SYM64_THRESHOLD=str(threshold)), threshold


def test_objects_of_the_same_machines_are_objects(tmp_path: Path) -> None:
    """COFF has no magic: each machine, and its neighbours, in a file with one symbol."""
    known = ("014c", "0150", "0166", "0183", "01c4", "01f0", "0290", "0268", "8664", "aa64", "a641", "a64e", "0000")
    numbers = {int(text, 16) ^ change for text in known for change in (0, 1, 0x100, 0x300, 0x8000)}
    # 01 DF, 01 F7 and 03 F0 00 start other formats.
    names = [f"{number:04x}" for number in sorted(numbers - {0xDF01, 0xF701, 0xF003})]
    for name in names:
        header = struct.pack("<HHIIIHH", int(name, 16), 0, 0, 20, 1, 0, 0)
        (tmp_path / name).write_bytes(header + struct.pack("<8sIhHBBI", name.encode(), 1, -1, 0, 2, 0, 4))
    assert ours(tmp_path, names) == theirs(tmp_path, names)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("zeros", bytes(19)),
        ("zeros-and-more", b"\0\0\1\2\3\4" + b"garbage " * 5),
        ("cut.o", None),
    ],
)
def test_what_llvm_refuses_is_refused(files: Path, tmp_path: Path, name: str, data: bytes | None) -> None:
    path = tmp_path / name
    path.write_bytes((files / "cxx.o").read_bytes()[:500] if data is None else data)
    assert run("llvm-ar", "--format=gnu", "qcD", "x.a", name, cwd=tmp_path, check=False).returncode == 1
    with pytest.raises(FormatError):
        ours(tmp_path, [name])


def test_symbols_of_assembly_that_no_table_lists_are_left_out(files: Path) -> None:
    """The documented difference: llvm-as writes no table, and we read no assembly."""
    run("llvm-dis", "assembly.bc", "-o", "assembly.ll", cwd=files)
    run("llvm-as", "assembly.ll", "-o", "without-table", cwd=files)
    data = ours(files, ["without-table"])
    (files / "without-table").unlink()
    (files / "assembly.ll").unlink()
    (files / "x.a").write_bytes(data)
    listed = run("llvm-nm", "--print-armap", "x.a", cwd=files).stdout
    (files / "x.a").unlink()
    assert b"z in without-table" in listed
    assert b"as1 in" not in listed


def test_linkers_find_the_symbols(files: Path, tmp_path: Path) -> None:
    source = "int caller(void); int use(void); int main(void) { return caller() + 1; } int elsewhere;"
    command = [tool("clang"), "-c", "-x", "c", "-", "-o", str(tmp_path / "main.o")]
    subprocess.run(command, input=source.encode(), check=True)
    (tmp_path / "lib.a").write_bytes(ours(files, ["odd", "x86_64-linux-gnu.o", "cxx.o"]))
    for linker in ("ld.lld", "ld"):
        run(linker, "main.o", "lib.a", "-o", f"{linker}.out", "-e", "main", cwd=tmp_path)
        assert b" T caller" in run("llvm-nm", f"{linker}.out", cwd=tmp_path).stdout
