"""Builds of one source have one canonical digest wherever they are made; other code has another."""

from __future__ import annotations

import io
import json
import os
import subprocess
from pathlib import Path

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack.images.identity import VERSION
from fatpack.main import main

SOURCE = """
__constant__ float table[4] = {1, 2, 3, 4};
static __device__ int counter;
template <typename T> __global__ void scale(T *p, T s, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) p[i] = p[i] * s + table[i & 3];
}
template __global__ void scale<float>(float *, float, int);
extern "C" __device__ __noinline__ float helper(float x) { return sinf(x) / table[2]; }
extern "C" __global__ void sine(float *p) {
  __shared__ float buffer[64];
  buffer[threadIdx.x] = helper(p[threadIdx.x]);
  __syncthreads();
  p[threadIdx.x] = buffer[63 - threadIdx.x];
  atomicAdd(&counter, 1);
}
"""


def digests(*paths: Path) -> list[str | None]:
    """Return the digest of each file, read alone."""
    return [item.digest for path in paths for item in fatpack.digest(path).files]


def built(folder: Path, name: str, *options: str, time: int = 1_600_000_000) -> Path:
    """Return what nvcc makes of the source in a folder of its own, with a time for the source."""
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / "k.cu"
    source.write_text(SOURCE)
    os.utime(source, (time, time))
    subprocess.run([reference.tool("nvcc"), *options, "k.cu", "-o", name], cwd=folder, check=True, capture_output=True)
    return folder / name


WAYS = {
    "cubin": ("-cubin", "-arch=sm_80"),
    "lines.cubin": ("-cubin", "-arch=sm_80", "-lineinfo"),
    "debug.cubin": ("-cubin", "-arch=sm_80", "-G"),
    "ptx": ("-ptx", "-arch=compute_80"),
    "new.cubin": ("-cubin", "-arch=sm_100", "-lineinfo"),
    "relocatable.o": ("-dc", "-arch=sm_90"),
    "object.o": ("-c", "-gencode=arch=compute_80,code=sm_80", "-gencode=arch=compute_90,code=[sm_90,compute_90]"),
}


@pytest.mark.parametrize("name", WAYS)
def test_nvcc_makes_one_digest_at_other_times_and_places(tmp_path: Path, name: str) -> None:
    one = built(tmp_path / "a", f"k.{name}", *WAYS[name])
    other = built(tmp_path / "another" / "folder", f"x.{name}", *WAYS[name], time=1_700_000_000)
    first, second = digests(one, other)
    assert first == second is not None and first.startswith(f"{VERSION}:sha256:")


def test_nvcc_makes_other_digests_with_other_options(tmp_path: Path) -> None:
    ways = [(), ("-Xptxas=-O1",), ("-use_fast_math",), ("-maxrregcount=24",), ("-G",), ("-DNOTHING",), ("-lineinfo",)]
    made = digests(
        *(built(tmp_path / str(number), "k.cubin", "-cubin", "-arch=sm_80", *way) for number, way in enumerate(ways))
    )
    assert len(set(made[:5])) == 5
    assert made[5] == made[6] == made[0]


def test_a_function_that_no_kernel_calls_counts(tmp_path: Path) -> None:
    changed = tmp_path / "changed" / "k.cu"
    before = built(tmp_path / "a", "k.o", "-dc", "-arch=sm_80")
    changed.parent.mkdir()
    changed.write_text(SOURCE + 'extern "C" __device__ int other(int x) { return x * 7; }')
    made = []
    for number in (7, 9):
        changed.write_text(SOURCE + f'extern "C" __device__ int other(int x) {{ return x * {number}; }}')
        subprocess.run(
            [reference.tool("nvcc"), "-dc", "-arch=sm_80", "k.cu", "-o", f"{number}.o"], cwd=changed.parent, check=True
        )
        made.append(changed.parent / f"{number}.o")
    assert len(set(digests(before, *made))) == 3


