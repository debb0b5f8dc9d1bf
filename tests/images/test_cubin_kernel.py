"""Resources of kernels of cubins: the numbers of the source, and cuobjdump and ptxas agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.builders.device_elf import device_elf
from tests.reference import run

from fatpack import images
from fatpack.images.kernel import KernelInfo, KernelNeeds
from fatpack.io.open import open_source
from fatpack.io.source import BytesSource

FIXTURES = Path(__file__).parents[1] / "fixtures"
NEEDS = FIXTURES / "kernels"
CUBINS = sorted([*(FIXTURES / "cuda" / "cubin").glob("*.cubin"), *NEEDS.glob("*.cubin")])


def facts(path: Path) -> KernelInfo:
    with open_source(path) as source:
        found = images.facts(source.view(), "cubin")
        assert tuple(kernel.name for kernel in found.kernels) == images.kernels(source.view(), "cubin")
    return found


def kernels(path: Path) -> dict[str, KernelNeeds]:
    return {kernel.name: kernel for kernel in facts(path).kernels}


def test_kernels_of_the_old_abi() -> None:
    found = facts(FIXTURES / "cuda" / "cubin" / "tiny.cuda11.2.sm_52.cubin")
    common = {"local": 0, "has_dynamic_stack": False, "barriers": 0}
    assert found == KernelInfo(
        (
            KernelNeeds("store7", 8, shared=256, params=12, constants=((0, 332),), max_threads=128, size=256, **common),
            KernelNeeds("bump", 4, shared=0, params=8, constants=((0, 328),), size=128, **common),
        )
    )


def test_kernels_of_the_new_abi() -> None:
    found = kernels(NEEDS / "needs.cuda13.0.sm_75.cubin")
    assert found["bounds"] == KernelNeeds(
        "bounds",
        registers=5,
        shared=256,
        local=0,
        has_dynamic_stack=False,
        params=36,
        constants=((0, 388),),
        max_threads=64,
        required_threads=(8, 4, 2),
        barriers=1,
        size=256,
    )
    assert (found["waits"].max_threads, found["waits"].required_threads, found["waits"].barriers) == (128, None, 5)
    assert (found["waits"].params, found["stack"].params) == (0, 8)
    assert found["stack"].local == 160


def test_a_relocatable_cubin_does_not_know_the_stack() -> None:
    found = kernels(NEEDS / "needs.cuda13.0.rdc.sm_90.cubin")
    assert {(kernel.local, kernel.has_dynamic_stack) for kernel in found.values()} == {(None, None)}
    assert found["bounds"].shared == 256


def test_a_linked_cubin_knows_it_unless_there_is_recursion() -> None:
    found = kernels(NEEDS / "needs.cuda13.0.linked.sm_90.cubin")
    assert (found["stack"].local, found["stack"].has_dynamic_stack) == (160, False)
    assert (found["recursion"].local, found["recursion"].has_dynamic_stack) == (None, True)
    assert (found["cluster"].cluster, found["cluster"].max_threads) == ((2, 2, 1), 256)
    # Since sm_90 the system takes 1 kB of the shared memory of a kernel that has some.
    assert found["bounds"].shared == 1024 + 256


def test_the_tools_print_what_they_were_told() -> None:
    first, second = facts(NEEDS / "needs.cuda13.0.linked.sm_90.cubin").made_by
    assert re.fullmatch(r"nvlink -arch sm_90 \(Cuda compilation tools, release 13\.0, V13\.0\.\d+, Build \S+\)", first)
    assert second.startswith("ptxas -arch sm_90 -c (")
    (only,) = facts(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_100f.cubin").made_by
    assert "-arch sm_100f " in only
    assert facts(FIXTURES / "cuda" / "cubin" / "tiny.cuda11.8.sm_80.cubin").made_by == ()


def with_registers(more: int) -> tuple[str, images.KernelInfo]:
    """Return the name of a kernel, and the facts of a cubin whose .nv.info gives it that many more registers."""
    data = bytearray((FIXTURES / "cuda" / "cubin" / "tiny.cuda11.2.sm_52.cubin").read_bytes())
    at = data.index(bytes((4, 0x2F, 8, 0)))
    data[at + 8] += more
    return {8: "store7", 10: "bump"}[data[at + 4]], images.facts(BytesSource(bytes(data)).view(), "cubin")


def test_fewer_registers_than_those_of_the_code_are_a_contradiction() -> None:
    name, found = with_registers(-1)
    assert found.contradictions == (f"kernel {name} has fewer registers in .nv.info than with its code",)


def test_more_registers_are_those_of_what_the_kernel_calls() -> None:
    (name, found), (_, before) = with_registers(2), with_registers(0)
    assert found.contradictions == ()
    counts = [{kernel.name: kernel.registers or 0 for kernel in facts.kernels}[name] for facts in (before, found)]
    assert counts[1] == counts[0] + 2


def test_cubins_of_every_toolkit_are_of_one_mind() -> None:
    assert {facts(path).contradictions for path in CUBINS} == {()}


def test_a_kernel_whose_code_is_in_no_section_has_its_name_and_size() -> None:
    data = device_elf(190, 0x4B04, osabi=0x41, symbols=[(b"k", 0x12, 0x10, 0xFFF1), (b"l", 0x12, 0x10, 700)])
    assert images.kernel_facts(BytesSource(data).view(), "cubin") == (
        KernelNeeds("k", size=0),
        KernelNeeds("l", size=0),
    )


def listed(path: Path) -> dict[str, dict[str, int | None]]:
    """Return what cuobjdump -res-usage lists for each function; None for a stack that it does not know."""
    text = run("cuobjdump", "-res-usage", path).stdout.decode()
    return {
        name: {key: None if number == "UNKNOWN" else int(number) for key, number in re.findall(r"(\S+):(\w+)", row)}
        for name, row in re.findall(r" Function (\S+):\n +(.*)", text)
    }


def compare(path: Path) -> int:
    """Compare our numbers for a cubin with those of cuobjdump; return for how many kernels."""
    usage, is_relocatable = listed(path), ".rdc." in path.name
    found = facts(path).kernels
    for kernel in found:
        want = usage[kernel.name]
        assert (kernel.registers, kernel.shared) == (want["REG"], want["SHARED"]), kernel.name
        banks = {int(key[9:-1]): size for key, size in want.items() if key.startswith("CONSTANT")}
        assert dict(kernel.constants or ()) == banks
        stack = want["STACK"]
        # cuobjdump has 0 for the stack of unlinked code; fatpack reports it as unknown.
        assert kernel.local == (None if stack is None or is_relocatable else stack + (want["LOCAL"] or 0))
        assert kernel.has_dynamic_stack == (None if is_relocatable else stack is None)
    return len(found)


@pytest.mark.reference
@pytest.mark.parametrize("path", CUBINS, ids=lambda path: path.name)
def test_cuobjdump_lists_the_same_resources(path: Path) -> None:
    assert compare(path)


ARCHS = ["75", "80", "86", "87", "88", "89", "90", "90a", "100", "100a", "100f", "103", "110", "120", "120a", "121"]


@pytest.mark.reference
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("options", [("-O3",), ("-O0", "-g"), ("-c",), ("-maxrregcount=24",)], ids=" ".join)
def test_what_ptxas_compiles_has_the_resources_it_tells(arch: str, options: tuple[str, ...], tmp_path: Path) -> None:
    source = tmp_path / "needs.ptx"
    text = (NEEDS / "src" / "needs.ptx").read_text().replace(".version 7.8", ".version 9.0")
    source.write_text(text.replace(".target sm_75", f".target sm_{arch}"))
    output = tmp_path / f"needs{'.rdc' if '-c' in options else ''}.cubin"
    told = run("ptxas", "-v", *options, f"-arch=sm_{arch}", source, "-o", output).stderr.decode()
    assert compare(output) == 4
    found = kernels(output)
    for name, registers, rest in re.findall(
        r"Compiling entry function '(\w+)'.*\n(?:.*\n)*?ptxas info +: Used (\d+) registers(.*)", told
    ):
        barriers = re.search(r"used (\d+) barriers", rest)
        assert found[name].registers == int(registers)
        assert found[name].barriers == (int(barriers[1]) if barriers else 0)
        del found[name]
    assert found == {}
