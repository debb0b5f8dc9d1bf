"""The check of a slimmed file accepts the images that stay, and zeros after the images of a fat binary."""

from __future__ import annotations

from io import BytesIO

import pytest
from tests.builders.fatbin import PTX, entry, fatbin, ptx

import fatpack as library
from fatpack.commands.slim.options import SlimOptions
from fatpack.commands.slim.plan import plan_slim
from fatpack.commands.slim.result import verifier_for
from fatpack.errors import HostError
from fatpack.io.source import BytesSource, View


def view(data: bytes) -> View:
    return BytesSource(data, "x").view()


def bundle(kept: bytes, *others: str) -> bytes:
    out = BytesIO()
    names = {"gfx942": kept, **dict.fromkeys(others, b"other")}
    images = [library.ImageFile(data, id=f"hipv4-amdgcn-amd-amdhsa--{arch}") for arch, data in names.items()]
    library.pack(images, out, format="bundle")
    return out.getvalue()


def cuda(kept: bytes, *others: int) -> bytes:
    entries = [entry(ptx(target=f"sm_{sm}"), PTX, sm=sm, options=b"") for sm in others]
    return fatbin(entry(kept, PTX, sm=80, options=b""), *entries)


@pytest.mark.parametrize("after", [b"code\0", b"code\0\0\0\0", b"cod", b"code of another"])
def test_an_image_of_a_bundle_keeps_its_length(after: bytes) -> None:
    before = view(bundle(b"code", "gfx906"))
    made = plan_slim(before, SlimOptions(drop=("gfx906",)))
    verifier_for(made)(before, view(bundle(b"code")))
    with pytest.raises(HostError, match="wrong: the bytes of gfx942"):
        verifier_for(made)(before, view(bundle(after)))


@pytest.mark.parametrize(("tail", "is_meant"), [(b"", True), (b"\0" * 9, True), (b"//", False), (b"\0" * 40, False)])
def test_zeros_may_follow_an_image_of_a_fat_binary(tail: bytes, is_meant: bool) -> None:
    before = view(cuda(ptx(), 90))
    made = plan_slim(before, SlimOptions(drop=("compute_90",)))
    after = view(cuda(ptx() + tail))
    if is_meant:
        verifier_for(made)(before, after)
    else:
        with pytest.raises(HostError, match="wrong: the bytes of compute_80"):
            verifier_for(made)(before, after)
