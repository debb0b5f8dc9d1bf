"""The values listed for an empty selection: values of the very condition that no image fulfils."""

from __future__ import annotations

import pytest
from tests.laws.rooms import FIXTURES

from fatpack.io.source import BytesSource
from fatpack.scanner import scan
from fatpack.selectors.no_match import available_values
from fatpack.selectors.select import Selector

FATBIN = (FIXTURES / "cuda_fatbin" / "v130_size.fatbin").read_bytes()
FOUR = (FIXTURES / "offload_binary" / "llvm-22-four.bin").read_bytes()
KERNELS = "_Z5scaleIdEvPT_S0_i, _Z5scaleIfEvPT_S0_i, add_one"


@pytest.mark.parametrize(
    ("data", "selector", "words"),
    [
        (FATBIN, Selector(arch="sm_1"), "architectures present: sm_80, compute_80"),
        (FATBIN, Selector(arch="sm80"), "architectures present: sm_80, compute_80; did you mean sm_80?"),
        (FATBIN, Selector(form=("bitcode", "elf")), "forms present: cubin, ptx"),
        (FATBIN, Selector(triple="amdgcn*"), "triples present: nvptx64-nvidia-cuda"),
        (FATBIN, Selector(offload="hip"), "offload models present: cuda"),
        (FATBIN, Selector(kernel="nope"), f"kernels present: {KERNELS}"),
        (FATBIN, Selector(container=1), "containers present: 0"),
        (FATBIN, Selector(index=2), "images present: 0, 1"),
        (FATBIN, Selector(arch="sm_80", form="fatbin"), "forms present with --arch=sm_80: cubin, ptx"),
        (FATBIN, Selector(container=0, index=9), "images present with --container=0: 0, 1"),
        (FOUR, Selector(arch="sm_70", form="cubin"), "forms present with --arch=sm_70: object"),
        (FOUR, Selector(arch="sm_80", container=0), "containers present with --arch=sm_80: 1"),
        (FOUR, Selector(arch="none"), "architectures present: sm_70, sm_80, gfx90a:xnack+, (no arch)"),
        (FOUR, Selector(kernel="x"), "kernels present: none (kernels in bitcode have no names here)"),
        (FOUR, Selector(kernel="x", form="cubin"), "kernels present with --form=cubin: none"),
        (
            FOUR,
            Selector(offload=("hip", "openmp"), id="hip-amdgcn-amd-amdhsa--gfx906"),
            "bundle IDs present with --offload=hip --offload=openmp: openmp-nvptx64-nvidia-cuda-unknown-sm_80, "
            "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack+",
        ),
        (FOUR * 5, Selector(index=7), "images present: 0"),
        (FOUR * 5, Selector(container=99), "containers present: 0 to 19"),
        (b"", Selector(arch="sm_80"), ""),
    ],
)
def test_the_values_of_the_condition_that_fails_are_listed(data: bytes, selector: Selector, words: str) -> None:
    assert available_values(list(scan(BytesSource(data).view())), selector) == words


def test_long_lists_are_cut() -> None:
    data = b"".join(FOUR.replace(b"sm_70", b"sm_%d" % number) for number in range(10, 30))
    words = available_values(list(scan(BytesSource(data).view())), Selector(arch="none"))
    assert words == "architectures present: sm_10, sm_80, gfx90a:xnack+, (no arch), " + ", ".join(
        [*(f"sm_{number}" for number in range(11, 19)), "… 11 more"]
    )
