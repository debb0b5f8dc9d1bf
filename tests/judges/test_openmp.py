"""LLVM's own OpenMP runtime runs programs before and after each edit: libomptarget with its plug-in for the host.

The plug-in runs images for x86-64 on the processor, so that no GPU is needed. ``initial=0`` is what a target region
says that ran as an image, ``initial=1`` what it says on the host. LLVM 19 and 22, whose offload entries differ; no
package has the runtime of 23.
"""

from __future__ import annotations

import os
import subprocess
import warnings
from pathlib import Path

import pytest
from tests import reference
from tests.clients.in_place import StandIns

import fatpack

pytestmark = pytest.mark.reference

TRIPLE = "x86_64-pc-linux-gnu"
TARGETS = ("-O1", "-fopenmp", f"-fopenmp-targets={TRIPLE}")

#: ``FACTOR`` changes the result. The names of kernels have the file's inode and the line in them, so a second source is
#: the same file.
SOURCE = """
int printf(const char *, ...);
static int is_initial(void) { return 1; }
#pragma omp begin declare variant match(device = {kind(nohost)})
static int is_initial(void) { return 0; }
#pragma omp end declare variant
int main(void) {
  int initial = -1;
  long s = 0;
#pragma omp target map(from : initial)
  initial = is_initial();
#pragma omp target teams distribute parallel for reduction(+ : s) map(tofrom : s)
  for (int i = 0; i < 100; i++)
    s += FACTOR * i;
  printf("initial=%d s=%ld", initial, s);
  return 0;
}
"""

ON_DEVICE, ON_HOST = "initial=0 s=4950", "initial=1 s=4950"


class Build:
    """A folder with the source, the host's object and the image for the device, made by clang 22 without fatpack."""

    def __init__(self, folder: Path, version: str) -> None:
        self.folder, self.version = folder, version
        # The packages of two releases with the names that linkers look for exclude each other; these are the libraries.
        self.libraries = Path(f"/usr/lib/llvm-{version}/lib")
        for name in (f"libomptarget.so.{version}.1", "libomp.so.5"):
            folders = (self.libraries, Path("/usr/lib/x86_64-linux-gnu"))
            path = next((folder / name for folder in folders if (folder / name).exists()), None)
            link = folder / f"{name.partition('.so')[0]}.so"
            link.symlink_to(path or reference.missing(f"{name} of LLVM {version}"))
        # clang 19 names the device's part of the runtime, of which the processor needs nothing.
        reference.run("ar", "rc", folder / "libomptarget.devicertl.a")
        self.source = folder / "sum.c"
        self.source.write_text(SOURCE)

    def tool(self, name: str) -> str:
        """Return the path of a tool of this LLVM."""
        return reference.llvm_tool(name, self.version)

    def clang(self, *arguments: str | Path) -> None:
        """Run clang, which must succeed."""
        command = [self.tool("clang"), f"-L{self.folder}", *map(str, arguments)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def wrap(self, images: list[fatpack.ImageFile], name: str, *, relocatable: bool = False) -> Path:
        """Return the wrapper object that fatpack makes for this LLVM."""
        path = self.folder / name
        llvm = int(self.version)
        fatpack.wrap(images, path, kind="openmp", llvm=llvm, relocatable=relocatable, overwrite=True)
        return path

    def compile(self, name: str, *options: str | Path, factor: int = 1) -> Path:
        """Return what clang makes of the source: an object with ``-c``, else a program."""
        path = self.folder / name
        self.clang(*TARGETS, f"-DFACTOR={factor}", *options, self.source, "-o", path)
        return path

    def link(self, name: str, *inputs: str | Path, offloads: bool = True) -> Path:
        """Return a program; clang's linker wrapper makes the images unless ``offloads`` is False."""
        path = self.folder / name
        self.clang(*(TARGETS if offloads else ("-fopenmp", "-lomptarget")), *inputs, "-o", path)
        return path

    def run(self, program: Path, *, mandatory: bool = True) -> str:
        """Return the output of a program, or "failed" if it ended with an error."""
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.libraries)}
        environment["OMP_TARGET_OFFLOAD"] = "MANDATORY" if mandatory else "DEFAULT"
        done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=60)
        return done.stdout if done.returncode == 0 else "failed"


