"""Programs of real compilers and linkers: their pointers lead to the inputs, and their addresses equal LLVM's."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference
from tests.builders.sycl import packed, spirv

import fatpack

ONE, TWO, LARGE = spirv(20, 1), spirv(33, 2), spirv(9000, 3)

#: Linkers with the ways in which they leave addresses: in place, in relocations, in both, in packed relocations.
LINKS = {
    "bfd": ("ld.bfd", "-shared"),
    "bfd program": ("ld.bfd", "-e", "0"),
    "bfd position-independent": ("ld.bfd", "-pie", "-e", "0", "--no-dynamic-linker"),
    "lld": ("ld.lld", "-shared"),
    "lld program": ("ld.lld", "-e", "0"),
    "lld in place": ("ld.lld", "-shared", "--apply-dynamic-relocs"),
    "lld relr": ("ld.lld", "-shared", "--pack-dyn-relocs=relr"),
}

ASSEMBLY = """
  .section "__CLANG_OFFLOAD_BUNDLE__sycl-spir64","a"
  .p2align 4
one: .incbin "one"
  .p2align 4
large: .incbin "large"
  .section "__CLANG_OFFLOAD_BUNDLE__sycl-spir64_gen","a"
  .p2align 4
two: .incbin "two"
  .section .tgtimg,"aw"
  .p2align 4
  .quad one, {one}
  .quad two, {two}
  .quad large, {large}
"""


def assembled(folder: Path, target: str) -> Path:
    """Return an object as clang-offload-wrapper makes them, for a target of clang's."""
    for name, data in (("one", ONE), ("two", TWO), ("large", packed(LARGE))):
        (folder / name).write_bytes(data)
    text = ASSEMBLY.format(one=len(ONE), two=len(TWO), large=len(LARGE))
    (folder / "wrapper.s").write_text(
        text.replace(',"aw"', ',"dw"').replace(',"a"', ',"dr"') if "windows" in target else text
    )
    reference.run("clang", f"--target={target}", "-c", "wrapper.s", "-o", "wrapper.o", cwd=folder)
    return folder / "wrapper.o"


def listed(path: Path) -> list[tuple[str, bytes]]:
    with fatpack.open(path) as file:
        assert file.findings == ()
        return [(image.attrs.get("id", ""), image.data.tobytes()) for image in file.images()]


EXPECTED = [("sycl-spir64", ONE), ("sycl-spir64", LARGE), ("sycl-spir64_gen", TWO)]


@pytest.mark.parametrize("link", LINKS)
def test_images_of_a_program_are_those_that_were_put_in(tmp_path: Path, link: str) -> None:
    assembled(tmp_path, "x86_64-linux-gnu")
    reference.run(*LINKS[link], "wrapper.o", "-o", "program", cwd=tmp_path)
    assert sorted(listed(tmp_path / "program")) == sorted(EXPECTED)


@pytest.mark.parametrize(
    "target", ["x86_64-linux-gnu", "aarch64-linux-gnu", "riscv64-linux-gnu", "powerpc64le-linux-gnu", "s390x-linux-gnu"]
)
def test_images_of_an_object_are_found_through_its_relocations(tmp_path: Path, target: str) -> None:
    assert listed(assembled(tmp_path, target)) == EXPECTED


@pytest.mark.parametrize(
    "target", ["aarch64-linux-gnu", "riscv64-linux-gnu", "powerpc64le-linux-gnu", "s390x-linux-gnu"]
)
def test_images_of_libraries_for_other_processors_are_found(tmp_path: Path, target: str) -> None:
    assembled(tmp_path, target)
    reference.run("ld.lld", "-shared", "wrapper.o", "-o", "program", cwd=tmp_path)
    assert sorted(listed(tmp_path / "program")) == sorted(EXPECTED)


@pytest.mark.parametrize("target", ["x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc", "x86_64-pc-windows-gnu"])
def test_objects_for_windows(tmp_path: Path, target: str) -> None:
    assert listed(assembled(tmp_path, target)) == EXPECTED


@pytest.mark.parametrize("target", ["x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc"])
def test_images_of_libraries_for_windows(tmp_path: Path, target: str) -> None:
    assembled(tmp_path, target)
    reference.run("lld-link", "/dll", "/noentry", "wrapper.o", "/out:program.dll", cwd=tmp_path)
    assert sorted(data for _, data in listed(tmp_path / "program.dll")) == sorted([ONE, TWO, LARGE])


