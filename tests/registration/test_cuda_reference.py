"""CUDA programs made by clang, nvcc and linkers: every record leads to its fat binary, with and without sections."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference
from tests.laws.rooms import FIXTURES
from tests.registration.test_reference import LINKS

import fatpack
from fatpack.library.file import scan
from fatpack.scanner import FoundContainer

pytestmark = pytest.mark.reference

FATBIN = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"

#: CUDA without a header of the toolkit
SOURCE = """
#define __global__ __attribute__((global))
#define __host__ __attribute__((host))
struct dim3 { unsigned x, y, z; };
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, void *);
extern "C" int __cudaPushCallConfiguration(dim3, dim3, __SIZE_TYPE__, void *);
extern "C" int __cudaPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
extern "C" __global__ void NAME(int *data) { *data = 1; }
"""

#: source → its kernel, one of those in the fat binary
NAMES = {"one": "add_one", "two": "_Z5scaleIfEvPT_S0_i"}


def objects(folder: Path, target: str, *options: str) -> list[str]:
    """Make two objects of clang's for a target, each with the fat binary and its record; return their names."""
    for name, kernel in NAMES.items():
        (folder / f"{name}.cu").write_text(SOURCE.replace("NAME", kernel))
        device = ["-nocudainc", "-nocudalib", "--cuda-host-only"]
        embed = ["-Xclang", "-fcuda-include-gpubinary", "-Xclang", str(FATBIN)]
        host = [f"--target={target}", *options, "-c", f"{name}.cu", "-o", f"{name}.o"]
        reference.run("clang", "-x", "cuda", *device, *embed, *host, cwd=folder)
    return ["one.o", "two.o"]


def listed(path: Path) -> list[bytes]:
    """Return the fat binaries of a file in which nothing is wrong."""
    with fatpack.open(path) as file:
        # The fat binary has kernels of more sources than these.
        assert {item.code for item in file.findings} <= {"FP3052"}
        return [found.view.tobytes() for found in file.containers]


def codes(data: bytes) -> list[str]:
    with fatpack.open(data) as file:
        return [item.code for item in file.findings]


@pytest.mark.parametrize("link", LINKS)
def test_every_record_of_a_program_leads_to_its_fat_binary(tmp_path: Path, link: str) -> None:
    names = objects(tmp_path, "x86_64-linux-gnu", "-fPIC")
    undefined = ["--unresolved-symbols=ignore-all"] if "program" in link or "position" in link else []
    reference.run(*LINKS[link], *undefined, *names, "-o", "program", cwd=tmp_path)
    program = tmp_path / "program"
    assert listed(program) == [FATBIN.read_bytes()] * 2
    data = program.read_bytes()
    at = record_offset(program)
    assert codes(data[:at] + bytes(24) + data[at + 24 :]) == ["FP3032"]
    assert codes(data[:at] + b"\1" + data[at + 1 :]) == ["FP3031", "FP3032"]
    # Without the section table the same records are found, and the same fat binaries through them.
    reference.run("llvm-objcopy", "--strip-sections", "program", "bare", cwd=tmp_path)
    with fatpack.open(tmp_path / "bare") as file:
        assert [item.code for item in file.findings] == ["FP1006"]
        assert [found.view.tobytes() for found in file.containers] == [FATBIN.read_bytes()] * 2


def record_offset(path: Path) -> int:
    """Return where the first record is, by LLVM."""
    lines = reference.run("llvm-readelf", "-SW", path).stdout.decode().splitlines()
    (line,) = [line for line in lines if ".nvFatBinSegment" in line and ".rela" not in line]
    return int(line.split("]")[1].split()[3], 16)


