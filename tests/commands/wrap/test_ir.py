"""LLVM IR against LLVM's tools: llvm-dis prints the same of ours and of a wrapper made by LLVM, line by line."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path

import pytest
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool, run

import fatpack
from fatpack.commands.wrap.ir.text import constant_array, global_name, quote_bytes

FATBIN = FIXTURES / "cuda_fatbin" / "v130_size.fatbin"
BUNDLE = FIXTURES / "clang_bundle" / "llvm-22-hip.bundle"

HOSTS = (
    "x86_64-unknown-linux-gnu",
    "i386-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "powerpc64le-unknown-linux-gnu",
    "riscv64-unknown-freebsd",
    "s390x-ibm-linux-gnu",
    "aarch64-pc-windows-msvc",
    "x86_64-unknown-uefi",
    "arm64-apple-macosx11",
)


def text_of(images: list[Path | bytes | fatpack.ImageFile], **arguments: object) -> str:
    """Return the LLVM IR that we make."""
    output = io.BytesIO()
    fatpack.wrap(images, output, emit="llvm-ir", **arguments)  # type: ignore[arg-type]
    return output.getvalue().decode()


def without_name(module: str) -> str:
    """Return a module without the line that says what its file was called."""
    first, _, rest = module.partition("\n")
    assert first.startswith("; ModuleID")
    return rest


def canonical(module: bytes, version: str, folder: Path) -> str:
    """Return what llvm-dis prints of a module."""
    assembled = folder / "ours.bc"
    subprocess.run([llvm_tool("llvm-as", version), "-", "-o", assembled], input=module, check=True)
    return printed(assembled, version)


def printed(bitcode: Path, version: str) -> str:
    """Return what llvm-dis prints of bitcode."""
    return subprocess.run(
        [llvm_tool("llvm-dis", version), bitcode, "-o", "-"], capture_output=True, check=True, text=True
    ).stdout


def container(offload: str, folder: Path, version: int, arch: str = "a") -> Path:
    """Return an offload binary."""
    target = folder / f"{offload}.{arch}.offload"
    image = fatpack.ImageFile(b'"\\\n\x7fimage\xff', triple="spirv64", arch=arch, offload=offload, name="i.spv")  # type: ignore[arg-type]
    fatpack.pack([image], target, options=fatpack.OffloadBinaryOptions(version=version), overwrite=True)
    return target


@pytest.mark.parametrize("version", ["22", "23"])
@pytest.mark.parametrize(
    "host", [HOSTS[0], "x86_64-pc-windows-msvc", *(pytest.param(host, marks=pytest.mark.slow) for host in HOSTS[1:])]
)
def test_modules_are_those_of_llvm_offload_wrapper(host: str, version: str, tmp_path: Path) -> None:
    two = [container("openmp", tmp_path, int(version) - 21, arch) for arch in ("a", "b")]
    kinds = {"cuda": [FATBIN], "hip": [BUNDLE], "openmp": two}
    if version == "23":
        kinds["sycl"] = [container("sycl", tmp_path, 2)]
    if "apple" in host and version == "22":
        with pytest.raises(fatpack.UsageError, match="LLVM 22 has no bounds"):
            text_of([FATBIN], kind="cuda", host_triple=host)
        return
    for kind, images in kinds.items():
        ours = text_of([*images], kind=kind, host_triple=host, llvm=int(version))
        bitcode = tmp_path / "theirs.bc"
        wrapper = llvm_tool("llvm-offload-wrapper", version)
        subprocess.run([wrapper, f"--kind={kind}", f"--triple={host}", *images, "-o", bitcode], check=True)
        assert without_name(canonical(ours.encode(), version, tmp_path)) == without_name(printed(bitcode, version))


@pytest.mark.parametrize("recorded", sorted((FIXTURES / "wrap").glob("llvm-19-*.ll")), ids=lambda path: path.stem)
def test_modules_are_those_of_clang_linker_wrapper_19(recorded: Path) -> None:
    expected = recorded.read_text()
    _, kind, file = recorded.stem.removeprefix("llvm-").split("-")
    (spelling,) = re.findall(r'\[\d+ x i8\] c"(.*?)", section', expected)
    given = re.sub(rb"\\([0-9A-F]{2})", lambda found: bytes.fromhex(found[1].decode()), spelling.encode())
    host = "x86_64-pc-windows-msvc" if file == "coff" else "x86_64-unknown-linux-gnu"
    assert text_of([given], kind=kind, host_triple=host, llvm=19) == expected


def test_relocatable_modules_are_those_of_llvm_offload_wrapper(tmp_path: Path) -> None:
    image, bitcode = container("openmp", tmp_path, 2), tmp_path / "theirs.bc"
    ours = text_of([image], kind="openmp", llvm=23, relocatable=True)
    command = [llvm_tool("llvm-offload-wrapper", "23"), "--kind=openmp", "--relocatable"]
    subprocess.run([*command, "--triple=x86_64-unknown-linux-gnu", image, "-o", bitcode], check=True)
    assert ".llvm.offloading.relocatable" in ours
    assert without_name(canonical(ours.encode(), "23", tmp_path)) == without_name(printed(bitcode, "23"))


def test_sycl_modules_are_those_of_clang_linker_wrapper_22(tmp_path: Path) -> None:
    images = [
        fatpack.ImageFile(b"first", triple="spirv64", arch="bmg", offload="sycl", name="a.o",
                          attrs={"symbols": "one\nt.w-o\n_ZTS f"}),
        fatpack.ImageFile(b"\0\0", triple="spir64_gen-unknown-unknown", offload="sycl", name="b.spv"),
        fatpack.ImageFile(b"third", triple="spirv64", offload="sycl", name="c.spv",
                          attrs={"symbols": "three\none\none"}),
    ]  # fmt: skip
    given, source, embedded = tmp_path / "sycl.offload", tmp_path / "empty.c", tmp_path / "embedded.o"
    fatpack.pack(images, given)
    source.write_text("int nothing;")
    run("clang", "-c", source, "-Xclang", f"-fembed-offload-object={given}", "-o", embedded)
    done = run(
        "clang-linker-wrapper", "--host-triple=x86_64-unknown-linux-gnu", "--print-wrapped-module",
        f"--override-image=sycl={embedded}", "--linker-path=/bin/true", embedded, "-o", tmp_path / "nothing",
    )  # fmt: skip
    ours = text_of([given], kind="sycl")
    theirs = without_name(canonical(done.stderr, "22", tmp_path))
    assert without_name(canonical(ours.encode(), "22", tmp_path)) == theirs
    run("llc", "-filetype=obj", _written(tmp_path / "ours.ll", ours), "-o", tmp_path / "ours.o")


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.parametrize("host", ["wasm32-unknown-unknown", "powerpc64-ibm-aix"])
def test_hosts_without_bounds_of_entries_are_refused(host: str) -> None:
    with pytest.raises(fatpack.UsageError, match="no LLVM registers images"):
        text_of([FATBIN], kind="cuda", host_triple=host)


def test_bytes_and_names_are_spelled_as_llvm_does() -> None:
    assert quote_bytes(b'a"\\\n\x7f\xff ~') == "a\\22\\5C\\0A\\7F\\FF ~"
    assert [global_name(text) for text in (".a_b$c-1", "a b", "1a", "\1x")] == [
        "@.a_b$c-1",
        '@"a b"',
        '@"1a"',
        '@"\\01x"',
    ]
    assert b"".join(constant_array([b"\0", b"\0"], 2)) == b"[2 x i8] zeroinitializer"
    assert b"".join(constant_array([b"\0", b"a"], 2)) == b'[2 x i8] c"\\00a"'
