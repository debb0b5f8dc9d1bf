"""Real images, cut at every place and with every byte flipped: an answer or one of our errors, nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.builders import bitcode
from tests.builders.device_elf import device_elf
from tests.builders.spirv import module

from fatpack import images
from fatpack.errors import FatpackError, FormatError
from fatpack.io.source import BytesSource

CUDA = Path(__file__).parent.parent / "fixtures" / "cuda"

IMAGES = {
    "cubin": (CUDA / "cubin" / "tiny.cuda11.2.sm_52.cubin").read_bytes(),
    "cubin of the new ABI": (CUDA / "cubin" / "dev.cuda13.0.rdc.sm_90.cubin").read_bytes(),
    "ptx": (CUDA / "ptx" / "k1.compute_80.ptx").read_bytes()[:900],
    "code object": device_elf(
        224, 0x3F, osabi=64, abi_version=2, symbols=[(b"kern", 0x12, 0, 1), (b"kern.kd", 0x11, 0, 1)], symbol_table=11
    ),
    "32-bit big-endian": device_elf(224, 0x3F, bits=32, order=">", symbols=[(b"kern.kd", 0x11, 0, 1)]),
    "bitcode": bitcode.of_triple("amdgcn-amd-amdhsa"),
    "spirv": module([(6, "first"), (6, "second")]),
}


def look(data: bytes) -> tuple[images.ImageInfo, tuple[str, ...]]:
    """Recognise an image and name its kernels; () where those cannot be read."""
    view = BytesSource(data).view()
    recognised = images.identify_image(view)
    try:
        return recognised, images.kernels(view, recognised.form)
    except FatpackError as error:
        assert isinstance(error, FormatError)
        assert error.offset is not None
        assert error.format
        return recognised, ()


@pytest.mark.parametrize("name", IMAGES)
def test_an_image_cut_anywhere_gives_an_answer(name):
    data = IMAGES[name]
    whole, kernels = look(data)
    assert whole.form
    for size in range(len(data)):
        recognised, found = look(data[:size])
        assert set(found) <= set(kernels) or recognised.form in ("ptx", "spirv")
        if whole.size == len(data) and recognised.size is not None:
            # The numbers in the headers do not shrink with the bytes, so the cut is detected.
            assert recognised.size > size or recognised.form != whole.form or recognised.form == "bitcode"


@pytest.mark.sweep(3)
@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_an_image_with_any_byte_flipped_gives_an_answer(name, mask):
    data = bytearray(IMAGES[name])
    for at in range(len(data)):
        data[at] ^= mask
        assert look(bytes(data))[0].form in images.EXTENSIONS
        data[at] ^= mask
