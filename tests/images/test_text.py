"""CIR and other MLIR, as text and as bytecode."""

from __future__ import annotations

import pytest

from fatpack import images
from fatpack.io.source import BytesSource


def recognise(data: bytes) -> images.ImageInfo:
    return images.identify_image(BytesSource(data).view())


@pytest.mark.parametrize(
    "text",
    [
        b"module {\n}\n",
        b"  // comment\n/* another */ module @host attributes {x} {\n}\n",
        b'"builtin.module"() ({\n}) : () -> ()\n',
        b"builtin.module @host {\n}\n",
        b"!s32i = !cir.int<s, 32>\nmodule {\n}\n",
        b'#loc6 = loc("saxpy.cu":5:28)\nmodule {\n}\n',
        b"#map = affine_map<(d0) -> (d0)>\nmodule {\n}\n",
        b"#fn = #cir<extra({})>\nmodule {\n}\n",
        b"{-# dialect_resources: {} #-}\n",
    ],
)
def test_mlir_starts_with_a_module_an_alias_or_metadata(text):
    recognised = recognise(text)
    assert (recognised.form, recognised.container) == ("cir", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            b'; ModuleID = \'k.hip\'\nsource_filename = "k.hip"\ntarget triple = "amdgcn-amd-amdhsa"\n',
            images.ImageInfo("llvm-ir", triple="amdgcn-amd-amdhsa", detail="LLVM IR text"),
        ),
        (b'source_filename = "-"\ntarget triple = "x\n', images.ImageInfo("llvm-ir", detail="LLVM IR text")),
        (
            b'\t.amdgcn_target "amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-"\n\t.text\n',
            images.ImageInfo("assembly", "gfx90a:sramecc+:xnack-", "amdgcn-amd-amdhsa", detail="assembly text"),
        ),
        (b'# 1 "k.hip"\n# 1 "<built-in>" 1\n', images.ImageInfo("preprocessed", detail="preprocessed source text")),
    ],
    ids=["module", "triple cut short", "assembly", "source"],
)
def test_what_clang_prints_begins_in_a_way_of_its_own(text, expected):
    assert recognise(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"modules {\n",
        b"module",
        b"# Title = x\n",
        b"#define A = 1\n",
        b"! = 1\n",
        b"#=1\n",
        b"#org.slf4j.simpleLogger.logFile=System.err\n",
        b'#name = "commented out"\n',
        b"#timeout=5\n",
    ],
)
def test_other_text_is_no_mlir(text):
    assert recognise(text).form == ""


@pytest.mark.parametrize(
    "text",
    [
        b"module attributes {cir.offload.container} {\n}\n",
        b"module {\n  cir.offload.container {\n  }\n}\n",
        b"module attributes {cir.gpu.bundle = {device = @device, host = @host}} {\n}\n",
        b"!s32i = !cir.int<s, 32>\n" * 200 + b"module attributes {cir.offload.container} {\n}\n",
    ],
    ids=["attribute", "operation", "prototype", "many aliases"],
)
def test_what_marks_a_container_says_that_it_is_cir(text):
    """Only the lexer can decide if it is a container."""
    assert recognise(text) == images.ImageInfo("cir", detail="CIR text")


def test_bytecode_keeps_its_strings_at_the_end():
    data = b"ML\xefR\x0dMLIR22\0" + bytes(100_000) + b"cir\0offload.container\0"
    assert recognise(data) == images.ImageInfo("cir", detail="CIR bytecode")
    assert recognise(b"ML\xefR\x0dMLIR22\0") == images.ImageInfo("cir", detail="MLIR bytecode")