def test_clang_makes_one_digest_for_amd_at_other_places(tmp_path: Path) -> None:
    source = (
        "__attribute__((device)) int table[2] = {3, 4};\n"
        'extern "C" __attribute__((amdgpu_kernel)) void k(int *p) { *p += table[*p & 1]; }\n'
    )
    made: dict[str, list[Path]] = {}
    for folder in ("a", "another/folder"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "k.cpp").write_text(source.replace("__attribute__((device)) ", ""))
        for name, options in {"plain": ("-O2",), "lines": ("-O2", "-g"), "slow": ("-O0",)}.items():
            path = tmp_path / folder / f"{name}.co"
            words = ["--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "k.cpp", "-o", path.name]
            subprocess.run([reference.tool("clang"), *options, *words], cwd=path.parent, check=True)
            made.setdefault(name, []).append(path)
    found = {name: digests(*paths) for name, paths in made.items()}
    assert all(first == second is not None for first, second in found.values())
    assert found["plain"] != found["slow"]


def test_containers_order_and_compression_do_not_count(tmp_path: Path) -> None:
    cubins = [built(tmp_path / arch, "k.cubin", "-cubin", f"-arch={arch}") for arch in ("sm_80", "sm_90")]
    names = list(map(str, cubins))
    words = [f"--image=file={name},triple=nvptx64-nvidia-cuda,arch={name.split('/')[-2]},kind=cuda" for name in names]
    for output, images in (("one.offload", words), ("other.offload", words[::-1])):
        assert main(["pack", *images, "-o", str(tmp_path / output)]) == 0
    assert main(["convert", str(tmp_path / "one.offload"), "--format", "fatbin", "-o", str(tmp_path / "k.fatbin")]) == 0
    files = [tmp_path / name for name in ("one.offload", "other.offload", "k.fatbin")]
    assert len(set(digests(*files))) == 1
    one, two = digests(*cubins)
    assert one != two


def test_lines_are_those_of_sha256sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ptx = tmp_path / "k.ptx"
    ptx.write_text("// by somebody\n.version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n")
    again = tmp_path / "again.ptx"
    again.write_text(ptx.read_text().replace("// by somebody", "//\n//  at another time").replace("{ ret", "{\n  ret"))
    assert main(["inspect", "--digest", "-v", str(ptx), str(again)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ", 1)[1] for line in lines[::2]] == [str(ptx), str(again)]
    assert lines[0].split()[0] == lines[2].split()[0]
    assert lines[1].split()[1:] == ["compute_80", "ptx"]


def test_a_statement_names_files_and_digests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from hashlib import sha256

    from jsonschema import validate

    from fatpack.text.schemas import schema_text

    ptx = tmp_path / "k.ptx"
    ptx.write_text(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n")
    assert main(["inspect", "--digest", "--in-toto", str(ptx)]) == 0
    statement = json.loads(capsys.readouterr().out)
    validate(statement, json.loads(schema_text("digest-statement")))
    assert statement["subject"] == [{"name": str(ptx), "digest": {"sha256": sha256(ptx.read_bytes()).hexdigest()}}]
    assert statement["predicate"]["files"][0]["digest"] == digests(ptx)[0]
    assert main(["inspect", "--digest", "--json", str(ptx)]) == 0
    validate(json.loads(capsys.readouterr().out), json.loads(schema_text("digests")))


def test_what_cannot_be_read_has_no_digest_and_no_statement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = tmp_path / "k.fatbin"
    damaged.write_bytes(
        (Path(__file__).parents[1] / "fixtures" / "cuda_fatbin" / "hand_zlib_flag1000.fatbin").read_bytes()[:-40]
    )
    for option in ((), ("--in-toto",)):
        assert main(["inspect", "--digest", *option, str(damaged)]) == 3
        printed = capsys.readouterr()
        assert not printed.out
        assert str(damaged) in printed.err
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("no code")
    assert main(["inspect", "--digest", str(nothing)]) == 1


def test_diff_names_what_differs_beside_the_code(tmp_path: Path) -> None:
    one = built(tmp_path / "a", "k.cubin", *WAYS["debug.cubin"])
    other = built(tmp_path / "another", "k.cubin", *WAYS["debug.cubin"], time=1_700_000_000)
    found = fatpack.diff(one, other, kernels=True)
    assert found.kinds == ("rebuilt",) or set(found.kinds) == {"rebuilt", "grown"}
    ((arch,),) = (library.archs for library in found.libraries)
    traces = {trace.what: (trace.old, trace.new) for trace in arch.traces}
    assert traces["source folder"] == ((str(one.parent),), (str(other.parent),))
    assert all(text.startswith("tmpxft_") for side in traces["temporary name"] for text in side)
    assert "debug information" in traces


def test_the_time_of_the_source_in_what_ptxas_writes_is_named(tmp_path: Path) -> None:
    """Triton runs ptxas with -lineinfo, which until 13.0 writes the time of the named source into the line table.

    Later ones write 0 there: then the test writes a time of one byte.
    """
    source, ptx = tmp_path / "source.py", tmp_path / "k.ptx"
    source.write_text("pass\n")
    ptx.write_text(
        f'.version 8.0\n.target sm_80\n.address_size 64\n.file 1 "{source}"\n'
        ".visible .entry k() {\n.loc 1 1 0\nret;\n}\n"
    )
    made = []
    for time in (1_785_147_297, 1_785_210_547):
        os.utime(source, (time, time))
        made.append(tmp_path / f"{time}.cubin")
        words = ["-arch=sm_80", "-lineinfo", str(ptx), "-o", str(made[-1])]
        subprocess.run([reference.tool("ptxas"), *words], check=True)
    if made[0].read_bytes() == made[1].read_bytes():
        entry = b"source.py\0\1"  # name, number of its folder; then the time
        assert made[1].read_bytes().count(entry + b"\0") == 1
        made[1].write_bytes(made[1].read_bytes().replace(entry + b"\0", entry + b"\x63"))
    assert made[0].read_bytes() != made[1].read_bytes()
    assert len(set(digests(*made))) == 1
    ((arch,),) = (library.archs for library in fatpack.diff(*made, kernels=True).libraries)
    assert {trace.what for trace in arch.traces} == {"time of a source", "debug information"}


def test_spirv_has_one_digest_with_other_sources_named(tmp_path: Path) -> None:
    text = """
OpCapability Kernel
OpCapability Addresses
OpMemoryModel Physical64 OpenCL
OpEntryPoint Kernel %f "k"
%name = OpString "NAME"
OpSource OpenCL_C 100000 %name
OpName %f "f"
%void = OpTypeVoid
%type = OpTypeFunction %void
%f = OpFunction %void CONTROL %type
%label = OpLabel
OpLine %name LINE 1
OpReturn
OpFunctionEnd
"""
    made = []
    ways = (("a.cl", "1", "None"), ("bb/b.cl", "7", "None"), ("a.cl", "1", "Inline"))
    for number, (name, line, control) in enumerate(ways):
        words = text.replace("NAME", name).replace("LINE", line).replace("CONTROL", control)
        made.append(tmp_path / f"{number}.spv")
        subprocess.run(
            [reference.tool("spirv-as"), "-o", str(made[-1]), "-"], input=words.encode(), check=True, cwd=tmp_path
        )
    found = digests(*made)
    assert found[0] == found[1] != found[2]
    ((arch,),) = (library.archs for library in fatpack.diff(*made[:2], kernels=True).libraries)
    assert ("debug text", ("a.cl",), ("bb/b.cl",)) in [(trace.what, trace.old, trace.new) for trace in arch.traces]


def test_an_architecture_that_is_no_text_counts_by_its_bytes() -> None:
    (row,) = [row for row in fatpack.rows(FIXTURES / "fuzz/rows/arch-of-no-text.offload", digests=True) if row.arch]
    assert "\udcff" in row.arch
    assert (row.digest or "").startswith(f"{VERSION}:sha256:")


def test_traces_of_ptx_end_with_its_last_closed_section() -> None:
    """An open brace is not followed to the end of the text, once for each section."""
    from fatpack.images.build_traces import build_traces
    from fatpack.io.source import BytesSource

    text = b"// Compiler\n.version 8.0\n.section .debug_a\n{\n.b8 1\n}\n" + b".section .debug_b {\n" * 9
    found = build_traces(BytesSource(text, "x.ptx").view(), "ptx")
    assert [line for line in found if ".debug_" in line] == [line for line in found if ".debug_a" in line]
    assert any(".debug_a" in line for line in found)


def test_memory_that_a_relocatable_cubin_reserves_has_no_bytes(tmp_path: Path) -> None:
    """bitsandbytes has such sections, ``.nv_debug.shared`` of 1.7 MB, at the end of smaller cubins."""
    (tmp_path / "k.cu").write_text(
        'extern "C" __global__ void kern1(int *p) { __shared__ int s[12000]; s[*p] = 1; __syncthreads(); *p = s[1]; }'
    )
    command = [reference.tool("nvcc"), "-dc", "-cubin", "-arch=sm_80", "k.cu", "-o", "k.cubin"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    data = (tmp_path / "k.cubin").read_bytes()
    assert data.count(b".nv.shared.kern1\0") == 2  # in the names of sections, and of symbols
    data = data.replace(b".nv.shared.kern1\0", b".nv_debug.shared\0")
    assert len(data) < 48_000
    path = tmp_path / "debug.cubin"
    path.write_bytes(data)
    (digest,) = digests(path)
    assert (digest is None, fatpack.doctor(path).verdict) == (False, "healthy")
    assert fatpack.normalize(path, io.BytesIO()).digest == digest
