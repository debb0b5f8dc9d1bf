"""Cubins of every ABI: the facts are in the names of the files, and cuobjdump confirms them."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from tests.builders.device_elf import NOTE, device_elf
from tests.reference import run

from fatpack import images
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource

CUBINS = sorted((Path(__file__).parents[1] / "fixtures" / "cuda" / "cubin").glob("*.cubin"))
PTX = Path(__file__).parents[1] / "fixtures" / "cuda" / "ptx"

#: source → kernels, as cuobjdump -symbols lists them for the cubins of that source
KERNELS = {
    "k1": ("_Z5scaleIdEvPT_S0_i", "_Z5scaleIfEvPT_S0_i", "add_one"),
    "dev": ("__nv_static_27__45e4baff_6_dev_cu_bfad4959__Z6stat_kPi", "_Z2lbPi"),
    "tiny": ("store7", "bump"),
}

COMPAT = 0x70000086


def facts(path: Path) -> tuple[str, str, str]:
    """Return source, toolkit and SM of a fixture from its name."""
    match = re.fullmatch(r"(\w+)\.cuda([\d.]+?)(?:\.rdc)?\.(sm_\w+)\.cubin", path.name)
    assert match
    return match[1], match[2], match[3]


def cubin(flags: int, **options) -> images.ImageInfo:
    return images.identify_image(BytesSource(device_elf(190, flags, **options)).view())


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_a_cubin_says_what_it_was_compiled_for(path):
    source, toolkit, arch = facts(path)
    with open_source(path) as file:
        recognised = images.identify_image(file.view())
        assert images.kernels(file.view(), "cubin") == KERNELS[source]
    assert recognised.form == "cubin"
    assert recognised.arch == arch
    assert recognised.triple == "nvptx64-nvidia-cuda"
    assert recognised.size == path.stat().st_size
    assert ("relocatable" in recognised.detail) == (".rdc." in path.name)
    # The notes of 12.9's new ABI do not tell the toolkit in a way we know.
    assert (f"CUDA {toolkit}," in recognised.detail) != (path.name == "tiny.cuda12.9.sm_100a.cubin")


@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_padding_after_a_cubin_is_not_part_of_it(path):
    data = path.read_bytes()
    assert images.identify_image(BytesSource(data + bytes(8)).view()).size == len(data)


@pytest.mark.parametrize("kind", [0x70000007, 0x70000009, 0x7000000A, 0x70000015])
def test_memory_of_a_relocatable_cubin_takes_no_bytes_of_it(kind):
    sections = [(1, b"code"), (kind, bytes(1 << 16))]
    data = device_elf(190, sections=sections, without_bytes=(kind,))
    assert images.identify_image(BytesSource(data + bytes(8)).view()).size == len(data) < 1 << 16
    other = device_elf(224, sections=sections, without_bytes=(kind,))
    assert images.identify_image(BytesSource(other).view()).size > 1 << 16


def test_the_old_abi_has_the_sm_in_the_low_byte_and_a_in_a_flag():
    assert cubin(0x340556, osabi=0x33, abi_version=7).arch == "sm_86"
    assert cubin(0x340D5A, osabi=0x33, abi_version=7).arch == "sm_90a"


def test_cuda_8_had_another_use_for_the_flag_of_the_variant():
    claims = cubin(0x3C0D3C, osabi=0x33, abi_version=7, version=80)
    assert claims.arch == "sm_60"


def test_the_new_abi_has_sixteen_bits_for_the_sm():
    assert cubin(0x6006704, osabi=0x41, abi_version=8).arch == "sm_103"
    assert cubin(0x7804, osabi=0x41, abi_version=8).arch == "sm_120"
    assert cubin(0x640A, osabi=0x41, abi_version=8).arch == "sm_100a"


@pytest.mark.parametrize(
    ("records", "arch"),
    [
        (b"\x02\x09\x01\x00", "sm_90a"),
        (b"\x02\x09\x00\x00", "sm_90"),
        (b"\x04\x0b\x08\x00\x09\x09\x01\x01\x02\x09\x01\x01\x02\x09\x01\x00", "sm_90a"),
        (b"\x04\x0b\xff\xff\x02\x09\x01\x00", "sm_90"),
        (b"\x02\x02\x01\x00\x02\x09", "sm_90"),
        (b"", "sm_90"),
    ],
    ids=["set", "clear", "behind a long record", "inside a long record", "cut short", "empty"],
)
def test_the_new_abi_of_cuda_13_has_a_in_the_compat_section(records, arch):
    assert cubin(0x5A04, osabi=0x41, abi_version=8, sections=[(COMPAT, records)]).arch == arch


def test_the_toolkit_is_in_the_note_of_cuda_13():
    note = struct.pack("<III", 12, 8, 1000) + b"NVIDIA Corp\0" + struct.pack("<HHI", 2, 90, 132)
    recognised = cubin(0x5A04, osabi=0x41, abi_version=8, sections=[(NOTE, note)])
    assert recognised.detail == "ELF64 executable, CUDA 13.2, ABI 8"


def test_a_cubin_without_an_sm_claims_none():
    assert cubin(0, osabi=0x33).arch == cubin(0, osabi=0x41).arch == ""


def test_a_cubin_of_32_bits_is_for_the_32_bit_triple():
    assert cubin(0x114, bits=32, osabi=0x33, abi_version=7).triple == "nvptx-nvidia-cuda"


def test_only_defined_functions_with_the_entry_bit_are_kernels():
    data = device_elf(
        190,
        0x50,
        osabi=0x33,
        symbols=[
            (b"kernel", 0x12, 0x10, 5),
            (b"local_kernel", 0x02, 0x10, 6),
            (b"device_function", 0x12, 0, 5),
            (b"undefined", 0x12, 0x10, 0),
            (b"variable", 0x11, 0x10, 5),
        ],
    )
    assert images.kernels(BytesSource(data).view(), "cubin") == ("kernel", "local_kernel")


def entries(listing: bytes) -> list[str]:
    """Return the kernels in the output of cuobjdump -symbols."""
    rows = (line.split() for line in listing.decode().splitlines())
    return [row[-1] for row in rows if row[:1] == ["FUNC"] and "ENTRY" in row]


@pytest.mark.reference
@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_cuobjdump_names_the_same_kernels(path):
    with open_source(path) as file:
        found = images.kernels(file.view(), "cubin")
    assert sorted(found) == sorted(entries(run("cuobjdump", "-symbols", path).stdout))


@pytest.mark.reference
@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_cuobjdump_names_the_same_arch(path):
    with open_source(path) as file:
        arch = images.identify_image(file.view()).arch
    # cuobjdump does not tell a family from the plain architecture.
    listed = run("cuobjdump", "-lelf", path).stdout.decode().strip()
    assert listed.endswith(f".{arch.removesuffix('f')}.cubin")


@pytest.mark.reference
@pytest.mark.parametrize(
    "arch",
    [
        "sm_75",
        "sm_80",
        "sm_87",
        "sm_88",
        "sm_89",
        "sm_90",
        "sm_90a",
        "sm_100",
        "sm_100a",
        "sm_103a",
        "sm_110",
        "sm_120f",
    ],
)
@pytest.mark.parametrize("option", ["-O3", "-c", "-g"])
def test_what_ptxas_compiles_comes_back(arch, option, tmp_path):
    source = tmp_path / "k.ptx"
    text = (PTX / "k1.compute_80.ptx").read_text()
    # variables that take no bytes of the file: relocatable cubins have sections of CUDA's own types for them
    memory = ".visible .global .b8 large[100000];\n.visible .shared .b8 common[30000];\n"
    head, size, rest = text.replace(".target sm_80", f".target {arch}").partition(".address_size 64\n")
    source.write_text(head + size + memory + rest)
    output = tmp_path / "k.cubin"
    run("ptxas", f"-arch={arch}", *([option] if option != "-g" else ["-g", "-O0"]), source, "-o", output)
    with open_source(output) as file:
        recognised = images.identify_image(file.view())
        found = images.kernels(file.view(), recognised.form)
    assert (recognised.form, recognised.arch) == ("cubin", arch)
    assert recognised.size == output.stat().st_size
    assert ("relocatable" in recognised.detail) == (option == "-c")
    assert sorted(found) == sorted(KERNELS["k1"])
    version = re.search(r"release ([\d.]+)", run("ptxas", "--version").stdout.decode())
    assert version
    assert f"CUDA {version[1]}," in recognised.detail
