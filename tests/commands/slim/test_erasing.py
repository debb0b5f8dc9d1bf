"""Programs of OpenMP and SYCL slimmed: what their runtime is given before and after, by a stand-in that prints it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.builders.sycl import packed, spirv
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, run, tool

import fatpack
from fatpack import proof
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import SlimPlan, plan_slim
from fatpack.commands.slim.result import verifier_for
from fatpack.io.source import BytesSource, View
from fatpack.testing.helpers import join_pieces

KERNELS = FIXTURES / "kernels"
RUNTIME = Path(__file__).parents[1] / "wrap" / "runtime.c"
OLD, NEW = KERNELS / "needs.v5.gfx1100.hsaco", KERNELS / "needs.v6.gfx90a.hsaco"
SPIRV = KERNELS / "add_one.llvm22.spv"

DROP = SlimOptions(drop=("gfx1100", "amdgcn*"), allow_empty=True)

#: kind, version of LLVM whose records these are, and options of the runtime's source
VERSIONS = {
    "openmp 19": ("openmp", 19, ["-DOLD_ENTRIES"]),
    "openmp 22": ("openmp", 22, []),
    "openmp 23": ("openmp", 23, []),
    "sycl 22": ("sycl", 22, ["-DSYCL_DESCRIPTOR"]),
}


def view(data: bytes, name: str = "program") -> View:
    return BytesSource(data, name).view()


def images(kind: str) -> list[fatpack.ImageFile]:
    if kind == "sycl":
        return [fatpack.ImageFile(SPIRV, triple="spirv64"), fatpack.ImageFile(NEW, triple="amdgcn-amd-amdhsa")]
    pairs = ((OLD, "gfx1100"), (NEW, "gfx90a"))
    return [fatpack.ImageFile(path, triple="amdgcn-amd-amdhsa", arch=arch) for path, arch in pairs]


def program(folder: Path, name: str, *link: str, source: Path = RUNTIME, compiler: str = "gcc") -> Path:
    kind, version, options = VERSIONS[name]
    wrapper, path = folder / "wrapper.o", folder / "program"
    host = "x86_64-w64-windows-gnu" if "mingw" in compiler else "x86_64-unknown-linux-gnu"
    fatpack.wrap(images(kind), wrapper, kind=kind, llvm=version, host_triple=host)  # type: ignore[arg-type]
    run(compiler, "-O1", "-fPIC", "-DIMAGE_SIZE=0", *options, source, wrapper, *link, "-o", path)
    return path


def printed(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    path.chmod(0o755)
    return subprocess.run([path], capture_output=True, check=True, text=True).stdout


def slimmed(data: bytes) -> tuple[SlimPlan, bytes]:
    made = plan_slim(view(data), DROP)
    after = join_pieces(made.pieces)
    verifier_for(made)(view(data), view(after))
    verdict = proof.prove(view(data), view(after))
    assert verdict.is_proved, verdict.differences
    assert len(verdict.dropped) == len(made.dropped) and len(after) == len(data)
    assert not plan_slim(view(after), DROP).is_changed
    return made, after


def zeros(text: str, image: Path) -> str:
    """Return what a runtime would print if an image was zeros."""
    digits = image.read_bytes().hex()
    assert digits in text
    return text.replace(digits, "0" * len(digits))


@pytest.mark.parametrize("name", VERSIONS)
@pytest.mark.parametrize("link", [["-pie"], pytest.param(["-static"], marks=pytest.mark.slow)])
def test_a_runtime_gets_zeros_for_what_is_gone_and_all_else(name: str, link: list[str], tmp_path: Path) -> None:
    path = program(tmp_path, name, *link)
    data = path.read_bytes()
    made, after = slimmed(data)
    gone = OLD if name.startswith("openmp") else NEW
    assert printed(path, after) == zeros(printed(path, data), gone)
    assert len(made.dropped) == 1 and any("filled with zeros" in note for note in made.notes)


UNKNOWN = {("gold", "-static-pie"), ("gold", "-Wl,-z,pack-relative-relocs"), ("mold", "-Wl,-z,pack-relative-relocs")}


@pytest.mark.slow
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
@pytest.mark.parametrize("link", [["-pie", "-s"], ["-no-pie"], ["-static-pie"], ["-Wl,-z,pack-relative-relocs"]])
def test_programs_of_every_linker(link: list[str], linker: str, tmp_path: Path) -> None:
    if (linker, link[0]) in UNKNOWN:
        pytest.skip("the linker does not know the option, or what it makes is not loaded")
    (tmp_path / "ld").symlink_to(tool({"lld": "ld.lld", "mold": "mold"}.get(linker, f"ld.{linker}")))
    path = program(tmp_path, "openmp 22", f"-B{tmp_path}", *link)
    data = path.read_bytes()
    _, after = slimmed(data)
    assert printed(path, after) == zeros(printed(path, data), OLD)


def test_what_llvms_wrapper_made(tmp_path: Path) -> None:
    given, bitcode, wrapper = (tmp_path / name for name in ("given.offload", "wrapper.bc", "wrapper.o"))
    fatpack.pack([image.replace(offload="openmp") for image in images("openmp")], given)
    run(llvm_tool("llvm-offload-wrapper", "22"), "--kind=openmp", "--triple=x86_64-unknown-linux-gnu", given,
        "-o", bitcode)  # fmt: skip
    run(llvm_tool("llc", "22"), "--relocation-model=pic", "-filetype=obj", bitcode, "-o", wrapper)
    path = tmp_path / "program"
    run("gcc", "-DIMAGE_SIZE=0", RUNTIME, wrapper, "-o", path)
    data = path.read_bytes()
    _, after = slimmed(data)
    assert printed(path, after) == zeros(printed(path, data), OLD)


@pytest.mark.slow
def test_programs_for_windows(tmp_path: Path) -> None:
    path = program(tmp_path, "openmp 22", compiler="x86_64-w64-mingw32-gcc")
    made, after = slimmed(path.read_bytes() if path.exists() else path.with_suffix(".exe").read_bytes())
    assert len(made.dropped) == 1 and OLD.read_bytes() not in after and NEW.read_bytes() in after


def test_an_image_that_code_measures_itself_stays(tmp_path: Path) -> None:
    """LLVM 23 hands SYCL's images over as one container, and says where it is and how long in code."""
    wrapper, path = tmp_path / "wrapper.o", tmp_path / "program"
    fatpack.wrap(images("sycl"), wrapper, kind="sycl", llvm=23)
    run("gcc", "-DIMAGE_SIZE=0", RUNTIME, wrapper, "-o", path)
    made = plan_slim(view(path.read_bytes()), DROP)
    said = "1 container not slimmed: no record says where images of OpenMP or SYCL begin and end"
    assert not made.is_changed and said in made.notes