SOURCE = """
#define __global__ __attribute__((global))
struct dim3 { unsigned x, y, z; };
typedef int hipError_t; typedef struct stream *hipStream_t;
extern "C" hipError_t hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, hipStream_t);
extern "C" hipError_t __hipPushCallConfiguration(dim3, dim3, __SIZE_TYPE__ = 0, hipStream_t = 0);
__global__ void NAME(int *p) { *p = 1; }
"""


def hip_objects(folder: Path, *options: str) -> list[str]:
    names = ["one", "two"]
    for name in names:
        (folder / f"{name}.hip").write_text(SOURCE.replace("NAME", name))
        driver = [
            "-nogpulib",
            "-nogpuinc",
            "--no-offload-new-driver",
            "--offload-arch=gfx90a,gfx1030",
            *(options or ("-fPIC",)),
        ]
        reference.run("clang", "-x", "hip", *driver, "-c", f"{name}.hip", "-o", f"{name}.o", cwd=folder)
    return [f"{name}.o" for name in names]


@pytest.mark.sweep(4)
@pytest.mark.parametrize("link", LINKS)
def test_every_record_of_a_hip_program_leads_to_its_bundle(tmp_path: Path, link: str) -> None:
    objects = hip_objects(tmp_path)
    undefined = ["--unresolved-symbols=ignore-all"] if "program" in link or "position" in link else []
    reference.run(*LINKS[link], *undefined, *objects, "-o", "program", cwd=tmp_path)
    with fatpack.open(tmp_path / "program") as file:
        assert len(file.containers) == 2
        assert file.findings == ()
    # Without the second bundle its record leads nowhere, and without its record the bundle is lost.
    data = (tmp_path / "program").read_bytes()
    at = file_offset(tmp_path / "program")
    spoiled = data[:at] + b"\0" * 24 + data[at + 24 :]
    with fatpack.open(spoiled) as file:
        assert [item.code for item in file.findings] == ["FP3002"]


@pytest.mark.sweep(3)
@pytest.mark.parametrize("target", ["x86_64-pc-windows-msvc", "x86_64-pc-windows-gnu"])
@pytest.mark.parametrize("options", [(), ("-fgpu-rdc",)], ids=["whole", "rdc"])
def test_records_of_hip_for_windows_lead_to_their_bundle(tmp_path: Path, target: str, options: tuple[str, ...]) -> None:
    objects = hip_objects(tmp_path, f"--target={target}", *options)
    for name in objects:
        with fatpack.open(tmp_path / name) as file:
            assert len(file.containers) == 1
            assert file.findings == ()


@pytest.mark.parametrize("target", ["x86_64-pc-windows-msvc", "x86_64-pc-windows-gnu"])
def test_records_in_a_library_for_windows_lead_to_their_bundles(tmp_path: Path, target: str) -> None:
    objects = hip_objects(tmp_path, f"--target={target}")
    link = ["/dll", "/noentry", "/force:unresolved"]
    reference.run("lld-link", *link, *objects, "/out:program.dll", cwd=tmp_path)
    with fatpack.open(tmp_path / "program.dll") as file:
        assert len(file.containers) == 2
        assert file.findings == ()


def file_offset(path: Path) -> int:
    """Return where the first record is, by LLVM."""
    lines = reference.run("llvm-readelf", "-SW", path).stdout.decode().splitlines()
    (line,) = [line for line in lines if ".hipFatBinSegment" in line and ".rela" not in line]
    return int(line.split("]")[1].split()[3], 16)


def test_addresses_of_code_objects_are_those_that_llvm_prints(tmp_path: Path) -> None:
    objects = hip_objects(tmp_path)
    reference.run("ld.lld", "-shared", *objects, "-o", "program.so", cwd=tmp_path)
    for name in ("one.o", "program.so"):
        told = reference.run("llvm-readobj", "--offloading", name, cwd=tmp_path).stdout.decode()
        uris = [line.split("#", 1)[1] for line in told.splitlines() if "file://" in line]
        assert uris
        with fatpack.open(tmp_path / name) as file:
            ours = [f"offset={item.span.start}&size={item.size}" for item in file.images()]
        assert sorted(ours) == sorted(uris)
