"""Names by which kernels and architectures belong together."""

from __future__ import annotations

import pytest

from fatpack.commands.report.model import arch_family, arch_label, kernel_namespace

STEMS = {
    "_Z3addPf": "add",
    "_ZL6squarePf": "square",
    "_ZN2at6native3addIfEEvPT_": "at::native::add",
    "_ZN2at6native51_GLOBAL__N__1234567_12_file_cu_abcdef_12_1234567890_12345678901233addEv": "at::native",
    "_ZNK3foo3barEv": "foo::bar",
    "_ZN12rocrand_host6detailL15generate_kernelEPj": "rocrand_host::detail::generate_kernel",
    "_ZSt4sortIiEvv": "std::sort",
    "_ZN12_GLOBAL__N_13addEPf": "add",
    "_Z99short": "_Z99short",
    "_Z": "_Z",
    "_ZN": "_ZN",
    "_Z0": "_Z0",
    "_Z999999999999999999999x": "_Z999999999999999999999x",
    "plain_kernel": "plain_kernel",
    "": "",
}


@pytest.mark.parametrize("name", STEMS)
def test_stem(name: str) -> None:
    assert kernel_namespace(name) == STEMS[name]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("sm_90", "cubin", "nvptx64", "cuda"), ("sm_90", "sm9")),
        (("sm_120a", "ptx", "nvptx64", "cuda"), ("compute_120a", "sm12")),
        (("gfx90a:xnack+", "code-object", "amdgcn", "hip"), ("gfx90a:xnack+", "gfx9")),
        (("gfx1100", "code-object", "amdgcn", "hip"), ("gfx1100", "gfx11")),
        (("gfx9-4-generic", "code-object", "amdgcn", "hip"), ("gfx9-4-generic", "gfx9")),
        (("gfx11-generic", "bitcode", "amdgcn", "openmp"), ("gfx11-generic bitcode", "gfx11")),
        (("", "spirv", "spirv64-unknown-unknown", "sycl"), ("spirv64 spirv", "intel")),
        (("", "object", "x86_64-unknown-linux-gnu", "host"), ("host", "host")),
        ((None, None, None, None), ("unknown", "other")),
        (("sm_", "cubin", "", ""), ("sm_", "other")),
        (("gfx", "code-object", "", ""), ("gfx", "other")),
        (("gfx99999999999", "code-object", "", ""), ("gfx99999999999", "gfx999999999")),
    ],
)
def test_labels_and_families(arguments: tuple[str | None, ...], expected: tuple[str, str]) -> None:
    assert (arch_label(*arguments), arch_family(*arguments)) == expected  # type: ignore[arg-type]
