"""Host modules that have lost the registration of their GPU binary, and modules that do not have it yet."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests import reference
from tests.builders.cir import HOST, SM_80, combined, parsed

import fatpack
from fatpack.model import Finding

STUB = (
    '  cir.func @_Z20__device_stub__kv() attributes {cu.kernel_name = #cir.cu.kernel_name<"_Z1kv">} {\n'
    "    cir.return\n  }\n"
)
BINARY = (
    '  cir.global "private" constant internal @__cuda_fatbin_str = #cir.const_array<"abcd" : !cir.array<!u8i x 4>> : '
    '!cir.array<!u8i x 4> section(".nv_fatbin")\n'
)
CONSTRUCTOR = "  cir.func internal private @__cuda_module_ctor() {\n    cir.return\n  }\n"
TABLE = CONSTRUCTOR.replace("module_ctor", "register_globals")

#: contents of the module → findings
MODULES = {
    STUB: "FP1514 one stub launches a kernel, and the module knows no GPU binary",
    BINARY: "FP1513 the GPU binary in @__cuda_fatbin_str is not registered: there is no @__cuda_module_ctor",
    CONSTRUCTOR: "FP1513 @__cuda_module_ctor has nothing to register: there is no @__cuda_fatbin_str",
    STUB
    + BINARY
    + CONSTRUCTOR: "FP1513 @__cuda_module_ctor registers no kernels: there is no @__cuda_register_globals",
    STUB + BINARY + CONSTRUCTOR + TABLE: "",
    BINARY + CONSTRUCTOR: "",
    '  cir.func @f() {a = "__cuda_module_ctor"}\n': "",
    "  cir.func @f()\n": "",
}


#: The same in the syntax that mlir-opt accepts.
GENERIC = {
    STUB: '"cir.func"() ({\n^bb0:\n}) {sym_name = "s", cu.kernel_name = #cir.cu.kernel_name<"_Z1kv">} : () -> ()\n',
    BINARY: '"cir.global"() {sym_name = "__cuda_fatbin_str", initial_value = #cir.const_array<"abcd" : '
    "!cir.array<!cir.int<u, 8> x 4>>} : () -> ()\n",
    CONSTRUCTOR: '"cir.func"() <{sym_name = "__cuda_module_ctor"}> ({\n^bb0:\n}) : () -> ()\n',
    TABLE: '"cir.func"() ({\n^bb0:\n}) {sym_name = "__cuda_register_globals"} : () -> ()\n',
}


def said(text: str | bytes) -> list[str]:
    data = text.encode() if isinstance(text, str) else text
    found = [item for item in fatpack.scan(data) if isinstance(item, Finding)]
    return [f"{item.code} {item.message}" for item in found]


@pytest.mark.parametrize("body", MODULES)
@pytest.mark.parametrize("model", ["cuda", "hip"])
def test_a_module_says_what_is_missing(body: str, model: str) -> None:
    messages = said(f"module {{\n{body}}}\n".replace("__cuda", f"__{model}"))
    expected = MODULES[body].replace("__cuda", f"__{model}")
    assert len(messages) == bool(expected)
    if expected:
        code, _, text = expected.partition(" ")
        assert messages[0].startswith(f"{code} line 1, column 1: {text}")


def bytecode(text: str, folder: Path) -> bytes:
    (folder / "in.mlir").write_text(text)
    options = ("--allow-unregistered-dialect", "--emit-bytecode", "-o", "out.mlirbc")
    reference.run("mlir-opt", "in.mlir", *options, cwd=folder)
    return (folder / "out.mlirbc").read_bytes()


@pytest.mark.parametrize("body", [body for body in MODULES if any(part in body for part in GENERIC)])
def test_a_module_in_bytecode_says_the_same(body: str, tmp_path: Path) -> None:
    lines = "".join(line for part, line in GENERIC.items() if part in body)
    told = [text for text in said(bytecode(f"module {{\n{lines}}}\n", tmp_path)) if "FP151" in text]
    assert len(told) == bool(MODULES[body])
    assert all(text.startswith(MODULES[body]) for text in told)


def test_what_cannot_be_read_in_bytecode_is_not_judged(tmp_path: Path) -> None:
    """A registered function may be the constructor."""
    text = f"module {{\n{GENERIC[BINARY]}func.func @f() {{\n  return\n}}\n}}\n"
    assert not [item for item in said(bytecode(text, tmp_path)) if "FP151" in item]


@pytest.mark.parametrize("attribute", ['cir.cu.binary_handle = #cir.cu.binary_handle<"a">', "cir.cu.device_binary"])
def test_a_module_that_knows_its_binary_waits_for_nothing(attribute: str) -> None:
    if "handle" not in attribute:
        attribute += ' = "CCOB" : !cir.array<!u8i x 4>'
    assert not [text for text in said(f"module attributes {{{attribute}}} {{\n{STUB}}}\n") if "FP151" in text]


def test_the_host_of_a_container_waits_by_nature_and_may_have_lost_its_registration(tmp_path: Path) -> None:
    for body, codes in ((STUB, []), (STUB + BINARY, ["FP1513"])):
        made = combined((f"module {{\n{body}}}\n", HOST), ("module {\n}\n", SM_80))
        assert [finding.code for finding in parsed(made).findings] == codes
        generic = "".join(line for part, line in GENERIC.items() if part in body)
        made = combined((f"module {{\n{generic}}}\n", HOST), ("module {\n}\n", SM_80))
        assert [finding.code for finding in parsed(bytecode(made.decode(), tmp_path)).findings] == codes


@pytest.mark.parametrize("head", ["module", "builtin.module"])
def test_damage_in_a_module_that_is_no_container_is_reported_with_its_offset(head: str) -> None:
    assert said(f"{head} {{\n") == [
        f"FP1501 line 2, column 1: the region opened at line 1, column {len(head) + 2} is not closed "
        "(expected '}', found the end of the file)"
    ]
