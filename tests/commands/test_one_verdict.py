"""``inspect --runtime``, ``check --registered`` and ``doctor`` say the same of what a file registers: one verdict."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from tests import reference
from tests.builders import registration
from tests.builders.verdicts import inspected, verdicts
from tests.registration.analysis.test_described import evidence_of, openmp_host
from tests.registration.analysis.test_programs import RUNTIME

import fatpack
from fatpack.binary.elf import layout
from fatpack.binary.elf.file import ElfFile
from fatpack.commands.doctor.text import render_diagnosis
from fatpack.io.open import open_source
from fatpack.main import main
from fatpack.registration.analysis import x86
from fatpack.scanner import registration_verdict

FIXTURES = Path(__file__).parents[1] / "fixtures"
SUFFIXES = (".o", ".obj", ".so", ".a", ".exe", ".dll", ".bc", ".wasm")
FILES = sorted(path for path in FIXTURES.rglob("*") if path.suffix in SUFFIXES)

LINUX = "x86_64-linux-gnu"


def agreed(path: Path) -> tuple[str, set[str]]:
    """Return what all three say; no vouching word is said beside a finding, or where nothing was judged."""
    found = verdicts(path)
    assert found["check"] == found["inspect"], path
    assert found["doctor"] == found["inspect"], path
    if found["inspect"][0] in ("findings", "not judged"):
        assert fatpack.doctor(path).verdict != "healthy", path
        assert fatpack.check(path, registered=True).verdict != "passed", path
        assert fatpack.check(path, registered=True, strict=True).exit_code, path
    return found["inspect"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(FIXTURES)))
def test_all_fixtures(path: Path) -> None:
    agreed(path)


def linked(folder: Path, *options: str, name: str = "program") -> Path:
    """Return the library that is linked from ``unit.o``."""
    reference.run("ld.lld", "--eh-frame-hdr", "unit.o", *options, "-o", name, cwd=folder)
    return folder / name


@pytest.mark.reference
@pytest.mark.parametrize("model", registration.MODELS)
def test_broken_objects_and_libraries(tmp_path: Path, model: str) -> None:
    reference.package("capstone")
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, "-O0", "-fPIC", embedded=embedded)
    damages = {**registration.BROKEN, **registration.BROKEN_PLAIN}
    for name, edit in {"whole": str, **{name: edit for name, (edit, _) in damages.items()}}.items():
        unit = registration.compiled(tmp_path, edit(text), LINUX, "unit", "-O0", "-fPIC")
        library = linked(tmp_path, "-shared")
        stripped = tmp_path / "stripped"
        reference.run("llvm-strip", library, "-o", stripped)
        expected = "agrees" if name == "whole" else "findings"
        assert [agreed(path)[0] for path in (unit, library, stripped)] == [expected] * 3, name


@pytest.mark.reference
def test_nothing_is_vouched_for_that_was_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedded = registration.image(tmp_path, "cuda")
    text = registration.host_ir(tmp_path, "cuda", LINUX, "-O1", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", "-mcmodel=large", "-fPIC")
    library = linked(tmp_path, "-shared")
    monkeypatch.setattr(x86, "is_available", lambda: False)
    assert agreed(library) == ("not judged", set())
    made = fatpack.check(library, registered=True)
    assert (made.verdict, made.exit_code) == ("not judged", 0)
    assert made.lines()[0].startswith("not judged: ")
    reason = "not judged: registrations: following its code needs capstone: "
    reason += "pip install capstone (the extra fatpack[code])"
    assert fatpack.doctor(library).lines()[0].startswith(reason)
    # What is wrong elsewhere does not hide it.
    damaged = tmp_path / "damaged.fatbin"
    damaged.write_bytes(embedded.read_bytes()[:-9])
    line = next(iter(render_diagnosis(fatpack.doctor([library, damaged]))))
    assert line.startswith("damaged: 1 of 2 files")
    assert line.endswith(f"; {reason}")


@pytest.mark.reference
def test_names_that_were_not_compared_do_not_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference.package("capstone")
    embedded = registration.image(tmp_path, "cuda")
    packed = tmp_path / "packed.fatbin"
    fatpack.convert(embedded, packed, options=fatpack.FatbinOptions(compress_mode="size"))
    text = registration.host_ir(tmp_path, "cuda", LINUX, "-O1", "-fPIC", embedded=packed)
    registration.compiled(tmp_path, text, LINUX, "unit", "-O1", "-fPIC")
    library = linked(tmp_path, "-shared")
    assert agreed(library) == ("agrees", set())
    monkeypatch.setattr(registration_verdict, "IMAGES", 100)
    assert agreed(library) == ("not judged", set())
    reason = "its images inflate to more than 100 B, and the names of their kernels were not read"
    assert f"not judged: registrations: {reason}" in fatpack.doctor(library).lines()[0]
    assert fatpack.check(library, registered=True, strict=True).exit_code == 1


@pytest.mark.reference
def test_images_among_the_data_of_a_library_need_no_registration(tmp_path: Path) -> None:
    """Triton's libraries for CUPTI load such images by themselves."""
    image = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"
    (tmp_path / "unit.s").write_text(f'.section .rodata\n.balign 16\n.globl code\ncode: .incbin "{image}"\n')
    reference.run("clang", f"--target={LINUX}", "-c", "unit.s", "-o", "unit.o", cwd=tmp_path)
    library = linked(tmp_path, "-shared")
    assert len(list(fatpack.open(library).images())) == 1
    assert agreed(library) == ("nothing registers", set())
    assert fatpack.doctor(library).verdict == "healthy"