@pytest.mark.parametrize("target", ["aarch64-linux-gnu", "powerpc64le-linux-gnu", "riscv64-linux-gnu"])
def test_other_processors(tmp_path: Path, target: str) -> None:
    names = objects(tmp_path, target, "-fPIC")
    assert [listed(tmp_path / name) for name in names] == [[FATBIN.read_bytes()]] * 2
    reference.run("ld.lld", "-r", *names, "-o", "merged.o", cwd=tmp_path)
    reference.run("ld.lld", "-shared", *names, "-o", "program", cwd=tmp_path)
    reference.run("llvm-ar", "rcD", "both.a", *names, cwd=tmp_path)
    for name in ("merged.o", "program", "both.a"):
        assert listed(tmp_path / name) == [FATBIN.read_bytes()] * 2


@pytest.mark.parametrize("target", ["x86_64-pc-windows-msvc", "aarch64-pc-windows-msvc", "x86_64-pc-windows-gnu"])
def test_records_for_windows_lead_to_their_fat_binary(tmp_path: Path, target: str) -> None:
    names = objects(tmp_path, target)
    assert [listed(tmp_path / name) for name in names] == [[FATBIN.read_bytes()]] * 2
    machine = "/machine:arm64" if target.startswith("aarch64") else "/machine:x64"
    link = ["/dll", "/noentry", "/force:unresolved", machine]
    reference.run("lld-link", *link, *names, "/out:program.dll", cwd=tmp_path)
    assert listed(tmp_path / "program.dll") == [FATBIN.read_bytes()] * 2
    data = (tmp_path / "program.dll").read_bytes()
    lines = reference.run("llvm-readobj", "--sections", tmp_path / "program.dll").stdout.decode().split("Section {")
    (section,) = [text for text in lines if "Name: .nvFatBi" in text]
    at = int(section.split("PointerToRawData: ")[1].split()[0], 16)
    assert data[at : at + 4] == b"\xb1CbF"
    assert codes(data[:at] + bytes(24) + data[at + 24 :]) == ["FP3032"]


@pytest.mark.parametrize("target", ["x86_64-linux-gnu", "x86_64-pc-windows-msvc"])
def test_relocatable_code_of_clang_names_its_units(tmp_path: Path, target: str) -> None:
    names = objects(tmp_path, target, "-fgpu-rdc", "--no-offload-new-driver", *(["-fPIC"] if "linux" in target else []))
    said = [units(tmp_path / name) for name in names]
    assert [[list(unit) for unit in each] for each in said] == [[["module_id"]]] * 2
    assert said[0] != said[1]
    if "linux" in target:
        reference.run("ld.lld", "-shared", *names, "-o", "program", cwd=tmp_path)
    else:
        reference.run("lld-link", "/dll", "/noentry", "/force:unresolved", *names, "/out:program", cwd=tmp_path)
    assert listed(tmp_path / "program") == [FATBIN.read_bytes()] * 2
    assert units(tmp_path / "program") == said[0] + said[1]


def test_a_fat_binary_among_constants_is_found_by_its_record(tmp_path: Path) -> None:
    (tmp_path / "constants.s").write_text(
        f"""
  .section .rodata,"a"
  .quad 1
fatbin: .incbin "{FATBIN}"
  .quad 1
  .section .nvFatBinSegment,"aw"
  .p2align 3
  .long 0x466243b1, 1
  .quad fatbin, 0
"""
    )
    reference.run("clang", "--target=x86_64-linux-gnu", "-c", "constants.s", "-o", "constants.o", cwd=tmp_path)
    reference.run("ld.lld", "-shared", "constants.o", "-o", "program", cwd=tmp_path)
    for name in ("constants.o", "program"):
        assert listed(tmp_path / name) == [FATBIN.read_bytes()]
        with fatpack.open(tmp_path / name) as file:
            assert [found.section for found in file.containers] == [".rodata"]


KERNEL = 'extern "C" __global__ void one(int *p) { *p = 1; }\n'
HELPER = "__device__ int helper(int x) { return 3 * x; }\n"
USER = "extern __device__ int helper(int);\n__global__ void user(int *p) { *p = helper(*p); }\n"


