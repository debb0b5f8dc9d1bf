"""Images found by the records that register them, if no table has their places or targets."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from tests import reference
from tests.builders import elf as build
from tests.builders import pe as build_pe
from tests.builders.sycl import MACHINES, packed, spirv

import fatpack
from fatpack.io.source import BytesSource
from fatpack.model import Finding
from fatpack.scanner import FoundContainer, scan

ONE, LARGE = spirv(20, 1), spirv(5000, 2)
IMAGES = ONE + packed(LARGE)


def read(data: bytes) -> tuple[list[FoundContainer], list[Finding]]:
    items = list(scan(BytesSource(data, "x").view()))
    return [item for item in items if isinstance(item, FoundContainer)], [
        item for item in items if isinstance(item, Finding)
    ]


def listed(found: list[FoundContainer]) -> list[tuple[str, bytes]]:
    return [(image.target.triple, image.data.tobytes()) for item in found for image in item.images]


def record(mark: str, version: int, kind: int, target: int, begin: int, end: int) -> bytes:
    """Return what registers an image, as DPC++ lays it out (LLVM and newer DPC++ from version 3 on)."""
    word = "Q" if "Q" in mark else "I"
    pad = "4x" if word == "Q" else ""
    manifest = (0, 0) if version < 3 else ()
    pointers = (target, 1, 1, *manifest, begin, end, 0, 0, 0, 0)
    return struct.pack(f"{mark[0]}HBB{pad}{len(pointers)}{word}", version, kind, 2, *pointers)


def library(kind: tuple[int, str], version: int, offload: int, *, is_relocated: bool) -> bytes:
    """Return a library with two images in a section that tells no target, and their records."""
    bits, order = kind
    machine, relative = MACHINES[kind]
    elf = build.Elf(bits=bits, order=order, machine=machine, type=build.SHARED)
    elf.add("OFFLOAD_DEVICE_CODE", IMAGES, flags=build.ALLOC, addr=0x40010000)
    elf.add(".rodata", b"spir64\0spir64_gen\0", flags=build.ALLOC, addr=0x40020000)
    mark = ("<" if order == "little" else ">") + ("Q" if bits == 64 else "I")
    middle, end = 0x40010000 + len(ONE), 0x40010000 + len(IMAGES)
    records = record(mark, version, offload, 0x40020000, 0x40010000, middle)
    records += record(mark, version, offload, 0x40020007, middle, end)
    address = 0x40030000
    if is_relocated:
        size = bits // 8
        values = struct.unpack(f"{mark[0]}{len(records) // size}{mark[1]}", records)
        pointers = {n: value for n, value in enumerate(values) if 0x40010000 <= value < 0x40030000}
        empty = struct.pack(
            f"{mark[0]}{len(values)}{mark[1]}", *(0 if n in pointers else v for n, v in enumerate(values))
        )
        rows = [(address + size * number, relative, value) for number, value in pointers.items()]
        elf.add(".data.rel.ro", empty, flags=build.ALLOC | build.WRITE, addr=address)
        code = mark[1] * 2 + mark[1].lower()
        content = b"".join(elf.pack(code, *row) for row in rows)
        elf.add(".rela.dyn", content, type=build.RELA, flags=build.ALLOC, entsize=3 * size)
    else:
        elf.add(".data", records, flags=build.ALLOC | build.WRITE, addr=address)
    return elf.build()


@pytest.mark.parametrize("kind", MACHINES)
@pytest.mark.parametrize(("version", "offload"), [(1, 4), (2, 4), (3, 4), (3, 8)])
@pytest.mark.parametrize("is_relocated", [False, True])
def test_records_tell_where_images_are_and_what_for(
    kind: tuple[int, str], version: int, offload: int, is_relocated: bool
) -> None:
    found, findings = read(library(kind, version, offload, is_relocated=is_relocated))
    assert findings == []
    assert listed(found) == [("spir64", ONE), ("spir64_gen", LARGE)]


@pytest.mark.parametrize(("version", "offload"), [(0, 4), (4, 8), (2, 1), (3, 2), (3, 0)])
def test_records_of_another_kind_are_not_believed(version: int, offload: int) -> None:
    found, findings = read(library((64, "little"), version, offload, is_relocated=False))
    assert [item.code for item in findings] == ["FP3013"]
    assert len(found[0].images) == 1


def windows(*, with_table: bool, bits: int = 64) -> bytes:
    base, mark = (0x180000000, "<Q") if bits == 64 else (0x10000000, "<I")
    middle, end = base + 0x10000 + len(ONE), base + 0x10000 + len(IMAGES)
    records = record(mark, 2, 4, base + 0x20000, base + 0x10000, middle)
    records += record(mark, 2, 4, base + 0x20007, middle, end)
    word = mark[1]
    table = struct.pack(f"<4{word}", base + 0x10000, len(ONE), middle, len(LARGE))
    sections = [
        build_pe.Section(b"__CLANG_", IMAGES, address=0x10000),
        build_pe.Section(b".rdata", b"spir64\0spir64_gen\0", address=0x20000),
        build_pe.Section(b".data", records, address=0x30000),
        build_pe.Section(b".tgtimg", table, address=0x40000),
    ]
    return build_pe.build(sections[: 4 if with_table else 3], bits=bits, base_address=base)


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("with_table", [False, True])
def test_windows_cuts_names_and_records_keep_the_targets(bits: int, with_table: bool) -> None:
    found, findings = read(windows(with_table=with_table, bits=bits))
    assert findings == []
    assert listed(found) == [("spir64", ONE), ("spir64_gen", LARGE)]


def test_sections_beyond_the_limit_are_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.registration.sycl_containers._SEARCHES", 0)
    found, findings = read(windows(with_table=True))
    assert [target for target, _ in listed(found)] == ["", ""]
    assert [item.code for item in findings] == ["FP1005"]


def test_no_more_data_is_searched_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.binary.pointers._SEARCHED", 64)
    found, findings = read(windows(with_table=True))
    assert [target for target, _ in listed(found)] == ["", ""]
    assert [(item.code, item.message) for item in findings] == [
        ("FP1005", "only 64 bytes of a program's data are searched for pointers to images")
    ]


@pytest.mark.parametrize("is_relocated", [False, True])
def test_no_more_pointers_are_taken_than_the_limit(monkeypatch: pytest.MonkeyPatch, is_relocated: bool) -> None:
    monkeypatch.setattr("fatpack.binary.pointers._OF_AN_IMAGE", 1)
    monkeypatch.setattr("fatpack.limits.IMAGES", 3)
    _, findings = read(library((64, "little"), 2, 4, is_relocated=is_relocated))
    (found,) = [item for item in findings if item.code == "FP1005"]
    assert "pointers to images are followed, and there are more" in found.message
    assert "raise fatpack.limits.IMAGES" in found.hint


def test_no_more_records_are_read_than_there_may_be_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fatpack.limits.IMAGES", 1)
    found, findings = read(library((64, "little"), 2, 4, is_relocated=False))
    assert len(listed(found)) == 1
    assert ("FP1005", "2 records of images; only the first 1 are read") in [
        (item.code, item.message) for item in findings
    ]


def test_any_cut_or_flip_gives_images_or_findings() -> None:
    good = library((64, "little"), 2, 4, is_relocated=True)
    for at in range(0, len(good), 3):
        read(good[:at])
        read(good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :])


#: Replaces the device linker, which would need a SPIR-V back end: each input becomes two images.
LINKER = """#!/bin/sh
out=; in=
while [ $# -gt 0 ]; do case "$1" in -o) out=$2; shift;; -*) ;; *) in=$1;; esac; shift; done
head -c 60 "$in" > "$in.cut"
exec {packager} -o "$out" --image=file=$in,triple=spirv64-unknown-unknown,arch=,kind=sycl \\
  --image=file=$in.cut,triple=spirv64-unknown-unknown,arch=,kind=sycl
"""


@pytest.mark.parametrize("linker", ["ld.lld", "ld.bfd"])
def test_programs_that_llvm_wraps_have_no_table(tmp_path: Path, linker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    device_linker = tools / "clang-sycl-linker"
    device_linker.write_text(LINKER.replace("{packager}", reference.tool("llvm-offload-binary")))
    device_linker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    (tmp_path / "k.spv").write_bytes(ONE)
    (tmp_path / "k.c").write_text("int f(void) { return 0; }")
    image = "--image=file=k.spv,triple=spirv64-unknown-unknown,arch=,kind=sycl"
    reference.run("llvm-offload-binary", "-o", "k.bin", image, cwd=tmp_path)
    compile = ["--target=x86_64-linux-gnu", "-fPIC", "-c", "k.c", "-o", "k.o"]
    reference.run("clang", *compile, "-Xclang", "-fembed-offload-object=k.bin", cwd=tmp_path)
    wrapper = ["--host-triple=x86_64-unknown-linux-gnu", f"--linker-path={reference.tool(linker)}"]
    reference.run("clang-linker-wrapper", *wrapper, "-shared", "k.o", "-o", "k.so", cwd=tmp_path)
    with fatpack.open(tmp_path / "k.so") as file:
        assert file.findings == ()
        found = [(item.target.triple, item.data.tobytes()) for item in file.images()]
    assert found == [("spirv64-unknown-unknown", ONE), ("spirv64-unknown-unknown", ONE[:60])]
