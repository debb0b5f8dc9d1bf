"""``fatpack extract`` as users type it."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import Ran
from tests.laws.rooms import FIXTURES

from fatpack.binary import archive
from fatpack.io.open import open_source

Fatpack = Callable[..., Ran]


def packed(fatpack: Fatpack) -> None:
    images = [
        "--image=file=a.cubin,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=cuda",
        "--image=file=b.cubin,triple=nvptx64-nvidia-cuda,arch=sm_90,kind=cuda",
        "--image=file=k.ptx,triple=nvptx64-nvidia-cuda,arch=sm_80,kind=openmp",
    ]
    assert fatpack("pack", *images, "--host=host.o", "-o", "fat.o", "-q").code == 0


def test_everything_comes_out_and_is_listed(folder: Path, fatpack: Fatpack) -> None:
    packed(fatpack)
    ran = fatpack("extract", "fat.o")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "fat-nvptx64-nvidia-cuda-sm_80.0.cubin  0.0 cuda nvptx64-nvidia-cuda sm_80 cubin, 7.58 kB",
        "fat-nvptx64-nvidia-cuda-sm_90.1.cubin  1.0 cuda nvptx64-nvidia-cuda sm_90 cubin, 8.75 kB",
        "fat-nvptx64-nvidia-cuda-compute_80.2.ptx  2.0 openmp nvptx64-nvidia-cuda compute_80 ptx, 3.41 kB",
    ]
    assert (folder / "fat-nvptx64-nvidia-cuda-sm_90.1.cubin").read_bytes() == (folder / "b.cubin").read_bytes()


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(folder: Path, fatpack: Fatpack) -> None:
    packed(fatpack)
    before = sorted(folder.iterdir())
    ran = fatpack("extract", "fat.o", "--dry-run", "-d", "out")
    assert (ran.code, sorted(folder.iterdir())) == (0, before)
    assert fatpack("extract", "fat.o", "-d", "out").out == ran.out
    ran = fatpack("extract", "fat.o", "--dry-run", "--arch=sm_90", "-o", "x", "-q")
    assert (ran.code, ran.out, (folder / "x").exists()) == (0, "x\n", False)
    assert fatpack("extract", "fat.o", "--dry-run", "--arch=sm_100").code == 1
    ran = fatpack("extract", "fat.o", "--dry-run", "--arch=sm_80", "-o", "x")
    assert ran.code == 2
    assert "2 images match, and -o takes one" in ran.err
    assert fatpack("extract", "fat.o#offset=0&size=4", "--dry-run", "-o", "x").code == 2


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (["--arch", "sm_90"], ["sm_90.1.cubin"]),
        (["--arch", "sm_*"], ["compute_80.2.ptx", "sm_80.0.cubin", "sm_90.1.cubin"]),
        (["--arch", "sm_80", "--form", "ptx"], ["compute_80.2.ptx"]),
        (["--arch", "!sm_80"], ["sm_90.1.cubin"]),
        (["--arch", "!sm_8*", "--arch", "!sm_90"], []),
        (["--arch", "sm_*", "--arch", "!sm_9?"], ["compute_80.2.ptx", "sm_80.0.cubin"]),
        (["--arch", "sm_80", "--form", "!ptx"], ["sm_80.0.cubin"]),
        (["--offload", "openmp"], ["compute_80.2.ptx"]),
        (["--triple", "nvptx*", "--form", "cubin"], ["sm_80.0.cubin", "sm_90.1.cubin"]),
        (["--kernel", "add_"], ["compute_80.2.ptx", "sm_80.0.cubin", "sm_90.1.cubin"]),
        (["--kernel", "^scale$"], []),
        (["--container", "1"], ["sm_90.1.cubin"]),
        (["--container", "1", "--index", "0"], ["sm_90.1.cubin"]),
        (["--container", "1", "--index", "1"], []),
        (["--image", "1.0"], ["sm_90.1.cubin"]),
        (["--arch", "sm_80", "--arch", "sm_90", "--form=cubin"], ["sm_80.0.cubin", "sm_90.1.cubin"]),
        (["--arch", "sm_80,sm_90", "--form", "cubin"], ["sm_80.0.cubin", "sm_90.1.cubin"]),
        (["--arch", "!sm_80,!sm_9?"], []),
        (["--arch", "sm_80", "--form", "ptx,spirv"], ["compute_80.2.ptx"]),
        (["--arch", "gfx*"], []),
    ],
    ids=" ".join,
)
def test_selectors(folder: Path, fatpack: Fatpack, selection: list[str], expected: list[str]) -> None:
    packed(fatpack)
    ran = fatpack("extract", "fat.o", *selection, "-d", "out", "-q")
    assert ran.code == (0 if expected else 1)
    names = sorted(os.listdir("out")) if expected else []
    assert names == [f"fat-nvptx64-nvidia-cuda-{name}" for name in expected]


@pytest.mark.parametrize("value", ["", "sm_80,", ",sm_80", "sm_80,,sm_90"])
def test_an_empty_pattern_is_a_mistake(folder: Path, fatpack: Fatpack, value: str) -> None:
    """A script's unset variable must not mean images without an architecture."""
    ran = fatpack("extract", "pkg.bin", "--arch", value, "--dry-run")
    assert (ran.code, ran.out) == (2, "")
    assert "a pattern is empty" in ran.err