@pytest.fixture(scope="module")
def nvcc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what nvcc makes of three sources. It takes seconds for each, so that all is made once."""
    folder = tmp_path_factory.mktemp("nvcc")
    for name, text in (("one.cu", KERNEL), ("helper.cu", HELPER), ("user.cu", USER)):
        (folder / name).write_text(text)
    options = ["-arch=sm_80", "-Xcompiler=-fPIC"]
    reference.run("nvcc", *options, "-c", "one.cu", "-o", "one.o", cwd=folder)
    for name in ("helper", "user"):
        reference.run("nvcc", *options, "-dc", f"{name}.cu", "-o", f"{name}.o", cwd=folder)
    reference.run("nvcc", *options, "-dlink", "helper.o", "user.o", "-o", "dlink.o", cwd=folder)
    reference.run("gcc", "-shared", "-o", "all.so", "one.o", "helper.o", "user.o", "dlink.o", cwd=folder)
    return folder


@pytest.mark.sweep(3)
@pytest.mark.parametrize(
    ("name", "count"), [("one.o", 1), ("helper.o", 1), ("user.o", 1), ("dlink.o", 1), ("all.so", 4)]
)
def test_what_nvcc_registers_is_all_there(nvcc: Path, name: str, count: int) -> None:
    assert len(listed(nvcc / name)) == count


def units(path: Path) -> list[dict[str, str]]:
    return [dict(item.host_attrs) for item in scan(path) if isinstance(item, FoundContainer)]


def test_units_are_called_as_the_symbols_of_their_records(nvcc: Path) -> None:
    names = []
    for name in ("helper.o", "user.o"):
        symbols = reference.run("llvm-nm", "--defined-only", "--format=just-symbols", nvcc / name).stdout.decode()
        (symbol,) = [line for line in symbols.split() if line.startswith("__fatbinwrap_")]
        names.append(symbol.removeprefix("__fatbinwrap"))
        assert units(nvcc / name) == [{"module_id": names[-1]}]
    assert units(nvcc / "dlink.o") == [{"linked_module_ids": " ".join(names)}]
    assert units(nvcc / "one.o") == [{}]
    # The linked fat binary lies beside that of whole-program code, and nothing says which is which.
    found = [item for item in scan(nvcc / "all.so") if isinstance(item, FoundContainer)]
    said = {item.section: [dict(each.host_attrs) for each in found if each.section == item.section] for item in found}
    assert said == {"__nv_relfatbin": [{"module_id": name} for name in names], ".nv_fatbin": [{}, {}]}


def test_fat_binaries_in_offload_binaries_and_bundles_are_listed_and_extracted(tmp_path: Path) -> None:
    data = FATBIN.read_bytes()
    image = f"--image=file={FATBIN},triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda"
    reference.run("llvm-offload-binary", "-o", "packed.bin", image, cwd=tmp_path)
    (tmp_path / "host").write_bytes(b"")
    targets = "-targets=host-x86_64-unknown-linux-gnu,openmp-nvptx64-nvidia-cuda--sm_80"
    inputs = ["-input=host", f"-input={FATBIN}", "-output=packed.bundle"]
    reference.run("clang-offload-bundler", "-type=o", targets, *inputs, cwd=tmp_path)
    with fatpack.open(FATBIN) as file:
        images = [found.data.tobytes() for found in file.images()]
    for name in ("packed.bin", "packed.bundle"):
        with fatpack.open(tmp_path / name) as file:
            assert file.findings == ()
            (outer,) = [found for found in file.images() if found.form == "fatbin"]
            assert outer.data.tobytes() == data
            (inner,) = outer.containers
            assert [found.data.tobytes() for found in inner.images] == images
        written = fatpack.extract(tmp_path / name, tmp_path / f"{name}.out", fatpack.Selector(form=("cubin", "ptx")))
        assert [Path(path).read_bytes() for path in written] == images
