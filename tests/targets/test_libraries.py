"""Libraries that ask for kernels by name."""

from __future__ import annotations

import pytest

from fatpack.targets.name_based_libraries import find_name_based_library


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("libcublasLt.so.13", "cuBLAS"),
        ("lib/libcublas.so", "cuBLAS"),
        ("cublas64_12.dll", "cuBLAS"),
        ("libcublas_static.a", "cuBLAS"),
        ("libcudnn_adv.so.9", "cuDNN"),
        ("libcusparseLt.so.0", "cuSPARSELt"),
        ("libtorch_cuda.so", None),
        ("libcublasx.so", None),
        ("", None),
    ],
)
def test_a_library_is_known_by_the_name_of_its_file(file: str, library: str | None) -> None:
    found = find_name_based_library(file)
    assert (found and found.library) == library
