"""Wrappers linked into programs that run: what a runtime gets is what LLVM's wrappers give it, call by call.

``runtime.c`` stands for the runtimes, prints every call with its arguments, and says where the stack is not aligned.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, run, tool

import fatpack

SOURCE = Path(__file__).parent / "runtime.c"
FATBIN = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
BUNDLE = FIXTURES / "clang_bundle" / "llvm-22-hip.bundle"
SPIRV = FIXTURES / "kernels" / "add_one.llvm22.spv"
CODE_OBJECT = FIXTURES / "kernels" / "needs.v6.gfx90a.hsaco"

LINUX, ARM = "x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"
MINGW, MSVC = "x86_64-w64-windows-gnu", "x86_64-pc-windows-msvc"

#: kind → what is wrapped, and options of the runtime's source
INPUTS = {
    "cuda": (FATBIN, [f"-DIMAGE_SIZE={FATBIN.stat().st_size}"]),
    "hip": (BUNDLE, [f"-DIMAGE_SIZE={BUNDLE.stat().st_size}"]),
    "openmp": (CODE_OBJECT, ["-DIMAGE_SIZE=0"]),
    "sycl": (SPIRV, ["-DIMAGE_SIZE=0"]),
}
each_kind = pytest.mark.parametrize("kind", INPUTS)

#: host → its compiler, and what runs its programs
HOSTS: dict[str, tuple[str, list[str]]] = {
    LINUX: ("gcc", []),
    ARM: ("aarch64-linux-gnu-gcc", ["qemu-aarch64-static", "-L", "/usr/aarch64-linux-gnu"]),
    MINGW: ("x86_64-w64-mingw32-gcc", ["wine64"]),
    # The linker and the objects are those of MSVC, the headers and libraries those of MinGW.
    MSVC: ("x86_64-w64-mingw32-gcc", ["wine64"]),
}
_LIBRARIES = ("msvcrt", "mingwex", "kernel32", "mingw32", "msvcrt")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder for objects and programs, and for what Wine believes to be a machine; at the end its server ends."""
    made = tmp_path_factory.mktemp("wrapped")
    yield made
    if (made / "wine").exists():
        environment = {**os.environ, "WINEPREFIX": str(made / "wine")}
        subprocess.run([_wine_server(), "-k"], env=environment, check=False)


def _wine_server() -> str:
    # Debian keeps it out of PATH, as Wine itself.
    path = Path("/usr/lib/wine/wineserver64")
    return str(path) if path.exists() else tool("wineserver")


@pytest.fixture(scope="module")
def output_of(folder: Path) -> Callable[..., str]:
    """Return what links objects with the runtime of a host, runs the program and returns what it prints."""
    runtimes: dict[tuple[str, ...], Path] = {}

    def linked(host: str, objects: list[Path], options: list[str], linking: list[str]) -> str:
        compiler, runner = HOSTS[host]
        key = (host, *options)
        if key not in runtimes:
            runtimes[key] = folder / f"runtime-{len(runtimes)}.o"
            run(compiler, "-O1", "-fPIC", "-c", SOURCE, *options, "-o", runtimes[key])
        program = folder / "program.exe"
        if host == MSVC:
            _link_as_msvc([runtimes[key], *objects], program)
        else:
            run(compiler, runtimes[key], *objects, *linking, "-o", program)
        return _printed([*(_runner(runner)), str(program)], folder)

    return linked


def _link_as_msvc(objects: list[Path], program: Path) -> None:
    compiler, start = HOSTS[MSVC][0], program.with_name("startup.o")
    run(compiler, "-O1", "-fno-builtin", "-c", SOURCE.with_name("startup.c"), "-o", start)
    support = run(compiler, "-print-libgcc-file-name").stdout.decode().strip()
    folder = Path(run(compiler, "-print-file-name=libmsvcrt.a").stdout.decode().strip()).resolve().parent
    libraries = [folder / f"lib{name}.a" for name in _LIBRARIES]
    run(
        "lld-link", "-lldmingw", "-entry:start", "-subsystem:console", f"-out:{program}", start, *objects, *libraries,
        support,
    )  # fmt: skip


def _runner(words: list[str]) -> list[str]:
    if not words:
        return []
    # Debian keeps the program itself out of PATH: what is there is a script that asks for 32 bits too.
    path = Path("/usr/lib/wine") / words[0]
    return [str(path) if path.exists() else tool(words[0]), *words[1:]]


def _printed(command: list[str], folder: Path) -> str:
    environment = {**os.environ, "WINEDEBUG": "-all", "WINEPREFIX": str(folder / "wine")}
    # A file, no pipe: what Wine leaves running for a while would hold that open.
    output = folder / "printed.txt"
    with output.open("wb") as file:
        done = subprocess.run(command, stdout=file, stderr=subprocess.DEVNULL, env=environment, timeout=120)
    assert done.returncode == 0
    return output.read_text().replace("\r", "")