def test_images_alone_are_not_said_to_be_unreadable() -> None:
    for name in ("cuda_fatbin/v130_size.fatbin",):
        made = fatpack.check(FIXTURES / name, registered=True)
        assert (made.verdict, made.exit_code) == ("not judged", 0)
        assert fatpack.check(FIXTURES / name, registered=True, strict=True).exit_code == 1


def runtime(folder: Path) -> None:
    """Make ``rt.o``, which defines the functions of both runtimes."""
    (folder / "rt.c").write_text(f"{RUNTIME}int atexit() {{ return 0; }}\n")
    options = [f"--target={LINUX}", "-fPIC", "-w", "-ffreestanding", "-c", "rt.c", "-o", "rt.o"]
    reference.run("clang", *options, cwd=folder)


def without_calls(path: Path, name: str) -> None:
    """Overwrite the calls of a function in an x86-64 object by instructions that do nothing; its symbol stays."""
    data = bytearray(path.read_bytes())
    with open_source(str(path)) as source:
        elf = ElfFile(source.view())
        sections = list(elf.sections())
        for table in (each for each in sections if each.type == layout.RELA):
            symbols = sections[table.link]
            strings = sections[symbols.link]
            for at in range(table.offset, table.end, 24):
                place, info = struct.unpack_from("<QQ", data, at)
                (start,) = struct.unpack_from("<I", data, symbols.offset + 24 * (info >> 32))
                end = data.index(b"\0", strings.offset + start)
                if data[strings.offset + start : end] == name.encode():
                    call = sections[table.info].offset + place - 1
                    assert data[call] == 0xE8
                    data[call : call + 5] = bytes.fromhex("0f1f440000")
                    struct.pack_into("<QQQ", data, at, place, 0, 0)
    assert data != path.read_bytes()
    path.write_bytes(data)


@pytest.mark.reference
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("model", registration.MODELS)
def test_calls_that_are_patched_away(tmp_path: Path, model: str, level: str) -> None:
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, level, "-fPIC", embedded=embedded)
    for name, code in {"RegisterFunction": "FP3042", "RegisterFatBinary": "FP3053"}.items():
        unit = registration.compiled(tmp_path, text, LINUX, "unit", level, "-fPIC")
        without_calls(unit, f"__{model}{name}")
        assert agreed(unit) == ("findings", {code}), name


def without_binary(text: str) -> str:
    """Take out the call that registers the container, and leave those that register kernels in it."""
    call = re.compile(r"^\s*(%\d+) = (?:tail )?call ptr @__(cuda|hip)RegisterFatBinary\(.*$", re.MULTILINE)
    made, count = call.subn(r"  \1 = inttoptr i64 1 to ptr", text)
    assert count
    return made


