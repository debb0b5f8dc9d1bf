"""Modules that contradict the role, the bundle ID or the other modules that they are stored with."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference
from tests.builders.cir import HOST, SM_80, combined, parsed

from fatpack.formats.cir.bundle_id import module_name
from fatpack.main import main

OPTIONS = "cir.lowering_lang_options = #cir.lowering_lang_options<exceptions = true, {}>"
SM_90 = SM_80.replace("80", "90")
HIP = "hip-amdgcn-amd-amdhsa--gfx90a"


def options(model: str = "cuda", *, is_device: bool, has_rdc: bool = False) -> str:
    flags = {"cuda": "cuda = true, hip = false", "hip": "cuda = true, hip = true"}[model]
    words = f"{flags}, cuda_is_device = {str(is_device).lower()}, gpu_rdc = {str(has_rdc).lower()}"
    return OPTIONS.format(words)


#: attributes of the host, of the device, the device's ID → findings
WRONG = {
    (options(is_device=True), "", SM_80): "module 0 @host: it is stored as host, and was compiled for a device",
    ("", options(is_device=False), SM_80): "it is stored as device, and was compiled for the host",
    ('cir.triple = "nvptx64-nvidia-cuda"', "", SM_80): f"it is stored as {HOST!r}, and its triple is 'nvptx64-",
    ("", 'cir.triple = "amdgcn-amd-amdhsa"', SM_80): f"it is stored as {SM_80!r}, and its triple is 'amdgcn-",
    ("", 'cir.triple = "x86_64-unknown-linux-gnu"', HIP): f"it is stored as {HIP!r}, and its triple is 'x86_64-",
    ("", options("hip", is_device=True), SM_80): f"it is stored as {SM_80!r}, and was compiled as HIP",
    ("", options(is_device=True), HIP): f"it is stored as {HIP!r}, and was compiled as CUDA",
    (options(is_device=False), options(is_device=True, has_rdc=True), SM_80): "with -fgpu-rdc, unlike module 0 @host",
    (options(is_device=False, has_rdc=True), options(is_device=True), SM_80): "without -fgpu-rdc, unlike module 0",
}
RIGHT = [
    ("", "", SM_80),
    (options(is_device=False), options(is_device=True), SM_80),
    (options("hip", is_device=False, has_rdc=True), options("hip", is_device=True, has_rdc=True), HIP),
    ('cir.triple = "x86_64-pc-linux-gnu"', 'cir.triple = "nvptx64-nvidia-cuda-unknown"', SM_80),
    ('cir.triple = "x86_64-unknown-linux-gnu"', 'cir.triple = "nvptx64-nvidia-cuda"', SM_80),
    ("", 'cir.triple = "amdgpu9.0a-amd-amdhsa"', HIP),
    (OPTIONS.format("cuda = false"), OPTIONS.format("openmp = true, openmp_is_target_device = true"), SM_80),
]


def container(host: str, device: str, id: str) -> str:
    def module(name: str, role: str, spelling: str, more: str) -> str:
        words = [f'cir.offload.bundle_id = "{spelling}"', f"cir.offload.kind = #cir.offload<{role}>", more]
        return f"  module @{name} attributes {{{', '.join(filter(None, words))}}} {{\n  }}\n"

    modules = module("host", "host", HOST, host) + module(module_name(id), "device", id, device)
    return f"module attributes {{cir.offload.container}} {{\n{modules}}}\n"


def messages(data: bytes) -> list[str]:
    return [item.message for item in parsed(data).findings if item.code == "FP1516"]


@pytest.mark.parametrize("attributes", WRONG)
def test_a_contradiction_is_a_warning(attributes: tuple[str, str, str]) -> None:
    (message,) = messages(container(*attributes).encode())
    assert WRONG[attributes] in message


@pytest.mark.parametrize("attributes", RIGHT)
def test_modules_that_agree_say_nothing(attributes: tuple[str, str, str]) -> None:
    assert messages(container(*attributes).encode()) == []


def test_bytecode_says_the_same(tmp_path: Path) -> None:
    attributes = ("", options(is_device=False), SM_80)
    (tmp_path / "in.mlir").write_text(container(*attributes))
    more = ("--allow-unregistered-dialect", "--emit-bytecode", "-o", "out.mlirbc")
    reference.run("mlir-opt", "in.mlir", *more, cwd=tmp_path)
    (message,) = messages((tmp_path / "out.mlirbc").read_bytes())
    assert WRONG[attributes] in message


def pack(folder: Path, host: str, device: str, id: str | None) -> int:
    (folder / "h.cir").write_text(host)
    (folder / "d.cir").write_text(device)
    device_id = f",id={id}" if id else ""
    images = [f"--image=file={folder / 'h.cir'},id={HOST}", f"--image=file={folder / 'd.cir'}{device_id}"]
    return main(["pack", "--format=cir", *images, "-o", str(folder / "c.cir"), "--force"])


@pytest.mark.parametrize(
    ("device", "text"),
    [
        (f'cir.offload.bundle_id = "{SM_90}"', f"it is stored as {SM_80!r}, and its file as {SM_90!r}"),
        ("cir.offload.kind = #cir.offload<host>", "it is stored as device, and states that it is the host"),
        (options(is_device=False), "it is stored as device, and was compiled for the host"),
    ],
)
def test_packing_warns_of_a_file_that_is_something_else(
    device: str, text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pack(tmp_path, "module {\n}\n", f"module attributes {{{device}}} {{\n}}\n", SM_80) == 1
    assert text in capsys.readouterr().err
    assert pack(tmp_path, "module {\n}\n", "module {\n}\n", SM_80) == 0
    assert "warning" not in capsys.readouterr().err


def test_packing_takes_the_ids_that_split_files_carry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = combined(("module {\n}\n", HOST), ("module {\n}\n", SM_80))
    (tmp_path / "in.cir").write_bytes(data)
    for number, name in enumerate(("h.cir", "d.cir")):
        output = str(tmp_path / name)
        assert main(["extract", str(tmp_path / "in.cir"), "--index", str(number), "-o", output]) == 0
    images = [f"--image=file={tmp_path / name}" for name in ("h.cir", "d.cir")]
    assert main(["pack", "--format=cir", *images, "-o", str(tmp_path / "out.cir")]) == 0
    assert (tmp_path / "out.cir").read_bytes() == data
    assert main(["pack", "--format=cir", images[0] + ",foo=1", images[1], "-o", "-"]) == 2
    assert "cannot store the key 'foo'" in capsys.readouterr().err
    assert pack(tmp_path, "module {\n}\n", "module {\n}\n", None) == 2
    assert "needs to know the kind" in capsys.readouterr().err