@pytest.mark.parametrize(
    "command",
    [["extract", "fat.o", "--dry-run"], ["remove", "fat.o", "--dry-run"], ["convert", "fat.o", "--lossy", "-fo", "c"]],
    ids=lambda command: command[0],
)
def test_a_pattern_that_matches_nothing_beside_others_is_warned_of(
    folder: Path, fatpack: Fatpack, command: list[str]
) -> None:
    packed(fatpack)
    ran = fatpack(*command, "--arch", "sm_80, zz")
    assert ran.code == 0
    assert "fatpack: warning: --arch=zz matches nothing\n" in ran.err
    ran = fatpack(*command, "--arch", "sm_80, sm_90")
    assert (ran.code, "matches nothing" in ran.err) == (0, False)


def test_a_processor_without_features_finds_target_ids(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("extract", "pkg.bin", "--arch=gfx90a", "-o", "x").code == 0
    assert fatpack("extract", "pkg.bin", "--arch=gfx90a:xnack-", "-o", "y").code == 1
    assert (folder / "x").read_bytes() == b"BC\xc0\xdebits"


def test_one_image_goes_to_a_file_or_to_stdout(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("extract", "pkg.bin", "--arch=sm_70", "-o", "x")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "wrote x: 0.0 cuda nvptx64-nvidia-cuda sm_70 object, 5 B\n"
    ran = fatpack("extract", "pkg.bin", "--arch=sm_70", "-o", "-")
    assert (ran.code, ran.out, ran.err) == (0, "hello", "")


def test_several_images_do_not_fit_one_file(folder: Path, fatpack: Fatpack) -> None:
    ran = fatpack("extract", "pkg.bin", "-o", "x")
    assert ran.code == 2
    assert "4 images match, and -o takes one" in ran.err
    assert not (folder / "x").exists()


def test_nothing_is_written_if_one_output_exists(folder: Path, fatpack: Fatpack) -> None:
    packed(fatpack)
    (folder / "fat-nvptx64-nvidia-cuda-compute_80.2.ptx").write_text("mine")
    before = sorted(os.listdir(folder))
    ran = fatpack("extract", "fat.o")
    assert ran.code == 2
    assert "fat-nvptx64-nvidia-cuda-compute_80.2.ptx exists; give another directory with -d, or --force" in ran.err
    assert sorted(os.listdir(folder)) == before
    assert fatpack("extract", "fat.o", "--force").code == 0


def test_addresses_printed_by_inspect_are_accepted(folder: Path, fatpack: Fatpack) -> None:
    packed(fatpack)
    addresses = [line.strip() for line in fatpack("inspect", "-v", "fat.o").out.splitlines() if "#offset=" in line]
    assert len(addresses) == 3
    for spelled in (addresses[1], f"file://{folder}/{addresses[1]}"):
        assert fatpack("extract", spelled, "-o", "x", "--force").code == 0
        assert (folder / "x").read_bytes() == (folder / "b.cubin").read_bytes()
    decimal = addresses[1].partition("#")[0] + "#offset=0&size=4"
    assert fatpack("extract", decimal, "-o", "-").out == "\x7fELF"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["pkg.bin#offset=9999", "-o", "x"], 2, "outside the file"),
        (["pkg.bin#offset=0&size=9999", "-o", "x"], 2, "outside the file"),
        (["pkg.bin#offset=abc", "-o", "x"], 2, "'abc' is no number"),
        (["pkg.bin#offset=1&length=2", "-o", "x"], 2, "unknown part 'length=2'"),
        (["pkg.bin#offset=1"], 2, "an address needs an output"),
        (["pkg.bin", "-o", "x", "-d", "y"], 2, "-o and -d exclude each other"),
        (["none.o"], 5, "none.o: No such file or directory"),
        (["-o", "x", "."], 2, "-o names one file, and . has many"),
        (["host.o"], 1, "no images"),
        (["pkg.bin", "--arch=sm_1"], 1, "no images that match --arch=sm_1"),
        (["pkg.bin", "--kernel=("], 2, "is no regular expression"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_goes_wrong_is_one_line(
    folder: Path, fatpack: Fatpack, arguments: list[str], code: int, message: str
) -> None:
    before = sorted(os.listdir(folder))
    ran = fatpack("extract", *arguments)
    assert ran.code == code
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert sorted(os.listdir(folder)) == before


def test_empty_names_are_no_names(folder: Path, fatpack: Fatpack) -> None:
    packed(fatpack)
    before = sorted(folder.iterdir())
    for arguments, problem in {
        ("fat.o", "-o", ""): 'the output has no name; name it with -o; "-" is stdout',
        ("fat.o", "-d", ""): 'the directory has no name; "." is the current one',
        ("fat.o#offset=0&size=4", "-o", ""): 'the output has no name; name it with -o; "-" is stdout',
    }.items():
        assert fatpack("extract", *arguments) == (2, "", f"fatpack: error: {problem}\n")
    assert fatpack("extract", "") == (5, "", "fatpack: error: '': No such file or directory\n")
    assert sorted(folder.iterdir()) == before


def test_what_is_left_of_a_cut_object_is_extracted_when_asked_for(folder: Path, fatpack: Fatpack) -> None:
    images = ["--image=file=a.cubin,arch=sm_80", "--image=file=b.cubin,arch=sm_90"]
    assert fatpack("pack", *images, "--format=fatbin", "--host=host.o", "-o", "fat.o", "-q").code == 0
    data = (folder / "fat.o").read_bytes()
    (folder / "cut.o").write_bytes(data[: data.index(b"\x50\xed\x55\xba") + 9000])
    assert fatpack("extract", "cut.o").code == 3
    ran = fatpack("extract", "--deep", "cut.o", "-d", "out")
    assert ran.code == 3
    assert [line.split()[0] for line in ran.out.splitlines()] == ["out/cut-nvptx64-nvidia-cuda-sm_80.0.cubin"]
    (made,) = (folder / "out").iterdir()
    assert made.read_bytes() == (folder / "a.cubin").read_bytes()


def test_what_an_id_means_is_printed_once_with_its_number(folder: Path, fatpack: Fatpack) -> None:
    library = FIXTURES / "cuda_fatbin" / "recorded" / "two_fatbins.fatbin"
    ran = fatpack("extract", library, "--id", "cuda-nvptx64-nvidia-cuda--sm_80", "--dry-run")
    images = len(ran.out.splitlines())
    assert images > 2
    assert ran.err.splitlines() == [
        f"cuda-nvptx64-nvidia-cuda--sm_80: chose cuda-nvptx64-nvidia-cuda--sm_80, its exact ID: {images} images"
    ]


def test_containers_come_out_as_stored(folder: Path, fatpack: Fatpack) -> None:
    packed(fatpack)
    assert fatpack("extract", "fat.o", "--containers", "--arch=sm_90", "-o", "one.bin").code == 0
    assert "1 image" in fatpack("inspect", "one.bin").out
    assert fatpack("extract", "fat.o", "--containers", "-d", "all").code == 0
    assert sorted(os.listdir("all")) == [f"fat.{number}.offload" for number in range(3)]


def test_intact_images_of_a_damaged_file_are_extracted(folder: Path, fatpack: Fatpack) -> None:
    data = bytearray((folder / "pkg.bin").read_bytes())
    data[0x40:0x48] = (2**40).to_bytes(8, "little")  # the first image's size
    (folder / "bad.bin").write_bytes(data)
    ran = fatpack("extract", "bad.bin", "-d", "out")
    assert ran.code == 3
    assert len(ran.out.splitlines()) == 3
    assert (
        "error FP1001: bad.bin at 0x38: llvm-offload-binary: entry[0] image: 0xb0 + 0x10000000000 is past the end"
        in ran.err
    )


def test_stored_names_cannot_choose_the_folder(folder: Path, fatpack: Fatpack) -> None:
    assert fatpack("pack", "--image=file=k.ptx,triple=../../evil,arch=/etc/x", "-o", "evil.bin", "-q").code == 0
    assert fatpack("extract", "evil.bin", "-d", "out", "-q").code == 0
    assert os.listdir("out") == ["evil-_.._evil-_etc_x.0.ptx"]


def test_members_of_an_archive_of_images_have_names_that_stay_in_a_folder(folder: Path, fatpack: Fatpack) -> None:
    ids = ("hip-amdgcn-amd-amdhsa--../../gfx90a", "hip-amdgcn-amd-amdhsa--gfx906\n")
    entries = b"".join(struct.pack("<QQQ", 200, 4, len(id)) + id.encode() for id in ids)
    bundle = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids)) + entries
    (folder / "odd.bundle").write_bytes(bundle.ljust(200, b"\0") + b"code")
    assert fatpack("extract", "odd.bundle", "--archive", "-o", "odd.a").code == 0
    with open_source("odd.a") as source:
        names = [member.name for member in archive.read_members(source.view()) if member.kind == "file"]
    assert names == [
        b"odd-hip-amdgcn-amd-amdhsa--.._.._gfx90aodd.bc",
        b"odd-hip-amdgcn-amd-amdhsa--gfx906_odd.bc",
    ]


def test_an_id_that_another_condition_excludes_is_reported_to_be_there(folder: Path, fatpack: Fatpack) -> None:
    packed(fatpack)
    name = "cuda-nvptx64-nvidia-cuda--sm_90"
    ran = fatpack("extract", "fat.o", "--dry-run", f"--id={name}", "--arch=sm_80")
    assert ran.code == 1
    assert f"({name} is there, but --arch=sm_80 excludes it)" in ran.err


def test_a_planted_link_is_not_followed(folder: Path, fatpack: Fatpack) -> None:
    """With --force files are replaced; a link under such a name stays, and so does what it leads to."""
    packed(fatpack)
    (folder / "out").mkdir()
    (folder / "precious").write_text("precious")
    (folder / "out" / "fat-nvptx64-nvidia-cuda-sm_80.0.cubin").symlink_to("../precious")
    ran = fatpack("extract", "fat.o", "-d", "out", "--force")
    assert ran.code == 2
    assert "sm_80.0.cubin is a symbolic link, and its target would be overwritten" in ran.err
    assert (folder / "precious").read_text() == "precious"
    assert len(list((folder / "out").iterdir())) == 1