def ours(kind: str, folder: Path, host: str, llvm: int = 22, given: Path | None = None) -> Path:
    """Return an object of ours."""
    target = folder / f"ours-{kind}.o"
    fatpack.wrap([given or INPUTS[kind][0]], target, kind=kind, host_triple=host, llvm=llvm, overwrite=True)  # type: ignore[arg-type]
    return target


def theirs(kind: str, folder: Path, host: str, version: str, given: Path) -> Path:
    """Return an object that LLVM's wrapper and compiler make."""
    bitcode, target = folder / "theirs.bc", folder / f"theirs-{kind}.o"
    wrapper, compiler = llvm_tool("llvm-offload-wrapper", version), llvm_tool("llc", version)
    subprocess.run([wrapper, f"--kind={kind}", f"--triple={host}", given, "-o", bitcode], check=True)
    subprocess.run([compiler, "-O2", "--relocation-model=pic", "-filetype=obj", bitcode, "-o", target], check=True)
    return target


def container(kind: str, folder: Path, version: int) -> Path:
    """Return what is wrapped as a container, which LLVM's wrapper takes as it is."""
    given, _ = INPUTS[kind]
    if kind in ("cuda", "hip"):
        return given
    target = folder / f"{kind}-{version}.offload"
    triple, arch = ("amdgcn-amd-amdhsa", "gfx90a") if kind == "openmp" else ("spirv64", "")
    image = fatpack.ImageFile(given, triple=triple, arch=arch, offload=kind)  # type: ignore[arg-type]
    fatpack.pack([image], target, options=fatpack.OffloadBinaryOptions(version=version), overwrite=True)
    return target


@pytest.mark.parametrize(
    ("host", "version"),
    [
        (LINUX, "22"),
        pytest.param(LINUX, "23", marks=pytest.mark.slow),
        (ARM, "23"),
        # Wine takes seconds to start.
        pytest.param(MINGW, "23", marks=pytest.mark.slow),
        pytest.param(MSVC, "23", marks=pytest.mark.slow),
    ],
)
@each_kind
def test_a_runtime_gets_what_llvms_wrapper_gives_it(
    kind: str, version: str, host: str, folder: Path, output_of: Callable[..., str]
) -> None:
    if (kind, version) == ("sycl", "22"):
        pytest.skip("llvm-offload-wrapper 22 has no SYCL: test_sycl_of_llvm_22 asks clang-linker-wrapper")
    given, options = container(kind, folder, int(version) - 21), INPUTS[kind][1]
    mine = output_of(host, [ours(kind, folder, host, int(version), given)], options, [])
    expected = output_of(host, [theirs(kind, folder, host, version, given)], options, [])
    assert mine == expected
    assert "MISALIGNED" not in mine
    before, after = mine.split("main\n")
    assert before and after


@pytest.mark.parametrize("host", [LINUX, *(pytest.param(host, marks=pytest.mark.slow) for host in (ARM, MINGW, MSVC))])
@pytest.mark.parametrize("kind", ["cuda", "hip", "openmp"])
def test_entries_of_llvm_20_and_before(kind: str, host: str, folder: Path, output_of: Callable[..., str]) -> None:
    """The LLVM IR is that of LLVM 19 (``test_ir.py``), and the object does what the IR does."""
    given, options = container(kind, folder, 1), [*INPUTS[kind][1], "-DOLD_ENTRIES"]
    module, target = folder / "old.ll", folder / f"compiled-{kind}.o"
    fatpack.wrap([given], module, kind=kind, host_triple=host, llvm=19, emit="llvm-ir", overwrite=True)  # type: ignore[arg-type]
    run("llc", "-O2", "--relocation-model=pic", "-filetype=obj", module, "-o", target)
    mine = output_of(host, [ours(kind, folder, host, 19, given)], options, [])
    assert mine == output_of(host, [target], options, [])
    assert f"{kind} kernel" in mine or "openmp region" in mine


@pytest.mark.slow
def test_sycl_of_llvm_22(folder: Path, output_of: Callable[..., str]) -> None:
    images = [
        fatpack.ImageFile(b"first image", triple="spirv64", arch="bmg", offload="sycl", name="a.o",
                          attrs={"symbols": "one\ntwo"}),
        fatpack.ImageFile(b"second", triple="spir64_gen-unknown-unknown", offload="sycl", name="b.spv"),
    ]  # fmt: skip
    given, source = folder / "sycl.offload", folder / "empty.c"
    fatpack.pack(images, given, overwrite=True)
    source.write_text("int nothing;")
    embedded, asked = folder / "embedded.o", folder / "asked.o"
    for target in (embedded, asked):
        run("clang", "-c", source, "-Xclang", f"-fembed-offload-object={given}", "-o", target)
    done = run(
        "clang-linker-wrapper", f"--host-triple={LINUX}", "--print-wrapped-module",
        f"--override-image=sycl={embedded}", "--linker-path=/bin/true", asked, "-o", folder / "nothing",
    )  # fmt: skip
    module, target = folder / "sycl.ll", folder / "theirs-sycl.o"
    # It prints where messages go.
    module.write_bytes(done.stderr)
    run("llc", "-O2", "--relocation-model=pic", "-filetype=obj", module, "-o", target)
    options = ["-DIMAGE_SIZE=0", "-DSYCL_DESCRIPTOR"]
    for host in HOSTS:
        mine = output_of(host, [ours("sycl", folder, host, 22, given)], options, [])
        assert mine.count("one") == 2 and mine.count("spir64_gen") == 2
        if host == LINUX:
            assert mine == output_of(host, [target], options, [])