def doubled(text: str) -> str:
    """Register the container twice."""
    call = re.compile(r"^\s*(%\d+) = ((?:tail )?call ptr @__(?:cuda|hip)RegisterFatBinary\(.*)$", re.MULTILINE)
    made, count = call.subn(r"  %again = \2\n  \1 = \2", text)
    assert count
    return made


@pytest.mark.reference
@pytest.mark.parametrize("level", ["-O0", "-O2"])
@pytest.mark.parametrize("model", registration.MODELS)
def test_what_registers_the_container_is_wrong(tmp_path: Path, model: str, level: str) -> None:
    reference.package("capstone")
    runtime(tmp_path)
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, level, "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", level, "-fPIC")
    segment = {"cuda": ".nvFatBinSegment", "hip": ".hipFatBinSegment"}[model]
    for options in (["-shared"], ["-static", "-e", "0", "rt.o"]):
        whole = linked(tmp_path, *options)
        assert agreed(whole) == ("agrees", set())
        reference.run("llvm-objcopy", f"--remove-section={segment}", whole, cwd=tmp_path)
        assert agreed(whole) == ("findings", {"FP3057"})
    for edit, code in ((without_binary, "FP3053"), (doubled, "FP3058")):
        unit = registration.compiled(tmp_path, edit(text), LINUX, "unit", level, "-fPIC")
        if code == "FP3053" or level == "-O0":
            assert agreed(unit) == ("findings", {code})
        assert code in agreed(linked(tmp_path, "-shared"))[1]


@pytest.mark.reference
@pytest.mark.parametrize("model", registration.MODELS)
def test_a_library_that_calls_the_runtime_in_it_through_the_plt(tmp_path: Path, model: str) -> None:
    reference.package("capstone")
    runtime(tmp_path)
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, "-O2", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", "-O2", "-fPIC")
    library = linked(tmp_path, "-shared", "rt.o")
    assert agreed(library) == ("agrees", set())
    reference.run("llvm-strip", library)
    assert agreed(library) == ("agrees", set())


@pytest.mark.reference
@pytest.mark.parametrize("model", registration.MODELS)
def test_constructors_are_those_that_the_loader_runs(tmp_path: Path, model: str) -> None:
    reference.package("capstone")
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, "-O2", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", "-O2", "-fPIC")
    library = linked(tmp_path, "-shared")
    whole = library.read_bytes()
    for size in (0, 8):  # DT_INIT_ARRAYSZ as it is, and none: the section and its bytes stay
        entry = struct.pack("<QQ", 27, 8)
        assert whole.count(entry) == 1
        library.write_bytes(whole.replace(entry, struct.pack("<QQ", 27, size)))
        assert agreed(library) == (("agrees", set()) if size else ("findings", {"FP3043"}))


@pytest.mark.reference
@pytest.mark.parametrize("model", registration.MODELS)
def test_packed_relocations(tmp_path: Path, model: str) -> None:
    reference.package("capstone")
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, "-O2", "-fPIC", embedded=embedded)
    registration.compiled(tmp_path, text, LINUX, "unit", "-O2", "-fPIC")
    for how in ("android", "android+relr"):
        assert agreed(linked(tmp_path, "-shared", f"--pack-dyn-relocs={how}")) == ("agrees", set()), how
    library = linked(tmp_path, "-shared", "--pack-dyn-relocs=android")
    damaged = library.read_bytes()
    assert damaged.count(b"APS2") == 1
    library.write_bytes(damaged.replace(b"APS2", b"APS3"))
    assert agreed(library) == ("not judged", set())
    text = registration.BROKEN["wrong name"][0](text)
    registration.compiled(tmp_path, text, LINUX, "unit", "-O2", "-fPIC")
    assert agreed(linked(tmp_path, "-shared", "--pack-dyn-relocs=android")) == ("findings", {"FP3046"})


