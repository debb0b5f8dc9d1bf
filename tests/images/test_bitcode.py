"""LLVM bitcode: its extent and the triple inside, from streams built bit by bit and from clang."""

from __future__ import annotations

import struct

import pytest
from tests.builders import bitcode
from tests.reference import run

from fatpack import images
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource


def recognise(data: bytes) -> images.ImageInfo:
    return images.identify_image(BytesSource(data).view())


def wrap(data: bytes, offset: int = 20) -> bytes:
    return struct.pack("<5I", 0x0B17C0DE, 0, offset, len(data), 7).ljust(offset, b"\0") + data


@pytest.mark.parametrize("before", [0, 1, 20])
def test_the_triple_is_read_out_of_the_module(before):
    data = bitcode.of_triple("nvptx64-nvidia-cuda", before)
    assert recognise(data) == images.ImageInfo(
        "bitcode", triple="nvptx64-nvidia-cuda", size=len(data), detail="LLVM bitcode"
    )


def test_padding_after_the_stream_is_not_part_of_it():
    data = bitcode.of_triple("amdgcn-amd-amdhsa")
    assert recognise(data + bytes(12)).size == len(data)


@pytest.mark.parametrize("offset", [20, 32])
def test_a_wrapper_says_where_the_stream_is(offset):
    data = bitcode.of_triple("arm64-apple-macos")
    recognised = recognise(wrap(data, offset) + bytes(8))
    assert (recognised.triple, recognised.size) == ("arm64-apple-macos", offset + len(data))
    assert recognised.detail == "LLVM bitcode in a wrapper"


@pytest.mark.parametrize("offset", [0, 8, 21, 1 << 31])
def test_a_wrapper_that_points_elsewhere_claims_no_triple(offset):
    data = bytearray(wrap(bitcode.of_triple("arm64-apple-macos")))
    struct.pack_into("<I", data, 8, offset)
    assert recognise(bytes(data)).triple == ""


def test_a_block_past_the_end_shows_that_the_file_was_cut():
    data = bitcode.of_triple("amdgcn-amd-amdhsa")
    assert (recognise(data[:-8]).size, recognise(data[:-8]).triple) == (len(data), "amdgcn-amd-amdhsa")


def test_a_triple_that_is_no_text_or_endless_is_no_claim():
    assert recognise(bitcode.of_triple("tri\nple")).triple == recognise(bitcode.of_triple("x" * 300)).triple == ""


def test_a_module_without_a_triple_near_its_start_claims_none():
    assert recognise(bitcode.of_triple("x86_64", before=100)).triple == ""


def test_a_file_of_very_many_blocks_has_no_known_size():
    assert recognise(bitcode.of_triple("x86_64", count=10)).size is not None
    assert recognise(bitcode.of_triple("x86_64", count=10_000)) == images.ImageInfo(
        "bitcode", triple="x86_64", detail="LLVM bitcode"
    )


@pytest.mark.reference
@pytest.mark.parametrize(
    "target", ["amdgcn-amd-amdhsa", "nvptx64-nvidia-cuda", "spirv64-amd-amdhsa", "x86_64-pc-linux-gnu"]
)
@pytest.mark.parametrize("options", [("-O0",), ("-O2", "-g"), ("-flto=thin",)], ids=str)
def test_bitcode_of_clang_has_the_triple_it_was_compiled_for(target, options, tmp_path):
    source, output = tmp_path / "a.c", tmp_path / "a.bc"
    functions = "".join(f"int f{index}(int x) {{ return x + {index}; }}\n" for index in range(200))
    source.write_text(functions)
    run("clang", f"--target={target}", "-nogpulib", *options, "-emit-llvm", "-c", source, "-o", output)
    with open_source(output) as file:
        recognised = images.identify_image(file.view())
    assert recognised == images.ImageInfo("bitcode", triple=target, size=output.stat().st_size, detail="LLVM bitcode")


@pytest.mark.reference
def test_bitcode_of_clang_for_darwin_is_found_in_its_wrapper(tmp_path):
    source, output = tmp_path / "a.ll", tmp_path / "a.bc"
    source.write_text('target triple = "arm64-apple-macosx11.0.0"\ndefine i32 @f() {\n  ret i32 1\n}\n')
    run("llvm-as", source, "-o", output)
    assert output.read_bytes().startswith(b"\xde\xc0\x17\x0b")
    with open_source(output) as file:
        recognised = images.identify_image(file.view())
    assert recognised.triple == "arm64-apple-macosx11.0.0"
    assert recognised.size is not None
    assert 0 <= output.stat().st_size - recognised.size < 16
