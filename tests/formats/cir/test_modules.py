"""Modules in containers and outside: kernels, containers, and the facts of plain files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import reference
from tests.builders.cir import HOST, SM_80, combined, parsed

import fatpack
from fatpack.formats import cir, offload_binary
from fatpack.io.source import BytesSource, Span
from fatpack.main import main
from fatpack.model import Container, Finding, Image, Target

STUB = '  cir.func @s() attributes {cu.kernel_name = #cir.cu.kernel_name<"k">} {\n    cir.return\n  }\n'
BODY = " {\n    cir.return\n  }\n"
GENERIC_BODY = '({\n    "cir.return"() : () -> ()\n  })'
PREFIX = "cir.offload."


def inspected(data: bytes, folder: Path, *options: str, code: int = 0, capsys: pytest.CaptureFixture[str]) -> str:
    (folder / "in.cir").write_bytes(data)
    assert main(["inspect", str(folder / "in.cir"), *options]) == code
    return capsys.readouterr().out


def made(device: str, host: str = STUB) -> Container:
    return parsed(combined((f"module {{\n{host}}}\n", HOST), (f"module {{\n{device}}}\n", SM_80)))


def kernels(container: Container) -> object:
    return cir.describe(container)["modules"][1]["kernels"]  # type: ignore[index]


@pytest.mark.parametrize(
    "device",
    [
        "  cir.func private @k()\n",
        "  cir.func private @k() cc(ptx_kernel)\n",
        "  cir.func private @k(i1 {cir.x}) cc(ptx_kernel) attributes {cir.y = {}}\n  cir.func @f()" + BODY,
        "  cir.global external @k = 1 : i1\n",
        '  "cir.func"() <{sym_name = "k"}> ({\n  }) {calling_conv = 1 : ptx_kernel} : () -> ()\n',
    ],
)
def test_a_declaration_and_a_global_are_no_kernels(device: str) -> None:
    assert kernels(made(device)) == []


@pytest.mark.parametrize("device", ["  cir.func @k()" + BODY, "  cir.func @k() cc(ptx_kernel)" + BODY])
def test_a_function_with_a_body_is_the_kernel_that_is_launched(device: str) -> None:
    assert kernels(made(device)) == ["k"]


def test_a_declared_stub_launches_nothing() -> None:
    stub = STUB.replace(BODY.rstrip("\n"), "")
    host = cir.describe(made("  cir.func @k()" + BODY, stub))["modules"][0]  # type: ignore[index]
    assert host["stubs"] == []


def test_declarations_in_bytecode_are_no_kernels(tmp_path: Path) -> None:
    launch = f'"cir.func"() {GENERIC_BODY} {{sym_name = "s", cu.kernel_name = #cir.cu.kernel_name<"k">}} : () -> ()\n'
    kernel = f'"cir.func"() {GENERIC_BODY} {{sym_name = "k"}} : () -> ()\n'
    declared, variable = kernel.replace(GENERIC_BODY, "({\n})"), kernel.replace("func", "global")
    for device, names in ((declared, []), (variable, []), (kernel, ["k"])):
        text = combined((f"module {{\n{launch}}}\n", HOST), (f"module {{\n{device}}}\n", SM_80))
        (tmp_path / "in.mlir").write_bytes(text)
        options = ("--allow-unregistered-dialect", "--emit-bytecode", "-o", "out.mlirbc")
        reference.run("mlir-opt", "in.mlir", *options, cwd=tmp_path)
        assert kernels(parsed((tmp_path / "out.mlirbc").read_bytes())) == names


CONTAINER = (
    "module @host attributes {cir.offload.kind = #cir.offload<host>} {\n}\n"
    "module @d attributes {cir.offload.kind = #cir.offload<device>} {\n}\n}\n"
)
LONG = "x" * 200_000


@pytest.mark.parametrize(
    "text",
    [
        f'module attributes {{a.b = "{LONG}", cir.offload.container}} {{\n{CONTAINER}',
        f"// {LONG}\nmodule attributes {{cir.offload.container}} {{\n{CONTAINER}",
        "// x\n" * 40_000 + f"module attributes {{cir.offload.container}} {{\n{CONTAINER}",
        f'module attributes {{a.b = "{LONG}"}} {{\nmodule attributes {{cir.offload.container}} {{\n{CONTAINER}}}\n',
        f"module {{\n// {LONG}\ncir.offload.container {{\n{CONTAINER}}}\n",
        "module {\n"
        + "  cir.global @g = 1 : i1\n" * 9000
        + f"module attributes {{cir.offload.container}} {{\n{CONTAINER}}}\n",
        f'module attributes {{a.b = "{LONG}", cir.gpu.bundle = {{}}}} {{\n{CONTAINER}',
    ],
    ids=["attribute", "comment", "comments", "nested", "operation", "behind operations", "prototype"],
)
def test_a_marker_is_found_after_any_text(text: str) -> None:
    found = [item for item in fatpack.scan(text.encode()) if not isinstance(item, Finding)]
    assert [len(item.images) for item in found] == [2]


def test_a_container_is_found_inside_of_an_image() -> None:
    text = f"module attributes {{cir.offload.container}} {{\n{CONTAINER}".encode()
    view = BytesSource(text).view()
    image = Image(Target("x86_64-unknown-linux-gnu", offload="cuda"), "", view, len(view), len(view), view.span())
    packed = b"".join(map(bytes_of, offload_binary.write(Container(offload_binary.DOC.name, 1, (image,), Span(0, 0)))))
    (outer,) = (item for item in fatpack.scan(packed) if not isinstance(item, Finding))
    assert [inner.format for inner in outer.images[0].containers] == [cir.DOC.name]


@pytest.mark.parametrize(
    "place", ["// cir.offload.container\n", '  cir.x "cir.offload.container"\n', "  // cir.gpu.bundle\n"]
)
def test_words_of_a_container_in_comments_and_strings_make_none(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = place + "module {\n}\n" if place.startswith("//") else f"module {{\n{place}}}\n"
    shown = inspected(text.encode(), tmp_path, capsys=capsys)
    assert "cir, CIR text" in shown
    assert "no device code" not in shown


@pytest.mark.parametrize(
    "text",
    [
        'module attributes {a.b = "cir.offload.container"} {\n}\n',
        'module {\n  "a.b"() {cir.offload.container} : () -> ()\n}\n',
        'module {\n  "a.b"() ({\n    "cir.offload.container"() : () -> ()\n  }) : () -> ()\n}\n',
    ],
)
def test_words_of_a_container_in_bytecode_make_none(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.mlir").write_text(text)
    more = ("--allow-unregistered-dialect", "--emit-bytecode", "-o", "out.mlirbc")
    reference.run("mlir-opt", "in.mlir", *more, cwd=tmp_path)
    assert "bytecode" in inspected((tmp_path / "out.mlirbc").read_bytes(), tmp_path, capsys=capsys)


def test_a_module_alone_shows_its_name_its_target_and_its_kernels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (split,) = [b"".join(map(bytes_of, cir.split_image(image))) for image in made("  cir.func @k()" + BODY).images[1:]]
    kernel = split.replace(b"@k()", b"@k() cc(ptx_kernel)")
    shown = inspected(kernel, tmp_path, capsys=capsys)
    assert f"module @device_cuda_nvptx64_nvidia_cuda__sm_80, device, nvptx64-nvidia-cuda, sm_80, {SM_80}" in shown
    assert "1 kernel: k" in shown
    record = json.loads(inspected(kernel, tmp_path, "--json", capsys=capsys))["files"][0]["image"]
    assert (record["triple"], record["arch"], record["kernels"]) == ("nvptx64-nvidia-cuda", "sm_80", ["k"])
    assert record["stored"]["modules"][0]["id"] == SM_80


def bytes_of(piece: object) -> bytes:
    return piece if isinstance(piece, bytes) else piece.tobytes()  # type: ignore[attr-defined]


@pytest.mark.parametrize("before", ["", "!s32i = !cir.int<s, 32>\n", "// a\n", "#loc = loc(unknown)\n"])
def test_a_module_that_is_not_closed_is_an_error(
    before: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = inspected(f"{before}module {{\n  cir.func @f() {{\n}}\n".encode(), tmp_path, code=3, capsys=capsys)
    assert "FP1501" in shown


@pytest.mark.parametrize("text", ["#a = 1\n#b = {\n", '#name = "x\nmodule\n'])
def test_what_only_looks_like_mlir_is_not_called_damaged(text: str) -> None:
    assert list(fatpack.scan(text.encode())) == []


@pytest.mark.parametrize("options", [["--kernel", "^k$"], ["--kernel", "k"]])
def test_a_kernel_selects_the_modules_that_have_it(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = combined(
        (f"module {{\n{STUB}}}\n", HOST),
        (f"module {{\n  cir.func @k(){BODY}}}\n", SM_80),
        ("module {\n}\n", SM_80.replace("80", "90")),
    )
    (tmp_path / "in.cir").write_bytes(data)
    assert main(["extract", str(tmp_path / "in.cir"), "--dry-run", *options]) == 0
    shown = capsys.readouterr().out
    assert "sm_80" in shown
    assert "sm_90" not in shown
    assert main(["inspect", str(tmp_path / "in.cir"), "--by", "kernel"]) == 1  # sm_90 lacks the kernel
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines()[:2]] == ["kernel", "k"]


@pytest.mark.parametrize("code", ["\r\n", "\r"])
def test_the_end_of_the_last_line_of_a_body_stays(code: str) -> None:
    body = f"{code}  cir.x{code}"
    data = combined((f"module {{{body}}}\n", HOST), ("module {\n}\n", SM_80))
    written = f"{{{code}  cir.x\r\n  }}".encode()
    assert written in data
    assert written in b"".join(map(bytes_of, cir.split_image(parsed(data).images[0])))


@pytest.mark.parametrize(
    ("head", "target"),
    [
        ("gpu.module @offload_device_module_gfx90a", "gfx90a"),
        ('gpu.module @offload_device_module attributes {offload.target = "gfx942"}', "gfx942"),
        ('gpu.module @offload_device_module [#rocdl.target<chip = "gfx1100">]', "gfx1100"),
        ("cir.offload.module @offload_device_module_gfx906", "gfx906"),
    ],
)
@pytest.mark.parametrize("function", ["gpu.func @k(%arg0: f32) kernel", "gpu.func @k() kernel attributes {a}"])
def test_the_gpu_dialects_modules_of_a_host_are_listed(head: str, target: str, function: str) -> None:
    main = "  func.func @main() {\n    return\n  }\n"
    text = f"module {{\n{main}  {head} {{\n    {function} {{\n      gpu.return\n    }}\n  }}\n}}\n"
    (container,) = (item for item in fatpack.scan(text.encode()) if not isinstance(item, Finding))
    assert [image.target.arch for image in container.images] == [target]
    assert container.images[0].kernel_names == ("k",)
    assert not list(fatpack.scan(text.replace("offload_device_module", "kernels").replace("cir.offload", "x").encode()))