LINKS = {
    "pie": ["-pie", "-z", "noexecstack"],
    "no-pie": ["-no-pie"],
    "static": ["-static"],
    "static-pie": ["-static-pie"],
    "gc": ["-Wl,--gc-sections"],
    "now": ["-Wl,-z,now,-z,relro"],
    "cet": ["-Wl,-z,ibt,-z,shstk"],
}
#: what a linker has no option for
UNKNOWN = {("cet", "gold"), ("cet", "lld"), ("static-pie", "gold")}
#: sections between bounds that a linker makes go unless lld is told otherwise, those of LLVM's own wrappers too
MORE = {("gc", "lld"): ["-Wl,-z,nostart-stop-gc"]}


@pytest.mark.slow
@pytest.mark.parametrize("linker", ["bfd", "gold", "lld", "mold"])
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("kind", ["cuda", "openmp", "sycl"])
def test_every_linker_takes_it_for_every_kind_of_program(
    kind: str, link: str, linker: str, folder: Path, output_of: Callable[..., str]
) -> None:
    if (link, linker) in UNKNOWN:
        pytest.skip(f"{linker} has no option for it")
    options = INPUTS[kind][1]
    wrapped = ours(kind, folder, LINUX, 23)
    path = f"-B{folder / linker}"
    (folder / linker).mkdir(exist_ok=True)
    name = folder / linker / "ld"
    if not name.exists():
        name.symlink_to(tool({"lld": "ld.lld", "mold": "mold"}.get(linker, f"ld.{linker}")))
    strict = ["-Wl,--fatal-warnings", *LINKS[link], *MORE.get((link, linker), [])]
    assert output_of(LINUX, [wrapped], options, [path, *strict]) == output_of(LINUX, [wrapped], options, [])


@pytest.mark.slow
@each_kind
def test_a_library_registers_what_it_carries(kind: str, folder: Path, output_of: Callable[..., str]) -> None:
    wrapped, options = ours(kind, folder, LINUX, 23), INPUTS[kind][1]
    library, main = folder / f"lib{kind}.so", folder / "main.o"
    program = folder / "uses-library"
    run(
        "gcc",
        "-O1",
        "-shared",
        "-fPIC",
        SOURCE,
        *options,
        "-Dmain=unused",
        wrapped,
        "-Wl,-z,text,-z,defs",
        "-o",
        library,
    )
    (folder / "main.c").write_text('#include <stdio.h>\nint main(void) { puts("main"); fflush(stdout); return 0; }\n')
    run("gcc", "-c", folder / "main.c", "-o", main)
    run("gcc", main, "-Wl,--no-as-needed", library, f"-Wl,-rpath,{folder}", "-o", program)
    assert _printed([str(program)], folder) == output_of(LINUX, [wrapped], options, [])


@pytest.mark.slow
def test_wrappers_of_several_kinds_go_into_one_program(folder: Path, output_of: Callable[..., str]) -> None:
    for host in HOSTS:
        objects = [ours(kind, folder, host, 23) for kind in ("cuda", "hip", "openmp", "sycl")]
        printed = output_of(host, objects, INPUTS["cuda"][1], [])
        for word in ("cudaRegisterFunction", "hipRegisterFunction", "register_lib", "sycl_unregister_lib"):
            assert word in printed
        mixed = [theirs("cuda", folder, host, "22", FATBIN), *objects[1:]]
        assert sorted(output_of(host, mixed, INPUTS["cuda"][1], []).splitlines()) == sorted(printed.splitlines())


@pytest.mark.slow
@each_kind
def test_a_program_without_entries_still_links(kind: str, folder: Path, output_of: Callable[..., str]) -> None:
    for host in HOSTS:
        printed = output_of(host, [ours(kind, folder, host, 23)], [*INPUTS[kind][1], "-DNO_ENTRIES"], [])
        assert printed.count("call") >= 2 and "Function" not in printed


def test_a_relocatable_link_keeps_what_is_registered(folder: Path, output_of: Callable[..., str]) -> None:
    target, merged = folder / "relocatable.o", folder / "merged.o"
    fatpack.wrap([CODE_OBJECT], target, kind="openmp", relocatable=True, overwrite=True)
    for linker in ("ld.bfd", "ld.lld"):
        run(linker, "-r", target, "-o", merged)
        plain = output_of(LINUX, [ours("openmp", folder, LINUX)], ["-DIMAGE_SIZE=0"], [])
        assert output_of(LINUX, [merged], ["-DIMAGE_SIZE=0"], []) == plain
