"""GPU binaries in strings of host modules."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.reference import run

import fatpack
from fatpack.errors import FormatError
from fatpack.formats.cir.gpu_binary import EmbeddedBinary, find_binaries, text_binaries
from fatpack.formats.cir.modules.outline import Outliner
from fatpack.formats.cir.text.strings import escape_string
from fatpack.io.source import BytesSource

DATA = b"\x50\xed\x55\xba" + bytes(range(256)) + b'\\"}{//'


def binaries(text: bytes) -> list[tuple[str, bytes]]:
    outline = Outliner(BytesSource(text, "x").view()).outline()
    return [(item.holder, item.data.tobytes()) for item in text_binaries(outline)]


def test_the_attribute_of_a_module() -> None:
    text = b"module attributes {cir.cu.device_binary = %s : !cir.array<!u8i x %d>, a.b} {\n}\n" % (
        escape_string(DATA),
        len(DATA),
    )
    assert binaries(text) == [("cir.cu.device_binary", DATA)]


@pytest.mark.parametrize("symbol", ["__cuda_fatbin_str", "__hip_fatbin_str"])
@pytest.mark.parametrize("zeros", [0, 40])
def test_the_global_of_a_lowered_module(symbol: str, zeros: int) -> None:
    tail = ", trailing_zeros" if zeros else ""
    value = f"{escape_string(DATA).decode('latin-1')} : !cir.array<!cir.int<u, 8> x {len(DATA) + zeros}>{tail}"
    pretty = f'cir.global "private" constant internal @{symbol} = #cir.const_array<{value}> : !t section(".nv_fatbin")'
    generic = f'"cir.global"() <{{initial_value = #cir.const_array<{value}>, sym_name = "{symbol}"}}> : () -> ()'
    for line in (pretty, generic):
        text = f'module {{\n  cir.global @other = #cir.const_array<"x" : !t<1>> : !t\n  {line}\n  cir.func @f()\n}}\n'
        assert binaries(text.encode("latin-1")) == [(f"@{symbol}", DATA + bytes(zeros))]


def test_a_wrong_size_is_refused_when_the_bytes_are_read() -> None:
    text = b'module attributes {cir.cu.device_binary = "\\00\\01" : !cir.array<!u8i x 3>} {\n}\n'
    with pytest.raises(FormatError, match="inflated size differs"):
        binaries(text)


def test_a_size_that_the_text_cannot_hold_is_refused_at_once() -> None:
    text = b'module attributes {cir.cu.device_binary = "\\00" : !cir.array<!u8i x 999999999999>} {\n}\n'
    with pytest.raises(FormatError, match="999999999999 bytes in 3 bytes of text"):
        binaries(text)


def test_a_module_without_one_has_none() -> None:
    assert binaries(b'module attributes {cir.cu.device_binary} {\n  cir.global @x = "__cuda_fatbin_str"\n}\n') == []


@pytest.mark.parametrize(
    ("version", "opener", "closer"), [(0, "{", "}"), (4, "{", "}"), (6, "{", "}"), (6, "<{", "}>")]
)
def test_the_global_of_a_lowered_module_in_bytecode(version: int, opener: str, closer: str, tmp_path: Path) -> None:
    value = f"{escape_string(DATA).decode('latin-1')} : !cir.array<!cir.int<u, 8> x {len(DATA) + 9}>, trailing_zeros"
    attrs = f'{opener}initial_value = #cir.const_array<{value}>, sym_name = "__hip_fatbin_str"{closer}'
    path = tmp_path / "in.mlir"
    path.write_text(f'module {{\n  "cir.global"() {attrs} : () -> ()\n}}\n')
    options = ["--allow-unregistered-dialect", "--emit-bytecode", f"--emit-bytecode-version={version}"]
    run("mlir-opt", *options, path, "-o", tmp_path / "in.mlirbc")
    found = find_binaries(BytesSource((tmp_path / "in.mlirbc").read_bytes(), "x").view())
    assert [(item.holder, item.data.tobytes()) for item in found if isinstance(item, EmbeddedBinary)] == [
        ("@__hip_fatbin_str", DATA + bytes(9))
    ]


@pytest.mark.parametrize("version", [0, 4, 6])
def test_the_attribute_of_a_module_in_bytecode(version: int, tmp_path: Path) -> None:
    offload = b"\x10\xff\x10\xad" + bytes(60)
    literal = escape_string(offload).decode("latin-1")
    text = (
        f"module attributes {{cir.cu.device_binary = {literal} : !cir.array<!cir.int<u, 8> x {len(offload)}>}} {{\n}}\n"
    )
    path = tmp_path / "in.mlir"
    path.write_text(text)
    options = ["--allow-unregistered-dialect", "--emit-bytecode", f"--emit-bytecode-version={version}"]
    run("mlir-opt", *options, path, "-o", tmp_path / "in.mlirbc")
    data = (tmp_path / "in.mlirbc").read_bytes()
    found = [item for item in find_binaries(BytesSource(data, "x").view()) if isinstance(item, EmbeddedBinary)]
    assert [(item.holder, item.data.tobytes()) for item in found] == [("cir.cu.device_binary", offload)]
    assert data[found[0].span.start : found[0].span.end] == offload
    # The scan reads it, like that of the text.
    assert [item.code for item in fatpack.scan(data)] == [item.code for item in fatpack.scan(text.encode())] != []  # type: ignore[union-attr]
