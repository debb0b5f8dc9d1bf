"""The symbols that decide whether a member of an archive is needed, as llvm-nm and llvm-readelf name them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.reference import run

from fatpack.binary.symbols import LinkSymbol, link_symbols
from fatpack.errors import FormatError, Unsupported
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource

SOURCE = """
extern int wanted(void); extern int perhaps(void) __attribute__((weak));
static int local(void) { return 1; }
__attribute__((visibility("hidden"))) int inner(void) { return wanted() + local(); }
__attribute__((visibility("default"))) int outer(void) { return perhaps ? perhaps() : 0; }
__attribute__((visibility("default"), weak)) int common(void) { return 2; }
"""
EXPECTED = {
    # name: defined, weak
    b"wanted": (False, False),
    b"perhaps": (False, True),
    b"inner": (True, False),
    b"outer": (True, False),
    b"common": (True, True),
}


def found(path: Path) -> dict[bytes, LinkSymbol]:
    with open_source(str(path)) as source:
        symbols = link_symbols(source.view())
        assert symbols is not None
        return {each.name: each for each in symbols}


@pytest.mark.parametrize("form", ["-c", "-emit-llvm"])
def test_what_a_file_defines_and_wants(tmp_path: Path, form: str) -> None:
    source, path = tmp_path / "x.c", tmp_path / "x.o"
    source.write_text(SOURCE)
    run("clang", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", "-O1", form, "-c", source, "-o", path)
    symbols = found(path)
    for name, facts in EXPECTED.items():
        assert (symbols[name].is_defined, symbols[name].is_weak) == facts, name
    assert [name for name in EXPECTED if symbols[name].is_visible and symbols[name].is_defined] == [b"outer", b"common"]
    assert b"local" not in symbols
    listed = {line.split()[-1] for line in run("llvm-nm", "--extern-only", path).stdout.splitlines()}
    assert symbols.keys() == listed


def test_linked_code_and_other_files_resolve_nothing(tmp_path: Path) -> None:
    source, path = tmp_path / "x.c", tmp_path / "x.so"
    source.write_text("int f(void) { return 1; }")
    run("clang", "--target=amdgcn-amd-amdhsa", "-mcpu=gfx90a", "-nogpulib", source, "-o", path)
    assert re.search(rb"DYN", run("llvm-readelf", "-h", path).stdout)
    for data in (path.read_bytes(), b"", b".version 8.0", b"\x03\x02\x23\x07"):
        assert link_symbols(BytesSource(data, "x").view()) is None


def test_bitcode_without_a_table_is_not_supported_and_a_cut_object_is_damaged(tmp_path: Path) -> None:
    source, path = tmp_path / "x.ll", tmp_path / "x.bc"
    source.write_text('target triple = "amdgcn-amd-amdhsa"\nmodule asm "s_nop 0"\ndefine void @f() { ret void }\n')
    run("llvm-as", source, "-o", path)
    with pytest.raises(Unsupported, match="without LLVM's table of symbols"):
        found(path)
    run(
        "clang",
        "--target=amdgcn-amd-amdhsa",
        "-mcpu=gfx90a",
        "-nogpulib",
        "-x",
        "ir",
        "-c",
        source,
        "-o",
        tmp_path / "x.o",
    )
    cut = (tmp_path / "x.o").read_bytes()[:-100]
    with pytest.raises(FormatError):
        list(link_symbols(BytesSource(cut, "x.o").view()) or ())
