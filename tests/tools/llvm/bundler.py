"""Targets, inputs and a runner for the tests of the stand-in for clang-offload-bundler."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.reference import run

from fatpack.formats import clang_bundle
from fatpack.io.source import Span
from fatpack.main import main
from fatpack.model import Container
from fatpack.testing.helpers import join_pieces, make_image

NAME = "clang-offload-bundler"

HOST = "host-x86_64-unknown-linux-gnu"
GFX906 = "hip-amdgcn-amd-amdhsa--gfx906"
GFX90A = "hip-amdgcn-amd-amdhsa--gfx90a"
V4 = "hipv4-amdgcn-amd-amdhsa--gfx906"
SM70 = "openmp-nvptx64-nvidia-cuda--sm_70"

#: Words that stand for longer ones in command lines.
WORDS = {"HOST": HOST, "GFX906": GFX906, "GFX90A": GFX90A, "V4": V4, "SM70": SM70}


def arguments_of(line: str) -> list[str]:
    """Return the arguments of a command line in which single capital words stand for targets."""
    return [
        re.sub(r"\b([A-Z]+[0-9A-Z]*)\b", lambda found: WORDS.get(found[0], found[0]), word) for word in line.split()
    ]


def make_inputs(folder: Path) -> Path:
    """Make the files that the command lines name, with the reference tools."""
    folder.mkdir(exist_ok=True)
    (folder / "host").write_bytes(b"host code\n")
    (folder / "a").write_bytes(b"first device")
    (folder / "b").write_bytes(b"\nsecond\n\ndevice\n")
    (folder / "empty").write_bytes(b"")
    (folder / "folder").mkdir(exist_ok=True)
    (folder / "response").write_text(f"-type=bc -input=host '-input=a' -targets={HOST},\"{GFX906}\" --output out\n")

    def make(line: str) -> None:
        run(NAME, *arguments_of(line), cwd=folder)

    make("-type=bc -targets=HOST,GFX906,GFX90A,SM70 -input=host -input=a -input=b -input=empty -output=four.bc")
    make("-type=bc -targets=GFX906,GFX90A -input=a -input=b -output=devices.bc")
    make("-type=bc -targets=GFX906:xnack+,GFX906:xnack- -input=a -input=b -output=xnack.bc")
    make("-type=bc -targets=HOST,GFX906,V4 -input=host -input=a -input=b -output=both.bc")
    make("-type=ii -targets=HOST,GFX906,GFX90A -input=host -input=a -input=b -output=text.ii")
    make("-type=s -targets=GFX906 -input=b -output=text.s")
    make("-type=bc -compress -targets=HOST,GFX906 -input=host -input=a -output=packed.bc")
    make("-type=ii -compress -targets=HOST,GFX906 -input=host -input=a -output=packed.ii")
    _make_objects(folder, make)
    _make_archives(folder)
    (folder / "wrong-hash.bc").write_bytes(patched((folder / "packed.bc").read_bytes(), 24, b"wrong"))
    (folder / "version-9.bc").write_bytes(patched((folder / "packed.bc").read_bytes(), 4, b"\x09"))
    (folder / "method-2.bc").write_bytes(patched((folder / "packed.bc").read_bytes(), 6, b"\x02"))
    (folder / "short.bc").write_bytes((folder / "packed.bc").read_bytes()[:20])
    (folder / "seven.bc").write_bytes(b"CCOB\3\0\1")
    return folder


#: object → the target that clang makes it for
OBJECTS = {
    "elf.o": "x86_64-unknown-linux-gnu",
    "arm.o": "aarch64-unknown-linux-gnu",
    "coff.o": "x86_64-pc-windows-msvc",
}

_SOURCE = """
int counter = 7; static int zeros[50]; const char *name = "a name";
int add(int left) { return left + counter + zeros[left]; }
__attribute__((noinline)) int twice(int left) { return add(left) + add(left + 1); }
"""


def _make_objects(folder: Path, make: Callable[[str], object]) -> None:
    """Compile hosts, and make fat objects of them with the original."""
    (folder / "source.c").write_text(_SOURCE)
    for name, target in {**OBJECTS, "macho.o": "x86_64-apple-macos"}.items():
        flags = ["-g", "-ffunction-sections"] if name == "arm.o" else []
        run("clang", "-target", target, "-O1", *flags, "-c", "source.c", "-o", name, cwd=folder)
        if name in OBJECTS:
            make(f"-type=o -targets=GFX906,HOST,SM70 -input=a -input={name} -input=elf.o -output=fat-{name}")
    run("clang", "-target", "amdgcn-amd-amdhsa", "-mcpu=gfx906", "-c", "source.c", "-o", "device.o", cwd=folder)
    run(
        "clang",
        "-target",
        "amdgcn-amd-amdhsa",
        "-mcpu=gfx906",
        "-c",
        "-emit-llvm",
        "source.c",
        "-o",
        "d.bc",
        cwd=folder,
    )
    (folder / "fat-elf.o").chmod(0o750)
    run("ld.lld", "-shared", "-Bsymbolic", "arm.o", "-o", "linked.so", cwd=folder)
    for name, device in (("linked.dll", "a"), ("linked.exe", "empty")):
        options = ["/dll", "/noentry"] if name == "linked.dll" else ["/entry:add", "/subsystem:console", "/debug"]
        run("lld-link", *options, "/nodefaultlib", "/Brepro", f"/out:{name}", "coff.o", cwd=folder)
        make(f"-type=o -targets=GFX906,HOST,SM70 -input={device} -input={name} -input=b -output=fat-{name}")


def _make_archives(folder: Path) -> None:
    (folder / "many.tar.bc").write_bytes((folder / "four.bc").read_bytes())
    (folder / "noext").write_bytes((folder / "devices.bc").read_bytes())
    members = [
        "four.bc",
        "fat-elf.o",
        "a",
        "xnack.bc",
        "packed.bc",
        "elf.o",
        "both.bc",
        "noext",
        "many.tar.bc",
        "empty",
    ]
    run("llvm-ar", "rcD", "lib.a", *members, cwd=folder)
    run("llvm-ar", "rcDT", "thin.a", "four.bc", "fat-elf.o", cwd=folder)
    run("llvm-ar", "qcD", "twice.a", "four.bc", "devices.bc", "four.bc", cwd=folder)
    run("llvm-ar", "rcD", "--format=bsd", "bsd.a", "four.bc", "many.tar.bc", cwd=folder)
    run("llvm-ar", "rcD", "none.a", "a", "b", cwd=folder)
    line = "-type=bc -targets=GFX906,HOST,SM70 -input=device.o -input=d.bc -input=elf.o -output=code.bc"
    run(NAME, *arguments_of(line), cwd=folder)
    run("llvm-ar", "rcD", "code.a", "code.bc", cwd=folder)
    # A feature of gfx906 is fixed in one entry and free in the other: what -check-input-archive is there to find.
    ids = [GFX906, f"{GFX906}:xnack+"]
    (folder / "conflict.bc").write_bytes(written(ids, [b"1", b"2"]))
    run("llvm-ar", "rcD", "conflict.a", "four.bc", "conflict.bc", cwd=folder)
    (folder / "empty.a").write_bytes(b"!<arch>\n")
    (folder / "cut.a").write_bytes((folder / "lib.a").read_bytes()[:100])


def written(ids: list[str], contents: list[bytes]) -> bytes:
    """Return a binary bundle with IDs as they are."""
    images = tuple(make_image(content, attrs={"id": spelling}) for spelling, content in zip(ids, contents, strict=True))
    return join_pieces(clang_bundle.write(Container("", 0, images, Span(0, 0), {"flavour": "binary"})))


def patched(data: bytes, at: int, new: bytes) -> bytes:
    return data[:at] + new + data[at + len(new) :]


def ran(line: str, capfdbinary: pytest.CaptureFixture[bytes]) -> tuple[int, str, str]:
    """Run the stand-in; return its exit code, standard output and standard error."""
    code = main(["tool", NAME, *arguments_of(line)])
    streams = capfdbinary.readouterr()
    return code, streams.out.decode("utf-8", "surrogateescape"), streams.err.decode()