@pytest.mark.reference
def test_regions_of_openmp_that_no_image_has(tmp_path: Path) -> None:
    reference.package("capstone")
    text = openmp_host(tmp_path, LINUX, "-O2", "-fPIC")
    registration.compiled(tmp_path, text, LINUX, "unit", "-O2", "-fPIC")
    names = [entry.name for entry in evidence_of(tmp_path / "unit.o").entries if entry.is_kernel]
    assert len(names) == 2
    for kernels, expected in ((names, ("agrees", set())), (names[:1], ("findings", {"FP3046"}))):
        source = "".join(f'extern "C" __attribute__((global)) void {name}(int *p) {{ *p = 1; }}\n' for name in kernels)
        (tmp_path / "k.hip").write_text(source)
        device = ["--offload-device-only", "--no-gpu-bundle-output", "-O1", "-c", "k.hip", "-o", "k.co"]
        reference.run("clang", *registration.OPTIONS["hip"], *device, cwd=tmp_path)
        image = fatpack.ImageFile(tmp_path / "k.co", triple="amdgcn-amd-amdhsa", arch="gfx90a", offload="openmp")
        fatpack.pack([image], tmp_path / "k.bin", overwrite=True)
        section = ["--add-section=.llvm.offloading=k.bin", "--set-section-flags=.llvm.offloading=exclude"]
        reference.run("llvm-objcopy", *section, "unit.o", "embedded.o", cwd=tmp_path)
        assert agreed(tmp_path / "embedded.o") == expected
        reference.run("llvm-offload-wrapper", f"--triple={LINUX}", "--kind=openmp", "-o", "w.bc", "k.bin", cwd=tmp_path)
        reference.run("llc", "-filetype=obj", "-relocation-model=pic", "w.bc", "-o", "w.o", cwd=tmp_path)
        assert inspected(linked(tmp_path, "-shared", "w.o")) == expected


@pytest.mark.reference
@pytest.mark.parametrize("model", registration.MODELS)
def test_variables_that_nothing_registers(tmp_path: Path, model: str) -> None:
    reference.package("capstone")
    embedded = registration.image(tmp_path, model)
    text = registration.host_ir(tmp_path, model, LINUX, "-O0", "-fPIC", embedded=embedded)
    lost = "\n".join(line for line in text.splitlines() if not re.search(r"call .*RegisterVar\(", line))
    assert lost.count("\n") < text.count("\n") - 1
    unit = registration.compiled(tmp_path, lost, LINUX, "unit", "-O0", "-fPIC")
    assert agreed(unit) == ("findings", {"FP3059"})
    assert agreed(linked(tmp_path, "-shared")) == ("findings", {"FP3059"})


VARIABLES = """
__device__ int counter;
static __device__ int own;
namespace space { __device__ float inner; __constant__ float values[4]; }
namespace { __device__ int hidden; }
__managed__ int managed;
const int constant = 7;
template <class T> __device__ T many = T(3);
__global__ void first(int *p) {
  static __device__ int local;
  *p += counter + own + hidden + managed + constant + space::inner + space::values[*p & 3] + many<int> + local++;
}
void launch(int *p) { first<<<1, 1>>>(p); }
"""

VARIABLE_ALONE = """
__device__ int used_by_the_host[100000] = {1};
extern "C" int get(int *p) { return cudaMemcpyFromSymbol(p, used_by_the_host, 4); }
"""

HOST_ONLY = """
template <class T> __global__ void many(T *p) { *p = 7; }
__global__ void first(int *p) { *p = 7; }
void launch(int *p) {
  first<<<1, 1>>>(p);
  many<<<1, 1>>>(p);
#if defined(ONLY) && !defined(__CUDA_ARCH__)
  many<<<1, 1>>>((float *)p);
#endif
}
"""


def by_nvcc(folder: Path, source: str, *options: str, name: str = "unit.o") -> Path:
    (folder / "unit.cu").write_text(source)
    reference.run("nvcc", "-arch=sm_80", *options, "unit.cu", "-o", name, cwd=folder)
    return folder / name


@pytest.mark.reference
@pytest.mark.parametrize("options", [("-c",), ("-c", "-rdc=true"), ("-shared", "-Xcompiler=-fPIC", "-cudart=none")])
def test_variables_of_nvcc(tmp_path: Path, options: tuple[str, ...]) -> None:
    whole = by_nvcc(tmp_path, VARIABLES, *options)
    assert agreed(whole) == ("agrees", set())
    if "-c" in options:
        broken = tmp_path / "broken.o"
        reference.run("objcopy", "--redefine-sym", "__cudaRegisterVar=__cudaRegisterNothing", whole, broken)
        assert agreed(broken) == ("findings", {"FP3059"})


