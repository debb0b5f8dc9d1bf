"""Modules that refer to the symbols that objects note of their device code."""

from __future__ import annotations

import subprocess

import pytest
from tests.builders.coff import Section, build
from tests.reference import tool

from fatpack.errors import FatpackError, HostError, Unsupported
from fatpack.formats.clang_bundle import fat_object
from fatpack.io.open import open_source
from fatpack.tools.intel.clang_offload_deps import read_target_symbols, reference_module

NOTES = b"sycl-spir64.bar\0sycl-spir64.foo\0openmp-x86_64.foo\0sycl-spir64.bar\0sycl-spir64.\0sycl-spir64-x.no\0s\xff"


def _noted(data: bytes, *ids: str) -> dict[str, list[bytes]]:
    return read_target_symbols(open_source(data, name="host.obj").view(), ids)


def test_symbols_of_each_target_once_and_in_stored_order() -> None:
    data = build([Section(b".tgtsym", NOTES), Section(b".text", b"code")])
    assert _noted(data, "sycl-spir64", "openmp-x86_64", "hip-amdgcn") == {
        "sycl-spir64": [b"bar", b"foo"],
        "openmp-x86_64": [b"foo"],
        "hip-amdgcn": [],
    }
    assert _noted(build([Section(b".text", b"code")]), "sycl-spir64") == {"sycl-spir64": []}


@pytest.mark.parametrize("data", [b"", b"text", b"!<arch>\n", b"BC\xc0\xde" + bytes(8)])
def test_what_is_no_object_is_refused(data: bytes) -> None:
    with pytest.raises(Unsupported, match="not recognized as a valid object file"):
        _noted(data, "sycl-spir64")


def test_a_damaged_object_is_refused() -> None:
    data = build([Section(b".tgtsym", NOTES)])
    with pytest.raises(FatpackError):
        _noted(data[:-20], "sycl-spir64")


def test_a_section_out_of_all_proportion_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fat_object, "_LARGEST", 5)
    with pytest.raises(HostError, match="no more than 5 are read"):
        _noted(build([Section(b".tgtsym", NOTES)]), "sycl-spir64")


def test_variables_of_llvm_cannot_be_referred_to() -> None:
    with pytest.raises(Unsupported, match=r"llvm\.used is LLVM's own"):
        reference_module("spir64", [b"foo", b"llvm.used"], is_linked_as_ir=True)


@pytest.mark.reference
@pytest.mark.parametrize("is_linked_as_ir", [True, False])
@pytest.mark.parametrize("symbols", [[], [b"foo"], [b"_Z1fv", b'a "b\\\xff', b"offload.symbols", b"1"]])
def test_llvm_sees_the_undefined_references(symbols: list[bytes], is_linked_as_ir: bool) -> None:
    text = reference_module("x86_64-pc-linux-gnu", symbols, is_linked_as_ir=is_linked_as_ir)
    bitcode = subprocess.run([tool("llvm-as"), "-o", "-"], input=text, capture_output=True, check=True).stdout
    data = bitcode
    if not is_linked_as_ir:
        code = [tool("llc"), "-filetype=obj", "-o", "-"]
        data = subprocess.run(code, input=bitcode, capture_output=True, check=True).stdout
    listed = subprocess.run([tool("llvm-nm"), "-u", "-j", "-"], input=data, capture_output=True, check=True).stdout
    if is_linked_as_ir and symbols:
        printed = subprocess.run([tool("llvm-dis"), "-o", "-"], input=data, capture_output=True, check=True).stdout
        assert b"@llvm.used = appending global" in printed
    assert sorted(listed.splitlines()) == sorted(symbols)
