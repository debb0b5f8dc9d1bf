"""SPIR-V in both byte orders."""

from __future__ import annotations

import pytest
from tests.builders.spirv import GL_COMPUTE, KERNEL, module
from tests.reference import run

from fatpack import images
from fatpack.errors import BadMagic, BadValue
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource


def recognise(data: bytes) -> images.ImageInfo:
    return images.identify_image(BytesSource(data).view())


@pytest.mark.parametrize(("order", "detail"), [("<", "SPIR-V 1.4"), (">", "SPIR-V 1.4, big-endian")])
@pytest.mark.parametrize(("addressing", "triple"), [(1, "spirv32"), (2, "spirv64"), (0, "")])
def test_the_addressing_model_is_the_pointer_size_of_the_triple(order, detail, addressing, triple):
    recognised = recognise(module([], addressing, order))
    assert recognised == images.ImageInfo("spirv", triple=triple, detail=detail)


@pytest.mark.parametrize("order", ["<", ">"])
def test_kernels_are_the_entry_points_for_kernels(order):
    data = module([(KERNEL, "kern"), (GL_COMPUTE, "main"), (KERNEL, "_Z6second")], order=order)
    assert images.kernels(BytesSource(data).view(), "spirv") == ("kern", "_Z6second")


def test_a_module_that_ends_before_its_memory_model_claims_no_triple():
    assert recognise(module([])[:30]).triple == recognise(module([])[:4]).triple == ""


def test_an_entry_point_without_the_end_of_its_name_is_an_error():
    data = module([(KERNEL, "a_long_name_of_a_kernel")])
    with pytest.raises(BadValue, match="does not end"):
        images.kernels(BytesSource(data[:70]).view(), "spirv")


def test_kernels_of_what_is_no_spirv_are_an_error():
    with pytest.raises(BadMagic, match="no SPIR-V"):
        images.kernels(BytesSource(b"BC\xc0\xde").view(), "spirv")


@pytest.mark.reference
@pytest.mark.parametrize("triple", ["spirv64", "spirv32"])
def test_spirv_of_clang_comes_back_with_its_kernels(triple, tmp_path):
    source, output = tmp_path / "k.cl", tmp_path / "k.spv"
    source.write_text("kernel void first(global int *p) { *p = 1; }\nkernel void second(global int *p) { *p = 2; }\n")
    run("clang", f"--target={triple}", "-nogpulib", "-cl-std=CL2.0", "-x", "cl", "-c", source, "-o", output)
    with open_source(output) as file:
        recognised = images.identify_image(file.view())
        assert (recognised.form, recognised.triple) == ("spirv", triple)
        assert images.kernels(file.view(), "spirv") == ("first", "second")
