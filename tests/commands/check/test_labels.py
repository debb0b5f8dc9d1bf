"""A label that the first bytes of its image contradict fails the policy, whatever the image is stored in."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import lz4.block
import pytest
import zstandard
from tests.builders import fatbin, linked_elf
from tests.builders.device_elf import device_elf
from tests.builders.policy_files import cubin

import fatpack
from fatpack import ImageFile
from fatpack.commands.check.model import CheckResult
from fatpack.commands.check.policy import Policy
from fatpack.commands.check.request import check_policy

LZ4, ZSTD = 0x2011, 0x8011
TEXT = b".version 8.0\n.target sm_%d\n.address_size 64\n.visible .entry k() { ret; }\n\0"


def packed(data: bytes, flags: int) -> bytes:
    if flags == ZSTD:
        return zstandard.ZstdCompressor().compress(data)
    return bytes(lz4.block.compress(data, store_size=False)) if flags == LZ4 else data


def held(image: bytes, sm: int, flags: int = 0x11, kind: int = fatbin.ELF, stream: bytes | None = None) -> CheckResult:
    """Return the check of a library with an image that is stored for an architecture."""
    code = (0, 8) if kind == fatbin.PTX else (8, 1)
    stored = packed(image, flags & 0xFFFF) if stream is None else stream
    inflated = 0 if flags & 0xFFFF == 0x11 else len(image)
    one = fatbin.entry(stored, kind, sm=sm, flags=flags, inflated=inflated, code=code)
    Path("x.so").write_bytes(linked_elf.build([fatbin.fatbin(one)]).data)
    return check_policy(["x.so"], Policy(forbid=("sm_5*",)))


def said(made: CheckResult) -> list[str]:
    return [f"{item.code} {item.message}" for item in made.violations]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("flags", [0x11, LZ4, ZSTD])
def test_what_agrees_is_quiet(flags: int) -> None:
    assert said(held(cubin(80, ["k"]), 80, flags)) == []
    assert said(held(TEXT % 75, 80, flags, fatbin.PTX)) == []  # a text for less is fine
    # Only the notes of a cubin, which follow its header, may tell if it is for a variant.
    assert flags == 0x11 or said(held(cubin(90, ["k"]), 90, flags | 1 << 20)) == []


@pytest.mark.parametrize("flags", [0x11, LZ4, ZSTD])
def test_a_cubin_for_another_architecture(flags: int) -> None:
    made = held(cubin(75, ["k"]), 80, flags)
    assert said(made) == ["FP3314 image 0.0 is stored for sm_80, but the image is a cubin for sm_75"]
    assert made.exit_code == 1


@pytest.mark.parametrize("flags", [0x11, LZ4, ZSTD])
def test_zeros_and_texts_in_the_place_of_images(flags: int) -> None:
    assert said(held(bytes(4096), 80, flags)) == [
        "FP3314 image 0.0 is stored as cubin, but the bytes do not look like it"
    ]
    assert said(held(TEXT % 90, 80, flags, fatbin.PTX)) == [
        "FP3314 image 0.0 is stored for sm_80, but the image is PTX for sm_90"
    ]
    words = b"int main() { return 0; }" * 20 + b"\0"
    assert said(held(words, 80, flags, fatbin.PTX)) == [
        "FP3314 image 0.0 is stored as ptx, but the bytes do not look like it"
    ]
    (only,) = held(TEXT % 80, 80, flags).violations
    assert (only.code, "stored as cubin, but the bytes are ptx" in only.message) == ("FP3314", True)


def test_a_licence_before_the_first_directive() -> None:
    licence = b"// " + bytes(range(65, 91)) * 500 + b"\n"
    assert said(held(licence + TEXT % 80, 80, ZSTD, fatbin.PTX)) == []
    assert [item.code for item in held(licence + TEXT % 90, 80, ZSTD, fatbin.PTX).violations] == ["FP3314"]


@pytest.mark.parametrize("flags", [LZ4, ZSTD])
def test_a_beginning_that_does_not_inflate_is_not_read(flags: int) -> None:
    image = cubin(80, ["k"])
    whole = packed(image, flags)
    # The literals of the first sequence go on and on; the first block says that it is of the reserved type.
    broken = b"\xf0" + b"\xff" * 20 + whole[21:] if flags == LZ4 else whole[:6] + b"\xff" * 8 + whole[14:]
    made = held(image, 80, flags, stream=broken)
    assert {item.code for item in made.violations} == {"FP3301"}
    assert made.exit_code == 3


def test_images_that_are_alike_are_reported_once() -> None:
    entry = fatbin.entry(cubin(75, ["k"]), sm=80)
    Path("x.so").write_bytes(linked_elf.build([fatbin.fatbin(entry)] * 3).data)
    (only,) = check_policy(["x.so"], Policy(forbid=("sm_5*",))).violations
    assert only.message.endswith("a cubin for sm_75, and 2 more images like it")


def test_bundles_that_are_compressed_as_a_whole() -> None:
    def bundled(arch: str, content: bytes) -> CheckResult:
        output = io.BytesIO()
        images = [ImageFile(content, triple="amdgcn-amd-amdhsa", arch=arch, offload="hip")]
        with warnings.catch_warnings():  # of the label that is wrong
            warnings.simplefilter("ignore", UserWarning)
            fatpack.pack(images, output, options=fatpack.BundleOptions(compression="zstd"))
        Path("x.hipfb").write_bytes(output.getvalue())
        assert output.getvalue().startswith(b"CCOB")
        return check_policy(["x.hipfb"], Policy(forbid=("sm_5*",)))

    code = device_elf(224, 0x41, osabi=64, abi_version=2)  # EF_AMDGPU_MACH_AMDGCN_GFX1100
    assert said(bundled("gfx1100", code)) == []
    assert said(bundled("gfx942", code)) == [
        "FP3314 image 0.0 is stored for gfx942, but the image is a code object for gfx1100"
    ]
    assert [item.code for item in bundled("gfx1100", b"no code" * 100).violations] == ["FP3314"]
