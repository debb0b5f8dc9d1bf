"""The decision what an image is, and that it is cheap and never fails."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders.device_elf import device_elf

from fatpack import images
from fatpack.errors import FatpackError
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource

CUDA = Path(__file__).parent.parent / "fixtures" / "cuda"

#: first bytes → form, container
MAGICS = {
    b"": ("empty", ""),
    b"\x10\xff\x10\xad\x01\0\0\0": ("offload-binary", "llvm-offload-binary"),
    b"__CLANG_OFFLOAD_BUNDLE__\0\0": ("bundle", "clang-offload-bundle"),
    b"CCOB\x02\0\x01\0": ("bundle", "clang-offload-bundle"),
    b"IBYS\1\0\0\0": ("syclbin", "syclbin"),
    b"\n# __CLANG_OFFLOAD_BUNDLE____START__ host-x\n": ("bundle", "clang-offload-bundle"),
    b"\n// __CLANG_OFFLOAD_BUNDLE____START__ host-x\n": ("bundle", "clang-offload-bundle"),
    b"\n; __CLANG_OFFLOAD_BUNDLE____START__ host-x\n": ("bundle", "clang-offload-bundle"),
    b"\x50\xed\x55\xba\x01\0\x10\0": ("fatbin", "cuda-fatbin"),
    b"\xed\x43\x4e\x7f\x01": ("ltoir", ""),
    b"\x7fTileIR\0\x0d": ("tileir", ""),
    b"!<arch>\n": ("archive", ""),
    b"!<thin>\n//": ("archive", ""),
    b"BC\xc0\xde5\x14\0\0": ("bitcode", ""),
    b"\xde\xc0\x17\x0b\0\0\0\0": ("bitcode", ""),
    b"\x03\x02\x23\x07\0\0\1\0": ("spirv", ""),
    b"\x07\x23\x02\x03\0\1\0\0": ("spirv", ""),
    b"ML\xefR\x0d": ("cir", ""),
    b"module attributes {cir.offload.container} {\n}\n": ("cir", ""),
    b"// a comment\n.version 8.5\n.target sm_80\n": ("ptx", ""),
    b'\t.target\tsm_90\n\n\t.elftype\t@"ET_EXEC"\n\n//---- .text.k ----\n': ("assembly", ""),
    b'\t.headerflags\t@"EF_CUDA_TEXMODE_UNIFIED EF_CUDA_SM80 EF_CUDA_VIRTUAL_SM(EF_CUDA_SM80)"\n': ("assembly", ""),
    b"; ModuleID = 'k.hip'\n": ("llvm-ir", ""),
    b'\t.amdgcn_target "amdgcn-amd-amdhsa--gfx90a"\n': ("assembly", ""),
    b'# 1 "k.hip"\n': ("preprocessed", ""),
    b"\x28\xb5\x2f\xfd\x20": ("", ""),
    b"hello": ("", ""),
    bytes(4096): ("", ""),
    b"#!/bin/sh\nX=1\n": ("", ""),
    b"#include <a.h>\nint x = 1;\n": ("", ""),
    b"module physics\n  implicit none\n": ("", ""),
}


@pytest.mark.parametrize("start", MAGICS)
def test_a_magic_decides_what_the_image_is(start):
    recognised = images.identify_image(BytesSource(start).view())
    assert (recognised.form, recognised.container) == MAGICS[start]


@pytest.mark.parametrize("start", [magic for magic in MAGICS if magic])
def test_the_image_is_judged_from_its_own_first_byte_not_the_files(start):
    source = BytesSource(b"\x7fELF" + start)
    assert images.identify_image(source.view().slice(4, len(start))).form == MAGICS[start][0]


def test_every_form_that_is_recognised_has_an_extension():
    # AIR is bitcode, and its container says that it is AIR. Tables behind their first bytes tell the others.
    others = {"cubin", "code-object", "object", "aocx", "aocr", "air"}
    assert {form for form, _ in MAGICS.values()} | others == set(images.EXTENSIONS)


def test_forms_without_kernels_of_their_own_have_none():
    view = BytesSource(b"anything").view()
    assert images.kernels(view, "bitcode") == images.kernels(view, "") == images.kernels(view, "fatbin") == ()


class Counting(BytesSource):
    """A source that counts the bytes that were read."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.count = 0

    def read(self, offset: int, size: int) -> bytes:
        self.count += size
        return super().read(offset, size)


@pytest.mark.parametrize(
    ("data", "most"),
    [
        ((CUDA / "cubin" / "k1.cuda13.0.sm_90a.cubin").read_bytes() + bytes(1 << 20), 8 << 10),
        (device_elf(224, 0x3F, sections=[(1, bytes(1 << 20))]), 1 << 10),
        ((CUDA / "ptx" / "k1.compute_80.ptx").read_bytes() + b"// more\n" * 100_000, 4 << 10),
        (b"// comment\n" * 100_000, 80 << 10),
        (b"BC\xc0\xde" + bytes(1 << 20), 1 << 10),
        (b"\x03\x02\x23\x07" + b"\x11\0\2\0\0\0\0\0" * 100_000, 8 << 10),
        (bytes(1 << 20), 80 << 10),
    ],
    ids=["cubin", "code object", "ptx", "comments", "bitcode", "spirv", "zeros"],
)
def test_recognising_reads_a_bounded_part_of_the_image(data, most):
    source = Counting(data)
    images.identify_image(source.view())
    assert 0 < source.count <= most


def test_a_file_gives_the_same_answer_as_its_bytes():
    for path in sorted(CUDA.glob("*/*.*")):
        data = path.read_bytes()
        with open_source(path) as file:
            assert images.identify_image(file.view()) == images.identify_image(open_source(io.BytesIO(data)).view())


PREFIXES = [
    *MAGICS,
    *(device_elf(machine, 0x3F)[:64] for machine in (190, 224, 62)),
    device_elf(190, 0x5A04, osabi=0x41, abi_version=8, sections=[(7, bytes(32)), (0x70000086, bytes(32))]),
    device_elf(224, 0x3F, bits=32, order=">"),
    b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0",
    b"\x64\x86\x01\0",
    b"\xcf\xfa\xed\xfe",
    b".version 8.5 .target sm_90a .entry",
]


@given(st.sampled_from(PREFIXES), st.binary(max_size=300))
def test_identify_never_fails_and_kernels_raise_only_fatpack_errors(prefix, rest):
    view = BytesSource(prefix + rest).view()
    recognised = images.identify_image(view)
    assert recognised.form in images.EXTENSIONS
    for form in images.EXTENSIONS:
        try:
            assert all(isinstance(name, str) for name in images.kernels(view, form))
        except FatpackError as error:
            assert str(error)


@given(st.sampled_from(PREFIXES), st.integers(0, 63), st.binary(min_size=1, max_size=16))
def test_no_change_of_a_header_makes_recognising_fail(prefix, at, change):
    data = bytearray(prefix.ljust(256, b"\0"))
    data[at : at + len(change)] = change
    assert images.identify_image(BytesSource(bytes(data)).view()).form in images.EXTENSIONS