@pytest.mark.reference
def test_variables_without_any_kernel(tmp_path: Path) -> None:
    reference.package("capstone")
    library = by_nvcc(tmp_path, VARIABLE_ALONE, "-shared", "-Xcompiler=-fPIC", "-cudart=none")
    assert agreed(library) == ("agrees", set())
    names = b"\0used_by_the_host\0", b"\0lost_by_the_host\0"
    library.write_bytes(library.read_bytes().replace(*names, 1))
    reference.run("strip", library, cwd=tmp_path)
    assert agreed(library)[0] == "not judged"


@pytest.mark.reference
@pytest.mark.parametrize("level", ["-Xcompiler=-O0", "-O2"])
@pytest.mark.parametrize("options", [("-c",), ("-shared", "-Xcompiler=-fPIC", "-cudart=none")])
def test_templates_that_nvcc_has_on_the_host_alone(tmp_path: Path, level: str, options: tuple[str, ...]) -> None:
    assert agreed(by_nvcc(tmp_path, HOST_ONLY, level, *options)) == ("agrees", set())
    assert agreed(by_nvcc(tmp_path, HOST_ONLY, level, *options, "-DONLY")) == ("findings", {"FP3060"})


@pytest.mark.reference
def test_the_record_of_a_device_link_is_registered_by_the_last_of_its_units(tmp_path: Path) -> None:
    reference.package("capstone")
    for name in ("one", "two"):
        (tmp_path / f"{name}.cu").write_text(f"__global__ void {name}(int *p) {{ *p = 1; }}\n")
    (tmp_path / "three.cu").write_text("__global__ void three(int *p) { *p = 1; }\n")
    options = ["-arch=sm_80", "-O2", "-Xcompiler=-fPIC", "-cudart=none"]
    reference.run("nvcc", *options, "-c", "three.cu", "-o", "three.o", cwd=tmp_path)
    reference.run(
        "nvcc", *options, "-rdc=true", "-shared", "one.cu", "two.cu", "three.o", "-o", "library.so", cwd=tmp_path
    )
    assert agreed(tmp_path / "library.so") == ("agrees", set())


@pytest.mark.reference
def test_replacing_by_code_without_a_kernel_is_warned_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    embedded = registration.image(tmp_path, "hip")
    text = registration.host_ir(tmp_path, "hip", LINUX, "-O2", "-fPIC", embedded=embedded)
    unit = registration.compiled(tmp_path, text, LINUX, "unit", "-O2", "-fPIC")
    other = registration.image(tmp_path, "hip", registration.OTHER, "other")
    for content, expected in ((embedded, False), (other, True)):
        made = tmp_path / f"{content.stem}.o"
        assert main(["replace", str(unit), str(content), "-o", str(made)]) == 0
        said = capsys.readouterr().err
        assert ("6 kernels registered here, but in no image" in said) is expected, said
        assert (agreed(made)[0] == "findings") is expected


@pytest.mark.reference
def test_programs_of_the_linker_wrapper_agree(tmp_path: Path) -> None:
    reference.package("capstone")
    runtime(tmp_path)
    (tmp_path / "unit.hip").write_text(registration.SOURCE)
    options = ["-fgpu-rdc", "--offload-new-driver", "-O2", "-fPIC", "-c", "unit.hip", "-o", "unit.o"]
    reference.run("clang", *registration.OPTIONS["hip"], *options, cwd=tmp_path)
    assert agreed(tmp_path / "unit.o") == ("not judged", set())
    reason = "an image of form bitcode does not tell the names of its kernels"
    assert f"not judged: registrations: {reason}" in fatpack.doctor(tmp_path / "unit.o").lines()[0]
    link = ["--offload-link", "-nogpulib", "-shared", "-nostdlib", f"--target={LINUX}", "-fuse-ld=lld"]
    reference.run("clang", *link, "unit.o", "rt.o", "-o", "library.so", cwd=tmp_path)
    assert agreed(tmp_path / "library.so") == ("agrees", set())
    made = fatpack.check(tmp_path / "library.so", registered=True, strict=True)
    assert (made.verdict, made.violations) == ("passed", ())
