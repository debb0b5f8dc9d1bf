"""Images without a container, in objects and programs of the linker wrapper: records lead to them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.builders.packages import zipped
from tests.laws.rooms import FIXTURES
from tests.reference import llvm_tool

import fatpack

SPIRV = FIXTURES / "kernels" / "add_one.llvm22.spv"
CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"
CODE_OBJECT = FIXTURES / "kernels" / "needs.v6.gfx90a.hsaco"


def images(path: Path) -> list[tuple[str, str, bytes]]:
    """Return model, form and bytes of all images; nothing is wrong with the file."""
    with fatpack.open(path) as file:
        assert file.findings == ()
        return [
            (image.target.offload, image.form, image.data.tobytes())
            for found in file.containers
            for image in found.images
        ]


@pytest.mark.parametrize("host", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc"])
def test_sycl_images_of_our_objects_are_listed(host: str, tmp_path: Path) -> None:
    path = tmp_path / "w.o"
    other = tmp_path / "other.spv"
    other.write_bytes(SPIRV.read_bytes() + bytes(4))
    fatpack.wrap([SPIRV, other], path, kind="sycl", host_triple=host, llvm=22)
    assert images(path) == [("sycl", "spirv", SPIRV.read_bytes()), ("sycl", "spirv", other.read_bytes())]
    (row, *_) = fatpack.rows(path)
    assert (row.triple, row.section) == ("spirv64", ".llvm.offloading")


@pytest.mark.parametrize("version", ["22", "23"])
@pytest.mark.parametrize("host", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "x86_64-pc-windows-msvc"])
def test_openmp_images_of_llvm_objects_are_listed_extracted_and_checked(
    host: str, version: str, tmp_path: Path
) -> None:
    wrapper, compiler = llvm_tool("llvm-offload-wrapper", version), llvm_tool("llc", version)
    bitcode, path = tmp_path / "w.bc", tmp_path / "w.o"
    subprocess.run([wrapper, "--kind=openmp", f"--triple={host}", CUBIN, CODE_OBJECT, "-o", bitcode], check=True)
    subprocess.run([compiler, "-relocation-model=pic", "-filetype=obj", bitcode, "-o", path], check=True)
    expected = [("openmp", "cubin", CUBIN.read_bytes()), ("openmp", "code-object", CODE_OBJECT.read_bytes())]
    assert images(path) == expected
    assert fatpack.check(path, require=["sm_80", "gfx90a"])
    assert not fatpack.check(path, require=["sm_90"])
    (tmp_path / "x.whl").write_bytes(zipped({"w.o": path.read_bytes()}))
    rows = [row for row in fatpack.rows(tmp_path / "x.whl") if row.row == "image"]
    assert [row.arch for row in rows] == ["sm_80", "gfx90a"]
    if "linux" in host and "x86_64" in host:
        program = tmp_path / "w.so"
        command = ["gcc", "-shared", path, "-o", program, "-Wl,--unresolved-symbols=ignore-all"]
        subprocess.run(command, check=True)
        assert images(program) == expected
