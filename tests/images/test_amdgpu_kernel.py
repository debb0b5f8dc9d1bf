"""Resources of kernels of code objects: metadata of every version, their descriptors, and llvm-readelf agrees."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.images.test_amdgpu import NOT_IN_CLANG_22
from tests.reference import run

from fatpack import images
from fatpack.errors import BadValue, FormatError
from fatpack.images.kernel import KernelInfo, KernelNeeds
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource
from fatpack.targets.amdgpu_flags import PROCESSORS

NEEDS = Path(__file__).parents[1] / "fixtures" / "kernels"
OBJECTS = sorted([*NEEDS.glob("*.hsaco"), *NEEDS.glob("*.o")])
V6 = NEEDS / "needs.v6.gfx90a.hsaco"


def facts_of(data: bytes) -> KernelInfo:
    view = BytesSource(data).view()
    found = images.facts(view, "code-object")
    assert tuple(kernel.name for kernel in found.kernels) == images.kernels(view, "code-object")
    return found


def kernels(path: Path) -> dict[str, KernelNeeds]:
    return {kernel.name: kernel for kernel in facts_of(path.read_bytes()).kernels}


def test_metadata_of_version_6() -> None:
    found = kernels(V6)
    assert found["scratch"] == KernelNeeds(
        "scratch",
        registers=4,
        sgprs=16,
        agprs=0,
        vgpr_spills=0,
        sgpr_spills=0,
        shared=0,
        local=176,
        has_dynamic_stack=False,
        params=12,
        max_threads=1024,
        wavefront=64,
        size=144,
    )
    assert (found["lds"].shared, found["lds"].max_threads) == (400, 256)
    assert (found["recursion"].has_dynamic_stack, found["recursion"].local) == (True, 16)


def test_wavefronts_of_32_and_version_5() -> None:
    assert {kernel.wavefront for kernel in kernels(NEEDS / "needs.v5.gfx1100.hsaco").values()} == {32}


def test_metadata_of_version_3_and_the_yaml_of_version_2_say_the_same() -> None:
    old, new = kernels(NEEDS / "needs.v2.gfx900.o"), kernels(NEEDS / "needs.v3.gfx900.o")
    assert new["shared"] == KernelNeeds(
        "shared",
        registers=4,
        sgprs=10,
        vgpr_spills=0,
        sgpr_spills=0,
        shared=400,
        local=84,
        params=12,
        max_threads=64,
        required_threads=(8, 4, 2),
        wavefront=64,
        size=96,
    )
    unknown = {"size": None, "vgpr_spills": None, "sgpr_spills": None}
    assert old == {name: kernel.replace(**unknown) for name, kernel in new.items()}


def test_a_relocatable_object() -> None:
    (kernel,) = kernels(NEEDS / "exact.v5.gfx1030.o").values()
    assert (kernel.name, kernel.required_threads, kernel.max_threads, kernel.size) == ("exact", (8, 4, 2), 64, 92)


def test_compilers_and_linkers_are_named() -> None:
    linker, compiler = facts_of(V6.read_bytes()).made_by
    assert "LLD 22" in linker
    assert not linker.startswith("Linker")
    assert "clang version 22" in compiler


def test_what_compilers_write_is_of_one_mind() -> None:
    assert {facts_of(path.read_bytes()).contradictions for path in OBJECTS} == {()}


def test_without_metadata_the_descriptor_is_the_source() -> None:
    data = V6.read_bytes().replace(b"AMDGPU\0\0", b"AMDXXX\0\0")
    found = facts_of(data)
    (scratch,) = (kernel for kernel in found.kernels if kernel.name == "scratch")
    assert scratch == KernelNeeds("scratch", shared=0, local=176, params=12, wavefront=64, size=144)
    (recursion,) = (kernel for kernel in found.kernels if kernel.name == "recursion")
    assert recursion.has_dynamic_stack
    assert found.contradictions == ()


def test_a_header_for_another_processor_than_the_metadata() -> None:
    data = bytearray(V6.read_bytes())
    data[48] = 0x4C
    assert facts_of(bytes(data)).contradictions == (
        "its header says amdgcn-amd-amdhsa--gfx942, its metadata amdgcn-amd-amdhsa--gfx90a",
    )


def test_descriptors_that_differ_from_the_metadata() -> None:
    data = bytearray(V6.read_bytes())
    # the descriptor of scratch: no LDS, 176 bytes of scratch, 12 of arguments
    at = data.index(bytes((0, 0, 0, 0, 176, 0, 0, 0, 12, 0, 0, 0)))
    data[at + 4] = 180
    assert facts_of(bytes(data)).contradictions == (
        "kernel scratch needs 176 bytes of scratch by its metadata, 180 by its descriptor",
    )
    data[at + 4] = 176
    lds = data.index(bytes((0x90, 1, 0, 0, 0, 0, 0, 0, 12, 0, 0, 0)))
    data[at + 8] = data[lds + 8] = 16
    (text,) = facts_of(bytes(data)).contradictions
    assert text.endswith("(and 1 more like it) needs 12 bytes of arguments by its metadata, 16 by its descriptor")


def test_descriptors_of_old_compilers_do_not_say_how_many_arguments_there_are() -> None:
    data = bytearray(V6.read_bytes())
    at = data.index(bytes((0, 0, 0, 0, 176, 0, 0, 0, 12, 0, 0, 0)))
    data[at + 8] = 0  # reserved by LLVM 10 and older
    found = facts_of(bytes(data))
    assert found.contradictions == ()
    assert [kernel.params for kernel in found.kernels if kernel.name == "scratch"] == [12]


def test_kernels_that_only_one_of_symbols_and_metadata_name() -> None:
    data = V6.read_bytes()
    # "scratch.kd" in the metadata, a string of ten bytes
    assert data.count(b"\xaascratch.kd") == 1
    assert facts_of(data.replace(b"\xaascratch.kd", b"\xaascrabble!d")).contradictions == (
        "kernel scratch has a descriptor and no metadata",
        "kernel scrabble!d has metadata and no descriptor",
    )


def test_a_wrong_type_in_the_metadata_is_named_with_its_place() -> None:
    data = V6.read_bytes()
    at = data.index(b".vgpr_count") + len(b".vgpr_count")
    with pytest.raises(BadValue) as caught:
        facts_of(data[:at] + b"\xc0" + data[at + 1 :])
    assert (caught.value.offset, caught.value.expected, caught.value.found) == (at, "integer", "")
    assert (caught.value.format, caught.value.field) == ("messagepack", "metadata")


def test_a_wrong_number_in_the_yaml_is_named_with_its_line() -> None:
    data = (NEEDS / "needs.v2.gfx900.o").read_bytes()
    at = data.index(b"NumVGPRs:")
    broken = data[:at] + b"NumVGPRs:        x" + data[at + len(b"NumVGPRs:        x") :]
    with pytest.raises(BadValue) as caught:
        facts_of(broken)
    assert (caught.value.format, caught.value.found) == ("yaml", "x")
    assert caught.value.offset == at - 6


def test_a_descriptor_outside_its_section_is_named() -> None:
    data = bytearray(V6.read_bytes())
    with open_source(V6) as source:
        from fatpack.binary.elf.layout import DYNSYM
        from fatpack.binary.elf.symbols import ElfSymbolTable

        symbols = ElfSymbolTable(source.view(), (DYNSYM,))
        (index,) = (number for number, (at, *_) in enumerate(symbols) if symbols.name(at) == b"lds.kd")
        at = symbols._at + 24 * index
    data[at + 8 : at + 16] = (1 << 40).to_bytes(8, "little")
    with pytest.raises(FormatError) as caught:
        facts_of(bytes(data))
    assert caught.value.field == "descriptor of lds"


#: key of the metadata → field of Kernel
KEYS = {
    ".agpr_count": "agprs",
    ".group_segment_fixed_size": "shared",
    ".kernarg_segment_size": "params",
    ".max_flat_workgroup_size": "max_threads",
    ".private_segment_fixed_size": "local",
    ".sgpr_count": "sgprs",
    ".sgpr_spill_count": "sgpr_spills",
    ".uses_dynamic_stack": "has_dynamic_stack",
    ".vgpr_count": "registers",
    ".vgpr_spill_count": "vgpr_spills",
    ".wavefront_size": "wavefront",
    "GroupSegmentFixedSize": "shared",
    "KernargSegmentSize": "params",
    "MaxFlatWorkGroupSize": "max_threads",
    "NumSGPRs": "sgprs",
    "NumVGPRs": "registers",
    "PrivateSegmentFixedSize": "local",
    "WavefrontSize": "wavefront",
}


def listed(path: Path) -> dict[str, dict[str, object]]:
    """Return what llvm-readelf -n shows of each kernel, by the fields of Kernel."""
    shown = run("llvm-readelf", "-n", path).stdout.decode()
    found: dict[str, dict[str, object]] = {}
    # The text after the kernels is not indented.
    text = re.split(r"^\S", shown.partition("ernels:\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    for part in re.split(r"^  - ", text, flags=re.MULTILINE)[1:]:
        # A list of three numbers, in either of the two spellings of YAML.
        sizes = re.search(r"eqd_?[wW]ork_?[gG]roup_?[sS]ize: *\[? *\n?([\d\s,-]+)", part)
        name = re.search(r"^(?:    \.symbol: +(\S+)\.kd|Name: +(\S+))$", part, re.MULTILINE)
        assert name
        values: dict[str, object] = {
            KEYS[key]: {"true": True, "false": False}.get(value) if value.isalpha() else int(value)
            for key, value in re.findall(r"^ *(\S+): +(\w+)$", part, re.MULTILINE)
            if key in KEYS
        }
        values["required_threads"] = tuple(map(int, re.findall(r"\d+", sizes[1]))) if sizes else None
        found[name[1] or name[2]] = values
    return found


def compare(path: Path) -> int:
    """Compare our facts of a code object with what llvm-readelf shows; return for how many kernels."""
    want, found = listed(path), kernels(path)
    assert want.keys() == found.keys()
    for name, values in want.items():
        assert len(values) > 7
        assert {field: getattr(found[name], field) for field in values} == values, name
    assert facts_of(path.read_bytes()).contradictions == ()
    return len(found)


def sizes(path: Path) -> dict[str, int]:
    """Return the sizes of the functions that llvm-readelf lists."""
    rows = (row.split() for row in run("llvm-readelf", "-sW", path).stdout.decode().splitlines())
    return {row[-1]: int(row[2]) for row in rows if row[3:4] == ["FUNC"]}


@pytest.mark.reference
@pytest.mark.parametrize("path", OBJECTS, ids=lambda path: path.name)
def test_llvm_readelf_shows_the_same_facts(path: Path) -> None:
    assert compare(path)
    code = sizes(path)
    assert all(kernel.size == code.get(kernel.name) for kernel in kernels(path).values())


TARGETS = ["gfx803", "gfx906", "gfx90a", "gfx90a:sramecc+:xnack-", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1201"]
GENERIC = ["gfx9-generic", "gfx9-4-generic", "gfx10-3-generic", "gfx11-generic", "gfx12-generic"]


@pytest.mark.reference
@pytest.mark.parametrize(
    ("target", "version"),
    [
        *((target, "456"[number % 3]) for number, target in enumerate(TARGETS)),
        *(
            pytest.param(target, version, marks=pytest.mark.slow)
            for number, target in enumerate(TARGETS)
            for version in "456".replace("456"[number % 3], "")
        ),
        *((target, "6") for target in GENERIC),
    ],
)
@pytest.mark.parametrize("is_linked", [True, False], ids=["linked", "relocatable"])
def test_what_clang_compiles_has_the_facts_that_llvm_readelf_shows(
    target: str, version: str, is_linked: bool, tmp_path: Path
) -> None:
    output = tmp_path / "k.hsaco"
    options = ["-O1", f"-mcode-object-version={version}", f"--offload-arch={target}", "-nogpulib", "-nogpuinc"]
    source = NEEDS / "src" / "needs.hip"
    if is_linked:
        kind = ["--offload-device-only", "--no-gpu-bundle-output"]
        run("clang", "-x", "hip", *kind, *options, source, "-o", output)
    else:
        bitcode = tmp_path / "k.bc"
        kind = ["--offload-device-only", "--no-gpu-bundle-output", "-fgpu-rdc", "-emit-llvm", "-c"]
        run("clang", "-x", "hip", *kind, *options, source, "-o", bitcode)
        triple = ["--target=amdgcn-amd-amdhsa", f"-mcpu={target}", f"-mcode-object-version={version}"]
        run("clang", *triple, "-nogpulib", "-c", bitcode, "-o", output)
    assert compare(output) == 4


@pytest.mark.slow
@pytest.mark.reference
@pytest.mark.parametrize("processor", [name for name in PROCESSORS.values() if name not in NOT_IN_CLANG_22])
def test_every_processor_has_the_facts_that_llvm_readelf_shows(processor: str, tmp_path: Path) -> None:
    output = tmp_path / "k.hsaco"
    options = ["--target=amdgcn-amd-amdhsa", f"-mcpu={processor}", "-nogpulib"]
    run("clang", *options, NEEDS / "src" / "needs.cl", "-o", output)
    assert compare(output) == 1


@pytest.mark.parametrize("name", ["gfx942", "gfx1100"])
def test_the_triple_that_llvm_23_writes_into_the_metadata_is_no_other(name: str) -> None:
    data = (NEEDS.parent / "triton" / name / "sum_kernel.hsaco").read_bytes()
    assert b"amd-amdhsa-unknown-" in data
    assert facts_of(data).contradictions == ()
    other = data.replace(b"-unknown-gfx", b"-unknown-gfz")
    assert len(facts_of(other).contradictions) == 1
