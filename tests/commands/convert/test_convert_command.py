"""``fatpack convert``: nothing is lost on the way, or nothing is written."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.builders import elf as build
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

import fatpack as library

Fatpack = Callable[..., Ran]

IDS = (
    "host-x86_64-unknown-linux-gnu",
    "hipv4-amdgcn-amd-amdhsa--gfx90a:xnack-",
    "hip-amdgcn-amd-amdhsa--gfx1030",
    "openmp-nvptx64-nvidia-cuda--sm_70",
    "sycl-spir64-unknown-unknown",
    "fpga-odd",
)


@pytest.fixture
def bundle(folder: Path, fatpack: Fatpack) -> Path:
    for number in range(len(IDS)):
        (folder / f"{number}.bin").write_bytes(bytes([number]) * (100 * number))
    images = [f"--image=file={number}.bin,id={id}" for number, id in enumerate(IDS)]
    assert fatpack("pack", "--format=bundle", "--bundle-align=64", *images, "-o", "b.bundle").code == 0
    return folder


def test_a_bundle_becomes_offload_binaries_and_the_same_bundle_again(bundle: Path, fatpack: Fatpack) -> None:
    assert fatpack("convert", "b.bundle", "--format=offload-binary").code == 0
    with library.open(bundle / "b.offload") as file:
        assert [(found.container.format, len(found.images)) for found in file.containers] == [
            ("llvm-offload-binary", 1)
        ] * len(IDS)
        assert [image.target.offload for image in file.images()][:5] == ["none", "hip", "hip", "openmp", "sycl"]
    assert fatpack("convert", "b.offload", "--format=bundle", "--bundle-align=64", "-o", "again").code == 0
    assert (bundle / "again").read_bytes() == (bundle / "b.bundle").read_bytes()


def test_bundles_are_laid_out_and_compressed_anew_image_by_image(bundle: Path, fatpack: Fatpack) -> None:
    assert fatpack("convert", "b.bundle", "--format=bundle", "--compress", "-o", "small").code == 0
    assert fatpack("convert", "small", "--format=bundle", "--bundle-align=64", "-o", "again").code == 0
    assert (bundle / "again").read_bytes() == (bundle / "b.bundle").read_bytes()


def test_an_output_needs_a_name(bundle: Path, fatpack: Fatpack) -> None:
    ran = fatpack("convert", "b.bundle", "--format=offload-binary", "-o", "")
    assert (ran.code, ran.err) == (2, 'fatpack: error: the output has no name; name it with -o; "-" is stdout\n')
    assert not (bundle / "b.offload").exists()


def test_what_a_bundle_cannot_say_is_listed_and_nothing_written(folder: Path, fatpack: Fatpack) -> None:
    option = "--image=file=k.ptx,kind=openmp,triple=nvptx64-nvidia-cuda,arch=sm_80,feature=+ptx88,producer=me"
    fatpack("pack", option, "-o", "one.off")
    ran = fatpack("convert", "one.off", "--format=bundle", "-o", "x")
    assert ran.code == 1
    assert "not converted: image 0.0 openmp nvptx64-nvidia-cuda compute_80 ptx: the key feature=+ptx88\n" in ran.err
    assert "the key producer=me" in ran.err
    assert not (folder / "x").exists()
    assert fatpack("convert", "one.off", "--format=bundle", "-o", "x", "--lossy").code == 0
    assert fatpack("extract", "x", "-o", "back").code == 0
    assert (folder / "back").read_bytes() == (folder / "k.ptx").read_bytes()


def test_a_model_that_no_bundle_can_name_is_lost_only_when_that_is_allowed(folder: Path, fatpack: Fatpack) -> None:
    fatpack("pack", "--image=file=a.cubin,kind=cuda,triple=nvptx64-nvidia-cuda,arch=sm_80", "-o", "one.off")
    lost = (
        "not converted: image 0.0 cuda nvptx64-nvidia-cuda sm_80 cubin: the programming model 'cuda', in place of "
        "which the bundle has openmp\n"
    )
    ran = fatpack("convert", "one.off", "--format=bundle", "-o", "x")
    assert (ran.code, lost in ran.err, (folder / "x").exists()) == (1, True, False)
    ran = fatpack("convert", "one.off", "--format=bundle", "--lossy", "-o", "x")
    assert (ran.code, lost in ran.err) == (0, True)
    with library.open(folder / "x") as file:
        assert [image.attrs["id"] for image in file.images()] == ["openmp-nvptx64-nvidia-cuda-unknown-sm_80"]


def test_images_of_several_bundles_stay_apart(bundle: Path, fatpack: Fatpack) -> None:
    data = (bundle / "b.bundle").read_bytes()
    (bundle / "two").write_bytes(data + bytes(-len(data) % 4096) + data)
    assert fatpack("convert", "two", "--format=offload-binary", "-o", "o").code == 0
    assert fatpack("convert", "o", "--format=bundle", "--bundle-align=64", "-o", "again").code == 0
    with library.open(bundle / "again") as file:
        assert [len(found.images) for found in file.containers] == [len(IDS)] * 2
    ran = fatpack("convert", "two", "--format=bundle", "--type=s", "-o", "x")
    assert (ran.code, "two: the images make 2 bundles, and only binary ones" in ran.err) == (4, True)


def test_what_is_intact_of_a_damaged_file_is_converted(bundle: Path, fatpack: Fatpack) -> None:
    (bundle / "cut").write_bytes((bundle / "b.bundle").read_bytes()[:-10])
    ran = fatpack("convert", "cut", "--format=offload-binary", "-o", "x")
    assert (ran.code, "error FP1301: cut at 0x" in ran.err) == (3, True)
    with library.open(bundle / "cut") as cut, library.open(bundle / "x") as file:
        left = [image.data.tobytes() for image in cut.images()]
        assert [image.data.tobytes() for image in file.images()] == left
        assert len(left) == len(IDS) - 1
    with pytest.raises(library.FormatError, match="nothing was converted"):
        library.convert(bundle / "cut", bundle / "y", format="offload-binary")
    with pytest.warns(UserWarning, match="is past the end"):
        library.convert(bundle / "cut", bundle / "y", format="offload-binary", lossy=True)
    assert (bundle / "y").read_bytes() == (bundle / "x").read_bytes()


def test_a_selection_is_converted_alone(bundle: Path, fatpack: Fatpack) -> None:
    assert fatpack("convert", "b.bundle", "--offload=hip", "--format=offload-binary", "-o", "x").code == 0
    with library.open(bundle / "x") as file:
        assert [image.target.arch for image in file.images()] == ["gfx90a:xnack-", "gfx1030"]
    ran = fatpack("convert", "b.bundle", "--arch=sm_99", "--format=offload-binary", "-o", "y")
    assert (ran.code, "no images to convert" in ran.err) == (1, True)


def test_a_file_of_which_nothing_can_be_read_is_damaged_rather_than_empty(bundle: Path, fatpack: Fatpack) -> None:
    packed = fatpack("convert", "b.bundle", "--format=bundle", "--compress", "-o", "c.bundle")
    assert packed.code == 0
    (bundle / "cut").write_bytes((bundle / "c.bundle").read_bytes()[:-10])
    ran = fatpack("convert", "cut", "--format=offload-binary", "-o", "x")
    assert (ran.code, "no images to convert" in ran.err) == (3, True)
    assert not (bundle / "x").exists()


def test_a_bundle_becomes_a_kpack_archive_without_its_empty_place_for_the_host(folder: Path, fatpack: Fatpack) -> None:
    Path("k").write_bytes(b"code")
    Path("none").write_bytes(b"")
    images = [
        "--image=file=none,id=host-x86_64-unknown-linux-gnu-",
        "--image=file=k,id=hipv4-amdgcn-amd-amdhsa--gfx90a",
    ]
    assert fatpack("pack", "--format=bundle", *images, "-o", "b.bundle").code == 0
    ran = fatpack("convert", "b.bundle", "--format=kpack", "-o", "x.kpack")
    assert (ran.code, "that there is an empty place for the host" in ran.err) == (1, True)
    assert fatpack("convert", "b.bundle", "--format=kpack", "--lossy", "-o", "lossy.kpack").code == 0
    assert fatpack("convert", "b.bundle", "--format=kpack", "--offload=hip", "-o", "x.kpack").code == 0
    assert Path("lossy.kpack").read_bytes() == Path("x.kpack").read_bytes()
    with library.open("x.kpack") as archive:
        assert [image.attrs["binary"] for image in archive.images()] == ["b.bundle#0"]
    Path("none").write_bytes(b"host code")
    assert fatpack("pack", "--format=bundle", *images, "-o", "full.bundle").code == 0
    ran = fatpack("convert", "full.bundle", "--format=kpack", "--lossy", "-o", "y.kpack")
    assert (ran.code, "--offload=hip" in ran.err) == (4, True)


def test_the_library_converts_as_the_command_does(bundle: Path) -> None:
    library.convert(bundle / "b.bundle", bundle / "o", format="offload-binary")
    size = library.convert(bundle / "o", bundle / "again", options=library.BundleOptions(align=64))
    assert size == len((bundle / "b.bundle").read_bytes())
    assert (bundle / "again").read_bytes() == (bundle / "b.bundle").read_bytes()


def test_the_library_converts_the_images_that_a_file_selects(bundle: Path) -> None:
    with library.open(bundle / "b.bundle") as file:
        library.convert(file.images(offload="hip"), bundle / "x", format="offload-binary")
        assert (len(file.images(library.Selector(offload="hip"))), len(file.images())) == (2, 6)
        with pytest.raises(library.UsageError, match="conditions of their own"):
            file.images(library.Selector(offload="hip"), arch="gfx90a")
        with pytest.raises(IndexError):
            file.images()[6]
        assert file.images()[-1] == file.images()[5]
    with library.open(bundle / "x") as file:
        assert [image.target.arch for image in file.images()] == ["gfx90a:xnack-", "gfx1030"]


def test_a_format_and_its_options_do_not_contradict(bundle: Path) -> None:
    options = library.BundleOptions(align=64)
    library.convert(bundle / "b.bundle", bundle / "x", format="bundle", options=options)
    with pytest.raises(library.UsageError, match="the options are for bundle, the format is fatbin"):
        library.convert(bundle / "b.bundle", bundle / "y", format="fatbin", options=options)
    with pytest.raises(library.UsageError, match="no format"):
        library.convert(bundle / "b.bundle", bundle / "y")


def test_a_fat_object_gives_its_host_to_the_bundle(folder: Path, fatpack: Fatpack) -> None:
    path = FIXTURES / "elf" / "clang-22-hip-rdc-bundler.o"
    assert fatpack("convert", path, "--format=bundle", "-o", "b").code == 0
    assert fatpack("extract", path, "--offload=host", "-o", "host").code == 0
    assert fatpack("extract", "b", "--offload=host", "-o", "same").code == 0
    assert (folder / "same").read_bytes() == (folder / "host").read_bytes()
    assert (folder / "host").read_bytes()[:4] == b"\x7fELF"
    assert b"__CLANG_OFFLOAD_BUNDLE__" not in (folder / "host").read_bytes()


def test_a_merged_fat_object_gives_the_bundles_it_was_merged_of(folder: Path, fatpack: Fatpack) -> None:
    """``ld -r`` puts all images for one ID together; the host is that of all of them."""
    elf = build.Elf()
    contents = {IDS[4]: [b"A1", b"A2", b"A3"], IDS[3]: [b"B1", b"B2"], IDS[0]: [b"\0"] * 3}
    for id, images in contents.items():
        sizes = struct.pack(f"<{len(images)}Q", *map(len, images))
        elf.add("__CLANG_OFFLOAD_BUNDLE__" + id, b"".join(images), flags=build.EXCLUDE)
        elf.add("__CLANG_OFFLOAD_BUNDLE_SIZE__" + id, sizes, flags=build.EXCLUDE)
    (folder / "merged.o").write_bytes(elf.build())
    assert fatpack("convert", "merged.o", "--format=bundle", "-o", "b").code == 0
    with library.open(folder / "b") as file:
        stored = [[image.data.tobytes()[:4] for image in found.images] for found in file.containers]
    assert stored == [[b"A1", b"B1", b"\x7fELF"], [b"A2", b"B2"], [b"A3"]]
    assert fatpack("convert", "merged.o", "--arch=sm_70", "--format=bundle", "-o", "c").code == 0
    with library.open(folder / "c") as file:
        assert [[image.data.tobytes() for image in found.images] for found in file.containers] == [
            [b"B1"],
            [b"B2"],
        ]


GFX906 = "hip-amdgcn-amd-amdhsa--gfx906"


@pytest.mark.parametrize(
    ("ids", "options", "words"),
    [
        ((GFX906, f"{GFX906}:xnack+"), "--format=bundle", "fixes xnack and gfx906 does not"),
        (("host-x86_64-unknown-linux-gnu-", "host-i686-pc-windows-msvc-"), "--format=bundle", "2 images for a host"),
        ((f"{GFX906}\nx",), "--format=bundle --type=ii", "has a line end, which a text bundle cannot store"),
        ((f"{GFX906}\0x",), "--format=offload-binary", "a NUL byte, which version 1 cannot store"),
        ((GFX906, GFX906), "--format=bundle --type=ii", "only binary ones can follow each other"),
    ],
)
def test_images_that_the_other_format_cannot_hold_are_no_fault_of_the_command_line(
    ids: tuple[str, ...], options: str, words: str, folder: Path, fatpack: Fatpack
) -> None:
    (folder / "odd.bundle").write_bytes(stored(ids))
    ran = fatpack("convert", "odd.bundle", *options.split(), "-o", "x")
    assert (ran.code, words in ran.err, (folder / "x").exists()) == (4, True, False)


def test_options_that_mean_nothing_are_distinguished_from_images_that_conflict(folder: Path, fatpack: Fatpack) -> None:
    (folder / "odd.bundle").write_bytes(stored((GFX906, f"{GFX906}:xnack+")))
    ran = fatpack("convert", "odd.bundle", "--format=bundle", "--type=ii", "--bundle-align=8", "-o", "x")
    assert (ran.code, "a text bundle has no alignment" in ran.err) == (2, True)


@pytest.mark.parametrize("odd", ["\0x", ",x", "\nx", "\r", "=x"])
def test_odd_ids_come_back(odd: str, folder: Path, fatpack: Fatpack) -> None:
    (folder / "odd.bundle").write_bytes(stored((GFX906, f"openmp-nvptx64-nvidia-cuda-unknown-sm_70{odd}")))
    assert fatpack("convert", "odd.bundle", "--format=offload-binary", "--container-version=2", "-o", "x").code == 0
    assert fatpack("convert", "x", "--format=bundle", "-o", "y").code == 0
    assert (folder / "y").read_bytes() == (folder / "odd.bundle").read_bytes()


def stored(ids: tuple[str, ...]) -> bytes:
    """Return a binary bundle with one byte for each ID, which need not be one that a writer would take."""
    encoded = [spelling.encode() for spelling in ids]
    at = 32 + sum(24 + len(spelling) for spelling in encoded)
    header = struct.pack("<24sQ", b"__CLANG_OFFLOAD_BUNDLE__", len(ids))
    for number, spelling in enumerate(encoded):
        header += struct.pack("<QQQ", at + number, 1, len(spelling)) + spelling
    return header + b"i" * len(ids)


def test_several_containers_are_not_written_one_after_the_other_without_a_word(folder: Path, fatpack: Fatpack) -> None:
    library_file = FIXTURES / "cuda_fatbin" / "hosts" / "libtwo.so"
    ran = fatpack("convert", library_file, "--format", "fatbin", "-o", "two.fatbin")
    assert ran.code == 0
    assert "the output has 2 fat binaries, one after the other" in ran.err
    assert "--container N converts one" in ran.err
    with library.open(folder / "two.fatbin") as file:
        assert len(file.containers) == 2
    ran = fatpack("convert", library_file, "--container", "0", "--format", "fatbin", "-o", "one.fatbin")
    assert (ran.code, "one after the other" in ran.err) == (0, False)