@pytest.fixture(scope="module", params=["22", "19"])
def build(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return a build whose whole program runs on the device, which no fatpack has touched."""
    made = Build(tmp_path_factory.mktemp("openmp"), request.param)
    assert made.run(made.compile("whole")) == ON_DEVICE
    return made


def device_image(build: Build, program: Path, name: str) -> Path:
    """Return the only image of a file, extracted."""
    (image,) = fatpack.open(program).images()
    path = build.folder / name
    path.write_bytes(image.data.tobytes())
    return path


@pytest.mark.parametrize("relocatable", [False, True], ids=["object", "relocatable"])
def test_wrap_registers_what_the_runtime_takes(build: Build, *, relocatable: bool) -> None:
    """The host's object and a wrapper of fatpack, linked without LLVM's linker wrapper, offload to the image."""
    host = build.compile("host.o", "-c", "--offload-host-only")
    image = device_image(build, build.folder / "whole", "image")
    images = [fatpack.ImageFile(image, triple=TRIPLE, offload="openmp")]
    wrapper = build.wrap(images, "wrapper.o", relocatable=relocatable)
    objects = [host, wrapper]
    if relocatable:
        objects = [build.folder / "linked.o"]
        reference.run("ld", "-r", host, wrapper, "-o", objects[0])
    assert build.run(build.link("wrapped", *objects, offloads=False)) == ON_DEVICE


def test_a_wrapper_in_a_library_registers(build: Build) -> None:
    """A shared library with the wrapper registers its image when the program is loaded."""
    host = build.compile("pic.o", "-c", "-fPIC", "--offload-host-only", "-Dmain=compute")
    library, caller = build.folder / "libsum.so", build.folder / "caller.c"
    image = device_image(build, build.compile("whole.so", "-fPIC", "-shared", "-Dmain=compute"), "image.so")
    wrapper = build.wrap([fatpack.ImageFile(image, triple=TRIPLE, offload="openmp")], "w.o")
    build.link("libsum.so", "-shared", host, wrapper, offloads=False)
    caller.write_text("int compute(void);\nint main(void) { return compute(); }\n")
    program = build.link("calls", caller, library, f"-Wl,-rpath,{build.folder}", offloads=False)
    assert build.run(program) == ON_DEVICE


def test_replace_exchanges_the_kernel(build: Build) -> None:
    """An object's image is replaced by that of a source with another result; the link takes it, and it runs."""
    one, two, edited = build.compile("one.o", "-c"), build.compile("two.o", "-c", factor=2), build.folder / "edited.o"
    image = device_image(build, two, "two.image")
    assert build.run(build.link("before", one)) == ON_DEVICE
    fatpack.replace(one, image, edited, selector=fatpack.Selector(triple=TRIPLE), overwrite=True)
    assert build.run(build.link("after", edited)) == "initial=0 s=9900"


@pytest.mark.parametrize("edit", ["remove", "slim"])
def test_a_program_without_its_image_falls_back(build: Build, edit: str) -> None:
    """The host computes the result, and a program that must offload fails, as OpenMP wants it."""
    whole, edited = build.folder / "whole", build.folder / f"without-{edit}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if edit == "remove":
            fatpack.remove(whole, edited, allow_empty=True, overwrite=True)
        else:
            fatpack.slim(whole, edited, drop="x86_64*", allow_empty=True, overwrite=True)
    assert build.run(edited, mandatory=False) == ON_HOST
    assert build.run(edited) == "failed"


def test_slim_keeps_what_runs(build: Build) -> None:
    """Of images for the processor and for a GPU the GPU's goes; the processor's runs as before."""
    slimmed = build.folder / "slimmed"
    image = device_image(build, build.folder / "whole", "image")
    host = build.compile("host.o", "-c", "--offload-host-only")
    other = build.folder / "gpu.cubin"
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry other()\n{\nret;\n}\n"
    (build.folder / "gpu.ptx").write_text(text)
    reference.run("ptxas", "-arch=sm_80", build.folder / "gpu.ptx", "-o", other)
    images = [
        fatpack.ImageFile(other, triple="nvptx64-nvidia-cuda", arch="sm_80", offload="openmp"),
        fatpack.ImageFile(image, triple=TRIPLE, offload="openmp"),
    ]
    program = build.link("both", host, build.wrap(images, "both.o"), offloads=False)
    assert build.run(program) == ON_DEVICE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fatpack.slim(program, slimmed, drop="sm_80", allow_empty=True, overwrite=True)
    assert slimmed.read_bytes().count(other.read_bytes()) == 0
    assert build.run(slimmed) == ON_DEVICE


def test_a_converted_container_is_linked(build: Build) -> None:
    """Offload binary to bundle and back: the linker wrapper takes it as it took the first."""
    whole, stored, bundle, back, edited = (
        build.folder / name for name in ("conv.o", "a.offload", "a.bundle", "b.offload", "conv2.o")
    )
    build.compile("conv.o", "-c")
    fatpack.convert(whole, stored, format="offload-binary", overwrite=True)
    fatpack.convert(stored, bundle, format="bundle", overwrite=True)
    fatpack.convert(bundle, back, format="offload-binary", overwrite=True)
    fatpack.replace(whole, back, edited, overwrite=True)
    assert build.run(build.link("converted", edited)) == ON_DEVICE


def test_map_with_the_optimizer(build: Build) -> None:
    """Bitcode of an object goes through opt -O3 and then llc; both results are linked and run."""
    whole = build.compile("lto.o", "-c", "-foffload-lto")
    optimized, compiled = build.folder / "opt.o", build.folder / "llc.o"
    assert [image.form for image in fatpack.rows(whole) if image.form] == ["bitcode"]
    fatpack.map_images(whole, [build.tool("opt"), "-O3", "{in}", "-o", "{out}"], optimized, overwrite=True)
    assert build.run(build.link("optimized", "-foffload-lto", optimized)) == ON_DEVICE
    llc = [build.tool("llc"), "-relocation-model=pic", "-filetype=obj", "{in}", "-o", "{out}"]
    fatpack.map_images(optimized, llc, compiled, overwrite=True)
    assert build.run(build.link("compiled", compiled)) == ON_DEVICE


def test_a_build_with_stand_ins(build: Build, tmp_path: Path) -> None:
    """clang packs and wraps with stand-ins in place; the program offloads as before."""
    stand_ins = StandIns(tmp_path)
    # clang-offload-packager is what LLVM called llvm-offload-binary before 22.
    packer = "llvm-offload-binary" if build.version == "22" else "clang-offload-packager"
    stand_ins.install([packer, "clang-offload-bundler"])
    program = tmp_path / "built"
    build.clang(*TARGETS, "-DFACTOR=1", f"-B{stand_ins.folder}", build.source, "-o", program)
    assert stand_ins.calls()[packer] == 1
    assert build.run(program) == ON_DEVICE
