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


ASSEMBLY = """
OpCapability Addresses
OpCapability Linkage
OpCapability Kernel
OpMemoryModel Physical64 OpenCL
OpEntryPoint Kernel %1 "nothing"
OpEntryPoint Kernel %2 "unreachable"
OpEntryPoint Kernel %3 "works"
%void = OpTypeVoid
%uint = OpTypeInt 32 0
%pointer = OpTypePointer CrossWorkgroup %uint
%type = OpTypeFunction %void %pointer
%three = OpConstant %uint 3
%1 = OpFunction %void None %type
%p1 = OpFunctionParameter %pointer
%b1 = OpLabel
OpReturn
OpFunctionEnd
%2 = OpFunction %void None %type
%p2 = OpFunctionParameter %pointer
%b2 = OpLabel
OpUnreachable
OpFunctionEnd
%3 = OpFunction %void None %type
%p3 = OpFunctionParameter %pointer
%b3 = OpLabel
OpStore %p3 %three Aligned 4
OpReturn
OpFunctionEnd
"""


@pytest.mark.reference
@pytest.mark.parametrize("is_big", [False, True])
def test_bodies_that_do_nothing(tmp_path, is_big):
    source, output = tmp_path / "k.spvasm", tmp_path / "k.spv"
    source.write_text(ASSEMBLY)
    run("spirv-as", "--target-env", "spv1.2", source, "-o", output)
    data = output.read_bytes()
    if is_big:
        data = b"".join(data[at : at + 4][::-1] for at in range(0, len(data), 4))
    found = images.facts(BytesSource(data).view(), "spirv").kernels
    assert [(kernel.name, kernel.body) for kernel in found] == [
        ("nothing", "returns"),
        ("unreachable", "unreachable"),
        ("works", None),
    ]
    for end in range(20, len(data), 4):  # cut anywhere: no word for what is not there, and no other error
        try:
            bodies = images.facts(BytesSource(data[:end]).view(), "spirv").kernels
        except BadValue:
            continue
        assert all(kernel.body in (None, "returns", "unreachable") for kernel in bodies)
        assert not any(kernel.body for kernel in bodies if kernel.name == "works")


@pytest.mark.reference
def test_an_empty_kernel_of_clang(tmp_path):
    source, output = tmp_path / "k.cl", tmp_path / "k.spv"
    source.write_text("kernel void first(global int *p) { }\nkernel void second(global int *p) { *p = 2; }\n")
    run(
        "clang", "--target=spirv64", "-O2", "-nogpulib", "-cl-std=CL2.0", "-x", "cl", "-c", source, "-o", output
    )  # fmt: skip
    with open_source(output) as file:
        found = images.facts(file.view(), "spirv").kernels
    assert [(kernel.name, kernel.body) for kernel in found] == [("first", "returns"), ("second", None)]
