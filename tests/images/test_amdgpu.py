"""Code objects: processors, target features and kernels, and that clang and llvm-readelf agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.builders.device_elf import DYNSYM, device_elf
from tests.reference import run

from fatpack import images
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource
from fatpack.targets.amdgpu_flags import PROCESSORS

HSA = 64
V3, V4, V5, V6 = 1, 2, 3, 4


def recognise(flags: int, abi_version: int = V4, osabi: int = HSA, **options) -> images.ImageInfo:
    data = device_elf(224, flags, osabi=osabi, abi_version=abi_version, file_type=3, **options)
    return images.identify_image(BytesSource(data).view())


@pytest.mark.parametrize("number", PROCESSORS)
def test_every_processor_number_gives_its_name(number):
    assert recognise(number).arch == PROCESSORS[number]


def test_no_two_numbers_have_one_name():
    assert len(set(PROCESSORS.values())) == len(PROCESSORS)


@pytest.mark.parametrize(
    ("flags", "abi_version", "arch"),
    [
        (0x53F, V4, "gfx90a"),
        (0xF3F, V4, "gfx90a:sramecc+:xnack+"),
        (0xB3F, V5, "gfx90a:sramecc-:xnack+"),
        (0xE3F, V6, "gfx90a:sramecc+:xnack-"),
        (0x63F, V6, "gfx90a:xnack-"),
        (0x93F, V6, "gfx90a:sramecc-"),
        (0x036, V6, "gfx1030"),
        (0x01000151, V6, "gfx9-generic"),
        (0x01000351, V6, "gfx9-generic:xnack+"),
        (0x33F, V3, "gfx90a:sramecc+:xnack+"),
        (0x13F, V3, "gfx90a:xnack+"),
        (0x03F, V3, "gfx90a"),
    ],
)
def test_target_features_follow_the_processor_in_alphabetical_order(flags, abi_version, arch):
    recognised = recognise(flags, abi_version)
    assert recognised.arch == arch
    assert recognised.triple == "amdgcn-amd-amdhsa"
    assert recognised.detail == f"ELF64 shared object, code object v{abi_version + 2}"


def test_other_systems_count_features_as_version_3_does():
    assert (recognise(0x13F, 0, 65).arch, recognise(0x13F, 0, 65).triple) == ("gfx90a:xnack+", "amdgcn-amd-amdpal")
    assert recognise(0x13F, 0, 66).triple == "amdgcn-mesa-mesa3d"
    assert recognise(0x13F, 0, 0).triple == "amdgcn"


def test_code_object_version_2_claims_no_processor():
    recognised = recognise(0x3, 0)
    assert (recognised.form, recognised.arch) == ("code-object", "")
    assert recognised.detail == "ELF64 shared object, code object v2"


def test_an_unknown_processor_is_reported_by_its_number():
    recognised = recognise(0xF7E, V6)
    assert recognised.arch == ""
    assert recognised.detail == "ELF64 shared object, code object v6, processor number 0x7e"


def kernels(symbols: list[tuple[bytes, int, int, int]], table: int = DYNSYM) -> tuple[str, ...]:
    data = device_elf(224, 0x3F, osabi=HSA, abi_version=V4, symbols=symbols, symbol_table=table)
    return images.kernels(BytesSource(data).view(), "code-object")


@pytest.mark.parametrize("table", [DYNSYM, 2])
def test_kernels_are_the_defined_descriptors(table):
    symbols = [
        (b"first", 0x12, 0, 1),
        (b"first.kd", 0x11, 0, 2),
        (b"global_variable", 0x11, 0, 2),
        (b"function.kd", 0x12, 0, 1),
        (b"elsewhere.kd", 0x11, 0, 0),
        (b"second.kd", 0x01, 0, 2),
    ]
    assert kernels(symbols, table) == ("first", "second")


def test_kernels_of_version_2_have_a_symbol_type_of_their_own():
    assert kernels([(b"old", 0x1A, 0, 1)]) == ("old",)


#: processors of older and newer versions
NOT_IN_CLANG_22 = {
    "gfx940",
    "gfx941",
    "gfx1154",
    "gfx1170",
    "gfx1171",
    "gfx1172",
    "gfx1310",
    "gfx11-7-generic",
    "gfx12-5-generic",
    "gfx13-generic",
    "gfx1250-strict",
}

SOURCE = "kernel void first(global int *p) { *p = 1; }\nkernel void second(global int *p) { *p = 2; }\n"

#: what llvm-readelf -h prints for a feature → sign in a target ID
SIGNS = {"xnack": "", "xnack+": "+", "xnack-": "-", "sramecc": "", "sramecc+": "+", "sramecc-": "-"}


def compile_for(target_id: str, folder: Path, *options: str) -> Path:
    """Compile two kernels for a target ID and return the linked code object."""
    source = folder / "k.cl"
    source.write_text(SOURCE)
    output = folder / "k.hsaco"
    run(
        "clang",
        "--target=amdgcn-amd-amdhsa",
        f"-mcpu={target_id}",
        "-nogpulib",
        *options,
        "-x",
        "cl",
        source,
        "-o",
        output,
    )
    return output


@pytest.mark.reference
def test_every_processor_that_clang_knows_is_in_the_table():
    listed = run("clang", "--target=amdgcn-amd-amdhsa", "--print-supported-cpus").stderr.decode()
    names = set(re.findall(r"^\t(gfx\S+)$", listed, re.MULTILINE))
    assert len(names) > 50
    assert names == set(PROCESSORS.values()) - NOT_IN_CLANG_22


#: processor, version of the code object: the versions in turn, the other two in the sweep
COMPILED = [
    (name, str(6 - (number % 3 if "generic" not in name else 0)))
    for number, name in enumerate(name for name in PROCESSORS.values() if name not in NOT_IN_CLANG_22)
]


def comes_back(processor, version, tmp_path):
    output = compile_for(processor, tmp_path, f"-mcode-object-version={version}")
    with open_source(output) as file:
        recognised = images.identify_image(file.view())
        assert images.kernels(file.view(), recognised.form) == ("first", "second")
    assert (recognised.form, recognised.arch) == ("code-object", processor)
    assert recognised.size == output.stat().st_size
    assert recognised.detail.endswith(f"code object v{version}")


@pytest.mark.sweep(4)
@pytest.mark.reference
@pytest.mark.parametrize(("processor", "version"), COMPILED)
def test_what_clang_compiles_for_a_processor_comes_back(processor, version, tmp_path):
    comes_back(processor, version, tmp_path)


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize(("processor", "version"), [pair for pair in COMPILED if "generic" not in pair[0]])
def test_other_versions_for_a_processor_come_back(processor, version, tmp_path):
    for other in {"4", "5", "6"} - {version}:
        comes_back(processor, other, tmp_path)


@pytest.mark.reference
@pytest.mark.parametrize(
    "processor",
    [
        "gfx90a",
        "gfx9-4-generic",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("gfx906", "gfx908", "gfx942", "gfx950")),
    ],
)
@pytest.mark.parametrize("sramecc", ["", "+", "-"])
@pytest.mark.parametrize("xnack", ["", "+", "-"])
def test_target_features_come_back_as_llvm_readelf_shows_them(processor, sramecc, xnack, tmp_path):
    target_id = processor + (f":sramecc{sramecc}" if sramecc else "") + (f":xnack{xnack}" if xnack else "")
    output = compile_for(target_id, tmp_path, "-mcode-object-version=6")
    with open_source(output) as file:
        assert images.identify_image(file.view()).arch == target_id
    shown = run("llvm-readelf", "-h", output).stdout.decode()
    flags = next(line for line in shown.splitlines() if "Flags:" in line).split(", ")
    assert flags[1] == processor
    assert SIGNS[next(flag for flag in flags if flag.startswith("xnack"))] == xnack
    assert SIGNS[next(flag for flag in flags if flag.startswith("sramecc"))] == sramecc


@pytest.mark.reference
@pytest.mark.parametrize("options", [("-c",), (), ("-c", "-g"), ("-Wl,--strip-all",)], ids=str)
def test_llvm_readelf_shows_the_same_kernels(options, tmp_path):
    output = compile_for("gfx90a", tmp_path, *options)
    shown = run("llvm-readelf", "-sW", output).stdout.decode().split()
    with open_source(output) as file:
        found = images.kernels(file.view(), "code-object")
    assert found == tuple(dict.fromkeys(word.removesuffix(".kd") for word in shown if word.endswith(".kd")))
    assert found == ("first", "second")
