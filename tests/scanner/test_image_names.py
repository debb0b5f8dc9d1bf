"""Names in images: one limit on what is decompressed for them, at any depth."""

from __future__ import annotations

import io
import warnings

import pytest
from tests.builders import offered

from fatpack import BundleOptions, ImageFile, pack
from fatpack.io.open import open_source
from fatpack.scanner import FoundContainer, scan
from fatpack.scanner.image_names import defined_variables, read_kernel_names

FAT = offered.cuda("75 80 zstd")


def inside_each_other() -> bytes:
    """Return a bundle with four fat binaries."""
    names = ("gfx90a", "gfx942", "gfx1030", "gfx1100")
    items = [ImageFile(FAT, triple="amdgcn-amd-amdhsa", arch=name, offload="hip") for name in names]
    into = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pack(items, into, options=BundleOptions())
    return into.getvalue()


@pytest.mark.parametrize("data", [FAT * 4, inside_each_other()], ids=["side by side", "in a bundle"])
def test_one_limit_holds_for_all_containers(data: bytes) -> None:
    with open_source(data) as source:
        found = [item for item in scan(source.view()) if isinstance(item, FoundContainer)]
        fat = [inner for item in found for image in item.images for inner in image.containers] or found
        total = sum(image.size for item in fat for image in item.images)
        assert len(fat) == 4
        assert read_kernel_names(found, total) == ({"sm_75": {"k"}, "sm_80": {"k"}}, "")
        assert defined_variables(found, total) == set()
        names, why = read_kernel_names(found, total - 1)
        assert names is None
        assert "the names of their kernels were not read" in why
        assert defined_variables(found, total - 1) is None