def test_an_image_that_something_else_leads_into_stays(tmp_path: Path) -> None:
    source = tmp_path / "more.c"
    script = tmp_path / "names.ld"
    script.write_text("begin_of_images = ADDR(.llvm.offloading);")
    source.write_text(
        f'#include "{RUNTIME}"\nextern char begin_of_images[] __attribute__((visibility("hidden")));\n'
        "char *stranger = begin_of_images + 400;\n"
    )
    data = program(tmp_path, "openmp 22", str(script), source=source).read_bytes()
    made = plan_slim(view(data), DROP)
    assert not made.dropped and not made.is_changed
    first = data.find(OLD.read_bytes())
    size = OLD.stat().st_size
    verdict = proof.prove(view(data), view(data[:first] + bytes(size) + data[first + size :]))
    assert [item.what for item in verdict.differences] == ["image that something else than a record leads to"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    """A program, and what is left of it."""
    data = program(tmp_path_factory.mktemp("pair"), "openmp 22").read_bytes()
    return data, slimmed(data)[1]


def lies(data: bytes, after: bytes) -> dict[str, bytes]:
    gone, kept = data.find(OLD.read_bytes()), data.find(NEW.read_bytes())
    size = OLD.stat().st_size
    assert any(data[gone - 8 : gone])

    def patched(at: int, new: bytes) -> bytes:
        return after[:at] + new + after[at + len(new) :]

    return {
        "one byte is left": patched(gone + size - 1, b"\1"),
        "bytes in front of it are gone": patched(gone - 8, bytes(8)),
        "half of it is left": patched(gone, data[gone : gone + size // 2]),
        "an image that stays has another byte": patched(kept + 100, bytes([data[kept + 100] ^ 1])),
        "an image that stays lost its end": patched(kept + NEW.stat().st_size - 64, bytes(64)),
        "another image": patched(gone, NEW.read_bytes()[:size]),
    }


@pytest.mark.parametrize("lie", range(6))
def test_what_is_neither_an_image_nor_zeros_is_not_proved(pair: tuple[bytes, bytes], lie: int) -> None:
    data, after = pair
    name, made = list(lies(data, after).items())[lie]
    assert made != after and not proof.prove(view(data), view(made)).is_proved, name


#: what clang-offload-wrapper of DPC++ leaves: images in sections by target, a table for tools, and records
DPCPP = """
        .section "__CLANG_OFFLOAD_BUNDLE__sycl-spir64","a"
        .balign 16
one:    .incbin "one"
one_end:
        .balign 16
large:  .incbin "large"
large_end:
        .section "__CLANG_OFFLOAD_BUNDLE__sycl-spir64_gen","a"
        .balign 16
two:    .incbin "two"
two_end:
        .section .tgtimg,"aw"
        .balign 16
        .quad one, one_end - one, two, two_end - two, large, 36000
        .data
        .balign 8
        .irp name, one, two, large
        .short 2
        .byte 4, 2
        .long 0
        .quad target, 0, 0, 0, 0, \\name, \\name\\()_end, 0, 0, 0, 0
        .endr
target: .asciz "spir64"
        .section .note.GNU-stack, "", @progbits
"""


@pytest.mark.parametrize("options", [["-shared"], ["-no-pie", "-nostartfiles", "-e", "0"]], ids=["library", "program"])
def test_images_of_dpcpp_go_except_compressed_ones(options: list[str], tmp_path: Path) -> None:
    stored = {"one": spirv(20, 1), "two": spirv(900, 2), "large": packed(spirv(9000, 3))}
    for name, data in stored.items():
        (tmp_path / name).write_bytes(data)
    source, path = tmp_path / "images.s", tmp_path / "libimages.so"
    source.write_text(DPCPP)
    run("gcc", *options, f"-Wa,-I{tmp_path}", source, "-o", path)
    data = path.read_bytes()
    made = plan_slim(view(data), SlimOptions(drop=("spir64*",), allow_empty=True))
    after = join_pieces(made.pieces)
    verifier_for(made)(view(data), view(after))
    verdict = proof.prove(view(data), view(after))
    assert verdict.is_proved, verdict.differences
    assert len(verdict.dropped) == len(made.dropped) == 2 and any("1 image of OpenMP or SYCL" in n for n in made.notes)
    assert [image in after for image in stored.values()] == [False, False, True]


@pytest.mark.slow
def test_what_clang_made(tmp_path: Path) -> None:
    source, stub, path = tmp_path / "main.c", tmp_path / "libomptarget.so", tmp_path / "program"
    source.write_text(
        "#pragma omp declare target\nint table[4] = {1, 2, 3, 4};\nint of(int x) { return table[x & 3]; }\n"
        "#pragma omp end declare target\nint main(void) { return of(3) != 4; }\n"
    )
    run("gcc", "-shared", "-fPIC", "-DIMAGE_SIZE=0", "-DNO_ENTRIES", "-Dmain=unused", RUNTIME, "-o", stub)
    run("gcc", "-shared", "-fPIC", "-xc", "/dev/null", "-o", tmp_path / "libomp.so")
    run("clang", "-fopenmp", "--offload-arch=gfx90a,gfx1100", "-nogpulib", source, f"-L{tmp_path}",
        f"-Wl,-rpath,{tmp_path}", "-o", path)  # fmt: skip
    data = path.read_bytes()
    made, after = slimmed(data)
    with fatpack.open(path) as file:
        gone = next(image.data.tobytes() for image in file.images() if image.target.arch == "gfx1100")
    before, now = printed(path, data), printed(path, after)
    assert len(made.dropped) == 1 and now == before.replace(gone.hex(), "00" * len(gone)) != before
