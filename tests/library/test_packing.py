"""Packing from Python: what can be said about an image, for every format."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.builders.cir import HOST, SM_80
from tests.laws.rooms import FIXTURES

import fatpack
from fatpack import BundleOptions, CirOptions, FatbinOptions, ImageFile, OffloadBinaryOptions, Options

SAMPLES = FIXTURES / "cir" / "samples"
HOST_MODULE, DEVICE_MODULE = SAMPLES / "host_lex.mlir", SAMPLES / "device_alias_conflict.mlir"


def packed(format: str, *images: ImageFile) -> list[tuple[str, str]]:
    """Return (offload, ID) of the images of a container that is packed."""
    output = io.BytesIO()
    assert fatpack.pack(images, output, format=format) == len(output.getvalue())
    with fatpack.open(output.getvalue()) as file:
        assert not file.findings
        return [(found.target.offload, found.attrs["id"]) for found in file.images()]


def test_modules_of_a_cir_container_are_named_by_id_or_by_target() -> None:
    expected = [("host", HOST), ("cuda", SM_80)]
    assert packed("cir", ImageFile(HOST_MODULE, id=HOST), ImageFile(DEVICE_MODULE, id=SM_80)) == expected
    host = ImageFile(HOST_MODULE, triple="x86_64-unknown-linux-gnu", offload="host")
    assert packed("cir", host, ImageFile(DEVICE_MODULE, id=SM_80)) == expected


def test_images_of_a_bundle_are_named_by_id_or_by_target() -> None:
    name, triple = "host-x86_64-unknown-linux-gnu-", "x86_64-unknown-linux-gnu"
    device = ImageFile(b"d", triple="amdgcn-amd-amdhsa", arch="gfx90a", offload="hip")
    expected = [("host", name), ("hip", "hipv4-amdgcn-amd-amdhsa--gfx90a")]
    assert packed("bundle", ImageFile(b"h", id=name), device) == expected
    assert packed("bundle", ImageFile(b"h", triple=triple, offload="host"), device) == expected


@pytest.mark.parametrize("format", ["offload-binary", "fatbin"])
def test_other_formats_have_no_image_for_the_host(format: str) -> None:
    with pytest.raises(fatpack.UsageError, match="offload model 'host'"):
        packed(format, ImageFile(b"", offload="host"))


def test_an_output_that_takes_only_some_bytes_at_a_time_gets_all_of_them(tmp_path: Path) -> None:
    class Slow(io.RawIOBase):
        def __init__(self) -> None:
            self.data = b""

        def write(self, data: memoryview) -> int:  # type: ignore[override]
            self.data += data[:100]
            return min(len(data), 100)

    slow = Slow()
    image = ImageFile(bytes(range(256)) * 5, triple="t")
    size = fatpack.pack([image], slow)  # type: ignore[arg-type]
    fatpack.pack([image], tmp_path / "x")
    assert (tmp_path / "x").read_bytes() == slow.data
    assert size == len(slow.data)


@pytest.mark.parametrize(
    ("image", "text"),
    [
        (
            ImageFile(b"x", triple="t", attrs={"arhc": "sm_80"}),
            "arhc= is stored as a key of its own; did you mean arch=",
        ),
        (ImageFile(b"x", id="hip-amdgcn-amd-amdhsa--gfx90a"), "id= is stored as a key of its own, which no tool reads"),
        (ImageFile(b"x"), "has no triple"),
    ],
    ids=["key", "id", "triple"],
)
def test_slips_are_warned_of(image: ImageFile, text: str) -> None:
    with pytest.warns(UserWarning, match=text):
        fatpack.pack([image], io.BytesIO())


def test_the_target_that_an_image_states_is_added_with_a_warning() -> None:
    found, whole = io.BytesIO(), io.BytesIO()
    with pytest.warns(UserWarning, match="added triple=nvptx64-nvidia-cuda,arch=sm_80, which the image states"):
        fatpack.pack([ImageFile(SM_80_CUBIN, offload="cuda")], found)
    fatpack.pack([ImageFile(SM_80_CUBIN, triple="nvptx64-nvidia-cuda", arch="sm_80", offload="cuda")], whole)
    assert found.getvalue() == whole.getvalue()


def test_an_image_that_contradicts_what_is_stated_is_warned_of() -> None:
    cubin = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"
    image = ImageFile(cubin, triple="nvptx64-nvidia-cuda", arch="sm_90", offload="cuda")
    with pytest.warns(UserWarning, match="sm_80"):
        fatpack.pack([image], io.BytesIO())


SM_80_CUBIN = FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (OffloadBinaryOptions(level=3), "level 3 of a compressor, without compression"),
        (OffloadBinaryOptions(version=2, compression="zstd"), "only container version 3 can be compressed"),
        (OffloadBinaryOptions(version=4), "container version 4"),
        (BundleOptions(level=3), "level 3 of a compressor, without compression"),
        (BundleOptions(version=3), "version 3 of compressed bundles, without compression"),
        (BundleOptions(type="s", align=2), "a text bundle has no alignment"),
        (BundleOptions(type="x"), "bundle type 'x'"),  # type: ignore[arg-type]
        (BundleOptions(compression="lz4", version=3), "compression 'lz4'"),  # type: ignore[arg-type]
        (FatbinOptions(concat=True), "groups of entries are written since CUDA 13.4"),
        (FatbinOptions(include_ptx="sm_20"), "no PTX for sm_20"),
        (CirOptions(ids=[HOST]), "1 bundle IDs for 2 modules"),
        (CirOptions(form="offload-module"), "is not written"),  # type: ignore[arg-type]
    ],
    ids=repr,
)
def test_options_that_mean_nothing_are_refused_and_leave_nothing(
    options: Options, message: str, tmp_path: Path
) -> None:
    given = {
        OffloadBinaryOptions: [ImageFile(b"x", triple="t")],
        BundleOptions: [ImageFile(b"x", id="hip-amdgcn-amd-amdhsa--gfx90a")],
        FatbinOptions: [ImageFile(FIXTURES / "cuda" / "cubin" / "k1.cuda13.0.sm_80.cubin")],
        CirOptions: [ImageFile(HOST_MODULE, id=HOST), ImageFile(DEVICE_MODULE, id=SM_80)],
    }
    with pytest.raises(fatpack.UsageError, match=message) as caught:
        fatpack.pack(given[type(options)], tmp_path / "x", options=options)
    assert "--" not in str(caught.value).replace("--gfx", "").replace("--sm", "")  # no option of a command
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("image", "options", "message"),
    [
        (ImageFile(b"x", triple="t"), BundleOptions(), "image in memory: a bundle needs to know the kind"),
        (ImageFile(b"x", name="a.o", id=""), BundleOptions(), "image a.o: a bundle needs to know the kind"),
        (ImageFile(SM_80_CUBIN, attrs={"check": "x"}), FatbinOptions(), "cubin: check=x; write check=yes or check=no"),
        (ImageFile(SM_80_CUBIN, arch="lto_80"), FatbinOptions(), "cubin: lto_80 is no architecture of a cubin"),
    ],
)
def test_an_image_that_cannot_be_packed_is_named_as_it_was_given(
    image: ImageFile, options: Options, message: str
) -> None:
    with pytest.raises(fatpack.UsageError, match=message) as caught:
        fatpack.pack([image], io.BytesIO(), options=options)
    assert "--image" not in str(caught.value)


@pytest.mark.parametrize("method", ["lz4", "gzip", "ZSTD", "none", ""])
@pytest.mark.parametrize(
    "options", [OffloadBinaryOptions(version=3), BundleOptions()], ids=lambda it: type(it).__name__
)
def test_a_compression_that_no_reader_knows_is_refused(options: Options, method: str) -> None:
    output = io.BytesIO()
    image = ImageFile(b"d" * 100, triple="amdgcn-amd-amdhsa", arch="gfx90a", offload="hip")
    with pytest.raises(fatpack.UsageError, match=f"compression '{method}'"):
        fatpack.pack([image], output, options=options.replace(compression=method))
    assert not output.getvalue()
